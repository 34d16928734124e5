// @ts-check
/**
 * The injector at the selected value, and its parameters. Which there are, and what a text or a
 * position of a slider means, is Python's to say (`taxpr_jupyter._view.parts.controls`).
 *
 * What the user has set stays as it is until Python has handled it: an answer to something older
 * does not overwrite it.
 *
 * @import { InOrder, Message, Param, Traits } from "./messages.js"
 * @typedef {{ send: (message: Message) => number, waits: (sent: number) => boolean }} Tools `send`
 *   gives the number of the message, and `waits` says whether it waits to be handled
 */

import { button, enters, h, hint, redraw, renew, textField } from "./dom.js";

const PAUSE = 1000; // milliseconds without a move, after which a slider that is held, or moved by keys, begins another step

const LIVE = "Run again whenever a parameter or the initial value of a state changes. On by itself after a run of less than 0.2 s that prints and calls nothing";

/** @param {HTMLElement} element @param {string} words */
const say = (element, words) => {
  renew(element, words ? [words] : []);
  element.hidden = !words;
};

/** A select with these options, which are changed only where they are other ones. */
class Choice {
  /** @param {Tools} tools @param {string} name @param {(value: string) => number} choose */
  constructor({ waits }, name, choose) {
    this.waits = waits;
    this.sent = 0;
    this.options = "";
    this.select = h("select", {
      class: "tx-field",
      "aria-label": name,
      change: () => (this.sent = choose(this.select.value)),
    });
    this.element = h("label", { class: "tx-choice" }, h("span", {}, name), this.select);
  }

  /** @param {[string, string][]} options Text and value. @param {string} value */
  show(options, value) {
    const key = JSON.stringify(options);
    const kept = this.waits(this.sent) ? this.select.value : value;
    if (key !== this.options) {
      this.options = key;
      this.select.replaceChildren(...options.map(([text, one]) => h("option", { value: one }, text)));
    }
    this.select.value = kept;
  }
}

/** One parameter: a slider and a field, or a checkbox. */
class Field {
  /**
   * @param {Tools} tools
   * @param {string} address Of what the injector is at.
   * @param {Param} param
   */
  constructor({ send, waits }, address, { name, help, flag, last }) {
    this.flag = flag;
    this.waits = waits;
    this.sendMoved = (/** @type {number} */ position) => send({ do: "value", address, param: name, position, drag: this.drag });
    this.drag = 0; // when it began, in milliseconds
    this.moved = 0; // the last time; 0 once it is let go of
    this.sent = 0;
    this.typing = false; // something that is not sent yet
    this.text = ""; // as Python knows it
    this.wanted = -1; // a position of the slider that waits until the one before is handled
    const sendTyped = () => {
      this.typing = false;
      this.wanted = -1;
      const text = flag ? (this.field.checked ? "True" : "False") : this.field.value;
      this.sent = send({ do: "value", address, param: name, text });
    };
    this.field = textField({
      ...(flag ? { class: "tx-check", type: "checkbox" } : {}),
      "aria-label": name,
      input: () => (this.typing = true),
      blur: () => (this.typing = false),
      change: sendTyped, // Enter, or the focus goes elsewhere
      keydown: (event) => {
        if (event.key !== "Escape" || !this.typing) return;
        event.stopPropagation(); // a second one leaves the panel
        this.typing = false;
        this.field.value = this.text;
      },
    });
    this.slider = h("input", {
      class: "tx-slider",
      type: "range",
      min: "0",
      max: String(last),
      "aria-label": `${name}, by a slider`,
      input: () => this.#move(Number(this.slider.value)),
      pointerup: () => (this.moved = 0),
    });
    this.slider.hidden = flag || !last; // what is no number has none
    this.mistake = h("p", { class: "tx-error", role: "alert" });
    const line = h("div", { class: "tx-param-line" }, h("code", {}, name), this.slider, this.field);
    this.element = h("div", { class: "tx-param" }, line, this.mistake, help ? hint(help) : "");
  }

  /** Sends one position at a time, and then the last one. @param {number} position */
  #move(position) {
    this.typing = false;
    this.wanted = position;
    const now = Date.now();
    if (now - this.moved > PAUSE) this.drag = now;
    this.moved = now;
    if (!this.waits(this.sent)) this.#sendWanted();
  }

  #sendWanted() {
    if (this.wanted < 0) return;
    const position = this.wanted;
    this.wanted = -1;
    this.sent = this.sendMoved(position);
  }

  /** @param {Param} param */
  show({ text, mistake, position }) {
    this.text = text;
    if (this.waits(this.sent)) return;
    if (this.wanted < 0) this.slider.value = String(position);
    else this.#sendWanted();
    this.slider.setAttribute("aria-valuetext", text);
    if (!this.typing) {
      this.field.value = text;
      this.field.checked = this.flag && text === "True";
    }
    this.field.setAttribute("aria-invalid", String(Boolean(mistake)));
    say(this.mistake, mistake);
  }
}

