"""What NumPy makes for `find_nan` is what the program hands out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr._keeping.run import run
from taxpr._keeping.wanted import every_value
from taxpr._questions import remade
from taxpr._questions.find_nan import _BITS


def rolled(x: Any) -> Any:
    shifted = jnp.roll(x, 1, axis=0)
    return jnp.concatenate([shifted, x[::-1].T[:, :4].T, -x[:1, ::2].repeat(2, 1)[:, :3]], axis=0)


def in_scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        swapped = jnp.stack([row, carry])[::-1]
        chosen = jnp.where(row > 0, carry, -row)
        return jnp.tile(swapped.sum(0), 1).reshape(3), (chosen, jnp.broadcast_to(chosen, (2, 3)))

    return jax.lax.scan(step, x[0], x)


def in_while(x: Any) -> Any:
    def step(state: Any) -> Any:
        k, y = state
        flipped = jnp.where(k % 2 == 0, y[::-1], jnp.roll(y, 1, 1))
        return k + 1, jnp.pad(flipped[1:], ((0, 1), (0, 0))) + 0.5

    return jax.lax.while_loop(lambda state: state[0] < 5, step, (0, x))


def in_branch(x: Any) -> Any:
    def branch(y: Any) -> Any:
        return jax.jit(lambda z: jnp.split(z.T, [1, 2], axis=1)[1])(y) * 2

    return jax.lax.map(lambda row: jax.lax.cond(row[0] > 0, branch, lambda y: y.T[:, :1], x), x)


def mapped_while(x: Any) -> Any:
    def one(row: Any) -> Any:
        def step(y: Any) -> Any:
            return jnp.concatenate([y[1:] + 1, y[:1]])

        return jax.lax.while_loop(lambda y: y.sum() < 6, step, row)

    return jax.vmap(one)(x)


def backward(x: Any) -> Any:
    return jax.value_and_grad(lambda y: (rolled(y) ** 2).sum() + in_scan(y)[0].sum())(x)


def narrow(x: Any) -> Any:
    half = x.astype(jnp.bfloat16)
    return jnp.where(half > 0, -half, half.reshape(3, 4).T.reshape(4, 3)), jnp.squeeze(half[None])


PROGRAMS = [rolled, in_scan, in_while, in_branch, mapped_while, backward, narrow]


@pytest.mark.parametrize("fun", PROGRAMS)
def test_what_is_made_is_what_would_be_handed_out(fun: Any) -> None:
    # Exact in any order of computing: the two programs are compiled apart.
    x = (np.arange(12, dtype=np.float32) / 4 - 1).reshape(4, 3)
    x[2, 1] = np.nan
    program = taxpr.trace(fun, names=True)(x)
    flat = program.flat((x,), {})
    wanted = {
        one.value.address: one
        for one in every_value(program)[0]
        if jnp.issubdtype(one.value.aval.dtype, jnp.inexact) or one.value.aval.dtype == bool
    }
    every = list({one.read.address: one.read for one in wanted.values()}.values())
    reference = run(program, flat, every, "auto", None, _BITS).kept

    left = remade.Remade(wanted, set())
    made_without = {one.address for one in every} - {one.address for one in left.handed}
    assert len(made_without) >= 2, "nothing was left to NumPy"
    more: list[Any] = []
    kept = run(program, flat, left.handed, "auto", None, _BITS).kept
    found = left.made(kept, lambda values: more.extend(values) or {})
    assert not more
    assert found.keys() == reference.keys()
    for address, one in reference.items():
        own = found[address]
        assert (own.axes, own.shape, own.dtype) == (one.axes, one.shape, one.dtype), address
        assert (own.fired is None) == (one.fired is None), address
        ran = np.ones(()) > 0 if one.fired is None else one.fired
        assert one.fired is None or np.array_equal(own.fired, one.fired), address
        wide = ran.reshape(ran.shape + (1,) * (np.ndim(one.value) - ran.ndim))
        values = [np.where(wide, np.asarray(k.value, np.float64), 0) for k in (own, one)]
        np.testing.assert_array_equal(*values, err_msg=address)


def test_what_only_statistics_were_kept_of_is_handed_out() -> None:
    x = jnp.linspace(-1, 2, 3 * 4096).reshape(3, 4096)
    fun = lambda y: jnp.log(jnp.roll(y, 1, axis=1)[::-1])
    whole, little = taxpr.find_nan(fun)(x), taxpr.find_nan(fun, memory=5000)(x)
    assert whole.rows[0].what == little.rows[0].what == "NaN"
    assert whole.rows[0].address == little.rows[0].address
