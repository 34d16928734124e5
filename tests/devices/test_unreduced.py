"""Values of which each device has a part, and those whose cotangents are such values.

JAX calls these *unreduced* and *reduced*. Each program is compared with the same one without
such types, in which `jax.lax.psum` makes one value of the parts.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from devices.by_hand import mesh
from devices.everything import all_of
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

# Up to 0.7 JAX has these types and no way to make values of them.
pytestmark = pytest.mark.newest_only

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
W = np.float32(2.0)
OUT = P("j", unreduced={"i"})


def mapped(body, out_spec):
    """``body(x, w)`` for each shard of ``x``; ``w`` is the same on all devices."""

    def f(x, w, w_spec):
        specs = P("i", "j"), w_spec
        return jax.shard_map(body, in_specs=specs, out_specs=out_spec)(x, w)

    return f


def shards(x, w):
    return tag(jnp.sin(x) * w, name="h")


def weights(x, w):
    return jnp.sin(x) * tag(w, name="h")


def weights_in_a_loop(x, w):
    return lax.scan(lambda c, _: (jnp.sin(c) * tag(w, name="h"), None), x, None, length=3)[0]


def weights_in_a_branch(x, w):
    positive = lax.psum(jnp.sum(x), ("i", "j")) > 0
    return lax.cond(positive, lambda: x * tag(w, name="h"), lambda: x)


REDUCED = [shards, weights, weights_in_a_loop, weights_in_a_branch]


@pytest.mark.spread(6)
@pytest.mark.parametrize("body", REDUCED, ids=lambda f: f.__name__)
def test_reduced_operands(body):
    f = mapped(body, P("i", "j"))
    same_as_without(
        lambda x, w: f(x, w, P(reduced={"i", "j"})),
        lambda x, w: f(x, w, P()),
        P(reduced={"i", "j"}),
    )


def of_parts(x, w):
    return lax.pcast(tag(jnp.sin(x).sum(0) * w, name="h"), "i", to="unreduced")


def parts(x, w):
    return tag(lax.pcast(jnp.sin(x).sum(0) * w, "i", to="unreduced"), name="h")


def parts_in_a_loop(x, w):
    y = lax.pcast(jnp.sin(x).sum(0) * w, "i", to="unreduced")
    return lax.scan(lambda c, _: (c + tag(c, name="h"), None), y, None, length=2)[0]


def with_sums(name):
    """The program by that name, in which there are no parts."""

    def of_parts(x, w):
        return lax.psum(tag(jnp.sin(x).sum(0) * w, name="h"), "i")

    def parts(x, w):
        return tag(lax.psum(jnp.sin(x).sum(0) * w, "i"), name="h")

    def parts_in_a_loop(x, w):
        y = lax.psum(jnp.sin(x).sum(0) * w, "i")
        return lax.scan(lambda c, _: (c + tag(c, name="h"), None), y, None, length=2)[0]

    return locals()[name]


@pytest.mark.spread(2)
@pytest.mark.parametrize("body", [of_parts, parts, parts_in_a_loop], ids=lambda f: f.__name__)
def test_unreduced_results(body):
    def f(x, w):
        y = mapped(body, OUT)(x, w, P())
        return jax.sharding.reshard(y, P("j"))

    g = mapped(with_sums(body.__name__), P("j"))
    # JAX itself has no derivative of a loop in which such a value is.
    has_gradient = body is not parts_in_a_loop
    same_as_without(f, lambda x, w: g(x, w, P()), has_gradient=has_gradient)


def test_unreduced_values_outside_of_the_shard_map():
    def f(x, w):
        y = mapped(lambda x, w: lax.pcast(jnp.sin(x).sum(0) * w, "i", to="unreduced"), OUT)
        return jax.sharding.reshard(tag(y(x, w, P()), name="h"), P("j"))

    def g(x, w):
        y = mapped(lambda x, w: lax.psum(jnp.sin(x).sum(0) * w, "i"), P("j"))
        return tag(y(x, w, P()), name="h")

    same_as_without(f, g)


def same_as_without(f, g, w_spec=None, has_gradient=True):
    """``f`` and ``g`` mean the same, whatever is done with their tags."""
    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = jax.device_put(X, P("i", "j"))
        w = W if w_spec is None else jax.device_put(W, w_spec)
        found = jax.jit(all_of(f, has_gradient))(x, w)
        expected = jax.jit(all_of(g, has_gradient))(x, W)
    assert_close(found, expected, 1e-4)


def test_where_devices_go_apart_their_parts_are_not_joined():
    def body(x, w):
        y = lax.pcast(jnp.sin(x).sum(0) * w, "i", to="unreduced")
        apart = lambda y: tag(y, name="h")
        return lax.cond(x[0, 0] > 0, apart, lambda y: y, y)

    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = jax.device_put(X, P("i", "j"))
        program = taxpr.trace(lambda x, w: mapped(body, OUT)(x, w, P()))(x, W)
        with pytest.raises(taxpr.RefusedError, match="no longer go the same way through the cond"):
            program.collect()


def test_the_specs_of_a_shard_map_are_told():
    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = jax.device_put(X, P("i", "j"))
        w = jax.device_put(W, P(reduced={"i", "j"}))
        w_spec = P(reduced={"i", "j"})
        [eqn] = taxpr.trace(lambda x, w: mapped(shards, P("i", "j"))(x, w, w_spec))(x, w).eqns
    [nested] = taxpr.nested_jaxprs(eqn)
    assert nested.facts["in_specs"] == ("P('i', 'j')", "P(reduced={'i', 'j'})")


def test_parts_of_which_the_greatest_counts():
    """JAX makes them from an array and not from one value, which so cannot be put there."""
    spec = P("j", unreduced={"i"}, unreduced_kind=jax.sharding.UnreducedKind.max)

    def f(x):
        greatest = lax.reduce_max(jnp.sin(x), (0,), out_sharding=spec)
        return jax.sharding.reshard(tag(greatest, name="h"), P("j"))

    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = jax.device_put(X, P("i", "j"))
        program = taxpr.trace(f)(x)
        out, values = jax.jit(program.collect())(x)
        assert_close((out, values["h"]), (np.sin(X).max(0),) * 2)
        with pytest.raises(
            taxpr.InjectorError, match="one part for each device along i, which JAX"
        ):
            program.inject(taxpr.scale(2.0))
        with pytest.raises(
            taxpr.InjectorError, match=r"grad_at: tag 'h' .*at t0. asks for the grad"
        ):
            taxpr.grad_at(lambda x: f(x).sum(), "h")(x)
