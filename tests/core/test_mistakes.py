"""Mistakes that are easily made: each has a message that says what to do instead."""

import inspect
import pydoc

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr import ArgumentError, SelectorError, tag

XS = jnp.arange(3.0)


def loop(xs):
    def step(c, x):
        return tag(c + jnp.sin(x), name="carry"), None

    return lax.scan(step, jnp.float32(0), xs)[0]


PROGRAM = taxpr.trace(loop)(XS)


def test_a_program_that_was_not_traced_yet():
    for use in (
        lambda p: p.inject(taxpr.scale(0.5)),
        lambda p: p.tags(),
        lambda p: p.jaxpr,
    ):
        with pytest.raises(ArgumentError, match=r"the arguments first: trace\(loop\)\(\*args\)\."):
            use(taxpr.trace(loop))
    traced = taxpr.trace(loop)
    assert not hasattr(traced, "jaxpr")
    assert traced.__name__ == "loop"
    assert repr(traced) == "<trace(loop), to be called with arguments>"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        traced.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["memory", "profile", "compiled", "check_grad", "watch", "check"])
def test_a_question_without_arguments_says_its_own_name(name):
    with pytest.raises(ArgumentError, match=rf"^{name}\(loop\): loop\(xs\) was called with"):
        getattr(taxpr, name)(loop)()


def test_values_to_plant_without_a_name():
    with pytest.raises(ArgumentError, match=r"plant: the values are an ArrayImpl\. Give a mapping"):
        PROGRAM.plant(jnp.ones(4))


def test_function_and_injector_swapped():
    with pytest.raises(ArgumentError, match=r"the function comes first: inject\(fun, scale\("):
        taxpr.inject(taxpr.scale(0.5), loop)
    with pytest.raises(ArgumentError, match=r"is an injector, and the function comes first"):
        taxpr.inject(taxpr.scale, loop)


def test_a_selector_among_the_arguments():
    words = r"loop was given xs='carry', which is no array, .* taxpr\.collect\(loop, 'carry'\)"
    with pytest.raises(TypeError, match=words):
        taxpr.collect(loop)("carry")
    with pytest.raises(TypeError, match=words):
        taxpr.inject(loop, taxpr.count())(None, "carry")


def test_a_selector_in_the_place_of_the_ctx():
    for injector in (taxpr.scale(0.5), lambda ctx, token, params: (token, ctx)):
        with pytest.raises(ArgumentError, match=r"by its keyword: where='carry'"):
            PROGRAM.inject(injector, "carry")


def test_the_ctx_of_an_injected_function():
    counted = taxpr.inject(loop, taxpr.count())
    with pytest.raises(ArgumentError, match=r"first: injected\(injected\.init\(\*args\), \*args\)"):
        counted(None, XS)
    with pytest.raises(ArgumentError, match=r"first: injected\(injected\.ctx, \.\.\.\)"):
        PROGRAM.inject(taxpr.count())(None, XS)


def test_the_report_of_an_injected_function():
    counted = taxpr.inject(loop, {"carry": [taxpr.count(), taxpr.stats()]})
    _, ctx = jax.jit(counted)(counted.init(XS), XS)
    count, stats = counted.report(ctx, XS)["carry"]
    assert int(count["0:scan/body/t0"]["count"]) == 3
    assert int(stats["0:scan/body/t0"]["count"]) == 3
    summed = taxpr.inject(loop, lambda ctx, token, params: (token, ctx + token), 0.0)
    _, ctx = summed(0.0, XS)
    assert float(summed.report(ctx, XS)["ctx"]) == float(ctx)


def test_a_report_of_something_else():
    for injector in (taxpr.count(), {"carry": taxpr.stats()}, [taxpr.record(), taxpr.count()]):
        with pytest.raises(ArgumentError, match=r"report: the ctx has the structure .* that a run"):
            PROGRAM.inject(injector).report(0)


def test_a_jaxpr_in_the_place_of_a_function():
    jaxpr = jax.make_jaxpr(loop)(XS)
    for call in (taxpr.collect, taxpr.trace, taxpr.uncurry):
        with pytest.raises(ArgumentError, match=r"Jaxpr and not a function\. Give") as info:
            call(jaxpr)
        assert str(info.value).startswith(f"{call.__name__}: ")
        assert len(str(info.value)) < 250


