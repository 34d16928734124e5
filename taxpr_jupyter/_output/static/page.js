// @ts-check
/**
 * A drawing in a page of its own: one picture at a time, and a way from each to what is folded in it.
 *
 * The fragment of the page's URL is `#in:ADDRESS` for the picture of what is inside of an address, so that
 * the browser's own buttons go back and forth; `#ADDRESS` leads to that node, wherever it is drawn. Texts of the program become text nodes and nothing else.
 *
 * @import { PageData } from "../../_view/static/messages.js"
 * @typedef {import("./search.js").Place & { page: string, select: string, kind: string,
 *   line: string, known: boolean }} Entry
 *   what a search can find: in a picture, "-" if in none, where `select` is the address of what
 *   stands for it; its line of the text; and whether the file knows all that is looked for
 */

import { eqnOf, isTag, localOf } from "../../_view/static/address.js";
import { button, chip, closer, fill, folded, h, hint, line, searchField, spoken, zoomTools } from "../../_view/static/dom.js";
import { parseSvg } from "../../_view/static/drawn.js";
import { drawLegend } from "../../_view/static/legend.js";
import { Picture } from "../../_view/static/picture.js";
import { SourceLines } from "../../_view/static/source.js";
import { Tabs } from "../../_view/static/text.js";
import { Timeline } from "../../_view/static/timeline.js";
import { Mistake, Search, placeOf, placesOf } from "./search.js";

const INSIDE = "in:"; // begins the fragment of what is in an address
const VIEW = "view:"; // begins the address of the picture of a view that was kept
const FEW = 12; // ends of a value that are listed at first
const TYPING = 120; // milliseconds without a key before the search begins

const byId = /** @type {(id: string) => HTMLElement} */ ((id) => document.getElementById(id));
/** @type {PageData} */
const data = JSON.parse(byId("taxpr-data").textContent ?? "");
// Not by plain access: an address may be the name of something that every object has.
const has = (/** @type {object} */ object, /** @type {string} */ key) => Object.hasOwn(object, key);
const $ = /** @type {(selector: string) => HTMLElement} */ ((selector) =>
  document.querySelector(selector));

/** @param {string} title @param {...(Node | string | null)} children */
const section = (title, ...children) =>
  h("section", { class: "tx-section" }, h("h4", { "aria-level": "2" }, title), ...children);
/** @param {string} title @param {...(Node | null)} children */
const head = (title, ...children) =>
  h("header", { class: "tx-head" }, h("h3", { "aria-level": "2" }, title), ...children, closer(() => select("")));

const stage = $(".tx-stage");
const inspector = $(".tx-inspector");
const path = $(".tx-path");
const message = $(".tx-message");
const lines = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-line]")]);
const first = stage.querySelector("svg");
data.pages[""].svg = first ? new XMLSerializer().serializeToString(first) : "";
first?.remove();

let shown = ""; // the address of the picture
let selected = ""; // of a node, or of a value
/** @type {SVGGElement[]} */
let nodes = [];
/** @type {SVGGElement[]} */
let edges = [];

const views = Object.keys(data.pages).filter((address) => address.startsWith(VIEW));
const choice = h(
  "select",
  { class: "tx-field tx-views", "aria-label": "Kept views", change: () => go(choice.value) },
  h("option", { value: "" }, "Views"),
  ...views.map((address) => h("option", { value: address }, data.pages[address].title ?? "")),
);
const scale = h("span", { class: "tx-scale" });
const picture = new Picture(
  stage,
  {
    select,
    toggle: open,
    placed: ({ scale: now }) => {
      scale.textContent = `${Math.round(100 * now)}%`;
    },
  },
  {},
);

const timeline = new Timeline((alive, now) => picture.live(alive, now));
message.before(timeline.element);
const source = new SourceLines({ choose: fromSource, light: lightLine });
source.follow(stage);

/** @param {string} words */
const say = (words) => {
  message.textContent = words;
};
/** @param {Element | undefined} node */
const addressOf = (node) => node?.getAttribute("data-address") ?? "";
/** @param {Element} node */
const labelOf = (node) => [...node.querySelectorAll("text")].map((text) => text.textContent ?? "");
/** @param {Element} element */
const tipOf = (element) => element.querySelector("title")?.textContent ?? "";

