"""`switched`: off is the program as it is, on is the injector, and one program has both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import InjectorError, scale, switched

X = jnp.arange(1.0, 4.0)


def loops(x):
    def body(c, x):
        c = jax.lax.cond(x > 1.5, lambda: taxpr.tag(c * x, name="h"), lambda: c)
        return c, c

    c, ys = jax.lax.scan(body, jnp.float32(1.0), x)
    return jax.lax.while_loop(lambda c: c < 50.0, lambda c: taxpr.tag(c * 4.0, name="h"), c), ys


def batched(x):
    return jax.vmap(lambda x: taxpr.tag(jnp.sin(x), name="h") + 1.0)(x)


def rule(x):
    @jax.checkpoint
    def f(x):
        return taxpr.tag(jax.nn.relu(x) * x, name="h")

    return jax.jit(f)(x).sum()


def noted(ctx, token, params):
    return token + ctx, ctx + 1.0


INJECTORS = {
    "scale": scale(0.5),
    "noise": taxpr.noise(jax.random.key(0)),
    "count": taxpr.count(),
    "function": taxpr.from_function(noted, jnp.float32(0.0)),
}


@pytest.mark.parametrize("name", INJECTORS)
@pytest.mark.parametrize("f", [loops, batched, rule])
def test_off_is_the_program_and_on_is_the_injector(f, name):
    one = INJECTORS[name]
    program = taxpr.trace(f)(X)
    plain = program.inject({"h": one})
    both = program.inject({"h": switched(one)})
    run = jax.jit(lambda ctx, x: both(ctx, x))
    out, ctx = run(both.ctx, X)
    expected, last = plain(plain.ctx, X)
    jax.tree.map(np.testing.assert_allclose, out, expected)
    jax.tree.map(
        np.testing.assert_array_equal, jax.tree.leaves(ctx["h"]["state"]), _state(last["h"])
    )
    off, ctx = run(both.ctx_with(on=False), X)
    jax.tree.map(np.testing.assert_array_equal, off, program(X))
    jax.tree.map(np.testing.assert_array_equal, _state(ctx["h"]), _state(both.ctx["h"]))
    assert run._cache_size() == 1  # the switch compiles nothing


def _state(ctx):
    return jax.tree.leaves(ctx["state"])


def test_it_composes_with_examples_gradients_and_other_injectors():
    both = taxpr.trace(batched)(X).inject(
        {"h": [switched(taxpr.per_example(scale(0.0))), switched(scale(3.0), on=False)]}
    )
    np.testing.assert_allclose(both(both.ctx, X)[0], jnp.ones(3))
    injected = taxpr.inject(rule, {"h": switched(scale(0.5))})
    slope = jax.grad(lambda x: injected(injected.init(x), x)[0])(X)
    np.testing.assert_allclose(slope, X)


def test_its_values_can_be_set_and_it_shows_itself():
    both = taxpr.trace(rule)(X).inject({"h": switched(scale(0.5))})
    assert float(both(both.ctx_with(factor=2.0), X)[0]) == pytest.approx(28.0)
    assert repr(switched(scale(0.5), on=False)) == "switched(scale(factor=0.5), on=False)"


def test_a_report_is_that_of_the_injector():
    both = taxpr.trace(rule)(X).inject({"h": switched(taxpr.count())})
    [report] = both.report(both(both.ctx, X)[1])["h"].values()
    assert int(report["count"]) == 1


def test_what_changes_the_shape_is_refused_as_without_a_switch():
    with pytest.raises(InjectorError, match=r"shape|dtype"):
        taxpr.trace(rule)(X).inject({"h": switched(lambda ctx, token, params: (token[:1], ctx))})


def test_a_parameter_on_of_its_own_is_refused():
    def own(ctx, token, params, on):
        return token * on, ctx

    with pytest.raises(InjectorError, match="switched: own has a parameter 'on' of its own"):
        switched(taxpr.from_function(own, on=1.0))


def test_off_an_injector_has_no_derivative_that_is_not_finite():
    def f(x):
        return taxpr.tag(x, name="x") ** 2

    def log(ctx, token, params):
        return jnp.log(token), ctx

    injected = taxpr.inject(f, {"x": switched(log, on=False)})
    at = injected.init(0.0)
    assert float(jax.grad(lambda x: injected(at, x)[0])(0.0)) == 0.0
    assert float(jax.jvp(lambda x: injected(at, x)[0], (3.0,), (1.0,))[1]) == 6.0
    scaled = taxpr.trace(f)(2.0).inject({"x": switched(scale(0.5))})
    for on, expected in ((True, 4.0), (False, 0.0)):
        slope = jax.grad(lambda ctx: scaled(ctx, 2.0)[0], allow_int=True)(scaled.ctx_with(on=on))
        assert float(slope["x"]["values"]["factor"]) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: switched(scale(0.5), on="a"), "switched: on='a' is a str. Give True or False"),
        (lambda: switched(3), "switched: 3 is an int. Give an injector"),
        (lambda: switched(switched(scale(0.5))), "has a switch already"),
    ],
)
def test_what_has_no_switch_is_refused(make, message):
    with pytest.raises(taxpr.TaxprError, match=message):
        make()
