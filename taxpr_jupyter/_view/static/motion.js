// @ts-check
/**
 * How a picture becomes another one: what is in both goes from where it was to where it is, and what is
 * new grows out of the node that was opened. Nothing waits for it, and who wants less motion sees none.
 *
 * @import { Box, Boxes, Point } from "./boxes.js"
 * @import { View } from "./picture.js"
 */

import { middleOf } from "./boxes.js";

const TIME = 160; // milliseconds
const MOST = 250; // elements; of more, nobody can follow any
const CALM = "(prefers-reduced-motion: reduce)";

/** @param {Element} item what it is, in both pictures: a node and its frame once it is open are the same */
const nameOf = (item) => item.getAttribute("data-fold") ?? item.getAttribute("data-address") ?? "";

/** @param {Box} box @param {View} place @returns {Box} in pixels of the stage */
const placed = ({ x, y, width, height }, { x: left, y: top, scale }) => ({
  x: left + x * scale,
  y: top + y * scale,
  width: width * scale,
  height: height * scale,
});

/**
 * @param {Element[]} items @param {Boxes} boxes @param {View} place
 * @returns {Map<string, Box>} where they are on the stage; the outermost of a name
 */
export function places(items, boxes, place) {
  const found = new Map();
  if (items.length > MOST || matchMedia(CALM).matches) return found;
  for (const item of items) {
    const name = nameOf(item);
    if (!found.has(name)) found.set(name, placed(boxes.of(item), place));
  }
  return found;
}

/**
 * Shows the way from these places to the new ones.
 * @param {Map<string, Box>} before @param {SVGSVGElement} svg @param {Element[]} items
 * @param {Boxes} boxes @param {View} place @param {Box | undefined} from where new elements come from
 * @param {HTMLElement} stage What is out of its sight before and after does not move.
 */
export function move(before, svg, items, boxes, place, from, stage) {
  if (!before.size || items.length > MOST) return;
  const { clientWidth, clientHeight } = stage;
  const inSight = (/** @type {Box | undefined} */ box) =>
    box && box.x + box.width > 0 && box.y + box.height > 0 && box.x < clientWidth && box.y < clientHeight;
  const unit = place.scale * (4 / 3); // pixels of the screen in one of the picture's coordinates
  const shift = (/** @type {Point} */ to, /** @type {Point} */ was, half = 1) =>
    `translate(${(was.x - to.x) / unit / half}px, ${(was.y - to.y) / unit / half}px)`;
  const timing = { duration: TIME, easing: "ease-out" };
  // The browser makes a layer for each element that moves, so these are few; and it reads before it writes.
  /** @type {[Element, Keyframe][]} */
  const moves = [];
  const seen = new Set();
  for (const item of items) {
    const name = nameOf(item);
    const is = placed(boxes.of(item), place);
    const was = before.get(name);
    if (!inSight(is) && !inSight(was)) continue;
    if (!was) moves.push([item, { opacity: 0, transform: shift(middleOf(is), middleOf(from ?? is), 2) }]);
    if (!was || seen.has(name)) continue;
    seen.add(name);
    const [a, b] = [middleOf(was), middleOf(is)];
    const [wide, high] = [was.width / (is.width || 1), was.height / (is.height || 1)];
    const grown = Math.abs(wide - 1) + Math.abs(high - 1);
    if (Math.hypot(a.x - b.x, a.y - b.y) + grown < 0.5) continue;
    if (grown < 0.01) {
      moves.push([item, { transform: shift(b, a) }]);
      continue;
    }
    for (const part of item.querySelectorAll("rect, path")) {
      moves.push([part, { transform: `${shift(b, a)} scale(${wide}, ${high})`, transformBox: "fill-box", transformOrigin: "center" }]);
    }
    const title = item.classList.contains("cluster") ? shift(is, was) : shift(b, a);
    for (const text of item.querySelectorAll("text")) moves.push([text, { transform: title }]);
  }
  for (const edges of svg.querySelectorAll(".tx-edges")) moves.push([edges, { opacity: 0 }]);
  for (const [part, { transformBox, transformOrigin, ...start }] of moves) {
    Object.assign(/** @type {SVGElement} */ (part).style, transformBox ? { transformBox, transformOrigin } : {});
    const end = { ..."opacity" in start && { opacity: 1 }, ..."transform" in start && { transform: "none" } };
    part.animate([start, end], timing);
  }
}