def test_the_repr_of_a_program_with_many_inputs_is_short():
    tagged = PROGRAM.tag_at("*", name="all").inject(taxpr.check_finite())
    assert len(repr(tagged)) < 600
    assert "… " in repr(tagged)


def test_a_tag_that_was_used_up():
    injected = PROGRAM.inject(taxpr.scale(3.0), where="carry")
    other = PROGRAM.tag_at("in0", name="xs").inject(taxpr.scale(3.0), where="carry")
    match = r"'carry'.* The tag 'carry' was used up by .* list: \[scale\(3\.0\), record\(\)\]"
    for program in (injected, other):
        for use in (
            lambda p: p.inject(taxpr.zero(), where="carry"),
            lambda p: p.inject({"carry": taxpr.zero()}),
            lambda p: p.collect("carry"),
            lambda p: p.until("carry"),
            lambda p: p.tags("carry"),
        ):
            with pytest.raises(SelectorError, match=match):
                use(program)
    with pytest.raises(SelectorError, match=match):
        PROGRAM.plant({"carry": jnp.float32(0)}).collect("carry")
    with pytest.raises(SelectorError) as info:
        other.collect("carr")
    assert "used up" not in str(info.value)


# ---- arguments by name -------------------------------------------------------


def model(x, params, *, scale=2.0):
    return tag(x * params["w"], name="h") * scale + params["b"]


X, PARAMS = jnp.float32(3), {"w": jnp.float32(2), "b": jnp.float32(1)}


def test_arguments_by_name():
    program = taxpr.trace(model)(X, PARAMS)
    injected = program.inject(taxpr.count())
    assert float(program(x=X, params=PARAMS)) == float(program(X, params=PARAMS)) == 13.0
    assert float(injected(injected.ctx, params=PARAMS, x=X)[0]) == 13.0
    assert float(jax.jit(program)(params=PARAMS, x=X)) == 13.0
    by_name = taxpr.trace(model)(params=PARAMS, x=X, scale=1.0)
    assert float(by_name(X, PARAMS, scale=3.0)) == 19.0
    # As for the function itself, what is left out takes its default.
    assert float(by_name(X, PARAMS)) == float(model(X, PARAMS))
    again = injected.tag_at("in1", name="in").inject(taxpr.count(), where="in")
    assert float(again(again.ctx, injected.ctx, params=PARAMS, x=X)[0][0]) == 13.0


def test_static_arguments_have_no_name_in_a_call():
    def f(x, n, y=1.0):
        return x**n + y

    program = taxpr.trace(f, static_argnums=1)(X, 2, 1.0)
    assert float(program(X, 5.0)) == float(program(x=X, y=5.0)) == 14.0
    with pytest.raises(ArgumentError, match=r"f: .*'n'.* traced as f\(x, y\)"):
        program(X, n=2)


def test_names_of_a_function_with_any_arguments():
    program = taxpr.trace(lambda *xs, **more: sum(xs) + more["a"])(1.0, 2.0, a=3.0)
    assert float(program(1.0, 2.0, a=4.0)) == 7.0
    with pytest.raises(ArgumentError, match="arguments of the structure"):
        program(1.0, a=4.0)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X, PARAMS, 1.0), {}, r"model: too many positional arguments\. .* model\(x, params\)"),
        ((X,), {}, r"model: missing a required argument: 'params'\. It was traced as model\(x, p"),
        ((X,), {"param": PARAMS}, r"model: missing .*'params'"),
        ((X, PARAMS), {"scale": 3.0}, r"scale was left out when it was traced.* traced as model\("),
        ((X, {"w": X}), {}, r"the call lacks params\['b'\]\. Call it as it was traced"),
        ((X, {**PARAMS, "c": X}), {}, r"the call has params\['c'\]\. Call it"),
        ((X, {"w": X, "bias": X}), {}, r"lacks params\['b'\] and has params\['bias'\]"),
    ],
)
def test_arguments_that_do_not_fit_are_named(args, kwargs, message):
    with pytest.raises(ArgumentError, match=message):
        taxpr.trace(model)(X, PARAMS)(*args, **kwargs)


