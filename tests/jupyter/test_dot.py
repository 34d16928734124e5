"""Pictures as data, and as DOT text: right for Graphviz, and always the same."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys

import jax
import pytest
from drawn_hops import FLAGGED, HOPS, MADE_UP, SHARED
from drawn_programs import HOSTILE, PROGRAMS
from picture_text import picture_text

import taxpr
from taxpr import _compat
from taxpr._errors import name_of
from taxpr._hops.table import registered
from taxpr_jupyter._drawing.build import build_picture
from taxpr_jupyter._layout.dot import plain, quoted, to_dot
from taxpr_jupyter._model.model import Counts, Marked, Node, Picture

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"

GOLDEN_PROGRAMS = (
    "a_branch_without_anything",
    "deep",
    "flat",
    "flat_literal",
    "long_and_flat",
    "many_inputs",
    "operand_order",
    "states",
    "switch",
)
# And for each higher-order primitive one, by the name of its file. A program that this JAX does
# not have is not there.
SHARED_HOPS = {name: PROGRAMS[name] for name in SHARED.values() if name in PROGRAMS}
GOLDENS = (
    {name: PROGRAMS[name] for name in GOLDEN_PROGRAMS}
    | SHARED_HOPS
    | {f"hop_{name}": make for name, make in HOPS.items()}
)
DRAWN = ("switch", "states")  # whose DOT text is kept, too: all versions of JAX have the same
OPEN = 60  # equations; programs no larger than this are drawn with all of them open
# Higher-order primitives without a golden file, and why.
WITHOUT = {
    "eval_jaxpr": "up to 0.11 JAX inlines it while it traces",
    "compute_on": "0.8 cannot run it on a CPU",
    "failed": "test_until_error.py draws it",
    "unfinished": "test_until_error.py draws it",
}


def picture_of(*nodes):
    return Picture("p", nodes, (), (), Counts(0, {}, 0, 0), frozenset(), frozenset())


def golden_file(name):
    """The file of a program for this JAX: the last one that is not newer.

    A jaxpr that is the same in all supported versions has one file. Where it is not, JAX itself has
    changed it, and what is drawn must change: `NAME@0.10.txt` is for jax 0.10 and newer.
    """
    found = {(0, 0): GOLDEN / f"{name}.txt"}
    for file in GOLDEN.glob(f"{name}@*.txt"):
        since = tuple(map(int, file.stem.rpartition("@")[2].split(".")))
        found[since] = file
    return found[max(since for since in found if since <= VERSION)]


VERSION = tuple(map(int, jax.__version__.split(".")[:2]))


def golden_picture(name):
    program = GOLDENS[name]()
    picture = build_picture(program, where=lambda source: "here")
    while picture.counts.total <= OPEN and picture.unfolded != picture.foldable:
        picture = build_picture(program, picture.foldable, where=lambda source: "here")
    return picture


def golden_text(name):
    # JAX keeps some nested jaxprs, with the place where they were made first: maybe another test.
    return picture_text(golden_picture(name)).replace(" | here", "")


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name):
    """After a change that is meant, with the oldest JAX first: `TAXPR_GOLDEN=write pytest ...`."""
    text = golden_text(name)
    file = golden_file(name)
    if os.environ.get("TAXPR_GOLDEN") == "write" and not (
        file.exists() and file.read_text(encoding="utf-8") == text
    ):
        since = "" if VERSION == (0, 7) else f"@{VERSION[0]}.{VERSION[1]}"
        file = GOLDEN / f"{name}{since}.txt"
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DRAWN)
def test_golden_of_the_looks(name):
    """How kinds of nodes, clusters and lines look in DOT; what they are, the other files have."""
    dot, file = to_dot(golden_picture(name)).replace(r"\nhere", ""), GOLDEN / f"{name}.dot"
    if os.environ.get("TAXPR_GOLDEN") == "write":
        file.write_text(dot, encoding="utf-8")
    assert dot == file.read_text(encoding="utf-8")


def test_every_golden_file_has_its_program():
    # Programs of other versions of JAX have theirs, too: by primitives that this one lacks.
    hops = {f"hop_{name}" for name in (*HOPS, *MADE_UP, *FLAGGED)}
    known = {*GOLDEN_PROGRAMS, *SHARED.values(), *hops}
    assert {file.stem.partition("@")[0] for file in GOLDEN.glob("*")} <= known


def test_every_higher_order_primitive_has_a_golden_file_or_a_reason():
    seen = set()
    for name in GOLDENS.keys() - set(GOLDEN_PROGRAMS):
        program = GOLDENS[name]()
        seen |= {name_of(_compat.kind_of(eqn)) for _, eqn in taxpr.iter_eqns(program.jaxpr)}
    missing = {name_of(kind) for kind in registered()} - seen
    assert missing <= WITHOUT.keys()


HASHES = """
import hashlib, sys
from drawn_programs import PROGRAMS
from taxpr_jupyter._drawing.build import build_picture
from taxpr_jupyter._layout.dot import to_dot
for name, make in PROGRAMS.items():
    print(name, hashlib.sha256(to_dot(build_picture(make())).encode()).hexdigest())
