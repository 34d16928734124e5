// @ts-check
/**
 * The browser's half of `taxpr_jupyter._view.graph`: draws what the model's traits say, and turns
 * clicks and keys into a new `selected` or into a message. It decides nothing about programs.
 *
 * All names, params and messages are hostile text. They enter the page as text nodes only; the
 * picture enters through `parseSvg` of `picture.js`.
 *
 * @typedef {{ get(name: string): any, set(name: string, value: unknown): void, save_changes(): void,
 *   send(content: object): void, on(event: string, callback: () => void): void,
 *   off(event: string, callback: () => void): void }} Model
 * @typedef {Record<string, string | ((event: any) => void)>} Attributes
 * @typedef {{ running: boolean, label: string, fraction: number | null, elapsed: number,
 *   cancelling: boolean }} Progress
 * @typedef {{ address: string, name: string, type: string, where: string, added: boolean,
 *   injector: string }} Tag
 * @typedef {{ address: string, text: string, tag: Tag | null, refused: string }} Value
 * @typedef {[string, string][]} Facts
 * @typedef {{ address: string, title: string, kind: string, facts: Facts, inputs: string[],
 *   outputs: string[], values: Value[], source: string, line: string,
 *   valueSource: string, valueLine: string, addedBy: string, scope: string, cost: string[], tag: Tag | null, tagParams: Facts, toggle: "" | "fold" | "unfold", note: string }} Inspection
 * @typedef {{ name: string, type: string, before: string, after: string, largest: string,
 *   mean: string, same: boolean, note: string }} Output
 * @typedef {{ name: string, address: string, facts: Facts, values: string, note: string }} Recorded
 * @typedef {{ title: string, summary: string, status: string, error: string, cancelled: string, times: [string, number][],
 *   xla: string[], injectors: { address: string, text: string }[], outputs: Output[],
 *   unchanged: string, records: Recorded[] }} Results
 */

/** @typedef {import("./picture.js").Place} Place */

import { Compare } from "./compare.js";
import { Controls, RunBar } from "./controls.js";
import { Find } from "./find.js";
import { drawLegend } from "./legend.js";
import { Picture, parseSvg } from "./picture.js";
import { States } from "./states.js";
import { Lines, Tabs } from "./text.js";

const SAVE_AFTER = 300; // milliseconds after the last move of the picture
const ORPHAN =
  "No kernel is behind this panel: it was restarted, or the notebook was opened without one. " +
  "Run the cell again; this is what was there before.";
const SLOW = 500; // milliseconds after which the panel says that the kernel has not answered

/**
 * Makes an element; strings among the children become text nodes.
 * @param {string} name
 * @param {Attributes} attributes
 * @param {...(Node | string | null)} children
 * @returns {HTMLElement}
 */
function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** @param {HTMLElement} element @param {(Node | string | null)[]} children */
const fill = (element, children) =>
  element.replaceChildren(...children.filter((child) => child !== null));

/** @param {Element | null} control */
const nameOf = (control) =>
  control && `${control.tagName} ${control.getAttribute("aria-label") ?? control.textContent}`;

/**
 * Puts other children into an element. The focus stays at the control of the same name, and what is
 * being typed in there and was not sent stays, found again by its label.
 * @param {HTMLElement} element
 * @param {(Node | string | null)[]} children
 */
function redraw(element, children) {
  const inputs = () => [...element.querySelectorAll("input")];
  const typed = inputs().filter((input) => input.value !== input.defaultValue);
  const active = typed.find((input) => input === document.activeElement);
  const place = active ? [active.selectionStart, active.selectionEnd] : [null, null];
  const name = element.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  fill(element, children);
  const same = [...element.querySelectorAll("button, input, select, summary")].find((one) => nameOf(one) === name);
  if (same instanceof HTMLElement) same.focus({ preventScroll: true });
  for (const old of typed) {
    const again = inputs().find((input) => input.ariaLabel === old.ariaLabel);
    if (!again) continue;
    again.value = old.value;
    if (old !== active) continue;
    again.focus({ preventScroll: true });
    again.setSelectionRange(place[0], place[1]);
  }
}

