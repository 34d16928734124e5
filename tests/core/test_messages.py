"""Each message of `inject` says what is wrong, where, in which line, and what to do."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr import tag

XS = jnp.arange(3.0)


def here(address):
    """The line first, and the address last."""
    return rf"\(test_messages\.py:\d+ in \S+, at {address}\)"


def loop(xs):
    def step(c, x):
        return tag(c + x, name="c"), None

    return lax.scan(step, jnp.float32(0), xs)[0]


AT_C = rf"the injector '\S+' at tag 'c' {here('0:scan/body/t0')}"


@pytest.mark.parametrize(
    ("injector", "message"),
    [
        (
            lambda c, t, _: ({"a": t}, c),
            rf"{AT_C} changed the structure of the token: expected PyTreeDef\(\*\), got "
            r"PyTreeDef\({'a': \*}\)\. Return the token with the structure that it came with",
        ),
        (
            lambda c, t, _: (t[None], c),
            rf"{AT_C} changed token: expected float32\[\], got float32\[1\]\. The program goes on "
            "with it and needs the shape",
        ),
        (
            lambda c, t, _: (t.astype(jnp.int8), c),
            rf"{AT_C} changed token: expected float32\[\], got int8\[\]\. Convert it: x\.astype\(f",
        ),
        (
            lambda c, t, _: (t, c.astype(jnp.int8)),
            rf"{AT_C} changed ctx: expected float32\[\], got int8\[\]\. Convert it",
        ),
    ],
)
def test_what_an_injector_must_keep(injector, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.trace(loop)(XS).inject(injector, jnp.float32(0))


def on_condition(c, token, params):
    return (token if token > 0 else -token), c


@pytest.mark.parametrize(
    ("injector", "error"),
    [
        (on_condition, jax.errors.TracerBoolConversionError),
        (lambda c, t, _: (t * float(t), c), jax.errors.ConcretizationTypeError),
        (lambda c, t, _: (t * np.sin(t), c), jax.errors.TracerArrayConversionError),
        (lambda c, t, _: (t * [1.0][t.astype(int)], c), jax.errors.TracerIntegerConversionError),
    ],
    ids=["if", "float", "numpy", "index"],
)
@pytest.mark.parametrize("wrapped", [lambda fn: fn, taxpr.from_function], ids=["plain", "made"])
def test_a_traced_value_where_python_needs_one(injector, error, wrapped):
    with pytest.raises(error) as info:
        taxpr.trace(loop)(XS).inject(wrapped(injector))
    said = (
        rf"raised by {AT_C}, which is called while the program is traced: .* Use jnp\.where or jax"
    )
    assert re.search(said, str(info.value))


def test_any_other_error_of_an_injector_is_only_given_its_place():
    with pytest.raises(ZeroDivisionError) as info:
        taxpr.trace(loop)(XS).inject(lambda c, t, _: (t * (1 / 0), c))
    said = rf"division by zero\nThis is raised by {AT_C}\."
    assert re.fullmatch(said, str(info.value))


class OfItsOwnError(Exception):
    def __init__(self, code, detail):
        super().__init__(code, detail)


def fails(error):
    def injector(ctx, token, params):
        raise error

    return injector


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (AssertionError(), rf"raised by {AT_C}\."),
        (KeyError("w"), rf"w\\nThis is raised by {AT_C}\."),
        (ValueError("no\n"), rf"no\nThis is raised by {AT_C}\."),
    ],
    ids=repr,
)
def test_an_error_without_a_text_of_its_own_has_its_place_too(error, message):
    with pytest.raises(type(error), match=message):
        taxpr.trace(loop)(XS).inject(fails(error))


def test_an_error_of_several_parts_keeps_them():
    with pytest.raises(OfItsOwnError) as info:
        taxpr.trace(loop)(XS).inject(fails(OfItsOwnError(3, "detail")))
    assert info.value.args == (3, "detail")
    assert re.fullmatch(rf"taxpr: raised by {AT_C}\.", info.value.__notes__[0])


@pytest.mark.parametrize(
    ("injector", "parameter"),
    [
        (taxpr.scale(jnp.ones(4)), "scale: the factor"),
        (taxpr.add(jnp.ones(4)), "add: the value"),
        (taxpr.replace(jnp.ones(4)), "replace: the value"),
        (taxpr.clip(low=jnp.ones(4)), "clip: the low"),
        (taxpr.clip(high=jnp.ones((1, 3))), "clip: the high"),
        (taxpr.noise(0, jnp.ones((2, 3))), "noise: the stddev"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_parameter_that_does_not_fit_the_token(injector, parameter):
    message = rf"{parameter} has shape \(.*\) and the token \(3,\)\. .* at tag 'v' {here('t0')}"
    program = taxpr.trace(lambda v: tag(v, name="v"))(XS)
    for given in (injector, [injector], {"v": injector}):
        with pytest.raises(taxpr.InjectorError, match=message):
            program.inject(given)


def test_parameters_that_broadcast_to_the_token():
    program = taxpr.trace(lambda v: tag(v, name="v"))(jnp.ones((2, 3)))
    for factor in (2.0, jnp.full(3, 2.0), jnp.full((2, 1), 2.0)):
        with jax.numpy_rank_promotion("allow"):
            scaled = program.inject(taxpr.scale(factor))
        assert jnp.array_equal(scaled(scaled.ctx, jnp.ones((2, 3)))[0], jnp.full((2, 3), 2.0))


def test_an_integer_that_the_token_cannot_hold_is_told_the_tag():
    message = rf"value=300 does not fit .* 255\. This is for the tag 'v' {here('t0')}"
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.trace(lambda v: tag(v, name="v"))(jnp.uint8(1)).inject(taxpr.add(300))


def test_states_and_reports_that_raise_are_told_the_tag():
    @taxpr.injector(state=lambda site: jnp.zeros(site.avals.shape), report=lambda state: state["a"])
    def shaped(token, state):
        return token, state

    program = taxpr.trace(lambda v: tag((v, v), name="v"))(XS)
    message = rf"raised by the state of the injector 'shaped' for the tag 'v' {here('t0')}"
    with pytest.raises(AttributeError, match=message):
        program.inject(shaped())
    injected = taxpr.trace(lambda v: tag(v, name="v"))(XS).inject(shaped())
    with pytest.raises(
        Exception, match=rf"raised by the report of 'shaped' at tag 'v' {here('t0')}\."
    ):
        injected.report(injected.ctx)


def test_a_selector_without_match():
    with pytest.raises(taxpr.SelectorError, match=r"'cc' does not match the only tag\. Nearest: c"):
        taxpr.trace(loop)(XS).inject(taxpr.count(), where="cc")


def test_a_param_that_is_not_hashable():
    with pytest.raises(taxpr.TagError, match=r"name=\[1\] is a list.* must be hashable: use a str"):
        taxpr.trace(lambda x: tag(x, name=[1]))(1.0)


def test_a_tag_in_an_equation_that_is_not_injected():
    def f(v):
        return lax.reduce(v, np.float32(0), lambda a, b: tag(a + b * b, name="pair"), (0,))

    message = (
        rf"the tag 'pair' {here('0:reduce/jaxpr/t0')} is inside reduce {here('0:reduce')}, and "
        r"taxpr does not inject into reduce: its jaxpr .*\. Select other tags with where=, or move "
    )
    with pytest.raises(taxpr.RefusedError, match=message):
        taxpr.trace(f)(XS).inject(taxpr.count())


def times_ctx(ctx, token, params):
    return token * ctx, ctx


def with_jvp(x):
    @jax.custom_jvp
    def f(x):
        return tag(jnp.sin(x), name="h")

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(x)


def with_vjp(x):
    @jax.custom_vjp
    def f(x):
        return tag(jnp.sin(x), name="h")

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    return f(x)


def with_solve(x):
    def solve(matvec, b):
        return tag(b / 2.0, name="h")

    return lax.custom_linear_solve(lambda x: 2.0 * x, x, solve, symmetric=True)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            with_jvp,
            rf"ctx of the injector at tag 'h' {here('0:custom_jvp_call/call/t0')}, in "
            rf"custom_jvp_call of f {here('0:custom_jvp_call')}, .*Give custom_rules=\"drop\"",
        ),
        (
            with_vjp,
            rf"ctx of the injector at tag 'h' {here('0:custom_vjp_call/call/t0')}, in "
            rf"custom_vjp_call of f {here('0:custom_vjp_call')}, .*Give custom_rules=\"drop\"",
        ),
        (
            with_solve,
            rf"custom_linear_solve {here('0:custom_linear_solve')} has .*custom_rules=\"drop\"",
        ),
    ],
)
def test_a_derivative_with_respect_to_the_ctx(fn, message):
    injected = taxpr.trace(fn)(XS).inject(times_ctx, jnp.float32(2))
    with pytest.raises(taxpr.RefusedError, match=message):
        jax.grad(lambda c: injected(c, XS)[0].sum())(jnp.float32(2))


def test_a_ctx_that_differs_between_devices():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")

    def f(x):
        body = lambda x: tag(x * 2, name="shard")
        return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)(x)

    message = (
        rf"ctx leaf float32\[\] of the injector at tag 'shard' {here('0:shard_map/body/t0')} "
        rf"differs between the devices along i when it leaves shard_map {here('0:shard_map')}\. "
    )
    with pytest.raises(taxpr.RefusedError, match=message):
        taxpr.trace(f)(XS).inject(lambda c, t, _: (t, c + t.sum()), jnp.float32(0))


def test_a_ref_as_a_token():
    def f(x):
        ref = (getattr(jax, "new_ref", None) or jax.array_ref)(x)
        return tag(ref, name="r")[...]

    with pytest.raises(
        taxpr.TagError, match=r"tag\(name='r'\): the token holds a Ref .* Tag what "
    ):
        taxpr.trace(f)(XS)


def test_a_site_of_another_program():
    [site] = taxpr.trace(lambda x: tag(x, name="other"))(1.0).tags()
    program = taxpr.trace(loop)(XS)
    stale = rf"has no tag 'other' {here('t0')}.* the site is stale, of another program .* are: "
    with pytest.raises(taxpr.SelectorError, match=stale + "c, 0:scan/body/t0"):
        program.inject(taxpr.count(), where=site)
    with pytest.raises(taxpr.SelectorError, match=stale + "c, 0:scan/body/t0"):
        program.tag_at(site, name="new")


@pytest.mark.parametrize(
    "call",
    [
        taxpr.find_tags,
        taxpr.find_values,
        taxpr.dissolve_tags,
        taxpr.transpose,
        lambda f: taxpr.partition_out(f, [[0]]),
        lambda f: taxpr.partial(f, {}),
        lambda f: list(taxpr.iter_tags(f)),
        lambda f: taxpr.tag_at(f, "0:sin", name="s"),
    ],
)
def test_a_function_in_the_place_of_a_program(call):
    message = r"is a function, not a Program or a jaxpr\. Trace it first: trace\(fun\)\(\*args\)"
    with pytest.raises(taxpr.ArgumentError, match=message):
        call(loop)
    with pytest.raises(taxpr.ArgumentError, match=r"is an int, not a Program or a jaxpr\. $"):
        call(3)


def test_a_call_that_leaves_out_the_ctx():
    message = r"inject: loop: missing .*'xs'\. The injected function takes the context first: "
    for injector in (taxpr.scale(2.0), lambda c, t, _: (t, c)):
        with pytest.raises(taxpr.ArgumentError, match=message):
            taxpr.inject(loop, injector)(XS)


def test_values_of_partial_that_are_not_by_number():
    with pytest.raises(taxpr.ArgumentError, match=r"partial: args is a float\. .* \{0: value\}"):
        taxpr.partial(jax.make_jaxpr(loop)(XS), 2.0)


def test_a_name_that_is_a_tuple_is_selected_as_a_param():
    program = taxpr.trace(lambda x: taxpr.tag(x, name=("a", 1)))(1.0)
    with pytest.raises(
        taxpr.SelectorError,
        match=r"where=\('a', 1\) is a list of selectors, .*selected by \{'name': \('a', 1\)\}",
    ):
        program.tags(("a", 1))
    assert len(program.tags({"name": ("a", 1)})) == 1


def test_an_int_that_does_not_fit():
    def injector(ctx, token, params):
        return token, ctx

    with pytest.raises(taxpr.InjectorError, match=r"the int 1099511627776, .* fit into int32.*x64"):
        taxpr.inject(lambda x: taxpr.tag(x, name="q"), injector)(2**40, 1.0)
