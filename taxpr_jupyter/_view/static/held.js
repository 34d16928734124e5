// @ts-check
/**
 * What a recorded value was, as a chip: its curve over the iterations, its mean and standard deviation, and
 * what of it is not finite. It is the same in the picture, in the source and in the inspector.
 *
 * @import { Empty, RecordedValues, ValueCurve } from "./messages.js"
 */

import { badMark, h, svgElement } from "./dom.js";

const SIZE = { width: 46, height: 13 }; // pixels of a curve
const DOT = 1.8;

/** The recorded values at the cursor. */
export class Held {
  constructor() {
    /** @type {RecordedValues | Empty} */
    this.recorded = {};
    /** @type {Record<string, ValueCurve>} */
    this.curves = {};
    this.state = 0; // counts the changes
  }

  /** @param {RecordedValues | Empty} recorded @param {Record<string, ValueCurve>} curves */
  show(recorded, curves) {
    [this.recorded, this.curves] = [recorded, curves];
    this.state += 1;
  }

  /** Whether anything was recorded. */
  get any() {
    return "chips" in this.recorded;
  }

  /** The chip of a value, and that of its cotangent. @param {string} address @returns {HTMLElement[]} */
  both(address) {
    const back = this.chip(`∂ ${address}`);
    back?.prepend(h("b", { class: "tx-cotangent" }, "∂"));
    return [this.chip(address), back].filter((one) => one !== null);
  }

  /** The chip of a value; null where it was not recorded. @param {string} address */
  chip(address) {
    const { recorded } = this;
    if (!("chips" in recorded) || !(address in recorded.chips)) return null;
    const { name: own, words, wrong, span } = recorded.chips[address];
    const curve = this.curves[address];
    const title = [own, span && `from ${span.replace(" … ", " to ")}`, wrong, curve && `over ${curve.iterations} iterations`, recorded.past && "before the last change"];
    const chip = h("span", { class: recorded.past ? "tx-held tx-past" : "tx-held", title: title.filter(Boolean).join(", ") }, words ? h("span", {}, words) : null, wrong ? badMark(wrong) : null);
    if (curve) chip.prepend(drawCurve(curve, recorded.iteration));
    return chip;
  }
}

/** @param {ValueCurve} curve @param {number} iteration -1 for all */
function drawCurve({ points, wrong, iterations }, iteration) {
  const { width, height } = SIZE;
  const x = (/** @type {number} */ k, of = points.length) => (DOT + ((width - 2 * DOT) * k) / Math.max(1, of - 1)).toFixed(1);
  const y = (/** @type {number} */ share) => (DOT + (height - 2 * DOT) * (1 - share)).toFixed(1);
  const isPoint = (/** @type {number} */ k) => (points[k] ?? null) !== null;
  const steps = points.map((share, k) => (share === null ? "" : `${isPoint(k - 1) ? "L" : "M"}${x(k)} ${y(share)}${isPoint(k - 1) || isPoint(k + 1) ? "" : "h0.1"}`));
  const now = iteration >= 0 && iteration < iterations ? [svgElement("path", { class: "tx-curve-now", d: `M${x(iteration, iterations)} 0V${height}` })] : [];
  const dots = wrong.map((k) => svgElement("circle", { class: "tx-curve-wrong", cx: x(k), cy: String(height - DOT), r: String(DOT) }));
  return svgElement("svg", { class: "tx-curve", viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height), "aria-hidden": "true" }, ...now, svgElement("path", { class: "tx-curve-line", d: steps.join("") }), ...dots);
}