/** @param {string} label @param {(event: MouseEvent) => void} act @param {Attributes} more */
const button = (label, act, more = {}) =>
  h("button", { type: "button", class: "tx-button", ...more, click: act }, label);

/** @param {string} title @param {...(Node | string | null)} children */
const section = (title, ...children) =>
  h("section", { class: "tx-section" }, h("h4", {}, title), ...children);

/** @param {[string, string][]} rows */
const facts = (rows) =>
  h("dl", { class: "tx-facts" }, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));

/** @param {string[]} heads @param {HTMLElement[]} rows @param {string} label */
const table = (heads, rows, label) =>
  h(
    "div",
    { class: "tx-scroll" },
    h(
      "table",
      { "aria-label": label },
      h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, ...rows),
    ),
  );

/** @param {string} text @param {string} kind */
const chip = (text, kind) => h("b", { class: `tx-chip tx-chip-${kind}` }, text);

/** @param {string} text */
const line = (text) => h("code", { class: "tx-line" }, text);

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
    h("p", { class: "tx-hint" }, "Select a node of the picture to inspect it and to tag it."),
    tags.length ? section("Tags", ...tags.map(row)) : null,
  ];
}

/**
 * A value of the selected node: its tag, or a field to tag it, or why it cannot be tagged.
 * @param {Value} value
 * @param {(message: object) => void} send
 */
function drawValue({ address, text, tag, refused }, send) {
  if (refused) return h("div", { class: "tx-value" }, line(text), h("p", { class: "tx-hint" }, refused));
  if (tag) {
    const remove = button("Remove tag", () => send({ do: "untag", address }));
    return h("div", { class: "tx-value" }, line(text), tagChip(tag), tag.added ? remove : null);
  }
  const tagIt = () => send({ do: "tag", address, name: name.value.trim() });
  const name = /** @type {HTMLInputElement} */ (
    h("input", {
      class: "tx-field",
      "aria-label": `Name of a tag for ${text}`,
      placeholder: "name",
      spellcheck: "false",
      autocomplete: "off",
      // Not by a form: JupyterLab keeps Enter from submitting one.
      keydown: (event) => event.key === "Enter" && tagIt(),
    })
  );
  const form = h("div", { class: "tx-name" }, name, button("Tag", tagIt));
  return h("div", { class: "tx-value" }, line(text), form);
}