/** Where an address leads when it is opened: the picture of that name, if there is one. */
const foldOf = (/** @type {string} */ address) =>
  nodes.find((node) => addressOf(node) === address)?.getAttribute("data-fold") ?? address;

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
  selected = "";
  picture.mark({});
  picture.selected = "";
  picture.clear();
  const page = data.pages[address];
  picture.show(page.svg ?? "");
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
  timeline.show(address ? {} : data.timeline); // its elements are those of the whole program
  source.know(page.lines);
  lightLine(source.lit, false);
  drawPath(address);
  markLines(address);
  inspect();
  say("");
  choice.value = page.view ? address : "";
  if (!page.view) return;
  picture.goToPlace(page.view.place);
  if (!page.view.selected) return;
  select(page.view.selected);
  picture.reveal(selected);
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
  if (!entries().some((entry) => entry.address === eqnOf(address) || entry.select === address)) {
    return say(`This program has no ${address}.`);
  }
  fromSource(address, false);
  picture.centre(selected);
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
  const fold = foldOf(address);
  const node = nodes.find((one) => addressOf(one) === address);
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

function up() {
  if (shown) go(data.pages[shown].outer ?? "");
}

// --- selecting -----------------------------------------------------------------------------------

/** @param {string} address of a node, a cluster or a value; "" for none */
function select(address) {
  selected = address;
  say("");
  picture.select(address);
  const marks = /** @type {Record<string, string>} */ ({});
  const { entering, leaving } = around(address);
  edges.forEach((edge, k) => edge.classList.toggle("tx-entering", entering.includes(k)));
  for (const k of leaving) marks[addressOf(nodes[data.pages[shown].ends[k][1]])] = "user";
  for (const k of entering) marks[addressOf(nodes[data.pages[shown].ends[k][0]])] = "producer";
  delete marks[address];
  if (!nodes.some((node) => addressOf(node) === address)) {
    // A value: what makes it is where its edges begin.
    for (const k of leaving) marks[addressOf(nodes[data.pages[shown].ends[k][0]])] = "producer";
  }
  picture.mark(marks);
  source.select(address);
  markLines(address);
  inspect();
}

/** Lights what a line of the source makes, in the picture shown; "" is for none. @param {string} place */
function lightLine(place, told = true) {
  source.light(place);
  const number = source.numberOf(place);
  const lit = Object.entries(data.pages[shown].lines).filter(([, lines]) => lines.includes(number));
  picture.light(place ? lit.map(([address]) => address) : null, []);
  if (!told) return;
  if (lit.length) picture.goTo(lit[0][0]);
  say(!place ? "" : lit.length ? "Click the line again to see all." : "Nothing in this picture is made by this line.");
}

/** Marks what the text says of an address. @param {string} address */
function markLines(address) {
  const its = (/** @type {HTMLElement} */ line) => Boolean(address) && line.dataset.line === address;
  for (const line of lines) line.setAttribute("aria-selected", String(its(line)));
  lines.find(its)?.scrollIntoView({ block: "nearest" });
}

/** The edges that enter a node and that leave it; of a value, those that carry it. */
function around(/** @type {string} */ address) {
  /** @type {number[]} */
  const entering = [];
  /** @type {number[]} */
  const leaving = [];
  if (address) {
    data.pages[shown].ends.forEach(([source, target], k) => {
      const value = edges[k].getAttribute("data-value");
      if (addressOf(nodes[source]) === address || value === address) leaving.push(k);
      else if (addressOf(nodes[target]) === address) entering.push(k);
    });
  }
  return { entering, leaving };
}

/** The other ends of edges, as buttons that lead there. @param {number[]} which @param {0 | 1} end */
function listed(which, end) {
  const rows = which.map((k) => {
    const node = nodes[data.pages[shown].ends[k][end]];
    const row = button("", () => select(addressOf(node)), { title: tipOf(node) });
    const value = tipOf(edges[k]);
    row.append(h("b", {}, labelOf(node)[0] ?? addressOf(node)), value ? h("code", {}, value) : "");
    return row;
  });
  const list = h("div", { class: "tx-ends" }, ...rows.slice(0, FEW));
  if (rows.length > FEW) {
    const more = button(`${rows.length - FEW} more`, () => more.replaceWith(...rows.slice(FEW)));
    list.append(more);
  }
  return list;
}

/** Shows what there is to know about the selection, or how to move about; keeps the focus there. */
function inspect() {
  const focused = inspector.contains(document.activeElement);
  showSelected();
  if (focused) inspector.focus({ preventScroll: true });
}

