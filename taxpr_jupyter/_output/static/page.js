// @ts-check
/**
 * A drawing in a page of its own: the panel's viewer, with a model that never changes. All that it
 * answers is in the page: one picture at a time, and a way from each to what is folded in it.
 *
 * The fragment of the page's URL is `#in:ADDRESS` for the picture of what is inside of an address, so that
 * the browser's own buttons go back and forth; `#ADDRESS` leads to that node, wherever it is drawn. Texts of the program become text nodes and nothing else.
 *
 * @import { Message, PageData, SelectedNode, Traits } from "../../_view/static/messages.js"
 * @typedef {import("./search.js").Place & { page: string, select: string, line: string, known: boolean }} Entry
 *   what a search can find: in a picture, "-" if in none, where `select` is the address of what
 *   stands for it; its line of the text; and whether the file knows all that is looked for
 */

import { eqnOf, isIn, isTag, localOf } from "../../_view/static/address.js";
import { button, folded, h, hint, line, section } from "../../_view/static/dom.js";
import { addressOf, parseSvg } from "../../_view/static/drawn.js";
import { drawInspection } from "../../_view/static/inspector.js";
import { Viewer } from "../../_view/static/viewer.js";
import { Mistake, Search, placeOf, placesOf } from "./search.js";

const INSIDE = "in:"; // begins the fragment of what is in an address
const VIEW = "view:"; // begins the address of the picture of a view that was kept
const FEW = 12; // ends of a value that are listed at first

const $ = /** @type {(selector: string) => HTMLElement} */ ((selector) => document.querySelector(selector));
/** @type {PageData} */
const data = JSON.parse($("#taxpr-data").textContent ?? "");
// Not by plain access: an address may be the name of something that every object has.
const has = (/** @type {object} */ object, /** @type {string} */ key) => Object.hasOwn(object, key);

// What is there without scripts
const el = $(".taxpr-view");
const first = el.querySelector(".tx-stage svg");
data.pages[""].svg = first ? new XMLSerializer().serializeToString(first) : "";
const texts = [...el.querySelectorAll("[data-line]")].map((one) => ({
  address: one.getAttribute("data-line") ?? "",
  text: (one.textContent ?? "").trimEnd(),
}));
const rows = texts.map(({ address, text }) => {
  const spans = /** @type {[string, string, string][]} */ ([[text.trimStart(), "", ""]]);
  const depth = (text.length - text.trimStart().length) / 2;
  return { address, depth, kind: "", marks: [], fold: "", open: false, spans };
});

let shown = ""; // the address of the picture
/** @type {SVGGElement[]} */
let nodes = [];
/** @type {SVGGElement[]} */
let edges = [];

// --- the model -----------------------------------------------------------------------------------

/** @type {[string, string][]} */
const criteria = Object.values(data.grammar.criteria).map(({ example, words }) => [example, words]);
/** @type {Partial<Traits>} */
const traits = {
  _legend: data.legend,
  _criteria: criteria,
  call: $(".tx-title code").textContent ?? "",
  counts: $(".tx-title .tx-hint").textContent ?? "",
  note: $(".tx-picture-note").textContent ?? "",
  view: "picture",
  rows: { view: "text", note: "", more: 0, rows },
  source: data.source,
  source_heat: data.heat,
  ...{ svg: "", selected: "", chosen: [] }, // all others begin empty
};
/** @type {Record<string, (() => void)[]>} */
const listeners = {};

/** Sets traits, and draws what depends on them, in this order. @param {Partial<Traits>} changes */
function tell(changes) {
  Object.assign(traits, changes);
  for (const name of Object.keys(changes)) for (const listener of listeners[`change:${name}`] ?? []) listener();
}

/** What a page does of what is asked for. @type {{ [name: string]: (message: any) => void }} */
const answers = {
  toggle: ({ address }) => open(address),
  unfold: ({ address }) => open(address),
  find: ({ text, step }) => search(text, step),
  enter: ({ text, step }) => search(text, step),
  reveal: ({ address }) => choose(address),
  line: ({ address }) => lightLine(address),
  all: () => lightLine(""),
};
const model = /** @type {import("../../_view/static/viewer.js").Model} */ ({
  get: (name) => traits[name] ?? {},
  set: (name, value) => (name === "selected" ? choose(/** @type {string} */ (value)) : tell({ [name]: value })),
  save_changes: () => {},
  send: (message) => answers[message.do]?.(message),
  on: (event, listener) => (listeners[event] ??= []).push(listener),
  off: () => {},
});

