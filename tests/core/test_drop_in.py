"""The names and calls of taxpr 0.0.3, and each thing that it gets wrong done right."""

import functools

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE
from checks import assert_close, check_types
from reference import Reference

import taxpr
from taxpr import TypedClosedJaxpr, tag

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")

XS = jnp.asarray([1.0, 2.0, 3.0])


def call(jaxpr, *args):
    return jex.jaxpr_as_fun(jaxpr)(*args)


def counting(n, token, params):
    """Reads the context and changes it and the token."""
    return jax.tree.map(lambda x: x + n.astype(x.dtype), token), n + 1


def injected(fn, *args, ctx=10, injector=counting):
    jaxpr = jax.make_jaxpr(fn)(*args)
    new = taxpr.inject(jaxpr, injector, ctx)
    check_types(new)
    *outs, n = call(new, jnp.int32(ctx), *args)
    reference = Reference(injector, jnp.int32(ctx))
    assert_close(outs, reference(jaxpr, *args))
    assert n == reference.ctx
    return int(n)


def test_all_its_names_are_here():
    names = "tag dissolve_tags iter_tags inject partition_out transpose partial TypedClosedJaxpr"
    for name in (*names.split(), "tcj_transpose", "tcj_partition_out"):
        assert callable(getattr(taxpr, name))


# ---- the primitive -----------------------------------------------------------


def test_tagged_functions_compile_also_eager_scans_and_branches():
    assert jax.jit(lambda x: tag(x, name="x"))(2.0) == 2.0
    assert jax.lax.scan(lambda c, x: (tag(c + x), None), 0.0, XS)[0] == 6.0
    assert jax.lax.cond(True, lambda x: tag(x) * 2, lambda x: x, 3.0) == 6.0


def test_tagged_functions_have_gradients_and_transposes():
    assert jax.grad(lambda x: tag(x * x, name="x"))(3.0) == 6.0
    assert jax.linear_transpose(lambda x: tag(x * 2.0, name="x"), 1.0)(1.0) == (2.0,)


# ---- iter_tags and dissolve_tags ---------------------------------------------


def test_iter_tags_keeps_the_structure_and_finds_those_in_branches():
    def f(x):
        yes = lambda x: tag({"a": x, "b": (x, None)}, name="yes")["a"]
        return jax.lax.cond(x > 0, yes, lambda x: tag(x, name="no"), x)

    tags = {p["name"]: avals for p, avals in taxpr.iter_tags(jax.make_jaxpr(f)(1.0))}
    assert jax.tree.structure(tags["yes"]) == jax.tree.structure({"a": 0, "b": (0, None)})
    assert jax.tree.structure(tags["no"]) == jax.tree.structure(0)


def test_dissolve_tags_of_outputs_and_literals_and_the_predicate_everywhere():
    jaxpr = jax.make_jaxpr(lambda x: (tag(x, n=1), tag(3.0, n=2), tag(tag(x, n=3), n=4)))(1.0)
    new = taxpr.dissolve_tags(jaxpr)
    assert list(new.eqns) == []
    assert call(new, 5.0) == [5.0, 3.0, 5.0]
    loop = lambda x: jax.lax.map(lambda x: tag(tag(x, n=1), n=2), x)
    left = taxpr.dissolve_tags(jax.make_jaxpr(loop)(XS), lambda params, _: params["n"] == 1)
    assert [params["n"] for params, _ in taxpr.iter_tags(left)] == [2]


# ---- inject ------------------------------------------------------------------


@functools.partial(jax.jit, inline=False)
def in_jit(x):
    return tag(x * 2, name="y")


def in_switch(x):
    return jax.lax.switch(1, [lambda x: x, lambda x: tag(x * 2, name="y")], x)


LOOPS = {
    "jit": (in_jit, 11),
    "scan": (lambda x: jax.lax.scan(lambda c, x: (tag(c + x), x), x, XS)[0], 13),
    "while": (lambda x: jax.lax.while_loop(lambda c: tag(c) < 99, lambda c: tag(c * 2), x), None),
    "cond": (lambda x: jax.lax.cond(x > 0, lambda x: tag(x), lambda x: -x, x), 11),
    "switch": (in_switch, 11),
    "remat": (jax.checkpoint(lambda x: jnp.sin(tag(jnp.sin(x)))), 11),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_ctx_is_read_and_changed_inside_of(name):
    fn, n = LOOPS[name]
    ended = injected(fn, jnp.float32(2))
    assert n is None or ended == n


@jax.custom_jvp
def with_jvp(x):
    return tag(x * x, name="y")


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), 2 * primals[0] * tangents[0]))


