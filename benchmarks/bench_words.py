"""The share of nodes in first pictures whose titles are in the words of the user's source.

    .envs/clients/bin/python benchmarks/bench_words.py [PART OF A NAME ...]

Counted are the nodes that compute: equations, calls, groups. A title is in the user's words if it
begins as a statement, an expression or a loop of the source, or has the name of a function or a
module in it. Inputs and outputs, which always have the names of arguments, are not counted. Prints
a line for each program of the gallery, and writes build/bench_words.json.
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

MOST = 40  # nodes of a first picture
COMPUTING = ("eqn", "hop", "group")
REAL = "Real programs"  # the others are small, and shown equation by equation


def plain(text):
    """A title without spaces and the sign of a derivative, up to where it is cut."""
    return re.sub(r"\s+", "", text).lstrip("∂").partition("…")[0]


class Words:
    """The words of a program's source: texts, and names of functions and modules."""

    def __init__(self, program):
        self.texts: set[str] = set()
        self.names: set[str] = set()
        for _, eqn in taxpr.iter_eqns(program):
            self.names.update(part for name in taxpr.scopes_of(eqn) for part in name.split("/"))
            for one in taxpr.statements_of(eqn):
                self.names.add(one.function.split(".")[-1])
                texts = (one.text, one.expression, *(text for text, _ in one.loops))
                self.texts.update(plain(text) for text in texts if text)

    def has(self, node):
        title = plain(node.lines[0])
        if len(title) > 1 and any(text.startswith(title) for text in self.texts):
            return True
        return not self.names.isdisjoint(re.findall(r"\w+", node.lines[0]))


def main(*parts):
    warnings.simplefilter("ignore")
    rows: dict[str, dict[str, object]] = {}
    found: dict[str, list[tuple[int, int, int]]] = {}
    for part, name, make in gallery.programs():
        if parts and not any(one in name for one in parts):
            continue
        jax.clear_caches()
        try:
            program = make()
        except ImportError as error:
            print(f"{name}: {error}")
            continue
        picture = draw(program).picture
        nodes = [node for node in picture.nodes if node.kind in COMPUTING]
        words = Words(program)
        own = sum(map(words.has, nodes))
        found.setdefault(part, []).append((own, len(nodes), len(picture.nodes)))
        rows[name] = {"own": own, "computing": len(nodes), "nodes": len(picture.nodes)}
        print(f"{name:40} {own:3} of {len(nodes):3} titles, {len(picture.nodes):3} nodes")
    for part, counts in found.items():
        own, computing, nodes = zip(*counts, strict=True)
        print(
            f"{part}: {sum(own)} of {sum(computing)} titles ({sum(own) / sum(computing):.0%}), "
            f"{max(nodes)} nodes at most, {len(counts)} programs"
        )
    most = max(nodes for _, _, nodes in found.get(REAL, [(0, 0, 0)]))
    goal = programs.reached("the first picture of a real program", most, MOST, " nodes")
    programs.write("bench_words", {"rows": rows, "goals": [goal]})


if __name__ == "__main__":
    main(*sys.argv[1:])
