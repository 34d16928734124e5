"""Loops and branches with a collective: all devices must go the same way, or the program hangs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from devices.by_hand import mesh
from jax import lax
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

X = np.arange(8, dtype=np.float32)


def loop(x):
    def step(c):
        n, y = c
        return tag(n, name="n") + 1, tag(y, name="y") + lax.psum(y, "i") * 0.25

    return lax.while_loop(lambda c: c[0] < 3, step, (jnp.int32(0), x))[1]


def branch(x):
    go = tag(jnp.int32(1), name="n")
    return lax.switch(go, [jnp.sin, jax.jit(lambda y: lax.pmax(tag(y, name="y"), "i") + y)], x)


def in_a_scan(x):
    return lax.scan(lambda c, _: (loop(c), None), x, None, length=2)[0]


def in_a_solve(x):
    half = lambda matvec, b: loop(b) * 0.0 + b / 2.0
    return lax.custom_linear_solve(lambda y: 2.0 * y, x, half, symmetric=True)


def already_apart(x):
    """What it depends on differs as far as can be seen; in fact it is the same everywhere."""

    def step(c):
        n, y = c
        return tag(n, name="n") + 1.0, tag(y, name="y") + lax.psum(y, "i") * 0.25

    return lax.while_loop(lambda c: c[0] < 3.0, step, (x * 0.0, x))[1]


def sharded(body, over="8", check_vma=False):
    spec = P("i") if over == "8" else P(("i", "j"))
    run = lambda x: body(x[0])[None]
    return jax.shard_map(run, mesh=mesh(over), in_specs=spec, out_specs=spec, check_vma=check_vma)


def by_device(ctx, token, params):
    return token + lax.axis_index("i").astype(token.dtype) % 2, ctx


def through_ctx(ctx, token, params):
    """What differs reaches the predicate by way of the context."""
    if params["name"] == "y":
        return token, token
    return token + ctx.astype(token.dtype), ctx


@pytest.mark.parametrize("body", [loop, branch, in_a_scan, in_a_solve])
def test_a_way_that_would_differ_is_refused(body):
    program = taxpr.trace(sharded(body))(X)
    kind = "cond" if body is branch else "while"
    line = r"\(\S+\.py:\d+ in \S+"
    message = (
        rf"the injector at tag 'n' {line}, at 0:shard_map/body/\S+\) the devices along i may no "
        rf"longer go the same way through the {kind} {line}\) in shard_map .*, at "
        r"0:shard_map\). A collective in it waits for all devices: the program would hang. Make "
        "what it depends on the same on all devices"
    )
    with pytest.raises(taxpr.RefusedError, match=message):
        program.inject(by_device, where="n")


def test_what_reaches_it_through_the_context_is_refused():
    program = taxpr.trace(sharded(loop))(X)
    with pytest.raises(taxpr.RefusedError, match="may no longer go the same way through the while"):
        program.inject(through_ctx, jnp.float32(0), shards="psum")


@pytest.mark.spread(10)
@pytest.mark.parametrize("body", [loop, branch, in_a_scan, in_a_solve, already_apart])
@pytest.mark.parametrize("check_vma", [False, True])
def test_what_goes_on_alike_is_not(body, check_vma):
    f = sharded(body, check_vma=check_vma)
    program = taxpr.trace(f)(X)
    plain = jax.jit(f)(X)
    # What differs, where it chooses no way; and what is the same, where it does.
    values = program.inject({taxpr.maybe("y"): taxpr.from_function(by_device)})
    assert jax.jit(values)(values.ctx, X)[0].shape == plain.shape
    counting = lambda c, t, _: (t + 0 * c.astype(t.dtype), c + 1)
    same = program.inject(counting, jnp.int32(0), shards="pmax")
    assert_close(jax.jit(same)(same.ctx, X)[0], plain)
    assert_close(program.collect(stack=True, max_steps=3)(X)[0], plain)


def test_a_collective_along_another_axis_does_not_wait():
    def body(x):
        def step(c):
            n, y = c
            return tag(n, name="n") + 1, y + lax.psum(y, "j") * 0.25

        return lax.while_loop(lambda c: c[0] < 3, step, (jnp.int32(0), x))[1]

    f = sharded(body, "4x2")
    program = taxpr.trace(f)(X)
    apart = program.inject(by_device, where="n")
    found = jax.jit(apart)(apart.ctx, X)[0]
    expected = []
    for k, pair in enumerate(X.reshape(4, 2)):
        for _ in range(2 if k % 2 else 3):
            pair = pair + pair.sum() * np.float32(0.25)
        expected.append(pair)
    assert_close(found, np.concatenate(expected))
    with pytest.raises(taxpr.RefusedError, match="the devices along j may no longer go"):
        program.inject(lambda c, t, _: (t + lax.axis_index("j"), c), where="n")
