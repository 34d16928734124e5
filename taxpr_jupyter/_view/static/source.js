// @ts-check
/**
 * The user's source, each line with what became of it, beside the picture: a grid for the keyboard
 * and for screen readers. What became of a line is Python's to say (`taxpr_jupyter._lines.source`).
 *
 * It knows nothing of Jupyter; a saved page has it, too. All texts enter the page as text nodes.
 *
 * @import { Held } from "./held.js"
 * @import { Empty, LineMark, LineMarkKind, SourceEdits, SourceHeat, SourceLine, SourceText, SourceVariable } from "./messages.js"
 * @typedef {{ item: HTMLElement, stops: HTMLElement[], place: string, line: SourceLine, marks: HTMLElement,
 *   dots: HTMLElement, code: HTMLElement, pen: HTMLElement | null, typed: HTMLElement, measured: HTMLElement,
 *   chips: Map<HTMLElement, SourceVariable>, uses: Map<HTMLElement, () => void> }} Row `stops` are what the keys go to: the line,
 *   its variables, which are `chips`, and the pen; `uses` says what each of them does
 */

import { eqnOf, outward } from "./address.js";
import { badMark, button, counted, enters, fill, h, hint, textField } from "./dom.js";

const LEAST = 0.005; // of all; a smaller share has no bar
const HOW = "Click a variable to select its value, or a line to highlight the boxes that it makes.";

/** What stands for a mark, beside the number of the line; other marks are words. @type {Partial<Record<LineMarkKind, string>>} */
const DOTS = { recorded: "●", watched: "○" };
/** @type {[LineMarkKind, string, string][]} */
const LEGEND = [
  ["bad", "not finite", "a value of the line is NaN or infinite"],
  ["changed", "changed", "a result made there differs from the run without changes"],
  ["recorded", "●", "a run recorded a value of the line"],
  ["watched", "○", "a tag: the next run records its value"],
];

/** @param {number} share */
const percent = (share) => `${Math.round(100 * share)}%`;

/** @param {HTMLElement} item */
const isShown = (item) => item.getClientRects().length > 0;

/** Which of these values is selected, alone or as the result of its equation; or -1. */
const which = (/** @type {string[]} */ addresses, /** @type {string} */ selected) =>
  addresses.findIndex((one) => one === selected || eqnOf(one) === selected);

