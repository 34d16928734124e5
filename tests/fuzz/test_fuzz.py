"""Random programs: every rewrite of taxpr against the plain interpreter.

The programs of a run follow from `SEED`. Most are not compiled: a rewritten jaxpr is run by
the reference interpreter, equation by equation, and must give the very bits that the
reference gives while it calls the injector itself. A fixed share is run by JAX as well, eager
and under `jax.jit`, mapped, and differentiated.

    TAXPR_FUZZ        how many programs, over all tests (``make fuzz N=...``)
    TAXPR_FUZZ_SEED   where to begin
"""

import collections
import functools
import itertools

import jax
import jax.experimental
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types, is_float
from fuzz import meaning
from fuzz.amount import PROGRAMS, SEED
from fuzz.build import Hop, as_source, build, lanes
from fuzz.generate import choices, program_of
from fuzz.hops import HOPS
from fuzz.meaning import (
    assert_same_bits,
    bits,
    changing,
    changing_briefly,
    interpret,
)
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from loops import Indexed
from reference import Reference

import taxpr

# Up to 0.7 only experimental.
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

# The older versions of JAX, of which there are several, get fewer.


def fuzz(share, chunks, compiled=False):
    """Run a check on a share of all programs, in several tests, which can run side by side.

    With ``compiled`` it compiles whole programs, which no other one needs: they are forgotten at
    the end. What others compile, single operations, is kept for all.
    """

    def decorate(check):
        count = max(1, round(PROGRAMS * share / chunks))

        @pytest.mark.timeout(1800)  # shrinking a failure takes long
        @pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")
        @pytest.mark.filterwarnings("ignore::taxpr.StaleDerivativeWarning")
        @pytest.mark.parametrize("chunk", range(chunks))
        def test(chunk):
            @seed(f"{SEED} {check.__name__} {chunk}")
            @settings(
                max_examples=count,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                print_blob=False,
                report_multiple_bugs=False,
                phases=[Phase.generate, Phase.shrink],
            )
            @given(choices())
            def run(choices):
                check(choices)

            COUNTS.clear()
            run()
            print(f"{check.__name__}[{chunk}], {count} programs. {shown(COUNTS)}")
            if count >= ENOUGH and check.__name__ == "test_rewrites":
                assert_nothing_is_missing(COUNTS)
            if compiled:
                jax.clear_caches()

        test.__name__, test.check = check.__name__, check
        return test

    return decorate


# ---- what occurred -----------------------------------------------------------

COUNTS = collections.Counter()
ENOUGH = 200  # programs, of which some have any kind of higher-order function and of dtype


def count_what_occurs(program, sites, chosen):
    """How many programs have a kind; how many tags, and injected ones, are in a primitive."""
    COUNTS.update({("kind", kind) for kind in kinds_in(program.block)})
    for site in sites:
        COUNTS["depth", len(site.steps)] += 1
        COUNTS.update({("dtype", str(aval.dtype)) for aval in jax.tree.leaves(site.avals)})
        for step in site.steps:
            name = step.eqn.primitive.name
            COUNTS["tag in", name] += 1
            COUNTS["injected in", name] += site.name in chosen
            COUNTS["refused in", name] += taxpr.injectable(step.eqn) is not None


def kinds_in(block):
    for statement in block.body:
        if isinstance(statement, Hop):
            yield statement.kind
            for inner in statement.blocks:
                yield from kinds_in(inner)


def shown(counts):
    return ", ".join(f"{what} {which}: {n}" for (what, which), n in sorted(counts.items()) if n)


def assert_nothing_is_missing(counts):
    for entry in HOPS:
        assert counts["kind", entry.kind], f"no program has a {entry.kind}"
        if entry.primitives:
            held = [name for name in entry.primitives if counts["tag in", name]]
            assert held, f"no tag is in a {entry.kind}"
            refused = all(counts["refused in", name] for name in held)
            gone_into = any(counts["injected in", name] for name in held)
            assert refused or gone_into, f"no injected tag is in a {entry.kind}"
    for depth in range(5):
        assert counts["depth", depth], f"no tag is {depth} deep"
    for dtype in ("float32", "bfloat16", "int32", "uint8", "bool", "key<fry>"):
        assert counts["dtype", dtype], f"no tag is of a {dtype}"


