"""Nothing is kept of a function that is gone: neither by taxpr nor by JAX's caches."""

import inspect
import weakref

import fresh_functions
import jax.numpy as jnp
import pytest
from fresh_functions import ASKED, alive, fresh

import taxpr

# Types, selectors, what reads a file, and what is told once.
TRACE_NOTHING = {
    *("Address", "Param", "Program", "RefusedError", "TaxprError"),
    *("each", "line", "load_recording", "maybe", "register_hop", "register_library", "scope"),
}


@pytest.mark.spread(16)
@pytest.mark.parametrize("kind", ASKED)
def test_a_fresh_function_leaves_nothing(kind):
    x = jnp.ones(4)
    is_jaxpr = type(taxpr.trace(fresh())(x).jaxpr)
    for _ in range(2):
        ASKED[kind](fresh(), x)
    before, gone = alive(is_jaxpr), []
    for _ in range(4):
        fun = fresh()
        gone.append(weakref.ref(fun))
        ASKED[kind](fun, x)
        del fun
    assert alive(is_jaxpr) <= before
    assert [one() for one in gone] == [None] * 4


def test_all_that_traces_is_asked():
    source = inspect.getsource(fresh_functions)
    names = {*taxpr.__all__, "every"} - TRACE_NOTHING
    assert [name for name in names if f"taxpr.{name}(" not in source] == []