export class SourceLines {
  /**
   * @param {{ choose(address: string): void, light(place: string): void,
   *   edit?(place: string, text: string): void, unedit?(place: string): void, copied?(words: string): Node[] }} act
   *   What to call when a variable, or a line, was chosen; with an empty text to undo that. And when
   *   a line was typed over; where nothing can run, nothing. So for what is to be copied.
   */
  constructor(act) {
    this.act = act;
    this.selected = "";
    /** @type {Set<string>} The variables of which the arrays are shown. */
    this.unfolded = new Set();
    this.pointed = "";
    this.lit = "";
    /** @type {Record<string, number[]>} */
    this.lines = {};
    /** @type {Record<string, LineMark[]>} */
    this.said = {};
    /** @type {Row[]} */
    this.rows = [];
    this.note = h("p", { class: "tx-note tx-lines-note", role: "note" });
    const key = (/** @type {string} */ word) => h("span", { class: `tx-key-${word}` }, h("i"), word);
    /** @type {SourceHeat | Empty} */
    this.heat = {};
    this.measured = h("span", {});
    this.key = h("p", { class: "tx-hint tx-key" }, HOW, h("span", {}, "share of ", key("FLOPs"), " ", key("bytes")), this.measured);
    this.legend = h("p", { class: "tx-hint tx-marks-key" });
    this.grid = h("div", { class: "tx-grid", role: "grid", "aria-label": "Source of the program" });
    this.diff = h("details", { class: "tx-diff tx-unseen" });
    this.tail = hint("", { class: "tx-hint tx-lines-note" });
    /** @type {Held | null} */
    this.held = null;
    /** @type {SourceEdits | Empty} */
    this.edits = {};
    this.bar = h("div", { class: "tx-bar-here" }); // for what is needed here and in the picture
    this.panel = h("div", { class: "tx-source" }, this.key, this.legend, this.bar, this.note, this.grid, this.diff, this.tail);
    let size = "";
    new ResizeObserver(() => {
      const now = `${this.panel.clientWidth} ${this.panel.clientHeight}`;
      if (size && size !== now) this.#keepInSight();
      size = now;
    }).observe(this.panel);
    this.grid.addEventListener("dblclick", (event) => {
      // Lines that are drawn again between two clicks leave the grid alone as the target.
      const row = this.rows[this.#at(document.elementFromPoint(event.clientX, event.clientY)).k];
      if (row?.line.right && this.act.edit) this.act.light(""); // as the first click did
      this.#open(row);
    });
    this.grid.addEventListener("click", (event) => this.#click(event));
    this.grid.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Lights the lines of what the pointer, or the focus, is on in a picture. @param {Element} stage */
  follow(stage) {
    const point = (/** @type {Event} */ event) => {
      const item = event.target instanceof Element ? event.target.closest("[data-address]") : null;
      const address = item?.getAttribute("data-address") ?? "";
      if (address === this.pointed) return;
      this.pointed = address;
      this.#mark();
      if (address) this.reveal();
    };
    for (const name of ["pointerover", "focusin"]) stage.addEventListener(name, point);
    stage.addEventListener("pointerleave", () => {
      this.pointed = "";
      this.#mark();
    });
  }

  /** @param {SourceText} source */
  show({ note, rest, more, parts }) {
    this.note.textContent = note;
    this.tail.textContent = [
      more ? `… ${counted(more, "more line")}: in Python, print(session.source().text()).` : "",
      rest ? `${rest}.` : "",
    ].filter(Boolean).join(" ");
    const focused = this.rows[this.#at(document.activeElement).k]?.place;
    const typed = this.rows.flatMap(({ code, place }) => {
      const field = code.querySelector("input");
      return field ? [{ place, text: field.value, from: field.selectionStart, to: field.selectionEnd, here: field === document.activeElement, sent: field.dataset.sent === field.value }] : [];
    });
    this.rows = [];
    const groups = parts.map(({ file, title, lines }, k) => {
      const rows = lines.map((line) => this.#draw(line, file));
      this.rows.push(...rows);
      const head = k && parts[k - 1].file === file ? null : h("div", { class: "tx-file", "aria-hidden": "true" }, title);
      const items = rows.map(({ item }) => item);
      return h("div", { class: "tx-part", role: "rowgroup", "aria-label": title }, head, ...items);
    });
    this.grid.replaceChildren(...groups);
    this.#makeReachable(this.rows[0]?.stops[0]);
    this.#focus(this.rows[this.numberOf(focused ?? "")]?.stops[0]);
    this.ran(this.said);
    this.edited(this.edits);
    this.warm(this.heat);
    this.#mark();
    for (const one of typed) {
      const row = this.rows[this.numberOf(one.place)];
      const taken = one.sent && row?.line.text.endsWith(one.text.trim());
      if (!taken) this.#open(row, one);
    }
    this.reveal();
  }

  /** What was measured of each line, or its kernels. @param {SourceHeat | Empty} heat */
  warm(heat) {
    this.heat = heat;
    const { title = "", rest = "", lines = {} } = /** @type {Partial<SourceHeat>} */ (heat);
    const amounts = Object.values(lines).every(({ mark }) => !mark);
    fill(this.measured, title ? [amounts ? h("i", { class: "tx-hot" }) : null, ` ${title}${rest && `; ${rest}`}`] : []);
    this.rows.forEach(({ measured }, k) => {
      const { share, label, words, sign, mark } = lines[k] ?? { share: 0, label: "", words: "", sign: "", mark: "" };
      const told = { role: "img", "aria-label": `${title}: ${words}`, title: words };
      if (mark) {
        const made = h("b", { ...told, class: "tx-mark" }, sign);
        made.style.setProperty("background", `var(--taxpr-${mark})`);
        return fill(measured, [made]);
      }
      const bar = h("i", told);
      bar.style.setProperty("--share", String(share));
      fill(measured, words ? [bar, h("small", { "aria-hidden": "true" }, label || (share < LEAST ? "<1%" : percent(share)))] : []);
    });
  }

  /** Of which lines the elements of the picture are. @param {Record<string, number[]>} lines */
  know(lines) {
    this.lines = lines;
    this.#mark();
    this.reveal();
  }

  /** What runs say of lines, by their numbers. @param {Record<string, LineMark[]>} said */
  ran(said) {
    this.said = said;
    this.rows.forEach(({ marks, dots, line }, k) => {
      const found = said[k] ?? [];
      const words = found.filter(({ kind }) => !DOTS[kind]).map(({ kind, text }) => (kind === "bad" ? badMark(text) : h("b", { class: `tx-mark tx-of-run tx-${kind}` }, text)));
      marks.replaceChildren(...line.marks.map((word) => h("b", { class: "tx-mark" }, word)), ...words);
      const drawn = found.filter(({ kind }) => DOTS[kind]);
      dots.replaceChildren(...drawn.map(({ kind, text }) => h("i", { class: `tx-of-run tx-${kind}`, role: "img", "aria-label": text, title: text }, DOTS[kind] ?? "")));
    });
    const kinds = new Set(Object.values(said).flatMap((found) => found.map(({ kind }) => kind)));
    fill(this.legend, LEGEND.flatMap(([kind, sign, words]) => (kinds.has(kind) ? [h("span", {}, h("b", { class: `tx-of-run tx-${kind}` }, sign), ` ${words}`)] : [])));
    this.#outdated();
  }

  /** Whether the program has other tags, injectors or states than in the last run. @param {boolean} stale */
  outdated(stale) {
    this.panel.classList.toggle("tx-outrun", stale);
    this.#outdated();
  }

  #outdated() {
    const old = this.panel.classList.contains("tx-outrun") && this.panel.querySelector(".tx-marks .tx-of-run");
    this.legend.querySelector(".tx-outdated")?.remove();
    if (old) this.legend.append(h("span", { class: "tx-outdated" }, "From a run before the last change."));
  }

  /** Which lines were typed over, and what is wrong with one. @param {SourceEdits | Empty} edits */
  edited(edits) {
    if (!("lines" in edits)) return;
    this.edits = edits;
    const { lines, diff, place, mistake } = edits;
    for (const row of this.rows) {
      const own = row.place in lines;
      row.item.classList.toggle("tx-edited", own);
      const undo = own && this.act.unedit ? button("Revert", () => this.act.unedit?.(row.place), { title: "Go back to the line of the source" }) : null;
      const wrong = row.place === place ? h("p", { class: "tx-error", role: "alert" }, mistake) : null;
      fill(row.typed, [own ? h("b", { class: "tx-mark" }, "edited") : null, undo, wrong]);
      row.typed.classList.toggle("tx-wrong", Boolean(wrong));
      if (wrong) this.#bring(wrong);
    }
    this.diff.classList.toggle("tx-unseen", !diff);
    fill(this.diff, diff ? [h("summary", {}, "The edits as a diff"), ...(this.act.copied?.(diff) ?? [])] : []);
  }

  /**
   * Lets a right-hand side be typed over.
   * @param {Row | undefined} row
   * @param {{ text: string, from: number | null, to: number | null, here: boolean, sent: boolean }} [typed] What was typed before the
   *   lines were drawn again, what of it was selected, whether the field had the focus, and whether the text is sent.
   */
  #open(row, typed) {
    if (!row || !this.act.edit || !row.line.right || row.code.querySelector("input")) return;
    const { code, line, place } = row;
    const right = ("lines" in this.edits && this.edits.lines[place]) || line.right;
    const before = line.text.slice(0, line.text.length - line.text.trimStart().length) + line.left;
    const close = () => {
      code.replaceChildren(line.text || " ");
      this.#forgive();
      this.#focus(row.stops[0]);
    };
    const field = textField({
      value: right,
      class: "tx-field tx-right",
      "aria-label": "Right-hand side",
      keydown: (event) => {
        event.stopPropagation(); // these keys are for the field
        if (event.key === "Escape") close();
        if (!enters(event)) return;
        const text = field.value;
        if (text.trim() === right) return close();
        this.#forgive(); // what is wrong is of the text before
        field.dataset.sent = text;
        this.act.edit?.(place, text);
      },
      click: (event) => event.stopPropagation(),
      dblclick: (event) => event.stopPropagation(),
    });
    field.setAttribute("data-lm-suppress-shortcuts", "true");
    field.size = Math.max(20, right.length + 4);
    code.replaceChildren(before, field);
    getSelection()?.removeAllRanges();
    if (typed) {
      field.value = typed.text;
      field.setSelectionRange(typed.from, typed.to);
    } else field.select();
    if (typed?.here ?? true) field.focus();
  }

  /** Shows no mistake: it was about a text that is gone. */
  #forgive() {
    if ("lines" in this.edits) this.edited({ ...this.edits, place: "", mistake: "" });
  }

  /** What variables held in a recorded run. @param {Held} held */
  hold(held) {
    this.held = held;
    this.#mark();
  }

  /** @param {string} address */
  select(address) {
    this.selected = address;
    this.#mark();
    this.reveal();
  }

  /** Marks the line whose nodes are lit. Returns whether it is another one. @param {string} place */
  light(place) {
    const other = place !== this.lit;
    this.lit = place;
    if (other) this.#mark();
    return other && place !== "";
  }

  /** The number of a line. @param {string} place */
  numberOf(place) {
    return this.rows.findIndex((row) => row.place === place);
  }

  /** Brings a line of what is pointed at, or else selected, into sight, unless one is. */
  reveal() {
    const items = this.#linesOf(this.pointed || this.selected).map((k) => this.rows[k]?.item).filter(Boolean);
    const sight = this.panel.getBoundingClientRect();
    if (!items.length || !sight.height || this.panel.contains(document.activeElement)) return;
    const boxes = items.map((item) => item.getBoundingClientRect());
    if (boxes.some((box) => box.top >= sight.top && box.bottom <= sight.bottom)) return;
    this.panel.scrollTop += boxes[0].top - sight.top - sight.height / 3;
  }

  /** The lines of an address, or of the nearest that it is in. @param {string} address */
  #linesOf(address) {
    for (const one of address ? [address, ...outward(eqnOf(address))] : []) {
      const found = this.lines[one] ?? (one === address ? this.#holding(address) : []);
      if (found.length) return found;
    }
    return [];
  }

  /** The lines with a variable that held this value. @param {string} address */
  #holding(address) {
    const has = (/** @type {Row} */ { line }) => line.variables.some(({ addresses }) => which(addresses, address) >= 0);
    return this.rows.flatMap((row, k) => (has(row) ? [k] : []));
  }

  #mark() {
    const own = new Set(this.#linesOf(this.selected));
    const pointed = new Set(this.#linesOf(this.pointed));
    this.rows.forEach(({ item, chips, place }, k) => {
      item.setAttribute("aria-selected", String(own.has(k)));
      item.classList.toggle("tx-pointed", pointed.has(k));
      item.classList.toggle("tx-lit", place === this.lit);
      if (place === this.lit) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
      chips.forEach(({ addresses }, chip) => {
        const chosen = which(addresses, this.selected);
        chip.setAttribute("aria-pressed", String(chosen >= 0));
        const words = chosen >= 0 && addresses.length > 1 ? ` ${chosen + 1} of ${addresses.length}` : "";
        const [many, value] = [...chip.children].slice(-2);
        many.textContent = words;
        const shown = addresses[Math.max(0, chosen)];
        const state = `${this.held?.state} ${shown} ${chosen < 0}`;
        if (value instanceof HTMLElement && value.dataset.state !== state) {
          value.dataset.state = state;
          const held = this.held?.both(shown) ?? [];
          const first = held.length && chosen < 0 && addresses.length > 1 ? ` first of ${addresses.length}` : "";
          fill(value, held.length ? [`${first} = `, ...held] : []);
        }
      });
    });
  }

  /** @param {SourceLine} line @param {string} file @returns {Row} */
  #draw(line, file) {
    const place = `${file}:${line.number}`;
    const lights = line.equations + line.derivative > 0 || line.holds;
    const more = /** @type {Record<string, string>} */ (lights ? { title: "Click to highlight the boxes that it makes" } : {});
    const code = h("div", { role: "gridcell", class: "tx-of-line", tabindex: "-1", "data-lm-suppress-shortcuts": "true", ...more }, line.text || " ");
    code.style.setProperty("--indent", String(line.text.length - line.text.trimStart().length));
    const { items, chips, folds } = this.#drawVariables(line.variables, place);
    const marks = h("span", { class: "tx-marks" });
    const dots = h("span", { class: "tx-dots" });
    const typed = h("div", { role: "gridcell", class: "tx-typed" });
    const open = () => this.#open(this.rows.find((one) => one.item === item));
    const pen = line.right && this.act.edit ? button("✎", open, { class: "tx-pen", tabindex: "-1", "aria-label": `Edit line ${line.number}`, title: "Type another right-hand side; also by a double click" }) : null;
    const measured = h("span", { class: "tx-measured" });
    const facts = h("div", { role: "gridcell", class: "tx-line-facts" }, measured, marks, ...drawCounts(line));
    const item = h(
      "div",
      { role: "row", class: lights ? "tx-source-row tx-lights" : "tx-source-row", "aria-selected": "false" },
      h("div", { role: "rowheader", class: "tx-number" }, dots, String(line.number)),
      code,
      pen && h("div", { role: "gridcell", class: "tx-pens" }, pen),
      // Together beside the line, or below it.
      h("div", { role: "presentation", class: "tx-became" }, h("div", { role: "gridcell", class: "tx-variables" }, ...items), facts),
      typed,
    );
    /** @type {Map<HTMLElement, () => void>} */
    const uses = new Map([[code, () => lights && this.act.light(place === this.lit ? "" : place)]]);
    for (const chip of items.flatMap((one) => (one instanceof HTMLButtonElement ? [one] : [...one.querySelectorAll("button")]))) {
      const { addresses } = chips.get(chip) ?? { addresses: [] };
      const choose = () => this.act.choose(addresses[(which(addresses, this.selected) + 1) % addresses.length]);
      uses.set(chip, folds.get(chip) ?? choose);
    }
    if (pen) uses.set(pen, open);
    const stops = [...uses.keys()];
    return { item, stops, uses, chips, place, line, marks, dots, code, pen, typed, measured };
  }

  /** The variables of a line; several arrays of one fold into a chip. @param {SourceVariable[]} variables @param {string} place */
  #drawVariables(variables, place) {
    /** @type {Map<HTMLElement, SourceVariable>} */
    const chips = new Map();
    /** @type {Map<HTMLElement, () => void>} */
    const folds = new Map();
    /** @type {Map<string, HTMLElement>} */
    const trees = new Map();
    /** @type {HTMLElement[]} */
    const items = [];
    for (const one of variables) {
      const { tree, addresses } = one;
      if (tree && !trees.has(tree)) {
        const parts = h("span", { class: "tx-parts" });
        const fold = button("", () => {}, { class: "tx-variable", tabindex: "-1" });
        const name = tree.slice(0, tree.lastIndexOf(":"));
        fold.replaceChildren(h("b", {}, name), tree.slice(name.length));
        folds.set(fold, this.#folding(fold, parts, `${place} ${tree}`));
        trees.set(tree, parts);
        items.push(fold, parts);
      }
      const chip = drawVariable(one);
      if (addresses.length) chips.set(chip, one);
      const around = trees.get(tree);
      if (around) around.append(chip);
      else items.push(chip);
    }
    return { items, chips, folds };
  }

  /** Shows the arrays of a variable, or the selected one alone. Returns what a click does. @param {HTMLElement} fold @param {HTMLElement} parts @param {string} key */
  #folding(fold, parts, key) {
    const show = () => {
      const open = this.unfolded.has(key);
      fold.setAttribute("aria-expanded", String(open));
      parts.classList.toggle("tx-open", open);
    };
    show();
    return () => {
      if (!this.unfolded.delete(key)) this.unfolded.add(key);
      show();
    };
  }

