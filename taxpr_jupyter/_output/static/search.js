// @ts-check
/**
 * Searches what a saved page knows of a program. Python declares what words mean, in
 * `taxpr_jupyter._search.grammar`, and `find.py` there does the same for the panel.
 *
 * @import { Grammar, SearchTexts } from "../../_view/static/messages.js"
 *
 * @typedef {{ address: string, primitive: string, tag: string, name: string, scope: string,
 *   function: string, source: string, label: string, variable: string, types: string[], letters: string[] }} Place
 * @typedef {{ kind: string, text: string }} Word `kind`: a criterion, or "" for any
 * @typedef {(place: Place) => string} Test why a place fits, or ""
 */

import { eqnOf, isPlace, isTag, primitiveOf } from "../../_view/static/address.js";

/** A place. @param {string} address @returns {Place} */
export function placeOf(address, label = "", letters = "", types = "", source = "", scope = "", name = "", variable = "") {
  const primitive = primitiveOf(address);
  return {
    address,
    primitive,
    tag: isTag(address) ? name : "",
    name: isTag(address) ? "" : name,
    scope,
    function: source.split(" in ").at(-1)?.split("<locals>.").at(-1) ?? "",
    source,
    label: label || primitive,
    variable,
    types: types.split("\n"),
    letters: letters.split(" "),
  };
}

/** The places that found room in the page. @param {SearchTexts} known */
export const placesOf = ({ texts, places }) =>
  places.flatMap(([prefix, rows]) =>
    rows.map(([leaf, letters, types = 0, source = 0, scope = 0, name = 0, label = 0, held = 0]) =>
      placeOf(prefix + leaf, texts[label], letters, texts[types], texts[source], texts[scope], texts[name], texts[held]),
    ),
  );

/** A search that makes no sense. */
export class Mistake extends Error {}

const bare = (/** @type {string} */ word) => (/^".*"$/s.test(word) ? word.slice(1, -1) : word);

const isGlob = (/** @type {string} */ text) => /[*?]/.test(text);

const globOf = (/** @type {string} */ text) =>
  text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");

/** Whether all of a text fits a glob, in capitals as they are. @param {string} glob */
const whole = (glob) => {
  const pattern = new RegExp(`^${globOf(glob)}$`, "s");
  return (/** @type {string} */ text) => text !== "" && pattern.test(text);
};

const sizesOf = (/** @type {string} */ text) =>
  text.split(",").map((size) => size.trim().split("@")[0]).filter(Boolean);

export class Search {
  /** @param {Grammar} grammar */
  constructor(grammar) {
    this.grammar = grammar;
    const pattern = (/** @type {string} */ name) => new RegExp(`^(?:${grammar.patterns[name]})$`, "is");
    this.patterns = Object.fromEntries(Object.keys(grammar.patterns).map((name) => [name, pattern(name)]));
  }

  /** The words of a search. @param {string} text @returns {Word[]} */
  words(text) {
    if (this.patterns.selector.test(text)) throw new Mistake(this.grammar.mistakes.selector);
    return (text.match(new RegExp(this.grammar.patterns.word, "gis")) ?? []).map((word) => this.#word(word));
  }

  /** @param {string} found @returns {Word} */
  #word(found) {
    const { criteria, mistakes } = this.grammar;
    const word = found.replace(/^line\s+/i, "line:");
    const [, prefix = "", quoted = ""] = this.patterns.prefix.exec(word) ?? [];
    const [kind, rest] = [prefix.toLowerCase(), bare(quoted)];
    const known = Object.hasOwn(criteria, kind);
    let mistake = "";
    if (!known) mistake = prefix && !this.patterns.letter.test(word) ? "unknown" : "";
    else if (!rest) mistake = "empty";
    else if (Object.hasOwn(mistakes, kind) && !this.patterns[kind].test(rest)) mistake = kind;
    if (!mistake) return known ? { kind, text: rest } : { kind: "", text: bare(word) };
    /** @type {Record<string, string>} */
    const fields = {
      kind,
      rest,
      example: known ? criteria[kind].example : "",
      known: Object.keys(criteria).map((one) => `${one}:`).join(" "),
      quoted: `"${word}"`,
    };
    throw new Mistake(mistakes[mistake].replace(/\{(\w+)\}/g, (_, name) => fields[name]));
  }

