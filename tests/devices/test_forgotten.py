"""Nothing is kept of a function that is gone, whose arguments several devices share."""

import contextlib
import weakref

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from fresh_functions import ASKED, alive, fresh
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr

# Each runs programs; what only traces does the same in a shard_map as elsewhere.
MANUAL = "watch", "statistics", "find_nan", "first_difference", "check_grad", "memory", "inject"
CASES = [
    *((kind, name) for kind in ("automatic", "explicit") for name in ASKED),
    *(("manual", name) for name in MANUAL),
]


def spread(fun, kind):
    """The function, new as it is; in a shard_map of its own."""
    if kind != "manual":
        return fun

    def summed(x):
        return lax.psum(fun(x), "i")

    inside = jax.shard_map(summed, mesh=mesh("8"), in_specs=P("i"), out_specs=P())
    return lambda x: inside(x)


@pytest.mark.spread(8)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_fresh_function_of_sharded_arguments_leaves_nothing(kind, name):
    over = mesh("8", AxisType.Explicit if kind == "explicit" else AxisType.Auto)
    x = jax.device_put(jnp.ones(16), NamedSharding(over, P("i")))
    with jax.set_mesh(over) if kind == "explicit" else contextlib.nullcontext():
        is_jaxpr = type(taxpr.trace(fresh())(x).jaxpr)
        for _ in range(2):
            ASKED[name](spread(fresh(), kind), x)
        before, gone = alive(is_jaxpr), []
        for _ in range(4):
            fun = spread(fresh(), kind)
            gone.append(weakref.ref(fun))
            ASKED[name](fun, x)
            del fun
        assert alive(is_jaxpr) <= before
        assert [one() for one in gone] == [None] * 4
