// @ts-check
/**
 * A picture of a program in the page: pan, zoom, selecting, and walking through it with the keys.
 *
 * It knows nothing of Jupyter. Elements are looked up by `data-address` inside this one picture
 * only. Several of them can have the same address, since values used far away are drawn again.
 *
 * @import { Point } from "./boxes.js"
 * @import { Held } from "./held.js"
 * @import { PicturePlace } from "./messages.js"
 * @typedef {{ x: number, y: number, scale: number }} View where the picture is in the stage
 */

import { eqnOf, isIn, outward } from "./address.js";
import { ALL, Altitude, LEAST } from "./altitude.js";
import { Badges, along, below } from "./badges.js";
import { Band } from "./band.js";
import { Boxes } from "./boxes.js";
import { h } from "./dom.js";
import { addressOf, legendOf, parseSvg, prepare } from "./drawn.js";
import { move, places } from "./motion.js";
import { neighbour, startOf } from "./nearby.js";
import { Overview } from "./overview.js";
import { keepTitles } from "./titles.js";
import { follow, scrolls } from "./touch.js";

const DRAG_PIXELS = 4; // a press that moves less is a click
const ZOOM_STEP = 1.25;
const ZOOM_RANGE = [0.05, 8];
const MARGIN = 16; // pixels around a fitted picture
const BORDER = 64; // an element nearer to the edge than this is moved into sight
const TITLE = 6; // pixels at scale 1 between the border of a frame and its title, at least
// Where about the pointer, in pixels, a line is looked for, which may be as thin as one.
const AROUND = [[0, 0], ...[1, 2, 3].flatMap((far) => [[far, 0], [-far, 0], [0, far], [0, -far]])];
const BELOW = 10; // pixels from the pointer to the chip of a line
const EDGE = 40; // what is folded is as far in the stage, at least

/** What opens or closes an element; empty where nothing does. @param {Element} item */
const foldOf = (item) => item.getAttribute("data-fold") ?? "";

/** The numbers of the kernels that an element shares with others. @param {Element | undefined} item */
const kernelsOf = (item) => item?.getAttribute("data-kernels")?.split(" ") ?? [];

