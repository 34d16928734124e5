"""Functions with another name: the name is the change, and what is inside is compared."""

import jax
import jax.numpy as jnp
import pytest
from compared_programs import V, chain, compared, counts, named
from jax import lax

import taxpr


def layer(x, eps=1e-5):
    return jnp.tanh(x / lax.sqrt(jnp.sum(x * x) + eps))


def other(x):
    return jnp.sort(x) + jnp.cumsum(x)


def of(name, fn=layer):
    return jax.jit(named(name, fn))


def test_a_renamed_function_is_one_change():
    found = compared(chain(*[of("layer")] * 3), chain(*[of("layer2")] * 3), V)
    assert counts(found) == {"changed": 3, "same": 18}
    assert found.what(0, "1:jit") == ("param name 'layer'→'layer2'",)
    assert found.after["1:jit/call/0:mul"] == "same"
    assert not found.opens(1, "1:jit")


def test_a_renamed_function_with_a_change_inside():
    eps = named("eps", lambda x: layer(x, 1e-6))
    found = compared(chain(*[of("layer")] * 3), chain(*[of("layer2", eps)] * 3), V)
    assert counts(found) == {"changed": 6, "same": 15}
    assert found.before["2:jit/call/2:add"] == "changed"
    assert found.opens(1, "2:jit")


def test_a_renamed_function_inside_another_one():
    def outer(inner):
        return jax.jit(named("outer", lambda x: inner(x) * 2))

    found = compared(chain(outer(of("a")), jnp.sin), chain(outer(of("b")), jnp.sin), V)
    assert counts(found) == {"inside": 1, "changed": 1, "same": 8}
    both = compared(outer(of("a")), named("other", outer(of("b"))), V)
    assert counts(both) == {"inside": 1, "changed": 1, "same": 7}


@pytest.mark.parametrize("first", [jnp.sin, lambda x: jnp.sin(x) * 2])
def test_names_pair_the_right_ones(first):
    def program(*names):
        return lambda x: [of(name)(first(x)) for name in names]

    found = compared(program("a", "b", "c"), program("c", "a", "b"), V)
    sides = [{a: eqn.params.get("name") for a, eqn in taxpr.numbered(p)} for p in found.programs]
    calls = [(sides[0][a], sides[1][b]) for a, b in found.pairs.items() if a.endswith(":jit")]
    assert calls == [("a", "a"), ("b", "b"), ("c", "c")]
    found = compared(program("a", "b"), program("a", "c"), V)
    assert [found.what(1, a) for a in found.after if a.endswith(":jit")] == [
        (),
        ("param name 'b'→'c'",),
    ]


def test_functions_that_do_other_things_are_no_partners():
    found = compared(of("layer"), of("other", other), V)
    assert found.counts["changed"] == found.counts["same"] == 0


def test_a_loop_and_a_custom_rule_under_another_name():
    def loop(name):
        return lambda x: lax.scan(lambda c, y: (of(name)(c) + y, c), x, jnp.stack([x, x]))

    found = compared(loop("a"), loop("b"), V)
    assert found.counts["added"] == found.counts["removed"] == 0

    def custom(name):
        rule = jax.custom_jvp(named(name, jnp.sin))
        rule.defjvp(lambda p, t: (jnp.sin(p[0]), jnp.cos(p[0]) * t[0]))
        return rule

    found = compared(custom("a"), custom("b"), V)
    assert found.counts["added"] == found.counts["removed"] == 0
    assert found.before["0:custom_jvp_call/call/0:sin"] == "same"

    def with_rules(name):
        rule = jax.custom_vjp(named(name, jnp.sin))
        back = named(f"back_{name}", lambda x, t: (jnp.cos(x) * t,))
        rule.defvjp(lambda x: (jnp.sin(x), x), back)
        return rule

    found = compared(with_rules("a"), with_rules("b"), V)
    assert found.counts["added"] == found.counts["removed"] == 0
    assert found.what(0, "0:custom_vjp_call") == ("param bwd back_a→back_b",)
