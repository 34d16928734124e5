// @ts-check
/**
 * Keeps the titles of frames in sight: one that reaches out of it moves along the upper border of its frame.
 *
 * @import { Box, Boxes } from "./boxes.js"
 */

const MARGIN = 8; // pixels to the border of a frame or of what is in sight

/** Where titles begin while they are in sight. @type {WeakMap<Element, number>} */
const begins = new WeakMap();

/** @param {Element[]} frames @param {Boxes} boxes @param {Box} sight in pixels of the picture at scale 1 */
export function keepTitles(frames, boxes, sight) {
  for (const frame of frames) {
    const box = boxes.of(frame);
    const passes = box.x + box.width < sight.x || sight.x + sight.width < box.x;
    if (passes || box.y + box.height < sight.y || sight.y + sight.height < box.y) continue;
    const title = boxes.lines(frame);
    if (!title) continue;
    const { x, width } = title; // of the longest of its lines
    const own = begins.get(frame) ?? x;
    begins.set(frame, own);
    const [first, last] = [box.x + MARGIN, box.x + box.width - MARGIN - width];
    const seen = Math.max(Math.min(own, sight.x + sight.width - MARGIN - width), sight.x + MARGIN);
    const right = (seen === own ? own : Math.max(Math.min(seen, last), first)) - x;
    if (Math.abs(right) > 0.5) for (const text of frame.querySelectorAll("text")) boxes.shift(text, right);
  }
}