def on_one_device(ctx, axis_names):
    """All contexts of a shard_map as one, to the bit, where there is one device."""
    if jax.dtypes.issubdtype(ctx.dtype, jax.dtypes.prng_key):
        data = on_one_device(jax.random.key_data(ctx), axis_names)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(ctx))
    number = ctx.astype(jnp.uint8) if ctx.dtype == bool else ctx
    return jax.lax.pmax(number, axis_names).astype(ctx.dtype)


# ---- which tags can be injected ----------------------------------------------


@functools.lru_cache(maxsize=2)
def tags_of(jaxpr):
    """The tags of a program before a rewrite, which is asked for after each rewrite of it."""
    return taxpr.find_tags(jaxpr)


def is_injectable(site):
    return not any(taxpr.injectable(step.eqn) or step.nested.refusal for step in site.steps)


class Drawn:
    """One program and what is done with it; a failure shows the program."""

    def __init__(self, choices, float_dtype=jnp.float32, **kinds):
        # First the choices of the test itself: the program takes what is left.
        self.flags = [choices.number(0, 1) for _ in range(8)]
        self.at = choices.number(0, 255)
        self._left_out = [choices.number(0, 1) for _ in range(16)] if self.flags[0] else [0]
        self.ctx = choices.choice(meaning.contexts())
        self.ctx_leaves = jax.tree.leaves(self.ctx)
        self.program = program_of(choices, **kinds)
        self.source = as_source(self.program)
        note(self.source)
        self.fn, self.args = build(self.program, float_dtype)

    def chosen(self, jaxpr):
        """Some of the tags into which taxpr can go, by name."""
        sites = tags_of(jaxpr)
        barred = {site.name for site in sites if not is_injectable(site)}
        names = dict.fromkeys(site.name for site in sites if site.name not in barred)
        out = itertools.cycle(self._left_out)
        chosen = {name for name in names if not next(out)}
        note(f"injected: {chosen}")
        return chosen

    def address(self, jaxpr):
        addresses = list(value_addresses(jaxpr))
        return addresses[self.at % len(addresses)]


def injected(jaxpr, ctx, chosen, injector=changing, **options):
    """The injected jaxpr, after checks of its types and of the tags that it has left."""
    predicate = lambda params, _: params["name"] in chosen
    new = taxpr.inject(jaxpr, injector, ctx, predicate, shards=on_one_device, **options)
    check_types(new)
    assert_only_gone(new, jaxpr, chosen)
    return new


def assert_only_gone(new, jaxpr, gone):
    left = [site.name for site in taxpr.find_tags(new)]
    before = tags_of(jaxpr)
    expected = [site.name for site in before if site.name not in gone]
    if any(step.nested.label == "cond" for site in before for step in site.steps):
        # A condition that is injected runs before the loop and in its body: its tags are twice
        # in the new program.
        assert set(left) == set(expected)
    else:
        assert left == expected


def reference_run(jaxpr, ctx, chosen, args, injector=changing):
    """``[*outs, *ctx]`` by the reference."""
    run = Reference(injector, ctx, lambda params: params["name"] in chosen)
    return [*run(jaxpr, *args), *jax.tree.leaves(run.ctx)]


# ---- the checks --------------------------------------------------------------


@pytest.mark.spread(6)
@fuzz(share=0.6, chunks=6)
def test_rewrites(choices):
    """Each rewrite, run by the reference: the same bits."""
    drawn = Drawn(choices)
    args, ctx, leaves = drawn.args, drawn.ctx, drawn.ctx_leaves
    traced = taxpr.trace(drawn.fn)(*args)
    jaxpr = traced.jaxpr
    plain = interpret(jaxpr, *args)
    chosen = drawn.chosen(jaxpr)
    count_what_occurs(drawn.program, traced.tags(), chosen)

    new = injected(jaxpr, ctx, chosen)
    assert_same_bits(interpret(new, *leaves, *args), reference_run(jaxpr, ctx, chosen, args))

    same = injected(jaxpr, ctx, chosen, identity)
    assert_same_bits(interpret(same, *leaves, *args), [*plain, *leaves])

    check_dissolving(jaxpr, chosen, plain, args)
    check_one_site(drawn, traced)
    check_collecting(traced, plain, args)
    check_tagging(drawn.address(jaxpr), traced, plain, args)


