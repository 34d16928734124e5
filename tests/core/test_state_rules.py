"""States that are written in functions with a rule of their own, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from taxpr import RefusedError, State, StateError, uncurry

X = jnp.float32(3.0)


def ruled(kind, fn, rule):
    """A function with the derivative of ``rule``."""
    out = kind(fn)
    if kind is jax.custom_jvp:
        out.defjvp(lambda p, t: (out(*p), jax.jvp(rule, p, t)[1]))
    else:
        out.defvjp(lambda *a: (out(*a), a), lambda a, ct: jax.vjp(rule, *a)[1](ct))
    return out


AROUND = {
    "flat": lambda f: f,
    "jit": jax.jit,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "loop": lambda f: lambda x: lax.fori_loop(0, 1, lambda _, c: f(c), x),
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
    "checkpoint": jax.checkpoint,
}
KINDS = pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp])
MATCH = (
    r"uncurry: a differentiated value depends on the write of the state 's' "
    r"\(test_state_rules.py:\d+ in .*\), which is in custom_[jv]+p_call.*"
    r"write it outside; or give jax.lax.stop_gradient"
)


@pytest.mark.spread(3)
@KINDS
@pytest.mark.parametrize("way", AROUND)
def test_a_derivative_through_a_state_that_a_rule_writes_is_refused(kind, way):
    s = State(0.0, name="s")

    def fn(x):
        s.value = x * x
        return x + 1

    inner = AROUND[way](ruled(kind, fn, lambda x: x + 1))
    loss = lambda x: inner(x) * s.value  # (x + 1) x², of which the derivative is 3 x² + 2 x
    plain, states = uncurry(lambda x: fn(x) * s.value, X)
    assert jax.grad(plain, argnums=1, has_aux=True)(states, X)[0] == 33.0
    pure, states = uncurry(loss, X)
    for mode in (lambda f: f, jax.jit):
        out, new = mode(pure)(states, X)
        assert (out, new["s"]) == (36.0, 9.0)
        for asked in (lambda x: pure(states, x)[0], lambda x: pure(states, x)[1]["s"]):
            with pytest.raises(RefusedError, match=MATCH):
                mode(jax.grad(asked))(X)
            if kind is jax.custom_jvp:  # of the other JAX has no forward mode
                # It computes all tangents, and does not know which of them are of use.
                assert jnp.isnan(mode(lambda x, f=asked: jax.jvp(f, (x,), (x,))[1])(X))
    pure, states = uncurry(lambda x: inner(x) * lax.stop_gradient(s.value), X)
    grad, new = jax.grad(pure, argnums=1, has_aux=True)(states, X)
    assert (grad, new["s"]) == (9.0, 9.0)


@pytest.mark.spread(9)
@KINDS
@pytest.mark.parametrize("way", AROUND)
def test_what_only_goes_out_stays(kind, way):
    """A running mean and a count, used twice, as batch norm has them."""
    mean, count = State(0.0, name="mean"), State(0.0, name="count")
    number = State(0, name="number")

    def norm(x):
        mean.value = 0.5 * mean.value + 0.5 * x
        count.value += 1.0
        number.value += 1
        return 2 * x

    layer = AROUND[way](ruled(kind, norm, lambda x: 2 * x))
    pure, states = uncurry(lambda x: layer(layer(x)) * count.value, X)
    for mode in (lambda f: f, jax.jit):
        grad, new = mode(jax.grad(pure, argnums=1, has_aux=True))(states, X)
        assert grad == 8.0
        assert {k: float(v) for k, v in new.items()} == {"mean": 3.75, "count": 2.0, "number": 2}
    with pytest.raises(RefusedError, match=r"uncurry.*'count'"):
        jax.grad(lambda c: pure({**states, "count": c}, X)[0])(0.0)


@KINDS
def test_the_derivative_of_a_value_that_was_stopped_is_zero(kind):
    s = State(0.0, name="s")

    def fn(x):
        s.value = lax.stop_gradient(x * x)
        return x + 1

    inner = ruled(kind, fn, lambda x: x + 1)
    pure, states = uncurry(lambda x: inner(x) * s.value, X)
    assert jax.grad(pure, argnums=1, has_aux=True)(states, X)[0] == 9.0
    if kind is jax.custom_jvp:
        assert jax.jvp(lambda x: pure(states, x)[0], (X,), (X,))[1] == 27.0


@KINDS
def test_derivatives_by_something_else(kind):
    s = State({"x": 0.0, "y": 0.0}, name="s")

    def fn(x, y):
        s.value = {"x": x * x, "y": y}
        return x * y

    inner = ruled(kind, fn, lambda x, y: x * y)
    pure, states = uncurry(lambda x, y, z: inner(x, y) * z + s.value["x"], X, X, X)
    run = lambda *args: pure(states, *args)[0]
    assert jax.grad(run, argnums=(1, 2))(X, X, X) == (9.0, 9.0)
    with pytest.raises(RefusedError, match=MATCH):
        jax.grad(run)(X, X, X)

    # What the function closes over is traced outside.
    def closed(x):
        pure, states = uncurry(lambda: inner(x, x) * s.value["x"])
        return pure(states)[0]

    with pytest.raises(RefusedError, match=MATCH):
        jax.grad(closed)(X)


def test_an_aux_loss_of_a_layer():
    s = State(jnp.float32(0), name="s")

    def clipped(x):
        s.value += jnp.sum(x**2)
        return x

    layer = ruled(jax.custom_vjp, clipped, lambda x: x)
    pure, states = uncurry(lambda w: jnp.sum(layer(w * 2)) + s.value, jnp.ones(2))
    with pytest.raises(RefusedError, match=MATCH):
        jax.grad(pure, argnums=1, has_aux=True)(states, jnp.ones(2))
    lanes = jax.vmap(lambda w: pure(states, w)[0])(jnp.ones((2, 2)))
    assert lanes.tolist() == [12.0, 12.0]
    with pytest.raises(RefusedError, match=MATCH):
        jax.grad(lambda w: jax.vmap(lambda w: pure(states, w)[0])(w).sum())(jnp.ones((2, 2)))


def test_a_function_that_only_its_rule_can_differentiate():
    s = State(0.0, name="s")

    def host(x):
        y = jax.pure_callback(lambda x: np.sin(x), jax.typeof(x), x)
        s.value = y
        return y

    layer = ruled(jax.custom_vjp, host, jnp.sin)
    pure, states = uncurry(lambda x: layer(x) * 2, X)
    grad, new = jax.grad(pure, argnums=1, has_aux=True)(states, X)
    np.testing.assert_allclose([grad, new["s"]], [2 * np.cos(3.0), np.sin(3.0)], rtol=1e-5)
    pure, states = uncurry(lambda x: layer(x) * s.value, X)
    with pytest.raises(RefusedError, match=MATCH):
        jax.grad(pure, argnums=1, has_aux=True)(states, X)


def test_a_write_in_a_solve():
    s = State(0.0, name="s")

    def solve(_, b):
        s.value = b * b
        return b / 2

    def fn(b):
        x = lax.custom_linear_solve(
            lambda x: 2 * x, b, solve, transpose_solve=lambda vecmat, b: b / 2
        )
        return x, s.value

    pure, states = uncurry(fn, X)
    (x, found), new = pure(states, X)
    assert (x, found, new["s"]) == (1.5, 9.0, 9.0)
    assert jax.grad(lambda b: pure(states, b)[0][0])(X) == 0.5
    with pytest.raises(RefusedError, match=r"write of the state 's'.*custom_linear_solve"):
        jax.grad(lambda b: pure(states, b)[0][1])(X)


def test_a_state_that_a_rule_reads_has_a_text_of_its_own():
    w = State(2.0, name="w")
    layer = ruled(jax.custom_vjp, lambda x: x * w.value, lambda x: x * 2)
    pure, states = uncurry(layer, X)
    match = (
        r"^uncurry: a derivative is taken with respect to a state: read of the state 'w' \(.*\), "
        r"in custom_vjp_call.* \(.*at 0:custom_vjp_call\).*as an argument: its rule "
        "has a derivative for arguments"
    )
    with pytest.raises(RefusedError, match=match) as error:
        jax.grad(pure, has_aux=True)(states, X)
    assert "injector" not in str(error.value)
    assert "custom_rules" not in str(error.value)
    assert jax.grad(pure, argnums=1, has_aux=True)(states, X)[0] == 2.0


def test_donated_states():
    s = State(jnp.zeros(2), name="s")

    def fn(x):
        s.value += x

    pure, states = uncurry(fn, X)
    step = jax.jit(pure, donate_argnums=0)
    _, states = step(states, X)
    match = r"the state 's': its value was donated.*pure.write\(states\)"
    for use in (lambda: s.value, lambda: uncurry(fn, X)[1]["s"] + 1):
        with pytest.raises(StateError, match=match):
            use()
    pure.write(states)
    assert s.value.tolist() == [3.0, 3.0]
    _, states = step(states, X)
    with pytest.raises(StateError, match=match):
        _ = s.value
    assert repr(s) == "State(float32[2], name='s')"
    s.value = jnp.ones(2)
    assert s.value.tolist() == [1.0, 1.0]


def test_a_derivative_by_some_of_the_arguments():
    mean = State(0.0, name="mean")

    def layer(w, x):
        mean.value = 0.5 * mean.value + 0.5 * w * x
        return w * x

    inner = ruled(jax.custom_vjp, layer, lambda w, x: w * x)
    pure, states = uncurry(lambda w, x: inner(inner(w, x), x), X, X)
    for mode in (lambda f: f, jax.jit):
        for k, expected in ((1, 9.0), (2, 18.0)):
            grad, new = mode(jax.grad(pure, argnums=k, has_aux=True))(states, X, X)
            assert (grad, new["mean"]) == (expected, 15.75)


def test_a_derivative_inside_of_what_is_uncurried():
    s, n = State(0.0, name="s"), State(0, name="n")

    def fn(x):
        s.value = 0.5 * s.value + x * x
        n.value += 1
        return x + 1

    layer = jax.custom_vjp(fn)
    layer.defvjp(lambda x: (fn(x), None), lambda _, ct: (ct,))
    counted = lambda x: layer(layer(x)) * jnp.float32(n.value)
    pure, states = uncurry(lambda x: (jax.grad(counted)(x), s.value), X)
    (grad, after), new = pure(states, X)
    assert (grad, after, new["n"]) == (2.0, 4.5 + 16.0, 2)
    match = r"^read of the state 's' .*there is the write of the state 's' .*forward rule of"
    with pytest.raises(StateError, match=match):
        uncurry(jax.grad(lambda x: layer(x) * s.value), X)


def test_a_rule_that_reads_what_it_has_written_in_a_derivative_inside():
    s = State(1.0, name="s")

    def fn(x):
        old = s.value
        s.value = 2 * x
        return x * old

    def fwd(x):
        old = s.value
        s.value = 2 * x
        return x * old, old

    layer = jax.custom_vjp(fn)
    layer.defvjp(fwd, lambda old, ct: (ct * old,))
    pure, states = uncurry(jax.grad(layer), X)  # what was there before is a constant
    assert pure(states, X) == (1.0, {"s": 2 * X})
    match = r"^read of the state 's' .*there is the write of the state 's' .*forward rule of"
    with pytest.raises(StateError, match=match):  # x + x * 2x: 1 + 4x, and not 1 + 2x
        uncurry(jax.grad(lambda x: layer(x) + layer(x)), X)
