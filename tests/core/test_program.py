"""The program object: tracing, calling, tagging, collecting, and several injectors."""

import re

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, INJECTABLE
from checks import as_bits, assert_close, check_types
from loops import levels
from reference import Reference

import taxpr
from taxpr import tag

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")


def model(params, x, *, power):
    h = tag(jnp.tanh(params["w"] * x), name="h")

    def step(c, t):
        return tag(c + t * h[0], name="c"), c

    c, ys = jax.lax.scan(step, jnp.float32(0), jnp.arange(3.0))
    return {"out": h**power, "ys": ys, "c": c}


ARGS = ({"w": jnp.arange(2.0)}, jnp.ones(2))


def program():
    return taxpr.trace(model, static_argnames="power")(*ARGS, power=2)


# ---- tracing and calling -----------------------------------------------------


@pytest.mark.smoke
def test_names_and_values():
    p = program()
    assert (p.name, p.in_names) == ("model", ("params['w']", "x"))
    assert p.out_names == ("out['c']", "out['out']", "out['ys']")
    expected = model(*ARGS, power=2)
    assert_close(p(*ARGS), expected)
    assert_close(jax.jit(p)(*ARGS), expected)


def test_static_arguments_by_position_and_shapes_instead_of_arrays():
    p = taxpr.trace(lambda n, x: x * n, static_argnums=0)(3, jax.ShapeDtypeStruct((2,), "int32"))
    assert p(jnp.asarray([1, 2])).tolist() == [3, 6]


def test_results_are_arrays_also_where_the_program_holds_a_number():
    def f(x):
        numbers = 2.0, 3, True, 1j, jnp.float32(1.5), jnp.int8(4), np.ones(2, np.float32)
        return numbers, tag(jnp.zeros((), jnp.bfloat16), name="zero"), x

    program = taxpr.trace(f)(1.0)
    collected, injected = program.collect("zero"), program.inject({"zero": taxpr.add(1.0)})
    called = [
        (program, program(1.0)),
        (collected, collected(1.0)),
        (injected, injected(injected.ctx, 1.0)),
    ]
    for one, results in called:
        for result, aval in zip(jax.tree.leaves(results), one.out_avals, strict=True):
            assert isinstance(result, jax.Array)
            assert jax.typeof(result) == aval


def test_keyword_arguments():
    p = taxpr.trace(lambda a, b=2.0, *, c: a - b * c)(1.0, c=5.0, b=3.0)
    assert p(1.0, b=3.0, c=5.0) == -14.0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (({"w": jnp.ones(2)},), r"model: missing a required argument: .* It was traced as model\("),
        (({"w": jnp.ones(2)}, jnp.ones(3)), r"traced with x: float32\[2\] .* float32\[3\]"),
        (({"w": jnp.arange(2)}, jnp.ones(2)), r"with params\['w'\]: float32\[2\] .* int32\[2\]"),
        (({"w": "no"}, jnp.ones(2)), r"the argument params\['w'\] is a str"),
    ],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(taxpr.ArgumentError, match=message):
        program()(*args)


def test_a_program_that_forgot_its_context():
    injected = program().inject(taxpr.count(), where="h")
    with pytest.raises(taxpr.ArgumentError, match=r"takes its context first: injected\(injected"):
        injected(*ARGS)


def test_what_is_no_function_and_no_address():
    with pytest.raises(taxpr.ArgumentError, match="trace: 3 is an int, not a function"):
        taxpr.trace(3)
    with pytest.raises(taxpr.SelectorError, match=r"where=3 is an int\. A selector is a name"):
        program().tag_at(3, name="x")


def test_a_program_is_shown_in_one_line():
    shown = "<Program model(float32[2], float32[2]) -> float32[], float32[2], float32[3]; 2 tags>"
    assert repr(program()) == shown


# ---- tag_at ------------------------------------------------------------------


def is_ref(var):
    return hasattr(var.aval, "inner_aval")