def identity(ctx, token, params):
    return token, ctx


def check_dissolving(jaxpr, chosen, plain, args):
    none = taxpr.dissolve_tags(jaxpr)
    check_types(none)
    assert taxpr.find_tags(none) == []
    assert str(taxpr.dissolve_tags(none)) == str(none)
    assert_same_bits(interpret(none, *args), plain)
    fewer = taxpr.dissolve_tags(jaxpr, lambda params, _: params["name"] in chosen)
    check_types(fewer)
    assert_only_gone(fewer, jaxpr, chosen)


def check_one_site(drawn, traced):
    """One of several tags with one name, as where a jit is called twice: the others stay."""
    sites = [site for site in traced.tags() if is_injectable(site)]
    if not sites:
        return
    site = sites[drawn.at % len(sites)]
    note(f"one of them: {site}")
    others = [other for other in sites if other.name == site.name and other is not site]
    alone = traced.dissolve(others) if others else traced
    check_types(alone.jaxpr)
    assert len(alone.tags()) == len(traced.tags()) - len(others)
    new = traced.inject(changing, drawn.ctx, where=site, shards=on_one_device)
    check_types(new.jaxpr)
    assert_same_bits(
        interpret(new.jaxpr, *drawn.ctx_leaves, *drawn.args),
        reference_run(alone.jaxpr, drawn.ctx, {site.name}, drawn.args),
    )


def check_collecting(traced, plain, args):
    times = collections.Counter(site.name for site in traced.tags())
    sites = [site for site in traced.tags() if times[site.name] == 1 and is_injectable(site)]
    if not sites:
        return
    collecting = traced.collect([site.address for site in sites])
    check_types(collecting.jaxpr)
    flat = interpret(collecting.jaxpr, *args)
    out, values = jax.tree.unflatten(collecting.out_tree, flat)
    assert_same_bits(out, plain)
    reference = Indexed()
    reference(traced.jaxpr, *args)
    assert set(values) == {site.name for site in sites}
    for site in sites:
        found = values[site.name]
        expected, count = meaning.collected(site, reference.seen[site.name])
        if isinstance(found, taxpr.Last):
            assert_counts(found.count, count)
        elif isinstance(found, taxpr.Masked):
            assert_counts(found.mask, count > 0)
        else:
            assert not site.conditional
            np.testing.assert_array_equal(count, 1)
        value = found.value if isinstance(found, (taxpr.Last, taxpr.Masked)) else found
        assert jax.tree.structure(value) == jax.tree.structure(site.avals)
        for a, b in zip(jax.tree.leaves(value), expected, strict=True):
            np.testing.assert_array_equal(bits(a), b)


def assert_counts(found, expected):
    """Scans of which every iteration fires equally often have no axis in what is found."""
    found = np.asarray(found)
    assert found.shape == expected.shape[: found.ndim]
    wide = found.reshape(found.shape + (1,) * (expected.ndim - found.ndim))
    np.testing.assert_array_equal(np.broadcast_to(wide, expected.shape), expected)


def check_tagging(address, traced, plain, args):
    note(f"tagged: {address}")
    tagged = traced.tag_at(address, name="here")
    check_types(tagged.jaxpr)
    [site] = tagged.tags("here")
    assert_same_bits(interpret(tagged.jaxpr, *args), plain)
    assert_nothing_passes_by(site, tagged.jaxpr)
    if is_injectable(site):
        ctx = meaning.START_BRIEFLY
        new = injected(tagged.jaxpr, ctx, {"here"}, changing_briefly)
        expected = reference_run(tagged.jaxpr, ctx, {"here"}, args, changing_briefly)
        assert_same_bits(interpret(new, *ctx, *args), expected)


