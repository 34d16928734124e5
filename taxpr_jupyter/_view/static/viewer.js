// @ts-check
/**
 * What a panel and a saved page share: the picture with its search, source, text and inspector. It
 * draws what the traits of a model say, and turns clicks and keys into a new `selected` or into a
 * message. The model of a panel is a widget, and that of a page answers out of the page.
 *
 * @import { Child } from "./dom.js"
 * @import { View } from "./picture.js"
 * @import { Message, Numbered, Traits } from "./messages.js"
 * @typedef {{ get<K extends keyof Traits>(name: K): Traits[K],
 *   set<K extends keyof Traits>(name: K, value: Traits[K]): void, save_changes(): void,
 *   send(message: Message & Partial<Numbered>): void, on(event: string, callback: () => void): void,
 *   off(event: string, callback: () => void): void }} Model
 * @typedef {{ [K in keyof Traits]?: (value: Traits[K]) => void }} Fields what to draw when a trait changes
 * @typedef {import("./text.js").Tab & { seen?: () => Picture, fields: Fields }} ViewTab a tab with the
 *   picture that its zoom is about, if any, and with what it draws
 */

import { folded, h, hint, redraw, renew, zoomTools } from "./dom.js";
import { Find } from "./find.js";
import { drawLegend } from "./legend.js";
import { Picture } from "./picture.js";
import { SourceLines } from "./source.js";
import { Lines, Tabs } from "./text.js";
import { Timeline } from "./timeline.js";

export class Viewer {
  /**
   * @param {Model} model
   * @param {{ send(message: Message): unknown, several: boolean, inspect(): Child[] | null,
   *   pick?(address: string): void, choose?(): void, placed?(place: View, moved: boolean): void,
   *   source?: Partial<ConstructorParameters<typeof SourceLines>[0]> }} act What to call when something has
   *   happened: `pick` before a place of the picture is selected, `choose` before anything is.
   *   `several` says whether more than one place can be selected; `inspect` draws what is selected, or
   *   gives null as long as nothing is known of it.
   */
  constructor(model, act) {
    const { send } = act;
    const select = (/** @type {string} */ address) => this.select(address);
    const more = (/** @type {string[]} */ addresses, /** @type {boolean} */ keep) => this.more(addresses, keep);
    const several = act.several ? { more } : {};
    this.model = model;
    this.act = act;
    this.scale = h("span", { class: "tx-scale" });
    this.call = h("code");
    this.counts = h("span", { class: "tx-hint tx-counted" });
    this.title = h("span", { class: "tx-title" }, this.call);
    this.message = h("p", { class: "tx-message", role: "status", "aria-live": "polite" });
    this.note = hint("", { class: "tx-hint tx-picture-note" });
    this.stage = h("div", { class: "tx-stage" }, this.note);
    this.inspector = h("aside", { class: "tx-inspector", "aria-label": "Inspector", tabindex: "-1" });
    this.picture = new Picture(
      this.stage,
      {
        ...several,
        select: (address) => {
          act.pick?.(address);
          select(address);
        },
        toggle: (address) => send({ do: "toggle", address }),
        placed: (place, moved) => {
          this.scaled();
          act.placed?.(place, moved);
        },
      },
      model.get("place"),
    );
    this.timeline = new Timeline((alive, now) => this.picture.live(alive, now));
    this.legend = folded("What the nodes and lines of the picture are", drawLegend(model.get("_legend")));
    this.legend.classList.add("tx-legend-folded");
    this.find = new Find(send, this.picture, model.get("_criteria"));
    this.text = new Lines("Text of the program", "tx-text", { ...several, select, send });
    this.source = new SourceLines({
      choose: (address) => this.show(address),
      light: (place) => send(place ? { do: "line", address: place } : { do: "all" }),
      ...act.source,
    });
    this.source.follow(this.stage);
    this.tools = h(
      "div",
      { class: "tx-tools", role: "group", "aria-label": "Zoom" },
      ...zoomTools(() => this.seen() ?? this.picture, this.scale, (words, error) => this.say(words, error)),
    );
    /** @type {ViewTab[]} */
    this.tabs = [];
    this.list = new Tabs("", () => {}, []);
    /** @type {(() => void)[]} */
    this.ends = [];
  }

  // --- tabs ----------------------------------------------------------------------------------------

  /** @returns {ViewTab} */
  pictureTab() {
    const { picture } = this;
    /** @type {Fields} */
    const fields = {
      selected: (address) => picture.select(address),
      chosen: (addresses) => picture.choose(addresses),
    };
    return { ...this.beside("picture", "Picture", this.stage, fields), beside: undefined };
  }

  /** @returns {ViewTab} */
  sourceTab() {
    const { picture, source } = this;
    /** @type {Fields} */
    const fields = {
      source: (shown) => "parts" in shown && source.show(shown),
      source_of: (lines) => source.know(lines),
      source_heat: (measured) => source.warm(measured),
      selected: (address) => source.select(address),
      slice: ({ line = "", elements = [] }) => source.light(line) && picture.goTo(elements[0] ?? ""),
    };
    return { ...this.beside("source", "Source", source.panel, fields), shown: () => source.reveal() };
  }

  /** A tab of rows. @param {"text" | "outline"} name @param {string} title @param {Lines} lines @returns {ViewTab} */
  linesTab(name, title, lines) {
    /** @type {Fields} */
    const fields = {
      rows: (sent) => "view" in sent && sent.view === name && lines.show(sent),
      selected: (address) => lines.select(address),
      chosen: (addresses) => lines.choose(addresses),
      slice: ({ elements }) => lines.light(elements ?? null),
    };
    return { name, title, panel: lines.panel, shown: () => lines.reveal(), fields };
  }

