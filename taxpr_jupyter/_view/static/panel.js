// @ts-check
/**
 * The browser's half of `taxpr_jupyter._view.graph`: draws what the model's traits say, and turns
 * clicks and keys into a new `selected` or into a message. It decides nothing about programs.
 *
 * Texts enter the page by `dom.js`, the picture through `parseSvg` of `drawn.js`.
 *
 * @import { Message, NodeValue, Numbered, SelectedNode, Tag, Traits } from "./messages.js"
 * @typedef {(message: Message) => number} Send
 * @typedef {{ get<K extends keyof Traits>(name: K): Traits[K],
 *   set<K extends keyof Traits>(name: K, value: Traits[K]): void, save_changes(): void,
 *   send(message: Message & Partial<Numbered>): void, on(event: string, callback: () => void): void,
 *   off(event: string, callback: () => void): void }} Model
 */

import { Ask } from "./ask.js";
import { Compare } from "./compare.js";
import { Controls, RunBar } from "./controls.js";
import { button, chip, closer, facts, folded, h, hint, line, redraw, renew, section, svgElement, textField, zoomTools } from "./dom.js";
import { Find } from "./find.js";
import { Held } from "./held.js";
import { shareKeys } from "./keys.js";
import { drawLegend } from "./legend.js";
import { Picture } from "./picture.js";
import { drawResults } from "./results.js";
import { Runs } from "./runs.js";
import { Scrubber } from "./scrubber.js";
import { drawSeveral } from "./several.js";
import { SourceLines } from "./source.js";
import { States } from "./states.js";
import { Lines, Tabs } from "./text.js";
import { Timeline } from "./timeline.js";
import { Views } from "./views.js";

const SAVE_AFTER = 300; // milliseconds after the last move of the picture
const ORPHAN =
  "This panel has no kernel: it was restarted, or the notebook was opened without one. " +
  "Run the cell again; the panel shows the state before.";
const NO_RUN = "Run shows here what came out: the loss first, then what changed most.";
const SLOW = 500; // milliseconds after which the panel says that the kernel has not answered

/** @param {Tag} tag */
const tagChip = (tag) => {
  const item = chip(tag.name, tag.injector ? "injected" : "tag");
  item.title = tag.name; // it may be cut
  return item;
};

/**
 * What the inspector shows with nothing selected: the tags.
 * @param {Tag[]} tags
 * @param {(address: string) => void} select
 */
function drawTags(tags, select) {
  const row = (/** @type {Tag} */ tag) => {
    const item = button("", () => select(tag.address), { class: "tx-button tx-tag", title: tag.address });
    const type = h("code", { title: tag.type }, tag.type);
    item.append(tagChip(tag), type, h("span", {}, tag.injector || tag.where));
    return item;
  };
  return [
    hint("Click a box to see what it computes, and to change its value."),
    tags.length ? section("Tags", ...tags.map(row)) : null,
  ];
}

/**
 * A value of the selected node: its tag, or a field to tag it, or why it cannot be tagged.
 * @param {NodeValue} value
 * @param {Send} send
 * @param {Held} held What was recorded.
 */
function drawValue({ address, text, tag, refused }, send, held) {
  const was = held.both(address);
  if (refused) return h("div", { class: "tx-value" }, line(text), ...was, hint(refused));
  if (tag) {
    const remove = button("Remove tag", () => send({ do: "untag", address }));
    return h("div", { class: "tx-value" }, line(text), ...was, tagChip(tag), tag.added ? remove : null);
  }
  const tagIt = () => send({ do: "tag", address, name: name.value.trim() });
  const name = textField({
    "aria-label": `Name of a tag for ${text}`,
    placeholder: "name",
    // Not by a form: JupyterLab keeps Enter from submitting one.
    keydown: (event) => event.key === "Enter" && tagIt(),
  });
  const form = h("div", { class: "tx-name" }, name, button("Tag", tagIt));
  return h("div", { class: "tx-value" }, line(text), ...was, form);
}

