// @ts-check
/**
 * The views of a picture that were kept by name: a list to come back to them, and a field to keep
 * the one that is shown. What a view is, is Python's to say (`taxpr_jupyter._session.views`).
 */

import { button, enters, folded, h, hint, textField } from "./dom.js";

export class Views {
  /** @param {import("./panel.js").Send} send */
  constructor(send) {
    this.send = send;
    this.list = h("ul", { class: "tx-views-list", "aria-label": "Kept views" });
    const keep = () => {
      if (name.value.trim()) send({ do: "keepView", address: name.value.trim() });
      name.value = "";
    };
    const name = textField({
      "aria-label": "Name of the view",
      placeholder: "name",
      keydown: (event) => enters(event) && keep(),
    });
    const about = hint("A view keeps the open boxes, the selection and the zoom.");
    const form = h("div", { class: "tx-name" }, name, button("Keep this view", keep));
    this.element = folded("Views", this.list, form, about);
    this.element.classList.add("tx-views");
  }

  /** @param {string[]} names */
  show(names) {
    const row = (/** @type {string} */ name) =>
      h(
        "li",
        {},
        button(name, () => this.send({ do: "view", address: name }), { title: `Show the view ${name}` }),
        button("×", () => this.send({ do: "dropView", address: name }), {
          "aria-label": `Forget the view ${name}`,
        }),
      );
    this.list.replaceChildren(...names.map(row));
  }
}