def test_containers_of_another_type():
    program = taxpr.trace(lambda x: x[0])((1.0, 2.0))
    with pytest.raises(ArgumentError, match="has containers of other types"):
        program([1.0, 2.0])


# ---- addresses ---------------------------------------------------------------


def test_an_address_that_leaves_out_the_nested_jaxpr():
    message = r"at 0:scan\) has body, not '0:sin'\. Nearest: sin \(.*, at 0:scan/body/\d+:sin\)"
    with pytest.raises(taxpr.AddressError, match=message):
        PROGRAM.tag_at("0:scan/0:sin", name="x")
    with pytest.raises(taxpr.AddressError, match=r"'0:scan/body' ends at a nested jaxpr\. Add"):
        PROGRAM.tag_at("0:scan/body", name="x")


def test_outputs_and_inputs_by_name():
    def f(d):
        y = jnp.sin(d["b"])
        return {"same": d["a"], "two": 2.0, "y": y}, tag(d["a"] * 2, name="t")

    program = taxpr.trace(f)({"a": 1.0, "b": 2.0})
    for where, address in [
        ("out0", "in0"),
        ("out2", "0:sin.0"),
        ("out3", "t0.0"),
        ("d['b']", "in1"),
        ("out[0]['y']", "0:sin.0"),
    ]:
        assert [v.address for v in taxpr.find_values(program, where)] == [address]
    assert [v.address for v in taxpr.find_values(program, ["d['b']", "out0"])] == ["in0", "in1"]
    added = program.tag_at("out2", name="y").tag_at("d['b']", name="b")
    values = added.collect(["y", "b"])({"a": 1.0, "b": 2.0})[1]
    assert (float(values["y"]), float(values["b"])) == (float(jnp.sin(2.0)), 2.0)
    with pytest.raises(
        taxpr.AddressError, match=r"'out1' is the literal 2\.0.*, which no equation"
    ):
        program.tag_at("out1", name="o")
    with pytest.raises(taxpr.AddressError, match="'out9': the program has 4 outputs"):
        program.tag_at("out9", name="o")
    scanned = PROGRAM.tag_at("0:scan/body/out0", name="o")
    assert scanned.collect("o")(XS)[1]["o"].shape == (3,)


def test_an_argument_that_is_called_like_an_address():
    program = taxpr.trace(lambda in1, x: in1 + x)(1.0, 2.0)
    assert float(program.tag_at("in1", name="i").collect("i")(1.0, 2.0)[1]["i"]) == 2.0
    assert float(program.tag_at("x", name="i").collect("i")(1.0, 2.0)[1]["i"]) == 2.0


def test_the_name_of_a_primitive():
    with pytest.raises(taxpr.AddressError, match=r"by the primitive: jax\.lax\.sin_p, no string"):
        PROGRAM.tag_at("sin", name="a")
    with pytest.raises(taxpr.AddressError) as info:
        PROGRAM.tag_at("cos", name="a")
    assert "jax.lax" not in str(info.value)


def test_help_shows_how_a_kind_is_called():
    for kind, signature in [
        (taxpr.record, "record(slots=None)"),
        (taxpr.clip, "clip(low=-inf, high=inf)"),
        (taxpr.noise, "noise(key, stddev=0.1)"),
    ]:
        text = pydoc.plain(pydoc.render_doc(kind))
        assert f"{signature} -> taxpr._injectors.injector.Injector" in text
        assert inspect.getdoc(kind) is not None
        assert inspect.getdoc(kind).splitlines()[0] in text
    assert "With ``slots=None`` there is a slot for each time" in pydoc.render_doc(taxpr.record)

    class Model:
        kind = taxpr.scale

    assert Model().kind is Model.kind is taxpr.scale


def test_a_tracer_that_leaves_an_injector():
    """JAX's error names the injector, and the line at which it begins."""
    kept = []

    def leaky(ctx, token, params):
        kept.append(token)
        return token, ctx

    line = inspect.getsourcelines(leaky)[1]
    for injector in (leaky, taxpr.from_function(leaky), [leaky, taxpr.count()]):
        PROGRAM.inject(injector, where="carry")
        with pytest.raises(
            jax.errors.UnexpectedTracerError, match=rf"leaky at \S+py:{line} traced"
        ):
            kept[-1] + 1


