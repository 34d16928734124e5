"""Finding jaxprs among the params of primitives that the table does not know."""

import subprocess
import sys
import textwrap
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr


class Pair(NamedTuple):
    first: Any
    second: Any


# Params must be hashable.
class HashableList(list):
    __hash__ = object.__hash__


class HashableDict(dict):
    __hash__ = object.__hash__


class Holder:
    def __init__(self, jaxpr):
        self.jaxpr = jaxpr


PLACES = {
    "inner": lambda jaxpr: {"inner": jaxpr},
    "inner[1]": lambda jaxpr: {"inner": (1, jaxpr)},
    "inner[1][0]": lambda jaxpr: {"inner": (None, (jaxpr, 2.0), "text")},
    "inner[0]": lambda jaxpr: {"shape": (1, 2), "inner": HashableList([jaxpr])},
    "inner[second]": lambda jaxpr: {"axis": 0, "inner": HashableDict(first=1, second=jaxpr)},
    "inner[1][jaxprs][0]": lambda jaxpr: {"inner": Pair((), HashableDict(jaxprs=(jaxpr,)))},
    "jaxpr": lambda jaxpr: {"_prim": Holder(jaxpr)},
}


@pytest.mark.parametrize("label", PLACES)
def test_a_jaxpr_is_found_wherever_an_unknown_primitive_keeps_it(label):
    """Also where an equation before it has the same primitive, and params without one."""
    unknown_p = jex.Primitive("unknown_hop")
    unknown_p.def_abstract_eval(lambda aval, **_: aval)
    nested = jax.make_jaxpr(lambda x: taxpr.tag(x, name="inside"))(1.0)

    def f(x):
        x = unknown_p.bind(x, **PLACES[label]("no jaxpr"))
        return unknown_p.bind(x, **PLACES[label](nested))

    jaxpr = jax.make_jaxpr(f)(1.0)
    plain, holding = jaxpr.eqns
    assert not taxpr.is_hop(plain)
    assert [n.label for n in taxpr.nested_jaxprs(holding)] == [label]
    assert [s.address for s in taxpr.find_tags(jaxpr)] == [f"1:unknown_hop/{label}/t0"]


def test_tagged_values_are_named_by_where_they_come_from():
    def f(x, y):
        x = taxpr.tag(x, name="input")
        z, y = jax.lax.cond(x > y, lambda: (x, y), lambda: (taxpr.tag(y, name="branch"), x))
        y = taxpr.tag(y, name="second")
        y = taxpr.tag(y, name="again")
        return taxpr.tag(y + z, name="sum"), taxpr.tag({"a": z, "b": x}, name="tree")

    sites = taxpr.trace(f)(1.0, 2.0).tags()
    assert {s.name: (s.address, s.value_address) for s in sites} == {
        "input": ("t0", "in0"),
        "branch": ("2:cond/branch0/t0", "2:cond/branch0/in1"),
        "second": ("t1", "2:cond.1"),
        "again": ("t2", "t1.0"),
        "sum": ("t3", "3:add.0"),
        "tree": ("t4", None),
    }


def test_pallas_is_not_imported_before_somebody_uses_it():
    """Importing it takes longer than all of taxpr; a kernel has its entry nevertheless."""
    code = """
        import sys, jax, taxpr
        assert not any("pallas" in name for name in sys.modules), "taxpr imported Pallas"
        from jax.experimental import pallas
        def double(x_ref, o_ref):
            o_ref[...] = taxpr.tag(x_ref[...], name="k") * 2
        def f(x):
            return pallas.pallas_call(double, out_shape=jax.typeof(x), interpret=True)(x)
        program = taxpr.trace(f)(jax.numpy.ones(8))
        assert [site.name for site in program.tags()] == ["k"]
        print(taxpr.injectable(program.eqns[0]))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert not found.returncode, found.stderr
    assert found.stdout.strip() == "its jaxpr is a kernel, whose instances run side by side"


X = jnp.arange(4.0)


def embedding_gradient(table):
    return jax.grad(lambda table: table[jnp.array([1, 2, 1])].sum())(table)


OF_JAX = [
    lambda x: x.at[0].add(x[1]),
    lambda x: x.at[0].subtract(x[1]),
    lambda x: x.at[0].multiply(x[1]),
    lambda x: x.at[0].min(x[1]),
    lambda x: x.at[0].max(x[1]),
    lambda x: x.at[0].set(x[1]),
    embedding_gradient,
    jax.grad(lambda x: jnp.take_along_axis(x, jnp.array([1, 2]), 0).sum()),
    lambda x: lax.reduce_window(x, 1.0, lax.mul, (2,), (1,), "VALID"),
]


@pytest.mark.parametrize("fn", OF_JAX)
def test_a_combiner_that_jax_writes_is_no_place_of_the_program(fn):
    program = taxpr.trace(fn)(X)
    combining = [
        eqn
        for _, eqn in taxpr.iter_eqns(program.jaxpr)
        if eqn.primitive.name.startswith(("scatter", "reduce_window"))
    ]
    assert combining
    assert not any(map(taxpr.is_hop, combining))
    assert not any("jaxpr/" in value.address for value in taxpr.find_values(program))
    counted = program.tag_at("*", name="all").inject(taxpr.count())
    out, _ = counted(counted.ctx, X)
    assert jnp.array_equal(out, fn(X))


@pytest.mark.parametrize(
    ("fn", "made"),
    [
        (lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * b, (0,)), ["mul", "add"]),
        (lambda x: lax.reduce(x, 0.0, lambda a, b: a + b, (0,)), ["add"]),
        (lambda x: lax.reduce_window(x, 0.0, lambda a, b: a + b, (2,), (1,), "VALID"), ["add"]),
        (lambda x: x.at[0].apply(lambda y: jnp.sin(y) * 2), ["sin", "mul"]),
        (lambda x: x.at[0].apply(lambda y: taxpr.tag(y, name="t")), ["tag"]),
    ],
)
def test_a_combiner_that_the_user_writes_is_walked(fn, made):
    program = taxpr.trace(fn)(X)
    [hop] = [eqn for eqn in program.eqns if taxpr.is_hop(eqn)]
    [nested] = taxpr.nested_jaxprs(hop)
    assert [eqn.primitive.name for eqn in nested.jaxpr.eqns] == made
    assert "combines pairs of elements" in taxpr.injectable(hop)


def test_a_tag_in_a_wrapper_that_jax_makes_of_a_combiner_is_found():
    program = taxpr.trace(
        lambda x: lax.reduce(x, 0.0, jax.jit(lambda a, b: taxpr.tag(a + b, name="t")), (0,))
    )(X)
    assert [site.name for site in program.tags()] == ["t"]