  #makeReachable(/** @type {HTMLElement | undefined} */ stop) {
    for (const row of this.rows) for (const one of row.stops) one.setAttribute("tabindex", one === stop ? "0" : "-1");
  }

  /** @param {HTMLElement | undefined} stop */
  #focus(stop) {
    if (!stop) return;
    this.#makeReachable(stop);
    stop.focus({ preventScroll: true });
    this.#bring(stop);
  }

  /** Scrolls until all of an element is in sight. @param {HTMLElement} item */
  #bring(item) {
    const [box, sight] = [item.getBoundingClientRect(), this.panel.getBoundingClientRect()];
    const above = Math.min(0, box.top - sight.top);
    this.panel.scrollTop += above || Math.max(0, box.bottom - sight.bottom);
  }

  /** Brings back the line with the focus, or else the selected one: in another width lines wrap elsewhere, and less is seen at a lower height. */
  #keepInSight() {
    const row = this.rows[this.#at(document.activeElement).k];
    if (row) this.#bring(row.item);
    else this.reveal();
  }

  /** The row of an element, and which of its stops that is. @param {EventTarget | null} target */
  #at(target) {
    const item = target instanceof Element ? target.closest(".tx-source-row") : null;
    const k = this.rows.findIndex((row) => row.item === item);
    const stop = target instanceof Element ? this.rows[k]?.stops.findIndex((one) => one.contains(target)) : -1;
    return { k, stop: stop ?? -1 };
  }

  #click(/** @type {MouseEvent} */ event) {
    const { k, stop } = this.#at(event.target);
    const row = this.rows[k];
    // Who marks text with the mouse wants to copy it.
    if (!row || !getSelection()?.isCollapsed) return;
    if (event.target instanceof Element && event.target.closest(".tx-pen, .tx-typed, input")) return;
    this.#focus(row.stops[Math.max(0, stop)]);
    if (event.detail < 2 || stop > 0) row.uses.get(row.stops[Math.max(0, stop)])?.();
  }

  #key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { k, stop } = this.#at(event.target);
    const row = this.rows[k];
    if (!row) return;
    const line = (/** @type {number} */ to) => this.#focus(this.rows[Math.min(Math.max(to, 0), this.rows.length - 1)].stops[0]);
    const page = Math.max(1, Math.floor(this.panel.clientHeight / row.item.offsetHeight) - 1);
    const use = () => row.uses.get(row.stops[stop])?.();
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowDown: () => line(k + 1),
      ArrowUp: () => line(k - 1),
      PageDown: () => line(k + page),
      PageUp: () => line(k - page),
      Home: () => line(0),
      End: () => line(this.rows.length - 1),
      ArrowRight: () => this.#focus(row.stops.slice(stop + 1).find(isShown)),
      ArrowLeft: () => this.#focus(row.stops.slice(0, Math.max(0, stop)).findLast(isShown)),
      Enter: use,
      " ": use,
      Escape: () => this.act.choose(""),
    };
    if (!Object.hasOwn(keys, event.key) || (event.key === "Escape" && !this.selected)) return;
    keys[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }
}

