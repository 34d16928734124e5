"""The table of higher-order primitives is whole: each entry has a program and is true."""

import jax
import jax.extend.core as jex
import pytest
from cases import CASES, INJECTABLE, REFUSED
from cases_hops import COMPUTES

import taxpr
from taxpr import _compat
from taxpr._errors import name_of
from taxpr._hops.table import registered

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")

# Entries without a program in the shared table, and why.
WITHOUT = {
    "compute_on": "0.8 cannot run it on a CPU",
    "call": "no public function of JAX leaves one behind",
    "eval_jaxpr": "inlined while tracing up to 0.11",
    "fused_call": "XLA on a CPU has none; see test_hops",
    "failed": "of programs that were not traced to their end; see test_until_error",
    "unfinished": "the same",
    "xla_pmap": "needs the pmap of jax 0.8 and older",
    "RematTraced": "behind a flag; see test_refusals",
    **dict.fromkeys(
        (
            "call_hi_primitive_linearized",
            "core_map",
            "mpmd_map",
            "pallas_call",
            "reduce_window",
            "run_scoped",
            "scatter",
            "select_and_scatter",
            "CustomJVPTraced",
            "CustomVJPTraced",
            "Scan3",
        ),
        "refused; see test_refusals",
    ),
    **dict.fromkeys(
        ("scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub"),
        "of their jaxprs nothing is walked; see test_walk",
    ),
}


def programs():
    return [taxpr.trace(case.fn)(*case.args) for case in CASES]


def test_every_entry_has_a_program():
    seen = {_compat.kind_of(eqn) for p in programs() for _, eqn in taxpr.iter_eqns(p.jaxpr)}
    missing = {name_of(kind) for kind in registered() if kind not in seen}
    assert missing <= set(WITHOUT)
    injectable = {name_of(kind) for kind, hop in registered().items() if hop.inject}
    elsewhere = {"call", "eval_jaxpr", "fused_call", "RematTraced"}
    assert missing & injectable <= elsewhere | (set() if COMPUTES else {"compute_on"})


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_operands_and_results_are_those_of_the_equation(case):
    program = taxpr.trace(case.fn)(*case.args)
    for _, eqn in taxpr.iter_eqns(program.jaxpr):
        for nested in taxpr.nested_jaxprs(eqn):
            inner = nested.jaxpr
            assert len(nested.operands) == len(nested.in_roles) == len(inner.invars)
            assert len(nested.results) == len(nested.out_roles) == len(inner.outvars)
            for var, k, role in zip(inner.invars, nested.operands, nested.in_roles, strict=True):
                if k is not None and role != "x" and eqn.primitive is not _compat.shard_map_p:
                    assert var.aval.shape == eqn.invars[k].aval.shape
            for out, into in nested.back:
                assert inner.outvars[out].aval.shape == inner.invars[into].aval.shape
            if nested.param is not None:
                at = eqn.params
                for key in nested.param:
                    at = at[key]
                assert at is nested.stored


@pytest.mark.parametrize("case", REFUSED, ids=repr)
def test_refusals_name_the_tag_the_primitive_and_the_line(case):
    program = taxpr.trace(case.fn)(*case.args)
    [site] = program.tags()
    line = rf"tag '{site.name}' \(cases\.py:\d+ in \S+, at \S+\)"
    with pytest.raises(taxpr.RefusedError, match=line) as info:
        program.inject(taxpr.count())
    assert any(f"does not inject into {name}: " in str(info.value) for name in case.refused)
    assert "Select other tags with where=" in str(info.value)
    with pytest.raises(taxpr.RefusedError, match="|".join(case.refused)):
        program.collect()


@pytest.mark.parametrize("case", REFUSED, ids=repr)
def test_refused_equations_without_a_selected_tag_are_left_alone(case):
    def f(*args):
        return taxpr.tag(jax.tree.leaves(case.fn(*args))[0], name="out")

    program = taxpr.trace(f)(*case.args).inject(taxpr.count(), where="out")
    out, ctx = program(program.ctx, *case.args)
    assert jax.numpy.array_equal(out, jax.tree.leaves(case.fn(*case.args))[0])
    [state] = ctx["state"].values()
    assert state == 1
    assert len(program.tags()) == 1