/** @type {Viewer} */
const viewer = new Viewer(model, { send: (message) => model.send(message), several: false, inspect: () => belowTitle(inspect()) });
const { find, picture, stage } = viewer;
const path = h("nav", { class: "tx-path", "aria-label": "Where this picture is in the program" });

/** @param {string} words */
const say = (words) => tell({ message: words ? { text: words, error: false } : {} });
/** @param {Element} node */
const labelOf = (node) => [...node.querySelectorAll("text")].map((text) => text.textContent ?? "");
/** @param {Element} element */
const tipOf = (element) => element.querySelector("title")?.textContent ?? "";
/** What is drawn of an address. @param {string} address */
const drawnAt = (address) =>
  [...(picture.svg?.querySelectorAll("[data-address]") ?? [])].find((one) => addressOf(one) === address);

// --- one picture at a time -----------------------------------------------------------------------

/** Shows the picture, or selects the node, that the URL names. */
function follow() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const inside = wanted.startsWith(INSIDE) ? wanted.slice(INSIDE.length) : "";
  const address = has(data.pages, inside) ? inside : "";
  const from = shown;
  if (wanted && !inside) return reveal(wanted);
  if (address === shown && picture.svg) return;
  const focused = [stage, path].some((part) => part.contains(document.activeElement));
  draw(address);
  // On the way out the eye finds the node that it came from.
  if (from && nodes.some((node) => addressOf(node) === from)) select(from);
  if (focused) focusPicture();
}

/** @param {string} address */
function draw(address) {
  shown = address;
  const page = data.pages[address];
  picture.clear();
  tell({ selected: "", marks: {}, message: {}, svg: page.svg ?? "", source_of: page.lines });
  const groups = (/** @type {string} */ kind) =>
    /** @type {SVGGElement[]} */ ([...(picture.svg?.querySelectorAll(kind) ?? [])]);
  nodes = groups("g.node");
  edges = groups("g.edge");
  for (const edge of edges) {
    const line = edge.querySelector("path")?.cloneNode();
    if (!(line instanceof Element)) continue;
    line.setAttribute("class", "tx-hit"); // wide and unseen: a thin line is hard to point at
    edge.append(line);
  }
  picture.fit(false);
  tell({ timeline: address ? {} : data.timeline }); // its elements are those of the whole program
  lightLine(traits.slice?.line ?? "");
  showHits();
  drawPath(address);
  viewer.inspect(); // what it says depends on the picture
  views.value = page.view ? address : "";
  if (!page.view) return;
  picture.goToPlace(page.view.place);
  if (!page.view.selected) return;
  select(page.view.selected);
  picture.reveal(page.view.selected);
}

function focusPicture() {
  const item = stage.querySelector("svg [tabindex='0']");
  if (item instanceof SVGElement) item.focus({ preventScroll: true });
}

/** @param {string} address */
function drawPath(address) {
  const chain = [];
  for (let at = address; at; at = data.pages[at].outer ?? "") chain.unshift(at);
  const step = (/** @type {string} */ at) => {
    const title = at ? (data.pages[at].title ?? at) : "whole program";
    return at === address ? h("b", { title: at }, title) : button(title, () => go(at), { title: at });
  };
  const parts = ["", ...chain].flatMap((at) => [step(at), h("span", { "aria-hidden": "true" }, "›")]);
  parts.pop();
  const counts = h("span", { class: "tx-hint" }, address ? data.pages[address].counts : "");
  path.replaceChildren(...(chain.length ? [...parts, counts] : []));
}

/** @param {string} address */
function go(address) {
  if (address === shown) return;
  location.hash = address ? linkTo(INSIDE + address) : "#";
}

/** Shows a node in the middle, or says that there is none. @param {string} address */
function reveal(address) {
  if (!picture.svg) draw("");
  if (!entryOf(address)) return say(`This program has no ${address}.`);
  choose(address, false);
  picture.centre(model.get("selected"));
}

