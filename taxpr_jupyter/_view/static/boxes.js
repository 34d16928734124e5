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
    /** Where the texts that were moved begin in the drawing. @type {WeakMap<Element, number>} */
    this.drawn = new WeakMap();
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
    const at = Number(text.getAttribute("x"));
    const drawn = this.drawn.get(text) ?? at;
    const to = at + right / PIXELS;
    this.drawn.set(text, drawn);
    text.setAttribute("x", String(to));
    text.classList.toggle("tx-shifted", Math.abs(to - drawn) > 0.1);
  }

  /** Where all the lines of the title of a frame are; null if it has none. @param {Element} frame @returns {Box | null} */
  lines(frame) {
    const [first, ...more] = [...frame.querySelectorAll("text")].map((text) => this.of(text));
    if (!first) return null;
    const end = (/** @type {Box} */ { x, y, width, height }) => ({ x: x + width, y: y + height });
    return more.reduce((all, line) => {
      const [x, y] = [Math.min(all.x, line.x), Math.min(all.y, line.y)];
      const [a, b] = [end(all), end(line)];
      return { x, y, width: Math.max(a.x, b.x) - x, height: Math.max(a.y, b.y) - y };
    }, first);
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
