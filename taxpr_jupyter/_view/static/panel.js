// @ts-check
/**
 * The browser's half of `taxpr_jupyter._view.graph`: what `viewer.js` draws, and all that needs a
 * kernel. It decides nothing about programs.
 *
 * Texts enter the page by `dom.js`, the picture through `parseSvg` of `drawn.js`.
 *
 * @import { Message, Traits } from "./messages.js"
 * @import { Model, ViewTab } from "./viewer.js"
 * @typedef {(message: Message) => number} Send
 */

import { Ask } from "./ask.js";
import { Compare } from "./compare.js";
import { Controls, RunBar } from "./controls.js";
import { button, drawCopied, h, hint, redraw, renew, svgElement } from "./dom.js";
import { Held } from "./held.js";
import { drawInspection, drawTags } from "./inspector.js";
import { shareKeys } from "./keys.js";
import { drawResults } from "./results.js";
import { Runs } from "./runs.js";
import { Scrubber } from "./scrubber.js";
import { drawSeveral } from "./several.js";
import { States } from "./states.js";
import { Lines } from "./text.js";
import { Viewer } from "./viewer.js";
import { Views } from "./views.js";

const SAVE_AFTER = 300; // milliseconds after the last move of the picture
const ORPHAN =
  "This panel has no kernel: it was restarted, or the notebook was opened without one. " +
  "Run the cell again; the panel shows the state before.";
const NO_RUN = "Run shows here what came out: the loss first, then what changed most.";
const SLOW = 500; // milliseconds after which the panel says that the kernel has not answered

/**
 * Hides the picture that is saved with the notebook, as long as this element is in the page. It has
 * this class; JupyterLab shows it as an image, with all of it in the address.
 * @param {string} saved
 */
function hidden(saved) {
  const picture = `:is(svg.${saved}, img[src*="${saved}"])`;
  const rows = `:is(.jp-OutputArea-child, .output_area):has(${picture})`;
  return h("style", {}, saved && `${picture} { display: none; } ${rows} { display: none; }`);
}

/** Puts a view into the boxes that ipywidgets has around it, and marimo has not. @param {HTMLElement} el */
function boxed(el) {
  const view = h("div", { class: "taxpr-view" }, ...el.childNodes);
  const box = h("div", { class: "taxpr-panel widget-vbox" }, h("div", { class: "taxpr-grid widget-vbox" }, view));
  el.classList.remove("taxpr-view");
  el.append(box);
  return box;
}

