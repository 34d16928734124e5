"""Pictures as DOT text: right for Graphviz, and always the same."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys

import pytest
from drawn_programs import HOSTILE, PROGRAMS

import taxpr
from taxpr_jupyter._picture._build import build_picture
from taxpr_jupyter._picture._dot import plain, quoted, to_dot
from taxpr_jupyter._picture._model import Counts, Node, Picture

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"

# Programs whose jaxpr is the same in all supported versions of JAX and Python.
GOLDEN_PROGRAMS = (
    "a_branch_without_anything",
    "cond_true",
    "custom_jvp",
    "deep",
    "flat",
    "flat_literal",
    "jit_twice",
    "linear_solve",
    "long_and_flat",
    "many_inputs",
    "operand_order",
    "remat",
    "scan_reverse",
    "switch",
    "while_body",
)


def picture_of(*nodes):
    return Picture("p", nodes, (), (), Counts(0, {}, 0, 0), frozenset(), frozenset())


@pytest.mark.parametrize("name", GOLDEN_PROGRAMS)
def test_golden(name):
    """After a change that is meant: `TAXPR_GOLDEN=write pytest tests/jupyter/test_dot.py`."""
    dot = to_dot(build_picture(PROGRAMS[name](), where=lambda source: "here"))
    file = GOLDEN / f"{name}.dot"
    if os.environ.get("TAXPR_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(dot, encoding="utf-8")
    assert dot == file.read_text(encoding="utf-8")


def test_every_golden_file_has_its_program():
    assert {file.stem for file in GOLDEN.glob("*")} == set(GOLDEN_PROGRAMS)


HASHES = """
import hashlib, sys
from drawn_programs import PROGRAMS
from taxpr_jupyter._picture._build import build_picture
from taxpr_jupyter._picture._dot import to_dot
for name, make in PROGRAMS.items():
    print(name, hashlib.sha256(to_dot(build_picture(make())).encode()).hexdigest())
"""


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
    dot = to_dot(build_picture(PROGRAMS["scan_plain"](), injected={"0:scan/body/t0"}))
    assert '"0:scan/body/t0" [id="0:scan/body/t0" class="injected"' in dot
    assert 'subgraph "cluster_0:scan/body" {' in dot
    assert 'graph [id="0:scan/body" class="jaxpr" label="scan body ×3"' in dot
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