/** @param {SourceVariable} variable */
function drawVariable({ name, type, devices, addresses }) {
  const values = addresses.length > 1 ? `: ${addresses.length} values, one with each click` : "";
  const what = [h("b", {}, name), h("span", {}, `: ${type}`), h("small", {}), h("em", {})];
  if (!addresses.length) return h("span", { class: "tx-variable" }, ...what);
  const more = { class: "tx-variable", tabindex: "-1", "aria-pressed": "false", title: [devices, `Select what ${name} held${values}`].filter(Boolean).join("\n") };
  const item = button("", () => {}, more);
  item.replaceChildren(...what);
  return item;
}

/** @param {SourceLine} line */
function drawCounts({ equations, derivative, runs, flops, bytes }) {
  const words = [equations ? counted(equations, "equation") : "", derivative ? `∂ ${derivative.toLocaleString("en")}` : "", runs];
  const shares = /** @type {[number | null, string][]} */ ([[flops, "FLOPs"], [bytes, "bytes"]]);
  const told = shares.filter(([share]) => (share ?? 0) >= LEAST).map(([share, word]) => `${percent(share ?? 0)} of ${word}`);
  const bars = h("span", { class: "tx-shares", role: "img", "aria-label": told.join(", "), title: told.join(", ") });
  for (const [share] of shares) {
    const bar = h("i", {});
    bar.style.setProperty("--share", String((share ?? 0) >= LEAST ? share : 0));
    bars.append(bar);
  }
  const title = derivative ? `∂: ${counted(derivative, "equation")} of its derivative` : "";
  return [h("span", { title }, words.filter(Boolean).join(" · ")), told.length ? bars : null];
}