/** Where the user's code is: of a tag, that of its value apart from that of the tag itself. */
function drawSources(/** @type {Inspection} */ node) {
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
 * @param {Inspection} node
 * @param {(message: object) => void} send
 * @param {() => void} close
 * @param {HTMLElement | null} paths What `find.js` offers.
 */
function drawInspection(node, send, close, paths) {
  const { address, tag, toggle } = node;
  const change = toggle === "fold" ? "Fold" : "Unfold";
  const values = node.values.map((value) => drawValue(value, send));
  const ofEquation = node.kind === "eqn"; // then its values are what it returns
  return [
    h(
      "header",
      { class: "tx-head" },
      h("h3", {}, node.title),
      chip(node.kind, node.kind),
      toggle ? button(change, () => send({ do: toggle, address })) : null,
      button("×", close, { "aria-label": "Clear the selection", class: "tx-button tx-close" }),
    ),
    h("code", { class: "tx-address" }, address),
    node.note ? h("p", { class: "tx-note" }, node.note) : null,
    tag ? section("Tag", facts(node.tagParams), h("p", { class: "tx-hint" }, tag.where)) : null,
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

let unchangedOpen = false; // as the user left it

/** @param {string} words @param {HTMLElement} content */
const fold = (words, content) =>
  h(
    "details",
    {
      class: "tx-unchanged",
      ...(unchangedOpen ? { open: "" } : {}),
      toggle: (event) => (unchangedOpen = event.target.open),
    },
    h("summary", {}, words),
    content,
  );

/** @param {Results} run */
function drawResults(run) {
  const named = (/** @type {string} */ name, /** @type {string} */ detail) =>
    h("th", { scope: "row" }, name, h("code", {}, detail));
  const drawOutput = (/** @type {Output} */ row) =>
    h(
      "tr",
      { class: row.same ? "tx-same" : "tx-changed" },
      named(row.name, row.type),
      ...[row.before, row.after].map((text) => h("td", {}, h("pre", {}, text))),
      ...[row.largest, row.mean].map((text) => h("td", { class: "tx-number" }, text)),
      h("td", { class: "tx-hint" }, row.note),
    );
  const changed = run.outputs.filter((row) => !row.same).map(drawOutput);
  const same = run.outputs.filter((row) => row.same).map(drawOutput);
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
  const outputHeads = ["output", "untouched", "injected", "max |Δ|", "mean |Δ|", "note"];
  const recordHeads = ["tag", "statistics", "values", "note"];
  return [
    h(
      "header",
      { class: "tx-head" },
      h("h3", {}, run.title),
      ...run.injectors.map(({ address, text }) => {
        const item = chip(text, "injected");
        item.title = address;
        return item;
      }),
      h("span", { class: "tx-outdated" }, "The tags, injectors or states have changed since."),
    ),
    run.error ? h("pre", { class: "tx-error" }, run.error) : null,
    run.cancelled ? h("p", { class: "tx-note" }, run.cancelled) : null,
    drawTimes(run.times),
    ...run.xla.map((words) => h("p", { class: "tx-hint" }, words)),
    changed.length ? table(outputHeads, changed, "Outputs") : null,
    same.length ? fold(run.unchanged, table(outputHeads, same, "Unchanged outputs")) : null,
    records.length ? h("h4", {}, "Recorded at tags, after their injectors") : null,
    records.length ? table(recordHeads, records, "Recorded at tags") : null,
  ];
}

/** Python code with a button that copies it. @param {string} code @param {(s: string) => void} say */
function drawCode(code, say) {
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
  return [h("summary", {}, "Python code that redoes this"), button("Copy", copy), text];
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

/** One view of the model. @param {{ model: Model, el: HTMLElement }} context */
function render({ model, el }) {
  // The kernel may take messages in several threads: by their numbers it handles them in order.
  const from = Math.random().toString(36).slice(2);
  let [sent, handled] = [0, 0];
  const send = (/** @type {object} */ message) => {
    sent += 1;
    model.send({ ...message, from, number: sent });
    setTimeout(showProgress, SLOW);
    return sent;
  };
  const set = (/** @type {string} */ trait, /** @type {unknown} */ value) => {
    model.set(trait, value);
    model.save_changes();
  };
  const select = (/** @type {string} */ address) => set("selected", address);

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
  const note = h("p", { class: "tx-hint tx-picture-note" });
  const stage = h("div", { class: "tx-stage" }, note);
  const inspector = h("aside", { class: "tx-inspector", "aria-label": "Inspector", tabindex: "-1" });
  const results = h("section", { class: "tx-results", "aria-label": "Results" });
  const code = h("details", {});
  const ran = button("", () => results.scrollIntoView({ block: "nearest" }), {
    title: "Show the results",
  });
  // What a run gives stands below the picture, which may be out of sight.
  const ranLine = h("div", { class: "tx-ran", role: "status", "aria-live": "polite" }, ran);

  let saving = 0;
  const act = {
    select,
    toggle: (/** @type {string} */ address) => send({ do: "toggle", address }),
    between: (/** @type {string} */ from, /** @type {string} */ to) => find.between(from, to),
    placed: (/** @type {Place} */ place, /** @type {boolean} */ moved) => {
      scale.textContent = `${Math.round(100 * place.scale)}%`;
      clearTimeout(saving);
      saving = setTimeout(() => set("place", moved ? place : {}), SAVE_AFTER);
    },
  };
  const picture = new Picture(stage, act, model.get("place"));
  const heat = /** @type {HTMLSelectElement} */ (
    h(
      "select",
      {
        class: "tx-button tx-heat",
        "aria-label": "Colour by",
        title: "Colour by",
        change: () => send({ do: "heat", address: heat.value }),
      },
      h("option", { value: "" }, "Colour by kind"),
      h("option", { value: "flops" }, "Colour by FLOPs"),
      h("option", { value: "bytes" }, "Colour by bytes"),
    )
  );
  const legend = h(
    "details",
    { class: "tx-folded" },
    h("summary", {}, "What the nodes and lines of the picture are"),
    drawLegend(h, parseSvg, model.get("_legend")),
  );
  const find = new Find({ h, button, send, picture });
  const waits = (/** @type {number} */ number) => number > handled;
  const controls = new Controls({ h, send, waits });
  const runBar = new RunBar({ h, send, button, setLive: (live) => set("live", live) });
  const states = new States({ h, button, table, redraw, send, select });
  const placed = (/** @type {Place} */ { scale: now }) => {
    if (model.get("view") === "compare") scale.textContent = `${Math.round(100 * now)}%`;
  };
  const compare = new Compare({ h, button, Picture, placed });
  const seen = () => (model.get("view") === "compare" ? compare.picture : picture);
  const tools = h(
    "div",
    { class: "tx-tools", role: "group", "aria-label": "Zoom" },
    button("−", () => seen().zoomOut(), { "aria-label": "Zoom out", title: "Key −" }),
    scale,
    button("+", () => seen().zoomIn(), { "aria-label": "Zoom in", title: "Key +" }),
    button("Fit", () => seen().fit(true), { "aria-label": "Fit the picture", title: "Key 0" }),
  );
  const onRow = { select, send, between: act.between };
  const text = new Lines("Text of the program", "tx-text", onRow);
  const outline = new Lines("Outline of the program", "tx-outline", onRow);
  const tabs = new Tabs("View of the program", (name) => set("view", name), [
    { name: "picture", title: "Picture", panel: stage, shown: () => picture.reveal(model.get("selected")) },
    { name: "text", title: "Text", panel: text.panel, shown: () => text.reveal() },
    { name: "outline", title: "Outline", panel: outline.panel, shown: () => outline.reveal() },
    { name: "compare", title: "Compare", panel: compare.panel, shown: () => compare.shown() },
  ]);
  el.classList.add("taxpr-view");
  el.append(
    hidden(model.get("saved")),
    // Below the bar on the screen; before it for the Tab key, which goes from zooming to the picture.
    find.element,
    ranLine,
    h(
      "div",
      { class: "tx-bar" },
      h("span", { class: "tx-title" }, call, counts),
      tabs.list,
      heat,
      tools,
    ),
    stage,
    text.panel,
    outline.panel,
    compare.panel,
    inspector,
    controls.element,
    runBar.element,
    h("div", { class: "tx-status" }, orphan, progress, message),
    states.element,
    results,
    h("div", { class: "tx-more" }, legend, code),
  );

  const say = (/** @type {string} */ words, error = false) => {
    message.textContent = words;
    message.classList.toggle("tx-error", error);
  };
  const inspect = () => {
    const [node, selected] = [model.get("inspection"), model.get("selected")];
    const waiting = (node.address ?? "") !== selected; // for the kernel
    inspector.classList.toggle("tx-waiting", waiting);
    if (waiting) return;
    const focused = inspector.contains(document.activeElement);
    inspector.classList.toggle("tx-empty", !selected && !model.get("tags").length);
    const children = selected
      ? drawInspection(node, send, () => select(""), find.offers(node, inspect))
      : drawTags(model.get("tags"), select);
    redraw(inspector, children);
    if (focused && !inspector.contains(document.activeElement)) inspector.focus({ preventScroll: true });
  };

  const showProgress = () => {
    const { running, label: doing, fraction, elapsed, cancelling } = model.get("progress");
    const waiting = !running && waits(sent);
    const focused = document.activeElement === cancel;
    progress.hidden = !running && !waiting;
    cancel.hidden = waiting;
    cancel.toggleAttribute("disabled", Boolean(cancelling));
    if (focused && cancel.closest("[hidden], :disabled")) runBar.run.focus({ preventScroll: true });
    if (running) label.textContent = `${doing} · ${elapsed.toFixed(1)} s`;
    else if (waiting) label.textContent = "waiting for the kernel";
    if (running && fraction !== null) bar.setAttribute("value", String(fraction));
    else bar.removeAttribute("value");
  };

  /** What to draw again when a trait changes. @type {Record<string, (value: any) => void>} */
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
    rows: (sent) => sent.view && (sent.view === "text" ? text : outline).show(sent),
    view: (name) => {
      tabs.show(name);
      heat.classList.toggle("tx-unseen", name !== "picture");
      tools.classList.toggle("tx-unseen", !["picture", "compare"].includes(name));
      scale.textContent = `${Math.round(100 * seen().place.scale)}%`;
    },
    comparison: (comparison) => compare.show(comparison),
    found: (found) => find.found(found),
    slice: (slice) => {
      find.sliced(slice);
      for (const view of [text, outline]) view.light(slice.elements ?? null);
    },
    selected: (address) => {
      for (const view of [picture, text, outline]) view.select(address);
      inspect();
    },
    inspection: inspect,
    states: (shown) => states.show(shown),
    tags: () => model.get("selected") || inspect(),
    message: (said) => say(said.text ?? "", said.error),
    code: (words) => redraw(code, drawCode(words, say)),
    stale: (stale) => {
      for (const part of [results, ran]) part.classList.toggle("tx-stale", stale);
    },
    results: (run) => {
      fill(results, run.title ? drawResults(run) : []);
      ran.hidden = !run.summary;
      ran.textContent = run.summary ? `${run.summary} ↓` : "";
      ran.classList.toggle("tx-error", run.status === "error");
    },
    controls: (shown) => controls.show(shown),
    devices: (names) => runBar.show(names),
    live: (live) => (runBar.live.checked = live),
    handled: (numbers) => {
      handled = numbers[from] ?? handled;
      controls.handled();
      showProgress();
    },
    progress: () => showProgress(),
  };
  const off = Object.entries(draw).map(([trait, redraw]) => {
    const listener = () => redraw(model.get(trait));
    listener();
    model.on(`change:${trait}`, listener);
    return () => model.off(`change:${trait}`, listener);
  });

  let panel = /** @type {HTMLElement | null} */ (null); // known once this is in the page
  // Notebook 7 takes keys from focused elements unless the element itself says this, and Notebook 6
  // takes what reaches the page. So do both for all of the panel, the ipywidgets included, and give
  // these the name that stands before them. Escape gives the keys back to the notebook.
  const claim = (/** @type {Event} */ event) => {
    const target = /** @type {Element} */ (event.target);
    target.setAttribute("data-lm-suppress-shortcuts", "true");
  };
  const keep = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey) return;
    event.stopPropagation();
    const outside = panel?.parentElement?.closest("[tabindex]"); // the cell, where it takes keys
    if (event.key === "Escape" && outside instanceof HTMLElement) {
      outside.focus({ preventScroll: true });
    }
  };
  // The notebook marks the widget around this one by a class when its kernel is gone, as after a
  // restart.
  const orphaned = () => {
    if (!el.closest(".jupyter-widgets-disconnected")) return;
    orphan.hidden = false;
    inspector.inert = true;
    for (const part of [controls.element, runBar.element, states.element, find.element, heat, progress]) {
      for (const one of [part, ...part.querySelectorAll("button, input, select")]) {
        one.toggleAttribute("disabled", true);
      }
    }
    progress.hidden = true;
  };
  const marks = new MutationObserver(orphaned);

  const ended = new AbortController();
  const sizes = new ResizeObserver(() => {
    if (!panel && el.isConnected) {
      panel = el.closest(".taxpr-panel") ?? el;
      panel.addEventListener("focusin", claim, { signal: ended.signal });
      panel.addEventListener("keydown", keep, { signal: ended.signal });
      marks.observe(panel, { attributes: true, attributeFilter: ["class"] });
      orphaned();
      picture.resized();
      picture.reveal(model.get("selected"));
    }
    picture.resized();
  });
  sizes.observe(stage);

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
