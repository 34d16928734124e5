// @ts-check
/**
 * Elements of a page, as the panel and a saved page make them.
 *
 * All names, params and messages are hostile text. They enter the page as text nodes only.
 *
 * @typedef {Record<string, string | ((event: any) => void)>} Attributes a function is a listener
 * @typedef {Node | string | null | undefined} Child
 */

import { copyPicture } from "./copy.js";

/**
 * Makes an element; strings among the children become text nodes.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Attributes} attributes
 * @param {...Child} children
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value);
  }
  fill(element, children);
  return element;
}

/**
 * Makes an element of a picture.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string>} attributes
 * @param {...Node} children
 */
export function svgElement(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** @param {HTMLElement} element @param {Child[]} children */
export const fill = (element, children) =>
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));

/**
 * Makes an element show what other children would. Those that differ in their texts or attributes alone
 * stay, so that the page lays out only what has changed, and a selected text stays selected.
 * @param {Element} element @param {Child[]} children Their listeners are lost where there are alike ones: these
 *   must be told apart by `data-key`.
 */
export function renew(element, children) {
  const now = children.filter((child) => child !== null && child !== undefined);
  const before = [...element.childNodes];
  const kept = before.length === now.length && now.every((one, k) => renewed(before[k], one));
  if (!kept) element.replaceChildren(...now);
}

/** Whether a node shows what another one does, by now. @param {Node} node @param {Node | string} now */
function renewed(node, now) {
  if (node instanceof Text) {
    const data = typeof now === "string" ? now : now instanceof Text ? now.data : null;
    if (data !== null && data !== node.data) node.data = data; // else its place would be laid out again
    return data !== null;
  }
  const alike = node instanceof Element && now instanceof Element && node.nodeName === now.nodeName && node.getAttribute("data-key") === now.getAttribute("data-key");
  if (!alike) return false;
  for (const { name } of [...node.attributes]) if (!now.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of now.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  renew(node, [...now.childNodes]);
  return true;
}

/** @param {string} label @param {(event: MouseEvent) => void} act @param {Attributes} more */
export const button = (label, act, more = {}) =>
  h("button", { type: "button", class: "tx-button", ...more, click: act }, label);

/** Whether a key enters what is typed, and does not choose a word of an input method. @param {KeyboardEvent} event */
export const enters = (event) => event.key === "Enter" && !event.isComposing;

/** @param {string} title @param {...Child} children */
export const section = (title, ...children) =>
  h("section", { class: "tx-section" }, h("h4", {}, title), ...children);

/** @param {string} words @param {Attributes} more */
export const hint = (words, more = {}) => h("p", { class: "tx-hint", ...more }, words);

/** @param {number} number @param {string} word */
export const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

/** Words that are read out when they change. @param {string} name */
export const spoken = (name) => h("span", { class: name, role: "status", "aria-live": "polite" });

/** @param {string} text @param {string} kind */
export const chip = (text, kind) => h("b", { class: `tx-chip tx-chip-${kind}` }, text);

/** What is wrong with a value. @param {string} words */
export const badMark = (words) => h("b", { class: "tx-mark tx-of-run tx-bad" }, words);

/** @param {string} text */
export const line = (text) => h("code", { class: "tx-line" }, text);

/** @param {string} words @param {...Child} children */
export const folded = (words, ...children) => h("details", {}, h("summary", {}, words), ...children);

/** A button that clears the selection. @param {() => void} clear */
export const closer = (clear) =>
  button("×", clear, { "aria-label": "Clear the selection", class: "tx-button tx-close" });

/** A field for words. @param {Attributes} attributes */
export const textField = (attributes) =>
  h("input", { class: "tx-field", type: "text", spellcheck: "false", autocomplete: "off", ...attributes });

/**
 * The field of a search.
 * @param {[string, string][]} criteria What a word can be about: an example, and what it finds.
 * @param {Attributes} attributes
 */
export const searchField = (criteria, attributes) =>
  textField({
    role: "searchbox",
    title: [
      "All words must match. A prefix says which part a word must match:",
      ...criteria.map((one) => one.join("  ")),
    ].join("\n"),
    ...attributes,
  });

/**
 * @param {() => import("./picture.js").Picture} picture
 * @param {HTMLElement} scale
 * @param {(words: string, error?: boolean) => void} say
 */
export const zoomTools = (picture, scale, say) => [
  button("−", () => picture().zoomOut(), { "aria-label": "Zoom out", title: "Key −" }),
  scale,
  button("+", () => picture().zoomIn(), { "aria-label": "Zoom in", title: "Key +" }),
  button("Fit", () => picture().fitAll(), { "aria-label": "Fit the picture", title: "Key 0; a second time, all of it by names alone where no more can be read" }),
  button("Copy", () => copyPicture(picture().svg, say), {
    "aria-label": "Copy the picture",
    title: "As PNG",
  }),
];

/** @param {[string, string][]} rows */
export const facts = (rows) =>
  h("dl", { class: "tx-facts" }, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));

/** @param {string[]} heads @param {HTMLElement[]} rows @param {string} label */
export const table = (heads, rows, label) =>
  h(
    "div",
    { class: "tx-scroll", tabindex: "0", "data-lm-suppress-shortcuts": "true" }, // by keys, too
    h(
      "table",
      { "aria-label": label },
      h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, ...rows),
    ),
  );

/** Python code with a button that copies it. @param {string} code @param {(words: string) => void} say */
export function drawCopied(code, say) {
  const text = h("pre", { class: "tx-code", tabindex: "0", "aria-label": "Python code" }, code);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code);
      say("Copied.");
    } catch {
      // No permission, or no clipboard on plain http: leave it to the user's own keys.
      getSelection()?.selectAllChildren(text);
      say("Selected. Copy it with Ctrl+C or Cmd+C.");
    }
  };
  return [button("Copy", copy), text];
}

/** @param {Element | null} control */
const nameOf = (control) =>
  control && `${control.tagName} ${control.getAttribute("aria-label") ?? control.textContent}`;

/**
 * Puts other children into an element. The focus stays at the control of the same name, and what is
 * being typed in there and was not sent stays, found again by its label.
 * @param {HTMLElement} element
 * @param {Child[]} children
 */
export function redraw(element, children) {
  const inputs = () => [...element.querySelectorAll("input")].filter(({ type }) => type !== "checkbox");
  const typed = inputs().filter((input) => input.value !== input.defaultValue);
  const active = typed.find((input) => input === document.activeElement);
  const place = active ? [active.selectionStart, active.selectionEnd] : [null, null];
  const name = element.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  fill(element, children);
  const same = [...element.querySelectorAll("button, input, select, summary")].find((one) => nameOf(one) === name);
  if (same instanceof HTMLElement) same.focus({ preventScroll: true });
  for (const old of typed) {
    const again = inputs().find((input) => input.ariaLabel === old.ariaLabel);
    if (!again) continue;
    again.value = old.value;
    if (old !== active) continue;
    again.focus({ preventScroll: true });
    again.setSelectionRange(place[0], place[1]);
  }
}
