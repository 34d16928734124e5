"""How long a picture takes: from a traced program to a laid-out SVG, beside other tools.

Run it as `python benchmarks/bench_picture.py`. Gradients of a transformer, unrolled, of about 50 to
100,000 equations. Goals are about times without tracing; ratios to tracing, and to pictures without
the statements of the source, hardly depend on the machine. Other tools run where they can be
imported, each in a process of its own, for a minute at most; where that is another Python than this
one, say so: `PEERS=/path/to/python`.
"""

import gc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import jax
import programs
from peers import PEERS

import taxpr
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._svg.svg import finish_svg

LAYERS = {"50": 0, "2k": 13, "10k": 66, "100k": 660}
PEER_SECONDS = 60
FOLDS = 8  # that are opened, one by one
RUNS = 5  # of pictures with and without statements, in turn
HERE = Path(__file__).resolve().parent


def program_of(layers):
    """The gradient with so many layers; with none, one layer forward."""
    args = programs.transformer_args(layers or 1)
    jax.clear_caches()
    gc.collect()
    start = time.process_time()
    fn = programs.gradient(lambda x: x) if layers else programs.transformer(lambda x: x)
    return taxpr.trace(fn)(*args), time.process_time() - start


class Clock:
    """The processor time of steps, by name, so that others on the machine hardly disturb it."""

    def __init__(self):
        self.seconds = {}

    def step(self, name, run):
        start = time.process_time()
        result = run()
        self.seconds[name] = time.process_time() - start
        return result

    @property
    def total(self):
        return sum(self.seconds.values())


def drawn(builder, unfolded=None, kept=None):
    """The picture, the SVG, and what each step took."""
    clock = Clock()
    picture = clock.step("build", lambda: builder.picture(unfolded))
    laid_out = lay_out(lambda: arranged(picture, kept or RecentLayouts()), timeout=60)
    clock.seconds["layout"] = laid_out.seconds  # of another process: by the clock on the wall
    if laid_out.layout is None:
        sys.exit(laid_out.note)
    svg = clock.step("svg", lambda: finish_svg(laid_out.layout, picture))
    return picture, svg, clock


def measured(layers):
    program, trace = program_of(layers)
    builder = Builder(program)
    kept = RecentLayouts()
    picture, svg, first = drawn(builder, kept=kept)
    closed = sorted(picture.foldable - picture.unfolded)
    opened = closed[:: max(1, len(closed) // FOLDS)][:FOLDS]
    folds = sorted(
        drawn(builder, picture.unfolded | {address}, kept)[2].total for address in opened
    )
    return {
        "equations": picture.counts.total,
        "nodes": len(picture.nodes),
        "trace": trace,
        "first": first.total,
        **first.seconds,
        "fold": folds[len(folds) // 2] if folds else 0.0,
        "kB": len(svg.encode()) / 1000,
    }


def with_statements(layers):
    """What a first picture takes in all, as a ratio to one that knows no source."""
    program, _ = program_of(layers)

    def seconds():
        gc.collect()
        return drawn(Builder(program))[2].total

    def without():
        with mock.patch.object(taxpr, "statements_of", return_value=()):
            return seconds()

    return statistics.median(seconds() / without() for _ in range(RUNS))


def of_peer(name, layers, python):
    """What a tool did, in words, and its JSON where it came to an end."""
    command = [python, str(HERE / "peers.py"), name, str(layers)]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}  # `programs` imports taxpr
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=PEER_SECONDS, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        return f"did not finish in {PEER_SECONDS} s", None
    if run.returncode:
        return f"failed: {(run.stderr.strip().splitlines() or ['?'])[-1][:90]}", None
    found = json.loads(run.stdout.splitlines()[-1])
    words = f"{found['seconds']:.2f} s, {found['bytes'] / 1000:,.0f} kB ({found['what']})"
    return words, found


def has(python, module):
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    return not subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode


def main():
    """Prints a table, how others do, and whether the goals are reached."""
    columns = ("equations", "nodes", "trace", "first", "build", "layout", "svg", "fold")
    print("".join(f"{column:>10}" for column in (*columns, "kB", "first/trace")))
    rows = {}
    for name, layers in LAYERS.items():
        row = rows[name] = measured(layers)
        numbers = "".join(f"{row[c]:>10,}" for c in columns[:2])
        numbers += "".join(f"{row[c]:>10.3f}" for c in columns[2:])
        print(f"{numbers}{row['kB']:>10.0f}{row['first'] / row['trace']:>10.2f}")
    for name in ("10k", "100k"):
        rows[name]["statements"] = with_statements(LAYERS[name])

    python = os.environ.get("PEERS", sys.executable)
    for peer in PEERS:
        if not has(python, peer):
            print(f"{peer}: not installed")
            continue
        for name, layers in LAYERS.items():
            words, found = of_peer(peer, layers or 1, python)
            rows[name][peer] = found or words
            print(f"{peer}, {name} equations: {words}; ours {rows[name]['first']:.2f} s")
            if found is None:
                break  # nor does it finish a larger one

    goals = [
        programs.reached("the first picture of 10k equations", rows["10k"]["first"], 1.5, " s"),
        programs.reached("the first picture of 100k equations", rows["100k"]["first"], 5, " s"),
        programs.reached("opening one more", max(r["fold"] for r in rows.values()), 0.3, " s"),
        programs.reached("the largest SVG", max(r["kB"] for r in rows.values()), 300, " kB"),
    ]
    for name in ("10k", "100k"):
        what = f"a picture of {name} equations with statements, to one without"
        goals.append(programs.reached(what, rows[name]["statements"], 1.2))
    per_eqn = {name: row["build"] / row["equations"] for name, row in rows.items()}
    what = "building, for each equation: at 100k to at 10k"
    goals.append(programs.reached(what, per_eqn["100k"] / per_eqn["10k"], 1.5))
    programs.write("bench_picture", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main()
