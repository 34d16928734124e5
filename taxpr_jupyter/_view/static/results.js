// @ts-check
/**
 * What came out of a run: the loss first, then what changed most, and all else folded.
 *
 * @import { Drawn, Output, Results } from "./messages.js"
 */

import { badMark, chip, counted, facts, folded, h, hint, svgElement, table } from "./dom.js";

const FIRST = 5; // outputs, or gradients, that are shown unfolded
const CHART = { width: 180, height: 26 }; // in pixels

/** What the user has unfolded, by its title, so that the next run shows it, too. @type {Set<string>} */
const open = new Set();

/** @param {string} key What it is, whatever its numbers. @param {string} words @param {...(Node | null)} content */
function kept(key, words, ...content) {
  const part = folded(words, ...content);
  part.open = open.has(key);
  part.setAttribute("data-key", key);
  part.addEventListener("toggle", () => (part.open ? open.add(key) : open.delete(key)));
  return part;
}

/** @param {number} seconds */
const duration = (seconds) =>
  seconds < 1 ? `${(1000 * seconds).toPrecision(3)} ms` : `${seconds.toPrecision(3)} s`;

/** @param {[string, number][]} times */
function drawTimes(times) {
  const total = times.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!total) return null;
  return h(
    "dl",
    { class: "tx-times", "aria-label": "Times of the run" },
    ...times.map(([phase, seconds]) => {
      const part = h("div", {}, h("dt", {}, phase), h("dd", {}, duration(seconds)));
      part.style.setProperty("--share", String(seconds / total));
      return part;
    }),
  );
}

/** @param {Drawn} chart @param {boolean} plain */
function drawChart({ kind, before, after, words }, plain) {
  const { width, height } = CHART;
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height), role: "img", "aria-label": words });
  const y = (/** @type {number} */ one) => 1 + (height - 2) * (1 - one);
  const sides = /** @type {[string, (number | null)[]][]} */ (plain ? [["before", after]] : [["before", before], ["after", after]]);
  for (const [side, heights] of sides) {
    const step = width / (kind === "line" ? Math.max(1, heights.length - 1) : heights.length);
    const points = kind === "line"
      ? heights.flatMap((one, k) => (one === null ? [] : [`${k * step},${y(one)}`]))
      : [`0,${height}`, ...heights.flatMap((one, k) => [`${k * step},${y(one ?? 0)}`, `${(k + 1) * step},${y(one ?? 0)}`]), `${width},${height}`];
    svg.append(svgElement("polyline", { class: `tx-${kind} tx-${side}`, points: points.join(" ") }));
  }
  svg.append(svgElement("title", {}, document.createTextNode(words)));
  return svg;
}

/** @param {Output} row @param {boolean} plain Whether there is a single value. */
function drawOutput(row, plain) {
  const texts = plain ? [row.after] : [row.before, row.after];
  const numbers = plain ? [] : [row.relative, row.largest];
  // Of an array with a chart the first elements are what a pointer shows.
  const charted = row.chart && h("td", { colspan: String(texts.length), title: texts.join("\n→ ") }, drawChart(row.chart, plain));
  return h(
    "tr",
    { class: row.same ? "tx-same" : "tx-changed" },
    h("th", { scope: "row" }, row.name, h("code", {}, row.type), row.notFinite ? badMark(row.notFinite) : null, row.note && !row.notFinite ? hint(row.note) : null),
    ...(charted ? [charted] : texts.map((text) => h("td", {}, h("pre", { title: text }, text)))),
    ...numbers.map((text, k) => h("td", { class: "tx-number", title: k ? `mean |Δ| ${row.mean}` : "" }, text)),
  );
}

/**
 * Rows of outputs: the first ones, and the rest folded, each tree by itself.
 * @param {string} word What they are.
 * @param {Output[]} rows
 * @param {string[]} sides What is compared; of one there is a single value.
 * @param {number} more That have changed, too, and are not there.
 * @returns {HTMLElement[]}
 */
function drawOutputs(word, rows, sides, more = 0) {
  if (!rows.length) return [];
  const plain = sides.length < 2;
  const heads = [word, ...sides, ...(plain ? [] : ["relative", "max |Δ|"])];
  const made = (/** @type {Output[]} */ some, /** @type {string} */ label) => table(heads, some.map((row) => drawOutput(row, plain)), label);
  const name = `${word[0].toUpperCase()}${word.slice(1)}s`;
  const [first, rest] = [rows.slice(0, FIRST), rows.slice(FIRST)];
  const shown = made(first, name);
  if (!rest.length) return [shown];
  const trees = new Map(rest.map(({ tree }) => [tree, rest.filter((row) => row.tree === tree)]));
  const alone = [...trees.values()].filter((some) => some.length < 2).flat();
  const parts = [...trees].filter(([, some]) => some.length > 1).map(([tree, some]) => kept(`${word} ${tree}`, `${tree}: ${counted(some.length, "array")}`, made(some, tree)));
  const label = `More ${word}s`;
  return [shown, kept(label, counted(rest.length + more, `more ${word}`), ...parts, alone.length ? made(alone, label) : null, more ? hint(`${counted(more, `more ${word}`)}, when the slider rests`) : null)];
}

/** @param {Results} run */
export function drawResults(run) {
  const named = (/** @type {string} */ name, /** @type {string} */ detail) =>
    h("th", { scope: "row" }, name, h("code", {}, detail));
  const sides = run.plain ? ["value"] : run.sides;
  const quiet = (/** @type {Output} */ row) => row.same && !row.notFinite && !run.plain;
  const same = run.outputs.filter(quiet);
  const records = run.records.map((row) =>
    h(
      "tr",
      {},
      named(row.name, row.address),
      h("td", {}, facts(row.facts)),
      h("td", {}, h("pre", {}, row.values)),
      h("td", { class: "tx-hint" }, row.note),
    ),
  );
  const divided = run.divided.map((row) => h("tr", {}, named(row.name, row.type), h("td", {}, row.devices)));
  const recordHeads = ["tag", "statistics", "values", "note"];
  const times = drawTimes(run.times);
  const changed = run.gradients.filter(({ same: equal }) => !equal);
  return [
    h(
      "div",
      { class: "tx-head" },
      h("h3", {}, run.title),
      ...run.changes.map((text) => chip(text, "injected")),
      h("span", { class: "tx-outdated" }, "The source, tags, injectors or states have changed since."),
    ),
    run.headline ? h("p", { class: "tx-headline" }, run.headline) : null,
    run.error ? h("pre", { class: "tx-error" }, run.error) : null,
    run.cancelled ? h("p", { class: "tx-note" }, run.cancelled) : null,
    ...drawOutputs("output", run.outputs.filter((row) => !quiet(row)), sides, run.more),
    same.length ? kept("same", run.unchanged, ...drawOutputs("unchanged output", same, ["value"])) : run.plain || !run.unchanged ? null : hint(run.unchanged),
    ...drawOutputs("gradient", changed, sides),
    run.gradients.length > changed.length ? hint(`${counted(run.gradients.length - changed.length, "gradient")} unchanged`) : null,
    run.gradientNote ? hint(run.gradientNote) : null,
    ...drawOutputs("recorded value", run.recorded, sides),
    records.length ? h("h4", {}, "Recorded at tags, after their injectors") : null,
    records.length ? table(recordHeads, records, "Recorded at tags") : null,
    divided.length ? kept("divided", "Divided among devices", table(["argument or output", "part of a device"], divided, "Divided among devices")) : null,
    times || run.xla.length ? kept("times", "Times, FLOPs and memory", times, ...run.xla.map((words) => hint(words))) : null,
  ];
}
