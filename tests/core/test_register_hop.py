"""Entries of the table that others bring, for primitives that taxpr does not know."""

import concurrent.futures
import dataclasses
import sys
import threading

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from jax.interpreters import ad, mlir
from reference import Reference

import taxpr
from taxpr._hops import table
from taxpr.hops import Hop, before_loop, called, counted, later, never

W = np.linspace(-1.0, 1.0, 3).astype(np.float32)
V = np.asarray([0.3, -0.8, 1.1], np.float32)


def primitive(name, impl):
    """A primitive whose equations hold one jaxpr, with the rules that JAX itself needs."""
    prim = jex.Primitive(name)
    prim.multiple_results = True
    prim.def_impl(impl)
    prim.def_abstract_eval(lambda *avals, jaxpr, **_: jaxpr.out_avals)
    mlir.register_lowering(prim, mlir.lower_fun(impl, multiple_results=True))
    return prim


# ---- thrice: a loop of a fixed length ----------------------------------------


def run_thrice(*xs, jaxpr):
    for _ in range(3):
        xs = jex.jaxpr_as_fun(jaxpr)(*xs)
    return xs


def nested_thrice(eqn):
    n = len(eqn.invars)
    roles = ("carry",) * n
    back = tuple((k, k) for k in range(n))
    return [called(eqn, "jaxpr", trips=3, back=back, in_roles=roles, out_roles=roles)]


def inject_thrice(eqn, ctx, operands, thread):
    body = thread("body")

    def step(carry, _):
        ctx, outs, emits = body(*carry)
        return (ctx, outs), emits

    (ctx, outs), emits = jax.lax.scan(step, (ctx, operands), None, length=3)
    return ctx, outs, emits


thrice_p = primitive("thrice", run_thrice)
taxpr.register_hop(thrice_p, Hop(nested=nested_thrice, inject=inject_thrice, loops=True))


def thrice(f, *xs):
    return thrice_p.bind(*xs, jaxpr=jax.make_jaxpr(f)(*xs))


def in_thrice(v, x):
    def body(v, x):
        h = taxpr.tag(jnp.sin(v * W) + x, name="h")
        return h * 2.0, taxpr.tag(x * 0.5 + h.sum(), name="x")

    v, x = thrice(body, taxpr.tag(v, name="before"), x)
    return v.sum() * x


# ---- when: it runs, or it does not -------------------------------------------


def run_when(pred, *xs, jaxpr):
    return jax.lax.cond(pred, lambda *xs: jex.jaxpr_as_fun(jaxpr)(*xs), lambda *xs: list(xs), *xs)


def inject_when(eqn, ctx, operands, thread):
    body = thread("body")
    pred, *xs = operands

    def run(ctx, xs):
        ctx, outs, emits = body(ctx, xs)
        return ctx, outs, {key: counted(one) for key, one in emits.items()}

    def pass_over(ctx, xs):
        return ctx, xs, {key: never(one) for key, one in body.emitted().items()}

    return jax.lax.cond(pred, run, pass_over, ctx, xs)


when_p = primitive("when", run_when)
taxpr.register_hop(
    when_p,
    Hop(
        nested=lambda eqn: [called(eqn, "jaxpr", first_operand=1, conditional=True)],
        inject=inject_when,
    ),
)


def in_when(v, x):
    jaxpr = jax.make_jaxpr(lambda v, x: (taxpr.tag(jnp.cos(v) * W, name="h") + x, x))(v, x)
    return when_p.bind(x > 0, v, x, jaxpr=jaxpr)[0].sum()


# ---- repeat: a loop whose length only a run knows ----------------------------


def run_repeat(n, *xs, jaxpr):
    return jax.lax.fori_loop(0, n, lambda _, xs: jex.jaxpr_as_fun(jaxpr)(*xs), list(xs))


def inject_repeat(eqn, ctx, operands, thread):
    body = thread("body")
    n, *xs = operands
    seen = {key: before_loop(one) for key, one in body.emitted().items()}

    def step(index, loop):
        ctx, xs, seen = loop
        ctx, xs, emits = body(ctx, xs)
        return ctx, xs, {key: later(seen[key], one, index) for key, one in emits.items()}

    return jax.lax.fori_loop(0, n, step, (ctx, xs, seen))


