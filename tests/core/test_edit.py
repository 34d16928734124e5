"""`edit`: the meaning of an edit is the source edited by hand, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from edited_programs import PROGRAMS, loaded

import taxpr


def scaled(x):
    return jax.tree.map(lambda one: one * 0.5, x)


def bent(x):
    return jax.tree.map(lambda one: jnp.where(one > 0.2, one * one, one), x)


def outcome(module, fun):
    """The result and, if it can be had, the gradient by the first argument."""
    out = [jax.jit(fun)(*module.args)]
    try:
        out += [jax.jit(jax.grad(fun))(*module.args)]
    except (ValueError, TypeError) as error:
        if "while_loop" not in str(error) and "differentiat" not in str(error):
            raise
    return jax.tree.map(np.asarray, out)


def same(a, b):
    assert len(a) == len(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("change", [scaled, bent])
@pytest.mark.parametrize("program", PROGRAMS, ids=repr)
def test_an_edit_is_the_source_edited_by_hand(program, change, tmp_path):
    plain = loaded(program.source, tmp_path, f"plain_{program}")
    by_hand = loaded(program.by_hand, tmp_path, f"by_hand_{program}", change)
    before = outcome(plain, plain.f)
    edited = taxpr.edit(plain.f, program.text, change)
    wanted = str(jax.make_jaxpr(by_hand.f)(*by_hand.args))
    assert str(jax.make_jaxpr(edited)(*plain.args)) == wanted
    if "bwd" in program.name:
        assert float(edited(*plain.args)) == float(by_hand.f(*by_hand.args))
    same(outcome(plain, edited), outcome(by_hand, by_hand.f))
    same(outcome(plain, plain.f), before)  # nothing of it stays