/** One view of the model. @param {{ model: Model, el: HTMLElement }} context */
function render({ model, el }) {
  // The kernel may take messages in several threads: by their numbers it handles them in order.
  const from = Math.random().toString(36).slice(2);
  let [sent, handled] = [0, 0];
  let asked = false; // for a run, and for nothing since
  const send = (/** @type {Message} */ message) => {
    if (message.do !== "cancel") asked = message.do === "run";
    sent += 1;
    model.send({ ...message, from, number: sent });
    setTimeout(showProgress, SLOW);
    return sent;
  };
  /** @template {keyof Traits} K @param {K} trait @param {Traits[K]} value */
  const set = (trait, value) => {
    model.set(trait, value);
    model.save_changes();
  };
  /** Opens a tab, as the user asks for. */
  const look = (/** @type {Traits["view"]} */ view) => {
    asked = false;
    results.classList.remove("tx-came");
    set("view", view);
  };

  let saving = 0;
  /** @type {Viewer} */
  const viewer = new Viewer(model, {
    send,
    several: true,
    inspect: () => drawSelected(),
    pick: (address) => {
      // Where results have come beside the picture, they have the place of the inspector.
      if (address && results.classList.contains("tx-came") && model.get("view") === "results") look("picture");
    },
    choose: () => (asked = false),
    placed: (place, moved) => {
      clearTimeout(saving);
      saving = setTimeout(() => set("place", moved ? place : {}), SAVE_AFTER);
    },
    source: {
      edit: (place, text) => send({ do: "edit", address: place, text }),
      unedit: (place) => send({ do: "unedit", address: place }),
      copied: (words) => copied(words),
    },
  });
  const { picture, find, source, inspector } = viewer;
  const say = (/** @type {string} */ words, error = false) => viewer.say(words, error);
  const select = (/** @type {string} */ address) => viewer.select(address);
  const show = (/** @type {string} */ address) => viewer.show(address);
  const copied = (/** @type {string} */ words) => drawCopied(words, say);

  const bar = h("progress", { "aria-label": "Progress" });
  const label = h("span", {});
  const cancel = button("Cancel", () => send({ do: "cancel" }));
  const progress = h("div", { class: "tx-progress" }, bar, label, cancel);
  const orphan = h("p", { class: "tx-error tx-orphan", role: "status" }, ORPHAN);
  orphan.hidden = true;
  const outcome = h("div", { class: "tx-outcome" }, hint(NO_RUN));
  const runs = new Runs(send, copied);
  const results = h("div", { class: "tx-results" }, runs.element, outcome);
  const code = h("details", {});
  const ran = button("", () => look("results"), { title: "Show the results" });
  const ranLine = h("div", { class: "tx-ran", role: "status", "aria-live": "polite" }, ran);
  const below = h("div", { class: "tx-bar-below tx-unseen" }); // for the cursor of recorded values
  const heat = h(
    "select",
    {
      class: "tx-button tx-heat",
      "aria-label": "Colour by",
      title: "Colour by",
      change: () => send({ do: "heat", address: heat.value }),
    },
    h("option", { value: "" }, "Colour by kind"),
    h("option", { value: "flops" }, "Colour by FLOPs"),
    h("option", { value: "bytes" }, "Colour by bytes moved"),
    h("option", { value: "time" }, "Colour by time"),
    h("option", { value: "peak" }, "Colour by bytes at the peak"),
    h("option", { value: "kept" }, "Colour by kept bytes"),
    h("option", { value: "compiled" }, "Colour by kernels of XLA"),
    h("option", { value: "numbers" }, "Colour by your numbers"),
  );
  const steps = {
    undo: button("↶", () => send({ do: "undo" }), { "aria-label": "Undo", disabled: "" }),
    redo: button("↷", () => send({ do: "redo" }), { "aria-label": "Redo", disabled: "" }),
  };
  const history = h("div", { class: "tx-history tx-unseen", role: "group", "aria-label": "History" }, steps.undo, steps.redo);
  const views = new Views(send);
  const waits = (/** @type {number} */ number) => number > handled;
  const controls = new Controls({ send, waits });
  const runBar = new RunBar(
    send,
    (live) => set("live", live),
    (on) => set("gradients", on ? "on" : "off"),
  );
  const states = new States(send, select);
  const compare = new Compare(() => viewer.scaled(), send);
  const full = button("", () => fillScreen(), { "aria-label": "Full screen", title: "Full screen" });
  const corners = svgElement("path", { d: "M1 4V1h3M8 1h3v3M11 8v3H8M4 11H1V8", fill: "none", stroke: "currentColor" });
  full.append(svgElement("svg", { viewBox: "0 0 12 12", width: "12", height: "12", "aria-hidden": "true" }, corners));
  viewer.tools.append(full);
  const more = (/** @type {string[]} */ addresses, /** @type {boolean} */ keep) => viewer.more(addresses, keep);
  const outline = new Lines("Outline of the program", "tx-outline", { select, send, more });
  const held = new Held();
  const scrubber = new Scrubber((asked) => send({ do: "record", ...asked }), send);
  const ask = new Ask(send, show, copied, model.get("_questions"));

  const outdate = () => outcome.classList.toggle("tx-stale", model.get("stale") && runs.last);
  const ofSource = viewer.sourceTab();
  /** @type {ViewTab[]} */
  const tabs = [
    viewer.pictureTab(),
    {
      ...ofSource,
      fields: { ...ofSource.fields, source_run: (said) => source.ran(said), source_edits: (edits) => source.edited(edits) },
    },
    viewer.beside("ask", "Ask", ask.panel, {
      flows: (flows) => ask.flows(flows),
      answer: (answer) => ask.show(answer),
      selected: (address) => ask.select(address),
    }),
    viewer.beside("results", "Results", results, {
      results: (run) => {
        runs.looksAt(run);
        outdate();
        if (!("title" in run)) return;
        renew(outcome, drawResults(run));
        if (asked && model.get("view") === "picture") {
          results.classList.add("tx-came");
          set("view", "results");
        }
        asked = false;
      },
    }),
    viewer.linesTab("text", "Text", viewer.text),
    viewer.linesTab("outline", "Outline", outline),
    {
      name: "compare",
      title: "Compare",
      panel: compare.panel,
      shown: () => compare.shown(),
      seen: () => compare.picture,
      fields: { comparison: (comparison) => compare.show(comparison) },
    },
  ];
  viewer.have(tabs, look);
  const fillScreen = async () => {
    try {
      await (document.fullscreenElement ? document.exitFullscreen() : (panel ?? el).requestFullscreen());
    } catch {
      say("The page around this panel allows no full screen.", true);
    }
  };
  el.classList.add("taxpr-view");
  el.append(
    hidden(model.get("saved")),
    runBar.element, // the first for the Tab key, wherever it is on the screen
    // Below the bar on the screen; before it for the Tab key, which goes from zooming to the picture.
    find.element,
    find.slice,
    ranLine,
    h("div", { class: "tx-bar" }, viewer.title, viewer.list.list, history, heat),
    viewer.tools,
    ...tabs.map((tab) => tab.panel),
    inspector,
    controls.element,
    h("div", { class: "tx-status" }, below, viewer.timeline.element, orphan, progress, viewer.message),
    states.element,
    h("div", { class: "tx-more" }, views.element, viewer.legend, code, viewer.counts),
  );

  /** @returns {import("./dom.js").Child[] | null} */
  const drawSelected = () => {
    const [node, selected] = [model.get("inspection"), model.get("selected")];
    const [chosen, several] = [model.get("chosen"), model.get("several")];
    const there = "address" in node;
    const all = chosen.length > 0 && "title" in several;
    if (selected !== (there ? node.address : "") || all !== chosen.length > 0) return null;
    inspector.classList.toggle("tx-empty", !selected && !model.get("tags").length);
    const close = () => select("");
    if (all) return drawSeveral(chosen, several, held, { send, select: show, close });
    if (!there) return drawTags(model.get("tags"), select);
    const paths = find.offers(node, () => viewer.inspect());
    return drawInspection(node, send, close, [paths], (address) => held.both(address));
  };

  const showProgress = () => {
    const task = model.get("progress");
    const waiting = !task.running && waits(sent);
    const focused = document.activeElement === cancel;
    progress.hidden = !task.running && !waiting;
    cancel.hidden = waiting;
    cancel.disabled = task.running && task.cancelling;
    if (focused && cancel.closest("[hidden], :disabled")) runBar.run.focus({ preventScroll: true });
    if (task.running) label.textContent = `${task.label} · ${task.elapsed.toFixed(1)} s`;
    else if (waiting) label.textContent = "waiting for the kernel";
    if (task.running && task.fraction !== null) bar.setAttribute("value", String(task.fraction));
    else bar.removeAttribute("value");
  };

  /** The chips of recorded values, wherever they are. */
  const hold = () => {
    held.show(model.get("recorded"), model.get("curves"));
    scrubber.show(held, model.get("cotangents"), model.get("expressions"));
    scrub();
    source.hold(held);
    picture.hold(held, model.get("held"));
    if (model.get("selected")) viewer.inspect();
  };
  /** In the source the cursor is there, else it is below the picture once there is something to show. */
  const scrub = () => {
    const view = model.get("view");
    const place = view === "source" ? source.bar : below;
    if (scrubber.element.parentElement !== place) place.append(scrubber.element);
    below.classList.toggle("tx-unseen", !("chips" in held.recorded) || viewer.seen() !== picture || view === "source");
  };

  viewer.draw({
    heat: (kind) => (heat.value = kind),
    view: () => {
      scrub();
      heat.classList.toggle("tx-unseen", viewer.seen() !== picture);
    },
    recorded: hold,
    curves: hold,
    cotangents: hold,
    expressions: hold,
    held: hold,
    views: (names) => views.show(names),
    chosen: () => viewer.inspect(),
    several: (shown) => {
      if ("title" in shown) picture.choose([...model.get("chosen"), ...shown.elements]);
      viewer.inspect();
    },
    states: (shown) => states.show(shown),
    tags: (tags) => {
      ask.injectors(tags.some((tag) => tag.injector));
      if (!model.get("selected")) viewer.inspect();
    },
    history: (shown) => {
      if (!("undo" in shown)) return;
      history.classList.toggle("tx-unseen", !shown.undo && !shown.redo && history.classList.contains("tx-unseen"));
      for (const what of /** @type {const} */ (["undo", "redo"])) {
        const [item, words] = [steps[what], shown[what]];
        const focused = document.activeElement === item;
        const keys = what === "undo" ? "Ctrl+Z" : "Ctrl+Shift+Z";
        item.toggleAttribute("disabled", !words);
        item.title = words && `${item.getAttribute("aria-label")} (${keys}): ${words}`;
        if (focused && !words) steps[what === "undo" ? "redo" : "undo"].focus({ preventScroll: true });
      }
    },
    code: (words) => redraw(code, [h("summary", {}, "Python code that redoes this"), ...copied(words)]),
    stale: (stale) => {
      ran.classList.toggle("tx-stale", stale);
      outdate();
      source.outdated(stale);
    },
    runs: (strip) => {
      runs.show(strip);
      outdate();
      ran.hidden = !("summary" in strip);
      if (!("summary" in strip)) return;
      renew(ran, [strip.summary]);
      ran.title = `${strip.summary}\nShow the results`; // it may be cut
      ran.classList.toggle("tx-error", strip.runs[0].failed);
    },
    controls: (shown) => controls.show(shown),
    devices: (names) => runBar.show(names),
    live: (live) => (runBar.live.checked = live),
    not_live: (why) => runBar.why(why),
    gradients: (offered) => runBar.offers(offered),
    handled: (numbers) => {
      handled = numbers[from] ?? handled;
      controls.handled();
      heat.value = model.get("heat"); // what was chosen may be refused
      showProgress();
    },
    progress: () => showProgress(),
  });

  let panel = /** @type {HTMLElement | null} */ (null); // known once this is in the page
  // The notebook marks the widget around this one by a class when its kernel is gone, as after a
  // restart.
  const orphaned = () => {
    if (!el.closest(".jupyter-widgets-disconnected")) return;
    orphan.hidden = false;
    inspector.inert = true;
    for (const part of [controls.element, runBar.element, states.element, find.element, views.element, ask.panel, history, heat, progress]) {
      for (const one of [part, ...part.querySelectorAll("button, input, select")]) {
        one.toggleAttribute("disabled", true);
      }
    }
    progress.hidden = true;
  };
  const marks = new MutationObserver(orphaned);

  const ended = new AbortController();
  viewer.measure(() => {
    if (panel || !el.isConnected) return;
    panel = el.closest(".taxpr-panel") ?? boxed(el);
    shareKeys(panel, (what) => steps[what].click(), ended.signal);
    marks.observe(panel, { attributes: true, attributeFilter: ["class"] });
    orphaned();
    picture.resized();
    picture.reveal(model.get("selected"));
  });

  // The kernel keeps the session of a panel that a page shows. Nothing waits for these.
  model.send({ do: "shown" });
  return () => {
    model.send({ do: "gone" });
    clearTimeout(saving);
    viewer.stop();
    compare.stop();
    marks.disconnect();
    ended.abort();
  };
}

export default { render };
