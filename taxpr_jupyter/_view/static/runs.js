// @ts-check
/**
 * The strip of runs above the results: shows one, compares two, restores and renames. What a run
 * had and gave is Python's to say (`taxpr_jupyter._session.kept_runs`).
 *
 * @import { Results, RunChip, RunStrip } from "./messages.js"
 */

import { button, enters, folded, h, redraw, renew, textField } from "./dom.js";

export class Runs {
  /**
   * @param {import("./panel.js").Send} send
   * @param {(words: string) => HTMLElement[]} copied Makes a text with a button to copy it.
   */
  constructor(send, copied) {
    this.send = send;
    this.copied = copied;
    /** @type {RunStrip | {}} */
    this.strip = {};
    this.number = 0; // of the run that is shown
    this.against = 0; // of the one that it is compared with
    this.chips = h("div", { class: "tx-runs-list", role: "group", "aria-label": "Runs, the newest first" });
    this.tools = h("div", { class: "tx-runs-tools" });
    this.csv = h("div");
    this.table = folded("Table", this.csv);
    this.table.addEventListener("toggle", () => this.send({ do: "runTable", open: this.table.open }));
    this.element = h("div", { class: "tx-runs" }, this.chips, this.tools, this.table);
    this.element.hidden = true;
    /** What each element shows, as JSON: with Live on most of it is the same in each step. @type {WeakMap<HTMLElement, string>} */
    this.drawn = new WeakMap();
    /** @type {Map<number, HTMLElement>} */
    this.items = new Map();
  }

  /** @param {RunStrip | {}} strip */
  show(strip) {
    this.strip = strip;
    this.#draw();
  }

  /** @param {Results | {}} shown What stands below the strip. */
  looksAt(shown) {
    [this.number, this.against] = "number" in shown ? [shown.number, shown.against] : [0, 0];
    this.#draw();
  }

  /** Whether the results are those of the last run alone. */
  get last() {
    return "runs" in this.strip && this.strip.runs[0].number === this.number && !this.against;
  }

  #draw() {
    if (!("runs" in this.strip) || !this.number) return;
    const { runs } = this.strip;
    this.element.hidden = false;
    if (this.table.open) redraw(this.csv, this.copied(this.strip.csv));
    const { chips, tools, number, against } = this;
    const items = runs.map((run) => this.#chip(run));
    this.items = new Map(runs.map((run, k) => [run.number, items[k]]));
    if (items.length !== chips.children.length || items.some((item, k) => item !== chips.children[k])) redraw(chips, items);
    const shown = runs.find((run) => run.number === number);
    if (!shown) return;
    const others = runs.filter((run) => !run.failed && run.number !== number).map((run) => [run.number, run.title]);
    const { name, failed, current } = shown;
    if (this.#isNew(tools, { number, against, name, failed, current, others })) redraw(tools, this.#tools(shown, runs));
  }

  /** Whether this is not what the element shows. @param {HTMLElement} element @param {unknown} shown */
  #isNew(element, shown) {
    const key = JSON.stringify(shown);
    const known = this.drawn.get(element) === key;
    this.drawn.set(element, key);
    return !known;
  }

  /** @param {number} number @param {number} against 0 for the untouched program. */
  #look(number, against) {
    this.send({ do: "showRun", run: number, against: against === number ? 0 : against });
  }

  /** @param {RunChip} run */
  #chip(run) {
    const { number, title, loss, failed, current } = run;
    const changes = run.changes || "nothing changed";
    const side = number === this.number ? "after" : number === this.against ? "before" : "";
    const look = (/** @type {MouseEvent} */ { shiftKey }) => (shiftKey ? this.#look(this.number, number) : this.#look(number, this.against));
    const item = this.items.get(number) ?? button("", look, { class: "tx-button tx-run-chip" });
    if (!this.#isNew(item, [run, side, this.against])) return item;
    item.setAttribute("aria-pressed", String(Boolean(side)));
    item.title = `${changes}\nShift and click: compare with it`;
    renew(item, [
      h("b", {}, title),
      h("i", {}, [this.against ? side : "", current ? "now" : ""].filter(Boolean).join(", ")),
      h("code", failed ? { class: "tx-error" } : {}, loss),
      h("span", {}, changes),
    ]);
    return item;
  }

  /** @param {RunChip} shown @param {RunChip[]} runs */
  #tools(shown, runs) {
    const { number } = shown;
    const against = h(
      "select",
      { class: "tx-button", "aria-label": "Compared with", change: () => this.#look(number, Number(against.value)) },
      h("option", { value: "0" }, "the untouched program"),
      ...runs
        .filter((run) => !run.failed && run.number !== number)
        .map((run) => h("option", { value: String(run.number) }, run.title)),
    );
    against.value = String(this.against);
    const rename = () => this.send({ do: "nameRun", run: number, name: name.value });
    const name = textField({
      "aria-label": "Name of the run",
      placeholder: "name",
      value: shown.name,
      keydown: (event) => enters(event) && rename(),
    });
    return [
      shown.failed ? null : h("label", {}, "compared with ", against),
      shown.current
        ? null
        : button("Restore", () => this.send({ do: "restoreRun", run: number, against: 0 }), {
            title: "Go back to the tags, injectors, lines and initial values of this run",
          }),
      h("div", { class: "tx-name" }, name, button("Rename", rename)),
    ];
  }
}
