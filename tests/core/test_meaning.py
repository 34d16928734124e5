"""The rewrites against the reference interpreter, for every program of the table."""

import functools

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE
from checks import as_bits, assert_close, check_types, is_float
from reference import Reference

import taxpr

pytestmark = [
    pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning"),
    # What a program of a gradient does with an injection is what the reference does.
    pytest.mark.filterwarnings("ignore::taxpr.StaleDerivativeWarning"),
]

WEIGHTS = {}


def weight(name):
    """A number for each name: an order of calls shows in a sum of them."""
    return WEIGHTS.setdefault(name, 0.5 + 0.13 * len(WEIGHTS))


def reading_and_changing(ctx, token, params):
    """Reads and changes token and ctx; their order of calls shows in ``ctx["s"]``."""
    token = jax.tree.map(functools.partial(changed, ctx["s"]), token)
    seen = sum(
        (jnp.mean(x).astype(jnp.float32) for x in jax.tree.leaves(token) if is_float(x)),
        start=jnp.float32(0),
    )
    w = jnp.float32(weight(params.get("name")))
    return token, {"n": ctx["n"] + 1, "s": ctx["s"] * 0.5 + w * seen + 0.1 * w}


def changed(s, x):
    if is_float(x):
        return x * jnp.asarray(1.01, x.dtype) + (0.001 * s).astype(x.dtype)
    return x + 1 if jnp.issubdtype(x.dtype, jnp.integer) else x


def start():
    return {"n": jnp.int32(0), "s": jnp.float32(0.25)}


def injected_run(jaxpr, injector=reading_and_changing, **options):
    """``(ctx, *args) -> (outs, ctx)`` by `taxpr.inject`."""
    # On one device any way of making one context of many will do.
    new = taxpr.inject(jaxpr, injector, start(), shards="psum", **options)
    leaves, tree = jax.tree.flatten(start())

    def run(ctx, *args):
        flat = jex.jaxpr_as_fun(new)(*jax.tree.leaves(ctx), *args)
        n = len(flat) - len(leaves)
        return flat[:n], jax.tree.unflatten(tree, flat[n:])

    return run, new


def reference_run(jaxpr, ctx, *args):
    """The same by the reference; also the names of the tags in the order they fired."""
    reference = Reference(reading_and_changing, ctx)
    return reference(jaxpr, *args), reference.ctx, reference.fired


def batched(args):
    """The float arguments in a batch of three, and the axes."""
    axes = tuple(0 if np.issubdtype(a.dtype, np.floating) else None for a in args)
    new = [
        a if axis is None else np.stack([a, a * np.float32(0.5), a * np.float32(1.5)])
        for a, axis in zip(args, axes, strict=True)
    ]
    return new, axes


def of_jit(case):
    return jax.make_jaxpr(jax.jit(case.fn))(*case.args), case.args


def of_plain(case):
    return jax.make_jaxpr(case.fn)(*case.args), case.args


def of_vmap(case):
    if not case.vmap:
        return of_plain(case)
    args, axes = batched(case.args)
    return jax.make_jaxpr(jax.vmap(case.fn, in_axes=axes))(*args), args


def is_hidden(case):
    """Whether some tag is in a jaxpr that an equation keeps to itself."""
    sites = taxpr.find_tags(of_plain(case)[0])
    return any(step.nested.param is None for site in sites for step in site.steps)


def float_sum(out):
    floats = [x for x in map(jnp.asarray, jax.tree.leaves(out)) if is_float(x)]
    return sum((jnp.sum(x).astype(jnp.float32) for x in floats), start=jnp.float32(0))


def float_args(case):
    return tuple(i for i, a in enumerate(case.args) if np.issubdtype(a.dtype, np.floating))


def of_grad(case):
    grad = jax.grad(lambda *args: float_sum(case.fn(*args)), argnums=float_args(case))
    if not case.reverse or case.keeps_rule:
        return of_plain(case)
    return jax.make_jaxpr(grad)(*case.args), case.args


ORIGINS = [of_plain, of_jit, of_vmap, of_grad]
origins = pytest.mark.parametrize("origin", ORIGINS, ids=lambda f: f.__name__)
cases = pytest.mark.parametrize("case", INJECTABLE, ids=repr)


@pytest.mark.spread(8)
@origins
@cases
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_inject_agrees_with_the_reference(case, origin, mode):
    jaxpr, args = origin(case)
    run, new = injected_run(jaxpr)
    check_types(new)
    assert taxpr.find_tags(new) == []
    outs, ctx = (jax.jit(run) if mode == "jit" else run)(start(), *args)
    expected, expected_ctx, fired = reference_run(jaxpr, start(), *args)
    assert_close(outs, expected, case.tolerance)
    assert_close(ctx, expected_ctx, case.tolerance)
    assert int(ctx["n"]) == len(fired)
    if origin is of_plain and case.fires is not None:
        assert tuple(fired) == case.fires


@pytest.mark.spread(16)
@origins
@cases
def test_the_identity_changes_no_bit(case, origin):
    jaxpr, args = origin(case)
    run, new = injected_run(jaxpr, lambda ctx, token, params: (token, ctx))
    check_types(new)
    outs, ctx = jax.jit(run)(start(), *args)
    for a, b in zip(outs, jax.jit(jex.jaxpr_as_fun(jaxpr))(*args), strict=True):
        assert a.dtype == b.dtype
        assert a.weak_type == b.weak_type
        assert np.array_equal(as_bits(a), as_bits(b))
    assert ctx["s"] == start()["s"]