/** The fragment of an address; those that can be read in one stay as they are. @param {string} address */
function linkTo(address) {
  return `#${encodeURIComponent(address).replace(/%3A/g, ":").replace(/%2F/g, "/")}`;
}

/** Leads to a node, for who gets this link. @param {string} address */
function linked(address) {
  const copy = async (/** @type {Event} */ event) => {
    event.preventDefault();
    history.pushState(null, "", link.hash); // it is selected already
    try {
      await navigator.clipboard.writeText(link.href);
      say("The link to this is copied.");
    } catch {
      say("The address bar has the link to this now."); // no permission, or a page of a file
    }
  };
  const link = h("a", { class: "tx-link", href: linkTo(address), title: "Copies the link to this", click: copy }, "Link");
  return link;
}

/** Opens what is folded at an address, or says why it cannot. @param {string} address */
function open(address) {
  const node = nodes.find((one) => addressOf(one) === address);
  const fold = node?.getAttribute("data-fold") ?? address;
  if (has(data.pages, fold) && fold !== shown) go(fold);
  else if (has(data.left, fold)) say(whyNot(fold));
  else if (!node) say(`${address} is open. To fold it: ${data.call}.fold(${python(address)})`);
  else say(`${address} holds nothing more.`);
}

const python = (/** @type {string} */ text) => JSON.stringify(text);

/** @param {string} fold */
const whyNot = (fold) => {
  const { reason, path: steps } = data.left[fold];
  const call = `${data.call}.unfold(${steps.map(python).join(", ")})`;
  return `The inside of this is not in this file: ${reason}. In Python: ${call}`;
};

// --- selecting -----------------------------------------------------------------------------------

/** Selects an address of the picture that is shown; "" for none. @param {string} address */
function select(address) {
  const marks = /** @type {Record<string, string>} */ ({});
  const { entering, leaving } = around(address);
  edges.forEach((edge, k) => edge.classList.toggle("tx-entering", entering.includes(k)));
  const value = !nodes.some((node) => addressOf(node) === address); // what makes it is where its edges begin
  for (const k of leaving) marks[addressOf(endOf(k, 1))] = "user";
  for (const k of value ? [...entering, ...leaving] : entering) marks[addressOf(endOf(k, 0))] = "producer";
  delete marks[address];
  tell({ message: {}, selected: address, marks });
}

/** Selects an address in the picture shown, else in the first that has it. `told`: whether the URL is to say so. */
function choose(/** @type {string} */ address, told = true) {
  const here = (/** @type {string} */ one) => Boolean(drawnAt(one)) || around(one).leaving.length > 0;
  if (!address || here(address)) select(address);
  else {
    const { page, select: drawn } = entryOf(address) ?? { page: "-", select: address };
    reach(page, drawn, told);
    if (around(address).leaving.length) select(address);
  }
  if (address && !stage.contains(document.activeElement)) picture.reveal(model.get("selected"));
}

/** Shows and selects an address in a picture; "-" is for none. */
function reach(/** @type {string} */ page, /** @type {string} */ address, told = true) {
  if (page !== "-" && page !== shown) {
    draw(page);
    if (told) history.pushState(null, "", page ? linkTo(INSIDE + page) : "#");
  }
  select(address);
  if (page === "-") say(`${address} is folded, and its picture is not in this file.`);
}

/** Lights what a line of the source makes, in the picture shown; "" is for none. @param {string} place */
function lightLine(place) {
  const number = viewer.source.numberOf(place);
  const { lines } = data.pages[shown];
  const elements = Object.keys(lines).filter((address) => place && lines[address].includes(number));
  const lit = new Set(elements);
  const both = [...edges.keys()].filter((k) => lit.has(addressOf(endOf(k, 0))) && lit.has(addressOf(endOf(k, 1))));
  const [, file = "", at = ""] = /^(?:.*\/)?(.*):(\d+)$/.exec(place) ?? [];
  const none = elements.length ? "" : ": nothing in this picture";
  const words = `What line ${at} of ${file} makes${none}`;
  tell({ slice: place ? { words, line: place, elements, edges: both } : {} });
}

