"""Selectors of tags and of values."""

import functools
import operator
import pathlib
import re

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from checks import as_bits, assert_close, check_types

import taxpr
from taxpr import line, maybe, scope, tag

HERE = pathlib.Path(__file__)


def many(x):
    x = tag(x, name="block_0", layer=0)
    x = tag(jnp.sin(x), name="block_1", layer=1)
    return jax.jit(lambda x: tag(x, name="head", layer=1))(x)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (None, ["block_0", "block_1", "head"]),
        ("head", ["head"]),
        ("block_*", ["block_0", "block_1"]),
        ("t1", ["block_1"]),
        ("0:sin.0", ["block_1"]),
        ("1:jit/call/t0", ["head"]),
        ({"layer": 1}, ["block_1", "head"]),
        (lambda site: site.chain, ["head"]),
        (["head", "t0"], ["block_0", "head"]),
    ],
)
def test_selectors(where, names):
    p = taxpr.trace(many)(1.0)
    assert [site.name for site in p.tags(where)] == names
    assert [site.name for site in p.tags(p.tags(where))] == names


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("blok_1", r"'blok_1' matches none of the 3 tags. Nearest: block_1, block_0"),
        (["head", "nope"], "'nope' matches none of the 3 tags"),
        ({"layer": 9}, "matches none of the 3 tags. There are: block_0, block_1, head"),
        (3, "where=3 is an int. A selector is a name"),
    ],
)
def test_selectors_that_match_nothing(where, message):
    with pytest.raises(taxpr.SelectorError, match=message):
        taxpr.trace(many)(1.0).tags(where)


def test_an_exact_name_wins_over_an_address_and_an_address_over_a_glob():
    def f(x):
        x = tag(x, name="t1")
        x = tag(x + 1, name="a[0]")
        return tag(x * 2, name="a0")

    p = taxpr.trace(f)(1.0)
    assert [s.address for s in p.tags("t1")] == ["t0"]
    assert [s.name for s in p.tags("a[0]")] == ["a[0]"]
    assert [s.name for s in p.tags("t2")] == ["a0"]


def test_a_site_is_found_again_after_edits():
    p = taxpr.trace(many)(1.0)
    before = p.tags()
    edited = p.tag_at("in0", name="new", layer=0).tag_at("1:jit/call/in0", name="new", layer=1)
    assert [edited.tags(site)[0].name for site in before] == ["block_0", "block_1", "head"]
    assert [edited.tags(site)[0].address for site in before] == ["t1", "t2", "1:jit/call/t1"]
    back = edited.dissolve("new")
    assert [back.tags(site)[0].address for site in before] == [s.address for s in before]
    assert taxpr.trace(many)(1.0).tags(before[1])[0].name == "block_1"
    with pytest.raises(taxpr.SelectorError, match="matches none of the 2 tags"):
        p.dissolve("head").tags(before[2])


def test_one_key_twice():
    p = taxpr.trace(many)(1.0)
    [site] = p.tags("head")
    with pytest.raises(taxpr.SelectorError, match="the mapping has the key '1:jit/call/t0' twice"):
        p.inject({site: taxpr.zero(), site.address: taxpr.count()})


def test_recomputed_tags_can_be_left_out():
    def f(x):
        return jax.checkpoint(lambda x: jnp.sin(tag(jnp.sin(x), name="s")))(x)

    p = taxpr.trace(jax.grad(f))(1.0)
    assert [site.recomputed for site in p.tags("s")] == [False, True]
    once = p.inject(taxpr.count(), where=lambda site: not site.recomputed)
    assert sum(once(once.ctx, 1.0)[1]["state"].values()) == 1


def test_a_program_without_tags():
    with pytest.raises(taxpr.SelectorError, match=r"has no tags\. Put one"):
        taxpr.trace(jnp.sin)(1.0).inject(taxpr.zero())
    with pytest.raises(taxpr.SelectorError, match=r"has no tags\. Put one"):
        taxpr.trace(jnp.sin)(1.0).collect()
    with pytest.raises(taxpr.SelectorError, match=r"no tags\. Put one with .*taxpr\.var"):
        taxpr.trace(jnp.sin)(1.0).inject(taxpr.zero(), where="y")


