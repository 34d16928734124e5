// @ts-check
/**
 * One cursor for all recorded values: sliders for the iteration and for the example, which move picture,
 * source and inspector together. What the values are there is Python's to say (`Session.at`).
 *
 * @import { Held } from "./held.js"
 * @import { Message, WatchedExpression } from "./messages.js"
 * @typedef {{ slider: HTMLInputElement, words: HTMLOutputElement, label: HTMLLabelElement, one: string, all: string }} Axis
 */

import { button, enters, fill, h, textField } from "./dom.js";

export class Scrubber {
  /**
   * @param {(asked: { iteration: number, example: number, injectors: boolean, cotangents: boolean }) => void} record Asks
   *   for these; -1 means all.
   * @param {(message: Message) => void} send
   */
  constructor(record, send) {
    this.send = send;
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
    this.field = textField({
      "aria-label": "Watch an expression",
      placeholder: "watch, as jnp.abs(h).max()",
      title: "An expression of recorded variables, computed for each iteration and example",
      // Not by a form: JupyterLab keeps Enter from submitting one.
      keydown: (event) => enters(event) && this.field.value.trim() && send({ do: "watchExpression", address: this.field.value }),
    });
    this.typed = h("span", { class: "tx-unseen" }, this.field);
    this.list = h("ul", { class: "tx-watched", "aria-label": "Watched expressions" });
    this.element = h("div", { class: "tx-record", role: "group", "aria-label": "Recorded values" }, this.run, this.back, this.both, this.iteration.label, this.example.label, this.typed, this.list, this.of);
  }

  /**
   * @param {Held} held @param {boolean} differentiable Whether there are cotangents.
   * @param {WatchedExpression[]} expressions
   */
  show(held, differentiable, expressions) {
    const { recorded } = held;
    const there = "chips" in recorded;
    const current = there && !recorded.past;
    this.run.textContent = current ? "Recorded" : "Record values";
    this.run.disabled = current;
    this.typed.classList.toggle("tx-unseen", !there);
    if (expressions.some(({ text }) => text === this.field.value.trim())) this.field.value = "";
    fill(this.list, expressions.map(({ text, mistake }) => {
      const gone = button("×", () => this.send({ do: "unwatchExpression", address: text }), { class: "tx-button tx-close", "aria-label": `Watch ${text} no longer` });
      return h("li", {}, h("code", {}, text), held.chip(`= ${text}`), mistake ? h("span", { class: "tx-error" }, mistake) : null, gone);
    }));
    this.back.hidden = !differentiable;
    this.back.disabled = current && recorded.cotangents;
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
