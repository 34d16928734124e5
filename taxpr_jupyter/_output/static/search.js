// @ts-check
/**
 * What a word of a search means, and how well it fits something in the program.
 *
 * The words are those of the panel's own search (`taxpr_jupyter._search.find`), as far as a page
 * knows what they ask for: it has the labels and the tooltips, and of each place that found room
 * its types, source, scope and name, but no program.
 *
 * @typedef {{ types: string, source: string, scope: string, name: string }} Known
 * @typedef {{ page: string, address: string, select: string, kind: string, label: string,
 *   tip: string, known?: Known }} Entry
 *   something that can be found: by what stands on it, or by all that is known of it; `select` is
 *   the address of what stands for it in the picture
 */

import { isTag, primitiveOf } from "../../_view/static/address.js";

export const NO_MATCH = 4; // the rank of what does not match

/** What may stand before a colon, with an example and what it finds. */
export const CRITERIA = [
  ["prim:dot", "a primitive"],
  ["name:params", "an argument, a result, a module"],
  ["tag:loss", "a tag"],
  ["dtype:bf16", "a dtype"],
  ["shape:[2,*]", "a shape; * is any size, ... any number of them"],
  ["source:model.py", "a file, a line as model.py:12, or a function"],
  ["line:12", "a line of the source"],
  ["fn:loss", "a function of the source"],
  ["scope:block_0", "a part of the name stack"],
];

