// @ts-check
/**
 * Search, and what is upstream and downstream of a value: fields, buttons and words. What is found is
 * Python's to say (`taxpr_jupyter._view.parts.finding`); the picture shows it.
 *
 * @import { LitSlice, Message, SearchHits } from "./messages.js"
 */

import { button, enters, h, hint, searchField, section, spoken } from "./dom.js";

const TYPED = 40; // milliseconds after the last key: less than between two keys, more than within one

export class Find {
  /**
   * @param {(message: Message) => unknown} send
   * @param {import("./picture.js").Picture} picture
   * @param {[string, string][]} criteria Examples of what a word can be about, and what they find.
   */
  constructor(send, picture, criteria) {
    this.send = send;
    this.picture = picture;
    this.start = ""; // of a path
    this.wanted = ""; // an address to bring into sight once the picture has it
    this.whole = true; // whether nothing is left out
    this.refit = false; // once there is another picture
    this.turn = 0; // of the last hit that was brought into sight
    this.typing = 0;
    this.asked = ""; // the text that Python knows
    this.field = searchField(criteria, {
      "aria-label": "Find in the program",
      placeholder: "Find: dot, f32[*,64], tag:h",
      input: () => this.#typed(),
      keydown: (event) => this.#key(event),
    });
    this.count = spoken("tx-hits");
    this.steps = [
      button("↑", () => this.#step(-1), { "aria-label": "Previous hit", title: "Shift+Enter" }),
      button("↓", () => this.#step(1), { "aria-label": "Next hit", title: "Enter" }),
    ];
    this.every = button("", () => this.#chooseAll(), { title: "Select all hits" });
    this.words = spoken("tx-hint");
    this.only = button("Only this", () => send({ do: "only" }), { title: "Fold everything else" });
    this.all = button("Show all", () => send({ do: "all" }));
    /** Below the picture: what appears there moves no line under the pointer between the two clicks of a double click. */
    this.slice = h("div", { class: "tx-slice", role: "group", "aria-label": "What is highlighted" }, this.words, this.only, this.all);
    const search = h("span", { class: "tx-search" }, this.field, ...this.steps, this.count, this.every);
    this.element = h("div", { class: "tx-find", role: "search", keydown: (event) => this.#escape(event) }, search);
  }

  /** What Python found. @param {SearchHits} found */
  found({ text = "", count = 0, at = 0, address = "", why = "", turn = 0, error = "", note = "", elements = [] }) {
    const focused = document.activeElement;
    this.asked = text;
    if (document.activeElement !== this.field) this.field.value = text;
    const hits = count === 1 ? "1 hit" : `${count.toLocaleString("en")} hits`;
    this.count.textContent = error || (text ? `${at ? `${at} of ${count}` : hits} ${note}`.trim() : "");
    this.count.title = why;
    this.count.classList.toggle("tx-error", Boolean(error));
    for (const step of this.steps) step.toggleAttribute("disabled", !count && !this.field.value);
    this.every.hidden = count < 2 || !this.picture.act.more;
    this.every.textContent = `Select all ${count.toLocaleString("en")}`;
    this.#keepFocus(focused);
    this.picture.found(elements);
    if (turn === this.turn) return;
    this.turn = turn;
    this.wanted = address;
    this.#goOn();
  }

  /** What is traced, or left out. @param {LitSlice} slice */
  sliced({ words = "", elements, edges = [], only = false, whole = true, note = "" }) {
    const focused = document.activeElement;
    this.words.textContent = note ? `${words} ${note}` : words;
    this.words.title = this.words.textContent; // it may be cut
    this.only.hidden = !only;
    this.all.hidden = !words && whole;
    this.slice.hidden = !words && whole;
    this.#keepFocus(focused);
    this.refit ||= this.whole && !whole;
    this.whole = whole;
    this.picture.light(elements ?? null, edges);
  }

  /** A button that goes with its use leaves the focus to the field. */
  #keepFocus(/** @type {Element | null} */ focused) {
    if (![this.element, this.slice].some((part) => part.contains(focused)) || !focused?.closest("[hidden], :disabled")) return;
    this.field.focus({ preventScroll: true });
  }

  /** Brings an element into sight, once the picture has it. @param {string} address */
  bring(address) {
    this.wanted = address;
    this.#goOn();
  }

  /** Brings nothing into sight: its place was not found. */
  giveUp() {
    this.wanted = "";
  }

  /** To be called when there is another picture. */
  shown() {
    if (this.refit) this.picture.fit(false);
    this.refit = false;
    this.#goOn();
  }

  #goOn() {
    if (this.wanted && this.picture.goTo(this.wanted)) this.wanted = "";
  }

  /**
   * What the inspector offers for a place.
   * @param {{ address: string, kind: string }} node
   * @param {() => void} redraw
   */
  offers({ address, kind }, redraw) {
    if (kind === "literal" || kind === "unknown") return null;
    const start = this.start;
    const from = () => {
      this.start = address;
      redraw();
    };
    const to = () => {
      this.start = "";
      this.send({ do: "between", address: start, to: address });
      redraw();
    };
    const here = start && start !== address;
    return section(
      "Paths",
      h(
        "div",
        { class: "tx-paths", role: "group", "aria-label": "Paths" },
        button("Upstream", () => this.send({ do: "upstream", address }), {
          title: "What it depends on",
        }),
        button("Downstream", () => this.send({ do: "downstream", address }), {
          title: "What depends on it",
        }),
        start === address
          ? button("Not from here", () => this.#forget(redraw))
          : button("From here …", from, { title: "Show the path from here to another node" }),
        here ? button("… to here", to, { title: `From ${start}` }) : null,
      ),
      start === address ? hint("Select where the path ends.") : null,
    );
  }

  stop() {
    clearTimeout(this.typing);
  }

  /** @param {() => void} redraw */
  #forget(redraw) {
    this.start = "";
    redraw();
  }

  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.#ask(0), TYPED);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (enters(event)) {
      event.preventDefault();
      if (event.shiftKey) return this.#step(-1);
      clearTimeout(this.typing);
      this.send({ do: "enter", text: this.field.value, step: 1 });
    }
  }

  /** Ends the search, also from its buttons; a second Escape leaves the panel. @param {KeyboardEvent} event */
  #escape(event) {
    if (event.key !== "Escape" || !this.field.value) return;
    event.preventDefault();
    event.stopPropagation();
    this.field.value = "";
    this.field.focus({ preventScroll: true });
    this.#step(0);
  }

  /** @param {number} step */
  #step(step) {
    clearTimeout(this.typing);
    this.#ask(step);
  }

  #chooseAll() {
    if (this.field.value !== this.asked) this.#step(0);
    this.send({ do: "choose" });
  }

  /** @param {number} step */
  #ask(step) {
    this.send({ do: "find", text: this.field.value, step });
  }
}
