"""What a selector that describes places passes over, and what one that names them does not."""

import functools

import jax
import jax.numpy as jnp
import pytest
from cases import CASES
from checks import assert_close
from jax import lax

import taxpr
from taxpr import maybe, tag

X = jnp.asarray([0.3, -0.8, 1.1])
COMBINER = "its jaxpr combines pairs of elements, and XLA chooses their order and number"
MATVEC = "matvec is there for derivatives and transposes, and a tag marks the primal only"


def f(x):
    with jax.named_scope("block"):
        free, barred = jnp.sin(x), lax.reduce(x, 0.0, lambda a, b: a + tagged_sin(b), (0,))
        return tag(free, name="free") * barred


def tagged_sin(b):
    return tag(jnp.sin(b), name="barred")


def selector_text(where):
    """Of a function its name: its text differs between the workers."""
    return getattr(where, "__name__", str(where))


PROGRAM = taxpr.trace(f)(X)
BARRED, FREE = PROGRAM.tags()
SAME_NAME = PROGRAM.dissolve().tag_at([FREE.value_address, BARRED.value_address], name="s", k=1)
DESCRIBING = [
    None,
    "*",
    "?",
    "*[0:]",
    jax.lax.sin_p,
    taxpr.scope("block"),
    lambda site: True,
    [jax.lax.sin_p, maybe("none")],
    maybe("*"),
]
NAMING = ["s", {"name": "s"}, {"k": 1}, ["s", "*"], maybe("s")]


def ways(program):
    """Everything that takes a selector of tags."""
    yield lambda where: program.inject(taxpr.count(), where=where)
    yield lambda where: program.inject(lambda ctx, token, params: (token, ctx), (), where=where)
    yield lambda where: program.inject({Key(where): taxpr.count()})
    yield lambda where: program.plant({Key(where): taxpr.zero()})
    yield functools.partial(program.collect, stack=True)
    yield functools.partial(program.until, stack=True)


class Key(tuple):
    """A selector as a list of one, which a mapping takes as its key, whatever the selector is."""

    def __new__(cls, where):
        return super().__new__(cls, where if isinstance(where, list) else [where])

    __hash__ = object.__hash__


@pytest.mark.parametrize("where", DESCRIBING, ids=selector_text)
def test_what_describes_passes_over_what_cannot_be_injected(where):
    assert len(SAME_NAME.tags()) == 2
    for way in ways(SAME_NAME):
        changed = way(where)
        [skipped] = changed.skipped
        assert (skipped.reason, skipped.primitive) == (COMBINER, "reduce")
        assert skipped.addresses == (BARRED.address,)
        assert str(skipped) == f"1 place in reduce: {COMBINER}"
        assert ", 1 skipped>" in repr(changed)
    values = SAME_NAME.collect(where)(X)[1]
    assert_close(values, {"s": jnp.sin(X)})


@pytest.mark.parametrize("where", NAMING, ids=selector_text)
def test_what_is_named_is_refused(where):
    for way in ways(SAME_NAME):
        with pytest.raises(taxpr.RefusedError, match=f"tag 's' .*at 1:reduce.*{COMBINER}"):
            way(where)
    assert len(SAME_NAME.tags(where)) == 2


@pytest.mark.parametrize(
    "where",
    [BARRED, BARRED.address, BARRED.value_address, ["*", BARRED.address]],
    ids=selector_text,
)
def test_a_place_is_refused_however_it_is_named(where):
    for way in ways(PROGRAM):
        with pytest.raises(taxpr.RefusedError, match=f"tag 'barred' .*at 1:reduce.*{COMBINER}"):
            way(where)


@pytest.mark.parametrize(
    "where", [None, "*", "b*", jax.lax.sin_p, lambda site: True], ids=selector_text
)
def test_where_nothing_else_is_left_it_is_refused(where):
    program = PROGRAM.dissolve("free")
    for way in ways(program):
        with pytest.raises(taxpr.RefusedError, match=f"tag 'barred' .*at 1:reduce.*{COMBINER}"):
            way(where)
    nothing = program.inject(taxpr.count(), where=maybe(lambda site: True))
    assert [one.addresses for one in nothing.skipped] == [(BARRED.address,)]
    assert_close(nothing(nothing.ctx, X)[0], f(X))


def test_a_line_describes_what_it_made():
    program = PROGRAM.dissolve()
    line = taxpr.line(FREE.source.line - 1)
    found = taxpr.find_values(program, line)
    assert BARRED.value_address not in {value.address for value in found}  # of another line
    assert any(value.refusal == COMBINER for value in found)
    tagged = program.tag_at(line, name="all")
    assert tagged.skipped[0].addresses == ("1:reduce/jaxpr/1:add.0",)
    assert all(site.refusal is None for site in tagged.tags())
    assert len(tagged.tags()) == len(found) - 1


@pytest.mark.parametrize(
    "where",
    ["*", jax.lax.sin_p, taxpr.scope("block"), lambda address, eqn: True, [jax.lax.sin_p]],
    ids=selector_text,
)
def test_values_that_are_described_are_passed_over(where):
    program = taxpr.trace(f)(X).dissolve()
    assert any(value.refusal for value in taxpr.find_values(program, where))
    tagged = program.tag_at(where, name="all")
    assert {one.reason for one in tagged.skipped} == {COMBINER}
    assert all(address.startswith("1:reduce/") for address in tagged.skipped[0].addresses)
    n = sum(len(one.addresses) for one in tagged.skipped)
    assert len(tagged.tags()) == len(taxpr.find_values(program, where)) - n
    counted = tagged.inject(taxpr.count(), where="all")
    assert counted.skipped == tagged.skipped
    out, ctx = jax.jit(counted)(counted.ctx, X)
    assert_close(out, f(X))
    assert all(int(n) == 1 for n in ctx["state"].values())


