// @ts-check
/**
 * How a picture becomes another one: what is in both goes from where it was to where it is, and what is
 * new grows out of the node that was opened. Nothing waits for it, and who wants less motion sees none.
 *
 * @import { Box, Boxes } from "./boxes.js"
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
 */
export function move(before, svg, items, boxes, place, from) {
  if (!before.size || items.length > MOST) return;
  const timing = { duration: TIME, easing: "ease-out" };
  const unit = place.scale * (4 / 3); // pixels of the screen in one of the picture's coordinates
  const seen = new Set();
  for (const item of items) {
    const name = nameOf(item);
    const is = placed(boxes.of(item), place);
    const was = before.get(name);
    if (was && !seen.has(name)) {
      seen.add(name);
      const [a, b] = [middleOf(was), middleOf(is)];
      const shift = `translate(${(a.x - b.x) / unit}px, ${(a.y - b.y) / unit}px)`;
      const [wide, high] = [was.width / (is.width || 1), was.height / (is.height || 1)];
      if (Math.hypot(a.x - b.x, a.y - b.y) + Math.abs(wide - 1) + Math.abs(high - 1) < 0.5) continue;
      for (const part of item.querySelectorAll("rect, path")) {
        const { style } = /** @type {SVGElement} */ (part);
        style.transformBox = "fill-box";
        style.transformOrigin = "center";
        part.animate([{ transform: `${shift} scale(${wide}, ${high})` }, { transform: "none" }], timing);
      }
      const title = item.classList.contains("cluster")
        ? `translate(${(was.x - is.x) / unit}px, ${(was.y - is.y) / unit}px)`
        : shift;
      for (const text of item.querySelectorAll("text")) text.animate([{ transform: title }, { transform: "none" }], timing);
    } else if (!was) {
      const [a, b] = [middleOf(from ?? is), middleOf(is)];
      const start = `translate(${(a.x - b.x) / unit / 2}px, ${(a.y - b.y) / unit / 2}px)`;
      item.animate([{ opacity: 0, transform: start }, { opacity: 1, transform: "none" }], timing);
    }
  }
  for (const edge of svg.querySelectorAll(".edge")) edge.animate([{ opacity: 0 }, { opacity: 1 }], timing);
}
