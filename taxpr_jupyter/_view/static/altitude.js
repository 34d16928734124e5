// @ts-check
/**
 * What is written in a picture at a zoom, so that no text is smaller than can be read: near, all of it;
 * farther away, the names of frames and of statements, as many as there is room for; then of frames alone.
 *
 * @import { Box, Boxes } from "./boxes.js"
 */

import { svgElement } from "./dom.js";

const READABLE = 9; // pixels of a letter's height
const NODE = 40 / 3; // pixels of the texts in nodes, at scale 1
const EDGE = 32 / 3; // of those at lines
const WIDTH = 0.6; // of a letter, to its height
const STEP = 1.15; // of the zoom, at which names are written again
const NAMED = ".hop, .group, .input, .output, .state, .new, .gone, .changed"; // nodes that have a name when far away
const FRAME = 1.2; // how much larger the names of frames are

/** At this scale the texts of nodes can be read. */
export const LEAST = READABLE / NODE;

/** At this scale all texts can be read. */
export const ALL = READABLE / EDGE;

/** @param {Box} a @param {Box} b */
const meet = (a, b) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

export class Altitude {
  /** @param {SVGSVGElement} svg @param {Boxes} boxes @param {Element[]} items */
  constructor(svg, boxes, items) {
    this.svg = svg;
    this.boxes = boxes;
    this.items = items;
    this.level = 0;
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
    const level = far ? Math.floor(Math.log(scale) / Math.log(STEP)) : 0;
    if (level === this.level) return;
    this.level = level;
    this.names.replaceChildren(...(far ? this.#written(READABLE / STEP ** level) : []));
  }

  /** The names that there is room for, the outermost first. @param {number} size of letters, at scale 1 */
  #written(size) {
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
    for (const item of this.items) if (item.classList.contains("cluster")) write(item, size * FRAME, true);
    for (const item of this.items) if (item.matches(NAMED) && item.matches(".node")) write(item, size, false);
    return names;
  }
}