function showSelected() {
  if (!selected) return fill(inspector, help());
  const element = [...(picture.svg?.querySelectorAll("[data-address]") ?? [])].find(
    (one) => addressOf(one) === selected,
  );
  const { entering, leaving } = around(selected);
  if (!element) {
    const makers = leaving.filter((k, i) => {
      const source = (/** @type {number} */ at) => data.pages[shown].ends[at][0];
      return leaving.findIndex((other) => source(other) === source(k)) === i;
    });
    const tip = leaving.length ? tipOf(edges[leaving[0]]) : "";
    const entry = leaving.length ? null : entries().find(({ address }) => address === selected);
    if (entry) {
      // Its picture is not in this file: what the text says of it is all there is.
      const { line, types, name, tag, scope, source } = entry;
      const what = [line || types.join(" "), tag || name, scope && `in ${scope}`, source].filter(Boolean);
      return fill(inspector, [
        head(localOf(selected)),
        h("code", { class: "tx-address" }, selected),
        h("pre", {}, what.join("\n")),
      ]);
    }
    return fill(inspector, [
      head(tip || selected),
      h("code", { class: "tx-address" }, selected),
      linked(selected),
      section("Made by", listed(makers, 0)),
      section("Used by", listed(leaving, 1)),
    ]);
  }
  const [title, ...more] = labelOf(element);
  const kind = element.classList[1] ?? "";
  const fold = element.classList.contains("node") ? element.getAttribute("data-fold") : null;
  const opens = fold && has(data.pages, fold) && fold !== shown;
  const tip = tipOf(element).split("\n").slice(1).join("\n"); // the first line is the address
  fill(inspector, [
    head(title ?? selected, chip(kind, kind), opens ? button("Open", () => open(selected), { title: "Key o, or double-click" }) : null),
    h("code", { class: "tx-address" }, selected),
    linked(selected),
    h("div", {}, ...more.map(line)),
    fold && has(data.left, fold) ? h("p", { class: "tx-note" }, whyNot(fold)) : null,
    tip ? h("pre", {}, tip) : null,
    entering.length ? section("From", listed(entering, 0)) : null,
    leaving.length ? section("To", listed(leaving, 1)) : null,
  ]);
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
    folded("What nodes and lines are", drawLegend(data.legend)),
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
/** @type {[string, string][]} */
const criteria = Object.values(data.grammar.criteria).map(({ example, words }) => [example, words]);
/** @type {Entry[] | null} */
let index = null;
/** @type {{ entry: Entry, why: string }[]} */
let found = [];
let at = -1;
let partly = ""; // which part of the program was searched, unless it is all

/** All that is drawn in some picture, then what stands only in the text, or not even there. */
function entries() {
  if (index) return index;
  const places = new Map(placesOf(data.known).map((place) => [place.address, place]));
  const texts = new Map(lines.map((line) => [line.dataset.line ?? "", line.textContent?.trim() ?? ""]));
  /** @type {Map<string, Entry>} */
  const all = new Map();
  const add = (/** @type {string} */ address, where = { page: "-", select: address, kind: "" }, label = "") => {
    const [place, line] = [places.get(address), texts.get(address) ?? ""];
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
      add(address, { page, select, kind: node.classList[1] ?? "" }, labelOf(node).join("\n"));
    }
  }
  for (const address of [...texts.keys(), ...places.keys()]) if (address && !all.has(address)) add(address);
  return (index = [...all.values()]);
}

const field = searchField(criteria, {
  type: "search",
  placeholder: "Search: exp, prim:dot, f32[*,64], tag:loss",
  "aria-label": "Search names, types, addresses",
});
const number = spoken("tx-hits");
let typing = 0;

/**
 * How well what a word found fits it: 0 if it is all of it, and 3 if one cannot see it.
 * @param {string} why @param {import("./search.js").Word} word
 */
function rank(why, { kind, text }) {
  const [, column, found] = /^(\w+) ?(.*)$/s.exec(why) ?? [];
  if (found.toLowerCase() === text.toLowerCase()) return 0;
  return kind || ["primitive", "tag", "name"].includes(column) ? 1 : ["label", "type"].includes(column) ? 2 : 3;
}

/** @returns {void} */
function search() {
  clearTimeout(typing);
  typing = 0;
  found = [];
  at = -1;
  let words;
  try {
    words = grammar.words(field.value);
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    number.textContent = "not searched";
    select("");
    return say(error.message);
  }
  // The best first; among equals what can be seen, and then in the order of the program.
  const order = grammar.find(words.length ? entries() : [], words).map(({ place: entry, why }) => {
    const ranks = why.map((one, k) => rank(one, words[k]));
    return { entry, rank: Math.max(...ranks), why: why[ranks.indexOf(3)] ?? "" };
  });
  const here = (/** @type {Entry} */ entry) => Number(entry.page !== shown);
  found = order.sort((a, b) => a.rank - b.rank || here(a.entry) - here(b.entry));
  partly = words.length ? searchedPart(words) : "";
  if (found.length) return step(1);
  number.textContent = words.length ? `none${partly}` : "";
  if (words.length) select(""); // what an earlier search found is no answer to this one
}