  /** A tab that the picture stays beside. @param {Traits["view"]} name @param {string} title @param {HTMLElement} panel @param {Fields} fields @returns {ViewTab} */
  beside(name, title, panel, fields = {}) {
    const { picture, stage } = this;
    const shown = () => picture.reveal(this.model.get("selected"));
    return { name, title, panel, beside: stage, shown, seen: () => picture, fields };
  }

  /** Has these tabs. @param {ViewTab[]} tabs @param {(name: Traits["view"]) => void} look Called when the user has chosen. */
  have(tabs, look) {
    this.tabs = tabs;
    this.list = new Tabs("View of the program", look, tabs);
  }

  /** The picture that is looked at. */
  seen() {
    const view = this.model.get("view");
    return this.tabs.find(({ name }) => name === view)?.seen?.();
  }

  /** Shows the scale of the picture that is looked at. */
  scaled() {
    const { scale } = (this.seen() ?? this.picture).place;
    this.scale.textContent = `${Math.round(100 * scale)}%`;
  }

  // --- selecting -----------------------------------------------------------------------------------

  select(/** @type {string} */ address) {
    this.choose([], address);
  }

  /** Selects these, of which one is looked at; one alone is in no list. */
  choose(/** @type {string[]} */ chosen, address = chosen.at(-1) ?? "") {
    const { model } = this;
    this.act.choose?.();
    const several = chosen.length > 1 ? chosen : [];
    model.set("selected", address); // the first, for Python keeps only what this is among
    if (several.length || model.get("chosen").length) model.set("chosen", several);
    model.save_changes();
  }

  /** Adds to what is selected, or takes away what is, unless it is to be kept. */
  more(/** @type {string[]} */ addresses, /** @type {boolean} */ keep) {
    const [chosen, selected] = [this.model.get("chosen"), this.model.get("selected")];
    const now = new Set(chosen.length || !selected ? chosen : [selected]);
    for (const one of addresses) if (keep || !now.delete(one)) now.add(one);
    this.choose([...now]);
  }

  /** Selects a place and brings it into sight, also out of what is folded. @param {string} address */
  show(address) {
    if (!address) return this.select("");
    this.act.send({ do: "reveal", address });
    this.find.bring(address);
  }

  // --- drawing -------------------------------------------------------------------------------------

  say(/** @type {string} */ words, error = false) {
    renew(this.message, words ? [words] : []);
    this.message.classList.toggle("tx-error", error);
  }

  /** Draws the inspector; the focus stays in it. */
  inspect() {
    const { inspector } = this;
    const drawn = this.act.inspect();
    inspector.classList.toggle("tx-waiting", !drawn);
    if (!drawn) return;
    const focused = inspector.contains(document.activeElement);
    redraw(inspector, drawn);
    if (focused && !inspector.contains(document.activeElement)) inspector.focus({ preventScroll: true });
  }

  /** Draws the traits, now and whenever they change: these last. @param {Fields} more */
  draw(more) {
    for (const fields of [this.#fields(), ...this.tabs.map((tab) => tab.fields), more]) this.#follow(fields);
  }

  /** @returns {Fields} */
  #fields() {
    const { picture, find } = this;
    return {
      svg: (svg) => {
        picture.show(svg);
        find.shown();
      },
      note: (words) => (this.note.textContent = words),
      call: (words) => (this.call.textContent = this.call.title = words), // it may be cut
      counts: (words) => (this.counts.textContent = words),
      marks: (marks) => picture.mark(marks),
      view: (name) => {
        this.list.show(name);
        const seen = this.seen();
        this.tools.classList.toggle("tx-unseen", !seen);
        this.timeline.element.classList.toggle("tx-unseen", seen !== picture);
        this.scaled();
      },
      timeline: (line) => this.timeline.show(line),
      found: (found) => find.found(found),
      slice: (slice) => find.sliced(slice),
      goes: (to) => "place" in to && picture.goToPlace(to.place),
      message: (said) => {
        if (!("text" in said)) return this.say("");
        if (said.error) find.giveUp();
        this.say(said.text, said.error);
      },
      selected: () => this.inspect(),
      inspection: () => this.inspect(),
    };
  }

  #follow(/** @type {Fields} */ fields) {
    const { model } = this;
    for (const [name, redraw] of Object.entries(fields)) {
      const trait = /** @type {keyof Traits} */ (name);
      const listener = () => {
        try {
          /** @type {(value: any) => void} */ (redraw)(model.get(trait));
        } catch (error) {
          // The model would tell nobody of the traits that came with this one.
          reportError(error); // to the console of the browser
          this.say(`The panel cannot show all of this (${trait}: ${error}). Run the cell again.`, true);
        }
      };
      listener();
      model.on(`change:${trait}`, listener);
      this.ends.push(() => model.off(`change:${trait}`, listener));
    }
  }

  /** Follows the size of its parts. @param {() => void} resized Called then, before the picture moves. */
  measure(resized) {
    let noteHeight = 0;
    const sizes = new ResizeObserver(() => {
      if (this.note.offsetHeight !== noteHeight) {
        noteHeight = this.note.offsetHeight;
        // Not at the stage: the style of each element of the picture would be computed anew.
        for (const part of [this.picture.legend, this.picture.overview.element]) part.style.setProperty("--tx-note", `${noteHeight}px`);
      }
      resized();
      this.picture.resized();
    });
    for (const one of [this.stage, this.note]) sizes.observe(one);
    this.ends.push(() => sizes.disconnect());
  }

  /** Ends what it has begun. */
  stop() {
    this.find.stop();
    for (const end of this.ends) end();
  }
}
