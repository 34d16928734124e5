// @ts-check
/**
 * The program before and after the changes, side by side: a picture of its own, with what is
 * different counted above it. What is different is Python's to say (`taxpr_jupyter._view.parts.comparing`).
 *
 * Addresses mean other things on the two sides, so nothing here is selected in the session: an
 * element is shown with its partner, which is what `data-pair` names on the other side.
 *
 * @import { Comparison } from "./messages.js"
 */

import { button, h, spoken } from "./dom.js";
import { Picture } from "./picture.js";

const DIFFERENT = ".node[data-address]:is(.new, .gone, .changed)"; // not those of the legend

export class Compare {
  /** @param {(place: import("./picture.js").View) => void} placed */
  constructor(placed) {
    this.counts = h("ul", { class: "tx-counts", "aria-label": "Differences" });
    this.steps = [
      button("↑", () => this.#step(-1), { "aria-label": "Previous difference" }),
      button("↓", () => this.#step(1), { "aria-label": "Next difference" }),
    ];
    this.words = spoken("tx-hint");
    this.changes = h("ul", { class: "tx-changes", "aria-label": "Changes" });
    this.note = h("p", { class: "tx-note tx-compare-note" });
    this.stage = h("div", { class: "tx-sides" });
    this.text = h("pre", { class: "tx-code", tabindex: "0", "aria-label": "Differences as text" });
    const head = h("div", { class: "tx-compare-head" }, this.counts, ...this.steps, this.words);
    this.panel = h("div", { class: "tx-compare" }, head, this.changes, this.note, this.stage, this.text);
    const act = {
      select: (/** @type {string} */ address) => this.#choose(address ? this.#focused() : null),
      toggle: () => {},
      between: () => this.#choose(this.#focused()),
      placed,
    };
    this.picture = new Picture(this.stage, act, {});
    this.sizes = new ResizeObserver(() => this.picture.resized());
    this.sizes.observe(this.stage);
    this.at = -1;
  }

  /** @param {Comparison} comparison */
  show({ svg = "", changes = [], counts = [], note = "", text = "" }) {
    this.at = -1;
    this.note.textContent = note;
    this.changes.replaceChildren(...changes.map((text) => h("li", {}, text)));
    this.text.textContent = text;
    this.text.hidden = !text;
    this.stage.hidden = Boolean(text);
    this.words.textContent = "";
    this.counts.replaceChildren(
      ...counts.map(({ mark, sign, name, count }) => {
        const words = `${sign} ${count.toLocaleString("en")} ${name}`.trim();
        return h("li", { class: `tx-count tx-count-${mark}` }, words);
      }),
    );
    this.picture.whole = true;
    this.picture.show(svg);
    if (svg) this.picture.fit(true);
    for (const step of this.steps) step.toggleAttribute("disabled", !this.#different().length);
  }

  /** To be called when it has come into sight. */
  shown() {
    if (this.picture.svg) this.picture.resized();
  }

  stop() {
    this.sizes.disconnect();
  }

  /** From left to right in each side, and from the top down. @returns {Element[]} */
  #different() {
    return [...(this.picture.svg?.querySelectorAll(DIFFERENT) ?? [])];
  }

  #focused() {
    return this.stage.querySelector("[data-address]:focus");
  }

  /** @param {number} by */
  #step(by) {
    const found = this.#different();
    if (!found.length) return;
    const first = by > 0 ? 0 : found.length - 1;
    this.at = this.at < 0 ? first : (this.at + by + found.length) % found.length;
    this.picture.goToItem(found[this.at]);
    this.#choose(found[this.at]);
    this.words.textContent = `${this.at + 1} of ${found.length}: ${this.words.textContent}`;
  }

  /** Shows an element with its partner; null: nothing. @param {Element | null} item */
  #choose(item) {
    const partner = item && this.#partner(item);
    for (const other of this.stage.querySelectorAll("[data-address]")) {
      other.setAttribute("aria-selected", String(other === item || other === partner));
    }
    this.words.textContent = item ? this.#described(item, partner) : "";
  }

  /** @param {Element} item */
  #partner(item) {
    const side = item.closest(".before") ? ".after" : ".before";
    const pair = item.getAttribute("data-pair");
    const where = `${side} [data-address="${CSS.escape(pair ?? "")}"]`;
    return pair ? this.stage.querySelector(where) : null;
  }

  /** @param {Element} item @param {Element | null} partner */
  #described(item, partner) {
    const side = item.closest(".before") ? "before" : "after";
    const lines = [...item.querySelectorAll("text")].map((text) => text.textContent?.trim());
    const address = item.getAttribute("data-address");
    const other = partner && `, ${side === "before" ? "after" : "before"}: ${partner.getAttribute("data-address")}`;
    return `${lines.join(" · ")} (${side}: ${address}${other ?? ""})`;
  }
}
