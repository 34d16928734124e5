"""How long it takes from a double-click on a folded node until its inside is painted, in a panel.

Run it as `python benchmarks/bench_unfold.py [REVISION]`, in the environment `newest`, which has
playwright. This process is the kernel of a panel in Chromium. Gradients of a transformer of about
1,000 to 100,000 equations; of each fold the least of three times, and of all folds the median.
`first` is the first of these times, in which `dot` lays out what nobody has opened yet.
With a revision, such as `82ad66b`, that one is measured in the same run. It counts on a machine
that does nothing else; ratios count on any.
"""

import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(os.environ.get("DRAWN_BY", ROOT))
sys.path[:0] = [str(SOURCE), *(str(ROOT / part) for part in ("benchmarks", "tests"))]

import jax  # noqa: E402
import programs  # noqa: E402
from browser.panel_start import PAGE, START  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

from taxpr_jupyter import Session  # noqa: E402

LAYERS = {"1k": 6, "10k": 66, "100k": 660}
GOALS = {"1k": 100, "10k": 100, "100k": 250}  # milliseconds
FOLDS, TIMES = 6, 3
STEPS = ("kernel", "drawn", "painted")
STATIC = ("_esm", "_css", "_modules", "layout")
# Toggles a node as a double-click does. The milliseconds of each step, and the page's error.
TOGGLED = """async (address) => {
  await idle();
  await new Promise((then) => setTimeout(then, 300)); // what was moving has come to rest
  const at = (what) => document.querySelector(`.tx-stage svg ${what}`);
  const name = CSS.escape(address);
  const node = at(`.node[data-fold="${name}"]`) ?? at(`.cluster[data-fold="${name}"]`);
  const stage = document.querySelector(".tx-stage");
  const begin = performance.now();
  const drawn = new Promise((then) => {
    const seen = new MutationObserver(() => {
      if (at("*") === null || node.isConnected) return;
      seen.disconnect();
      then(performance.now());
    });
    seen.observe(stage, { childList: true });
  });
  node.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
  const end = await drawn;
  await new Promise(requestAnimationFrame);
  const painted = await new Promise((then) => setTimeout(() => then(performance.now())));
  return [window.answered - begin, end - window.answered, painted - end];
}"""


def view_of(session):
    try:
        return importlib.import_module("taxpr_jupyter._view.widget").view_for(session)
    except ModuleNotFoundError:  # in older revisions
        return importlib.import_module("taxpr_jupyter._view._widget").view_for(session)


def shown(page: Page, session):
    """Shows a panel, whose kernel is this process."""
    view = view_of(session)
    graph = view.graph
    names = [name for name in graph.keys if name not in STATIC]
    sent = graph.get_state(names)
    loaded = getattr(graph, "_modules", {})
    assert view.wait(60)

    def kernel(what, content):
        if what == "set":
            graph.set_state(content)
        else:
            graph._handle_custom_msg(content, [])
            while not view.wait(60):
                pass
        now = graph.get_state(names)
        changed = {name: value for name, value in now.items() if value != sent[name]}
        sent.update(changed)
        return changed

    page.expose_function("kernel", kernel)
    page.set_content(PAGE.format(css=graph._css))
    noted = START.replace(
        "await window.kernel(what, content);",
        "await window.kernel(what, content); window.answered = performance.now();",
    )
    page.evaluate(noted, [str(graph._esm), json.loads(json.dumps({**sent, "_modules": loaded}))])
    page.wait_for_selector(".tx-stage svg .node")


def measured(name):
    """The milliseconds of each step, medians over some folds."""
    jax.clear_caches()
    layers = LAYERS[name]
    session = Session(programs.gradient(lambda x: x), programs.transformer_args(layers))
    picture = session.picture()
    closed = sorted(
        node.fold for node in picture.nodes if node.fold in picture.foldable - picture.unfolded
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        shown(page, session)
        rows, firsts = [], []
        for fold in closed[:: max(1, len(closed) // FOLDS)][:FOLDS]:
            times = []
            for _ in range(TIMES):
                times.append(page.evaluate(TOGGLED, fold))
                page.evaluate(TOGGLED, fold)  # folds it again
            rows.append(min(times, key=sum))
            firsts.append(sum(times[0]))
        browser.close()
    row = {
        step: statistics.median(times)
        for step, times in zip(STEPS, zip(*rows, strict=True), strict=True)
    }
    row |= {"all": statistics.median(map(sum, rows)), "first": statistics.median(firsts)}
    return {**row, "equations": picture.counts.total}


def by_revision(folder, name):
    env = {**os.environ, "DRAWN_BY": folder, "PYTHONPATH": folder}
    command = [sys.executable, str(Path(__file__).resolve()), "--json", name]
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def main(*words):
    """Prints a line for each size, and whether the goals are reached."""
    if words[:1] == ("--json",):
        print(json.dumps(measured(words[1])))
        return
    rows, goals = {}, []
    with tempfile.TemporaryDirectory() as folder:
        if words:
            archive = subprocess.run(
                ["git", "-C", str(ROOT), "archive", words[0], "taxpr", "taxpr_jupyter"],
                stdout=subprocess.PIPE,
                check=True,
            )
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        columns = ("all", *STEPS, "first")
        print(f"{'':12}{'equations':>10}{''.join(f'{column:>10}' for column in columns)}")
        for name in LAYERS:
            sides = {"before": folder} if words else {}
            for side, source in {**sides, "now": str(ROOT)}.items():
                row = rows[f"{name} {side}"] = by_revision(source, name)
                numbers = "".join(f"{row[column]:>10.1f}" for column in columns)
                print(f"{f'{name} {side}':12}{row['equations']:>10,}{numbers}", flush=True)
    for name, goal in GOALS.items():
        now = rows[f"{name} now"]["all"]
        goals.append(programs.reached(f"unfold to painted, {name} equations", now, goal, " ms"))
        if words:
            before = rows[f"{name} before"]["all"]
            goals.append(programs.reached(f"the same, to {words[0]}", now / before, 1))
    programs.write("bench_unfold", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main(*sys.argv[1:])
