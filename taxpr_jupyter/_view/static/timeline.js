// @ts-check
/**
 * The memory over the steps of a program: a strip with a slider, which the picture follows.
 *
 * @import { Empty, Timeline as Shown } from "./messages.js"
 */

import { h, svgElement } from "./dom.js";

const HEIGHT = 100; // of the drawing; its width is the number of steps

export class Timeline {
  /** @param {(alive: string[] | null, now: string[]) => void} follow Called with the elements to mark. */
  constructor(follow) {
    this.follow = follow;
    /** @type {Shown | null} */
    this.shown = null;
    this.loops = svgElement("path", { class: "tx-time-loops" });
    this.area = svgElement("path", { class: "tx-time-bytes" });
    this.now = svgElement("path", { class: "tx-time-now" });
    this.svg = svgElement("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, this.loops, this.area, this.now);
    this.slider = h("input", { type: "range", min: "0", "aria-label": "Step of the program", input: () => this.#go() });
    this.words = h("output", { class: "tx-time-words" });
    this.element = h("div", { class: "tx-timeline", role: "group", "aria-label": "Memory over the steps of the program" },
      h("div", { class: "tx-strip" }, this.svg, this.slider), this.words);
    this.element.hidden = true;
  }

  /** @param {Shown | Empty} shown */
  show(shown) {
    const before = this.shown;
    this.shown = "at" in shown ? shown : null;
    this.element.hidden = !this.shown;
    if (!this.shown) return this.follow(null, []);
    const { at, bytes, loops } = this.shown;
    const most = Math.max(...bytes, 1);
    const last = at.length - 1;
    const y = (/** @type {number} */ size) => (HEIGHT - (0.95 * HEIGHT * size) / most).toFixed(1);
    const place = (/** @type {number} */ step) => at.filter((one) => one < step).length;
    this.svg.setAttribute("viewBox", `0 0 ${last} ${HEIGHT}`);
    this.area.setAttribute("d", `M0 ${HEIGHT}${bytes.map((size, k) => `L${k} ${y(size)}`).join("")}L${last} ${HEIGHT}z`);
    this.loops.setAttribute("d", loops.map(([begin, end]) => `M${place(begin)} 0H${place(end)}V${HEIGHT}H${place(begin)}z`).join(""));
    this.slider.max = String(last);
    const same = before?.at.length === at.length && before.bytes.every((size, k) => size === bytes[k]);
    if (!same) this.slider.value = String(bytes.indexOf(most));
    this.#go();
  }

  #go() {
    if (!this.shown) return;
    const { at, words, steps, lives, elements } = this.shown;
    const k = Number(this.slider.value);
    const alive = lives.filter(([, begin, end]) => begin <= at[k] && at[k] <= end).map(([element]) => elements[element]);
    this.words.textContent = words[k];
    this.slider.setAttribute("aria-valuetext", words[k]);
    this.now.setAttribute("d", `M${k} 0V${HEIGHT}`);
    this.follow(alive, steps[k].map((element) => elements[element]));
  }
}