/** Where the user's code is: of a tag, that of its value apart from that of the tag itself. */
function drawSources(/** @type {SelectedNode} */ node) {
  const lines = (/** @type {string} */ title, /** @type {string} */ code, /** @type {string} */ place) =>
    code || place ? section(title, code ? line(code) : null, place) : null;
  if (!node.tag) return [lines("Source", node.line, node.source)];
  if (node.addedBy) {
    return [
      lines("Source of the value", node.line, node.source),
      section("Source of the tag", "Added here. In Python:", line(node.addedBy)),
    ];
  }
  return [
    lines("Source of the value", node.valueLine, node.valueSource),
    lines("Source of the tag", node.line, node.source),
  ];
}

/**
 * @param {SelectedNode} node
 * @param {Send} send
 * @param {() => void} close
 * @param {HTMLElement | null} paths What `find.js` offers.
 * @param {Held} held What was recorded.
 */
function drawInspection(node, send, close, paths, held) {
  const { address, tag, toggle } = node;
  const values = node.values.map((value) => drawValue(value, send, held));
  const ofEquation = node.kind === "eqn"; // then its values are what it returns
  return [
    h(
      "header",
      { class: "tx-head" },
      h("h3", {}, node.title),
      chip(node.kind, node.kind),
      toggle ? button(toggle === "fold" ? "Fold" : "Unfold", () => send({ do: toggle, address })) : null,
      closer(close),
    ),
    h("code", { class: "tx-address" }, address),
    node.note ? h("p", { class: "tx-note" }, node.note) : null,
    tag ? section("Tag", facts(node.tagParams), ...held.both(`${address}.0`), hint(tag.where)) : null,
    tag?.added
      ? h("div", {}, button("Remove tag", () => send({ do: "untag", address })))
      : null,
    values.length ? section(ofEquation ? "Out" : "Values", ...values) : null,
    paths,
    node.kind === "jaxpr" ? section("Out", ...node.outputs.map(line)) : null,
    node.inputs.length ? section("In", ...node.inputs.map(line)) : null,
    node.facts.length ? section("Params", facts(node.facts)) : null,
    node.cost.length ? section("Cost", ...node.cost.map((words) => h("div", {}, words))) : null,
    ...drawSources(node),
    node.scope ? section("Scope", line(node.scope)) : null,
  ];
}

