"""A closed part tells the numbers that its statements name, if its module is sure of them."""

import importlib
import sys

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter._closed.listed import StatementWords, lines_of
from taxpr_jupyter._closed.statements_inside import statements_inside

SOURCE = """
import jax
import jax.numpy as jnp

CLIP, RATE, NAMES = 0.2, 1e-3, ("a", "b")
SIZE = (3, 4)
AGAIN = 1.0
AGAIN = 2.0
COMPUTED = 2.0 * CLIP
SHARED = 5.0
LOCAL = 7.0
UNUSED = 11.0
CHANGED = 13.0
COUNTED = 0


def count():
    global COUNTED
    COUNTED = 1


def other(SHARED):
    return SHARED


def step(x):
    LOCAL = x.mean()
    y = jnp.clip(x, 1 - CLIP, 1 + CLIP) * RATE * AGAIN * SHARED
    z = jnp.reshape(y, SIZE) + COMPUTED * LOCAL - CHANGED + COUNTED
    return z.sum() * y


def whole(x):
    return jax.jit(step)(x)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "numbers_of_a_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("numbers_of_a_module")
    del sys.modules["numbers_of_a_module"]


def told(module):
    [call] = taxpr.trace(module.whole)(jnp.ones(12)).eqns
    lines = lines_of(statements_inside(call), 36, equations=20)
    last = next(k for k, line in enumerate(lines) if line.startswith("return "))
    return ", ".join(line.rstrip(",") for line in lines[last + 1 :])


def test_only_numbers_that_are_bound_once_are_told(module):
    assert told(module) == "CLIP = 0.2, RATE = 1e-3, CHANGED = 13.0"


def test_a_number_that_the_module_has_no_longer_is_not(module):
    module.CHANGED = 14.0
    module.RATE = jnp.float32(1e-3)
    assert told(module) == "CLIP = 0.2"


def test_a_number_that_the_program_was_not_traced_with_is_not(module):
    """JAX keeps a trace when the module changes: the text is then of another number."""
    module.CLIP = 0.5
    [call] = taxpr.trace(module.whole)(jnp.ones(12)).eqns
    module.CLIP = 0.2
    [said] = [one for one in statements_inside(call) if "CLIP" in one.source]
    assert said.numbers == ("RATE = 1e-3",)


@pytest.mark.parametrize(
    "text",
    [
        "x * C + 0.25",  # the same number in another operator
        "jnp.clip(x, C, 0.25)",  # and in the same call
        "jnp.clip(x, C, C * 0 + 0.25)",
        "x ** C",  # whose derivative has others
        "jnp.cumsum(x, N) * 2.0",
        "jnp.pad(x, N) + 1.0",
        "helper(x, C)",
        "jnp.where(jnp.isclose(x, y, C), x, y)",  # which has a number of its own, 1e-8
        "(lambda x, C: x * C)(x, 0.25)",
    ],
)
@pytest.mark.parametrize("around", ["run", "jax.grad(lambda x: run(x).sum())"])
def test_an_equal_number_elsewhere_in_the_statement_is_not_it(text, around, tmp_path, monkeypatch):
    """The module's number was another one when the program was traced."""
    numbers = "C, N = 1e-8, 2" if "isclose" in text else "C, N = 0.25, 2"
    source = f"""
import jax
import jax.numpy as jnp

{numbers}


def helper(x, rate):
    return x * 0.25 if rate > 0.3 else x


@jax.jit
def run(x):
    y = jnp.sin(x)
    z = {text}
    return z * y
"""
    (tmp_path / "old_numbers.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("old_numbers")
    try:
        before, module.C, module.N = (module.C, module.N), 1.25, 0
        x = jnp.ones((2, 2))
        program = taxpr.trace(eval(around, {"jax": jax, "run": module.run}))(x)
        module.C, module.N = before
        assert not [one.numbers for one in _statements(program) if one.numbers]
    finally:
        del sys.modules["old_numbers"]


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a module of `numbers`, with a function that computes `z` by a text."""

    def make(numbers, text):
        source = f"""
import jax
import jax.numpy as jnp

{numbers}


@jax.jit
def run(x):
    y = jnp.sin(x)
    z = {text}
    return z * y
"""
        (tmp_path / "made_numbers.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module("made_numbers")

    yield make
    sys.modules.pop("made_numbers", None)


SWAPPED = 0.75, 0.25


@pytest.mark.parametrize(
    ("text", "told", "others"),
    [
        ("jnp.clip(y, LOW, HIGH)", ("LOW = 0.25", "HIGH = 0.75"), SWAPPED),
        ("jnp.clip(y, 1 - LOW, 1 + LOW)", ("LOW = 0.25",), (-0.25, 0.75)),
        ("jnp.clip(y, -HIGH, HIGH)", ("HIGH = 0.75",), (0.25, -0.75)),
        ("jnp.clip(y, max=HIGH, min=LOW)", (), SWAPPED),  # JAX hands keywords on in its own order
        ("jnp.where(y > 0, LOW, HIGH)", (), SWAPPED),
        ("jax.lax.select(y[0] > 0, LOW, HIGH)", (), SWAPPED),  # JAX has them the other way round
    ],
)
def test_two_operands_are_told_only_if_they_cannot_be_exchanged(text, told, others, made):
    module = made("LOW, HIGH = 0.25, 0.75", text)
    program = taxpr.trace(module.run)(jnp.ones(3))
    assert [one.numbers for one in _statements(program) if one.numbers] == [told] * bool(told)
    jax.clear_caches()
    module.LOW, module.HIGH = others
    program = taxpr.trace(module.run)(jnp.ones(3))
    module.LOW, module.HIGH = 0.25, 0.75
    assert not [one.numbers for one in _statements(program) if one.numbers]


@pytest.mark.parametrize("text", ["jnp.minimum(y, 1 - EPS)", "y * (1 + EPS)", "y * EPS"])
def test_a_number_that_its_literal_does_not_keep_is_not_told(text, made):
    """`1 - 1e-9` is 1 in float32, as is `1 - 4e-9`."""
    module = made("EPS = 1e-9", text)
    found = [one.numbers for one in _statements(taxpr.trace(module.run)(jnp.ones(3)))]
    assert found == [(), ("EPS = 1e-9",) if text == "y * EPS" else (), ()]


def _statements(program):
    every = [one for eqn in program.eqns for one in statements_inside(eqn)]
    assert any(one.targets == ("z",) for one in every)
    return every


def test_two_numbers_by_one_name_are_not():
    said = [
        StatementWords((), source=f"return {k}", result=True, numbers=(f"RATE = {k}", "CLIP = 0.2"))
        for k in range(2)
    ]
    assert [*lines_of(said, 36)][-1] == "CLIP = 0.2"


def test_a_name_of_another_object_is_none(module):
    def lone(x):
        return jnp.sin(x) * module.CLIP + jnp.cos(x)

    [call] = taxpr.trace(jax.jit(lone))(jnp.ones(3)).eqns
    assert [one.numbers for one in statements_inside(call)] == [()]
