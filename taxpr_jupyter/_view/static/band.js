// @ts-check
/**
 * A rubber band: a rectangle that one draws over a picture to select what it meets.
 *
 * @import { Box } from "./boxes.js"
 * @import { Point } from "./boxes.js"
 */

import { h } from "./dom.js";

export class Band {
  /** @param {HTMLElement} stage @param {Point} start In the window. */
  constructor(stage, start) {
    this.stage = stage;
    this.start = start;
    this.end = start;
    this.element = h("div", { class: "tx-band", "aria-hidden": "true" });
    stage.append(this.element);
  }

  /** @param {Point} end In the window. */
  to(end) {
    this.end = end;
    const { x, y, width, height } = this.box;
    Object.assign(this.element.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  }

  /** Where it is in the stage. @returns {Box} */
  get box() {
    const { left, top } = this.stage.getBoundingClientRect();
    const [a, b] = [this.start, this.end];
    const [width, height] = [Math.abs(a.x - b.x), Math.abs(a.y - b.y)];
    const { clientLeft, clientTop } = this.stage; // its border
    return { x: Math.min(a.x, b.x) - left - clientLeft, y: Math.min(a.y, b.y) - top - clientTop, width, height };
  }

  /** Whether it meets a box in the stage. @param {Box} other */
  meets(other) {
    const { x, y, width, height } = this.box;
    return other.x < x + width && x < other.x + other.width && other.y < y + height && y < other.y + other.height;
  }

  gone() {
    this.element.remove();
  }
}
