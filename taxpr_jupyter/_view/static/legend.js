// @ts-check
/**
 * The legend: what the kinds of nodes and lines are, each with a sample. Python has the table
 * (`taxpr_jupyter._model.legend`).
 */

import { h } from "./dom.js";
import { parseSvg } from "./drawn.js";

/** @param {[string, string][]} rows Each a sample as SVG and words. */
export function drawLegend(rows) {
  const items = rows.map(([sample, words]) => {
    const svg = parseSvg(sample);
    svg?.setAttribute("aria-hidden", "true");
    return h("li", {}, svg, h("span", {}, words));
  });
  return h("ul", { class: "tx-legend", "aria-label": "Kinds of nodes and lines" }, ...items);
}
