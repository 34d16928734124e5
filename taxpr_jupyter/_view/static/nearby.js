// @ts-check
/**
 * Which element of a picture is near to another one, and where one begins to read.
 *
 * @import { Point } from "./boxes.js"
 * @typedef {(item: Element) => Point} Where where an element is in the stage
 */

const ROW = 32; // pixels at scale 1: nodes nearer to the topmost one are beside it

/**
 * The nearest element to the right (1) or left (-1), or below (1) or above (-1).
 * @param {Element} item @param {Element[]} items @param {Where} where
 * @param {number} right @param {number} below
 * @returns {Element | undefined}
 */
export function neighbour(item, items, where, right, below) {
  const from = where(item);
  /** @type {Element | undefined} */
  let best;
  let least = Infinity;
  for (const other of items) {
    const to = where(other);
    const ahead = (to.x - from.x) * right + (to.y - from.y) * below;
    const aside = Math.abs((to.x - from.x) * below) + Math.abs((to.y - from.y) * right);
    const cost = ahead + 2 * aside;
    if (ahead > 1 && aside < 2 * ahead && cost < least) [best, least] = [other, cost];
  }
  return best;
}

/**
 * Where a picture too wide to be seen is read from: the topmost node, an input if there is one,
 * and of several the one with the most nodes around it.
 * @param {Element[]} items @param {Where} where @param {Element} stage @param {number} scale
 * @returns {number | null} where that is across the stage
 */
export function startOf(items, where, { clientWidth, clientHeight }, scale) {
  const nodes = items
    .filter((item) => !item.classList.contains("cluster"))
    .map((item) => ({ input: item.classList.contains("input"), at: where(item) }));
  const top = Math.min(...nodes.map(({ at }) => at.y));
  const row = nodes.filter(({ at }) => at.y < top + ROW * scale);
  const inputs = row.filter(({ input }) => input);
  const seen = nodes.filter(({ at }) => at.y < clientHeight);
  let [best, most] = [/** @type {number | null} */ (null), -1];
  for (const { at } of inputs.length ? inputs : row) {
    const near = seen.filter((other) => Math.abs(other.at.x - at.x) < clientWidth / 2).length;
    if (near > most) [best, most] = [at.x, near];
  }
  return best;
}