repeat_p = primitive("repeat", run_repeat)
taxpr.register_hop(
    repeat_p,
    Hop(
        nested=lambda eqn: [called(eqn, "jaxpr", first_operand=1, trips=None, conditional=True)],
        inject=inject_repeat,
        loops=True,
    ),
)


def in_repeat(v, x):
    jaxpr = jax.make_jaxpr(lambda v: [taxpr.tag(v * 2.0, name="h") + 1.0])(v)
    return repeat_p.bind(jnp.where(x > 0, 3, 0), v, jaxpr=jaxpr)[0].sum()


# ---- the meaning -------------------------------------------------------------


class WithThese(Reference):
    """The plain interpreter, which knows the primitives of this file, too."""

    def eqn(self, eqn, args):
        jaxpr = eqn.params.get("jaxpr")
        if eqn.primitive is thrice_p:
            for _ in range(3):
                args = self(jaxpr, *args)
            return args
        if eqn.primitive is when_p:
            return self(jaxpr, *args[1:]) if args[0] else args[1:]
        if eqn.primitive is repeat_p:
            n, *args = args
            for _ in range(int(n)):
                args = self(jaxpr, *args)
            return args
        return super().eqn(eqn, args)


def mixing(s, token, params):
    return token * 1.5 + s, s * 0.5 + token.mean()


PROGRAMS = [in_thrice, in_when, in_repeat]
AT = [(V, np.float32(0.7)), (V, np.float32(-0.7))]


@pytest.mark.spread(2)
@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("args", AT)
def test_injected_as_the_reference_says(fn, args):
    program = taxpr.trace(fn)(*args)
    injected = program.inject(mixing, jnp.float32(0.3))
    check_types(injected.jaxpr)
    reference = WithThese(mixing, jnp.float32(0.3))
    expected = reference(program.jaxpr, *args)
    for run in (injected, jax.jit(injected)):
        out, ctx = run(jnp.float32(0.3), *args)
        assert_close([out], expected)
        assert_close(ctx, reference.ctx)
    mapped = jax.vmap(injected, (None, 0, None))(jnp.float32(0.3), jnp.stack([V, V]), args[1])
    assert_close(mapped[0], jnp.stack([expected[0]] * 2))
    assert_close(program(*args), WithThese()(program.jaxpr, *args)[0])


@pytest.mark.parametrize("fn", PROGRAMS[:2])
def test_the_derivative_is_that_of_what_runs(fn):
    injected = taxpr.trace(fn)(*AT[0]).inject(mixing, jnp.float32(0.3))

    def theirs(v, x):
        jaxpr = jax.make_jaxpr(fn)(v, x)
        return WithThese(mixing, jnp.float32(0.3))(jaxpr, v, x)[0]

    found = jax.grad(lambda *args: injected(jnp.float32(0.3), *args)[0])(*AT[0])
    along, step = jnp.ones(3), jnp.float32(1e-2)
    up, down = (theirs(V + sign * step * along, AT[0][1]) for sign in (1, -1))
    assert_close(found @ along, (up - down) / (2 * step), tolerance=2e-2)


def test_a_loop_has_an_axis_and_iterations():
    program = taxpr.trace(in_thrice)(*AT[0])
    assert [site.trips for site in program.tags()] == [1, 3, 3]
    out, values = program.collect()(*AT[0])
    assert_close(out, in_thrice(*AT[0]))
    assert program.axes() == {
        "before": ("token 0",),
        "h": ("0:thrice", "token 0"),
        "x": ("0:thrice",),
    }
    # Planted into another run, what one run had gives what that gave.
    other = (V * 2, np.float32(-1))
    assert_close(program.plant(values)(*other), out)
    assert_close(program.plant({"x": values["x"]})(*AT[0]), out)
    for at in range(3):
        seen = []

        def planting(ctx, token, params, at=at, seen=seen):
            seen.append(token)
            return (token * 0 + 5 if len(seen) - 1 == at else token), ctx

        expected = WithThese(planting, None, lambda p: p["name"] == "h")(program.jaxpr, *AT[0])
        assert_close(program.plant({"h": np.full(3, 5, V.dtype)}, at=at)(*AT[0]), expected[0])


