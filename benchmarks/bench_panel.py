"""How long a panel in JupyterLab takes from what a user does until the answer is painted.

Run it as `python benchmarks/bench_panel.py`, in the environment `newest`, which has JupyterLab and
playwright. Train steps of a transformer, one of about 480 equations and one of about 4,300. Each
number is from the event in the page to the first frame that shows the answer:

- ``slider``: a step of a slider with Live on, without the program's own run; the median of `STEPS`.
- ``floor``: the same for a slider of ipywidgets that Python answers with a text, in turn with it:
  what JupyterLab, its server and the kernel take for any message and its answer.
- ``click``: from a click on a node to the inspector. ``find``: from what is typed in the field to
  the number of hits. ``unfold``: from a double click to another picture.
- ``compare``: from the first click on the tab Compare to both pictures.
- ``first`` and ``again``: from the keys that run a cell with `%taxpr` to the picture, of a bare
  trace of the same function; ``again`` is the cell run a second time. JAX's caches are empty
  before each.

It counts on a machine that does nothing else; `floor` and ratios are of the same run.
"""

import functools
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("benchmarks", "tests")]

import programs  # noqa: E402
from browser.lab_server import Server, chromium, running_server  # noqa: E402
from browser.notebook_page import NotebookPage, Panel, expect, in_python, notebook  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

LAYERS = {"480": (3, 24, 32), "4,300": (28, 24, 32)}  # layers, tokens and width, by equations
STEPS = 20
REST = 900  # milliseconds until a live run is shown as a whole, and its page has come to rest
CLICKS, FOLDS, WORDS = 6, 4, ("dot", "exp", "sub", "div", "tanh", "mul")
GOALS = (
    ("slider to painted, beyond the program's own run", "slider", 40),
    ("click to inspector", "click", 50),
    ("found typed to count", "find", 100),
    ("unfold to painted", "unfold", 100),
    ("first opening of Compare", "compare", 500),
)
BEGIN = """\
%load_ext taxpr_jupyter
import sys, time, warnings, jax
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
import programs
step = programs.training({layers}, tags=3)
args = programs.transformer_args({layers}, {tokens}, {width})
def traced():
    jax.clear_caches()
    start = time.perf_counter()
    jax.jit(lambda *args: step(*args)).trace(*args)
    return 1e3 * (time.perf_counter() - start)
"""
CLEAR = "jax.clear_caches()"
TAXPR = "%taxpr --name p step(*args)"
ATTACH = "p.attach('t0', 'scale');"
BARE = '''\
import anywidget, traitlets
class Bare(anywidget.AnyWidget):
    _esm = """export default { render({ model, el }) {
      const slider = document.createElement("input");
      const said = document.createElement("span");
      Object.assign(slider, { type: "range", className: "bare-slider" });
      said.className = "bare-said";
      slider.setAttribute("data-lm-suppress-shortcuts", "true"); // of the arrow keys
      slider.addEventListener("input", () => {
        model.set("at", Number(slider.value));
        model.save_changes();
      });
      model.on("change:said", () => (said.textContent = model.get("said")));
      el.append(slider, said);
    } }"""
    at = traitlets.Int(0).tag(sync=True)
    said = traitlets.Unicode("").tag(sync=True)
bare = Bare()
bare.observe(lambda change: setattr(bare, "said", str(change.new)), "at")
bare
'''

# Has `painted` be the time from the next event of a kind to the first frame in which a condition
# holds that did not before.
ARMED = """([kind, condition]) => {
  const holds = new Function(`return ${condition}`);
  const before = holds();
  let begin = 0;
  window.painted = new Promise((then, fail) => {
    setTimeout(() => fail(new Error(`never: ${condition}`)), 60_000);
    const end = () => setTimeout(() => then(performance.now() - begin));
    const seen = new MutationObserver(() => {
      const now = begin && holds();
      if (!now || now === before) return;
      seen.disconnect();
      requestAnimationFrame(end);
    });
    const whole = { subtree: true, childList: true, characterData: true, attributes: true };
    seen.observe(document.body, whole);
    const start = () => (begin = performance.now());
    document.addEventListener(kind, start, { capture: true, once: true });
  });
}"""
PICTURE = "document.querySelector('.tx-stage svg .node')?.closest('svg')"
TEXT = "document.querySelector('{0}')?.textContent"


class Clock:
    """Measures what happens in a page, in milliseconds.

    Args:
        page: Of playwright.
    """

    def __init__(self, page: Page) -> None:
        self._page = page

    def until(self, act: Any, event: str, condition: str) -> float:
        """From the event that ``act`` causes to the frame in which ``condition`` is another one.

        Args:
            act: Does what a user does.
            event: The kind of the first event that counts.
            condition: JavaScript; something false does not count.
        """
        self._page.evaluate(ARMED, [event, condition])
        act()
        return self._page.evaluate("painted")


def own_run(panel: Panel) -> float:
    """The milliseconds of the program itself in the run that is shown."""
    times = panel.results.locator(".tx-times > div").filter(has_text="run")
    value, unit = times.locator("dd").first.text_content().split()
    return float(value) * {"ms": 1.0, "s": 1e3}[unit]


