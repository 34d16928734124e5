// @ts-check
/**
 * Chips of recorded values upon a picture: below the nodes that give them, and at lines. They are no part of
 * the picture, so that a copy of it has none.
 *
 * @import { Box, Boxes, Point } from "./boxes.js"
 * @import { View } from "./picture.js"
 */

import { LEAST, meet } from "./altitude.js";
import { h } from "./dom.js";

const PIXELS = 4 / 3; // in a point
const HEIGHT = 18; // of a chip

export class Badges {
  /** @param {HTMLElement} stage */
  constructor(stage) {
    /** @type {HTMLElement | null} */
    this.pointed = null;
    this.layer = h("div", { class: "tx-badges", "aria-hidden": "true" });
    stage.append(this.layer);
  }

  /**
   * Shows other chips. One that would lie on another is brief, and is left out where that does not help.
   * @param {[HTMLElement, Point][]} chips Each with the middle of its upper side, in pixels at scale 1; first those
   *   that matter most.
   */
  show(chips) {
    for (const [chip, { x, y }] of chips) {
      chip.style.left = `${x.toFixed(1)}px`;
      chip.style.top = `${y.toFixed(1)}px`;
    }
    this.layer.replaceChildren(...chips.map(([chip]) => chip));
    const sizes = (/** @type {HTMLElement[]} */ some) => new Map(some.map((chip) => [chip, chip.offsetWidth]));
    /** @type {Box[]} */
    const taken = [];
    const left = (/** @type {[HTMLElement, Point][]} */ some) => {
      const widths = sizes(some.map(([chip]) => chip)); // all before anything moves
      return some.filter(([chip, { x, y }]) => {
        const width = widths.get(chip) ?? 0;
        const box = { x: x - width / 2, y, width, height: HEIGHT };
        const meets = taken.some((other) => meet(box, other));
        if (!meets) taken.push(box);
        return meets;
      });
    };
    const brief = left(chips);
    for (const [chip] of brief) chip.classList.add("tx-brief");
    for (const [chip] of left(brief)) chip.classList.add("tx-hidden");
  }

  /** Shows all of one chip above the others; null: of none. @param {HTMLElement | null} chip @param {Point} at */
  point(chip, { x, y }) {
    this.pointed?.remove();
    this.pointed = chip;
    if (!chip) return;
    chip.classList.add("tx-pointed");
    chip.style.left = `${x.toFixed(1)}px`;
    chip.style.top = `${y.toFixed(1)}px`;
    this.layer.append(chip);
  }

  /** To be called when the picture has moved. @param {View} place */
  at({ x, y, scale }) {
    this.layer.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.layer.hidden = scale < LEAST; // then no text can be read
  }
}

/** Where the chip of a node is: at its lower border. @param {Element} item @param {Boxes} boxes @returns {Point} */
export function below(item, boxes) {
  const { x, y, width, height } = boxes.of(item);
  return { x: x + width / 2, y: y + height - 1 };
}

/** The middle of a line. @param {Element} edge @param {Boxes} boxes @returns {Point | null} */
export function along(edge, boxes) {
  const path = edge.querySelector("path");
  if (!path) return null;
  const { x, y } = path.getPointAtLength(path.getTotalLength() / 2);
  return { x: (x - boxes.origin.x) * PIXELS, y: (y - boxes.origin.y) * PIXELS - HEIGHT / 2 };
}