# ---- what has no maker, and what is no param ---------------------------------


def test_the_input_of_a_loop_has_no_source_and_no_scope():
    program = taxpr.trace(lambda xs: lax.map(lambda x: tag(x, name="x"), xs))(XS)
    [site] = program.tags()
    assert site.makers == (None,)
    assert taxpr.source_of(site.makers[0]) is None
    assert taxpr.sources_of(site.makers[0]) == ()
    assert taxpr.scope_of(site.makers[0]) == ""
    assert taxpr.scopes_of(site.makers[0]) == taxpr.transformations_of(site.makers[0]) == ()


@pytest.mark.parametrize(
    ("word", "fix"), [("cotangent", r"taxpr\.tag_cotangent\(x"), ("keep", r"taxpr\.keep\(x")]
)
def test_a_word_that_asks_for_another_function(word, fix):
    for use in (
        lambda: PROGRAM.tag_at("0:scan.0", name="s", **{word: True}),
        lambda: taxpr.tag_at(PROGRAM, "0:scan.0", **{word: True}),
        lambda: tag(1.0, **{word: True}),
        lambda: taxpr.keep(1.0, **{word: False}),
        lambda: taxpr.tag_cotangent(1.0, **{word: True}),
    ):
        with pytest.raises(taxpr.TagError, match=rf"{word}=\w+ would be a param .*{fix}"):
            use()
    assert PROGRAM.tag_at("0:scan.0", keep="a").tags()[-1].params == {"keep": "a"}


# ---- numbers of outputs and inputs -------------------------------------------

JAXPR = jax.make_jaxpr(lambda x, y: (x, y + 1))(1.0, 1.0)


@pytest.mark.parametrize("index", [2, -1, 10**9])
def test_an_output_or_input_that_is_not_there(index):
    for error in (IndexError, ArgumentError):
        with pytest.raises(error, match=rf"partition_out: there is no output {index}; .* has 2, c"):
            taxpr.partition_out(JAXPR, [[0], [index]])
        with pytest.raises(error, match=rf"partial: there is no input {index}; .* has 2, counted"):
            taxpr.partial(JAXPR, {index: 1.0})


def test_what_is_no_number_of_an_output():
    for wrong in ([0, 1], ["0"], "0"):
        with pytest.raises(ArgumentError, match=r"a list of the numbers of its outputs: \[\[0"):
            taxpr.partition_out(JAXPR, wrong)
    with pytest.raises(ArgumentError, match=r"partition_out: 'a' is a str and no number of an out"):
        taxpr.partition_out(JAXPR, [["a"]])
    with pytest.raises(ArgumentError, match=r"partial: 1\.0 is a float and no number of an input"):
        taxpr.partial(JAXPR, {1.0: 1.0})


# ---- kinds that cannot be called as they are declared ------------------------


def with_none(token):
    return token


def with_state(token, state):
    return token, state


def with_power(token, power):
    return token**power


@pytest.mark.parametrize(
    ("declared", "body", "message"),
    [
        (
            {"state": lambda site: 0},
            with_none,
            r"with_none\(token\) is called with \(token, state\), .* takes token and state, and",
        ),
        ({}, with_state, r"with_state\(token, state\) .* given a state by state=lambda site"),
        (
            {},
            with_power,
            r"missing a required argument: 'power'\. Declare its other parameters: injector\(",
        ),
        (
            {"state": lambda: 0},
            with_state,
            r"the state of with_state\(\) is called with \(site\), .*too many positional",
        ),
        (
            {"state": lambda site: 0, "report": lambda: {}},
            with_state,
            r"the report of with_state\(\) is called with \(state\)",
        ),
    ],
)
def test_a_kind_that_cannot_be_called_as_it_is_declared(declared, body, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.injector(**declared)(body)


def test_a_report_may_be_a_type_that_has_no_signature():
    kind = taxpr.injector(state=lambda site: {"n": 0}, report=dict)(with_state)
    counted = PROGRAM.inject(kind())
    assert int(counted.report(counted.ctx)["0:scan/body/t0"]["n"]) == 0
