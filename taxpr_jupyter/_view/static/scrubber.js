// @ts-check
/**
 * One cursor for all recorded values: sliders for the iteration and for the example, which move picture,
 * source and inspector together. What the values are there is Python's to say (`Session.at`).
 *
 * @import { Empty, RecordedValues } from "./messages.js"
 * @typedef {{ slider: HTMLInputElement, words: HTMLOutputElement, label: HTMLLabelElement, one: string, all: string }} Axis
 */

import { button, h } from "./dom.js";

export class Scrubber {
  /**
   * @param {(asked: { iteration: number, example: number, injectors: boolean, cotangents: boolean }) => void} record Asks
   *   for these; -1 means all.
   */
  constructor(record) {
    const go = (cotangents = false) =>
      record({ iteration: Number(this.iteration.slider.value), example: Number(this.example.slider.value), injectors: this.with.checked, cotangents });
    const axis = (/** @type {string} */ name, /** @type {string} */ one, /** @type {string} */ all) => {
      const slider = h("input", { type: "range", min: "-1", value: "-1", "aria-label": name, input: () => go() });
      const words = h("output", {});
      return { slider, words, label: h("label", { class: "tx-unseen" }, slider, words), one, all };
    };
    /** @type {Axis} */
    this.iteration = axis("Iteration of the loops", "iteration", "all iterations");
    /** @type {Axis} */
    this.example = axis("Example of jax.vmap", "example", "all examples");
    this.run = button("Record values", () => go(), { title: "Run the program, and show what each variable held" });
    this.back = button("Cotangents", () => go(true), { title: "Run the program, and show also the gradient with respect to each variable" });
    this.with = h("input", { type: "checkbox", change: () => go() });
    this.with.checked = true;
    this.both = h("label", { class: "tx-unseen" }, this.with, "with the changes");
    this.of = h("span", { class: "tx-hint" });
    this.element = h("div", { class: "tx-record", role: "group", "aria-label": "Recorded values" }, this.run, this.back, this.both, this.iteration.label, this.example.label, this.of);
  }

  /** @param {RecordedValues | Empty} recorded @param {boolean} differentiable Whether there are cotangents. */
  show(recorded, differentiable) {
    const there = "chips" in recorded;
    this.run.textContent = there ? "Recorded" : "Record values";
    this.run.disabled = there;
    this.back.hidden = !differentiable;
    this.back.disabled = there && recorded.cotangents;
    this.both.classList.toggle("tx-unseen", !there || recorded.injectors === null);
    this.of.textContent = there ? recorded.note : "";
    if (there) this.with.checked = recorded.injectors ?? true;
    move(this.iteration, there ? recorded.iteration : -1, there ? recorded.iterations : 0);
    move(this.example, there ? recorded.example : -1, there ? recorded.examples : 0);
  }
}

/** @param {Axis} axis @param {number} at @param {number} many */
function move({ slider, words, label, one, all }, at, many) {
  label.classList.toggle("tx-unseen", !many);
  slider.max = String(many - 1);
  // What is being dragged is ahead of the kernel.
  if (document.activeElement !== slider || !many) slider.value = String(at);
  words.textContent = at < 0 ? all : `${one} ${at} of 0 to ${many - 1}`;
  slider.setAttribute("aria-valuetext", words.textContent);
}
