"""Over which mesh axes results differ: what taxpr finds, and what a run shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices.by_hand import mesh
from jax import lax
from jax.sharding import PartitionSpec as P

from taxpr import tag
from taxpr._hops.varying import varying_axes

X = np.arange(8, dtype=np.float32)
ONE = np.float32(1)

# ``(x, one) -> results``, where x differs along i and j and one is the same on all devices.


def arithmetic(x, one):
    return x, one, x + one, one * 2, lax.axis_index("j"), jnp.zeros_like(x)


def collectives(x, one):
    both = lax.pmean((x, one), "i")
    part = lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)])
    return lax.psum(x, ("i", "j")), lax.pmax(x, "j"), *both, part, lax.psum(one, "j")


def tokens(x, one):
    a, b = tag((x, one), name="both")
    c, d = lax.optimization_barrier((one, x))
    return a, b, c, d


def handed_on(x, one):
    """What differs reaches the last of the carry after two iterations."""

    def step(carry, y):
        a, b, c, n = carry
        return (a + x, a, b, n + 1), (n, c, y)

    carry, ys = lax.scan(step, (one, one, one, one), jnp.arange(4.0))
    return (*carry, *ys)


def left_early(x, one):
    go_on = lambda c: c[0] < 3
    first = lax.while_loop(go_on, lambda c: (c[0] + 1, c[1] + 1, c[2]), (x, one, one))
    go_on = lambda c: c[1] < 3
    second = lax.while_loop(go_on, lambda c: (c[0] + 1, c[1] + 1, c[2]), (x, one, one))
    return (*first[:2], *second)


def until_all(x, one):
    go_on = lambda c: lax.pmax(c[0], ("i", "j")) < 9
    return lax.while_loop(go_on, lambda c: (c[0] + 1, c[1] + 1), (x, one))


def branches(x, one):
    by_x = lax.cond(x > 4, lambda: (1, one), lambda: (2, one + 1))
    by_one = lax.cond(one > 0, lambda x: (one * 2, x), lambda x: (one, x), x)
    return (*by_x, *by_one)


def calls(x, one):
    inner = jax.jit(lambda x, n: (x, n + 1, lax.psum(x, ("i", "j"))))
    return (*inner(x, one), *jax.checkpoint(lambda x, n: (x * n, n * 2))(x, one))


EXPECTED = {
    arithmetic: ["ij", "", "ij", "", "j", ""],
    collectives: ["", "i", "j", "", "ij", ""],
    tokens: ["ij", "", "", "ij"],
    handed_on: ["ij", "ij", "ij", "", "", "ij", ""],
    left_early: ["ij", "ij", "ij", "", ""],
    until_all: ["ij", ""],
    branches: ["ij", "ij", "", "ij"],
    calls: ["ij", "", "", "ij", ""],
}


# With its checks on JAX wants the carry of a loop to differ from the start, and counts some
# more values as different, such as zeros_like of something that does.
AS_TYPED = (collectives, left_early, until_all, calls)


@pytest.mark.parametrize(
    ("fn", "check_vma"),
    [(fn, False) for fn in EXPECTED] + [(fn, True) for fn in AS_TYPED],
    ids=lambda value: getattr(value, "__name__", "checked" if value is True else "unchecked"),
)
def test_what_is_found_is_what_a_run_shows(fn, check_vma):
    over, found = mesh("4x2"), []

    def body(x, one):
        x = x[0]
        traced = jax.make_jaxpr(fn)(x, one)
        found[:] = varying_axes(traced, [frozenset("ij"), frozenset()])
        return [jnp.asarray(out)[None, None] for out in fn(x, one)]

    f = jax.shard_map(
        body, mesh=over, in_specs=(P(("i", "j")), P()), out_specs=P("i", "j"), check_vma=check_vma
    )
    outs = jax.jit(f)(X, ONE)
    assert ["".join(sorted(axes)) for axes in found] == EXPECTED[fn]
    for out, expected in zip(outs, EXPECTED[fn], strict=True):
        for axis, name in enumerate("ij"):
            differs = bool((np.asarray(out) != np.asarray(out).take([0], axis)).any())
            assert differs == (name in expected)