def value_addresses(jaxpr, prefix=""):
    """The address of every array value of a program."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for kind, variables in (("in", inner.invars), ("const", inner.constvars)):
        yield from (f"{prefix}{kind}{k}" for k, var in enumerate(variables) if not is_ref(var))
    for local, eqn in taxpr.numbered(inner):
        yield from (f"{prefix}{local}.{k}" for k, var in enumerate(eqn.outvars) if not is_ref(var))
        for nested in taxpr.nested_jaxprs(eqn):
            if nested.param is None:
                continue  # hidden: cannot be replaced, and tag_at says so
            yield from value_addresses(nested.stored, f"{prefix}{local}/{nested.label}/")


@pytest.mark.spread(6)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_every_value_can_be_tagged_and_no_address_moves(case):
    p = taxpr.trace(case.fn)(*case.args)
    expected = jax.jit(p)(*case.args)
    before = list(value_addresses(p.jaxpr))
    eqns = [address for address, _ in taxpr.iter_eqns(p.jaxpr)]
    for address in before:
        new = p.tag_at(address, name="added", number=7)
        check_types(new.jaxpr)
        [site] = new.tags("added")
        assert site.params == {"name": "added", "number": 7}
        assert len(new.tags()) == len(p.tags()) + 1
        after = set(value_addresses(new.jaxpr))
        assert {a for a in before if "/t" not in a and a[0] != "t"} <= after
        if "/t" not in address and address[0] != "t":
            assert site.value_address == address
        back = new.dissolve("added")
        assert [a for a, _ in taxpr.iter_eqns(back.jaxpr)] == eqns
    last = jax.tree.leaves(jax.jit(new)(*case.args))
    for a, b in zip(last, jax.tree.leaves(expected), strict=True):
        assert np.array_equal(as_bits(a), as_bits(b))


# Constants; and what only a derivative runs, which is refused.
NOT_INJECTED = re.compile("const|/matvec/|/vecmat/|/transpose_solve/")


@pytest.mark.spread(4)
@pytest.mark.parametrize("case", INJECTABLE, ids=repr)
def test_an_injector_at_any_value_agrees_with_the_reference(case):
    """A few values of each program, chosen by position: first, middle, last."""
    p = taxpr.trace(case.fn)(*case.args)
    addresses = [a for a in value_addresses(p.jaxpr) if not NOT_INJECTED.search(a)]
    for address in {addresses[0], addresses[len(addresses) // 2], addresses[-1]}:
        tagged = p.tag_at(address, name="here")

        def injector(n, token, params):
            changed = jnp.issubdtype(token.dtype, jnp.floating)
            return token * jnp.asarray(0.75, token.dtype) if changed else token, n + 1

        injected = tagged.inject(injector, 0, where="here", shards="psum")
        out, n = injected(injected.ctx, *case.args)
        reference = Reference(injector, jnp.int32(0), lambda params: params.get("name") == "here")
        expected = reference(tagged.jaxpr, *case.args)
        assert_close(out, expected, case.tolerance)
        assert n == reference.ctx


def test_one_of_two_calls_of_a_shared_jaxpr():
    @jax.jit
    def double(x):
        return x * 2

    p = taxpr.trace(lambda x: double(double(x)))(1.0)
    tagged = p.tag_at("1:jit/call/0:mul", name="second")
    injected = tagged.inject(taxpr.replace(10.0), where="second")
    assert injected(injected.ctx, 1.0)[0] == 10.0
    assert len(tagged.tags()) == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("9:sin", r"no equation '9:sin' in the program; it has \d+ equations, '0:mul' to"),
        ("0:sin", r"there it is '0:mul', so the address may be of another program"),
        ("0:mul.3", r"mul \(.*, at 0:mul\) has 1 result"),
        ("0:mul.x", r"'x' is no number of a result"),
        ("in7", r"the program has 2 inputs"),
        ("0:mul/body/in0", r"at 0:mul\) has no nested jaxpr, not 'body'"),
    ],
)
def test_addresses_that_lead_nowhere(address, message):
    with pytest.raises(taxpr.AddressError, match=message):
        program().tag_at(address, name="x")


def test_an_address_that_ends_at_a_jaxpr_and_one_of_several_results():
    p = taxpr.trace(lambda x: jax.lax.scan(lambda c, _: (c * 2, c), x, None, length=2))(1.0)
    with pytest.raises(taxpr.AddressError, match="ends at a nested jaxpr"):
        p.tag_at("0:scan/body", name="x")
    with pytest.raises(taxpr.AddressError, match=r"has 2 results. Say which .*0:scan\.0"):
        p.tag_at("0:scan", name="x")


# ---- collect -----------------------------------------------------------------


@pytest.mark.smoke
def test_collect_stacks_the_iterations_of_scans():
    def f(xs):
        def outer(c, x):
            def inner(d, y):
                d = tag(d + y * x, name="d")
                return d, None

            return jax.lax.scan(inner, c, xs, reverse=True)[0], tag({"x": x}, name="x")

        return jax.lax.scan(outer, jnp.float32(0), xs)

    xs = jnp.asarray([1.0, 2.0, 3.0])
    p = taxpr.trace(f)(xs)
    out, values = p.collect()(xs)
    assert_close(out, f(xs))
    assert values["x"]["x"].tolist() == xs.tolist()
    assert values["d"].shape == (3, 3)
    assert values["d"][0].tolist() == [6.0, 5.0, 3.0]
    shapes = jax.eval_shape(p.collect("d"), xs)[1]["d"]
    assert (shapes.shape, shapes.dtype) == ((3, 3), jnp.float32)


def test_collect_in_branches_and_while():
    def f(x):
        y = jax.lax.cond(x > 1, lambda x: tag(x * 10, name="yes"), lambda x: tag(-x, name="no"), x)

        def go_on(c):
            return tag(c, name="go_on") < 4

        return y, jax.lax.while_loop(go_on, lambda c: tag(c + 1, name="body"), x)

    p = taxpr.trace(f)(2.0).collect()
    out, values = jax.jit(p)(2.0)
    assert out == (20.0, 4.0)
    assert values["yes"] == taxpr.Masked(20.0, True)
    assert values["no"] == taxpr.Masked(0.0, False)
    assert values["go_on"] == taxpr.Last(4.0, 3)
    assert values["body"] == taxpr.Last(4.0, 2)
    _, values = p(9.0)
    assert values["go_on"] == taxpr.Last(9.0, 1)
    assert values["body"] == taxpr.Last(0.0, 0)


def test_collect_in_a_branch_in_a_scan_and_in_a_scan_in_a_while():
    def f(xs):
        def step(c, x):
            c = jax.lax.cond(x > 1, lambda c: tag(c + 1, name="b"), lambda c: c, c)
            return c, None

        c = jax.lax.scan(step, 0.0, xs)[0]

        def body(c):
            return jax.lax.scan(lambda c, x: (tag(c + x, name="s"), None), c, xs)[0]

        return jax.lax.while_loop(lambda c: c < 9, body, c)

    xs = jnp.asarray([0.0, 2.0, 3.0])
    _, values = taxpr.trace(f)(xs).collect()(xs)
    assert values["b"].value.tolist() == [0.0, 1.0, 2.0]
    assert values["b"].mask.tolist() == [False, True, True]
    assert values["s"].value.tolist() == [7.0, 9.0, 12.0]
    assert values["s"].count == 2


def test_collect_composes_with_grad_and_vmap():
    def f(x):
        return tag(jnp.sin(x), name="s") * 2

    p = taxpr.trace(f)(1.0).collect("s")
    _, values = jax.vmap(p)(jnp.arange(3.0))
    assert_close(values["s"], jnp.sin(jnp.arange(3.0)))
    assert_close(jax.grad(lambda x: p(x)[1]["s"])(1.0), jnp.cos(jnp.float32(1)))


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", INJECTABLE, ids=repr)
def test_collected_values_are_those_of_the_reference(case):
    """All values of every tag in their order, how often it fired, and whether it did."""
    p = taxpr.trace(case.fn)(*case.args)
    names = [site.name for site in p.tags()]
    for site in p.tags():
        if names.count(site.name) > 1:
            with pytest.raises(taxpr.SelectorError, match="two tags have the name"):
                p.collect(site.name)
            continue
        fired = []

        def injector(ctx, token, params, name=site.name, fired=fired):
            if params["name"] == name:
                fired.append(token)
            return token, ctx

        Reference(injector)(p.jaxpr, *case.args)
        out, values = p.collect(site)(*case.args)
        assert_close(out, p(*case.args), case.tolerance)
        value = values[site.name]
        if isinstance(value, taxpr.Last):
            assert int(jnp.sum(value.count)) == len(fired)
            went, value = value.count > 0, value.value
        elif isinstance(value, taxpr.Masked):
            assert int(jnp.sum(value.mask)) == len(fired)
            went, value = value.mask, value.value
        else:
            went = jnp.ones([step.nested.trips for step in levels(site)], bool)
            assert went.size == len(fired)
        if site.trips is None and went.ndim:
            continue  # a while loop in a scan: the last of each iteration, not all
        expected = fired[-1:] if site.trips is None else fired
        rows = [jax.tree.map(lambda x, i=i: x[i], value) for i in np.ndindex(went.shape) if went[i]]
        if case.name == "scan_reverse":
            expected = expected[::-1]  # values stand where their x stands
        assert_close(rows, expected, case.tolerance)


def test_refs_of_the_user_keep_working():
    new_ref = getattr(jax, "new_ref", None) or getattr(jax, "array_ref", None)
    new_ref = new_ref or jax.experimental.mutable_array  # 0.7

    def in_scan(v):
        r = new_ref(jnp.float32(0))

        def step(c, x):
            r[...] += c
            return tag(c + x, name="c"), r[...]

        return jax.lax.scan(step, jnp.float32(1), v), r[...]

    def in_jit_and_cond(x):
        r = new_ref(x)

        @jax.jit
        def double(y):
            r[...] = r[...] * 2
            return tag(y, name="h") + r[...]

        return double(x), jax.lax.cond(x > 0, lambda: tag(r[...] + 1, name="t"), lambda: r[...])

    for fn, arg, expected, n in (
        (in_scan, jnp.arange(3.0), ((16.0, [1.0, 3.0, 9.0]), 9.0), 3),
        (in_jit_and_cond, jnp.float32(2), (8.0, 10.0), 2),
    ):
        p = taxpr.trace(fn)(arg)
        doubled = p.inject(lambda n, t, _: (t * 2, n + 1), 0)
        out, count = jax.jit(doubled)(doubled.ctx, arg)
        assert jax.tree.map(lambda x: x.tolist(), out) == expected
        assert count == n
        assert_close(jax.jit(p.collect())(arg)[0], jax.jit(p)(arg))


@pytest.mark.parametrize("how", [{"static_argnums": 1}, {"static_argnames": "n"}])
def test_static_arguments_by_position_and_by_keyword_alike(how):
    def power(x, n):
        assert isinstance(n, int)
        return x**n

    for p in (taxpr.trace(power, **how)(2.0, 3), taxpr.trace(power, **how)(2.0, n=3)):
        assert p.in_names == ("x",)
        assert p(2.0) == 8.0


def test_static_arguments_left_to_their_defaults():
    p = taxpr.trace(lambda x, n=3: x * n, static_argnums=1)(2.0)
    assert p(2.0) == 6.0


# ---- several injectors -------------------------------------------------------


def test_several_injectors_in_one_pass():
    p = program()
    changed = p.inject({"h": taxpr.zero(), "c": taxpr.record()})
    out, ctx = jax.jit(changed)(changed.ctx, *ARGS)
    assert out["out"].tolist() == [0.0, 0.0]
    [report] = changed.report(ctx)["c"].values()
    assert report["values"].tolist() == [0.0, 0.0, 0.0]
    assert int(report["count"]) == 3
    assert changed.tags() == []


def test_a_slider_does_not_compile_again():
    p = program().inject({"h": taxpr.scale(2.0)})
    traces = []

    @jax.jit
    def run(ctx, *args):
        traces.append(1)
        return p(ctx, *args)

    for factor in (1.0, 0.5):
        ctx = {"h": {**p.ctx["h"], "values": {"factor": jnp.float32(factor)}}}
        out, _ = run(ctx, *ARGS)
        assert_close(out["out"], (jnp.tanh(jnp.arange(2.0)) * factor) ** 2)
    assert len(traces) == 1


def test_a_predicate_as_a_key_has_a_name_that_is_the_same_in_each_run():
    def is_h(site):
        return site.name == "h"

    line = is_h.__code__.co_firstlineno
    is_c, never = lambda site: site.name == "c", taxpr.maybe(lambda site: False)
    both = taxpr.maybe("no"), taxpr.maybe(lambda site: False)
    changed = program().inject({where: taxpr.count() for where in (is_h, is_c, never, both)})
    here = is_h.__qualname__.removesuffix("is_h")
    names = [
        f"{here}is_h:{line}",
        f"{here}<lambda>:{line + 4}",
        f"{here}<lambda>:{line + 4} #2",
        f"(no, {here}<lambda>:{line + 5})",
    ]
    assert list(changed.report(changed.ctx)) == names
    _, ctx = changed(changed.ctx, *ARGS)
    assert [len(report) for report in changed.report(ctx).values()] == [1, 1, 0, 0]
    [counted] = changed.report(ctx)[names[1]].values()
    assert counted == {"count": 3}


def test_two_selectors_of_one_tag():
    with pytest.raises(taxpr.SelectorError, match=r"'h' and '\*' both select the tag 'h'"):
        program().inject({"h": taxpr.zero(), "*": taxpr.count()})


def test_the_context_of_an_injector_is_its_own():
    with pytest.raises(taxpr.ArgumentError, match=r"scale.* has a context of its own"):
        program().inject(taxpr.scale(1.0), 0, where="h")
    with pytest.raises(taxpr.ArgumentError, match="neither ctx nor where"):
        program().inject({"h": taxpr.zero()}, where="h")


def test_chains_of_programs():
    injected = program().tag_at("in1", name="x").inject(taxpr.scale(0.0), where="x")
    (out, ctx), values = injected.collect("h")(injected.ctx, *ARGS)
    assert values["h"].tolist() == [0.0, 0.0]
    assert set(ctx) == {"values", "state"}
    assert out["out"].tolist() == [0.0, 0.0]


def test_closing_over_tracers():
    """An injector may close over values of a trace around it, at any depth."""

    def f(x):
        inner = jax.jit(lambda c: tag(c, name="c"))
        return jax.lax.scan(lambda c, _: (inner(c), None), x, None, length=2)[0]

    p = taxpr.trace(f)(1.0)

    @jax.jit
    def outer(s):
        return jax.grad(lambda s: p.inject(lambda c, t, _: (t * s, c), ())((), 3.0)[0])(s)

    assert_close(outer(2.0), jnp.float32(12.0))


def test_eager_values_of_the_program_are_not_donated():
    x = jnp.ones(3)
    p = taxpr.trace(jax.jit(lambda x: tag(x + 1, name="x"), donate_argnums=0))(x)
    injected = p.inject(taxpr.count())
    eqn = injected.eqns[0]
    assert isinstance(eqn, jex.JaxprEqn)
    assert eqn.params["donated_invars"] == (False, True)
    assert eqn.params["name"] == "<lambda>"


def test_a_context_that_is_changed_changes_no_program():
    program = taxpr.trace(lambda x: tag(x, name="x"))(1.0).inject({"x": taxpr.scale(2.0)})
    ctx = program.ctx
    ctx["x"]["values"]["factor"] = jnp.float32(5.0)
    assert program.ctx["x"]["values"]["factor"] == 2
    assert program(ctx, 1.0)[0] == 5


def test_a_ref_as_an_argument():
    ref = jax.new_ref if hasattr(jax, "new_ref") else jax.array_ref
    total = ref(jnp.float32(1))

    def f(r, x):
        r[...] = r[...] + tag(x * 2, name="q")
        return r[...]

    program = taxpr.trace(f)(total, 1.0)
    assert program(total, 1.0) == 3.0
    assert jax.jit(program)(total, x=2.0) == 7.0
    assert taxpr.collect(f)(total, 1.0)[1]["q"] == 2.0
    out, count = taxpr.inject(f, lambda c, token, _: (token * 2, c + 1))(0, total, 1.0)
    assert (out, count, total[...]) == (13.0, 1, 13.0)
    for given, shown in (
        (1.0, r"float32\[\]"),
        (ref(jnp.ones(2)), r"Ref\{float32\[2\]\}"),
        ("text", "str"),
    ):
        match = rf"f was traced with r: Ref\{{float32\[\]\}} and was called with {shown}"
        with pytest.raises(taxpr.ArgumentError, match=match):
            program(given, 1.0)
    with pytest.raises(taxpr.ArgumentError, match="x is a Ref, which is no array"):
        program(total, total)


# ---- donated arguments ---------------------------------------------------------


doubled = jax.jit(lambda x: x * 2, donate_argnums=0)


def donating(x):
    """An inner jit donates the argument twice, and it is used again after that."""
    return doubled(x) + doubled(tag(x, name="x")) + x


@pytest.mark.parametrize(
    ("traced", "given"),
    [
        (np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32)),
        (jnp.zeros(3, jnp.bfloat16), np.ones(3, jnp.bfloat16)),
        (1.5, 2.5),
        (1.5, np.float32(2.5)),
        (jnp.float32(1.5), 2.5),
        (3, 4),
        (1j, 2j),
    ],
    ids=str,
)
def test_what_is_in_no_buffer_may_be_donated_often(traced, given):
    """As where the function is called: each call puts it in a buffer of its own."""
    program = taxpr.trace(donating)(traced)
    expected = jax.jit(lambda x: 5 * x)(given)
    found = program(given)
    assert_close(found, expected)
    assert jax.typeof(found).weak_type == jax.typeof(traced).weak_type
    counted = program.inject(taxpr.count())
    assert_close(counted(counted.ctx, given)[0], expected)
    assert_close(program.collect()(given)[0], expected)
    assert_close(jax.jit(lambda: program(given))(), expected)