def is_hidden(jaxpr):
    [site] = taxpr.find_tags(jaxpr)
    return any(step.nested.param is None for step in site.steps)


@pytest.mark.parametrize("case", REFUSED, ids=repr)
def test_refused_equations_dissolve(case):
    jaxpr = jax.make_jaxpr(case.fn)(*case.args)
    if is_hidden(jaxpr):
        with pytest.raises(taxpr.RefusedError, match="keeps hidden, and which cannot be replaced"):
            taxpr.dissolve_tags(jaxpr)
        return
    new = taxpr.dissolve_tags(jaxpr)
    assert taxpr.find_tags(new) == []
    expected = jex.jaxpr_as_fun(jaxpr)(*case.args)
    for a, b in zip(jex.jaxpr_as_fun(new)(*case.args), expected, strict=True):
        assert jax.numpy.array_equal(a, b)


def test_an_unknown_primitive_that_holds_a_jaxpr_is_refused():
    unknown_p = jex.Primitive("unknown_hop")
    unknown_p.multiple_results = True
    unknown_p.def_abstract_eval(lambda *avals, inner: avals)
    inner = jax.make_jaxpr(lambda x: taxpr.tag(x, name="in there"))(1.0)

    def f(x):
        return unknown_p.bind(taxpr.tag(x, name="before"), inner=(inner,))[0]

    jaxpr = jax.make_jaxpr(f)(1.0)
    assert [s.address for s in taxpr.find_tags(jaxpr)] == ["t0", "0:unknown_hop/inner[0]/t0"]
    with pytest.raises(taxpr.RefusedError, match="unknown_hop: taxpr has no rule for this"):
        taxpr.inject(jaxpr, lambda c, t, p: (t, c), ())
    taxpr.inject(jaxpr, lambda c, t, p: (t, c), (), lambda p, _: p["name"] == "before")


@pytest.mark.parametrize("case", INJECTABLE, ids=repr)
def test_untouched_equations_are_the_same_objects(case):
    """Flat code is spliced: what has nothing to do with a selected tag is not traced again."""
    jaxpr = jax.make_jaxpr(lambda *a: (taxpr.tag(1.0, name="only"), case.fn(*a)))(*case.args)
    new = taxpr.inject(jaxpr, lambda n, t, p: (t, n + 1), 0, lambda p, _: p["name"] == "only")
    old = [eqn for eqn in _compat.open_jaxpr(jaxpr).eqns if not taxpr.is_tag(eqn)]
    left = {id(eqn) for eqn in _compat.open_jaxpr(new).eqns}
    assert all(id(eqn) in left for eqn in old)


def test_a_body_called_twice_is_transformed_once():
    [case] = [case for case in CASES if case.name == "jit_twice"]
    jaxpr = jax.make_jaxpr(case.fn)(*case.args)
    new = taxpr.inject(jaxpr, lambda n, t, p: (t, n + 1), 0)
    calls = [e for e in _compat.open_jaxpr(new).eqns if e.primitive is _compat.jit_p]
    first, second = (eqn.params["jaxpr"] for eqn in calls)
    assert first is second


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_every_variable_has_a_letter(case):
    program = taxpr.trace(case.fn)(*case.args)
    letters = taxpr.var_names(program)
    for _, eqn in taxpr.iter_eqns(program.jaxpr):
        assert all(var in letters for var in eqn.outvars if not taxpr.is_dropped(var))


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_variables_have_the_letters_that_print_shows(case):
    program = taxpr.trace(case.fn)(*case.args)
    letters, printed = taxpr.var_names(program), str(program.jaxpr)
    for eqn in program.eqns:
        for var in eqn.outvars:
            assert f"{letters.get(var, '_')}:{var.aval.str_short(short_dtypes=True)}" in printed