def test_the_gradient_at_a_tag_is_that_of_each_firing():
    program = taxpr.trace(in_thrice)(*AT[0])
    gradient = taxpr.grad_at(program, "h")(*AT[0])["h"]
    assert gradient.shape == (3, 3)
    for at in range(3):
        fired = []

        def moved(by, token, params, at=at, fired=fired):
            fired.append(token)
            return (token + by if len(fired) - 1 == at else token), by

        up, down = (
            WithThese(moved, jnp.float32(by), lambda p: p["name"] == "h")(program.jaxpr, *AT[0])[0]
            for by in (1e-2, -1e-2)
            if not fired.clear()
        )
        assert_close(gradient[at].sum(), (up - down) / jnp.float32(2e-2), tolerance=2e-2)


@pytest.mark.parametrize("args", AT)
def test_what_need_not_run_says_how_often_it_did(args):
    runs = args[1] > 0
    found = taxpr.collect(in_when)(*args)[1]["h"]
    assert (type(found), bool(found.mask)) == (taxpr.Masked, runs)
    assert_close(found.value, jnp.where(runs, jnp.cos(V) * W, 0))
    program = taxpr.trace(in_repeat)(*args)
    last = program.collect()(*args)[1]["h"]
    assert (type(last), int(last.count)) == (taxpr.Last, 3 * runs)
    steps = program.collect(max_steps=2)(*args)[1]["h"]
    assert (steps.mask.tolist(), int(steps.count)) == ([bool(runs)] * 2, 3 * runs)
    assert_close(steps.value, jnp.where(runs, jnp.stack([V * 2, (V * 2 + 1) * 2]), 0))
    counted = program.inject(taxpr.count())
    [fired] = counted(counted.ctx, *args)[1]["state"].values()
    assert int(fired) == 3 * runs
    with pytest.raises(taxpr.RefusedError, match=r"in the loop repeat.* \(.*, at 2:repeat\)"):
        taxpr.grad_at(program, "h")(*args)


def test_values_in_there_are_tagged_and_tags_dissolved():
    program = taxpr.trace(in_thrice)(*AT[0])
    tagged = program.tag_at("0:thrice/body/1:sin", name="s").tag_at("0:thrice/body/in1", name="i")
    values = tagged.collect(["s", "i"])(*AT[0])[1]
    assert {name: value.shape for name, value in values.items()} == {"s": (3, 3), "i": (3,)}
    plain = program.dissolve()
    assert not plain.tags()
    assert_close(plain(*AT[0]), in_thrice(*AT[0]))


def test_a_state_is_read_and_written_in_there():
    total = taxpr.State(jnp.float32(0), name="total")

    def f(x):
        def body(x):
            total.value = total.value * 2 + x
            return [x + 1]

        return thrice(body, x)[0]

    pure, states = taxpr.uncurry(f, jnp.float32(1))
    out, states = jax.jit(pure)(states, jnp.float32(1))
    assert (float(out), float(states["total"])) == (4.0, (1 * 2 + 2) * 2 + 3)


# ---- a derivative of its own -------------------------------------------------

own_p = primitive("own", lambda *xs, jaxpr: jex.jaxpr_as_fun(jaxpr)(*xs))
taxpr.register_hop(
    own_p,
    Hop(
        nested=lambda eqn: [called(eqn, "jaxpr")],
        inject=lambda eqn, ctx, operands, thread: thread("body")(ctx, operands),
        own_derivative=True,
    ),
)


def test_a_derivative_of_its_own_is_not_asked_at_its_tags():
    def f(x):
        jaxpr = jax.make_jaxpr(lambda x: [taxpr.tag(x * 3, name="h")])(x)
        return own_p.bind(x, jaxpr=jaxpr)[0] ** 2

    with pytest.raises(taxpr.RefusedError, match=r"own may run other code .* Give custom_rules="):
        taxpr.grad_at(f, "h")(2.0)
    assert float(taxpr.grad_at(f, "h", custom_rules="drop")(2.0)["h"]) == 12.0