def slid(page: Page, clock: Clock, panel: Panel) -> dict[str, float]:
    """Steps of the slider and of the bare one, in turn."""
    chip = TEXT.format(".tx-results .tx-chip-injected")
    bare, said = page.locator(".bare-slider"), TEXT.format(".bare-said")
    runs, floors, own = [], [], []
    for number in range(STEPS + 2):
        key = "ArrowLeft" if number % 2 else "ArrowRight"
        panel.slider.focus()
        page.wait_for_timeout(REST)
        press = functools.partial(page.keyboard.press, key)
        runs.append(clock.until(press, "input", chip))
        own.append(own_run(panel))
        page.wait_for_timeout(REST)
        bare.focus()
        floors.append(clock.until(press, "input", said))
    beyond = [whole - run for whole, run in zip(runs, own, strict=True)][2:]
    return {
        "own": statistics.median(own[2:]),
        "slider": statistics.median(beyond),
        "slider_least": min(beyond),
        "floor": statistics.median(floors[2:]),
        "floor_least": min(floors[2:]),
    }


def clicked(page: Page, clock: Clock, panel: Panel) -> float:
    """Clicks on nodes."""
    for _ in range(2):  # first what can be read, then all of it
        panel.button("Fit the picture").click()
    nodes = panel.stage.locator("svg .node.eqn")
    address = TEXT.format(".tx-inspector:not(.tx-waiting) .tx-address")
    times = []
    for number in range(min(CLICKS, nodes.count())):
        node = nodes.nth(number)
        times.append(clock.until(node.click, "click", address))
        page.wait_for_timeout(REST)
    return statistics.median(times)


def found(page: Page, clock: Clock, panel: Panel) -> float:
    """Types what is searched for."""
    field = panel.root.get_by_label("Find in the program")
    hits, times = TEXT.format(".tx-hits"), []
    for word in WORDS:
        times.append(clock.until(functools.partial(field.fill, word), "input", hits))
        field.fill("")
        page.wait_for_timeout(REST)
    return statistics.median(times)


def unfolded(page: Page, clock: Clock, panel: Panel) -> float:
    """Opens closed nodes, one after another."""
    times = []
    for _ in range(FOLDS):
        node = panel.stage.locator("svg .node[data-fold]").first
        name = node.get_attribute("data-fold")
        inside = f"!document.querySelector('.tx-stage svg .node[data-fold=\"{name}\"]')"
        double = functools.partial(node.dispatch_event, "dblclick")  # it may be out of sight
        times.append(clock.until(double, "dblclick", inside))
        page.wait_for_timeout(REST)
    return statistics.median(times)


def compared(clock: Clock, panel: Panel) -> float:
    """Opens the tab Compare for the first time."""
    tab = panel.root.get_by_role("tab", name="Compare")
    both = "['before', 'after'].every((one) => document.querySelector(`.tx-compare svg g.${one}`))"
    return clock.until(tab.click, "click", both)


def drawn(page: Page, clock: Clock, book: NotebookPage, cell: int, what: str = PICTURE) -> float:
    """Runs a cell until its picture, or what else it shows, is painted."""
    book.cell(cell).locator(".cm-content").click()
    return clock.until(lambda: book.run(cell), "keydown", what)


def measured(page: Page, server: Server, name: str) -> dict[str, float]:
    """All numbers for one program."""
    layers, tokens, width = LAYERS[name]
    begin = BEGIN.format(folder=str(ROOT / "benchmarks"), layers=layers, tokens=tokens, width=width)
    told = in_python("[min(traced() for _ in range(3)), p.picture().counts.total]")
    book = NotebookPage(page, server.in_lab(notebook(begin, CLEAR, TAXPR, told, ATTACH, BARE)))
    clock = Clock(page)
    row = {}
    book.run(0)
    for which in ("first", "again"):
        book.run(1)
        row[which] = drawn(page, clock, book, 2)
    panel = book.panel(2)
    row["trace"], row["equations"] = book.python(3)
    row["click"] = clicked(page, clock, panel)
    row["find"] = found(page, clock, panel)
    row["unfold"] = unfolded(page, clock, panel)
    book.run(4)
    for _ in range(2):  # the first one imports
        row["cell"] = drawn(page, clock, book, 5, "document.querySelector('.bare-slider')")
    panel.root.get_by_label("Find in the program").fill("tag:t0")
    page.keyboard.press("Enter")
    expect(panel.slider).to_be_visible()
    panel.run(1)
    panel.root.get_by_label("Live", exact=True).set_checked(True)
    row |= slid(page, clock, panel)
    row["compare"] = compared(clock, panel)
    return row


def main() -> None:
    """Prints a table, and whether the goals are reached."""
    rows: dict[str, dict[str, float]] = {}
    with (
        tempfile.TemporaryDirectory() as home,
        running_server(Path(home)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(**chromium())
        for name in sys.argv[1:] or LAYERS:
            context = browser.new_context(viewport={"width": 1400, "height": 1500})
            rows[name] = measured(context.new_page(), server, name)
            print(name, {key: round(value, 1) for key, value in rows[name].items()}, flush=True)
            context.close()
            server.end_kernels()
        browser.close()
    goals = []
    for name, row in rows.items():
        of = f"{name} equations"
        for what, key, goal in GOALS:
            goals.append(programs.reached(f"{what}, {of}", row[key], goal, " ms"))
        what = "the same for a bare slider of ipywidgets, and what a panel adds to it"
        goals.append(programs.reached(f"{what}, {of}", row["slider"] - row["floor"], 20, " ms"))
        for which in ("first", "again"):
            what = f"a cell to its picture, {which} time, to a bare trace, {of}"
            goals.append(programs.reached(what, row[which] / row["trace"], 2, " times"))
        what = f"the same again, beyond the cell of a bare slider, {of}"
        beyond = row["again"] - row["cell"]
        goals.append(programs.reached(what, beyond / row["trace"], 2, " times"))
    programs.write("bench_panel", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main()
