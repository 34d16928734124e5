"""First pictures: their sizes, and the share of nodes whose titles are in the user's words.

    .envs/clients/bin/python benchmarks/bench_words.py [PART OF A NAME ...]

Counted are the nodes that compute: equations, calls, groups. A title is in the user's words if it
begins as a statement, an expression or a loop of the source, or has the name of a function or a
module in it; in a program of a library, also of the library's, or its own name. Inputs and outputs,
which always have the names of arguments, are not counted. "hidden" are the user's functions that a
program calls and its picture does not name. Prints a line for each program of the gallery, and
writes build/bench_words.json. The environment `sciences` has the programs of libraries.
"""

import importlib
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import programs

import taxpr
from taxpr_jupyter import draw

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
gallery: Any = importlib.import_module("gallery")
called: Any = importlib.import_module("called_functions")  # gallery knows where tests are

MOST = 40  # nodes of a first picture that compute
WIDEST = 4000  # pixels
LONGEST = 3  # times as long as wide, or as wide as long
COMPUTING = ("eqn", "hop", "group")  # tags are small signs at others
REAL = "Real programs"  # the others are small, and shown equation by equation


def plain(text):
    """A title without spaces, signs as `∂` and `[kept]`, up to where it is cut."""
    text = re.sub(r"( \[[a-z ]+\])+$", "", text)
    return re.sub(r"\s+", "", text).lstrip("∂").partition("…")[0]


class Words:
    """The words of a program's source: texts, and names of functions and modules.

    With ``libraries`` also those of the functions of installed libraries, and of these themselves.
    """

    def __init__(self, program, libraries=False):
        self.texts: set[str] = set()
        self.names: set[str] = set()
        for _, eqn in taxpr.iter_eqns(program):
            self.names.update(part for name in taxpr.scopes_of(eqn) for part in name.split("/"))
            for one in taxpr.statements_of(eqn, libraries):
                self.names.add(one.function.split(".")[-1])
                self.names.update(re.findall(r"(?:site|dist)-packages/(\w+)", one.file))
                texts = (one.text, one.expression, *(text for text, _ in one.loops))
                self.texts.update(plain(text) for text in texts if text)

    def has(self, node):
        title = plain(node.lines[0])
        if len(title) > 1 and any(text.startswith(title) for text in self.texts):
            return True
        return not self.names.isdisjoint(re.findall(r"\w+", node.lines[0]))


def main(*parts):
    warnings.simplefilter("ignore")
    rows: dict[str, dict[str, Any]] = {}
    found: dict[str, list[dict[str, Any]]] = {}
    for part, name, make in gallery.programs():
        if parts and not any(one in name for one in parts):
            continue
        jax.clear_caches()
        try:
            program = make()
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        drawing = draw(program)
        picture, quality = drawing.picture, gallery.quality_of(drawing.svg())
        nodes = [node for node in picture.nodes if node.kind in COMPUTING]
        words = Words(program, libraries=part == gallery.LIBRARIES)
        row = {
            "own": sum(map(words.has, nodes)),
            "computing": len(nodes),
            "nodes": len(picture.nodes),
            "width": round(quality.width),
            "height": round(quality.height),
            "longer": round(quality.aspect, 2),
            "functions": list(called.called_functions(program)),
            "hidden": called.hidden_functions(program, picture),
        }
        rows[name] = row
        found.setdefault(part, []).append(row)
        hidden = f", hidden: {', '.join(row['hidden'])}" if row["hidden"] else ""
        print(
            f"{name:40} {row['own']:3} of {len(nodes):3} titles, {len(picture.nodes):3} nodes, "
            f"{row['width']:5} x {row['height']:5}, {row['longer']:.1f} : 1, "
            f"{len(row['functions'])} functions{hidden}",
            flush=True,
        )
    goals: list[dict[str, Any]] = []
    for part, drawn in found.items():
        own, computing = (sum(row[key] for row in drawn) for key in ("own", "computing"))
        most = max(row["computing"] for row in drawn)
        print(
            f"{part}: {own} of {computing} titles ({own / computing:.0%}), "
            f"{most} nodes at most, {len(drawn)} programs"
        )
        if part in (REAL, gallery.LIBRARIES):
            goals.append(programs.reached(f"{part}: the first picture", most, MOST, " nodes"))
        if part == gallery.LIBRARIES:
            for what, key, goal in (("width", "width", WIDEST), ("shape", "longer", LONGEST)):
                goals.append(programs.reached(what, max(row[key] for row in drawn), goal))
            hidden = sum(len(row["hidden"]) for row in drawn)
            goals.append(programs.reached("hidden functions", hidden, 0))
    programs.write("bench_words", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main(*sys.argv[1:])