/** The node at an end of an edge. @param {number} edge @param {0 | 1} end */
const endOf = (edge, end) => nodes[data.pages[shown].ends[edge][end]];

/** The edges that enter a node and that leave it; of a value, those that carry it. */
function around(/** @type {string} */ address) {
  const all = address ? [...edges.keys()] : [];
  const leaving = all.filter((k) => [addressOf(endOf(k, 0)), edges[k].getAttribute("data-value")].includes(address));
  const entering = all.filter((k) => addressOf(endOf(k, 1)) === address && !leaving.includes(k));
  return { entering, leaving };
}

// --- the inspector -------------------------------------------------------------------------------

/** The other ends of edges, as buttons that lead there. @param {string} title @param {number[]} which @param {0 | 1} end */
function listed(title, which, end) {
  if (!which.length) return null;
  const rows = which.map((k) => {
    const node = endOf(k, end);
    const row = button("", () => choose(addressOf(node)), { title: tipOf(node) });
    const value = tipOf(edges[k]);
    row.append(h("b", {}, labelOf(node)[0] ?? addressOf(node)), value ? h("code", {}, value) : "");
    return row;
  });
  const list = h("div", { class: "tx-ends" }, ...rows.slice(0, FEW));
  if (rows.length > FEW) {
    const more = button(`${rows.length - FEW} more`, () => more.replaceWith(...rows.slice(FEW)));
    list.append(more);
  }
  return section(title, list);
}

/** What a page does not know of a place. @type {SelectedNode} */
const UNKNOWN = {
  ...{ address: "", title: "", kind: "", source: "", line: "", valueSource: "", valueLine: "", addedBy: "", scope: "", note: "" },
  ...{ facts: [], inputs: [], outputs: [], values: [], cost: [], tag: null, tagParams: [], toggle: "" },
};

/** The same, with the headings one level below that of the page. @param {import("../../_view/static/dom.js").Child[]} parts */
function belowTitle(parts) {
  const heads = parts.flatMap((part) => (part instanceof Element ? [...part.querySelectorAll("h3, h4")] : []));
  for (const head of heads) head.setAttribute("aria-level", "2");
  return parts;
}

/** What there is to know about the selection, or how to move about. */
function inspect() {
  const address = model.get("selected");
  if (!address) return help();
  const drawn = (/** @type {Partial<SelectedNode>} */ node, /** @type {(Node | null)[]} */ ...more) => {
    const send = (/** @type {Message} */ message) => model.send(message);
    return drawInspection({ ...UNKNOWN, address, ...node }, send, () => viewer.select(""), more, () => []);
  };
  const element = drawnAt(address);
  const { entering, leaving } = around(address);
  if (element) {
    const [title = address, ...more] = labelOf(element);
    const fold = (element.classList.contains("node") && element.getAttribute("data-fold")) || "";
    const toggle = fold && has(data.pages, fold) && fold !== shown ? "unfold" : "";
    const note = has(data.left, fold) ? whyNot(fold) : "";
    const tip = tipOf(element).split("\n").slice(1).join("\n"); // the first line is the address
    return drawn(
      { title, kind: element.classList[1] ?? "", toggle, note },
      linked(address),
      ...more.map(line),
      tip ? h("pre", {}, tip) : null,
      listed("From", entering, 0),
      listed("To", leaving, 1),
    );
  }
  if (leaving.length) {
    const makers = leaving.filter((k, i) => leaving.findIndex((other) => endOf(other, 0) === endOf(k, 0)) === i);
    const title = tipOf(edges[leaving[0]]) || address;
    return drawn({ title, kind: "value" }, linked(address), listed("Made by", makers, 0), listed("Used by", leaving, 1));
  }
  // Its picture is not in this file: what the text says of it is all there is.
  const { line: text, types, name, tag, scope, source } = { ...placeOf(address), line: "", ...entryOf(address) };
  const what = [text || types.join(" "), tag || name].filter(Boolean);
  const kind = isTag(address) ? "tag" : "eqn";
  return drawn({ title: localOf(address), kind, scope, source }, h("pre", {}, what.join("\n")));
}