def sevenfold(own, rebound=True, **entry):
    """Runs its jaxpr, which multiplies by 3; its derivative is 7, at its result 21 * result."""
    prim = fresh("sevenfold")

    def jvp(primals, tangents, **params):
        [y] = prim.bind(*primals, **params) if rebound else [3 * primals[0]]
        return [y], [7.0 * tangents[0] * (y if rebound else 1)]

    ad.primitive_jvps[prim] = jvp
    taxpr.register_hop(prim, dataclasses.replace(called_once(**entry), own_derivative=own))
    return taxpr.trace(lambda x: prim.bind(x, jaxpr=body_of(x))[0])(2.0)


def body_of(x):
    return jax.make_jaxpr(lambda x: [taxpr.tag(x * 3, name="h")])(x)


@pytest.mark.parametrize("own", [True, None])
def test_what_looks_keeps_a_derivative_of_its_own(own):
    program = sevenfold(own)
    assert float(jax.grad(program)(2.0)) == 42.0
    collected = program.collect()
    counted = program.inject(taxpr.count())
    for run in (collected, jax.jit(collected), lambda x: counted(counted.ctx, x)):
        assert float(jax.grad(lambda x, run=run: run(x)[0])(2.0)) == 42.0
        assert float(jax.jvp(lambda x, run=run: run(x)[0], (2.0,), (1.0,))[1]) == 42.0
        assert jax.vmap(jax.grad(lambda x, run=run: run(x)[0]))(jnp.ones(2)).tolist() == [21.0] * 2
    assert float(collected(2.0)[1]["h"]) == 6.0
    with pytest.raises(taxpr.RefusedError, match="rule for derivatives of sevenfold is kept"):
        jax.grad(lambda x: collected(x)[1]["h"])(2.0)
    dropped = program.collect(custom_rules="drop")
    assert float(jax.grad(lambda x: dropped(x)[0])(2.0)) == 3.0
    assert float(jax.grad(lambda x: dropped(x)[1]["h"])(2.0)) == 3.0


@pytest.mark.parametrize("own", [True, None])
def test_what_changes_keeps_a_derivative_of_its_own_at_the_new_result(own):
    program = sevenfold(own)
    doubled = program.inject(taxpr.scale(2.0))
    out, slope = jax.value_and_grad(lambda x: doubled(doubled.ctx, x)[0])(2.0)
    assert (float(out), float(slope)) == (12.0, 84.0)
    said = r"sevenfold.* \(test_register_hop.py:\d+ .*at 0:sevenfold\) has a derivative of its own"
    said += ".*ad.primitive_jvps" if own is None else ""
    with pytest.raises(taxpr.RefusedError, match=said):
        jax.grad(lambda ctx: doubled(ctx, 2.0)[0])(doubled.ctx)


@pytest.mark.parametrize("own", [True, None])
def test_a_rule_that_does_not_tell_its_results_is_kept_or_refused(own):
    program = sevenfold(own, rebound=False)
    collected, doubled = program.collect(), program.inject(taxpr.scale(2.0))
    assert float(jax.grad(lambda x: collected(x)[0])(2.0)) == 7.0
    assert float(doubled(doubled.ctx, 2.0)[0]) == 12.0
    said = "cannot differentiate sevenfold at the injected results"
    said += ".*own_derivative=False" if own is None else ""
    with pytest.raises(taxpr.RefusedError, match=said):
        jax.grad(lambda x: doubled(doubled.ctx, x)[0])(2.0)


def test_an_entry_may_say_that_a_derivative_is_that_of_what_runs():
    collected = sevenfold(False).collect()
    assert float(jax.grad(lambda x: collected(x)[0])(2.0)) == 3.0
    assert float(jax.grad(lambda x: collected(x)[1]["h"])(2.0)) == 3.0


