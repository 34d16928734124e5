"""Constants in pictures: those of one object share a node, as do those without a name."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import compare, draw

X = jnp.ones(3)
SYSTEM = types.SimpleNamespace(
    link=types.SimpleNamespace(**{f"k{i}": jnp.full(3, i + 1.0) for i in range(12)}),
    rate=jnp.full(3, 0.5),
)


def step(x):
    # Turn by turn, as JAX finds constants in the order of their uses.
    for i in range(12):
        x = x * getattr(SYSTEM.link, f"k{i}") + np.full(3, 1.0 + i, np.float32)
    return x * SYSTEM.rate


def consts(drawing):
    return [node for node in drawing.picture.nodes if node.kind == "const"]


def test_the_constants_of_an_object_are_one_node_and_the_nameless_another():
    drawing = draw(step, X)
    assert sorted(node.lines for node in consts(drawing)) == [
        ("SYSTEM", "13 arrays", "link, rate"),
        ("constants", "12 arrays"),
    ]
    # Each constant stands for itself in one of them.
    hidden = [one for node in consts(drawing) for one in drawing.picture.hidden[node.address]]
    assert sorted(hidden) == sorted(f"const{k}" for k in range(25))
    program = drawing.program
    of_system = drawing.picture.hidden[consts(drawing)[0].address]
    names = [program.const_name(program.consts[int(one.removeprefix("const"))]) for one in hidden]
    assert {name.startswith("SYSTEM") for name in names[: len(of_system)]} == {True}


def test_they_unfold_to_the_parts_and_each_is_found():
    drawing = draw(step, X)
    system, others = consts(drawing)
    opened = drawing.unfold(system.address, others.address)
    lines = [node.lines[0] for node in consts(opened)]
    assert "const SYSTEM.rate f32[3]" in lines
    assert "SYSTEM.link" in lines
    assert lines.count("const f32[3]") == 12
    everything = opened.unfold(*[node.fold for node in consts(opened) if node.fold])
    lines = [node.lines[0] for node in consts(everything)]
    assert [f"const SYSTEM.link.k{i} f32[3]" for i in range(12)] == [
        line for line in lines if "link" in line
    ]
    # An edge leads from each to the equation that takes it.
    used = {edge.source for edge in everything.picture.edges}
    assert {node.id for node in consts(everything)} <= used


def test_text_and_difference_have_them_too():
    def other(x):
        return step(x) * 2

    text = draw(step, X).text()
    assert "const SYSTEM.link.k11" in text  # the text has each
    found = compare(step, other, X)
    assert "SYSTEM" in found.svg()


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_in_a_loop(loop):
    def run(x):
        if loop == "scan":
            return jax.lax.scan(lambda x, _: (step(x), None), x, None, length=3)[0]
        return jax.lax.while_loop(lambda x: x.sum() < 1e3, step, x)

    drawing = draw(run, X)
    inside = [
        node.lines
        for node in drawing.picture.nodes
        if node.kind == "input" and node.lines[0].startswith(("const", "body const"))
    ]
    assert [lines[-1] for lines in inside if "SYSTEM" in lines[0]] in (
        ["12 arrays", "const SYSTEM.rate f32[3]"],
        ["13 arrays"],
    )
    assert len(drawing.picture.nodes) < 30


def test_a_program_of_few_constants_has_each():
    few = types.SimpleNamespace(a=jnp.ones(3) * 2, b=jnp.ones(3) * 3)
    drawing = draw(lambda x: x * few.a + few.b, X)
    assert sorted(node.lines[0] for node in consts(drawing)) == [
        "const few.a f32[3]",
        "const few.b f32[3]",
    ]


def test_questions_say_the_name():
    def kept(x):
        return (x * SYSTEM.rate / 0.0).sum()

    assert taxpr.trace(kept)(X).const_name(SYSTEM.rate) == "SYSTEM.rate"


MASKS = (jnp.arange(3)[None] + jnp.arange(2)[:, None]) % 2 == 0
TIMES = jnp.array([0.1, 0.25, 4.0])
RATES = jnp.full(5, 0.5)
LARGE = jnp.arange(30.0)
CLOSE = jnp.array([100000.0, 100001.0])
UNKNOWN = jnp.full(4, jnp.nan)


def test_small_arrays_say_their_values():
    def scaled(x):
        shown = jnp.where(MASKS, x * TIMES, 0.0).sum()
        return shown * RATES.sum() + LARGE.mean() + CLOSE.sum() + UNKNOWN.sum()

    lines = {node.lines[0]: node.lines[1:] for node in consts(draw(scaled, X))}
    assert lines == {
        "const MASKS bool[2,3]": ("T, F, T", "F, T, F"),
        "const TIMES f32[3]": ("0.1, 0.25, 4",),
        "const RATES f32[5]": ("all 0.5",),
        "const LARGE f32[30]": (),
        "const CLOSE f32[2]": ("all ≈ 1e+05",),  # they differ in the digits that are not told
        "const UNKNOWN f32[4]": ("all nan",),
    }
