// @ts-check
/**
 * The inspector of a panel or of a saved page: what is known of the selected place. Python says it
 * (`taxpr_jupyter._edits.inspect`), and a page what it can.
 *
 * @import { Message, NodeValue, SelectedNode, Tag } from "./messages.js"
 * @typedef {(address: string) => Node[]} Was draws what was recorded of a value
 */

import { button, chip, closer, enters, facts, h, hint, line, section, textField } from "./dom.js";

/** @param {Tag} tag */
const tagChip = (tag) => {
  const item = chip(tag.name, tag.injector ? "injected" : "tag");
  item.title = tag.name; // it may be cut
  return item;
};

/**
 * What the inspector shows with nothing selected: the tags.
 * @param {Tag[]} tags
 * @param {(address: string) => void} select
 */
export function drawTags(tags, select) {
  const row = (/** @type {Tag} */ tag) => {
    const item = button("", () => select(tag.address), { class: "tx-button tx-tag", title: tag.address });
    const type = h("code", { title: tag.type }, tag.type);
    item.append(tagChip(tag), type, h("span", {}, tag.injector || tag.where));
    return item;
  };
  return [
    hint("Click a box to see what it computes, and to change its value."),
    tags.length ? section("Tags", ...tags.map(row)) : null,
  ];
}

/**
 * A value of the selected node: its tag, or a field to tag it, or why it cannot be tagged.
 * @param {NodeValue} value
 * @param {(message: Message) => unknown} send
 * @param {Node[]} was What was recorded of it.
 */
function drawValue({ address, text, tag, refused }, send, was) {
  if (refused) return h("div", { class: "tx-value" }, line(text), ...was, hint(refused));
  if (tag) {
    const remove = button("Remove tag", () => send({ do: "untag", address }));
    return h("div", { class: "tx-value" }, line(text), ...was, tagChip(tag), tag.added ? remove : null);
  }
  const tagIt = () => send({ do: "tag", address, name: name.value.trim() });
  const name = textField({
    "aria-label": `Name of a tag for ${text}`,
    placeholder: "name",
    // Not by a form: JupyterLab keeps Enter from submitting one.
    keydown: (event) => enters(event) && tagIt(),
  });
  const form = h("div", { class: "tx-name" }, name, button("Tag", tagIt));
  return h("div", { class: "tx-value" }, line(text), ...was, form);
}

/** Where the user's code is: of a tag, that of its value apart from that of the tag itself. */
function drawSources(/** @type {SelectedNode} */ node) {
  const lines = (/** @type {string} */ title, /** @type {string} */ code, /** @type {string} */ place) =>
    code || place ? section(title, code ? line(code) : null, place) : null;
  if (!node.tag) return [lines("Source", node.line, node.source)];
  if (node.addedBy) {
    return [
      lines("Source of the value", node.line, node.source),
      section("Source of the tag", "Added here. In Python:", line(node.addedBy)),
    ];
  }
  return [
    lines("Source of the value", node.valueLine, node.valueSource),
    lines("Source of the tag", node.line, node.source),
  ];
}

/**
 * @param {SelectedNode} node
 * @param {(message: Message) => unknown} send
 * @param {() => void} close
 * @param {(Node | null)[]} more What else there is to show of it, below its values.
 * @param {Was} was
 */
export function drawInspection(node, send, close, more, was) {
  const { address, tag, toggle } = node;
  const values = node.values.map((value) => drawValue(value, send, was(value.address)));
  const ofEquation = node.kind === "eqn"; // then its values are what it returns
  return [
    h(
      "header",
      { class: "tx-head" },
      h("h3", {}, node.title),
      chip(node.kind, node.kind),
      toggle ? button(toggle === "fold" ? "Fold" : "Unfold", () => send({ do: toggle, address })) : null,
      closer(close),
    ),
    h("code", { class: "tx-address" }, address),
    node.note ? h("p", { class: "tx-note" }, node.note) : null,
    tag ? section("Tag", facts(node.tagParams), ...was(`${address}.0`), hint(tag.where)) : null,
    tag?.added
      ? h("div", {}, button("Remove tag", () => send({ do: "untag", address })))
      : null,
    values.length ? section(ofEquation ? "Out" : "Values", ...values) : null,
    ...more,
    node.kind === "jaxpr" ? section("Out", ...node.outputs.map(line)) : null,
    node.inputs.length ? section("In", ...node.inputs.map(line)) : null,
    node.facts.length ? section("Params", facts(node.facts)) : null,
    node.cost.length ? section("Cost", ...node.cost.map((words) => h("div", {}, words))) : null,
    ...drawSources(node),
    node.scope ? section("Scope", line(node.scope)) : null,
  ];
}