/** Python code with a button that copies it. @param {string} code @param {(s: string) => void} say */
function drawCopied(code, say) {
  const text = h("pre", { class: "tx-code", tabindex: "0", "aria-label": "Python code" }, code);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code);
      say("Copied.");
    } catch {
      // No permission, or no clipboard on plain http: leave it to the user's own keys.
      getSelection()?.selectAllChildren(text);
      say("Selected. Copy it with Ctrl+C or Cmd+C.");
    }
  };
  return [button("Copy", copy), text];
}

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
  const select = (/** @type {string} */ address) => choose([], address);
  /** Selects these, of which one is looked at; one alone is in no list. */
  const choose = (/** @type {string[]} */ chosen, address = chosen.at(-1) ?? "") => {
    asked = false;
    const several = chosen.length > 1 ? chosen : [];
    model.set("selected", address); // the first, for Python keeps only what this is among
    if (several.length || model.get("chosen").length) model.set("chosen", several);
    model.save_changes();
  };
  /** Adds to what is selected, or takes away what is, unless it is to be kept. */
  const more = (/** @type {string[]} */ addresses, /** @type {boolean} */ keep) => {
    const [chosen, selected] = [model.get("chosen"), model.get("selected")];
    const now = new Set(chosen.length || !selected ? chosen : [selected]);
    for (const one of addresses) if (keep || !now.delete(one)) now.add(one);
    choose([...now]);
  };

  const scale = h("span", { class: "tx-scale" });
  const call = h("code");
  const counts = h("span", { class: "tx-hint" });
  const message = h("p", { class: "tx-message", role: "status", "aria-live": "polite" });
  const bar = h("progress", { "aria-label": "Progress" });
  const label = h("span", {});
  const cancel = button("Cancel", () => send({ do: "cancel" }));
  const progress = h("div", { class: "tx-progress" }, bar, label, cancel);
  const orphan = h("p", { class: "tx-error tx-orphan", role: "status" }, ORPHAN);
  orphan.hidden = true;
  const note = hint("", { class: "tx-hint tx-picture-note" });
  const stage = h("div", { class: "tx-stage" }, note);
  const inspector = h("aside", { class: "tx-inspector", "aria-label": "Inspector", tabindex: "-1" });
  const outcome = h("div", { class: "tx-outcome" }, hint(NO_RUN));
  const runs = new Runs(send, (words) => drawCopied(words, say));
  const results = h("div", { class: "tx-results" }, runs.element, outcome);
  const code = h("details", {});
  const ran = button("", () => look("results"), { title: "Show the results" });
  const ranLine = h("div", { class: "tx-ran", role: "status", "aria-live": "polite" }, ran);

  /** Opens a tab, as the user asks for. */
  const look = (/** @type {Traits["view"]} */ view) => {
    asked = false;
    results.classList.remove("tx-came");
    set("view", view);
  };

  let saving = 0;
  const act = {
    select: (/** @type {string} */ address) => {
      // Where results have come beside the picture, they have the place of the inspector.
      if (address && results.classList.contains("tx-came") && model.get("view") === "results") look("picture");
      select(address);
    },
    toggle: (/** @type {string} */ address) => send({ do: "toggle", address }),
    more,
    placed: (/** @type {import("./picture.js").View} */ place, /** @type {boolean} */ moved) => {
      scale.textContent = `${Math.round(100 * place.scale)}%`;
      clearTimeout(saving);
      saving = setTimeout(() => set("place", moved ? place : {}), SAVE_AFTER);
    },
  };
  const picture = new Picture(stage, act, model.get("place"));
  const below = h("div", { class: "tx-bar-below tx-unseen" }); // for the cursor of recorded values
  const timeline = new Timeline((alive, now) => picture.live(alive, now));
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
  const legend = folded("What the nodes and lines of the picture are", drawLegend(model.get("_legend")));
  const find = new Find(send, picture, model.get("_criteria"));
  const waits = (/** @type {number} */ number) => number > handled;
  const controls = new Controls({ send, waits });
  const runBar = new RunBar(
    send,
    (live) => set("live", live),
    (on) => set("gradients", on ? "on" : "off"),
  );
  const states = new States(send, select);
  const compare = new Compare(({ scale: now }) => {
    if (model.get("view") === "compare") scale.textContent = `${Math.round(100 * now)}%`;
  }, send);
  const seen = () => (model.get("view") === "compare" ? compare.picture : picture);
  const full = button("", () => fillScreen(), { "aria-label": "Full screen", title: "Full screen" });
  const corners = svgElement("path", { d: "M1 4V1h3M8 1h3v3M11 8v3H8M4 11H1V8", fill: "none", stroke: "currentColor" });
  full.append(svgElement("svg", { viewBox: "0 0 12 12", width: "12", height: "12", "aria-hidden": "true" }, corners));
  const tools = h(
    "div",
    { class: "tx-tools", role: "group", "aria-label": "Zoom" },
    ...zoomTools(seen, scale, (words, error) => say(words, error)),
    full,
  );
  const onRow = { select, send, more };
  const text = new Lines("Text of the program", "tx-text", onRow);
  const outline = new Lines("Outline of the program", "tx-outline", onRow);
  const show = (/** @type {string} */ address) => {
    if (!address) return select("");
    send({ do: "reveal", address });
    find.bring(address);
  };
  const held = new Held();
  const scrubber = new Scrubber((asked) => send({ do: "record", ...asked }), send);
  const source = new SourceLines({
    choose: show,
    light: (place) => send(place ? { do: "line", address: place } : { do: "all" }),
    edit: (place, text) => send({ do: "edit", address: place, text }),
    unedit: (place) => send({ do: "unedit", address: place }),
    copied: (words) => drawCopied(words, say),
  });
  const ask = new Ask(send, show, (words) => drawCopied(words, say), model.get("_questions"));
  source.follow(stage);
  const tabs = new Tabs("View of the program", look, [
    { name: "picture", title: "Picture", panel: stage, shown: () => picture.reveal(model.get("selected")) },
    { name: "source", title: "Source", panel: source.panel, beside: stage, shown: () => source.reveal() },
    { name: "ask", title: "Ask", panel: ask.panel, beside: stage, shown: () => picture.reveal(model.get("selected")) },
    { name: "results", title: "Results", panel: results, beside: stage, shown: () => picture.reveal(model.get("selected")) },
    { name: "text", title: "Text", panel: text.panel, shown: () => text.reveal() },
    { name: "outline", title: "Outline", panel: outline.panel, shown: () => outline.reveal() },
    { name: "compare", title: "Compare", panel: compare.panel, shown: () => compare.shown() },
  ]);
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
    h("div", { class: "tx-bar" }, h("span", { class: "tx-title" }, call, counts), tabs.list, history, heat),
    tools,
    stage,
    source.panel,
    ask.panel,
    results,
    text.panel,
    outline.panel,
    compare.panel,
    inspector,
    controls.element,
    h("div", { class: "tx-status" }, below, timeline.element, orphan, progress, message),
    states.element,
    h("div", { class: "tx-more" }, views.element, legend, code),
  );

  const say = (/** @type {string} */ words, error = false) => {
    renew(message, words ? [words] : []);
    message.classList.toggle("tx-error", error);
  };
  const inspect = () => {
    const [node, selected] = [model.get("inspection"), model.get("selected")];
    const [chosen, several] = [model.get("chosen"), model.get("several")];
    const there = "address" in node;
    const all = chosen.length > 0 && "title" in several;
    const waiting = selected !== (there ? node.address : "") || all !== chosen.length > 0; // for the kernel
    inspector.classList.toggle("tx-waiting", waiting);
    if (waiting) return;
    const focused = inspector.contains(document.activeElement);
    inspector.classList.toggle("tx-empty", !selected && !model.get("tags").length);
    const children = all
      ? drawSeveral(chosen, several, held, { send, select: show, close: () => select("") })
      : there
      ? drawInspection(node, send, () => select(""), find.offers(node, inspect), held)
      : drawTags(model.get("tags"), select);
    redraw(inspector, children);
    if (focused && !inspector.contains(document.activeElement)) inspector.focus({ preventScroll: true });
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
    if (model.get("selected")) inspect();
  };
  /** In the source the cursor is there, else it is below the picture once there is something to show. */
  const scrub = () => {
    const view = model.get("view");
    const place = view === "source" ? source.bar : below;
    if (scrubber.element.parentElement !== place) place.append(scrubber.element);
    below.classList.toggle("tx-unseen", !("chips" in held.recorded) || !["picture", "ask", "results"].includes(view));
  };

  const outdate = () => outcome.classList.toggle("tx-stale", model.get("stale") && runs.last);

  /** What to draw again when a trait changes. @type {{ [K in keyof Traits]?: (value: Traits[K]) => void }} */
  const draw = {
    svg: (svg) => {
      picture.show(svg);
      find.shown();
    },
    note: (words) => (note.textContent = words),
    call: (words) => {
      call.textContent = words;
      call.title = words; // it may be cut
    },
    counts: (words) => (counts.textContent = words),
    heat: (kind) => (heat.value = kind),
    marks: (marks) => picture.mark(marks),
    rows: (sent) => "view" in sent && (sent.view === "text" ? text : outline).show(sent),
    view: (name) => {
      tabs.show(name);
      scrub();
      const pictured = ["picture", "source", "ask", "results"].includes(name);
      heat.classList.toggle("tx-unseen", !pictured);
      timeline.element.classList.toggle("tx-unseen", !pictured);
      tools.classList.toggle("tx-unseen", !pictured && name !== "compare");
      scale.textContent = `${Math.round(100 * seen().place.scale)}%`;
    },
    comparison: (comparison) => compare.show(comparison),
    source: (shown) => "parts" in shown && source.show(shown),
    source_of: (lines) => source.know(lines),
    source_run: (said) => source.ran(said),
    source_edits: (edits) => source.edited(edits),
    recorded: hold,
    curves: hold,
    cotangents: hold,
    expressions: hold,
    held: hold,
    source_heat: (measured) => source.warm(measured),
    timeline: (line) => timeline.show(line),
    flows: (flows) => ask.flows(flows),
    answer: (answer) => ask.show(answer),
    found: (found) => find.found(found),
    slice: (slice) => {
      find.sliced(slice);
      for (const view of [text, outline]) view.light(slice.elements ?? null);
      if (source.light(slice.line ?? "")) picture.goTo(slice.elements?.[0] ?? "");
    },
    views: (names) => views.show(names),
    selected: (address) => {
      for (const view of [picture, source, ask, text, outline]) view.select(address);
      inspect();
    },
    goes: (to) => "place" in to && picture.goToPlace(to.place),
    chosen: (addresses) => {
      for (const view of [picture, text, outline]) view.choose(addresses);
      inspect();
    },
    several: (shown) => {
      if ("title" in shown) picture.choose([...model.get("chosen"), ...shown.elements]);
      inspect();
    },
    inspection: inspect,
    states: (shown) => states.show(shown),
    tags: (tags) => {
      ask.injectors(tags.some((tag) => tag.injector));
      if (!model.get("selected")) inspect();
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
    message: (said) => ("text" in said ? say(said.text, said.error) : say("")),
    code: (words) => redraw(code, [h("summary", {}, "Python code that redoes this"), ...drawCopied(words, say)]),
    stale: (stale) => {
      ran.classList.toggle("tx-stale", stale);
      outdate();
      source.outdated(stale);
    },
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
    gradients: (offered) => runBar.offers(offered),
    handled: (numbers) => {
      handled = numbers[from] ?? handled;
      controls.handled();
      heat.value = model.get("heat"); // what was chosen may be refused
      showProgress();
    },
    progress: () => showProgress(),
  };
  const off = Object.entries(draw).map(([name, redraw]) => {
    const trait = /** @type {keyof Traits} */ (name);
    const listener = () => /** @type {(value: any) => void} */ (redraw)(model.get(trait));
    listener();
    model.on(`change:${trait}`, listener);
    return () => model.off(`change:${trait}`, listener);
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
  let noteHeight = 0;
  const sizes = new ResizeObserver(() => {
    if (note.offsetHeight !== noteHeight) {
      noteHeight = note.offsetHeight;
      // Not at the stage: the style of each element of the picture would be computed anew.
      for (const part of [picture.legend, picture.overview.element]) part.style.setProperty("--tx-note", `${noteHeight}px`);
    }
    if (!panel && el.isConnected) {
      panel = el.closest(".taxpr-panel") ?? boxed(el);
      shareKeys(panel, (what) => steps[what].click(), ended.signal);
      marks.observe(panel, { attributes: true, attributeFilter: ["class"] });
      orphaned();
      picture.resized();
      picture.reveal(model.get("selected"));
    } else picture.resized();
  });
  for (const one of [stage, note]) sizes.observe(one);

  // The kernel keeps the session of a panel that a page shows. Nothing waits for these.
  model.send({ do: "shown" });
  return () => {
    model.send({ do: "gone" });
    clearTimeout(saving);
    find.stop();
    compare.stop();
    sizes.disconnect();
    marks.disconnect();
    ended.abort();
    off.forEach((stop) => stop());
  };
}

export default { render };
