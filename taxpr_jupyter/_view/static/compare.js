// @ts-check
/**
 * The program before and after the changes, side by side: a picture of its own, with what is
 * different counted above it. What is different is Python's to say (`taxpr_jupyter._view.parts.comparing`).
 *
 * Addresses mean other things on the two sides, so nothing here is selected in the session: an
 * element is shown with its partner, which is what `data-pair` names on the other side.
 *
 * @import { ComparisonTab } from "./messages.js"
 */

import { button, h, spoken } from "./dom.js";
import { Picture } from "./picture.js";

const NARROW = 900; // pixels of the panel, below which the sides are one above the other
const [GAP, TITLE] = [18, 44]; // between the sides, and above each of them, in units of the picture
const DIFFERENT = ".node[data-address]:is(.new, .gone, .changed)"; // not those of the legend

export class Compare {
  /**
   * @param {(place: import("./picture.js").View) => void} placed
   * @param {import("./panel.js").Send} send
   */
  constructor(placed, send) {
    this.counts = h("ul", { class: "tx-counts", "aria-label": "Differences" });
    this.steps = [
      button("↑", () => this.#step(-1), { "aria-label": "Previous difference" }),
      button("↓", () => this.#step(1), { "aria-label": "Next difference" }),
    ];
    this.words = spoken("tx-hint");
    this.changes = h("ul", { class: "tx-changes", tabindex: "0", "aria-label": "Changes" });
    this.note = h("p", { class: "tx-note tx-compare-note" });
    this.stage = h("div", { class: "tx-sides" });
    this.text = h("pre", { class: "tx-code", tabindex: "0", "aria-label": "Differences as text" });
    const head = h("div", { class: "tx-compare-head" }, this.counts, ...this.steps, this.words);
    this.panel = h("div", { class: "tx-compare" }, head, this.changes, this.note, this.stage, this.text);
    const act = {
      select: (/** @type {string} */ address) => this.#choose(address ? this.#focused() : null),
      toggle: (/** @type {string} */ address) => {
        const side = this.touched?.closest(".before") ? "before" : "after";
        send({ do: "toggleBoth", address, side });
      },
      placed,
    };
    this.picture = new Picture(this.stage, act, {});
    /** The element that was touched last, which tells of which side an address is. @type {Element | null} */
    this.touched = null;
    for (const event of ["focusin", "pointerdown"]) {
      this.stage.addEventListener(event, ({ target }) => {
        if (target instanceof Element) this.touched = target;
      });
    }
    this.narrow = false;
    this.sizes = new ResizeObserver(() => {
      if (this.#isNarrow() === this.narrow) return this.picture.resized();
      this.#arrange();
      this.#begin();
    });
    this.sizes.observe(this.stage);
    this.at = -1;
  }

  /** @param {ComparisonTab} comparison */
  show({ svg = "", changes = [], counts = [], note = "", text = "", refolded = false }) {
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
    this.picture.whole = false;
    this.picture.show(svg);
    this.#arrange();
    if (svg && !refolded) this.#begin();
    for (const step of this.steps) step.toggleAttribute("disabled", !this.#different().length);
  }

  /** To be called when it has come into sight. */
  shown() {
    if (!this.picture.svg) return;
    this.#arrange();
    if (this.at < 0) this.#begin();
  }

  stop() {
    this.sizes.disconnect();
  }

  #isNarrow() {
    return this.stage.clientWidth > 0 && this.stage.clientWidth < NARROW;
  }

  /** Where there is little room, one side above the other; else the first change of both at one height. */
  #arrange() {
    const { svg } = this.picture;
    if (!svg || !this.stage.clientWidth) return;
    const [one, other] = /** @type {SVGGElement[]} */ ([...svg.querySelectorAll("g.compared:is(.before, .after)")]);
    const titles = /** @type {SVGTextElement[]} */ ([...svg.querySelectorAll("text.side-title")]);
    const legend = /** @type {SVGGElement} */ (svg.querySelector("g.legend")).getBBox();
    this.narrow = this.#isNarrow();
    const boxes = [one.getBBox(), other.getBBox()];
    const wide = boxes.map(({ width }, k) => Math.max(width, titles[k].getBBox().width));
    const top = legend.y + legend.height + TITLE;
    const below = this.narrow ? [0, boxes[0].height + TITLE] : this.#level(one, other, boxes);
    const left = [GAP, this.narrow ? GAP : 3 * GAP + wide[0]];
    for (const [k, side] of [one, other].entries()) {
      const [x, y] = [left[k] + (wide[k] - boxes[k].width) / 2, top + below[k]];
      side.setAttribute("transform", `translate(${x - boxes[k].x} ${y - boxes[k].y})`);
      titles[k].setAttribute("x", String(left[k] + wide[k] / 2));
      titles[k].setAttribute("y", String(y - 14));
    }
    const width = GAP + Math.max(legend.x + legend.width, ...left.map((x, k) => x + wide[k]));
    const height = GAP + top + Math.max(...below.map((y, k) => y + boxes[k].height));
    const between = this.narrow ? "" : `M${2 * GAP + wide[0]} ${top - TITLE / 2}V${height - GAP}`;
    svg.querySelector(".between")?.setAttribute("d", between);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", String((width * 4) / 3));
    svg.setAttribute("height", String((height * 4) / 3));
    this.picture.rearranged(svg);
  }

  /**
   * How far each side is moved down, so that the first change that both have is at one height.
   * @param {SVGGElement} one @param {SVGGElement} other @param {DOMRect[]} boxes
   */
  #level(one, other, boxes) {
    const changed = /** @type {SVGGElement[]} */ ([...one.querySelectorAll(DIFFERENT)]);
    const item = changed.find((found) => this.#partner(found));
    const partner = /** @type {SVGGElement | null} */ (item ? this.#partner(item) : null);
    if (!item || !partner || !other.contains(partner)) return [0, 0];
    const [here, there] = [item, partner].map((part, k) => part.getBBox().y - boxes[k].y);
    return [Math.max(0, there - here), Math.max(0, here - there)];
  }

  /** Begins at the first difference, large enough to be read, where not all of it can be. */
  #begin() {
    const [item] = this.#different();
    this.picture.fit(false);
    if (item && this.stage.clientWidth) this.picture.bring(item);
    this.picture.used = true; // so that a new size of the stage keeps it in sight
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
