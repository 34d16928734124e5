// @ts-check
/**
 * A program in the page as rows of text, which is a tree for the keyboard and for screen readers;
 * and the tabs that choose between this and the picture.
 *
 * It knows nothing of Jupyter. All texts are hostile and enter the page as text nodes only.
 *
 * @import { Message, TextRow, TextRows, Traits } from "./messages.js"
 * @typedef {{ name: Traits["view"], title: string, panel: HTMLElement, shown: () => void,
 *   beside?: HTMLElement }} Tab with the panel of another tab that is shown beside its own
 */

import { outward } from "./address.js";
import { h, hint } from "./dom.js";

const TYPE_AHEAD = 700; // milliseconds in which letters are one word

/** @type {Record<string, string>} */
const SPOKEN = { backward: "backward pass", added: "added here" };

let made = 0;
/** An id that no other element of the page has: each panel loads this module anew. */
const newId = () => `tx-${Math.random().toString(36).slice(2)}-${made++}`;

/** Buttons of which one is chosen, each with a part of the page that is then shown. */
export class Tabs {
  /**
   * @param {string} label
   * @param {(name: Traits["view"]) => void} choose Called when the user has chosen.
   * @param {Tab[]} tabs
   */
  constructor(label, choose, tabs) {
    this.tabs = tabs;
    this.list = h("div", { class: "tx-tabs", role: "tablist", "aria-label": label });
    this.buttons = tabs.map(({ name, title, panel, beside }) => {
      panel.classList.toggle("tx-beside", Boolean(beside));
      panel.id ||= newId();
      const id = newId();
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", id);
      const more = { role: "tab", id, "aria-controls": panel.id, click: () => choose(name) };
      return h("button", { type: "button", class: "tx-tab", ...more }, title);
    });
    this.list.append(...this.buttons);
    this.list.addEventListener("keydown", (event) => {
      const at = this.buttons.findIndex((button) => button === event.target);
      const last = tabs.length - 1;
      /** @type {Record<string, number>} */
      const keys = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at ? at - 1 : last };
      const to = { ...keys, Home: 0, End: last }[event.key];
      if (at < 0 || to === undefined) return;
      choose(tabs[to].name);
      this.buttons[to].focus();
      event.preventDefault();
    });
  }

  show(/** @type {string} */ name) {
    const beside = this.tabs.find((tab) => tab.name === name)?.beside;
    this.tabs.forEach(({ name: own, panel, shown }, k) => {
      const chosen = own === name;
      this.buttons[k].setAttribute("aria-selected", String(chosen));
      this.buttons[k].setAttribute("tabindex", chosen ? "0" : "-1");
      // Not display: none, so that the picture keeps its size and with it the place of the others.
      panel.classList.toggle("tx-unseen", !chosen && panel !== beside);
      if (chosen) shown();
    });
  }
}

/** Words that are heard and not seen. @param {string} words */
const heard = (words) => h("span", { class: "tx-heard" }, words);

/** "a → b", in which the arrow is heard as a word. @param {string} text */
const spokenArrow = (text) =>
  text.split("→").flatMap((part, k) => (k ? [h("span", { "aria-hidden": "true" }, "→"), heard("gives"), part] : [part]));

