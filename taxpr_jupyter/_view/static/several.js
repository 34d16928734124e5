// @ts-check
/**
 * The inspector of several selected values: what they are, and what can be done with all of them. That
 * is Python's to do (`taxpr_jupyter._view.parts.choosing`).
 *
 * @import { Held } from "./held.js"
 * @import { Message, Several } from "./messages.js"
 */

import { button, chip, closer, counted, folded, h, hint, section } from "./dom.js";

const OPEN = 8; // values that are listed at once

/**
 * @param {string[]} chosen The addresses.
 * @param {Several} several
 * @param {Held} held What was recorded.
 * @param {{ send(message: Message): void, select(address: string): void, close(): void }} act
 */
export function drawSeveral(chosen, several, held, { send, select, close }) {
  const { title, note, values, more, bare, added, injected, injectors } = several;
  const row = (/** @type {Several["values"][number]} */ { address, text, tag, injector }) => {
    const item = button("", () => select(address), { class: "tx-button tx-tag", title: address });
    item.append(h("code", {}, text));
    if (tag) item.append(chip(tag, injector ? "injected" : "tag"));
    if (injector) item.append(h("span", {}, injector));
    item.append(...held.both(address));
    return h("li", {}, item);
  };
  const listed = h("ul", { class: "tx-chosen-values", "aria-label": "Selected values" }, ...values.map(row));
  const list = folded("Which they are", listed, more ? hint(`… and ${counted(more, "value")} more`) : null);
  if (values.length <= OPEN) list.setAttribute("open", "");
  const all = { addresses: chosen };
  const injector = h(
    "select",
    {
      class: "tx-field",
      "aria-label": "Injector for all",
      change: () => injector.value && send({ do: "attachAll", ...all, injector: injector.value }),
    },
    h("option", { value: "" }, "choose an injector"),
    ...injectors.map((name) => h("option", { value: name }, name)),
  );
  const actions = [
    bare ? button(`Tag ${bare}`, () => send({ do: "tagAll", ...all }), { title: "A run then records them" }) : null,
    button("Watch", () => send({ do: "record", iteration: -1, example: -1, injectors: true, cotangents: false }), {
      title: "Run, and show the values of variables",
    }),
    injected ? button(`Remove ${counted(injected, "injector")}`, () => send({ do: "attachAll", ...all, injector: "" })) : null,
    added ? button(`Remove ${counted(added, "tag")}`, () => send({ do: "untagAll", ...all })) : null,
    chosen.length === 2
      ? button("Path between", () => send({ do: "between", address: chosen[0], to: chosen[1] }), {
          title: "Light the paths from one to the other",
        })
      : null,
  ];
  return [
    h("header", { class: "tx-head" }, h("h3", {}, title), closer(close)),
    note ? hint(note) : null,
    section("All of them", h("div", { class: "tx-paths", role: "group", "aria-label": "All of them" }, ...actions.filter((one) => one !== null))),
    values.length ? h("label", { class: "tx-choice" }, h("span", {}, "Injector"), injector) : null,
    values.length ? list : null,
  ];
}
