"""Many threads at once: nobody disturbs another one, and all get the same objects.

A switch between threads after each few instructions brings out in moments what a user's threads
would meet once a month.
"""

import gc
import weakref

import jax
import jax.numpy as jnp
import pytest
from threads import at_once

import taxpr
from taxpr import _compat, tag
from taxpr._compat import _names

pytestmark = pytest.mark.usefixtures("switches_often")

THREADS = 8
ROUNDS = 40


def looped(x):
    def body(c, _):
        c = jax.jit(jnp.sin)(c) * 2
        return c, jax.jit(jnp.sin)(c)

    return jax.lax.scan(body, x, None, length=3)


def test_letters_are_found_while_other_threads_print():
    program = taxpr.trace(looped)(1.0)
    text, letters = str(program.jaxpr), taxpr.var_names(program)

    def prints():
        return {str(program.jaxpr) for _ in range(ROUNDS)} | {repr(program.eqns[0])}

    def finds():
        return [taxpr.var_names(program) for _ in range(ROUNDS)]

    *found, one, other = at_once(finds, finds, prints, prints)
    assert one == other == {text, repr(program.eqns[0])}
    assert all(names == letters for many in found for names in many)


def test_letters_are_found_without_a_change_to_jax(monkeypatch):
    from jax._src import core

    before = dict(vars(core))
    seen = []
    rule = core.pp_eqn_rules[_compat.jit_p]

    def looks(*args):
        seen.extend(name for name, value in before.items() if vars(core)[name] is not value)
        return rule(*args)

    monkeypatch.setitem(core.pp_eqn_rules, _compat.jit_p, looks)
    taxpr.var_names(taxpr.trace(looped)(1.0))
    assert seen == []


def test_sources_are_found_in_many_threads():
    program = taxpr.trace(looped)(1.0)
    eqns = [eqn for _, eqn in taxpr.iter_eqns(program.jaxpr)]
    expected = [taxpr.sources_of(eqn) for eqn in eqns]

    def finds():
        return [taxpr.sources_of(eqn) for eqn in eqns]

    for _ in range(ROUNDS):
        _names._known.clear()
        assert at_once(*[finds] * 4) == [expected] * 4


def test_the_code_of_functions_that_are_gone_is_not_kept():
    def defined(number):
        names = {"jnp": jnp}
        exec(
            compile(f"def f(x):\n return jnp.sin(x) * {number}.5", f"cell {number}", "exec"), names
        )
        return names["f"]

    def looked_at(number):
        f = defined(number)
        program = taxpr.trace(f)(1.0)
        assert taxpr.sources_of(program.eqns[-1])[0].file == f"cell {number}"
        return weakref.ref(f.__code__)

    looked_at(0)
    gc.collect()
    known = len(_names._known)
    gone = [looked_at(number) for number in range(1, 20)]
    gc.collect()
    assert [code() for code in gone] == [None] * len(gone)
    assert len(_names._known) <= known


@jax.custom_jvp
def twice(x):
    return tag(x * 2, name="h")


@twice.defjvp
def _(primals, tangents):
    return twice(*primals), 2 * tangents[0]


@jax.custom_vjp
def thrice(x):
    return tag(x * 3, name="h")


thrice.defvjp(lambda x: (thrice(x), None), lambda _, g: (3 * g,))


@pytest.mark.parametrize(
    ("fn", "params", "name"),
    [
        (twice, _compat.jvp_params, "jvp_jaxpr_fun"),
        (thrice, _compat.fwd_params, "fwd_jaxpr_thunk"),
    ],
    ids=["jvp", "fwd"],
)
def test_a_rule_is_one_jaxpr_for_all_threads(fn, params, name):
    [eqn] = taxpr.trace(fn)(1.0).eqns

    def rule(*flags):
        return _compat.TracedRule(jax.make_jaxpr(lambda x: x)(1.0), flags)

    for _ in range(ROUNDS):
        traced = params(eqn.params, rule)[name].call_wrapped
        found = at_once(*[lambda traced=traced: traced(True)[0]] * THREADS)
        assert {id(jaxpr) for jaxpr in found} == {id(traced(True)[0])}


def test_what_is_made_of_a_jaxpr_is_made_for_all_threads():
    for _ in range(ROUNDS // 4):
        program = taxpr.trace(lambda x: tag(tag(x * 2, name="h") + 1, name="k"))(1.0)

        def work(program=program):
            one, other = program.collect("h").jaxpr, program.collect("k").jaxpr
            return id(one), id(other), float(taxpr.grad_at(program, "h")(3.0)["h"])

        assert len(set(at_once(*[work] * THREADS))) == 1