# ---- primitives, scopes and lines --------------------------------------------


def model(x):
    """Scopes around jit and scan; the lines of some tags are named by their comments."""

    def block(x):
        with jax.named_scope("attention"):
            y = tag(jnp.sin(x), name="sin")  # line of sin
        with jax.named_scope("mlp/dense"):
            return tag(
                y * 2,
                name="mul",
            )

    with jax.named_scope("block_0"):
        x = block(x)
        x = jax.jit(block)(x)
    with jax.named_scope("block_1"):
        x = jax.lax.scan(lambda c, _: (block(c), None), x, None, length=2)[0]
        x = tag(x, name="carried")
    return tag(tag(jnp.cos(x), name="cos"), name="again")


def where_of(program, where):
    return [f"{site.name} {site.address}" for site in program.tags(where)]


FLAT, JIT, SCAN = "t", "2:jit/call/t", "3:scan/body/t"
SINS = [f"sin {FLAT}0", f"sin {JIT}0", f"sin {SCAN}0"]
MULS = [f"mul {FLAT}1", f"mul {JIT}1", f"mul {SCAN}1"]
CARRIED, COS, AGAIN = f"carried {FLAT}2", f"cos {FLAT}3", f"again {FLAT}4"


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (jax.lax.sin_p, SINS),
        (jax.lax.cos_p, [COS, AGAIN]),
        (jax.lax.scan_p, [CARRIED]),
        ("*:scan/*", [SINS[2], MULS[2]]),
        ([jax.lax.scan_p, "*:scan/*"], [SINS[2], MULS[2], CARRIED]),
        (scope("attention"), SINS),
        (scope("block_0"), [SINS[0], MULS[0], SINS[1], MULS[1]]),
        (scope("block_0/"), [SINS[0], MULS[0], SINS[1], MULS[1]]),
        (scope("block_1/*"), [SINS[2], MULS[2]]),
        (scope("block_?/mlp"), MULS),
        (scope("block_1/mlp/dense"), [MULS[2]]),
        (scope("dense"), MULS),
        ([scope("block_1"), maybe(scope("block_9"))], [SINS[2], MULS[2], CARRIED]),
    ],
)
def test_tags_by_primitive_and_scope(where, expected):
    assert where_of(taxpr.trace(model)(1.0), where) == expected


def test_a_token_of_several_is_selected_by_what_makes_one_of_them():
    p = taxpr.trace(lambda x: tag((x, jnp.sin(x), 1.0), name="t"))(2.0)
    assert len(p.tags(jax.lax.sin_p)) == 1
    with pytest.raises(taxpr.SelectorError, match="cos does not match the only tag"):
        p.tags(jax.lax.cos_p)


@pytest.mark.parametrize("transformed", [jax.grad, jax.vmap, jax.jit, jax.checkpoint])
def test_scopes_are_found_below_transformations(transformed):
    def f(x):
        with jax.named_scope("a"):
            y = tag(jnp.sin(x), name="in a")
            with jax.named_scope("b"):
                return tag(jnp.cos(y), name="in b")

    p = taxpr.trace(transformed(f))(jnp.ones(2) if transformed is jax.vmap else 1.0)
    assert {site.name for site in p.tags(scope("a"))} == {"in a", "in b"}
    assert {site.name for site in p.tags(scope("a/b"))} == {"in b"}
    if transformed in (jax.grad, jax.vmap):
        shown = "jvp(a)" if transformed is jax.grad else "vmap(a)"
        assert {site.name for site in p.tags(scope(f"{shown}/b"))} == {"in b"}
        assert len(p.tags(scope("*(a)"))) == 2


