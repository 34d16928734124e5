// @ts-check
/**
 * The texts of a picture at a zoom, so that none is smaller than can be read: near, all of them; farther
 * away, the names of frames, of statements and of equations, as many as there is room for.
 *
 * @import { Box, Boxes } from "./boxes.js"
 */

import { svgElement } from "./dom.js";

const READABLE = 9; // pixels of a letter's height
const NODE = 12; // of the smallest texts in nodes, at scale 1
const EDGE = 32 / 3; // of those at lines
const WIDTH = 0.6; // of a letter, to its height
const STEP = 1.15; // of the zoom, at which names are written again
const NAMED = ".hop, .group, .input, .output, .state, .new, .gone, .changed"; // nodes whose names come first
const FRAME = 1.2; // how much larger the names of frames are

/** At this scale the texts of nodes can be read. */
export const LEAST = READABLE / NODE;

/** At this scale all texts can be read. */
export const ALL = READABLE / EDGE;

/** @param {Box} a @param {Box} b */
export const meet = (a, b) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

export class Altitude {
  /** @param {SVGSVGElement} svg @param {Boxes} boxes @param {Element[]} items */
  constructor(svg, boxes, items) {
    this.svg = svg;
    this.boxes = boxes;
    this.items = items;
    this.level = 0;
    this.far = false;
    const { x, y } = boxes.origin;
    this.names = svgElement("g", { class: "tx-names", transform: `translate(${x} ${y}) scale(0.75)`, "aria-hidden": "true" });
    svg.append(this.names);
  }

  /** Writes all again at the next zoom, since parts have moved. */
  again() {
    this.level = NaN;
  }

  /** To be called when the zoom has changed. @param {number} scale */
  at(scale) {
    this.svg.classList.toggle("tx-lines-far", scale < ALL - 1e-6);
    const far = scale < LEAST - 1e-6;
    this.svg.classList.toggle("tx-far", far);
    const level = scale < ALL - 1e-6 ? Math.floor(Math.log(scale) / Math.log(STEP)) : 0;
    if (level === this.level && far === this.far) return;
    this.level = level;
    this.far = far;
    this.names.replaceChildren(...(level ? this.#written(READABLE / STEP ** level, far) : []));
  }

  /**
   * The names that there is room for, the outermost first: of twins, and of all that is drawn if it is far.
   * @param {number} size of letters, at scale 1 @param {boolean} far
   */
  #written(size, far) {
    /** @type {Box[]} */
    const taken = [];
    /** @type {SVGElement[]} */
    const names = [];
    const write = (/** @type {Element} */ item, /** @type {number} */ letter, /** @type {boolean} */ frame) => {
      const box = this.boxes.of(item);
      const name = item.querySelector("text")?.textContent?.trim() ?? "";
      const room = Math.floor((box.width - (frame ? letter : 0)) / (letter * WIDTH));
      const text = name.length > room ? `${name.slice(0, room - 1).trimEnd()}…` : name;
      if (!name || (room < name.length && room < 5) || box.height < letter) return;
      const width = text.length * letter * WIDTH;
      const x = frame ? box.x + letter / 2 : box.x + (box.width - width) / 2;
      const y = frame ? box.y + letter * 0.1 : box.y + (box.height - letter) / 2;
      const own = { x, y, width, height: letter * 1.1 };
      if (taken.some((other) => meet(own, other))) return;
      taken.push(own);
      const place = { x: String(x), y: String(y + 0.85 * letter), "font-size": String(letter) };
      const element = svgElement("text", { ...place, "text-anchor": "start", class: frame ? "tx-frame" : "" });
      element.textContent = text;
      names.push(element);
    };
    if (far) {
      for (const item of this.items) if (item.classList.contains("cluster")) write(item, size * FRAME, true);
      const nodes = this.items.filter((item) => item.matches(".node"));
      for (const named of [true, false])
        for (const item of nodes) if (item.matches(NAMED) === named) write(item, size, false);
    }
    for (const twin of this.svg.querySelectorAll(".twin")) write(twin, size, false);
    return names;
  }
}
