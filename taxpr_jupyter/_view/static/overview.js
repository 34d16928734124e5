// @ts-check
/**
 * A small map of the whole picture, with what of it is in sight. A press or a drag moves the picture, and so
 * do the arrow keys. It is there only while the picture is larger than its stage.
 *
 * @import { Box, Boxes, Point } from "./boxes.js"
 * @import { View } from "./picture.js"
 */

import { meet } from "./altitude.js";
import { h, svgElement } from "./dom.js";

const LARGEST = { width: 170, height: 120 }; // pixels
const OF_STAGE = 0.28; // it takes no more of either side
const ARROWS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
});

/** @param {Box[]} boxes */
const outlines = (boxes) =>
  boxes.map(({ x, y, width: w, height: t }) => `M${x.toFixed()} ${y.toFixed()}h${w.toFixed()}v${t.toFixed()}h${(-w).toFixed()}z`).join("");

export class Overview {
  /**
   * @param {HTMLElement} stage
   * @param {(middle: Point) => void} look Brings a point of the picture, at scale 1, to the middle of the stage.
   */
  constructor(stage, look) {
    this.stage = stage;
    this.look = look;
    this.frames = svgElement("path", { class: "tx-map-frames" });
    this.nodes = svgElement("path", { class: "tx-map-nodes" });
    this.sight = svgElement("rect", { class: "tx-map-sight" });
    this.svg = svgElement("svg", { preserveAspectRatio: "xMidYMid meet", "aria-hidden": "true" }, this.frames, this.nodes, this.sight);
    const label = "Map of the whole picture. Arrow keys move what is in sight.";
    this.element = h("div", { class: "tx-map", tabindex: "0", role: "group", "aria-label": label, title: label }, this.svg);
    this.element.hidden = true;
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("dblclick", (event) => event.stopPropagation());
    this.element.addEventListener("pointerdown", (event) => this.#press(event));
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) this.#go(event);
    });
    this.element.addEventListener("lostpointercapture", () => {
      this.pressed = false;
      this.look(this.middle); // where it is, so that this steps aside now
    });
    this.pressed = false;
    this.drawn = true;
    this.size = { width: 0, height: 0 };
    this.middle = { x: 0, y: 0 };
    this.seen = { width: 0, height: 0 };
    /** @type {Map<string, Box[]>} Both corners, by the sizes that they depend on. */
    this.corners = new Map();
  }

  /** Another picture. @param {Boxes} boxes @param {Element[]} items */
  of(boxes, items) {
    this.size = boxes.size;
    this.drawn = false;
    this.corners.clear(); // the legend of another picture may be another one
    this.draw = () => {
      const [frames, nodes] = [true, false].map((frame) =>
        items.filter((item) => item.classList.contains("cluster") === frame).map((item) => boxes.of(item)),
      );
      this.frames.setAttribute("d", outlines(frames));
      this.nodes.setAttribute("d", outlines(nodes));
      this.svg.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    };
  }

  /** To be called when the picture has moved, or its stage has another size. @param {View} place */
  at({ x, y, scale }) {
    const { clientWidth, clientHeight } = this.stage;
    const { width, height } = this.size;
    const [w, t] = [clientWidth / scale, clientHeight / scale];
    this.element.hidden = !width || !clientWidth || (width <= w && height <= t);
    if (this.element.hidden) return;
    if (!this.drawn) this.draw?.();
    this.drawn = true;
    const most = {
      width: Math.min(LARGEST.width, clientWidth * OF_STAGE),
      height: Math.min(LARGEST.height, clientHeight * OF_STAGE),
    };
    const small = Math.min(most.width / width, most.height / height);
    this.svg.setAttribute("width", String(Math.max(width * small, 24)));
    this.svg.setAttribute("height", String(Math.max(height * small, 24)));
    this.seen = { width: w, height: t };
    this.middle = { x: w / 2 - x / scale, y: t / 2 - y / scale };
    const sight = { x: -x / scale, y: -y / scale, width: w, height: t };
    for (const [name, value] of Object.entries(sight)) this.sight.setAttribute(name, value.toFixed(1));
  }

  /**
   * Goes to the other corner where it would cover one of these, or away; of two free corners, to that with fewer nodes.
   * @param {Box[]} boxes @param {Box[]} nodes
   */
  avoid(boxes, nodes) {
    if (this.element.hidden || this.pressed || this.element.matches(":focus-visible")) return; // it stays where it is used
    const met = this.#corners().map((corner) => ({
      chosen: boxes.some((box) => meet(box, corner)),
      nodes: nodes.filter((box) => meet(box, corner)).length,
    }));
    const worse = (/** @type {number} */ one, /** @type {number} */ other) =>
      met[one].chosen !== met[other].chosen ? met[one].chosen : met[one].nodes > met[other].nodes;
    const now = Number(this.element.classList.contains("tx-aside"));
    const to = worse(now, 1 - now) ? 1 - now : now;
    this.element.classList.toggle("tx-aside", to === 1);
    this.element.classList.toggle("tx-away", met[to].chosen);
    this.element.classList.toggle("tx-over", met[to].nodes > 0);
  }

  /** Where it is in the stage: at first, and aside. @returns {Box[]} */
  #corners() {
    const { clientWidth, clientHeight } = this.stage;
    const { offsetLeft: x, offsetTop: y, offsetWidth: width, offsetHeight: height, classList } = this.element;
    const key = `${clientWidth} ${clientHeight} ${width} ${height}`;
    const known = this.corners.get(key);
    if (known) return known;
    const here = { x, y, width, height };
    const was = classList.contains("tx-aside");
    classList.toggle("tx-aside", !was);
    const there = { ...here, x: this.element.offsetLeft, y: this.element.offsetTop };
    classList.toggle("tx-aside", was);
    this.corners.set(key, was ? [there, here] : [here, there]);
    return was ? [there, here] : [here, there];
  }

  #go(/** @type {PointerEvent} */ event) {
    const at = new DOMPoint(event.clientX, event.clientY);
    const { x, y } = at.matrixTransform(/** @type {SVGGraphicsElement} */ (this.svg).getScreenCTM()?.inverse());
    this.look({ x, y });
  }

  #press(/** @type {PointerEvent} */ event) {
    event.stopPropagation(); // it is no drag of the picture
    if (event.button !== 0) return;
    this.element.setPointerCapture(event.pointerId);
    this.pressed = true;
    this.#go(event);
  }

  #key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(ARROWS, event.key)) return;
    const [right, below] = ARROWS[event.key];
    const { width, height } = this.seen;
    this.look({ x: this.middle.x + (right * width) / 4, y: this.middle.y + (below * height) / 4 });
    event.preventDefault();
    event.stopPropagation();
  }
}