@jax.custom_vjp
def with_vjp(x):
    return tag(x * x, name="y")


with_vjp.defvjp(lambda x: (tag(x * x, name="y"), x), lambda x, g: (2 * x * g,))


@jax.custom_batching.custom_vmap
def with_vmap(x):
    return tag(x * x, name="y")


@with_vmap.def_vmap
def _(size, batched, x):
    return jax.vmap(lambda x: tag(x * x, name="y"))(x), True


def sharded(x):
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    return jax.shard_map(lambda x: tag(x * x, name="y"), mesh=mesh, in_specs=spec, out_specs=spec)(
        x
    )


def mapped(x):
    return jax.pmap(lambda x: tag(x * x, name="y"))(x[None])[0]


@pytest.mark.parametrize("fn", [with_jvp, with_vjp, with_vmap, sharded, mapped])
def test_a_ctx_is_changed_inside_of_custom_rules_and_shards_or_that_is_refused(fn):
    jaxpr = jax.make_jaxpr(fn)(XS)
    try:
        new = taxpr.inject(jaxpr, counting, 10)
    except taxpr.RefusedError:
        return
    out, n = call(new, jnp.int32(10), XS)
    assert_close(out, XS * XS + 10)
    assert n == 11


@pytest.mark.parametrize("fn", [with_jvp, with_vjp])
def test_a_derivative_after_injection_is_that_of_what_was_injected_or_refused(fn):
    try:
        new = taxpr.inject(jax.make_jaxpr(lambda x: fn(x) * 3)(2.0), counting, 10)
    except taxpr.RefusedError:
        return
    value, gradient = jax.value_and_grad(lambda x: call(new, jnp.int32(10), x)[0])(2.0)
    assert (value, gradient) == (42.0, 12.0)


