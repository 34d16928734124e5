// @ts-check
/**
 * Where the elements of a picture are, in pixels of the picture at scale 1. Each is measured once it is
 * seen, whatever moves later: so nothing waits for a new layout of the page.
 *
 * @typedef {{ x: number, y: number }} Point
 * @typedef {Point & { width: number, height: number }} Box
 */

const PIXELS = 4 / 3; // in a point

/** @param {Box} box */
export const middleOf = ({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 });

export class Boxes {
  /** @param {SVGSVGElement | null} svg */
  constructor(svg) {
    /** @type {Map<Element, Box>} */
    this.known = new Map();
    this.origin = { x: 0, y: 0 };
    this.size = { width: 0, height: 0 }; // of all of it
    this.again(svg);
  }

  /** Looks again, since parts have moved. @param {SVGSVGElement | null} svg */
  again(svg) {
    const { x = 0, y = 0, width = 0, height = 0 } = svg?.viewBox.baseVal ?? {};
    this.origin = { x, y };
    this.size = { width: width * PIXELS, height: height * PIXELS };
    this.known.clear();
  }

  /** Measures all of these now, in one layout of the page: later ones would each wait for what was written. */
  measure(/** @type {Iterable<Element>} */ items) {
    for (const item of items) {
      this.of(item);
      this.title(item);
    }
  }

  /** @param {Element} element @returns {Box} */
  of(element) {
    const before = this.known.get(element);
    if (before) return before;
    const { x, y, width, height } = /** @type {SVGGraphicsElement} */ (element).getBBox();
    const side = element.closest("[transform]"); // of a comparison
    const { e = 0, f = 0 } = side instanceof SVGGElement ? (side.transform.baseVal.consolidate()?.matrix ?? {}) : {};
    const box = {
      x: (x + e - this.origin.x) * PIXELS,
      y: (y + f - this.origin.y) * PIXELS,
      width: width * PIXELS,
      height: height * PIXELS,
    };
    if (width || height) this.known.set(element, box); // else the picture is in no page yet, or hidden
    return box;
  }

  /** Moves a text by so many pixels to the right. @param {SVGTextElement} text @param {number} right */
  shift(text, right) {
    const { x, ...box } = this.of(text);
    this.known.set(text, { x: x + right, ...box });
    text.setAttribute("x", String(Number(text.getAttribute("x")) + right / PIXELS));
    text.classList.add("tx-shifted");
  }

  /** Where an element is looked at: its middle, or that of the title of a frame. @param {Element} item */
  middle(item) {
    const drawn = item.classList.contains("cluster") ? item.querySelector("text") : item;
    return middleOf(this.of(drawn ?? item));
  }

  /** The middle of its first line, which is the same when it opens. @param {Element} item */
  title(item) {
    return middleOf(this.of(item.querySelector("text") ?? item));
  }
}
