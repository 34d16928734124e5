"""Derivatives of higher order by `jax.experimental.jet`, which has rules of its own.

A tag marks the primal, as under `jax.jvp`: Taylor coefficients pass by.
"""

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from jax.experimental.jet import jet

import taxpr
from taxpr import State, tag
from taxpr._primitives.guard import guarded, underived


def plain(x):
    return jnp.sin(x * x) * x


def tagged(x):
    return tag(jnp.sin(taxpr.tag_cotangent(tag(x * x, name="h"), name="g")), name="s") * x


def kept(x):
    taxpr.keep(x + 1.0, name="unused")
    return plain(x)


def three(fn):
    """The value and the first three derivatives."""
    return lambda x: jet(fn, (x,), ((1.0, 0.0, 0.0),))


@pytest.mark.spread(2)
@pytest.mark.parametrize("fn", [tagged, kept], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize(
    "around",
    [lambda f: f, jax.jit, jax.vmap, lambda f: jax.jvp(f, (1.3,), (1.0,))[1]],
    ids=["plain", "jit", "vmap", "jvp"],
)
def test_a_tag_leaves_derivatives_alone(fn, around):
    x = jnp.linspace(0.5, 1.5, 3) if around is jax.vmap else 1.3
    derivatives = lambda fn: around(three(fn))
    expected, found = derivatives(plain), derivatives(fn)
    if callable(found):
        expected, found = expected(x), found(x)
    assert_close(found, expected)
    assert_close(three(jax.jit(fn))(1.3), three(plain)(1.3))


def test_a_tag_in_there_marks_the_primal():
    program = taxpr.trace(three(tagged))(1.3)
    assert [site.name for site in program.tags()] == ["h", "s"]
    out, values = program.collect()(1.3)
    assert_close((out, values["h"]), (three(plain)(1.3), 1.3 * 1.3))
    with pytest.warns(taxpr.StaleDerivativeWarning, match="'h'"):
        program.inject(taxpr.scale(2.0), where="h")


def test_an_injected_program_has_its_own_derivatives():
    doubled = taxpr.trace(tagged)(1.0).inject(taxpr.scale(2.0), where="h")
    found = three(lambda x: doubled(doubled.ctx, x)[0])(1.3)
    assert_close(found, three(lambda x: jnp.sin(2 * x * x) * x)(1.3))


def test_a_cotangent_of_a_derivative_is_tagged():
    second = lambda fn: lambda x: three(fn)(x)[1][1]
    program = taxpr.trace(jax.grad(second(tagged)))(1.3)
    assert "g" in [site.name for site in program.tags()]
    assert_close(program(1.3), jax.grad(second(plain))(1.3))


def test_what_has_no_derivative():
    """What stands where a rule that is kept ends the derivative of a context, or of a value."""
    with pytest.raises(taxpr.RefusedError, match="none of it"):
        three(lambda x: guarded([x], "there is none of it")[0])(1.3)
    value, series = three(lambda x: underived(x + 1, [x], "there is none of it"))(1.3)
    assert_close(value, 2.3)
    assert all(bool(jnp.isnan(term)) for term in series)


def test_states():
    state = State(jnp.float32(2), name="s")

    def write(x):
        state.value = x * x
        return x

    pure, states = taxpr.uncurry(three(lambda x: state.value * x), 1.3)
    assert_close(pure(states, 1.3)[0], (2.6, [2.0, 0.0, 0.0]))
    for fn in (write, jax.jit(write)):
        with pytest.raises(taxpr.StateError, match=r"write of the state 's' \(.*Wrap the function"):
            taxpr.uncurry(three(fn), 1.3)