def test_values_of_a_backward_pass_by_its_scope():
    def f(x):
        with jax.named_scope("a"):
            return jnp.sin(x) * x

    p = taxpr.trace(jax.grad(f))(1.0)
    backward = taxpr.find_values(p, scope("transpose(jvp(a))"))
    forward = taxpr.find_values(p, scope("jvp(a)"))
    assert backward
    assert forward
    every = taxpr.find_values(p, scope("a"))
    assert len(every) == len(backward) + len(forward)


def line_of(comment):
    lines = HERE.read_text().splitlines()
    return next(k for k, text in enumerate(lines, 1) if text.endswith(comment))


def test_tags_by_line():
    p, number = taxpr.trace(model)(1.0), line_of("# line of sin")
    name = HERE.name
    for where in (number, f"{name}:{number}", f"core/{name}:{number}", f"{HERE}:{number}"):
        assert where_of(p, line(where)) == SINS
    assert where_of(p, line(number + 2)) == MULS  # the first line of the call
    for where, message in (
        (line(f"other.py:{number}"), rf"line\('other.py:\d+'\) .* Nearest: {name}:{number}, "),
        (line(f"s/{name}:{number}"), "matches none of the 9 tags"),
        (
            line(number + 1),
            rf"line\(\d+\) matches none .* Nearest: {name}:{number}, ",
        ),
    ):
        with pytest.raises(taxpr.SelectorError, match=message):
            p.tags(where)


@pytest.mark.parametrize("wrong", ["model.py", "", "42a", 4.2, True, None])
def test_what_is_no_line(wrong):
    with pytest.raises(taxpr.SelectorError, match=r"is no line of a source\. Give a number"):
        line(wrong)


@pytest.mark.parametrize("wrong", ["", "/", 3, None])
def test_what_is_no_scope(wrong):
    with pytest.raises(taxpr.SelectorError, match=r"is no pattern of scopes\. Give one such as"):
        scope(wrong)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (scope("atention"), r"scope\('atention'\) matches none of the 9 .*Nearest: .*attention"),
        (jax.lax.tan_p, r"tan matches none .* the tagged values are made by cos, .*, sin\."),
        (
            jax.lax.while_p,
            r"It selects tags on the results of while; the tagged values are made by",
        ),
        ([], r"where=\[\] is empty and selects nothing"),
        ([scope("block_0"), "nope"], "'nope' matches none of the 9 tags"),
    ],
)
def test_messages_of_primitives_scopes_and_lists(where, message):
    with pytest.raises(taxpr.SelectorError, match=message):
        taxpr.trace(model)(1.0).tags(where)


def test_a_primitive_around_the_tags_is_told_from_one_that_makes_them():
    p = taxpr.trace(jax.jit(lambda x: tag(x + 1, name="y") * 2))(1.0)
    with pytest.raises(taxpr.SelectorError, match=r"1 are inside of a jit: select .*'\*:jit/"):
        p.tags(jex.primitives.jit_p)
    assert len(p.tags("*:jit/*")) == 1


# ---- maybe -------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing",
    [
        maybe("nope"),
        maybe("*:scan/*"),
        maybe({"layer": 9}),
        maybe(scope("nope")),
        maybe(line(1)),
        maybe(jax.lax.tan_p),
        maybe(lambda site: False),
        maybe(["nope", "neither"]),
        maybe([]),
        [maybe("nope"), maybe("neither")],
    ],
)
def test_maybe_nothing(nothing):
    p = taxpr.trace(many)(1.0)
    assert p.tags(nothing) == []
    injected = p.inject(taxpr.zero(), where=nothing)
    out, ctx = jax.jit(injected)(injected.ctx, 1.0)
    assert_close(out, p(1.0))
    assert injected.report(ctx) == {}
    assert len(injected.tags()) == 3
    out, values = p.collect(nothing)(1.0)
    assert (out, values) == (p(1.0), {})
    assert len(p.dissolve(nothing).tags()) == 3
    counted = p.inject(lambda n, t, _: (t, n + 1), 0, where=nothing)
    assert counted(counted.ctx, 1.0)[1] == 0