export class Picture {
  /**
   * @param {HTMLElement} stage The picture is shown in this, whatever its size.
   * @param {{ select(address: string): void, toggle(address: string): void,
   *   more?: (addresses: string[], keep: boolean) => void,
   *   placed(place: View, moved: boolean): void }} act What to call when something has happened.
   *   `more` adds to what is selected, or takes away what is, unless it is to be kept; a picture without it
   *   has one selected element at most.
   * @param {PicturePlace} place Where the user had it before, or an empty object.
   */
  constructor(stage, act, place) {
    this.stage = stage;
    this.act = act;
    /** @type {SVGSVGElement | null} */
    this.svg = null;
    this.boxes = new Boxes(null);
    /** @type {Element[]} */
    this.items = [];
    /** @type {Element[]} */
    this.frames = [];
    /** @type {Altitude | null} */
    this.altitude = null;
    this.place = { x: 0, y: 0, scale: 1, ...place };
    this.moved = "scale" in place; // by the user
    this.used = this.moved; // then a new size of the stage moves nothing
    this.whole = false; // what `fit` was asked for
    this.names = false; // whether it then shows names alone
    this.selected = "";
    /** @type {string[]} What else is selected. */
    this.chosen = [];
    /** @type {Record<string, string>} */
    this.marks = {};
    /** @type {{ elements: Set<string>, edges: Set<number> } | null} */
    this.lit = null;
    /** @type {string[]} */
    this.hits = [];
    /** @type {{ alive: Set<string>, now: Set<string> } | null} */
    this.moment = null;
    /** @type {Element | null} What is pointed at, or has the keys. */
    this.pointed = null;
    /** @type {Element | null} The line that is pointed at, or whose name is, */
    this.line = null;
    this.pointer = { x: 0, y: 0 }; // and where
    /** @type {{ place: View, selected: string }[]} Where the user was before following twins. */
    this.before = [];
    // Of colours; it stays while the picture moves.
    this.legend = h("div", { class: "tx-heat-legend taxpr-svg" });
    this.overview = new Overview(stage, (middle) => this.#look(middle));
    this.badges = new Badges(stage);
    /** @type {Held | null} */
    this.held = null;
    /** @type {Record<string, string>} The recorded value that each element gives. */
    this.gives = {};
    stage.append(this.legend, this.overview.element);
    stage.addEventListener("keydown", (event) => this.#key(event));
    stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.#press(event));
    this.release = () => {}; // ends the press that is under way
    follow(stage, (from, to, factor) => this.#pinch(from, to, factor), () => this.release());
    for (const name of ["pointerover", "focusin", "pointerleave", "focusout"]) {
      const leaves = name === "pointerleave" || name === "focusout";
      stage.addEventListener(name, (event) => this.#point(leaves ? null : this.#itemAt(event.target)));
    }
    stage.addEventListener("pointermove", (event) => this.#pointLine(event));
    stage.addEventListener("pointerleave", () => this.#pointLine(null));
    stage.addEventListener("dblclick", (event) => {
      const item = this.#itemAt(event.target);
      if (item) act.toggle(addressOf(item));
    });
  }

  /**
   * Shows another picture at the same scale. What the user has used or selected stays where it is on
   * the screen, or else what is in the middle; so does what is opened, which is then readable.
   */
  show(/** @type {string} */ text) {
    const anchors = this.#anchors();
    const before = places(this.items, this.boxes, this.place);
    const focused = this.stage.contains(document.activeElement);
    const keys = this.#itemAt(document.activeElement); // where the user's keys go
    const closed = new Set(this.items.filter((item) => !item.classList.contains("cluster")).map(foldOf));
    const svg = parseSvg(text);
    this.svg?.remove();
    this.svg = svg;
    this.items = [...(svg?.querySelectorAll("[data-address]") ?? [])];
    this.frames = this.items.filter((item) => item.classList.contains("cluster"));
    this.legend.replaceChildren();
    if (!svg) return;
    prepare(svg);
    svg.setAttribute("aria-multiselectable", String(Boolean(this.act.more)));
    this.legend.append(...legendOf(svg));
    this.boxes = new Boxes(svg);
    this.altitude = new Altitude(svg, this.boxes, this.items);
    this.mark(this.marks);
    this.#pale();
    this.#live();
    this.found(this.hits);
    this.pointed = null;
    this.select(this.selected);
    this.stage.prepend(svg);
    if (this.stage.clientWidth) this.boxes.measure(this.items);
    this.overview.of(this.boxes, this.items);
    const anchor = anchors.find((one) => this.#again(one));
    if (anchor) this.#hold(anchor);
    else if (this.moved) this.#put(this.place, true);
    else this.fit(this.whole);
    const [opened, other] = this.frames.filter((frame) => foldOf(frame) && closed.has(foldOf(frame)));
    const afar = anchors.length && opened && !other && !this.#inSight(this.#middle(opened));
    if (afar) this.bring(opened); // it is another one than what stays
    move(before, svg, this.items, this.boxes, this.place, anchor?.box, this.stage);
    const at = keys ? addressOf(keys) : this.selected;
    const there = this.#find(at)[0] ?? this.#instead(at);
    if (there && focused) this.#focus(there, !anchor);
  }

  /** Marks all elements of this address as selected. */
  select(/** @type {string} */ address) {
    this.selected = address;
    this.used ||= Boolean(address) && this.stage.clientWidth > 0;
    const shown = new Set(this.#shown(address));
    const all = new Set([...shown, ...this.chosen.flatMap((one) => this.#shown(one))]);
    for (const item of this.items) {
      const is = String(all.has(item));
      if (item.getAttribute("aria-selected") !== is) item.setAttribute("aria-selected", is);
    }
    for (const edge of this.svg?.querySelectorAll(".edge") ?? []) {
      const twin = edge.querySelector("[data-twin]")?.getAttribute("data-twin");
      const value = twin ?? edge.getAttribute("data-value") ?? "";
      const leaves = address && (value === address || value.startsWith(`${address}.`));
      edge.classList.toggle("tx-leaving", Boolean(leaves));
    }
    const [first = this.items[0]] = shown;
    this.#outline();
    this.#badge();
    this.#makeReachable(first);
    this.#avoid(shown);
  }

  /** Shows what values were. @param {Held} held @param {Record<string, string>} gives The value that each element gives. */
  hold(held, gives) {
    [this.held, this.gives] = [held, gives];
    this.#badge();
  }

  /** Chips below nodes; and at the lines of what is selected, for values that are not at a node. */
  #badge() {
    const { held, gives, boxes } = this;
    /** @type {[HTMLElement, Point][]} */
    const chips = [];
    const put = (/** @type {string} */ address, /** @type {Point | null} */ at, first = false) => {
      const chip = at && held?.chip(address);
      if (at && chip) chips[first ? "unshift" : "push"]([chip, at]);
    };
    for (const [address, value] of Object.entries(gives)) {
      const item = this.#find(address).find((one) => !one.classList.contains("cluster"));
      if (item) put(value, below(item, boxes), item.getAttribute("aria-selected") === "true");
    }
    const atNodes = new Set(Object.values(gives));
    for (const edge of this.svg?.querySelectorAll(".edge.tx-leaving[data-value]") ?? []) {
      const value = edge.getAttribute("data-value") ?? "";
      if (!atNodes.has(value)) put(value, along(edge, boxes), true);
      atNodes.add(value);
    }
    this.badges.show(chips);
    this.#badgePointed();
  }

  /** The line near the pointer, which is thin. @param {PointerEvent | null} event */
  #pointLine(event) {
    const hit = (/** @type {number} */ dx, /** @type {number} */ dy) => event && document.elementFromPoint(event.clientX + dx, event.clientY + dy);
    /** @type {Element | null} */
    let line = null;
    for (const [dx, dy] of this.held?.any && event && !event.buttons ? AROUND : []) {
      const near = hit(dx, dy);
      if (!line && near && this.svg?.contains(near)) line = near.closest(".edge[data-value]");
      if (near?.closest(".node")) line = null;
      if (line || near?.closest(".node")) break;
    }
    if (line === this.line) return;
    this.line = line;
    const { x, y } = this.stage.getBoundingClientRect();
    if (event) this.pointer = { x: (event.clientX - x - this.place.x) / this.place.scale, y: (event.clientY - y - this.place.y) / this.place.scale };
    this.#badgePointed();
  }

  /** All of the chip of what is pointed at, or has the keys, though it may lie on another. */
  #badgePointed() {
    if (this.line?.isConnected) {
      const twin = this.line.querySelector("[data-twin]")?.getAttribute("data-twin");
      const chip = this.held?.chip(twin ?? this.line.getAttribute("data-value") ?? "") ?? null;
      return this.badges.point(chip, { x: this.pointer.x, y: this.pointer.y + BELOW / this.place.scale });
    }
    const item = this.pointed;
    const value = item && !item.classList.contains("cluster") ? this.gives[addressOf(item)] : undefined;
    const chip = (item?.isConnected && value && this.held?.chip(value)) || null;
    this.badges.point(chip, item && chip ? below(item, this.boxes) : { x: 0, y: 0 });
  }

  /** Marks these elements as selected, too. @param {string[]} addresses */
  choose(addresses) {
    this.chosen = addresses;
    this.select(this.selected);
  }

  /** Where elements are in the stage, of frames their titles. @param {Iterable<Element>} items */
  #seenBoxes(items) {
    const drawn = [...items].map((item) => (item.classList.contains("cluster") ? (item.querySelector("text") ?? item) : item));
    return drawn.map((item) => this.#onStage(this.boxes.of(item))).filter(({ width }) => width > 0);
  }

  /** The map covers none of these, and nodes as few as can be. @param {Iterable<Element>} items */
  #avoid(items) {
    if (this.overview.element.hidden) return;
    const nodes = this.items.filter((item) => !item.classList.contains("cluster")).map((item) => this.#onStage(this.boxes.of(item)));
    this.overview.avoid(this.#seenBoxes(items), nodes.filter((box) => this.#meets(box)));
  }

  /** Gives the elements of these addresses the class `tx-…`, and takes the old ones away. */
  mark(/** @type {Record<string, string>} */ marks) {
    for (const [address, name] of Object.entries(this.marks)) {
      for (const item of this.#find(address)) item.classList.remove(`tx-${name}`);
    }
    for (const [address, name] of Object.entries(marks)) {
      for (const item of this.#find(address)) item.classList.add(`tx-${name}`);
    }
    this.marks = marks;
  }

  /**
   * Pales all but the elements of these addresses and the edges of these numbers; null: nothing.
   * @param {string[] | null} elements
   * @param {number[]} edges
   */
  light(elements, edges) {
    this.lit = elements && { elements: new Set(elements), edges: new Set(edges) };
    this.#pale();
  }

  /** Marks the elements that a search found something in. @param {string[]} hits */
  found(hits) {
    this.hits = hits;
    const all = new Set(hits);
    for (const item of this.items) {
      const isOpen = item.classList.contains("cluster");
      item.classList.toggle("tx-found", !isOpen && all.has(addressOf(item)));
    }
  }

  /**
   * Marks the elements whose values are in memory, and those that compute now; null: none.
   * @param {string[] | null} alive
   * @param {string[]} now
   */
  live(alive, now) {
    this.moment = alive && { alive: new Set(alive), now: new Set(now) };
    this.#live();
  }

  #live() {
    for (const item of this.items) {
      item.classList.toggle("tx-alive", this.moment?.alive.has(addressOf(item)) ?? false);
      item.classList.toggle("tx-now", this.moment?.now.has(addressOf(item)) ?? false);
    }
  }

  #point(/** @type {Element | null} */ item) {
    if (item === this.pointed) return;
    this.pointed = item;
    this.#outline();
    this.#badgePointed();
  }

  /** Outlines all that XLA computes in one kernel with what is pointed at, or else is selected. */
  #outline() {
    const own = new Set(kernelsOf(this.pointed ?? this.#shown(this.selected)[0]));
    for (const item of this.items) {
      item.classList.toggle("tx-kernel", kernelsOf(item).some((kernel) => own.has(kernel)));
    }
  }

  #pale() {
    const { lit } = this;
    for (const item of this.items) {
      item.classList.toggle("tx-pale", lit !== null && !lit.elements.has(addressOf(item)));
    }
    this.svg?.querySelectorAll(".edge").forEach((edge, number) => {
      edge.classList.toggle("tx-pale", lit !== null && !lit.edges.has(number));
      edge.classList.toggle("tx-lit", lit !== null && lit.edges.has(number));
    });
  }

  /** Brings an element into sight. Returns whether the picture has it. */
  goTo(/** @type {string} */ address) {
    const [item] = this.#shown(address);
    const { clientWidth, clientHeight } = this.stage;
    if (item) this.#reveal(item, Math.min(clientWidth, clientHeight) / 4);
    return Boolean(item);
  }

  /** Brings an element to the middle, large enough to be read, and focuses it. */
  goToItem(/** @type {Element} */ item) {
    this.#focus(item);
    this.bring(item);
  }

  /** Brings an element into sight, large enough to be read. */
  bring(/** @type {Element} */ item) {
    if (this.place.scale < ALL) this.#zoom(ALL / this.place.scale);
    const { clientWidth, clientHeight } = this.stage;
    this.#reveal(item, Math.min(clientWidth, clientHeight) / 4);
  }

  /** The same with the element of an address, and to the very middle. @param {string} address */
  centre(address) {
    const [item] = this.#shown(address);
    if (!item) return;
    this.goToItem(item);
    this.#look(this.boxes.middle(item));
  }

  /** All of the picture if it can be read so, or else its width; and once more, all of it by names alone. */
  fitAll() {
    this.names = this.whole && !this.used && !this.names;
    this.fit(true);
  }

  /** Puts the picture into the stage. `whole`: as `fitAll` says; else from its start. */
  fit(/** @type {boolean} */ whole) {
    const { clientWidth, clientHeight } = this.stage;
    this.whole = whole;
    if (!this.svg || !clientWidth) return;
    this.used = false;
    const { width, height } = this.boxes.size;
    const all = this.#fitting();
    const across = Math.min((clientWidth - 2 * MARGIN) / width, 1);
    const readable = all < LEAST && !this.names ? Math.max(across, LEAST) : all;
    const scale = whole ? readable : Math.max(all, ALL);
    let x = (clientWidth - width * scale) / 2;
    const y = Math.max(MARGIN, (clientHeight - height * scale) / 2);
    this.boxes.measure(this.items);
    this.place = { x, y, scale }; // for `#middle`
    const start = x < MARGIN - 0.5 ? startOf(this.items, this.#middle, this.stage, scale) : null;
    const least = clientWidth - MARGIN - width * scale; // then its right end is in sight
    if (start !== null) x = Math.min(Math.max(x + clientWidth / 2 - start, least), MARGIN);
    this.#put({ x, y, scale }, false);
  }

  /** To be called when parts of the picture have moved in it. @param {SVGSVGElement} svg */
  rearranged(svg) {
    this.boxes.again(svg);
    this.altitude?.again();
    this.overview.of(this.boxes, this.items);
  }

  /** Takes the picture away: the next one is another, and stands where it fits. */
  clear() {
    this.moved = this.used = false;
    this.svg?.remove();
    this.svg = null;
    this.items = this.frames = [];
  }

  /** Moves the picture if the element of this address is out of sight. */
  reveal(/** @type {string} */ address) {
    const [first] = this.#shown(address);
    if (first) this.#reveal(first);
  }

  zoomIn() {
    this.#zoom(ZOOM_STEP);
  }

  zoomOut() {
    this.#zoom(1 / ZOOM_STEP);
  }

  /** To be called when the stage has got another size. What the user has used stays in sight. */
  resized() {
    if (!this.svg || !this.stage.clientWidth) return;
    this.overview.corners.clear();
    if (!this.used) return this.fit(this.whole);
    const [chosen] = this.#shown(this.selected);
    if (chosen && !this.#inSight(this.#middle(chosen))) this.#reveal(chosen);
    else if (!this.#anchors().length) this.fit(this.whole);
    this.#written();
  }

  /** What depends on the zoom and on where elements are, which only a stage in sight tells. */
  #written() {
    const { clientWidth, clientHeight } = this.stage;
    const { x, y, scale } = this.place;
    if (clientWidth) this.altitude?.at(scale);
    if (clientWidth && scale >= LEAST) {
      const sight = { x: -x / scale, y: -y / scale, width: clientWidth / scale, height: clientHeight / scale };
      keepTitles(this.frames, this.boxes, sight);
    }
    this.overview.at(this.place);
    this.#avoid(this.#shown(this.selected));
  }

  #find(/** @type {string} */ address) {
    if (!address || !this.svg) return [];
    return [...this.svg.querySelectorAll(`[data-address="${CSS.escape(address)}"]`)];
  }

  /** The elements of an address, of a result those of its equation; of an open one its boxes. */
  /** @returns {Element[]} */
  #shown(/** @type {string} */ address) {
    const drawn = this.#find(address);
    if (drawn.length || !address || !this.svg) return drawn;
    const eqn = eqnOf(address);
    if (eqn !== address) return this.#shown(eqn);
    return [...this.svg.querySelectorAll(`.cluster[data-fold="${CSS.escape(address)}"]`)];
  }

  #itemAt(/** @type {EventTarget | null} */ target) {
    return target instanceof Element ? target.closest("[data-address]") : null;
  }

  /** The scale at which all of the picture is in the stage, 1 at most; 0 without a picture. */
  #fitting() {
    const { width, height } = this.boxes.size;
    const { clientWidth, clientHeight } = this.stage;
    if (!width || !height || !clientWidth) return 0;
    return Math.min((clientWidth - 2 * MARGIN) / width, (clientHeight - 2 * MARGIN) / height, 1);
  }

  /** Whether a point of the stage is in sight. */
  #inSight(/** @type {Point} */ { x, y }) {
    return x > 0 && y > 0 && x < this.stage.clientWidth && y < this.stage.clientHeight;
  }

  /**
   * The elements in sight: first the one that has the keys, then what is selected, then from the middle
   * of the stage outwards.
   */
  #anchors() {
    const { clientWidth, clientHeight } = this.stage;
    if (!clientWidth) return [];
    const used = this.#itemAt(document.activeElement);
    /** @type {Map<string, number>} */
    const seen = new Map();
    const anchors = this.items.map((item) => {
      const address = addressOf(item);
      const which = seen.get(address) ?? 0; // of those of this address
      seen.set(address, which + 1);
      const at = this.#on(this.boxes.title(item));
      const first = item === used ? -2 : address === this.selected ? -1 : 0;
      const far = first || Math.hypot(at.x - clientWidth / 2, at.y - clientHeight / 2);
      const open = item.classList.contains("cluster");
      return { address, which, at, far, open, box: this.#onStage(this.boxes.of(item)) };
    });
    const inSight = (/** @type {typeof anchors[number]} */ { at, far, box }) =>
      far < 0 ? this.#meets(box) : this.#inSight(at);
    return anchors.filter(inSight).sort((a, b) => a.far - b.far);
  }

  /** What it is in the picture that is shown now. @param {{ address: string, which: number, far: number }} anchor */
  #again({ address, which, far }) {
    const drawn = this.#find(address);
    return drawn[which] ?? drawn[0] ?? (far < 0 ? this.#instead(address) : undefined);
  }

  /**
   * Moves the picture so that an element is where it was; if it is folded now, that is in sight, and if
   * it is open now, that can be read.
   * @param {{ address: string, which: number, far: number, at: Point, open: boolean }} anchor
   */
  #hold(anchor) {
    const item = /** @type {Element} */ (this.#again(anchor));
    const open = item.classList.contains("cluster");
    const { clientWidth, clientHeight } = this.stage;
    const within = (/** @type {number} */ at, /** @type {number} */ end) => Math.min(Math.max(at, EDGE), end - EDGE);
    const folded = anchor.open && !open;
    const opened = open && !anchor.open;
    const scale = opened ? Math.max(this.place.scale, LEAST) : this.place.scale;
    const at = folded ? { x: within(anchor.at.x, clientWidth), y: within(anchor.at.y, clientHeight) } : anchor.at;
    if (opened) this.#shiftTitle(item, at.x, scale);
    const to = this.boxes.title(item);
    const place = { x: at.x - to.x * scale, y: at.y - to.y * scale, scale };
    const same = Object.entries(place).every(([key, value]) => Math.abs(value - this.place[/** @type {keyof View} */ (key)]) < 0.5);
    this.#put(same ? this.place : place, this.moved || !same);
  }

  /**
   * Moves the title of a frame to where the most of the frame is in sight, once the title is at this
   * place across the stage.
   */
  #shiftTitle(/** @type {Element} */ frame, /** @type {number} */ at, /** @type {number} */ scale) {
    const box = this.boxes.of(frame);
    const title = frame.querySelector("text");
    if (!title) return;
    const half = this.boxes.of(title).width / 2 + TITLE;
    const end = this.stage.clientWidth - MARGIN - box.width * scale;
    const grown = Math.min(Math.max(at - (box.width * scale) / 2, MARGIN), Math.max(end, MARGIN));
    const left = Math.max(Math.min(grown, at - half * scale), at - (box.width - half) * scale);
    const lines = this.boxes.lines(frame) ?? box;
    const room = box.x + box.width - TITLE - lines.x - lines.width; // for the longest of them
    const shift = Math.min(box.x + (at - left) / scale - this.boxes.title(frame).x, room);
    if (box.width > 2 * half) for (const text of frame.querySelectorAll("text")) this.boxes.shift(text, shift);
  }

  /** What stands for an element once it is folded or unfolded. */
  #instead(/** @type {string} */ address) {
    for (const one of outward(address).slice(1)) {
      const [outer] = this.#find(one);
      if (outer) return outer;
    }
    return this.items.find((item) => isIn(addressOf(item), address));
  }

  /** Goes to where it was once; an empty place is where all of it is seen. */
  goToPlace(/** @type {PicturePlace} */ place) {
    if ("scale" in place) this.#put({ ...this.place, ...place }, true);
    else this.fit(false);
  }

  #put(/** @type {View} */ place, /** @type {boolean} */ moved) {
    this.place = place;
    this.moved = moved;
    const { x, y, scale } = place;
    this.used ||= moved;
    if (this.svg) this.svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.badges.at(place);
    this.#written();
    this.act.placed(place, moved);
  }

  #moveBy(/** @type {number} */ dx, /** @type {number} */ dy, byUser = true) {
    const { x, y, scale } = this.place;
    this.#put({ x: x + dx, y: y + dy, scale }, byUser);
  }

  /** Two fingers have moved. @param {Point} from @param {Point} to @param {number} factor */
  #pinch(from, to, factor) {
    const box = this.stage.getBoundingClientRect();
    this.#moveBy(to.x - from.x, to.y - from.y);
    if (factor !== 1) this.#zoom(factor, { x: to.x - box.x, y: to.y - box.y });
  }

  /** Zooms about a point of the stage, which is its middle unless given. */
  #zoom(/** @type {number} */ factor, /** @type {Point | null} */ about = null) {
    const { clientWidth, clientHeight } = this.stage;
    const { x, y } = about ?? { x: clientWidth / 2, y: clientHeight / 2 };
    const wanted = this.place.scale * factor;
    const scale = Math.min(Math.max(wanted, ZOOM_RANGE[0]), ZOOM_RANGE[1]);
    const change = scale / this.place.scale;
    const at = { x: x - (x - this.place.x) * change, y: y - (y - this.place.y) * change };
    this.#put({ ...at, scale }, true);
  }

