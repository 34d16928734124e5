"""The tag primitive, alone."""

import functools

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import keep, tag

LEAVES = [
    1,
    1.0,
    True,
    1j,
    np.float32(2),
    np.arange(3, dtype=np.int8),
    jnp.arange(3.0),
    jnp.ones((2, 0), jnp.bfloat16),
    jnp.float16(1),
]


@pytest.mark.smoke
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda x: type(x).__name__)
def test_a_leaf_comes_back_as_what_jax_would_return(leaf):
    expected = jnp.asarray(leaf)
    for out in (tag(leaf), jax.jit(lambda: tag(leaf, name="x"))()):
        assert isinstance(out, jax.Array)
        assert (out.dtype, out.shape, out.weak_type) == (
            expected.dtype,
            expected.shape,
            expected.weak_type,
        )
        assert np.array_equal(out, expected)


def test_structure_is_kept():
    token = {"a": (1.0, None), "b": [jnp.ones(2), ()], "c": {}}
    assert jax.tree.structure(tag(token)) == jax.tree.structure(token)
    assert tag(None, name="nothing") is None


def test_prng_keys():
    key = jax.random.key(1)
    out = jax.jit(lambda k: tag(k, name="k"))(key)
    assert out.dtype == key.dtype
    assert np.array_equal(jax.random.key_data(out), jax.random.key_data(tag(key)))


def test_any_keyword_may_be_a_param():
    jaxpr = jax.make_jaxpr(lambda x: tag(x, token=1, params=2, self=3, name="n", keep=4))(0.0)
    [(params, _)] = taxpr.iter_tags(jaxpr)
    assert params == {"token": 1, "params": 2, "self": 3, "name": "n", "keep": 4}


def test_params_of_mixed_types_and_any_order_make_one_program():
    one = jax.make_jaxpr(lambda x: tag(x, b=1, a="x"))(0.0)
    two = jax.make_jaxpr(lambda x: tag(x, a="x", b=1))(0.0)
    assert str(one) == str(two)


def test_unhashable_param():
    with pytest.raises(taxpr.TagError, match=r"ids=\[1\] is a list, which is not hashable"):
        tag(1.0, ids=[1])


def test_a_leaf_that_is_no_array():
    with pytest.raises(taxpr.TagError, match=r"token\['k'\]\[1\] is an object, which is no array"):
        tag({"k": [1, object()]}, name="x")


def test_refs_are_refused():
    @jax.jit
    def f():
        ref = (getattr(jax, "new_ref", None) or jax.array_ref)(jnp.zeros(3))
        tag(ref, name="r")
        return ref[...]

    with pytest.raises(taxpr.TagError, match=r"the token holds a Ref .* tag\(ref\[\.\.\.\]"):
        f()


# ---- transformations ---------------------------------------------------------


def cube(x):
    return tag(x, name="x") ** 3


def test_derivatives_pass_by():
    assert jax.grad(cube)(2.0) == 12.0
    assert jax.jvp(cube, (2.0,), (1.0,)) == (8.0, 12.0)
    assert jax.jit(jax.hessian(cube))(2.0) == 12.0
    assert jax.vjp(cube, 2.0)[1](1.0) == (12.0,)
    assert jax.linearize(cube, 2.0)[1](1.0) == 12.0
    assert jax.linear_transpose(lambda x: tag(x * 2), 1.0)(3.0) == (6.0,)


def test_grad_of_integer_leaves():
    def f(x):
        return tag({"x": x, "i": jnp.int32(2)}, name="t")["x"] ** 2

    assert jax.grad(f)(3.0) == 6.0


def test_vmap_of_a_partly_batched_tree_records_the_axes():
    def f(x, y):
        return tag((x, y), name="t")

    x, y = jnp.ones((2, 3)), jnp.ones(3)
    out = jax.vmap(f, in_axes=(1, None), out_axes=(1, None), axis_size=3)(x, y)
    assert (out[0].shape, out[1].shape) == ((2, 3), (3,))
    [site] = taxpr.find_tags(jax.make_jaxpr(jax.vmap(f, in_axes=(1, None)))(x, y))
    assert site.batch == ((3, (1, None)),)


def test_nested_vmaps_record_their_axes_innermost_first():
    inner = jax.vmap(lambda x: tag(x, name="t"), in_axes=1, out_axes=1)
    jaxpr = jax.make_jaxpr(jax.vmap(inner, in_axes=0))(jnp.ones((2, 3, 4)))
    [site] = taxpr.find_tags(jaxpr)
    assert site.avals.shape == (2, 3, 4)
    assert site.batch == ((4, (2,)), (2, (0,)))


def test_explicit_shardings_pass():
    if not hasattr(jax, "set_mesh"):
        mesh_context = jax.sharding.use_mesh
    else:
        mesh_context = jax.set_mesh
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with mesh_context(mesh):
        x = jax.device_put(jnp.arange(4.0), jax.sharding.NamedSharding(mesh, jax.P("i")))
        out = jax.jit(lambda x: tag(x, name="x") * 2)(x)
    assert jax.typeof(out).sharding == jax.typeof(x).sharding


