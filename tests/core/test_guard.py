"""Guarded values pass everywhere and refuse a derivative; ended values have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import as_bits, check_types
from jax import lax

from taxpr import RefusedError
from taxpr._primitives.guard import ended, guarded, underived

TEXT = "derivative refused: here, for this reason; do that"
LEAVES = [
    jnp.float32(0.5),
    np.asarray([0.3, -0.8], np.float32),
    jnp.asarray([1, 2], jnp.bfloat16),
    jnp.complex64(1 + 2j),
    jnp.int32(3),
    jnp.asarray([True, False]),
    jax.random.key(1),
    1.5,
]


def both(leaves):
    return ended(guarded(leaves, TEXT))


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_values_dtypes_and_weak_types_stay(transform):
    out = transform(both)(LEAVES)
    for a, b in zip(out, LEAVES, strict=True):
        assert jax.typeof(a) == jax.typeof(b)
        assert np.array_equal(as_bits(jnp.asarray(a)), as_bits(jnp.asarray(b)))
    check_types(jax.make_jaxpr(both)(LEAVES))


def test_it_is_nothing_in_a_compiled_program():
    def f(x):
        return jnp.sin(x) * 2

    def guarded_f(x):
        return jnp.sin(*guarded([x], TEXT)) * 2

    def text(fn):
        return jax.jit(fn).lower(jnp.ones(3)).as_text().replace(fn.__name__, "f")

    assert text(f) == text(guarded_f)


def test_it_batches():
    x = jnp.arange(6.0).reshape(2, 3)
    assert jnp.array_equal(jax.vmap(lambda x: both([x])[0], in_axes=1, out_axes=1)(x), x)


def around(wrapped):
    """Programs ``(x, s)`` in which s goes through ``wrapped``, within each kind of equation."""

    def flat(x, s):
        return x * wrapped(s)

    return {
        "flat": flat,
        "jit": jax.jit(flat),
        "remat": jax.checkpoint(flat),
        "vmap": lambda x, s: jax.vmap(flat, in_axes=(0, None))(jnp.stack([x, x]), s).sum(),
        "scan": lambda x, s: lax.scan(lambda c, _: (flat(c, s), None), x, None, length=2)[0],
        "carry": lambda x, s: lax.scan(
            lambda c, _: ((flat(*c), c[1]), None), (x, s), None, length=2
        )[0][0],
        "cond": lambda x, s: lax.cond(x > 0, flat, lambda x, s: x, x, s),
        "while": lambda x, s: lax.while_loop(lambda c: c < 9.0, lambda c: flat(c, s), x),
    }


WAYS = sorted(around(None))


@pytest.mark.parametrize("way", WAYS)
def test_a_derivative_is_refused_in_every_equation(way):
    f = around(lambda s: guarded([s], TEXT)[0])[way]
    x, s = jnp.float32(2.0), jnp.float32(3.0)
    with pytest.raises(RefusedError, match=TEXT):
        jax.jvp(lambda s: f(x, s), (s,), (s,))
    with pytest.raises(RefusedError, match=TEXT):
        jax.jit(lambda s: jax.jvp(lambda s: f(x, s), (s,), (s,)))(s)
    if way != "while":
        with pytest.raises(RefusedError, match=TEXT):
            jax.grad(f, argnums=1)(x, s)


@pytest.mark.parametrize("way", WAYS)
def test_derivatives_with_respect_to_all_else_are_left_alone(way):
    plain, f = around(lambda s: s)[way], around(lambda s: both([s])[0])[way]
    x, s = jnp.float32(2.0), jnp.float32(3.0)

    def along_x(f):
        return jax.jvp(lambda x: f(x, s), (x,), (jnp.float32(0.5),))

    assert along_x(f) == along_x(plain)
    if way != "while":
        assert jax.grad(f)(x, s) == jax.grad(plain)(x, s)


@pytest.mark.parametrize("way", WAYS)
def test_an_ended_value_has_zero_tangent(way):
    f = around(lambda s: ended([s])[0])[way]
    x, s = jnp.float32(2.0), jnp.float32(3.0)
    assert jax.jvp(lambda s: f(x, s), (s,), (s,))[1] == 0
    # Both within one program: what has ended may go into a guard.
    g = around(lambda s: guarded(ended([s]), TEXT)[0])[way]
    assert jax.jvp(lambda s: g(x, s), (s,), (s,))[1] == 0


def test_a_transpose_is_refused():
    with pytest.raises(RefusedError, match=TEXT):
        jax.linear_transpose(lambda s: guarded([s], TEXT)[0] * 2, 1.0)(1.0)


def test_it_keeps_the_mesh_axes_over_which_a_value_varies():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")

    def body(x):
        (y,) = both([x])
        assert jax.typeof(y) == jax.typeof(x)
        return y * 2

    f = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
    x = jnp.arange(3.0)
    assert jnp.array_equal(f(x), x * 2)
    assert jnp.array_equal(jax.jit(f)(x), x * 2)


# ---- underived ---------------------------------------------------------------


def with_aux(x):
    return x * x, underived(jnp.sin(x), [x], TEXT)


@pytest.mark.parametrize("mode", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_an_aux_may_be_without_derivative_and_a_result_may_not(mode):
    x = jnp.float32(3)
    assert mode(with_aux)(x) == (9, jnp.sin(x))
    check_types(jax.make_jaxpr(with_aux)(x))
    assert mode(jax.grad(with_aux, has_aux=True))(x) == (6, jnp.sin(x))
    second = jax.grad(lambda x: jax.grad(with_aux, has_aux=True)(x)[0])
    assert mode(second)(x) == 2
    lanes = mode(jax.vmap(jax.grad(with_aux, has_aux=True)))(jnp.arange(2.0))
    assert lanes[0].tolist() == [0, 2]
    out, tangents = mode(lambda x: jax.jvp(with_aux, (x,), (x,)))(x)
    assert (out[0], tangents[0]) == (9, 18)
    assert jnp.isnan(tangents[1])
    for f in (
        lambda x: with_aux(x)[1],
        lambda x: jnp.cos(with_aux(x)[1]) + x,
        lambda x: jax.vmap(with_aux)(x[None])[1][0],
        lambda x: jax.jvp(with_aux, (x,), (x,))[1][1],
    ):
        with pytest.raises(RefusedError, match=TEXT):
            mode(jax.grad(f))(x)


def test_it_is_nothing_where_nothing_has_a_derivative():
    assert underived(3, [1.0], TEXT) == 3
    assert jax.grad(lambda x: x * underived(jnp.float32(2), [jnp.float32(1)], TEXT))(1.0) == 2
    assert "underived" not in str(jax.make_jaxpr(lambda x: underived(x, [3], TEXT))(1.0))


def test_a_value_keeps_its_tangent_where_no_source_has_one():
    f = lambda x, s: underived(x * x, [s], TEXT)
    assert jax.grad(f)(3.0, 1.0) == 6.0
    with pytest.raises(RefusedError, match=TEXT):
        jax.grad(f, argnums=1)(3.0, 1.0)