def assert_nothing_passes_by(site, jaxpr):
    """All that used the value uses what comes out of the tag."""
    home = site.steps[-1].nested.jaxpr if site.steps else getattr(jaxpr, "jaxpr", jaxpr)
    (value,) = site.eqn.invars
    assert not any(atom is value for atom in home.outvars)
    assert [e for e in home.eqns if any(atom is value for atom in e.invars)] == [site.eqn]


def value_addresses(jaxpr, prefix=""):
    """The address of every array of a program that can be tagged."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for kind, variables in (("in", inner.invars), ("const", inner.constvars)):
        yield from (f"{prefix}{kind}{k}" for k in range(len(variables)))
    for local, eqn in taxpr.numbered(inner):
        yield from (f"{prefix}{local}.{k}" for k in range(len(eqn.outvars)))
        for nested in taxpr.nested_jaxprs(eqn):
            if nested.param is not None:
                yield from value_addresses(nested.stored, f"{prefix}{local}/{nested.label}/")


@pytest.mark.spread(2)
@fuzz(share=0.15, chunks=2, compiled=True)
def test_compiled(choices):
    """JAX itself, eager and compiled; the identity changes no bit of a compiled program."""
    drawn = Drawn(choices)
    args, ctx, leaves = drawn.args, drawn.ctx, drawn.ctx_leaves
    jaxpr = jax.make_jaxpr(drawn.fn)(*args)
    chosen = drawn.chosen(jaxpr)

    new = injected(jaxpr, ctx, chosen)
    run = compiled(new) if drawn.flags[1] else jex.jaxpr_as_fun(new)
    expected = reference_run(jaxpr, ctx, chosen, args)
    assert_close(run(*leaves, *args), expected, tolerance(drawn))

    plain = compiled(jaxpr)(*args)
    if drawn.flags[2]:
        same = injected(jaxpr, ctx, chosen, identity)
        assert_same_bits(compiled(same)(*leaves, *args), [*plain, *leaves])
    else:
        assert_same_bits(compiled(taxpr.dissolve_tags(jaxpr))(*args), plain)


def compiled(jaxpr):
    # Where XLA keeps more than a dtype has, it does so depending on what it fuses.
    options = {"xla_allow_excess_precision": False}
    return jax.jit(jex.jaxpr_as_fun(jaxpr), compiler_options=options)


def tolerance(drawn):
    """Rounding to bfloat16 turns the last bit of a float32 into much more."""
    return 5e-2 if "bfloat16" in drawn.source else 1e-4


@pytest.mark.spread(2)
@fuzz(share=0.1, chunks=2)
def test_batched(choices):
    """`jax.vmap` of the injected program: each lane by itself, with its own context."""
    drawn = Drawn(choices, without=NOT_BATCHED)
    ctx, leaves = drawn.ctx, drawn.ctx_leaves
    jaxpr = jax.make_jaxpr(drawn.fn)(*drawn.args)
    chosen = drawn.chosen(jaxpr)
    new = injected(jaxpr, ctx, chosen)

    several = lanes(drawn.program, 2)
    mapped = drawn.flags[: len(drawn.args)]
    # An argument that is not mapped is the same in all lanes.
    own = [
        [x if m else a for x, m, a in zip(lane, mapped, drawn.args, strict=True)]
        for lane in several
    ]
    batch = [jnp.stack(xs) if m else xs[0] for m, *xs in zip(mapped, *own, strict=True)]
    axes = [None] * len(leaves) + [0 if m else None for m in mapped]
    run = jax.vmap(jex.jaxpr_as_fun(new), axes, axis_size=2)
    found = interpret(jax.make_jaxpr(run)(*leaves, *batch), *leaves, *batch)
    for k, lane in enumerate(own):
        expected = reference_run(jaxpr, ctx, chosen, lane)
        assert_close([x[k] for x in found], expected, tolerance(drawn))


# JAX maps a closed_call only with its checks off, up to 0.11, and not every switch that has a
# custom_vmap in it.
NOT_BATCHED = ("closed_call", "custom_vmap")
# Their rules are not those of what they hold, and the reference differentiates what they hold.
# So do custom_jvp and custom_vjp: the rules of those that are injected are dropped, and those of
# others are made honest.
WITH_RULES = ("linear_solve", "custom_vmap")


@pytest.mark.spread(2)
@fuzz(share=0.1, chunks=2, compiled=True)
def test_derivatives(choices):
    """Of outputs and context, with respect to both: those of the reference, run under JAX."""
    reversible = choices.chance(50)
    drawn = Drawn(choices, without=WITH_RULES, reversible=reversible, honest=True)
    jaxpr = jax.make_jaxpr(drawn.fn)(*drawn.args)
    ours, theirs, at = differentiable(jaxpr, drawn.ctx, drawn.chosen(jaxpr), drawn.args)
    if not at:
        return
    along = tuple(jnp.full(x.shape, 0.3 + 0.2 * k, x.dtype) for k, x in enumerate(at))
    loose = 10 * tolerance(drawn)
    if "custom_vjp" not in drawn.source:
        forward = lambda *at: jax.jvp(ours, at, along)
        found = interpret(jax.make_jaxpr(forward)(*at), *at)
        assert_close(found, jax.jvp(theirs, at, along), loose)
    if reversible:
        argnums = tuple(range(len(at)))
        back = jax.grad(ours, argnums)
        if drawn.flags[1] and drawn.flags[2]:
            found = jax.jit(back)(*at)
        else:
            found = interpret(jax.make_jaxpr(back)(*at), *at)
        assert_close(found, jax.grad(theirs, argnums)(*at), loose)


def differentiable(jaxpr, ctx, chosen, args):
    """One number by taxpr and by the reference, as functions of all floats that go in."""
    leaves, tree = jax.tree.flatten(ctx)
    new = injected(jaxpr, ctx, chosen, custom_rules="drop")
    given = [*leaves, *args]
    where = [k for k, x in enumerate(given) if is_float(x)]

    def all_of(floats):
        whole = list(given)
        for k, x in zip(where, floats, strict=True):
            whole[k] = x
        return whole

    def ours(*floats):
        return total(jex.jaxpr_as_fun(new)(*all_of(floats)))

    def theirs(*floats):
        whole = all_of(floats)
        own = jax.tree.unflatten(tree, whole[: len(leaves)])
        return total(reference_run(jaxpr, own, chosen, whole[len(leaves) :]))

    return ours, theirs, tuple(given[k] for k in where)


def total(out):
    floats = [x.astype(meaning.float_dtype()) for x in map(jnp.asarray, out) if is_float(x)]
    return sum((jnp.sum(x) for x in floats), start=jnp.zeros((), meaning.float_dtype()))


@fuzz(share=0.05, chunks=1)
def test_finite_differences(choices):
    """Derivatives of the injected program in float64 against differences of the reference."""
    with enable_x64(True):
        drawn = Drawn(
            choices,
            float_dtype=jnp.float64,
            # Under x64 the counter of a fori_loop is an int64.
            without=(*WITH_RULES, "fori_loop"),
            reversible=True,
            honest=True,
        )
        if "bfloat16" in drawn.source or "stop_gradient" in drawn.source:
            return
        jaxpr = jax.make_jaxpr(drawn.fn)(*drawn.args)
        ctx = meaning.contexts()[1]
        ours, theirs, at = differentiable(jaxpr, ctx, drawn.chosen(jaxpr), drawn.args)
        along = [jnp.full(x.shape, 0.3 + 0.2 * k, x.dtype) for k, x in enumerate(at)]
        step = 1e-6

        def moved(by):
            return theirs(*(x + by * d for x, d in zip(at, along, strict=True)))

        expected = (moved(step) - moved(-step)) / (2 * step)
        back = jax.grad(ours, tuple(range(len(at))))
        found = interpret(jax.make_jaxpr(back)(*at), *at)
        slope = sum(float(jnp.sum(g * d)) for g, d in zip(found, along, strict=True))
        np.testing.assert_allclose(slope, float(expected), rtol=1e-5, atol=1e-5)