@pytest.mark.parametrize(
    ("injector", "message"),
    [
        (lambda n, t, p: (t, (n, n)), "changed the structure of the ctx"),
        (lambda n, t, p: ((t, t), n), "changed the structure of the token"),
        (lambda n, t, p: (t[None], n), r"changed token: expected float32\[\], got float32\[1\]"),
        (lambda n, t, p: (t, n.astype("float32")), r"changed ctx: expected int32\[\], got float32"),
    ],
)
def test_structure_shape_and_dtype_are_checked(injector, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.inject(jax.make_jaxpr(lambda x: tag(x, name="x"))(1.0), injector, 0)


def test_an_empty_ctx():
    new = taxpr.inject(jax.make_jaxpr(lambda x: tag(x))(1.0), lambda c, t, p: (t * 2, c), {})
    assert call(new, 3.0) == [6.0]


def test_effects_and_captured_arrays_of_the_injector(capsys):
    def injector(n, token, params):
        jax.debug.print("{}", n)
        return token * XS, n + 1

    def f(x):
        return jax.lax.scan(lambda c, _: (jax.jit(tag)(c), None), x, None, length=2)[0]

    jaxpr = taxpr.inject(jax.make_jaxpr(f)(XS), injector, 0)
    out, n = jax.jit(jex.jaxpr_as_fun(jaxpr))(jnp.int32(0), XS)
    jax.effects_barrier()
    assert (out.tolist(), n) == ((XS**3).tolist(), 2)
    assert sorted(capsys.readouterr().out.split()) == ["0", "1"]


def test_a_jit_with_a_closed_over_array():
    weights = np.arange(3.0, dtype=np.float32)
    assert injected(jax.jit(lambda x: tag(x * weights) @ weights), XS) == 11


# ---- partition_out and partial -----------------------------------------------


def two_parts(x, y):
    a = tag(jnp.sin(x), name="a")
    b = jax.lax.scan(lambda c, t: (c * t, c), y, XS)[0]
    return a, b * 2, a + b, 3.0, y


@pytest.mark.parametrize("group", [[0], [1], [2], [2, 0], [3, 4], [1, 1], [], [0, 1, 2, 3, 4]])
def test_partition_out(group):
    jaxpr = jax.make_jaxpr(two_parts)(1.0, 2.0)
    [part] = taxpr.partition_out(jaxpr, [group])
    check_types(part)
    assert type(part) is type(jaxpr)
    assert call(part, 1.0, 2.0) == [call(jaxpr, 1.0, 2.0)[index] for index in group]
    kept = {eqn.primitive.name for eqn in part.eqns}
    assert ("sin" in kept) == bool({0, 2} & set(group))
    assert ("scan" in kept) == bool({1, 2} & set(group))
    assert bool(part.consts) == ("scan" in kept)


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", INJECTABLE, ids=repr)
def test_the_parts_make_the_whole(case):
    jaxpr = jax.make_jaxpr(case.fn)(*case.args)
    whole = jax.jit(jex.jaxpr_as_fun(jaxpr))(*case.args)
    parts = taxpr.partition_out(jaxpr, [[index] for index in range(len(whole))])
    for part, expected in zip(parts, whole, strict=True):
        check_types(part)
        # Not to the bit: XLA fuses less where there is less.
        assert_close(jax.jit(jex.jaxpr_as_fun(part))(*case.args), [expected], 1e-6)


def test_partition_out_keeps_effects(capsys):
    def f(x):
        jax.debug.print("x={}", x * 7)
        taxpr.keep(x - 1, name="kept")
        return x + 1, jnp.cos(x)

    first, second = taxpr.partition_out(jax.make_jaxpr(f)(1.0), [[0], [1]])
    assert [params["name"] for params, _ in taxpr.iter_tags(first)] == ["kept"]
    assert first.effects == jax.make_jaxpr(f)(1.0).effects
    assert "cos" not in str(first)
    for part in (first, second):
        check_types(part)
        call(taxpr.dissolve_tags(part), 1.0)
        jax.effects_barrier()
        assert capsys.readouterr().out == "x=7.0\n"


def test_parts_with_refs_of_their_own():
    new_ref = getattr(jax, "new_ref", None) or getattr(jax, "array_ref", None)
    new_ref = new_ref or jax.experimental.mutable_array  # 0.7

    def f(x):
        r = new_ref(x)
        r[...] += 1
        return r[...], x * 2

    first, second = taxpr.partition_out(jax.make_jaxpr(f)(1.0), [[0], [1]])
    assert jax.jit(jex.jaxpr_as_fun(first))(1.0) == [2.0]
    assert jax.jit(jex.jaxpr_as_fun(second))(1.0) == [2.0]


@pytest.mark.parametrize("index", [-1, 2])
def test_outputs_and_inputs_that_there_are_not(index):
    jaxpr = jax.make_jaxpr(lambda x, y: (x, y))(1.0, 2.0)
    with pytest.raises(taxpr.ArgumentError, match=f"there is no output {index}; the jaxpr has 2"):
        taxpr.partition_out(jaxpr, [[index]])
    with pytest.raises(taxpr.ArgumentError, match=f"there is no input {index}; the jaxpr has 2"):
        taxpr.partial(jaxpr, {index: 1.0})


@pytest.mark.parametrize("fixed", [{}, {0: 5.0}, {1: XS}, {0: jnp.float32(5), 1: XS}])
def test_partial(fixed):
    jaxpr = jax.make_jaxpr(lambda x, y, key: (x * y * XS, x, key))(2.0, XS, jax.random.key(0))
    new = taxpr.partial(jaxpr, {**fixed, 2: jax.random.key(1)})
    check_types(new)
    args = [5.0, XS]
    left = [arg for index, arg in enumerate(args) if index not in fixed]
    out, x, key = jax.jit(jex.jaxpr_as_fun(new))(*left)
    assert_close(out, 5 * XS * XS)
    assert (x.weak_type, x) == (True, 5.0)
    assert np.array_equal(jax.random.key_data(key), jax.random.key_data(jax.random.key(1)))


def test_partial_of_traced_values():
    jaxpr = jax.make_jaxpr(lambda x, y: x * tag(y, name="y"))(1.0, 1.0)
    product = lambda x: call(taxpr.inject(taxpr.partial(jaxpr, {0: x}), counting, 10), 0, 3.0)[0]
    assert jax.jit(jax.grad(lambda x: product(x)))(2.0) == 3.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (jnp.ones(2), r"the input 0 is bfloat16\[3\], and the value given for it is float32\[2\]"),
        (jnp.ones(3), r"is bfloat16\[3\], and the value given for it is float32\[3\]. Convert it"),
        (2.0, r"is bfloat16\[3\], and the value given for it is float32\[\]"),
        ("no", r"is bfloat16\[3\], and 'no' does not fit it"),
    ],
)
def test_partial_checks_shapes_and_dtypes(value, message):
    jaxpr = jax.make_jaxpr(lambda x: x * 2)(jnp.ones(3, jnp.bfloat16))
    with pytest.raises(taxpr.ArgumentError, match=message):
        taxpr.partial(jaxpr, {0: value})


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [("bfloat16", 2, True), ("bfloat16", 2.5, True), ("int8", 2, True), ("complex64", 2.0, True),
     ("int8", 2.5, False), ("uint8", 300, False), ("float32", 2j, False)],
)  # fmt: skip
def test_python_numbers_stand_for_scalars_where_they_fit(dtype, value, fits):
    jaxpr = jax.make_jaxpr(lambda x: x)(jnp.zeros((), dtype))
    if fits:
        [out] = call(taxpr.partial(jaxpr, {0: value}))
        assert (out.dtype, out) == (dtype, value)
    else:
        with pytest.raises(taxpr.ArgumentError, match=f"the input 0 is {dtype}"):
            taxpr.partial(jaxpr, {0: value})