/** ` in 20 of 30 equations` where the file lacks what the words ask for; "" where it has it. */
function searchedPart(/** @type {import("./search.js").Word[]} */ words) {
  const named = words.every(({ kind }) => kind === "prim"); // which stands in the address
  const seen = entries().filter(
    ({ address, primitive, known }) => (primitive || isTag(address)) && (known || named),
  ).length;
  const { total } = data.known;
  return seen < total
    ? ` in ${seen.toLocaleString("en")} of ${total.toLocaleString("en")} equations; of the others this file knows too little`
    : "";
}

/** @param {number} by @returns {void} */
function step(by) {
  if (typing) return search();
  if (!found.length) return;
  at = (at + by + found.length) % found.length;
  number.textContent = `${at + 1} of ${found.length}${partly}`;
  const { entry, why } = found[at];
  reach(entry.page, entry.select);
  if (entry.page !== "-" && why) say(`It matches in: ${why}`);
}

/** Shows and selects an address in a picture; "-" is for none. `told`: whether the URL is to say so. */
function reach(/** @type {string} */ page, /** @type {string} */ address, told = true) {
  if (page === "-") {
    select(address);
    say(`${address} is folded, and its picture is not in this file.`);
    return;
  }
  if (page !== shown) {
    draw(page);
    if (told) history.pushState(null, "", page ? linkTo(INSIDE + page) : "#");
  }
  select(address);
  picture.reveal(address);
}

/** A line of the text: what it is about in the picture shown, else in the first that has it. */
function fromText(/** @type {string} */ address, told = true) {
  const places = entries().filter((entry) => [entry.address, entry.select].includes(address));
  const here = nodes.some((node) => addressOf(node) === address);
  reach(here ? shown : (places[0]?.page ?? "-"), here ? address : (places[0]?.select ?? address), told);
}

/** A value that a variable of the source held, or the equation that makes it. @param {string} address */
function fromSource(address, told = true) {
  if (!address) return select("");
  fromText(eqnOf(address), told);
  if (around(address).leaving.length) select(address);
}

field.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, TYPING);
});
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape" && !field.value) focusPicture();
  else return;
  event.preventDefault();
});
$(".tx-search").append(
  field,
  button("↑", () => step(-1), { "aria-label": "Previous match", title: "Shift+Enter" }),
  button("↓", () => step(1), { "aria-label": "Next match", title: "Enter" }),
  number,
);

// --- the page ------------------------------------------------------------------------------------

$(".tx-tools").append(...zoomTools(() => picture, scale, say), ...(views.length ? [choice] : []));

stage.addEventListener("click", (event) => {
  const { target } = event;
  if (!(target instanceof Element) || target.closest("[data-twin]")) return; // the picture follows it
  const value = target.closest("g.edge")?.getAttribute("data-value");
  if (value) select(value);
});

if ("parts" in data.source && data.source.parts.length) {
  const tabs = new Tabs("Text or source of the program", (name) => tabs.show(name), [
    { name: "text", title: "Text", panel: $(".tx-outline-text"), shown: () => {} },
    { name: "source", title: "Source", panel: source.panel, shown: () => source.reveal() },
  ]);
  $(".tx-outline").prepend(tabs.list);
  $(".tx-outline").append(source.panel);
  source.show(data.source);
  source.warm(data.heat);
  tabs.show("text");
}
const text = $(".tx-outline pre");
text.setAttribute("role", "listbox");
text.setAttribute("aria-label", "Program as text");
for (const line of lines) {
  line.setAttribute("role", "option");
  line.setAttribute("aria-selected", "false");
}
lines.filter((line) => line.dataset.line)[0]?.setAttribute("tabindex", "0");
text.addEventListener("click", (event) => {
  const line = event.target instanceof Element && event.target.closest("[data-line]");
  const address = line instanceof HTMLElement && line.dataset.line;
  // Who marks text with the mouse wants to copy it.
  if (address && getSelection()?.isCollapsed) fromText(address);
});
text.addEventListener("keydown", (event) => {
  const line = event.target instanceof HTMLElement ? event.target : null;
  if (!line?.dataset.line || event.ctrlKey || event.metaKey || event.altKey) return;
  const reachable = lines.filter((one) => one.dataset.line);
  const here = reachable.indexOf(line);
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: reachable.length - 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") fromText(line.dataset.line);
  else if (to === undefined) return;
  else if (reachable[to]) {
    line.setAttribute("tabindex", "-1");
    reachable[to].setAttribute("tabindex", "0");
    reachable[to].focus();
  }
  event.preventDefault();
});

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === field) return;
  const focused = event.target instanceof Element && event.target.closest("[data-address]");
  const node = focused ? addressOf(focused) : selected;
  if (event.key === "/") field.focus();
  else if (event.key === "o" && node) open(node);
  else if (event.key === "u") up();
  else return;
  event.preventDefault();
});
addEventListener("hashchange", follow);
new ResizeObserver(() => picture.resized()).observe(stage);
follow();