def test_maybe_something():
    p = taxpr.trace(many)(1.0)
    assert [s.name for s in p.tags(maybe("block_*"))] == ["block_0", "block_1"]
    assert [s.name for s in p.tags(maybe(["nope", "head"]))] == ["head"]
    assert [s.name for s in p.tags(["head", maybe("nope")])] == ["head"]
    both = p.inject({maybe("head"): taxpr.count(), maybe("nope"): taxpr.zero()})
    assert both.ctx["nope"] == {"values": {}, "state": {}}
    assert both.ctx["head"]["state"] == {"1:jit/call/t0": 0}
    assert taxpr.trace(jnp.sin)(1.0).tags(maybe(None)) == []
    with pytest.raises(taxpr.SelectorError, match="where=3 is an int"):
        p.tags(maybe(3))
    with pytest.raises(taxpr.SelectorError, match="the mapping has the key 'head' twice"):
        p.inject({maybe("head"): taxpr.count(), "head": taxpr.zero()})


# ---- what is not known while tracing, and what is gone -----------------------


def test_selectors_that_depend_on_traced_values():
    p = taxpr.trace(many)(1.0)
    message = "happens while tracing"
    for where in (lambda x: x, lambda x: lambda *_: x > 0, lambda x: [x], lambda x: maybe(x)):
        with pytest.raises(taxpr.SelectorError, match=message):
            jax.jit(lambda x, where=where: p.collect(where(x))(1.0))(1)
        with pytest.raises(taxpr.SelectorError, match=message):
            jax.jit(lambda x, where=where: len(p.tag_at(where(x), name="x").tags()))(1)
    with pytest.raises(taxpr.SelectorError, match=r"'layer' is a .*Tracer, which is not hashable"):
        jax.jit(lambda x: p.collect({"layer": x})(1.0))(1)
    with pytest.raises(taxpr.SelectorError, match="'layer' is a ndarray, which is not hashable"):
        p.tags({"layer": np.ones(2)})


def test_a_site_of_another_program_is_stale():
    [site] = taxpr.trace(lambda x: tag(x * 2, name="other"))(1.0).tags()
    p = taxpr.trace(many)(1.0)
    message = (
        r"has no tag 'other' \(\S+:\d+ in \S+, at t0\).* the site is stale, of another program"
    )
    for act in (p.tags, p.collect, p.dissolve, functools.partial(p.inject, taxpr.zero())):
        with pytest.raises(taxpr.SelectorError, match=message):
            act(where=site)
    with pytest.raises(taxpr.SelectorError, match=message):
        p.tag_at(site, name="x")
    assert p.tags(maybe(site)) == []
    assert len(p.tag_at(maybe(site), name="x").tags()) == 3


# ---- values ------------------------------------------------------------------


TIMES = np.asarray([1.0, 2.0], np.float32)


def untagged(x):
    with jax.named_scope("first"):
        y = jnp.sin(x)
    y = jax.jit(lambda y: jnp.sin(y) + 1)(y)
    with jax.named_scope("loop"):
        return jax.lax.scan(lambda c, x: (jnp.sin(c) * x, c), y, TIMES)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("where", "addresses"),
    [
        (jax.lax.sin_p, ["0:sin.0", "1:jit/call/0:sin.0", "2:scan/body/0:sin.0"]),
        (jax.lax.scan_p, ["2:scan.0", "2:scan.1"]),
        (scope("first"), ["0:sin.0"]),
        (scope("loop"), ["2:scan/body/0:sin.0", "2:scan/body/1:mul.0", "2:scan.0", "2:scan.1"]),
        ("*:sin*", ["0:sin.0", "1:jit/call/0:sin.0", "2:scan/body/0:sin.0"]),
        ("in?", ["in0"]),
        (
            lambda address, eqn: "mul" in address or eqn.primitive is jax.lax.add_p,
            ["1:jit/call/1:add.0", "2:scan/body/1:mul.0"],
        ),
        (["2:scan.1", "0:sin", maybe("7:sin"), maybe(jax.lax.tan_p)], ["0:sin.0", "2:scan.1"]),
        (maybe("9:sin"), []),
        ([maybe("*:tan")], []),
    ],
)
def test_values_are_selected_and_tagged(where, addresses):
    p = taxpr.trace(untagged)(jnp.float32(1))
    assert [value.address for value in taxpr.find_values(p, where)] == addresses
    tagged = p.tag_at(where, name="all", n=1)
    check_types(tagged.jaxpr)
    assert [site.value_address for site in tagged.tags()] == addresses
    assert all(site.params == {"name": "all", "n": 1} for site in tagged.tags())
    on_jaxpr = taxpr.tag_at(p.jaxpr, where, name="all")
    assert [site.value_address for site in taxpr.find_tags(on_jaxpr)] == addresses