@pytest.mark.parametrize(
    "where",
    [BARRED.value_address, lambda address, eqn: address.startswith("1:reduce/")],
    ids=selector_text,
)
def test_a_value_that_is_named_or_alone_is_tagged_and_refused_when_it_is_injected(where):
    tagged = PROGRAM.dissolve().tag_at(where, name="all")
    assert tagged.skipped == ()
    with pytest.raises(taxpr.RefusedError, match=COMBINER):
        tagged.inject(taxpr.count())


def solved(b):
    return lax.custom_linear_solve(
        lambda x: tag(2.0 * x, name="A x"),
        b,
        lambda matvec, b: b - matvec(b) / 4.0,
        transpose_solve=lambda vecmat, b: b / 2.0,
    )


def test_what_never_fires_is_passed_over_by_its_name_and_told():
    program = taxpr.trace(solved)(X)
    collected = program.collect("A x")
    [skipped] = collected.skipped
    assert MATVEC in skipped.reason
    assert skipped.addresses == ("0:custom_linear_solve/matvec/t0",)
    assert [site.refusal for site in program.tags()] == [skipped.reason, None]
    everything = program.dissolve().tag_at("*", name="all")
    assert {one.reason.split()[0] for one in everything.skipped} == {
        "matvec",
        "vecmat",
        "transpose_solve",
    }
    assert_close(jax.jit(everything.collect(stack=True))(X)[0], solved(X))


def test_what_never_fires_is_passed_over_by_its_variable():
    def f(b):
        def matvec(x):
            y = 2.0 * x
            return y

        return lax.custom_linear_solve(matvec, b, lambda of, b: of(b) / 4.0, symmetric=True)

    y = taxpr.var("y")
    program = taxpr.trace(f, names=True)(X)
    runs = [one for one in program.variables() if one.text == "y" and "/solve/" in one.address]
    idle = [one for one in program.variables() if one.text == "y" and one not in runs]
    assert len(runs) == 1
    assert len(idle) > 1
    changed = program.inject(taxpr.scale(3.0), where=y)
    assert_close(changed(changed.ctx, X)[0], 3 * f(X))
    assert sum(len(one.addresses) for one in changed.skipped) == len(idle)
    assert_close([*taxpr.collect(f, y)(X)[1].values()], [2 * X])
    found = taxpr.sweep(f, y, taxpr.scale, [1.0, 3.0], metric=jnp.sum)(X)
    assert found.values[1] == pytest.approx(3 * float(f(X).sum()))
    # Said for sure, it is refused.
    only = taxpr.var("y", occurrence=idle[0].occurrence)
    with pytest.raises(taxpr.RefusedError, match=MATVEC):
        program.inject(taxpr.scale(3.0), where=only)
    with pytest.raises(taxpr.RefusedError, match=MATVEC):
        program.inject(taxpr.scale(3.0), where=[y, only])


def test_values_in_the_solve_of_a_root_are_not_passed_over():
    def f(x):
        def newton(f, y):
            return lax.fori_loop(0, 9, lambda i, y: y - f(y) / (3.0 * y**2), y)

        return lax.custom_root(lambda y: y**3 - x, 2.0, newton, lambda g, y: y / g(1.0))

    program = taxpr.trace(f)(8.0)
    tagged = program.tag_at("*", name="all")
    inside = [value for value in taxpr.find_values(program) if "/" in value.address]
    assert len(inside) > 5
    assert not tagged.skipped
    looked = tagged.collect(stack=True)
    assert_close(looked(8.0)[0], f(8.0))
    assert_close(jax.grad(lambda x: looked(x)[0])(8.0), jax.grad(f)(8.0))
    of_all = [value.address for value in taxpr.find_values(program)]
    assert [value.address for value in taxpr.find_values(tagged.dissolve())] == of_all


@pytest.mark.spread(5)
@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")
def test_all_values_that_are_left_can_be_injected(case):
    program = taxpr.trace(case.fn)(*case.args)
    tagged = program.tag_at("*", name="every value")
    refused = {value.address for value in taxpr.find_values(program) if value.refusal}
    assert refused <= {address for one in tagged.skipped for address in one.addresses}
    assert all(site.refusal is None for site in tagged.tags("every value"))
    counted = tagged.inject(taxpr.count(), where="every value")
    out, _ = jax.jit(counted)(counted.ctx, *case.args)
    assert_close(out, program(*case.args), case.tolerance)


def test_functions_say_what_is_passed_over():
    def g(x):
        tag(jnp.cos(x), name="cos")
        return f(x)

    [skipped] = taxpr.collect(g).skipped(X)
    assert skipped.addresses == (PROGRAM.tags("barred")[0].address.replace("1:", "2:"),)
    injected = taxpr.inject(g, taxpr.count())
    assert injected.skipped(X) == (skipped,)
    assert_close(injected(injected.init(X), X)[0], f(X))
    assert taxpr.inject(g, taxpr.count(), where="cos").skipped(X) == ()


def test_the_gradient_at_all_tags_passes_over_them_too():
    def total(x):
        return jnp.sum(f(x))

    found = taxpr.grad_at(total)(X)
    assert found.keys() == {"free"}
    with pytest.raises(taxpr.RefusedError, match=COMBINER):
        taxpr.grad_at(total, "barred")(X)


def test_a_jaxpr_has_no_place_to_say_it_so_it_is_refused():
    with pytest.raises(taxpr.RefusedError, match=COMBINER):
        taxpr.inject(PROGRAM.jaxpr, lambda ctx, token, params: (token, ctx), ())