export class Controls {
  /** @param {Tools} tools */
  constructor(tools) {
    const { send } = tools;
    this.tools = tools;
    /** @type {Traits["controls"]} */
    this.shown = {};
    this.address = "";
    this.key = ""; // of what injector the fields are
    /** @type {Map<string, string>} */
    this.drawn = new Map();
    /** @type {Field[]} */
    this.fields = [];
    this.place = new Choice(tools, "Value", (address) => send({ do: "place", address }));
    this.injector = new Choice(tools, "Injector", (injector) =>
      send({ do: "attach", address: this.address, injector }),
    );
    this.on = h("input", { type: "checkbox", change: () => (this.switched = send({ do: "switch", address: this.address, on: this.on.checked })) });
    this.switched = 0;
    const onTitle = "Off, the injector stays here with its values, and does nothing";
    this.onLabel = h("label", { class: "tx-live", title: onTitle }, this.on, "On");
    this.line = textField({
      "aria-label": "Injector as a line of Python",
      placeholder: "2 * x, or lambda h: 2 * h",
      title: "Enter attaches what you type",
      // Not by a form: JupyterLab keeps Enter from submitting one.
      keydown: (event) => {
        const injector = this.line.value.trim();
        if (enters(event) && injector) this.sent = send({ do: "attach", address: this.address, injector });
      },
    });
    this.sent = 0; // of a line
    this.known = ""; // the line as Python knows it
    this.more = h("select", {
      class: "tx-field",
      "aria-label": "One more injector",
      change: () => {
        const injector = this.more.value;
        this.more.value = "";
        if (injector) send({ do: "append", address: this.address, injector });
      },
    });
    this.moreLabel = h("label", { class: "tx-choice" }, h("span", {}, "then"), this.more);
    /** @type {{ row: number, sign: string, sent: number } | null} */
    this.moved = null; // an injector in the order, which Python has not moved yet
    this.order = h("ol", { class: "tx-order", "aria-label": "Injectors in order" });
    this.doc = hint("");
    this.note = hint("", { class: "tx-hint tx-remark" });
    this.failure = h("p", { class: "tx-error tx-failure" });
    this.params = h("div", { class: "tx-params" });
    this.element = h(
      "section",
      { class: "tx-controls", "aria-label": "Injector" },
      this.place.element,
      h("div", { class: "tx-injector" }, this.injector.element, this.onLabel),
      h("label", { class: "tx-choice" }, h("span", {}, "or a line"), this.line),
      this.order,
      this.moreLabel,
      this.doc,
      this.note,
      this.failure,
      this.params,
    );
  }