  /**
   * What fits all words, in the order given, with the reason for each word.
   * @template {Place} P
   * @param {P[]} places @param {Word[]} words @returns {{ place: P, why: string[] }[]}
   */
  find(places, words) {
    const tests = words.map((word) => this.#test(word, places));
    const found = places.map((place) => ({ place, why: tests.map((test) => test(place)) }));
    return tests.length ? found.filter(({ why }) => why.every(Boolean)) : [];
  }

  /** @param {Word} word @param {Place[]} places @returns {Test} */
  #test({ kind, text }, places) {
    const column = this.grammar.texts[kind];
    if (kind === "var" && !places.some(({ variable }) => variable)) throw new Mistake(this.grammar.mistakes.variables);
    if (column) return this.#text(column, text);
    const name = whole(text);
    /** @type {Record<string, () => Test>} */
    const tests = {
      "": () => this.#plain(text, places),
      dtype: () => this.#dtype(text),
      shape: () => this.#shape(text),
      tag: () => ({ address, tag }) => (name(tag) || (isTag(address) && address === text) ? `tag ${tag}` : ""),
      scope: () => this.#scope(text),
      line: () => this.#line(text),
    };
    return tests[kind]();
  }

  /** @param {string} word @param {Place[]} places @returns {Test} */
  #plain(word, places) {
    const { grammar, patterns } = this;
    const letter = patterns.letter.exec(word)?.[1].toLowerCase();
    if (letter) return ({ letters }) => (letters.includes(letter) ? `variable ${letter}` : "");
    if (isPlace(word) || (word.includes("/") && isGlob(word))) {
      const fits = isGlob(word) ? whole(word) : (/** @type {string} */ address) => address === eqnOf(word);
      if (places.some(({ address }) => fits(address))) return ({ address }) => (fits(address) ? "address" : "");
    }
    const dtype = patterns.dtype.test(this.#short(word));
    const columns = dtype ? grammar.plain.slice(0, 2) : grammar.plain;
    const tests = columns.map((column) => this.#text(column, word));
    if (dtype) tests.unshift(this.#dtype(word));
    if (word.includes("[")) tests.unshift(this.#shape(word));
    if (patterns.lineOfFile.test(word)) tests.unshift(this.#line(word));
    return (place) => tests.reduce((why, test) => why || test(place), "");
  }

  /** Texts of which the word is a part; of a glob, those that fit it. @returns {Test} */
  #text(/** @type {string} */ column, /** @type {string} */ word) {
    const fits = new RegExp(isGlob(word) ? `^${globOf(word)}$` : globOf(word), "is");
    return (place) => {
      const text = String(place[/** @type {keyof Place} */ (column)]);
      return text && fits.test(text) ? `${column} ${text}` : "";
    };
  }

  /** Parts of the scope, one after the other, also without what transforms them. @returns {Test} */
  #scope(/** @type {string} */ pattern) {
    const wanted = pattern.replace(/^\/+|\/+$/g, "").split("/").map(whole);
    const fits = (/** @type {string} */ part, /** @type {number} */ k) =>
      wanted[k](part) || wanted[k](part.replace(/^(\w+\()+|\)+$/g, ""));
    return ({ scope }) => {
      const parts = scope.split("/").filter((part) => !part.includes("()")); // which names nothing
      const starts = parts.map((_, at) => parts.slice(at, at + wanted.length));
      return starts.some((run) => run.length === wanted.length && run.every(fits)) ? `scope ${scope}` : "";
    };
  }

  /** @param {string} at @returns {Test} */
  #line(at) {
    const [, file = "", wanted = ""] = this.patterns.line.exec(at) ?? [];
    const name = file.split("/").at(-1); // of folders a page knows nothing
    return ({ source }) => {
      const [, own, line] = /^(?:(.*):|.*\bline )(\d+) in /.exec(source) ?? [];
      return Number(line) === Number(wanted) && (!name || own === name) ? `source ${source}` : "";
    };
  }

  /** @param {string} name */
  #short(name) {
    const [, kind = "", bits = ""] = this.patterns.longDtype.exec(name.toLowerCase()) ?? [];
    return kind ? this.grammar.dtypes[kind] + bits : name.toLowerCase();
  }

  /** @param {string} name @returns {Test} */
  #dtype(name) {
    return this.#type((dtype) => dtype === this.#short(name));
  }

  /** @param {string} text @returns {Test} */
  #shape(text) {
    const [all, dtype = "", ...sizes] = this.patterns.shape.exec(text) ?? [];
    if (all === undefined) return () => "";
    /** @type {Record<string, string>} */
    const any = { "*": "[^,]+,", "...": "(?:[^,]+,)*" };
    const pattern = new RegExp(`^${sizesOf(sizes.join("")).map((size) => any[size] ?? `${size},`).join("")}$`);
    return this.#type(
      (own, has) => (!dtype || own === this.#short(dtype)) && pattern.test(has.map((size) => `${size},`).join("")),
    );
  }

  /** @param {(dtype: string, sizes: string[]) => boolean} fits @returns {Test} */
  #type(fits) {
    return ({ types }) => {
      const found = types.find((type) => {
        const [, dtype, sizes] = this.patterns.type.exec(type) ?? [];
        return dtype !== undefined && fits(dtype.toLowerCase(), sizesOf(sizes));
      });
      return found === undefined ? "" : `type ${found}`;
    };
  }
}