"""


@pytest.mark.slow
def test_the_text_is_the_same_in_another_process():
    tests = pathlib.Path(__file__).parent.parent
    path = os.pathsep.join([str(tests), str(tests.parent)])
    # The settings of conftest.py change jaxprs.
    code = f"import conftest\n{HASHES}"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=200
    )
    assert run.returncode == 0, run.stderr
    elsewhere = dict(line.rsplit(" ", 1) for line in run.stdout.splitlines())
    for name, make in PROGRAMS.items():
        dot = to_dot(build_picture(make()))
        assert elsewhere[name] == hashlib.sha256(dot.encode()).hexdigest(), name


def test_same_text_for_the_same_program():
    first, second = (to_dot(build_picture(PROGRAMS["deep"]())) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", PROGRAMS)
def test_labels_are_never_html_like(name):
    dot = to_dot(build_picture(PROGRAMS[name]()))
    assert "=<" not in dot.replace("=<lambda>", "")


def test_ids_and_classes_are_in_the_text():
    dot = to_dot(build_picture(PROGRAMS["scan_plain"](), marked=Marked({"0:scan/body/t0"})))
    assert '"0:scan/body/t0" [id="0:scan/body/t0" class="injected"' in dot
    assert 'subgraph "cluster_0:scan/body" {' in dot
    assert 'graph [id="0:scan/body" class="jaxpr" margin="6" label="scan body ×3 · step"' in dot
    assert 'class="back" style="dashed" constraint="false"' in dot


def test_a_picture_of_many_nodes_has_room_for_wide_text():
    wide, narrow = (
        to_dot(picture_of(Node("a", "a", "eqn", (text,), ""))) for text in ("漢字漢字", "abcd")
    )
    assert 'width="0.84"' in wide
    assert 'width="0.50"' in narrow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ('a "b"', r'"a \"b\""'),
        ("back\\", r'"back\\"'),
        ("\\N \\l", r'"\\N \\l"'),
        ("<b>&</b>", '"<b>&</b>"'),
        ("&lt; &#65;", '"&\u200blt; &\u200b#65;"'),
        ("\x00\ud800", '"\ufffd\ufffd"'),
    ],
)
def test_quoting(text, expected):
    assert quoted(text) == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_a_name_holds_dot_text_can_be_encoded(text):
    node = Node("n", "n", "tag", (text or " ",), text)
    to_dot(picture_of(node)).encode()
    plain(text).encode()


def test_the_graphviz_package_can_take_it():
    graphviz = pytest.importorskip("graphviz")
    dot = to_dot(build_picture(taxpr.trace(lambda x: x + 1)(1.0)))
    assert graphviz.Source(dot).source.startswith("digraph")


def test_heat_changes_colours_and_nothing_else():
    program = PROGRAMS["scan_plain"]()
    cold, hot = (to_dot(build_picture(program, heat=heat)) for heat in (None, "flops"))
    assert cold != hot
    look = re.compile(r' heat-\d|fillcolor="[^"]*"')
    assert look.sub("", cold) == look.sub("", hot)
    assert 'class="eqn heat-6"' in hot
