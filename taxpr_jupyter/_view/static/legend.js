// @ts-check
/**
 * The legend: what the kinds of nodes and lines are, each with a sample. Python has the table
 * (`taxpr_jupyter._model.legend`).
 */

/**
 * @param {(name: string, attributes?: Record<string, any>, ...children: any[]) => HTMLElement} h
 * @param {(text: string) => SVGSVGElement | null} parseSvg
 * @param {[string, string][]} rows Each a sample as SVG and words.
 */
export function drawLegend(h, parseSvg, rows) {
  const items = rows.map(([sample, words]) => {
    const svg = parseSvg(sample);
    svg?.setAttribute("aria-hidden", "true");
    return h("li", {}, svg ?? "", h("span", {}, words));
  });
  return h("ul", { class: "tx-legend", "aria-label": "Kinds of nodes and lines" }, ...items);
}