  /** @param {Traits["controls"]} shown */
  show(shown) {
    this.shown = shown;
    this.element.hidden = !("address" in shown);
    if (!("address" in shown)) return;
    const { address, places, injectors, injector, line, off, several, doc, note, failure, fields } = shown;
    const changed = document.activeElement === this.line && this.line.value.trim() !== this.known;
    const typing = changed && address === this.address;
    this.address = address;
    if (!typing && !this.tools.waits(this.sent)) this.line.value = line;
    this.known = line;
    this.onLabel.hidden = this.moreLabel.hidden = !injector;
    const further = injectors.filter((name) => name !== injector || !several.length);
    this.#changed("more", further, () => {
      const options = further.map((name) => h("option", { value: name }, name));
      this.more.replaceChildren(h("option", { value: "" }, "one more injector"), ...options);
    });
    this.#changed("order", [address, several], () =>
      redraw(this.order, several.map((one, k) => this.#inOrder(one, k, several.length))),
    );
    this.order.hidden = !several.length;
    this.#follow();
    if (!this.tools.waits(this.switched)) this.on.checked = !off;
    this.place.element.hidden = places.length < 2;
    this.place.show(places, address);
    const names = injectors.map((name) => /** @type {[string, string]} */ ([name, name]));
    this.injector.show([["none", ""], ...names], injector);
    say(this.doc, doc);
    say(this.note, note);
    say(this.failure, failure);
    const key = JSON.stringify([address, injector, fields.map(({ name, last }) => [name, last])]);
    if (key !== this.key) {
      this.key = key;
      this.fields = fields.map((field) => new Field(this.tools, address, field));
      this.params.replaceChildren(...this.fields.map((field) => field.element));
    }
    fields.forEach((field, index) => this.fields[index].show(field));
  }

  /** Draws a part anew if what it shows is another than before: while Live is on, most is not. @param {string} part @param {unknown} shown @param {() => void} draw */
  #changed(part, shown, draw) {
    const key = JSON.stringify(shown);
    if (this.drawn.get(part) === key) return;
    this.drawn.set(part, key);
    draw();
  }

  /** One of several injectors, with its switch and its place. @param {InOrder} one @param {number} k @param {number} count */
  #inOrder({ text, on }, k, count) {
    const { send } = this.tools;
    const { address } = this;
    const order = [...Array(count).keys()];
    const swapped = (/** @type {number} */ a) => order.map((at) => (at === a ? a + 1 : at === a + 1 ? a : at));
    const name = `${text}, number ${k + 1}`;
    const act = h("input", {
      type: "checkbox",
      "aria-label": `On: ${name}`,
      change: () => send({ do: "switch", address, on: act.checked, part: k }),
    });
    act.checked = on;
    const arrange = (/** @type {string} */ sign, /** @type {string} */ words, /** @type {number[]} */ to, /** @type {number} */ row, able = true) => {
      const act = () => (this.moved = { row, sign, sent: send({ do: "arrange", address, order: to }) });
      return button(sign, act, { "aria-label": `${words}: ${name}`, ...(able ? {} : { disabled: "" }) });
    };
    return h(
      "li",
      {},
      act,
      h("code", { title: text }, text),
      arrange("↑", "Earlier", swapped(k - 1), k - 1, k > 0),
      arrange("↓", "Later", swapped(k), k + 1, k < count - 1),
      arrange("×", "Remove", order.filter((at) => at !== k), k),
    );
  }

  /** Once the order is another one, the focus goes with what was moved, or to what comes after what was removed. */
  #follow() {
    if (!this.moved || this.tools.waits(this.moved.sent)) return;
    const { row, sign } = this.moved;
    this.moved = null;
    const { activeElement } = document;
    if (activeElement !== document.body && !this.order.contains(activeElement)) return; // it is elsewhere by now
    const item = this.order.children[Math.min(row, this.order.children.length - 1)];
    const buttons = [...(item?.querySelectorAll("button") ?? [])].filter((one) => !one.disabled);
    const to = buttons.find((one) => one.textContent === sign) ?? buttons[0] ?? this.injector.select;
    to.focus({ preventScroll: true });
  }

  /** To be called when Python has handled more of what was sent. */
  handled() {
    this.show(this.shown);
  }
}

/** Where to run, and the button that does. */
export class RunBar {
  /**
   * @param {Tools["send"]} send
   * @param {(live: boolean) => void} setLive
   * @param {(on: boolean) => void} setGradients
   */
  constructor(send, setLive, setGradients) {
    this.device = h("select", { class: "tx-button tx-device", "aria-label": "Device", title: "Device" });
    this.run = button("▶ Run", () => send({ do: "run", device: this.device.value }), {
      class: "tx-button tx-run-button",
      "aria-label": "Run",
    });
    this.live = h("input", { type: "checkbox", change: () => setLive(this.live.checked) });
    this.liveLabel = h("label", { class: "tx-live" }, this.live, "Live");
    this.why("");
    this.gradients = h("input", { type: "checkbox", change: () => setGradients(this.gradients.checked) });
    const by = "Each run compares the gradients of the scalar result, too. For that it compiles both programs once more";
    this.offer = h("label", { class: "tx-live tx-unseen", title: by }, this.gradients, "Gradients");
    const group = { class: "tx-run", role: "group", "aria-label": "Run" };
    this.element = h("div", group, this.run, this.device, this.offer, this.liveLabel); // the first for the Tab key
  }

  /** @param {string} why Live is off; empty while it is on. */
  why(why) {
    this.liveLabel.title = `${LIVE}${why && `\nIt is off: ${why}`}`;
  }

  /** @param {"" | "off" | "on"} gradients Empty where there are none. */
  offers(gradients) {
    this.offer.classList.toggle("tx-unseen", !gradients);
    this.gradients.checked = gradients === "on";
  }

  /** @param {string[]} devices The default first. */
  show(devices) {
    this.device.replaceChildren(...devices.map((name) => h("option", {}, name)));
    this.device.classList.toggle("tx-unseen", devices.length < 2); // nothing to choose
  }
}
