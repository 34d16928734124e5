"""Every line of the cheat sheet runs, on a program with the names that it uses."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import taxpr
import taxpr_jupyter

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cheat-sheet.md"
LOOK, SAY = PAGE.read_text("utf-8").split("## Say where")
ROWS = re.compile(r"^\| (`.*?) \| [^|]*\|$", re.MULTILINE)
CODES = [re.findall(r"`([^`]+)`", row) for row in ROWS.findall(LOOK)]
# Magics run in tests/jupyter/test_verbs.py.
CALLS = [plain for row in CODES if (plain := [code for code in row if code[0] != "%"])]
PLACES = [code for row in ROWS.findall(SAY) for code in re.findall(r"`([^`]+)`", row)]


def attend(q):
    h = jnp.tanh(q)
    size = h * 2.0
    size = size + 1.0
    return size


def f(x):
    def step(c, v):
        c = attend(c + v)
        return c, c

    with jax.named_scope("block_0"), jax.named_scope("wave"):
        y = taxpr.tag(jnp.sin(x), name="block_y")
    return jax.lax.scan(step, jnp.float32(0.0), y)[1].sum()


def total(ctx, token, params):
    return token, ctx + token.sum()


def names():
    line = Path(__file__).name + ":" + str(attend.__code__.co_firstlineno + 1)
    x = jnp.arange(3.0)
    spaces = {"taxpr": taxpr, "taxpr_jupyter": taxpr_jupyter, "jax": jax, "jnp": jnp, "line": line}
    given = {
        "f": f,
        "g": jax.jit(f),
        "x": x,
        "y": 2.0 * x,
        "ctx": jnp.zeros(()),
        "value": jnp.zeros(3),
    }
    return spaces | given | {"metric": lambda out: out, "fun": total}


@pytest.mark.parametrize("codes", CALLS, ids="; ".join)
def test_a_line_runs(codes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = names()
    for code in codes:
        exec(code.replace("*x)", "x)"), space)


@pytest.mark.parametrize("code", PLACES)
def test_a_selector_finds_something(code):
    space = names()
    where = eval(code.replace('"model.py:42"', "line").replace("[3]", "[2]"), space)
    if "each" in code:
        injected = taxpr.inject(f, {where: taxpr.scale(0.5)})
        assert injected(injected.init(space["x"]), space["x"])[0] != f(space["x"])
    else:
        assert taxpr.watch(jax.grad(f) if "cotangent" in code else f, where)(space["x"])


def test_an_answer_has_the_methods_that_the_page_names():
    [sentence] = re.findall(r"^An answer .*$", LOOK, re.MULTILINE)
    names = re.findall(r"`\.(\w+)(?:\(\))?`", sentence)
    assert len(names) > 3
    x = jnp.arange(3.0)
    for answer in (taxpr.flow(f)(x), taxpr.memory(f)(x), taxpr.find_nan(f)(x)):
        assert [name for name in names if not hasattr(answer, name)] == []


def test_the_page_is_read():
    assert len(CALLS) > 20
    assert len(PLACES) > 10