def test_values_by_line():
    p = taxpr.trace(untagged)(jnp.float32(1))
    [first] = taxpr.find_values(p, "0:sin")
    assert (first.aval, first.source.function) == (p.in_avals[0], "untagged")
    found = taxpr.find_values(p, line(f"{HERE.name}:{first.source.line}"))
    assert [value.address for value in found] == ["0:sin.0"]


def test_every_value_made_by_sin_doubled():
    p = taxpr.trace(untagged)(jnp.float32(0.3)).tag_at(jax.lax.sin_p, name="sin")
    doubled = p.inject(taxpr.scale(2.0), where=jax.lax.sin_p)
    sin, ys = lambda x: 2 * np.sin(x), []
    c = sin(sin(0.3)) + 1
    for x in (1.0, 2.0):
        ys.append(c)
        c = sin(c) * x
    assert_close(
        doubled(doubled.ctx, jnp.float32(0.3))[0], jax.tree.map(jnp.float32, (c, jnp.stack(ys)))
    )


def is_hidden(value):
    return not all(step.nested.replaceable for step in value.steps)


@pytest.mark.spread(4)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_tagging_all_values_at_once_is_tagging_one_after_the_other(case):
    p = taxpr.trace(case.fn)(*case.args)
    values = taxpr.find_values(p)
    hidden = {value.address for value in values if is_hidden(value)}
    for address in hidden:
        with pytest.raises(taxpr.RefusedError, match="keeps hidden, and which cannot be replaced"):
            p.tag_at(address, name="added")
    addresses = [value.address for value in values if value.address not in hidden]
    at_once = p.tag_at(addresses, name="added")
    check_types(at_once.jaxpr)
    one_by_one = functools.reduce(lambda p, address: p.tag_at(address, name="added"), addresses, p)
    places = [site.address for site in at_once.tags("added")]
    assert len(places) == len(addresses)
    assert sorted(places) == sorted(site.address for site in one_by_one.tags("added"))
    assert [value.address for value in taxpr.find_values(at_once)] == [v.address for v in values]
    back = at_once.dissolve("added")
    assert [a for a, _ in taxpr.iter_eqns(back.jaxpr)] == [a for a, _ in taxpr.iter_eqns(p.jaxpr)]
    out, expected = (jax.tree.leaves(jax.jit(q)(*case.args)) for q in (at_once, p))
    assert all(map(np.array_equal, map(as_bits, out), map(as_bits, expected)))


def test_two_calls_of_a_shared_jaxpr_stay_shared():
    double = jax.jit(lambda x: x * 2)
    p = taxpr.trace(lambda x: double(double(x)))(1.0).tag_at(jax.lax.mul_p, name="twice")
    assert operator.is_(*(eqn.params["jaxpr"] for eqn in p.eqns))
    count = p.inject(taxpr.count(), where="twice")
    assert sum(count(count.ctx, 1.0)[1]["state"].values()) == 2