// What a label can end in.
const MARKS = [
  ["[kept]", "The forward pass keeps values of this node for the backward pass."],
  ["[loss]", "The backward pass begins here: this result is differentiated."],
  ["[unused]", "Nothing uses what it makes."],
];

function help() {
  const key = (/** @type {string} */ name, /** @type {string} */ what) =>
    h("div", {}, h("kbd", {}, name), ` ${what}`);
  return [
    hint("Select a node or a line between two to see what it is."),
    section(
      "Folded nodes",
      h("p", {}, "Double-click a node with a number of equations on it to see what is inside."),
    ),
    ...MARKS.filter(([mark]) => nodes.some((node) => labelOf(node)[0]?.includes(mark))).map(
      ([mark, what]) => section(mark, h("p", {}, what)),
    ),
    viewer.legend,
    folded("What a search can ask for", ...criteria.map(([word, what]) => key(word, what))),
    section(
      "Keys",
      key("Tab", "to the picture, the text, the search"),
      key("← ↑ → ↓", "to the next node or line"),
      key("Enter", "select"),
      key("o", "open what is folded"),
      key("u", "back out"),
      key("/", "search"),
      key("+ − 0", "zoom; Ctrl and the wheel, too"),
      key("Esc", "clear the selection"),
    ),
  ];
}

// --- searching -----------------------------------------------------------------------------------

const grammar = new Search(data.grammar);
/** @type {Entry[] | null} */
let index = null;
/** @type {{ entry: Entry, why: string }[]} */
let hits = [];
let [asked, mistake, at] = ["", "", 0];

/** All that is drawn in some picture, then what stands only in the text, or not even there. */
function entries() {
  if (index) return index;
  const places = new Map(placesOf(data.known).map((place) => [place.address, place]));
  const lines = new Map(texts.map(({ address, text }) => [address, text.trim()]));
  /** @type {Map<string, Entry>} */
  const all = new Map();
  const add = (/** @type {string} */ address, where = { page: "-", select: address }, label = "") => {
    const [place, line] = [places.get(address), lines.get(address) ?? ""];
    all.set(address, { ...(place ?? placeOf(address, label || line)), ...where, line, known: place !== undefined });
  };
  const drawn = new Set(); // also what stands for something else
  for (const [page, { svg }] of Object.entries(data.pages)) {
    for (const node of parseSvg(svg ?? "")?.querySelectorAll("[data-address]") ?? []) {
      const select = addressOf(node);
      if (drawn.has(select) || node.classList.contains("outside")) continue;
      // The box of a nested jaxpr stands for the equation, unless that is drawn itself.
      const fold = node.getAttribute("data-fold") ?? "";
      const address = places.has(fold) && !drawn.has(fold) ? fold : select;
      drawn.add(select).add(address);
      add(address, { page, select }, labelOf(node).join("\n"));
    }
  }
  for (const address of [...lines.keys(), ...places.keys()]) if (address && !all.has(address)) add(address);
  return (index = [...all.values()]);
}

/** The entry of an address, of a result that of its equation. @param {string} address */
const entryOf = (address) =>
  entries().find((entry) => [entry.address, entry.select].includes(address)) ??
  entries().find((entry) => entry.address === eqnOf(address));

/**
 * How well what a word found fits it: 0 if it is all of it, and 3 if one cannot see it.
 * @param {string} why @param {import("./search.js").Word} word
 */
function rank(why, { kind, text }) {
  const [, column, found] = /^(\w+) ?(.*)$/s.exec(why) ?? [];
  if (found.toLowerCase() === text.toLowerCase()) return 0;
  return kind || ["primitive", "tag", "name"].includes(column) ? 1 : ["label", "type"].includes(column) ? 2 : 3;
}

/** Goes to the first hit of a text that is new, else as many hits on. @param {string} text @param {number} step */
function search(text, step) {
  if (text === asked) at = (at + step + hits.length) % (hits.length || 1);
  else {
    [asked, mistake, hits, at] = [text, "", [], 0];
    try {
      hits = hitsOf(grammar.words(text));
    } catch (error) {
      if (!(error instanceof Mistake)) throw error;
      mistake = error.message;
    }
    if (!hits.length && text.trim()) select(""); // what an earlier search found is no answer to this one
  }
  if (hits.length) {
    const { entry, why } = hits[at];
    reach(entry.page, entry.select);
    if (entry.page !== "-") picture.reveal(entry.select);
    if (entry.page !== "-" && why) say(`It matches in: ${why}`);
  }
  showHits();
}