export class Lines {
  /**
   * @param {string} label
   * @param {"tx-text" | "tx-outline"} name The class of the panel. Spans of text have their spaces
   *   in them; in the outline they stand apart.
   * @param {{ select(address: string): void, more?(addresses: string[], keep: boolean): void,
   *   send(message: Message): unknown }} act What to call when something has happened; without `more`
   *   one row can be selected at most.
   */
  constructor(label, name, act) {
    this.act = act;
    this.isCode = name === "tx-text";
    this.selected = "";
    /** @type {string[]} What else is selected. */
    this.chosen = [];
    this.sought = { text: "", at: 0 };
    /** @type {string[] | null} */
    this.lit = null;
    /** @type {TextRow[]} */
    this.rows = [];
    /** @type {HTMLElement[]} */
    this.items = [];
    /** @type {Element[]} What in the rows has an address of its own. */
    this.spans = [];
    /** @type {HTMLElement | undefined} The row that the Tab key reaches. */
    this.reachable = undefined;
    this.note = h("p", { class: "tx-note tx-lines-note", role: "note" });
    this.tree = h("div", { class: "tx-tree", role: "tree", "aria-label": label, "aria-multiselectable": String(Boolean(act.more)) });
    this.tail = hint("", { class: "tx-hint tx-lines-note" });
    this.panel = h("div", { class: `tx-lines ${name}` }, this.note, this.tree, this.tail);
    this.tree.addEventListener("click", (event) => this.#click(event));
    this.tree.addEventListener("dblclick", (event) => {
      const row = this.rows[this.#at(event.target)];
      if (row?.fold && !this.#isTwist(event.target)) this.#toggle(row);
    });
    this.tree.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Shows these rows; the focus stays on the row where it was, or on what that is folded into. */
  show(/** @type {TextRows} */ { note, more, rows }) {
    const focused = this.tree.contains(document.activeElement) ? this.#at(document.activeElement) : -1;
    const { scrollTop } = this.panel;
    const before = this.rows[focused];
    this.rows = rows;
    this.items = rows.map((row) => this.#draw(row));
    this.#count();
    this.note.textContent = note;
    this.tail.textContent = more
      ? `… ${more.toLocaleString("en")} more lines: fold some of these. In Python, session.text(folded=True) has all.`
      : "";
    this.tree.replaceChildren(...this.items);
    this.spans = [...this.tree.querySelectorAll("[data-address]")];
    this.light(this.lit);
    this.select(this.selected);
    this.panel.scrollTop = scrollTop;
    if (before) this.#focus(Math.max(0, this.#nearest(before.address, before.fold)));
    else this.reveal();
  }

  /** Marks what stands for this address, or else what it is in. */
  select(/** @type {string} */ address) {
    this.selected = address;
    const shown = this.#nearest(address);
    const exact = this.rows[shown]?.address === address;
    const all = new Set(this.chosen);
    this.items.forEach((item, k) => {
      const own = this.rows[k].address;
      const chosen = String(own !== "" && ((exact && own === address) || all.has(own)));
      if (item.getAttribute("aria-selected") !== chosen) item.setAttribute("aria-selected", chosen);
      item.classList.toggle("tx-holds", k === shown && !exact);
    });
    for (const span of this.spans) {
      span.classList.toggle("tx-chosen", address !== "" && span.getAttribute("data-address") === address);
    }
    if (this.tree.contains(document.activeElement)) return;
    this.#makeReachable(Math.max(0, shown));
    this.reveal();
  }

  /** Marks what stands for these addresses as selected, too. @param {string[]} addresses */
  choose(addresses) {
    this.chosen = addresses;
    this.select(this.selected);
  }

  /** Pales all but what stands for these addresses, or holds one; null: nothing. */
  light(/** @type {string[] | null} */ addresses) {
    if (!addresses && !this.lit) return;
    this.lit = addresses;
    const lit = new Set(addresses);
    for (const one of addresses ?? []) {
      // An open equation has no element in the picture, but what is in it has.
      for (const outer of outward(one)) lit.add(outer);
    }
    this.rows.forEach(({ address }, k) => {
      const pale = addresses !== null && address !== "" && !lit.has(address);
      this.items[k].classList.toggle("tx-pale", pale);
    });
  }

  /** Moves what is selected into sight. */
  reveal() {
    const span = this.tree.querySelector(".tx-chosen");
    const item = span ?? this.items[this.#nearest(this.selected)];
    if (!item) return;
    const [box, sight] = [item.getBoundingClientRect(), this.panel.getBoundingClientRect()];
    if (!sight.height || (box.top >= sight.top && box.bottom <= sight.bottom)) return;
    // Not scrollIntoView, which would scroll the page as well.
    this.panel.scrollTop += box.top - sight.top - sight.height / 3;
  }

  /** @param {TextRow} row */
  #draw({ address, depth, kind, marks, fold, open, spans }) {
    const item = h("div", {
      role: "treeitem",
      class: ["tx-row", kind, ...marks].join(" "),
      tabindex: "-1",
      "aria-level": String(depth + 1),
      "aria-selected": "false",
      "data-row": address,
      "data-lm-suppress-shortcuts": "true",
    });
    item.style.setProperty("--depth", String(depth));
    const said = marks.flatMap((mark) => SPOKEN[mark] ?? []);
    if (this.isCode) item.setAttribute("aria-label", [spans.map(([text]) => text).join("").trim(), ...said].join(", "));
    if (fold) item.setAttribute("aria-expanded", String(open));
    item.append(h("span", { class: fold ? "tx-twist" : "tx-no-twist", "aria-hidden": "true" }));
    for (const [text, what, own] of spans) {
      if (!this.isCode && item.children.length > 1) item.append(heard(", "));
      const words = this.isCode ? [text] : spokenArrow(text);
      const span = h("span", what ? { class: `tx-is-${what}` } : {}, ...words);
      if (own) span.setAttribute("data-address", own);
      item.append(span);
    }
    if (!this.isCode) item.append(...said.map((words) => heard(`, ${words}`)));
    return item;
  }

  /** Says of each row which one it is of how many side by side. */
  #count() {
    /** @type {HTMLElement[][]} */
    const open = [];
    const close = (/** @type {number} */ depth) => {
      for (const siblings of open.splice(depth)) {
        siblings?.forEach((item, k) => {
          item.setAttribute("aria-setsize", String(siblings.length));
          item.setAttribute("aria-posinset", String(k + 1));
        });
      }
    };
    this.rows.forEach(({ depth }, k) => {
      close(depth + 1);
      (open[depth] ??= []).push(this.items[k]);
    });
    close(0);
  }

  /** The index of the row of an element, or -1. */
  #at(/** @type {EventTarget | null} */ target) {
    const item = target instanceof Element ? target.closest("[role=treeitem]") : null;
    return item ? this.items.indexOf(/** @type {HTMLElement} */ (item)) : -1;
  }

  #isTwist(/** @type {EventTarget | null} */ target) {
    return target instanceof Element && target.classList.contains("tx-twist");
  }

  /** The row of an address, or of the first of the others, or of what it is in; or -1. */
  #nearest(/** @type {string} */ address, /** @type {string[]} */ ...others) {
    const index = (/** @type {string} */ wanted) =>
      this.rows.findIndex(
        (row) => row.address === wanted || row.spans.some(([, , own]) => own === wanted),
      );
    for (const one of address ? outward(address) : []) {
      const found = index(one);
      if (found >= 0) return found;
    }
    return others.length && others[0] ? index(others[0]) : -1;
  }

  #makeReachable(/** @type {number} */ at) {
    this.reachable?.setAttribute("tabindex", "-1");
    this.reachable = this.items[at];
    this.reachable?.setAttribute("tabindex", "0");
  }

