"""The page of a panel without Jupyter, which the benchmarks share."""

PAGE = """
<style>body {{ margin: 8px; font: 13px sans-serif; color-scheme: light dark; }}</style>
<style>{css}</style>
<div class="taxpr-panel widget-vbox">
<div class="taxpr-grid widget-vbox"><div id="el"></div></div>
</div>
"""
START = """async ([code, state]) => {
  const listeners = {};
  const call = (name) => (listeners[name] ?? []).forEach((listener) => listener());
  let waiting = Promise.resolve();
  window.idle = () => waiting;
  const ask = (what, content) => {
    waiting = waiting.then(async () => {
      const now = await window.kernel(what, content);
      const changed = Object.keys(now).filter(
        (name) => JSON.stringify(now[name]) !== JSON.stringify(state[name]));
      Object.assign(state, now);
      changed.forEach(call);
    });
  };
  window.look = () => ask("set", {});
  let unsent = {};
  const model = {
    get: (name) => state[name],
    set: (name, value) => {
      state[name] = value;
      unsent[name] = value;
      call(name);
    },
    save_changes: () => {
      ask("set", unsent);
      unsent = {};
    },
    send: (message) => ask("send", message),
    on: (event, listener) => (listeners[event.slice(7)] ??= []).push(listener),
    off: () => {},
  };
  const module = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  await module.default.render({ model, el: document.getElementById("el") });
}"""