def test_what_a_tag_returns_can_be_tagged_by_its_site():
    p = taxpr.trace(lambda x: tag(x * 2, name="y") + 1)(1.0)
    again = p.tag_at(p.tags("y")[0], name="z")
    assert [(site.name, site.value_address) for site in again.tags()] == [
        ("y", "0:mul.0"),
        ("z", "t0.0"),
    ]


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        (
            "9:sin",
            taxpr.AddressError,
            r"no equation '9:sin' .* Nearest: sin \(.*, at 0:sin\), .*at 2:scan/body",
        ),
        ("sin", taxpr.AddressError, r"Nearest: sin \(\S+:\d+ in \S+, at 0:sin\), "),
        ("2:scan/body/7:mul.0", taxpr.AddressError, r"Nearest: mul \(.*, at 2:scan/body/1:mul\)"),
        ("2:scan", taxpr.AddressError, "has 2 results. Say which"),
        ("*:tan", taxpr.SelectorError, r"'\*:tan' matches none of the \d+ values"),
        (jax.lax.tan_p, taxpr.SelectorError, r"tan matches none .* They are made by add, "),
        (scope("lop"), taxpr.SelectorError, r"scope\('lop'\) matches none .* Nearest: loop\."),
        (line(1), taxpr.SelectorError, r"line\(1\) matches none .* Nearest: test_selectors.py:"),
        (None, taxpr.AddressError, "say which values. A predicate"),
        ({"name": "x"}, taxpr.SelectorError, r"\{'name': 'x'\}: the program has no tags\."),
        (
            3,
            taxpr.SelectorError,
            r"where=3 is an int\. A selector is .*, a predicate \(address, eqn\),",
        ),
        ([], taxpr.SelectorError, r"where=\[\] is empty"),
        (lambda a, e: jnp.int32(0), taxpr.SelectorError, "matches none of the"),
    ],
)
def test_values_that_there_are_not(where, error, message):
    with pytest.raises(error, match=message):
        taxpr.trace(untagged)(jnp.float32(1)).tag_at(where, name="x")


def test_programs_without_scopes_say_so():
    with pytest.raises(taxpr.SelectorError, match=r"the only tag\. None has a named scope\."):
        taxpr.trace(lambda x: tag(x, name="y"))(1.0).tags(scope("a"))


@pytest.mark.parametrize("empty", [{}, [], ()], ids=repr)
def test_an_empty_selector_selects_nothing(empty):
    program = taxpr.trace(lambda x: tag(jnp.sin(x), name="s"))(1.0)
    for use in (
        lambda where: program.tags(where),
        lambda where: program.collect(where),
        lambda where: program.dissolve(where),
        lambda where: program.inject(taxpr.count(), where=where),
        lambda where: taxpr.grad_at(program, where)(1.0),
        lambda where: program.tag_at(where, name="t"),
        lambda where: taxpr.find_values(program, where),
    ):
        with pytest.raises(taxpr.SelectorError, match=r"where=.* is empty and selects nothing"):
            use(empty)
        with pytest.raises(taxpr.SelectorError, match=r"where=.* is empty and selects nothing"):
            use([empty])
    assert program.tags(taxpr.maybe(empty)) == []


@pytest.mark.parametrize("said", ["s", b"s", scope("s"), line(1), maybe("s")], ids=repr)
def test_a_predicate_that_returns_a_selector(said):
    program = taxpr.trace(lambda x: tag(jnp.sin(x), name="s"))(1.0)
    shown = re.escape(repr(said))
    message = rf"the predicate <lambda> returned {shown}, a \w+\. .* with a bool.* where={shown}\."
    with pytest.raises(taxpr.SelectorError, match=message):
        program.tags(lambda site: said)
    with pytest.raises(taxpr.SelectorError, match=message):
        taxpr.find_values(program, lambda address, eqn: said)


def test_what_counts_as_an_answer():
    program = taxpr.trace(lambda x: tag(tag(x, name="s"), layer=3))(1.0)
    for yes, no in ((True, None), (np.bool_(True), ""), (jnp.bool_(True), False), (("s",), ())):
        found = program.tags(lambda site, yes=yes, no=no: yes if site.name else no)
        assert [site.name for site in found] == ["s"]
    found = program.tags(lambda site: site.name and site.name.startswith("s"))
    assert [site.name for site in found] == ["s"]