def test_eager_shard_map():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.P("i")
    f = jax.shard_map(lambda x: tag(x, name="x") * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    assert np.array_equal(f(jnp.arange(4.0)), 2 * np.arange(4.0))


# ---- unused tags -------------------------------------------------------------


def unused(x):
    tag(jnp.exp(x), name="u")
    return x * 2


def kept(x):
    keep(jnp.exp(x), name="u")
    return x * 2


def names(jaxpr):
    return [params["name"] for params, _ in taxpr.iter_tags(jaxpr)]


def test_an_unused_tag_is_found():
    assert names(jax.make_jaxpr(jax.jit(unused))(1.0)) == ["u"]


def test_dead_code_elimination_drops_a_tag_and_leaves_a_kept_one():
    assert names(jax.make_jaxpr(jax.jit(jax.grad(jax.jit(unused))))(1.0)) == []
    jaxpr = jax.make_jaxpr(jax.jit(jax.grad(jax.jit(kept))))(1.0)
    assert names(jaxpr) == ["u"]
    new = taxpr.dissolve_tags(jaxpr)
    assert jaxpr.effects
    assert not new.effects


@pytest.mark.parametrize(
    "wrap",
    [
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
        lambda f: lambda x: jax.lax.cond(x > 0, f, lambda y: y, x),
        lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda i, c: f(c), x),
    ],
    ids=["jit", "remat", "scan", "cond", "fori"],
)
def test_kept_tags_run_everywhere_and_inject(wrap):
    f = wrap(kept)
    assert jax.jit(f)(1.0) == f(1.0)
    assert jax.jit(jax.grad(f))(1.0) == jax.grad(f)(1.0)
    jaxpr = jax.make_jaxpr(f)(1.0)
    new = taxpr.inject(jaxpr, lambda n, t, p: (t, n + 1), 0)
    assert not new.effects
    assert jex.jaxpr_as_fun(new)(jnp.int32(0), 1.0)[1] >= 1


# ---- what a tag costs --------------------------------------------------------


def layered(tagged):
    mark = functools.partial(tag, name="h") if tagged else lambda x: x

    def f(w, x):
        def step(h, w):
            h = mark(jnp.tanh(h @ w))
            return jax.lax.cond(jnp.sum(h) > 0, lambda h: mark(h * 2), lambda h: h, h), mark(h[0])

        return jax.lax.scan(step, x, w)

    return f


def hlo(f, *args):
    """The optimized program, without names and places in the source."""
    text = jax.jit(f).lower(*args).compile().as_text()
    lines = [line.split(", metadata=")[0] for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(("%", "ENTRY")))
    return [line for line in lines[start:] if not line.startswith(("FileNames", "StackFrames"))]


def test_a_tagged_function_compiles_to_the_untagged_one():
    w, x = jnp.ones((3, 4, 4)), jnp.ones(4)
    assert hlo(layered(True), w, x) == hlo(layered(False), w, x)


def test_an_injected_function_compiles_to_the_one_written_by_hand():
    w, x, s = jnp.ones((3, 4, 4)), jnp.ones(4), jnp.float32(0)

    def f(w, x):
        return jax.lax.scan(lambda h, w: (tag(jnp.tanh(h @ w), name="h"), h[0]), x, w)

    def by_hand(s, w, x):
        def step(carry, w):
            s, h = carry
            h = jnp.tanh(h @ w)
            return (s + jnp.sum(h), h * 2), carry[1][0]

        (s, h), ys = jax.lax.scan(step, (s, x), w)
        return h, ys, s

    def injector(s, token, params):
        return token * 2, s + jnp.sum(token)

    program = taxpr.trace(f)(w, x).inject(injector, s)

    def injected(s, w, x):
        (h, ys), s = program(s, w, x)
        return h, ys, s

    assert hlo(injected, s, w, x) == hlo(by_hand, s, w, x)


def in_a_scan(x):
    def step(c, w):
        keep(c * w, name="c")
        jax.checkpoint(lambda c: keep(jnp.exp(c), name="remat"))(c)
        jax.lax.cond(w > 1, lambda c: keep(c, name="branch"), lambda c: c, c)
        return jnp.sin(c), None

    return jax.lax.scan(step, x, jnp.arange(3.0))[0]


@pytest.mark.parametrize("differentiate", [jax.grad, lambda f: jax.grad(jax.grad(f))])
def test_a_loop_that_is_differentiated_keeps_its_kept_tags(differentiate):
    p = taxpr.trace(jax.jit(differentiate(in_a_scan)))(0.5)
    assert {site.name for site in p.tags()} == {"c", "remat", "branch"}
    out, values = p.collect()(0.5)
    carries = [0.5, jnp.sin(0.5), jnp.sin(jnp.sin(0.5))]
    assert np.allclose(values["c"], carries * np.arange(3.0))
    assert np.allclose(values["remat"], np.exp(carries))
    assert values["branch"].mask.tolist() == [False, False, True]
    assert out == p.dissolve()(0.5)
