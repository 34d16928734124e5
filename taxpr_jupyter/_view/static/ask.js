// @ts-check
/**
 * The questions about a program, and what the last one answered, beside the picture. What is asked
 * and answered is Python's to say (`taxpr_jupyter._model.questions`, `_view.parts.asking`).
 *
 * @import { Answer, AnswerRow, Empty, Flows, Message, QuestionButton } from "./messages.js"
 */

import { eqnOf } from "./address.js";
import { button, facts, fill, folded, h, hint, section, table } from "./dom.js";

const HOW = "A question runs the program as its source is edited, without other injectors. Click a row of the answer to select its value.";

export class Ask {
  /**
   * @param {(message: Message) => void} send
   * @param {(address: string) => void} choose What to call when a row was chosen.
   * @param {(code: string) => (HTMLElement | null)[]} codeOf Makes code with a button that copies it.
   * @param {QuestionButton[]} questions
   */
  constructor(send, choose, codeOf, questions) {
    this.send = send;
    this.choose = choose;
    this.codeOf = codeOf;
    this.selected = "";
    /** @type {[string[], HTMLElement][]} */
    this.rows = [];
    this.questions = questions;
    this.buttons = new Map(questions.map(({ question, button: label, title }) => (
      [question, button(label, () => send({ do: "ask", question }), { title, "aria-pressed": "false" })]
    )));
    const groups = [...new Set(questions.map(({ group }) => group))].map((words) => {
      const buttons = questions.filter(({ group }) => group === words).map(({ question }) => this.buttons.get(question) ?? null);
      return h("div", { class: "tx-questions", role: "group", "aria-label": words || "Questions" }, words ? h("span", {}, words) : null, ...buttons);
    });
    this.answer = h("div", { class: "tx-answer", role: "status" });
    /** @type {Map<string, HTMLButtonElement>} */
    this.results = new Map();
    this.of = h("div", { class: "tx-questions", role: "group", "aria-label": "Sizes and gradients of" });
    this.why = hint("", { class: "tx-hint tx-why" });
    groups.splice(1, 0, this.of, this.why);
    this.panel = h("div", { class: "tx-ask" }, hint(HOW), ...groups, this.answer);
    this.injectors(false);
    this.flows({});
  }

  /** What gradients there are. @param {Flows | Empty} flows */
  flows(flows) {
    const known = "results" in flows;
    const offered = known && !flows.first ? flows.results : [];
    this.results = new Map(offered.map((of) => {
      const title = `How large values are, and the gradients of ${of} that flow back to them`;
      return [of, button(of, () => this.send({ do: "ask", question: "flow", of }), { title, "aria-pressed": "false" })];
    }));
    fill(this.of, offered.length ? [h("span", {}, "Sizes and gradients of"), ...this.results.values()] : []);
    for (const one of this.#needing("loss")) {
      one?.toggleAttribute("disabled", known && !flows.first);
      one?.toggleAttribute("hidden", offered.length > 0);
    }
    this.why.textContent = known ? flows.note : "";
  }

  /** Whether some are attached. @param {boolean} attached */
  injectors(attached) {
    for (const one of this.#needing("injectors")) one?.toggleAttribute("disabled", !attached);
  }

  /** The buttons of the questions that need something. @param {string} what */
  #needing(what) {
    return this.questions.filter(({ needs }) => needs === what).map(({ question }) => this.buttons.get(question));
  }

  /** @param {Answer | Empty} shown */
  show(shown) {
    const there = "question" in shown;
    for (const [question, item] of this.buttons) {
      item.setAttribute("aria-pressed", String(there && question === shown.question));
    }
    for (const [of, item] of this.results) item.setAttribute("aria-pressed", String(there && of === shown.of));
    this.rows = [];
    this.answer.setAttribute("aria-busy", String(there && !shown.headline && !shown.error));
    if (!there) return fill(this.answer, []);
    const { question, headline, columns, rows, more, notes, code, stale, error } = shown;
    if (!headline) return fill(this.answer, [error ? h("p", { class: "tx-error" }, error) : hint("…")]);
    const long = this.questions.some((one) => one.question === question && one.sentences);
    const drawn = long ? rows.map((row) => this.#drawLong(columns, row)) : [this.#drawTable(headline, columns, rows)];
    fill(this.answer, [
      section(headline),
      stale ? h("p", { class: "tx-note" }, stale) : null,
      ...(rows.length ? drawn : []),
      more ? hint(`… ${more.toLocaleString("en")} more rows: the code below gives all.`) : null,
      ...notes.map((note) => hint(note)),
      folded("Python code that asks this", ...this.codeOf(code)),
    ]);
    this.select(this.selected);
  }

  /** The first cell of a row, which selects it where there is something to select. @param {AnswerRow} row */
  #name(row) {
    const { address, others = [], cells: [first] } = row;
    if (!address) return first;
    const title = others.length ? `Select ${address}, then the next of ${others.length + 1}` : `Select ${address}`;
    return button(first, () => this.#chooseOf(row), { title, class: "tx-button tx-of-answer" });
  }

  /** Selects the place of a row; of several the one after that which is selected. @param {AnswerRow} row */
  #chooseOf({ address, others = [] }) {
    const places = [address, ...others];
    this.choose(places[(places.findIndex((own) => this.#isChosen(own)) + 1) % places.length]);
  }

  /** @param {string} own An address of a row. */
  #isChosen(own) {
    return this.selected !== "" && (own === this.selected || eqnOf(own) === this.selected);
  }

  /** Says that an element is of a row. @template {HTMLElement} T @param {T} item @param {AnswerRow} row */
  #known(item, row) {
    const { address, others = [] } = row;
    if (!address) return item;
    item.addEventListener("click", (event) => event.target instanceof HTMLButtonElement || this.#chooseOf(row));
    item.classList.add("tx-of-row");
    this.rows.push([[address, ...others], item]);
    return item;
  }

  /** A row whose cells are sentences. @param {string[]} columns @param {AnswerRow} row */
  #drawLong([, ...columns], row) {
    const rest = columns.map((name, k) => /** @type {[string, string]} */ ([name, row.cells[k + 1]]));
    return this.#known(h("div", { class: "tx-finding" }, this.#name(row), facts(rest.filter(([, text]) => text && text !== "False"))), row);
  }

  /** @param {string} label @param {string[]} columns @param {AnswerRow[]} rows */
  #drawTable(label, columns, rows) {
    const body = rows.map((row) => {
      const [, ...rest] = row.cells;
      const cells = rest.map((text, k) => h("td", { "data-column": columns[k + 1] }, text));
      return this.#known(h("tr", {}, h("th", { scope: "row" }, this.#name(row)), ...cells), row);
    });
    return table(columns, body, label);
  }

  /** @param {string} address */
  select(address) {
    this.selected = address;
    for (const [places, row] of this.rows) row.classList.toggle("tx-chosen", places.some((own) => this.#isChosen(own)));
  }
}
