"""How quiet the pictures of the gallery are: crossings, overlaps, size and shape, from the SVG.

Run it as `python benchmarks/bench_layout.py [REVISION] [PART OF A NAME ...]`, in the environment
`clients` for the programs of other libraries. With a revision, such as `82ad66b`, that revision
draws its own gallery as well, in another process of the same run, and pictures of programs that
have the same name are compared.
"""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(os.environ.get("DRAWN_BY", ROOT))  # of the revision that draws
sys.path[:0] = [str(SOURCE), *(str(SOURCE / part) for part in ("benchmarks", "tests", "tools"))]

import gallery  # noqa: E402
import programs  # noqa: E402

import taxpr  # noqa: E402
from taxpr_jupyter import draw  # noqa: E402

assert Path(sys.modules["taxpr_jupyter"].__file__ or "").is_relative_to(SOURCE)
# What measures is always that of this revision, and an older one has another by that name.
_spec = importlib.util.spec_from_file_location("measuring", ROOT / "tests" / "picture_quality.py")
assert _spec is not None
assert _spec.loader is not None
measuring = sys.modules["measuring"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(measuring)

COLUMNS = ("crossings", "over", "texts", "width", "height")
MOST_MORE = 5  # crossings that one picture may have more than before
SLIMMEST = 3.0


def pictures(names):
    for part, name, make in gallery.programs():
        if not names or any(text in name for text in names):
            yield f"{part}: {name}", make, {}
    # As long as those of `PICTURE.md`: unrolled, drawn with more nodes than by default.
    for budget in (60, 150, 300) if not names or "transformer" in names else ():
        yield f"transformer, {budget} nodes", lambda: transformer(4), {"budget": budget}


def transformer(layers):
    args = programs.transformer_args(layers)
    return taxpr.trace(programs.gradient(lambda x: x))(*args)


def by_this(names):
    """The numbers of each picture by its name."""
    warnings.simplefilter("ignore")
    rows = {}
    for name, make, options in pictures(names):
        try:
            drawing = draw(make(), **options)
        except ImportError:
            continue
        svg = drawing.svg()
        if folder := os.environ.get("KEEP"):
            Path(folder, re.sub(r"\W+", "_", name) + ".svg").write_text(svg, encoding="utf-8")
        rows[name] = measuring.measured(drawing.picture, svg)
    return rows


def by_revision(revision, names):
    """The same of another revision."""
    with tempfile.TemporaryDirectory() as folder:
        parts = ("taxpr", "taxpr_jupyter", "benchmarks", "tests", "tools")
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", revision, *parts],
            stdout=subprocess.PIPE,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        env = {**os.environ, "DRAWN_BY": folder, "PYTHONPATH": folder}
        command = [sys.executable, str(Path(__file__).resolve()), "--json", *names]
        run = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
        return json.loads(run.stdout.splitlines()[-1])


def main(*words):
    """Prints a line for each picture, the sums, and whether the goals are reached."""
    if words[:1] == ("--json",):
        print(json.dumps(by_this(words[1:])))
        return
    revision, names = (words[0] if words else ""), words[1:]
    now = by_this(names)
    then = by_revision(revision, names) if revision not in ("", "-") else now
    print(f"{'':60}{''.join(f'{column:>18}' for column in COLUMNS)}")
    for name, row in now.items():
        pairs = [f"{then[name][c]:.0f} → {row[c]:.0f}" for c in COLUMNS if name in then]
        print(f"{name[:59]:60}{''.join(f'{pair:>18}' for pair in pairs)}")
    both = [(then[name], row) for name, row in now.items() if name in then]
    sums = {c: [sum(side[c] for side in pair) for pair in zip(*both, strict=True)] for c in COLUMNS}
    print(f"{'in all':60}{''.join(f'{a:>9.0f} → {b:.0f}' for a, b in sums.values())}")
    area = [
        sum(math.log(r["width"] * r["height"]) for r in side) for side in zip(*both, strict=True)
    ]
    print(
        f"area, geometric mean of after to before: {math.exp((area[1] - area[0]) / len(both)):.2f}"
    )
    slim = [n for n, r in now.items() if _slim(r) > SLIMMEST]
    slim_then = sum(_slim(a) > SLIMMEST for a, _ in both)
    print(f"longer than {SLIMMEST:.0f} to 1: {slim_then} → {len(slim)}", *slim)
    worst = max(b["crossings"] - a["crossings"] for a, b in both)
    before, after = sums["crossings"]
    programs.reached("crossings, after to before", after / (before or 1), 0.2)
    programs.reached("more crossings in one picture", worst, MOST_MORE)
    programs.reached("edges over nodes that are not theirs", sums["over"][1], 0)
    programs.reached("texts on other texts", sums["texts"][1], 0)
    programs.reached("pictures that are long and narrow", len(slim), 0)


def _slim(row):
    return max(row["width"], row["height"]) / min(row["width"], row["height"])


if __name__ == "__main__":
    main(*sys.argv[1:])
