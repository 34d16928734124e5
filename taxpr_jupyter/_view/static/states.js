// @ts-check
/**
 * The states of the function: what a run begins with, to be edited, and what the last run made of
 * them. Values are Python's to read, check and write (`taxpr_jupyter._view.parts.state_fields`).
 *
 * @import { Leaf, Message, State, Traits } from "./messages.js"
 */

import { badMark, button, h, redraw, table, textField } from "./dom.js";

export class States {
  /** @param {(message: Message) => void} send @param {(address: string) => void} select */
  constructor(send, select) {
    this.send = send;
    this.select = select;
    this.element = h("section", { class: "tx-states", "aria-label": "States" });
  }

  /** @param {Traits["states"]} shown */
  show(shown) {
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    const focused = this.element.contains(active) ? active?.getAttribute("data-focus") : null;
    if (!("run" in shown)) return this.element.replaceChildren();
    const { run, states } = shown;
    const heads = ["state", "begins with", run && `${run} ends with`, run && "with the changes", "each write"];
    const rows = states.flatMap((state) => [
      ...state.leaves.map((leaf, number) => this.#row(state, leaf, number === 0, Boolean(run))),
      ...(state.more ? [h("tr", {}, h("td", { class: "tx-hint", colspan: "5" }, state.more))] : []),
    ]);
    const write = button("Set the states to this", () => this.send({ do: "writeStates" }), {
      title: "Sets the objects in Python to the states after the last run. A run alone does not.",
      "data-focus": "write",
    });
    redraw(this.element, [
      h("header", { class: "tx-head" }, h("h3", {}, "States"), run ? write : ""),
      table(heads, rows, "States"),
    ]);
    const again = [...this.element.querySelectorAll("[data-focus]")].find(
      (element) => element.getAttribute("data-focus") === focused,
    );
    if (focused && again instanceof HTMLElement) again.focus({ preventScroll: true });
  }

  /** @param {State} state @param {Leaf} leaf @param {boolean} first @param {boolean} ran */
  #row(state, leaf, first, ran) {
    const watch = button(state.watched ? "Hide" : "Show", () =>
      this.send({ do: state.watched ? "unwatch" : "watch", address: state.name }), {
      "aria-label": `${state.watched ? "Hide" : "Show"} each write of ${state.name}`,
      title: "Tags what is written, so that a run shows the value after each iteration",
      "data-focus": `watch ${state.name}`,
    });
    const reset = button("Reset", () => this.send({ do: "resetState", address: state.name }), {
      "aria-label": `Reset ${state.name}`,
      "data-focus": `reset ${state.name}`,
    });
    const name = h("button", { type: "button", class: "tx-chip tx-chip-state", click: () => this.select(state.address) }, leaf.name);
    const writes = leaf.writes.flatMap(({ address, text, note }) => [
      h("pre", { title: address }, text),
      note ? h("p", { class: "tx-hint" }, note) : "",
    ]);
    return h(
      "tr",
      { class: leaf.same ? "tx-same" : "tx-changed" },
      h("th", { scope: "row" }, name, h("code", {}, leaf.type), first && !state.written ? h("code", {}, "only read") : ""),
      h("td", {}, h("div", { class: "tx-name" }, this.#initial(leaf), first && state.edited ? reset : "")),
      h("td", {}, ran ? h("pre", {}, leaf.before) : ""),
      h("td", {}, ran ? h("pre", {}, leaf.same ? "the same" : leaf.after) : "", ran && leaf.notFinite ? badMark(leaf.notFinite) : ""),
      h("td", {}, first && state.written ? watch : "", ...writes),
    );
  }

  /** @param {Leaf} leaf */
  #initial(leaf) {
    if (!leaf.editable) return h("pre", {}, leaf.text);
    const keep = () => this.send({ do: "keepState", address: leaf.name });
    const sent = () => {
      field.defaultValue = field.value;
      if (field.value === leaf.text) leaf.error && keep();
      else this.send({ do: "state", address: leaf.name, value: field.value });
    };
    const field = textField({
      class: `tx-field${leaf.error ? " tx-refused" : leaf.edited ? " tx-edited" : ""}`,
      "aria-label": `Initial value of ${leaf.name}`,
      "data-focus": `value ${leaf.name}`,
      "aria-invalid": String(Boolean(leaf.error)),
      change: sent, // Enter, or the focus goes elsewhere
      keydown: (event) => {
        if (event.key !== "Escape" || (field.value === leaf.text && !leaf.error)) return;
        event.stopPropagation(); // a second one leaves the panel
        field.value = leaf.text;
        if (leaf.error) keep();
      },
    });
    field.defaultValue = leaf.error ? leaf.typed : leaf.text;
    if (!leaf.error) return field;
    const back = button("Undo", keep, {
      "aria-label": `Back to the value of ${leaf.name}`,
      title: "Key Escape",
      "data-focus": `undo ${leaf.name}`,
    });
    const still = `${leaf.error}. Runs begin with ${leaf.text} still.`;
    return h("div", { class: "tx-wrong" }, h("div", { class: "tx-name" }, field, back), h("p", { class: "tx-error", role: "alert" }, still));
  }
}