  /** Where a point of the picture is in the stage. @param {Point} point */
  #on({ x, y }) {
    const { place } = this;
    return { x: place.x + x * place.scale, y: place.y + y * place.scale };
  }

  /** Where a box is in the stage. @param {import("./boxes.js").Box} box */
  #onStage(box) {
    const { scale } = this.place;
    return { ...this.#on(box), width: box.width * scale, height: box.height * scale };
  }

  /** Whether a part of a box is in sight. @param {import("./boxes.js").Box} box */
  #meets({ x, y, width, height }) {
    return x + width > 0 && y + height > 0 && x < this.stage.clientWidth && y < this.stage.clientHeight;
  }

  /** Where an element is in the stage. For a frame that is where its title is. */
  #middle = (/** @type {Element} */ item) => this.#on(this.boxes.middle(item));

  /** Brings a point of the picture to the middle of the stage. @param {Point} point */
  #look({ x, y }) {
    const { clientWidth, clientHeight } = this.stage;
    const { scale } = this.place;
    this.#put({ x: clientWidth / 2 - x * scale, y: clientHeight / 2 - y * scale, scale }, true);
  }

  /** Moves the picture if this element is out of sight, or as near to the edge of the stage. */
  #reveal(/** @type {Element} */ item, border = BORDER) {
    const { x, y } = this.#middle(item);
    const { clientWidth, clientHeight } = this.stage;
    if (!clientWidth) return; // it is in no page yet
    const inside = (/** @type {number} */ at, /** @type {number} */ end) =>
      Math.min(Math.max(at, border), end - border);
    const [dx, dy] = [inside(x, clientWidth) - x, inside(y, clientHeight) - y];
    if (dx || dy) this.#moveBy(dx, dy);
  }

  /** The Tab key reaches this element of the picture and no other. */
  #makeReachable(/** @type {Element | undefined} */ item) {
    for (const other of this.svg?.querySelectorAll("[tabindex='0']") ?? []) other.setAttribute("tabindex", "-1");
    item?.setAttribute("tabindex", "0");
  }

  #focus(/** @type {Element} */ item, reveal = true) {
    this.#makeReachable(item);
    /** @type {SVGElement} */ (item).focus({ preventScroll: true });
    if (reveal) this.#reveal(item);
  }

  /** From the twin of a value to the value itself; Backspace leads back. */
  #follow(/** @type {Element} */ twin) {
    this.before.push({ place: this.place, selected: this.selected });
    const address = twin.getAttribute("data-twin") ?? "";
    this.act.select(address);
    const [item] = this.#shown(address);
    if (item) this.#focus(item);
    this.goTo(address);
  }

  #goBack() {
    const before = this.before.pop();
    if (!before) return;
    this.act.select(before.selected);
    this.#put(before.place, true);
  }

  /** Selects an element; with Shift also, or no longer. */
  #choose(/** @type {Element} */ item, /** @type {boolean} */ shift) {
    if (shift && this.act.more) this.act.more([addressOf(item)], false);
    else this.act.select(addressOf(item));
  }

  /** Selects the nodes that a rubber band meets, too. @param {Band} band */
  #catch(band) {
    const nodes = this.items.filter((item) => !item.classList.contains("cluster"));
    const met = nodes.filter((item) => band.meets(this.#onStage(this.boxes.of(item))));
    if (met.length) this.act.more?.([...new Set(met.map(addressOf))], true);
  }

  #key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = this.#itemAt(event.target);
    const items = this.items;
    const go = (/** @type {Element | undefined} */ to) => to && this.#focus(to);
    const walk = (/** @type {number} */ right, /** @type {number} */ below) =>
      go(item ? neighbour(item, items, this.#middle, right, below) : items[0]);
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowUp: () => walk(0, -1),
      ArrowDown: () => walk(0, 1),
      ArrowLeft: () => walk(-1, 0),
      ArrowRight: () => walk(1, 0),
      Home: () => go(items.at(0)),
      End: () => go(items.at(-1)),
      Enter: () => item && this.#choose(item, event.shiftKey),
      " ": () => item && this.act.select(addressOf(item)),
      o: () => item && this.act.toggle(addressOf(item)),
      Escape: () => this.act.select(""),
      Backspace: () => this.#goBack(),
      "+": () => this.zoomIn(),
      "=": () => this.zoomIn(),
      "-": () => this.zoomOut(),
      0: () => this.fitAll(),
    };
    const leaves = event.key === "Escape" && !this.selected; // that is for the page
    if (leaves || !Object.hasOwn(keys, event.key)) return;
    keys[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Zooms with Ctrl or Cmd held; without it the wheel scrolls the page. */
  #wheel(/** @type {WheelEvent} */ event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.stage.getBoundingClientRect();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const turn = Math.min(Math.max(event.deltaY * lines, -80), 80);
    this.#zoom(Math.exp(-turn / 250), { x: event.clientX - box.x, y: event.clientY - box.y });
  }

  /**
   * A press that moves some pixels drags the picture; with Shift held it draws a rubber band. One that does
   * not move is a click.
   */
  #press(/** @type {PointerEvent} */ down) {
    if (down.button !== 0 || !this.svg) return;
    let last = { x: down.clientX, y: down.clientY };
    let dragging = false;
    /** @type {Band | null} */
    let band = null;
    const banding = down.shiftKey && down.pointerType !== "touch" && Boolean(this.act.more);
    const scrolling = scrolls(this.stage, down);
    const listeners = new AbortController();
    const listen = (/** @type {string} */ name, /** @type {(event: any) => void} */ listener) =>
      this.stage.addEventListener(name, listener, { signal: listeners.signal });
    const stop = () => {
      listeners.abort();
      band?.gone();
      this.stage.classList.remove("tx-dragging");
    };
    this.release = stop;
    listen("pointermove", ({ clientX: x, clientY: y }) => {
      if (!dragging) {
        if (Math.hypot(x - last.x, y - last.y) < DRAG_PIXELS) return;
        if (scrolling) return stop();
        dragging = true; // captured only now: a captured click would not reach its element
        this.stage.setPointerCapture(down.pointerId);
        if (banding) band = new Band(this.stage, last);
        else this.stage.classList.add("tx-dragging");
      }
      if (band) return band.to({ x, y });
      this.#moveBy(x - last.x, y - last.y);
      last = { x, y };
    });
    listen("pointerup", (up) => {
      stop();
      if (band) this.#catch(band);
      if (dragging) return;
      const twin = up.target instanceof Element && up.target.closest("[data-twin]");
      if (twin) return this.#follow(twin);
      const item = this.#itemAt(up.target);
      if (item) this.#focus(item, false);
      if (item) this.#choose(item, up.shiftKey);
      else this.act.select("");
    });
    listen("pointercancel", stop);
    listen("pointerleave", stop);
  }
}