# ---- transpose ---------------------------------------------------------------


def test_transpose_returns_what_the_tags_mark():
    def f(x):
        pair = tag({"u": x * 2, "v": (x + 1,)}, name="pair")
        ys = jax.lax.map(lambda t: tag(jnp.cos(pair["u"]) * t, name="in scan"), XS)
        tag(None, name="empty")
        return jax.lax.cond(x > 9, lambda x: tag(x, name="yes"), lambda x: x, x), ys, jnp.tanh(x)

    jaxpr, params, structures = taxpr.transpose(jax.make_jaxpr(f)(1.0))
    check_types(jaxpr)
    assert [p["name"] for p in params] == ["pair", "in scan", "empty", "yes"]
    assert "tanh" not in str(jaxpr)
    assert [p["name"] for p, _ in taxpr.iter_tags(jaxpr)] == ["pair", "in scan", "yes"]
    leaves = jax.jit(jex.jaxpr_as_fun(jaxpr))(1.0)
    values = []
    for structure in structures:
        own, leaves = leaves[: structure.num_leaves], leaves[structure.num_leaves :]
        values.append(jax.tree.unflatten(structure, own))
    assert leaves == []
    assert values[0] == {"u": 2.0, "v": (2.0,)}
    assert_close(values[1], jnp.cos(2.0) * XS)
    assert values[2] is None
    assert values[3] == taxpr.Masked(0.0, False)


def test_transpose_refuses_what_inject_refuses():
    def f(x):
        return jax.pure_callback(lambda x: x, x, x) + jax.lax.reduce(
            x[None], 0.0, lambda a, b: tag(a, name="r") + b, (0,)
        )

    with pytest.raises(taxpr.RefusedError, match="does not inject into reduce"):
        taxpr.transpose(jax.make_jaxpr(f)(1.0))


def test_transpose_of_a_program_without_tags():
    jaxpr, params, structures = taxpr.transpose(jax.make_jaxpr(jnp.sin)(1.0))
    assert (call(jaxpr, 1.0), params, structures) == ([], [], [])


# ---- TypedClosedJaxpr --------------------------------------------------------


def model(params, x, n):
    h = tag(params["w"] * x, name="h")
    return {"h": h**n, "sum": (jnp.sum(h),)}


ARGS = ({"w": XS}, jnp.float32(2), 3)


def typed():
    return TypedClosedJaxpr.make(model, static_argnums=2)(*ARGS)