def test_a_rule_with_rules_keeps_the_derivative_by_itself():
    prim = fresh("by_itself")
    ad.primitive_jvps[prim] = lambda primals, tangents, **params: (prim.bind(*primals), tangents)
    hop = dataclasses.replace(called_once(), own_derivative=True, rules=lambda eqn: ())
    taxpr.register_hop(prim, hop)
    collected = taxpr.collect(lambda x: prim.bind(x, jaxpr=body_of(x))[0])
    assert float(jax.grad(lambda x: collected(x)[0])(2.0)) == 3.0


# ---- the table ---------------------------------------------------------------


def fresh(name="fresh"):
    return primitive(name, lambda *xs, jaxpr: jex.jaxpr_as_fun(jaxpr)(*xs))


def program_of(prim):
    def f(x):
        jaxpr = jax.make_jaxpr(lambda x: [taxpr.tag(x * 3, name="h")])(x)
        return prim.bind(x, jaxpr=jaxpr)[0]

    return taxpr.trace(f)(2.0)


def once(eqn, ctx, operands, thread):
    return thread("body")(ctx, operands)


def called_once(inject=once, **more):
    return Hop(nested=lambda eqn: [called(eqn, "jaxpr", **more)], inject=inject)


def test_an_entry_may_come_late_and_again():
    prim = fresh()
    program = program_of(prim)
    assert [site.address for site in program.tags()] == ["0:fresh/jaxpr/t0"]
    with pytest.raises(taxpr.RefusedError, match=r"no rule for this .*\(taxpr.register_hop adds"):
        program.collect()
    taxpr.register_hop(prim, called_once())
    assert [site.address for site in program.tags()] == ["0:fresh/body/t0"]
    assert taxpr.injectable(program.eqns[0]) is None
    assert float(program.collect()(2.0)[1]["h"]) == 6.0

    def doubled(eqn, ctx, operands, thread):
        return thread("body")(ctx, [2 * x for x in operands])

    taxpr.register_hop(prim, called_once(doubled))
    assert float(program.collect()(2.0)[1]["h"]) == 12.0
    taxpr.register_hop(prim, Hop(nested=called_once().nested, refusal="it is a secret"))
    with pytest.raises(taxpr.RefusedError, match="does not inject into fresh: it is a secret"):
        program.collect()


def test_to_look_stops_before_what_a_rule_refuses():
    prim = primitive("shy", lambda x, jaxpr: jex.jaxpr_as_fun(jaxpr)(x))

    def inject(eqn, ctx, operands, thread):
        raise taxpr.RefusedError("it is shy")

    taxpr.register_hop(prim, Hop(nested=called_once().nested, inject=inject))

    @jax.jit
    def twice(x):
        y = -jnp.abs(x)
        inner = jax.make_jaxpr(lambda x: jnp.log(jnp.sin(x) - 2.0))(x)
        return prim.bind(y, jaxpr=inner)[0]

    def f(x):
        z = twice(x)
        z = twice(z + 1.0)
        w = jax.lax.scan(lambda c, x: (c, twice(x)), 0.0, z[None])[1]
        return w.sum()

    program = taxpr.trace(f)(V)
    inside = {a.rpartition(":")[0] for a, _ in taxpr.iter_eqns(program) if "shy/body/" in a}
    assert len(inside) > 5  # of which the calls share a jaxpr
    found = taxpr.find_nan(f)(V)
    assert "Not read: " in str(found)
    assert "places in shy: it is shy." in str(found)
    row = found.rows[0]
    assert row.address.endswith(":shy.0")
    assert ":shy/" not in row.address
    rec = taxpr.watch(f, where="*")(V)
    [skipped] = rec.skipped
    assert skipped.primitive == "shy"
    assert rec.complete
    kept = {one.address for one in rec.table().rows}
    assert kept.isdisjoint(skipped.addresses)
    every = {v.address for v in taxpr.find_values(program) if v.eqn is not None}
    assert {a for a in every if ":shy/" in a} <= {*skipped.addresses}
    assert {a for a in every if ":shy/" not in a} <= kept
    assert_close(rec.out, f(V))
    with pytest.raises(taxpr.RefusedError, match=r"nothing that was selected .* it is shy"):
        taxpr.watch(f, where="*:shy/body/*:log.0")(V)