const WORD = /(?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\S)+/g;
const TYPE = /([a-z]+\d*(?:_\w+)?)\[([\d,]*)\]/gi;
const SHAPE = /^([a-z]\w*(?=[[(]))?(\[[\d,*.\s]*\]|\([\d,*.\s]*\)|[\d,*.\s]+)$/;
const LONG = /^(bfloat|float|uint|int|complex)(\d+)$/;
/** @type {Record<string, string>} */
const SHORT = { bfloat: "bf", float: "f", uint: "u", int: "i", complex: "c" };

/** @param {string} text */
export const wordsOf = (text) => text.toLowerCase().match(WORD) ?? [];

/** The lines of an entry that say what type it is: its label, and of the rest the one of its values. */
const typesOf = (/** @type {Entry} */ { label, tip, known }) =>
  [...`${label}\n${tip}\n${known?.types ?? ""}`.toLowerCase().matchAll(TYPE)].map(([, dtype, sizes]) => ({ dtype, sizes }));

/** Where in the source it was made: `model.py:12 in f`, `cell 3, line 4 in f`. */
const sourceOf = (/** @type {Entry} */ { tip, known }) =>
  (known?.source ?? tip).toLowerCase().split("\n").filter((line) => /(:\d+|, line \d+|^line \d+) in /.test(line));

/** The scopes it stands in; a tooltip has only the part since the equation around it. */
const scopesOf = (/** @type {Entry} */ { tip, known }) => known ? [known.scope]
  : tip.split("\n").filter((line) => line.startsWith("in ")).map((line) => line.slice(3));

/** @param {string} name */
const shortDtype = (name) => name.replace(LONG, (_, kind, bits) => SHORT[kind] + bits);

/** Whether sizes such as `2,3` fit a pattern such as `2,*` or `...,3`. */
function fitsSizes(/** @type {string} */ sizes, /** @type {string} */ pattern) {
  const parts = pattern.replace(/[[\]()\s]/g, "").split(",").filter(Boolean);
  const own = sizes.split(",").filter(Boolean);
  const dots = parts.indexOf("...");
  const same = (/** @type {string[]} */ a, /** @type {string[]} */ b) =>
    a.length === b.length && b.every((part, k) => part === "*" || part === a[k]);
  if (dots < 0) return same(own, parts);
  const [before, after] = [parts.slice(0, dots), parts.slice(dots + 1)];
  if (own.length < before.length + after.length) return false;
  return same(own.slice(0, before.length), before) && same(own.slice(own.length - after.length), after);
}

/** The name of a tag, or "": from its label, or from the text of the program. */
function tagOf(/** @type {Entry} */ { address, kind, label, tip, known }) {
  if (known && isTag(address)) return known.name;
  if (kind === "tag" || kind === "injected") return label.split("\n")[0].replace(/^tag /, "");
  return /(?:^|\s)tag\[name='(.*)'/.exec(tip)?.[1] ?? "";
}

/**
 * What the words before a colon mean.
 * @type {Record<string, (entry: Entry, rest: string) => number>}
 */
const KINDS = {
  prim: (entry, rest) => part(primitiveOf(entry.address), rest),
  name: (entry, rest) => best([entry.label.split("\n")[0], isTag(entry.address) ? "" : (entry.known?.name ?? "")].map((name) => part(name, rest))),
  tag: (entry, rest) => part(tagOf(entry), rest),
  dtype: (entry, rest) =>
    typesOf(entry).some(({ dtype }) => dtype === shortDtype(rest)) ? 0 : NO_MATCH,
  shape: (entry, rest) => {
    const [, dtype = "", sizes] = SHAPE.exec(rest) ?? [];
    if (sizes === undefined) return NO_MATCH;
    const fits = typesOf(entry).some(
      (own) => (!dtype || own.dtype === shortDtype(dtype)) && fitsSizes(own.sizes, sizes),
    );
    return fits ? 0 : NO_MATCH;
  },
  source: (entry, rest) => best(sourceOf(entry).map((line) => part(line, rest))),
  line: (entry, rest) =>
    sourceOf(entry).some((line) => line.includes(`:${rest} in `) || line.includes(`line ${rest} in `) ||
      line.startsWith(`${rest} in `)) ? 0 : NO_MATCH,
  // Of a function in another only its own name, as in the panel.
  fn: (entry, rest) =>
    best(sourceOf(entry).map((line) => part(line.split(" in ").at(-1)?.split("<locals>.").at(-1) ?? "", rest))),
  scope: (entry, rest) => best(scopesOf(entry).map((scope) => part(scope, rest))),
};

/** @param {number[]} ranks */
const best = (ranks) => Math.min(NO_MATCH, ...ranks);

/** How well a part, or a glob, fits a text: best where it is all of it. @param {string} text @param {string} rest */
function part(text, rest) {
  const own = text.toLowerCase();
  if (!own || !rest) return NO_MATCH;
  if (/[*?]/.test(rest)) {
    const exact = rest.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    return new RegExp(`^${exact}$`, "s").test(own) ? 0 : NO_MATCH;
  }
  return own === rest ? 0 : own.includes(rest) ? 1 : NO_MATCH;
}

/**
 * How well a word fits: 0 is the primitive itself, and 3 what one cannot see.
 * @param {Entry} entry
 * @param {string} word
 */
export function fit(entry, word) {
  const [, kind, quoted] = /^([a-z]+):(.+)$/s.exec(word) ?? [];
  if (kind && Object.hasOwn(KINDS, kind)) return KINDS[kind](entry, bare(quoted));
  const plain = bare(word);
  const primitive = primitiveOf(entry.address).toLowerCase();
  if (primitive === plain) return 0;
  if (primitive.includes(plain)) return 1;
  if (entry.label.toLowerCase().includes(plain)) return 2;
  if (/^\w*\[[^\]]*\]$/.test(plain) && KINDS.shape(entry, plain) === 0) return 2;
  return allOf(entry).toLowerCase().includes(plain) ? 3 : NO_MATCH;
}

/** All that is known of an entry, in lines. @param {Entry} entry */
export function allOf({ address, tip, known }) {
  const own = known ? [tip ? "" : known.types, known.name, known.scope && `in ${known.scope}`, known.source] : [];
  return [address, tip, ...own.filter((line) => line && !tip.split("\n").includes(line))].join("\n");
}

/** Whether all that a word asks for stands in a line of the program's text. @param {string} word */
export const inText = (word) => /^(prim|tag|dtype|shape):/.test(word);

/** What is wrong with words that ask for nothing, or "". @param {string[]} words */
export function wrong(words) {
  for (const word of words) {
    const [, kind, quoted] = /^([a-z_]+):(.*)$/s.exec(word) ?? [];
    if (!kind) continue;
    const rest = bare(quoted);
    const example = CRITERIA.find(([one]) => one.startsWith(`${kind}:`))?.[0];
    if (!example) {
      // A letter and its type are no criterion, as in `b:f32[3]`.
      if (!quoted || /^[a-z]+\d*(_\w+)?\[/.test(quoted)) continue;
      const known = CRITERIA.map(([one]) => one.replace(/:.*/s, ":")).join(" ");
      return `A search knows no ${kind}: but ${known}. In quotes, "${word}" is looked for as it stands.`;
    }
    if (!rest) return `Nothing follows ${kind}: in the search. An example: ${example}`;
    const sizes = kind === "shape" ? (SHAPE.exec(rest)?.[2] ?? "").replace(/[[\]()\s]/g, "") : "";
    const parts = sizes ? sizes.split(",") : [];
    const fine = parts.every((one, k) =>
      /^(\d+|\*|\.\.\.)$/.test(one) || (!one && k > 0 && k === parts.length - 1),
    ) && parts.filter((one) => one === "...").length < 2;
    if (kind === "shape" && (!fine || !SHAPE.test(rest))) {
      return `${rest} is no shape. An example: ${example}, where * is any size and ... any number of them`;
    }
    if (kind === "line" && !/^(.+:)?\d+$/.test(rest)) return `${rest} is no line. An example: ${example}`;
  }
  return "";
}

/** @param {string} word */
const bare = (word) => (/^".*"$/s.test(word) ? word.slice(1, -1) : word);

/** How well all words fit: as the worst of them. @param {Entry} entry @param {string[]} words */
export function rank(entry, words) {
  return Math.max(...words.map((word) => fit(entry, word)));
}