/** What fits all words, the best first; among equals what can be seen, and then in the order of the program. */
function hitsOf(/** @type {import("./search.js").Word[]} */ words) {
  const ranked = grammar.find(words.length ? entries() : [], words).map(({ place: entry, why }) => {
    const ranks = why.map((one, k) => rank(one, words[k]));
    return { entry, rank: Math.max(...ranks), why: why[ranks.indexOf(3)] ?? "" };
  });
  const here = (/** @type {Entry} */ entry) => Number(entry.page !== shown);
  return ranked.sort((a, b) => a.rank - b.rank || here(a.entry) - here(b.entry));
}

/** Shows how many hits there are, and lights those of the picture. */
function showHits() {
  if (mistake || !asked) return tell({ found: { text: asked, error: mistake } });
  const elements = hits.map(({ entry }) => entry.select);
  const holding = nodes.filter((node) => {
    const fold = node.getAttribute("data-fold");
    return fold && elements.some((one) => isIn(one, fold));
  });
  const found = { text: asked, count: hits.length, at: hits.length ? at + 1 : 0, elements: [...elements, ...holding.map(addressOf)] };
  tell({ found: { ...found, note: searchedPart(grammar.words(asked)) } });
}

/** `in 20 of 30 equations` where the file lacks what the words ask for; "" where it has it. */
function searchedPart(/** @type {import("./search.js").Word[]} */ words) {
  const named = words.every(({ kind }) => kind === "prim"); // which stands in the address
  const seen = entries().filter(
    ({ address, primitive, known }) => (primitive || isTag(address)) && (known || named),
  ).length;
  const { total } = data.known;
  return seen < total
    ? `in ${seen.toLocaleString("en")} of ${total.toLocaleString("en")} equations; of the others this file knows too little`
    : "";
}

find.field.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || find.field.value) return;
  focusPicture();
  event.preventDefault();
});

// --- the page ------------------------------------------------------------------------------------

const kept = Object.keys(data.pages).filter((address) => address.startsWith(VIEW));
const views = h(
  "select",
  { class: "tx-button tx-heat", "aria-label": "Kept views", change: () => go(views.value) },
  h("option", { value: "" }, "Views"),
  ...kept.map((address) => h("option", { value: address }, data.pages[address].title ?? "")),
);
viewer.title.setAttribute("role", "heading");
viewer.title.setAttribute("aria-level", "1");
const ofSource = "parts" in data.source && data.source.parts.length ? [viewer.sourceTab()] : [];
const ofText = { ...viewer.linesTab("text", "Text", viewer.text), beside: stage, seen: () => picture };
viewer.have([viewer.pictureTab(), ...ofSource, ofText], (name) => tell({ view: name }));
el.replaceChildren(
  find.element,
  find.slice,
  h("header", { class: "tx-bar" }, viewer.title, viewer.counts, viewer.list.list, ...(kept.length ? [views] : [])),
  viewer.tools,
  path,
  ...viewer.tabs.map((tab) => tab.panel),
  viewer.inspector,
  h("div", { class: "tx-status" }, viewer.timeline.element, viewer.message),
);

stage.addEventListener("click", (event) => {
  const { target } = event;
  if (!(target instanceof Element) || target.closest("[data-twin]")) return; // the picture follows it
  const value = target.closest("g.edge")?.getAttribute("data-value");
  if (value) select(value);
});

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === find.field) return;
  const focused = event.target instanceof Element && event.target.closest("[data-address]");
  const node = focused ? addressOf(focused) : model.get("selected");
  if (event.key === "/") find.field.focus();
  else if (event.key === "o" && node) open(node);
  else if (event.key === "u") shown && go(data.pages[shown].outer ?? "");
  else return;
  event.preventDefault();
});
addEventListener("hashchange", follow);
viewer.draw({});
viewer.measure(() => {});
follow();