def test_entries_are_brought_while_others_read():
    """Also of modules that are imported later, which each reader looks for."""
    programs = [program_of(fresh(f"fresh{k}")) for k in range(60)]
    begin = threading.Barrier(4)

    def bringing():
        begin.wait()
        for program in programs:
            taxpr.register_hop(program.eqns[0].primitive, called_once())
        return []

    def reading():
        begin.wait()
        return [
            float(taxpr.trace(lambda x: jnp.sin(x) + 1)(1.0).tags() == []) for _ in range(9)
        ] + [
            {site.address for site in program.tags()} <= {f"0:{name}/body/t0", f"0:{name}/jaxpr/t0"}
            for program in programs
            for name in [program.eqns[0].primitive.name]
        ]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = [pool.submit(run) for run in (bringing, reading, reading, reading)]
        assert all(all(one.result()) for one in found)
    for program in programs:
        assert float(program.collect()(2.0)[1]["h"]) == 6.0


def test_entries_for_what_is_imported_meanwhile_are_added_once():
    """Several threads look for them at the same time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            prim = fresh()
            program = program_of(prim)
            table.register_when_loaded(lambda prim=prim: {prim: called_once()})
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                found = [pool.submit(taxpr.injectable, program.eqns[0]) for _ in range(4)]
                assert [one.result() for one in found] == [None] * 4
            taxpr.register_hop(prim, called_once())  # it is none that taxpr must have
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    ("prim", "hop", "text"),
    [
        ("scan", called_once(), r"'scan' is a str. An entry is for a primitive, such as"),
        (own_p, {"nested": None}, r"the entry of own is a dict, not a taxpr.hops.Hop"),
        (own_p, Hop(nested=lambda eqn: []), r"of own has neither an inject nor a refusal. Say how"),
        (jax.lax.scan_p, called_once(), r"scan has an entry of taxpr's own, which stays"),
    ],
)
def test_what_is_no_entry_is_refused(prim, hop, text):
    with pytest.raises(taxpr.ArgumentError, match=f"register_hop: .*{text}"):
        taxpr.register_hop(prim, hop)


def give(what):
    return lambda eqn, ctx, operands, thread: what(*thread("body")(ctx, operands))


AT_THE_LINE = r"register_hop: the entry of fresh \(test_register_hop.py:\d+ in \S+\): "


@pytest.mark.parametrize(
    ("hop", "text"),
    [
        (called_once(label="a/b"), "nested gave 'a/b', and a label is a part of an address"),
        (called_once(operands=()), "has 1 inputs, but 0 indices and 1 roles"),
        (called_once(results=(3,)), r"has no results \[3\]: it has 1"),
        (called_once(back=((0, 1),)), r"back=\(\(0, 1\),\) names results and inputs that its"),
        (called_once(param=("other",)), r"\('other',\) does not lead to `stored`"),
        (called_once(stored=3, param=None), "`stored` is an int, not a jaxpr"),
        (Hop(lambda eqn: [called(eqn, "jaxpr")] * 2, called_once().inject), "body, body, two the"),
        (Hop(lambda eqn: ["body"], called_once().inject), "nested gave 'body', which is no Nested"),
    ],
)
def test_a_wrong_nested_says_what_is_wrong(hop, text):
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, hop)
    with pytest.raises(taxpr.ArgumentError, match=AT_THE_LINE + ".*" + text):
        program.tags()


CARRY = {"back": ((0, 0),), "in_roles": ("carry",), "out_roles": ("carry",)}


def looping(inject=once, trips=2, **more):
    made = called_once(inject, **{**CARRY, "trips": trips, **more})
    return dataclasses.replace(made, loops=True)


@pytest.mark.parametrize(
    ("hop", "text"),
    [
        (called_once(trips=2), "and it runs trips=2 times, but the entry has no loops=True"),
        (called_once(in_roles=("cary",)), "have the role 'cary', not one of 'const', 'carry', 'x'"),
        (called_once(out_roles=("carry",)), r"back=\(\) does not say where the carry of result 0"),
        (looping(in_roles=("const",)), r"back=\(\(0, 0\),\) leads from a carry to a const"),
        (looping(label=3), "nested gave 3, and a label is a part of an address"),
        (Hop(lambda eqn: called(eqn, "jaxpr"), called_once().inject), "gave a Nested, not a list"),
        (Hop(lambda eqn: None, called_once().inject), "nested gave a NoneType, not a list"),
    ],
)
def test_a_nested_that_fits_nothing_says_so(hop, text):
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, hop)
    with pytest.raises(taxpr.ArgumentError, match=AT_THE_LINE + ".*" + text):
        program.tags()


def test_a_back_to_another_type_says_so():
    prim = fresh()
    jaxpr = jax.make_jaxpr(lambda x: [taxpr.tag(x, name="h") > 0])(2.0)
    program = taxpr.trace(lambda x: prim.bind(x, jaxpr=jaxpr)[0])(2.0)
    taxpr.register_hop(prim, looping())
    with pytest.raises(taxpr.ArgumentError, match=r"back=.* from bool\[\] to float32\[\]"):
        program.tags()


@pytest.mark.parametrize("param", [("body",), ("jaxpr", 0), ("size",)])
def test_a_param_that_is_not_there_says_what_is(param):
    prim = jex.Primitive("fresh")
    prim.multiple_results = True
    prim.def_abstract_eval(lambda *avals, jaxpr, size: jaxpr.out_avals)
    jaxpr = jax.make_jaxpr(lambda x: [x])(2.0)
    [eqn] = taxpr.trace(lambda x: prim.bind(x, jaxpr=jaxpr, size=3)[0])(2.0).eqns
    with pytest.raises(taxpr.ArgumentError, match=r"called: fresh has no jaxpr at .*jaxpr, size"):
        called(eqn, *param)


def asking(ask):
    return lambda eqn, ctx, operands, thread: ask(thread, ctx, operands)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (
            lambda t, c, a: t("jaxpr")(c, a),
            r"inject asked for thread\('jaxpr'\), .* label.* 'body'",
        ),
        (lambda t, c, a: t("body")(c, *a), r"thread\('body'\) was called .*\(ctx, args\)"),
        (lambda t, c, a: t("body")(c, *a, *a), r"thread\('body'\) was called .*\(ctx, args\)"),
        (lambda t, c, a: t("body")(a), r"thread\('body'\) was called .*\(ctx, args\)"),
        (lambda t, c, a: t("body")(c, []), r".* called with args nothing, .*expects float32\[\]"),
        (lambda t, c, a: t("body")(a, c), r".* called with ctx float32\[\], .*expects int32\[\]"),
    ],
)
def test_a_rule_that_asks_for_what_is_not_there_says_so(ask, text):
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, called_once(asking(ask)))
    with pytest.raises(taxpr.ArgumentError, match=AT_THE_LINE + text):
        program.inject(lambda n, token, params: (token, n + 1), 0)


# ---- what a rule emits -----------------------------------------------------------


def in_python(n):
    def inject(eqn, ctx, operands, thread):
        for _ in range(n):
            ctx, operands, emits = thread("body")(ctx, operands)
        return ctx, operands, emits

    return inject


def in_a_scan(n):
    def inject(eqn, ctx, operands, thread):
        def step(carry, _):
            ctx, outs, emits = thread("body")(*carry)
            return (ctx, outs), emits

        (ctx, outs), emits = jax.lax.scan(step, (ctx, operands), None, length=n)
        return ctx, outs, emits

    return inject


def old_ctx(eqn, ctx, operands, thread):
    return ctx, *thread("body")(ctx, operands)[1:]


USES = {
    "collect": lambda p: p.collect(),
    "plant": lambda p: p.plant({"h": 1.0}, at=0),
    "inject": lambda p: p.inject(lambda n, token, params: (token, n + 1), 0),
    "count": lambda p: p.inject(taxpr.count(per="iteration", max_steps=3)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("inject", "trips", "text"),
    [
        (
            in_python(2),
            2,
            r"emits of a single run of 'body', .* emits of 2 stacked runs: nested says trips=2",
        ),
        (
            in_a_scan(3),
            2,
            r"emits of 3 stacked runs of 'body', and expected emits of 2 .* as jax.lax.scan",
        ),
        (
            in_a_scan(2),
            1,
            r"emits of 2 stacked runs of 'body', .* emits of 1 stacked run: nested says trips=1",
        ),
        (in_a_scan(2), None, r"no count of the runs of 'body' .*by later, from before_loop"),
        (in_python(1), None, r"no count of the runs of 'body' .*by later, from before_loop"),
        (lambda e, c, o, t: (*in_a_scan(2)(e, c, o, t)[:2], {}), 2, "inject lost what .*body"),
    ],
)
def test_a_rule_that_loses_runs_says_so(inject, trips, text, use):
    """Also where nothing is collected: what is planted or counted goes by the same iterations."""
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, looping(inject, trips))
    with pytest.raises(taxpr.ArgumentError, match=AT_THE_LINE + ".*" + text):
        use(program)


@pytest.mark.parametrize(
    ("inject", "more", "text"),
    [
        (
            in_a_scan(2),
            {},
            "emits of 2 stacked runs of 'body', .* of a single run.*loops=True",
        ),
        (in_python(1), {"conditional": True}, "no count of the runs of 'body'.*counted.*never"),
        (old_ctx, {}, r"inject returned the ctx that it was given, and 'body' changes it"),
    ],
)
def test_a_rule_of_no_loop_that_loses_runs_says_so(inject, more, text):
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, called_once(inject, **more))
    with pytest.raises(taxpr.ArgumentError, match=AT_THE_LINE + ".*" + text):
        program.inject(lambda n, token, params: (token, n + 1), 0)


def test_emits_that_are_changed_are_refused():
    prim = fresh()
    program = program_of(prim)

    def inject(eqn, ctx, operands, thread):
        ctx, outs, emits = thread("body")(ctx, operands)
        return (
            ctx,
            outs,
            {k: e._replace(value=[x[None] for x in e.value]) for k, e in emits.items()},
        )

    taxpr.register_hop(prim, called_once(inject))
    with pytest.raises(taxpr.ArgumentError, match="emits of 1 stacked run of 'body'"):
        program.collect()

    def one_of_them(eqn, ctx, operands, thread):
        ctx, outs, emits = thread("body")(ctx, operands)
        emits["body/t0"] = emits["body/t0"]._replace(value=[jnp.ones(3, bool)])
        return ctx, outs, emits

    taxpr.register_hop(prim, called_once(one_of_them))
    said = r"returned bool\[3\] for the value collected at body/t0, and expected float32\[\]"
    with pytest.raises(taxpr.ArgumentError, match=said):
        program.collect()


@pytest.mark.parametrize(
    ("inject", "text"),
    [
        (give(lambda ctx, outs, emits: outs), r"returned a list, not \(ctx, results, emits"),
        (
            give(lambda ctx, outs, emits: (ctx, [], emits)),
            "returned results nothing, and expected f",
        ),
        (
            give(lambda ctx, outs, emits: ([], outs, emits)),
            "returned ctx nothing, and expected int32",
        ),
        (
            give(lambda ctx, outs, emits: (ctx, [outs[0] > 0], emits)),
            r"returned results bool\[\], and expected float32\[\]",
        ),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(inject, text):
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, called_once(inject))
    with pytest.raises(taxpr.ArgumentError, match=AT_THE_LINE + "inject " + text):
        program.inject(lambda n, token, params: (token, n + 1), 0)


def test_a_rule_that_loses_what_is_collected_says_so():
    prim = fresh()
    program = program_of(prim)
    taxpr.register_hop(prim, called_once(give(lambda ctx, outs, emits: (ctx, outs, {}))))
    with pytest.raises(taxpr.ArgumentError, match="inject lost what is collected at body/t0: retu"):
        program.collect()


def test_weak_types_stay_as_they_were():
    prim = fresh()
    program = program_of(prim)

    def strong(ctx, outs, emits):
        return ctx, [jnp.asarray(np.float32(1)) * outs[0].astype(np.float32)], emits

    taxpr.register_hop(prim, called_once(give(strong)))
    assert program.out_avals[0].weak_type
    assert program.collect().out_avals[0].weak_type
