"""The rule of a call in a shard_map is compared alone: wrong ones are named, right ones are not."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices.by_hand import mesh
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr

X = np.linspace(0.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
W = np.float32([[0.5, 1.5, -1.0, 2.0]])


def with_vjp(f, forward, backward):
    made = jax.custom_vjp(f)
    made.defvjp(forward, backward)
    return made


def with_jvp(f, rule):
    made = jax.custom_jvp(f)
    made.defjvp(rule)
    return made


def times(factor):
    """The weights are the same on all devices, so their gradient is a sum over these."""

    def backward(kept, g):
        x, w = kept
        return g * w, factor * lax.psum((g * x).sum(0, keepdims=True), "i")

    return with_vjp(lambda x, w: x * w, lambda x, w: (x * w, (x, w)), backward)


def centred(back):
    """A collective in the function itself."""

    def around(x, w):
        return x - lax.pmean(x, "i") + 0 * w

    def backward(_, g):
        return back(g), lax.psum(0 * g.sum(0, keepdims=True), "i")

    return with_vjp(around, lambda x, w: (around(x, w), None), backward)


def by_share(factor):
    """A function that knows how many devices there are, and which one it runs on."""

    def number(x):
        return (1 + lax.axis_index("i")).astype(x.dtype)

    def share(x, w):
        return x * x * w / lax.psum(1, "i") * number(x)

    def rule(primals, tangents):
        (x, w), (dx, dw) = primals, tangents
        moved = (factor * x * w * dx + x * x * dw) / lax.psum(1, "i")
        return share(x, w), moved * number(x)

    return with_jvp(share, rule)


# The right and the wrong one; the function that is the wrong one's rule, its operand, and the hint.
RULES = {
    "a sum of the weights": (times(1), times(2), "backward", "w", "is 2 times what it should be"),
    "a collective": (
        centred(lambda g: g - lax.pmean(g, "i")), centred(lambda g: g),
        "backward", "x", None,
    ),
    "forward mode": (by_share(2), by_share(3), "rule", "x", "is 1.5 times what it should be"),
}  # fmt: skip


def in_a_call(layer, x, w):
    h = layer(x, w)
    return h


def in_a_loop(layer, x, w):
    def step(x, _):
        h = layer(x, w)
        return h, None

    return lax.scan(step, x, None, length=2)[0]


def loss_of(body, layer, kind):
    """The loss, its arguments, and the mesh that is set."""
    over = mesh("4x2", AxisType.Explicit if kind == "explicit" else AxisType.Auto)
    run = functools.partial(body, layer)
    if kind == "nested":
        inner = jax.shard_map(run, in_specs=(P("i"), P()), out_specs=P("i"), axis_names={"i"})
        spread = jax.shard_map(
            inner,
            mesh=over,
            in_specs=(P(None, "j"), P(None, "j")),
            out_specs=P(None, "j"),
            axis_names={"j"},
        )
    else:
        more = {"partial": {"axis_names": {"i"}}, "unchecked": {"check_vma": False}}.get(kind, {})
        spread = jax.shard_map(run, mesh=over, in_specs=(P("i"), P()), out_specs=P("i"), **more)
    around, x = contextlib.nullcontext(), X
    if kind == "explicit":
        around, x = jax.set_mesh(over), jax.device_put(X, NamedSharding(over, P("i")))
    return lambda x, w: (spread(x, w) * jnp.cos(x)).sum(), (x, W), around


WAYS = [
    *((in_a_call, kind) for kind in ("whole", "explicit", "partial", "nested", "unchecked")),
    *((in_a_loop, kind) for kind in ("whole", "explicit")),
]
# Unchecked, JAX itself sums gradients of the weights; and 0.7 finds no device's number in nested
# ones.
NOT = ("a sum of the weights", "unchecked"), ("forward mode", "nested")
CASES = [(name, *way) for name in RULES for way in WAYS if (name, way[1]) not in NOT]


@pytest.mark.spread(6)
@pytest.mark.parametrize(("name", "body", "kind"), CASES)
def test_a_rule_in_a_shard_map_is_compared_alone(name, body, kind):
    right, wrong, rule, operand, hint = RULES[name]
    loss, args, around = loss_of(body, right, kind)
    with around:
        found = taxpr.check_grad(loss)(*args)
    assert (found.rows, found.notes, found.agrees) == ([], (), True)
    loss, args, around = loss_of(body, wrong, kind)
    with around:
        found = taxpr.check_grad(loss)(*args)
    assert found.agrees is False
    row = found.rows[0]
    assert (row.rule, row.operand, row.variable) == (rule, operand, "h")
    assert row.rule_line.startswith("test_check_grad.py:")
    assert {one.operand for one in found.rows} == {operand}
    assert hint in (None, row.hint)
