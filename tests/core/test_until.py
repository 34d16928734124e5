"""Programs that run only as far as some tag."""

import jax
import jax.numpy as jnp
import pytest
from cases import INJECTABLE
from checks import assert_close, check_types

import taxpr
from taxpr import tag

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")


def primitives(program):
    return [eqn.primitive.name for _, eqn in taxpr.iter_eqns(program.jaxpr)]


@pytest.mark.spread(10)
@pytest.mark.parametrize("case", INJECTABLE, ids=repr)
def test_the_values_are_those_of_collect(case):
    p = taxpr.trace(case.fn)(*case.args)
    expected = jax.jit(p.collect(max_steps=3, stack=True))(*case.args)[1]
    early = p.until(max_steps=3, stack=True)
    check_types(early.jaxpr)
    assert_close(jax.jit(early)(*case.args), expected, case.tolerance)
    first = p.tags()[0]
    early = p.until(first, max_steps=3)
    found = early(*case.args)
    assert jax.tree.structure(found) == early.out_tree
    if [site.name for site in p.tags()].count(first.name) == 1:
        assert_close(found[first.name], expected[first.name], case.tolerance)


def test_what_is_not_needed_is_gone_from_nested_jaxprs():
    def f(x, unused):
        @jax.jit
        def g(x):
            def step(carry, t):
                c, waste = carry
                c = jax.checkpoint(lambda c: tag(jnp.sin(c) + t, name="c"))(c)
                return (c, jnp.tan(waste)), jnp.cosh(waste)

            return jax.lax.scan(step, (x.sum(), x.sum()), x)

        (c, _), ys = g(x)
        jax.debug.print("late {}", c)
        return jnp.exp(c), ys, jnp.log(unused)

    x = jnp.arange(3.0)
    p = taxpr.trace(f)(x, 1.0)
    early = p.until("c")
    assert {"tan", "cosh", "exp", "log", "debug_callback", "debug_print"}.isdisjoint(
        primitives(early)
    )
    assert "sin" in primitives(early)
    assert_close(early(x, 2.0), p.collect("c")(x, 2.0)[1])
    grad = jax.grad(lambda x: early(x, 1.0)["c"][-1])(x)
    assert_close(grad, jax.grad(lambda x: p.collect("c")(x, 1.0)[1]["c"][-1])(x))


def test_effects_before_the_tag_happen_and_later_ones_do_not(capfd):
    def f(x):
        jax.debug.print("before")
        y = tag(x * 2, name="y")
        jax.debug.print("after")
        return y * 3

    p = taxpr.trace(f)(1.0)
    assert p.until("y")(1.0)["y"] == 2.0
    jax.effects_barrier()
    assert capfd.readouterr().out == "before\n"


def test_closed_over_arrays_tags_on_inputs_and_injected_programs():
    table, other = jnp.arange(3.0), jnp.ones(5)

    def f(x):
        x = tag(x, name="in")
        return tag(x + table, name="sum").sum() + other.sum()

    x = jnp.ones(3)
    p = taxpr.trace(f)(x)
    assert p.until("in")(x)["in"].tolist() == [1.0] * 3
    assert p.until("in").eqns == []
    early = p.until("sum")
    assert early(x)["sum"].tolist() == [1.0, 2.0, 3.0]
    assert [const.shape for const in early.consts] == [(3,)]
    changed = p.inject(taxpr.scale(3.0), where="in")
    assert changed.until("sum")(changed.ctx, x)["sum"].tolist() == [3.0, 4.0, 5.0]


def test_rules_may_be_dropped():
    @jax.custom_jvp
    def f(x):
        return tag(jnp.sin(x), name="h")

    def rule(primals, tangents):
        slope = tag(jnp.cos(primals[0]), name="slope")
        return f(*primals), 5 * slope * tangents[0]

    f.defjvp(rule)
    p = taxpr.trace(lambda x: jnp.exp(f(x)))(1.0)
    early = p.until("h", custom_rules="drop")
    assert_close(jax.grad(lambda x: early(x)["h"])(1.0), jnp.cos(1.0))
    with pytest.raises(taxpr.RefusedError, match="is taken of the value of the tag 'h'"):
        jax.grad(lambda x: p.until("h")(x)["h"])(1.0)
    assert set(p.until()(1.0)) == set(p.axes()) == {"h", "slope"}
    assert set(p.until(custom_rules="drop")(1.0)) == {"h"}
    assert p.axes(custom_rules="drop") == {"h": ()}