@pytest.mark.spread(10)
@pytest.mark.parametrize("case", [c for c in INJECTABLE if c.batches], ids=repr)
def test_vmap_of_the_injected_program_has_a_context_for_each_lane(case):
    jaxpr, _ = of_plain(case)
    run, _ = injected_run(jaxpr)
    args, axes = batched(case.args)
    outs, ctx = jax.vmap(run, in_axes=(None, *axes))(start(), *args)
    for lane in range(3):
        own = [a if axis is None else a[lane] for a, axis in zip(args, axes, strict=True)]
        expected, expected_ctx, _ = reference_run(jaxpr, start(), *own)
        assert_close(
            [x[lane] for x in jax.tree.leaves((outs, ctx))],
            (expected, expected_ctx),
            case.tolerance,
        )


@pytest.mark.spread(16)
@cases
def test_derivatives_are_those_of_the_reference(case):
    """With respect to arguments and context, of values and context; forward and reverse.

    The reference differentiates the function that is injected, whatever rules there are.
    """
    jaxpr, args = of_plain(case)
    run, _ = injected_run(jaxpr, custom_rules="drop")
    where = float_args(case)

    def total(result):
        outs, ctx, *_ = result
        return float_sum(outs) + 0.7 * ctx["s"]

    def ours(s, *floats):
        return total(run(start() | {"s": s}, *with_floats(floats)))

    def theirs(s, *floats):
        return total(reference_run(jaxpr, start() | {"s": s}, *with_floats(floats)))

    def with_floats(floats):
        new = list(args)
        for i, value in zip(where, floats, strict=True):
            new[i] = value
        return new

    at = (start()["s"], *(jnp.asarray(args[i]) for i in where))
    along = tuple(jnp.full(x.shape, 0.3 + 0.2 * i, x.dtype) for i, x in enumerate(at))
    expected = jax.jvp(theirs, at, along)
    assert_close(jax.jvp(ours, at, along), expected, 10 * case.tolerance)
    assert_close(jax.jit(lambda *at: jax.jvp(ours, at, along))(*at), expected, 10 * case.tolerance)
    if case.reverse:
        argnums = tuple(range(len(at)))
        expected = jax.grad(theirs, argnums)(*at)
        assert_close(jax.grad(ours, argnums)(*at), expected, 10 * case.tolerance)
        assert_close(jax.jit(jax.grad(ours, argnums))(*at), expected, 10 * case.tolerance)


@pytest.mark.spread(16)
@origins
@pytest.mark.parametrize("case", [c for c in INJECTABLE if not is_hidden(c)], ids=repr)
def test_dissolving_leaves_the_function_and_no_tag(case, origin):
    jaxpr, args = origin(case)
    new = taxpr.dissolve_tags(jaxpr)
    check_types(new)
    assert type(new) is type(jaxpr)
    assert taxpr.find_tags(new) == []
    assert str(taxpr.dissolve_tags(new)) == str(new)
    expected = jax.jit(jex.jaxpr_as_fun(jaxpr))(*args)
    for a, b in zip(jax.jit(jex.jaxpr_as_fun(new))(*args), expected, strict=True):
        assert np.array_equal(as_bits(a), as_bits(b))


def is_named(name, params, avals=None):
    return params["name"] == name


@pytest.mark.spread(3)
@cases
def test_only_the_selected_tags_are_injected(case):
    jaxpr, args = of_plain(case)
    names = [params["name"] for params, _ in taxpr.iter_tags(jaxpr)]
    for name in dict.fromkeys(names):
        chosen = functools.partial(is_named, name)
        new = taxpr.inject(jaxpr, reading_and_changing, start(), chosen, shards="psum")
        check_types(new)
        left = [params["name"] for params, _ in taxpr.iter_tags(new)]
        assert left == [other for other in names if other != name]
        flat = jex.jaxpr_as_fun(new)(*jax.tree.leaves(start()), *args)
        reference = Reference(reading_and_changing, start(), chosen)
        assert_close(flat[:-2], reference(jaxpr, *args), case.tolerance)
        assert_close(flat[-2:], jax.tree.leaves(reference.ctx), case.tolerance)


@pytest.mark.spread(2)
@cases
def test_injecting_one_tag_after_another_is_injecting_both(case):
    """Unselected tags live on in the injected program, and can be injected there."""
    jaxpr, args = of_plain(case)
    new = taxpr.inject(jaxpr, lambda n, t, p: (t, n + 1), 0, lambda p, _: p["name"] < "d")
    new = taxpr.inject(new, lambda n, t, p: (t, n + 1), 0)
    *outs, first, second = jex.jaxpr_as_fun(new)(jnp.int32(0), jnp.int32(0), *args)
    # inputs are [*ctx of the second, *ctx of the first, *args]; outputs end in first, second
    reference = Reference(lambda c, t, p: (t, c))
    assert_close(outs, reference(jaxpr, *args))
    assert int(first) == sum(name < "d" for name in reference.fired)
    assert int(second) == sum(name >= "d" for name in reference.fired)


def test_the_reference_leaves_no_mesh_in_what_jax_caches():
    """Once JAX has computed with a value of a shard_map, it takes others of its type for such."""
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec()
    half = lambda x: x * jnp.asarray(0.5, jnp.float16)
    x = jnp.ones(2, jnp.float16)
    body = jax.shard_map(half, mesh=mesh, in_specs=spec, out_specs=spec)
    [out] = Reference()(jax.make_jaxpr(body)(x), x)
    for value in (out, half(x)):
        assert jax.typeof(value).sharding.mesh.empty