  #focus(/** @type {number} */ at) {
    const item = this.items[at];
    if (!item) return;
    this.#makeReachable(at);
    item.focus({ preventScroll: true });
    const [box, sight] = [item.getBoundingClientRect(), this.panel.getBoundingClientRect()];
    const above = Math.min(0, box.top - sight.top);
    this.panel.scrollTop += above || Math.max(0, box.bottom - sight.bottom);
  }

  /** @param {TextRow} row */
  #toggle({ fold, open }) {
    this.act.send({ do: open ? "fold" : "unfold", address: fold });
  }

  #click(/** @type {MouseEvent} */ event) {
    const at = this.#at(event.target);
    const row = this.rows[at];
    if (!row) return;
    this.#focus(at);
    if (this.#isTwist(event.target)) return this.#toggle(row);
    const own = /** @type {Element} */ (event.target).getAttribute("data-address");
    const address = own ?? row.address;
    this.#choose(address, event.shiftKey);
  }

  /** Selects an address; with Shift also, or no longer. */
  #choose(/** @type {string} */ address, /** @type {boolean} */ shift) {
    if (shift && this.act.more) this.act.more([address], false);
    else this.act.select(address);
  }

  /** The row around one, or -1. */
  #around(/** @type {number} */ at) {
    const { depth } = this.rows[at];
    for (let k = at - 1; k >= 0; k--) if (this.rows[k].depth < depth) return k;
    return -1;
  }

  #key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.#at(event.target);
    const row = this.rows[at];
    if (!row) return;
    const into = () => {
      if (row.fold && !row.open) this.#toggle(row);
      else if ((this.rows[at + 1]?.depth ?? 0) > row.depth) this.#focus(at + 1);
    };
    const out = () => {
      if (row.fold && row.open) this.#toggle(row);
      else this.#focus(this.#around(at));
    };
    const page = Math.max(1, Math.floor(this.panel.clientHeight / this.items[at].offsetHeight) - 1);
    const last = this.rows.length - 1;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowDown: () => this.#focus(at + 1),
      ArrowUp: () => this.#focus(at - 1),
      PageDown: () => this.#focus(Math.min(at + page, last)),
      PageUp: () => this.#focus(Math.max(at - page, 0)),
      Home: () => this.#focus(0),
      End: () => this.#focus(last),
      ArrowRight: into,
      ArrowLeft: out,
      " ": () => row.fold && this.#toggle(row),
      Enter: () => this.#choose(row.address, event.shiftKey),
      Escape: () => this.act.select(""),
    };
    if (event.key === "Escape" && !this.selected) return; // that is for the page
    if (Object.hasOwn(keys, event.key)) {
      this.sought.text = "";
      keys[event.key]();
    } else if (event.key.length === 1) this.#seek(event.key.toLowerCase(), at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Goes to the next row whose name begins with what is typed. */
  #seek(/** @type {string} */ letter, /** @type {number} */ at) {
    const now = performance.now();
    const { text, at: last } = this.sought;
    const typed = now - last < TYPE_AHEAD ? text + letter : letter;
    this.sought = { text: typed, at: now };
    const same = [...typed].every((other) => other === typed[0]); // the same letter goes on
    const wanted = same ? typed[0] : typed;
    const start = same ? at + 1 : at;
    for (let k = 0; k < this.rows.length; k++) {
      const index = (start + k) % this.rows.length;
      const name = this.rows[index].spans.find(([, kind]) => kind === "name");
      if (name?.[0].replace(/^# /, "").toLowerCase().startsWith(wanted)) {
        this.#focus(index);
        return;
      }
    }
  }
}
