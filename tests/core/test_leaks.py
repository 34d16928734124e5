"""No tracer outlives its trace, with JAX's own check on, in a program of each kind of equation."""

import jax
import jax.numpy as jnp
import pytest
from cases import INJECTABLE
from checks import is_float

import taxpr
from taxpr import _compat

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")


def kinds_of(case):
    eqns = taxpr.iter_eqns(taxpr.trace(case.fn)(*case.args).jaxpr)
    return {_compat.kind_of(eqn) for _, eqn in eqns if taxpr.is_hop(eqn)}


def one_of_each_kind():
    chosen, seen = [], set()
    for case in INJECTABLE:
        if not chosen or kinds_of(case) - seen:
            chosen.append(case)
            seen |= kinds_of(case)
    return chosen


def reads_and_changes(s, token, params):
    changed = jax.tree.map(lambda x: x * jnp.asarray(2, x.dtype) if is_float(x) else x, token)
    return changed, s + 1


def total(outs):
    return sum(jnp.sum(x).astype(jnp.float32) for x in jax.tree.leaves(outs) if is_float(x))


def injected(case):
    return lambda *args: taxpr.inject(case.fn, reads_and_changes)(jnp.int32(0), *args)


def with_gradients(fn, case):
    last = len(case.args) - 1  # a float in all of them
    return jax.grad(lambda *args: total(fn(*args)), last) if case.reverse else fn


def tagged(case, args):
    return taxpr.trace(case.fn)(*args).tag_at("in0", name="added")


def planted(*args, case):
    program = tagged(case, args)
    return program.plant(program.collect("added")(*args)[1])(*args)


WAYS = {
    "inject": injected,
    "grad": lambda case: with_gradients(injected(case), case),
    "collect": lambda case: taxpr.collect(case.fn, stack=True),
    "tag_at": lambda case: lambda *args: tagged(case, args).collect("added")(*args),
    "plant": lambda case: lambda *args: planted(*args, case=case),
}


def leaks(case):
    """Whether JAX finds a leak in the program itself."""
    try:
        with jax.checking_leaks():
            jax.jit(case.fn)(*case.args)
            jax.jit(with_gradients(case.fn, case))(*case.args)
    except Exception as error:
        if "Leaked" not in str(error):
            raise
        return True
    return False


@pytest.mark.spread(6)
@pytest.mark.parametrize("case", one_of_each_kind(), ids=repr)
def test_no_tracer_is_leaked(case):
    if leaks(case):
        pytest.skip("JAX itself leaks a tracer, without taxpr")
    with jax.checking_leaks():
        for way in WAYS.values():
            jax.jit(way(case))(*case.args)


@pytest.mark.slow
def test_a_leak_would_be_found():
    kept = []

    def keeps(ctx, token, params):
        kept.append(token)
        return token, ctx

    case = INJECTABLE[0]
    with pytest.raises(Exception, match="Leaked"), jax.checking_leaks():
        jax.jit(taxpr.inject(case.fn, keeps))((), *case.args)
