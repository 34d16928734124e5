"""State emulated by tags: the running sum of taxpr's page, mended, and in every loop."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr

XS = jnp.asarray([1.0, 2.0, 3.0, 4.0])
SUMS = [1.0, 3.0, 6.0, 10.0]

counter = itertools.count()


def get_state(shape, dtype):
    """A state of its own: its value, and a function that sets it."""
    number = next(counter)

    def set_state(value):
        return taxpr.tag(value, op="set", id=number)

    return taxpr.tag(jnp.zeros(shape, dtype), op="get", id=number), set_state


def injector(states, token, params):
    if params["op"] == "get":
        return states[params["id"]], states
    return token, {**states, params["id"]: token}


def running_sum(x):
    total, set_state = get_state(x.shape, x.dtype)
    return set_state(total + x)


def initial_states(jaxpr):
    gets = [(p["id"], aval) for p, aval in taxpr.iter_tags(jaxpr) if p["op"] == "get"]
    return {number: jnp.zeros(aval.shape, aval.dtype) for number, aval in gets}


@pytest.mark.smoke
def test_with_eval_jaxpr():
    def uncurry(fn, *args, **kwargs):
        jaxpr = jax.make_jaxpr(fn)(*args, **kwargs)
        states = initial_states(jaxpr)
        new = taxpr.inject(jaxpr, injector, states)
        leaves, tree = jax.tree.flatten(states)

        def pure(states, *args, **kwargs):
            flat = [*jax.tree.leaves(states), *jax.tree.leaves((args, kwargs))]
            *out, state = jax.core.eval_jaxpr(new.jaxpr, new.consts, *flat)
            assert len(leaves) == 1
            return out, jax.tree.unflatten(tree, [state])

        return pure, states

    rsum, state = uncurry(running_sum, jnp.zeros(1))
    for _ in range(3):
        _, state = rsum(state, jnp.ones(1))
    assert next(iter(state.values())) == 3


def with_program(fn, *args):
    program = taxpr.trace(fn)(*args)
    return program.inject(injector, initial_states(program.jaxpr))


def test_with_the_program_object():
    rsum = with_program(running_sum, XS[0])
    state, sums = rsum.ctx, []
    for x in XS:
        out, state = rsum(state, x)
        sums.append(float(out))
    assert sums == SUMS


def all_sums_of(step):
    """The step at every x of XS, in loops of several kinds."""

    def in_scan(xs):
        return lax.scan(lambda c, x: (c, step(x)), None, xs)[1]

    def in_map(xs):
        return lax.map(step, xs)

    def in_fori(xs):
        return lax.fori_loop(0, 4, lambda i, out: out.at[i].set(step(xs[i])), jnp.zeros(4))

    def in_while(xs):
        def body(carry):
            i, out = carry
            return i + 1, out.at[i].set(step(xs[i]))

        return lax.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), jnp.zeros(4)))[1]

    return [in_scan, in_map, in_fori, in_while]


def guarded(x):
    return lax.cond(x > 0, running_sum, lambda x: x, x)


@pytest.mark.parametrize("loop", range(4))
@pytest.mark.parametrize(
    "step",
    [running_sum, guarded, jax.jit(running_sum), jax.checkpoint(running_sum)],
    ids=["plain", "cond", "jit", "remat"],
)
def test_with_its_loop_moved_into_jax(step, loop):
    rsum = with_program(all_sums_of(step)[loop], XS)
    sums, state = jax.jit(rsum)(rsum.ctx, XS)
    assert sums.tolist() == SUMS
    assert next(iter(state.values())) == 10.0
    sums, _ = rsum(state, XS)
    assert sums.tolist() == [10.0 + s for s in SUMS]


def test_a_branch_that_is_not_taken_leaves_the_state():
    rsum = with_program(all_sums_of(guarded)[0], XS)
    xs = jnp.asarray([1.0, -5.0, 2.0, -5.0])
    sums, _ = rsum(rsum.ctx, xs)
    assert sums.tolist() == [1.0, -5.0, 3.0, -5.0]