@pytest.mark.smoke
def test_typed_jaxprs_take_static_arguments():
    t = typed()
    assert_close(t.eval(*ARGS), model(*ARGS))
    assert t.in_shape[2] == 3
    assert jax.tree.structure(t.out_shape) == jax.tree.structure(model(*ARGS))
    assert t.out_shape["h"].shape == (3,)
    by_end = TypedClosedJaxpr.make(model, static_argnums=(-1,))(*ARGS)
    assert by_end.static_argnums == (2,)
    shapes = TypedClosedJaxpr.make(lambda x: x * 2)(jax.ShapeDtypeStruct((3,), jnp.float32))
    assert shapes.eval(XS).tolist() == [2.0, 4.0, 6.0]
    assert TypedClosedJaxpr.make(lambda x: x * 2)(1.0).eval(1.5) == 3.0


@pytest.mark.parametrize("ctx", [10, jnp.int32(10), np.int32(10)])
def test_typed_jaxprs_are_injected_with_a_scalar_ctx(ctx):
    t = typed().inject(counting, ctx)
    assert t.static_argnums == (3,)
    out, n = t.eval(jnp.int32(10), *ARGS)
    h = 2 * XS + 10
    assert_close(out, {"h": h**3, "sum": (jnp.sum(h),)})
    assert n == 11
    twice = t.inject(counting, {"a": 0})
    assert twice.eval({"a": jnp.int32(0)}, jnp.int32(10), *ARGS)[1]["a"] == 0


def test_typed_jaxprs_map_inputs_and_outputs():
    t = typed().map_outputs(lambda out: out["sum"][0])
    assert t.eval(*ARGS) == 12.0
    mapped = t.map_inputs(lambda x, n: ({"w": x}, x[1], n), static_argnums=1)(XS, 3)
    assert mapped.eval(XS, 3) == 12.0
    assert mapped.in_shape[1] == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (ARGS[:2], "it takes 3 arguments and was given 2"),
        ((*ARGS[:2], 4), "the argument 2 is static; it was traced as 3 and is now 4"),
        (
            ({"w": XS[:2]}, *ARGS[1:]),
            r"args\[0\]\['w'\]: float32\[3\] and was called with",
        ),
        (({"v": XS}, *ARGS[1:]), "was traced with arguments of the structure"),
        ((ARGS[0], jnp.int32(2), 3), r"args\[1\]: float32\[\] and was called with int32\[\]"),
    ],
)
def test_typed_jaxprs_check_their_arguments(args, message):
    with pytest.raises(taxpr.ArgumentError, match=message):
        typed().eval(*args)


def test_typed_jaxprs_have_no_keywords():
    with pytest.raises(taxpr.ArgumentError, match="the arguments n are given by keyword"):
        TypedClosedJaxpr.make(model, static_argnums=2)(*ARGS[:2], n=3)


def test_tcj_transpose():
    t, params = taxpr.tcj_transpose(
        TypedClosedJaxpr.make(lambda x: tag((tag(x * 2, name="a"), {"b": x}), name="ab")[0])(1.0)
    )
    assert [p["name"] for p in params] == ["a", "ab"]
    assert t.eval(3.0) == [6.0, (6.0, {"b": 3.0})]
    static, _ = taxpr.tcj_transpose(typed())
    assert_close(static.eval(*ARGS), [2 * XS])


def test_tcj_partition_out():
    t = TypedClosedJaxpr.make(lambda x: (x * 2, {"a": x + 1, "b": (x - 1,)}))(3.0)
    parts = taxpr.tcj_partition_out(t, [[0], [2, 1], [2, 0], []])
    assert [part.eval(3.0) for part in parts] == [
        (6.0, {"a": None, "b": (None,)}),
        (None, {"a": 4.0, "b": (2.0,)}),
        (6.0, {"a": None, "b": (2.0,)}),
        (None, {"a": None, "b": (None,)}),
    ]
    [h] = taxpr.tcj_partition_out(typed(), [[0]])
    assert_close(h.eval(*ARGS), {"h": (2 * XS) ** 3, "sum": (None,)})
    with pytest.raises(taxpr.ArgumentError, match="there is no output 3; the jaxpr has 3"):
        taxpr.tcj_partition_out(t, [[3]])
