"""A loop of another library that also runs a jaxpr once, beside its iterations."""

import dataclasses

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close

import taxpr
from taxpr.hops import Hop, before_loop, called, later

settle_p = jex.Primitive("settle")
settle_p.multiple_results = True
settle_p.def_abstract_eval(lambda x, *, step, finish: finish.out_avals)
TOLERANCE = 1e-3


@settle_p.def_impl
def run(x, *, step, finish):
    """Repeats a step until it changes little, and then finishes."""
    step, finish = jex.jaxpr_as_fun(step), jex.jaxpr_as_fun(finish)
    [new] = step(x)
    while abs(new - x) > TOLERANCE:
        x, [new] = new, step(new)
    return finish(new)


def nested(eqn):
    carry = {"in_roles": ("carry",), "out_roles": ("carry",), "results": (None,)}
    step = called(eqn, "step", label="step", trips=None, back=((0, 0),), **carry)
    finish = called(eqn, "finish", label="finish", once=True, operands=(None,))
    return [step, finish]


def inject(eqn, ctx, operands, thread):
    step, finish = thread("step"), thread("finish")

    def goes_on(loop):
        i, _, old, new, _ = loop
        return (i == 0) | (jnp.abs(new - old) > TOLERANCE)

    def body(loop):
        i, ctx, _, x, seen = loop
        ctx, [new], emits = step(ctx, [x])
        return i + 1, ctx, x, new, {key: later(seen[key], one, i) for key, one in emits.items()}

    seen = {key: before_loop(one) for key, one in step.emitted().items()}
    loop = jax.lax.while_loop(goes_on, body, (0, ctx, *operands, *operands, seen))
    _, ctx, _, x, seen = loop
    ctx, results, emits = finish(ctx, [x])
    return ctx, results, {**seen, **emits}


ENTRY = Hop(nested=nested, inject=inject, loops=True, own_derivative=False)
taxpr.register_hop(settle_p, ENTRY)


def settle(step, finish, x):
    jaxprs = {"step": jax.make_jaxpr(step)(x), "finish": jax.make_jaxpr(finish)(x)}
    return settle_p.bind(x, **jaxprs)[0]


def program(x):
    def step(x):
        h = taxpr.tag(jnp.cos(x * 0.75), name="h")
        return h

    def finish(x):
        y = taxpr.tag(x * 10.0, name="y")
        return y + 1.0

    return settle(step, finish, x)


def by_hand(x, n, change):
    """The result, the last number, the values of `h`, and that of `y`."""
    seen = []
    while True:
        h, n = change(np.cos(x * 0.75), n)
        seen.append(h)
        x, old = h, x
        if abs(x - old) <= TOLERANCE:
            break
    y, n = change(x * 10.0, n)
    return y + 1.0, n, seen, y


def plain(token, n):
    return token, n


def fading(token, n):
    return token + 0.1 / (n + 1), n + 1


X = jnp.float32(1.0)


def test_the_context_goes_through_all_iterations_and_then_once():
    def change(n, token, params):
        return fading(token, n)

    out, n, _, _ = by_hand(1.0, 0.0, fading)
    injected = taxpr.inject(program, change)
    for run in (injected, jax.jit(injected)):
        found = run(jnp.float32(0.0), X)
        assert_close(found, (np.float32(out), np.float32(n)))


def test_what_runs_once_has_no_axis_and_no_iteration():
    out, _, seen, y = by_hand(1.0, 0, plain)
    found, values = taxpr.collect(program, max_steps=len(seen) + 1)(X)
    assert_close((found, values["y"]), (np.float32(out), np.float32(y)))
    assert values["h"].count == len(seen)
    assert_close(values["h"].value[values["h"].mask], np.asarray(seen, np.float32))
    rec = taxpr.watch(program)(X)
    assert rec["y"].axes == ()
    assert_close(rec["h"].value, np.asarray(seen, np.float32))
    assert taxpr.grad_at(program, "y")(X) == {"y": 1.0}


def test_iterations_are_counted_where_they_end():
    _, _, seen, y = by_hand(1.0, 0, plain)
    program_ = taxpr.trace(program)(X)
    stats = program_.inject(taxpr.stats(per="iteration", max_steps=len(seen)), where="h")
    [report] = stats.report(stats(stats.ctx, X)[1]).values()
    assert_close(report["max"], np.asarray(seen, np.float32))
    assert report["beyond"] == 0
    once = program_.inject(taxpr.stats(), where="y")
    [report] = once.report(once(once.ctx, X)[1]).values()
    assert_close(report["max"], np.float32(y))
    at = iter(range(100))
    out, *_ = by_hand(1.0, 0, lambda h, n: (5.0 if next(at) == len(seen) - 1 else h, n))
    planted = program_.plant({"h": 5.0}, at=len(seen) - 1)(X)
    assert_close(planted, np.float32(out))
    with pytest.raises(taxpr.TaxprError, match="there are 0"):
        program_.plant({"y": 5.0}, at=0)


def test_a_nan_is_followed_from_what_runs_once_into_the_loop():
    def falling(x):
        def step(x):
            root = jnp.sqrt(x)
            return root - 0.5

        def finish(x):
            return x * 2.0

        return settle(step, finish, x)

    [row] = taxpr.find_nan(falling)(jnp.float32(4.0)).rows
    x, iteration = 4.0, 0
    while x >= 0:
        x, iteration = x**0.5 - 0.5, iteration + 1
    assert (row.variable, row.iteration) == ("root", (iteration,))

    def ending(x):
        def finish(x):
            last = jnp.log(x - 5.0)
            return last * 2.0

        return settle(jnp.cos, finish, x)

    [row] = taxpr.find_nan(ending)(X).rows
    assert (row.variable, row.iteration) == ("last", ())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda step, finish: [step, dataclasses.replace(finish, once=False)], "once=True to"),
        (lambda step, finish: [dataclasses.replace(step, once=True), finish], "trips=None and"),
        (
            lambda step, finish: [step, dataclasses.replace(finish, once=False, trips=None)],
            "'finish' last, and 'step' makes the input of the next iteration",
        ),
    ],
)
def test_what_each_iteration_runs_is_checked(change, text):
    def wrong(eqn):
        return change(*nested(eqn))

    taxpr.register_hop(settle_p, dataclasses.replace(ENTRY, nested=wrong))
    try:
        with pytest.raises(taxpr.ArgumentError, match=text):
            taxpr.collect(program)(X)
    finally:
        taxpr.register_hop(settle_p, ENTRY)
