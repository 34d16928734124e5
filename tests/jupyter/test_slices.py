"""What is upstream and downstream, against changing each value and looking at what else changes."""

import contextlib
import random

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from drawn_programs import PROGRAMS
from hypothesis import strategies as st
from jax import lax
from reference import Reference

import taxpr
from taxpr_jupyter import PanelError
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.slices import Slices

V = np.asarray([0.3, -0.8, 1.1], np.float32)
X = np.float32(0.7)


def values(program):
    """The addresses of all values that can be tagged and changed a little."""
    return [
        value.address
        for value in taxpr.find_values(program)
        if jnp.issubdtype(value.aval.dtype, jnp.number)
    ]


def changes(program, args, targets):
    """For each target the values, and outputs, that change when it does."""
    tagged, addresses = program, []
    for address in values(program):
        with contextlib.suppress(taxpr.RefusedError):  # some jaxprs are hidden
            tagged = tagged.tag_at(address, at=address)
            addresses.append(address)

    def run(target):
        seen = {address: [] for address in addresses}

        def injector(ctx, token, params):
            if "at" not in params:
                return token, ctx
            if params["at"] == target:
                token = token + jnp.asarray(1, token.dtype)
            seen[params["at"]].append(np.asarray(token))
            return token, ctx

        outs = Reference(injector, ())(tagged.jaxpr, *args)
        return {**seen, **{f"out{k}": [np.asarray(out)] for k, out in enumerate(outs)}}

    before = run(None)
    for target in targets:
        after = run(target)
        yield target, {a for a in before if not _same(before[a], after[a])}


def _same(before, after):
    return len(before) == len(after) and all(map(np.array_equal, before, after))


def check(program, args, targets):
    """Whether all that changes is downstream, and upstream is the inverse of that."""
    slices = Slices(Index(program))
    for target, changed in changes(program, args, targets):
        below = slices.downstream(target)
        assert {a for a in changed if not below.touches(a)} == set(), target
        for address in changed:
            assert slices.upstream(address).touches(target), (target, address)
            assert slices.between(target, address).addresses, (target, address)


RUN = [
    case
    for case in CASES
    # The reference runs them in another way, without what is asked about.
    if case.name not in {"shard_map", "linear_solve", "custom_root"}
]


@pytest.mark.spread(6)
@pytest.mark.parametrize("case", RUN, ids=lambda case: case.name)
def test_what_changes_is_downstream(case):
    program = taxpr.trace(case.fn)(*case.args)
    addresses = values(program)
    chosen = random.Random(case.name).sample(addresses, min(len(addresses), 6))
    check(program, jax.tree.leaves(case.args), chosen)


def swapping_scan(a, b):
    return lax.scan(lambda c, x: ((c[1], c[0] + x), c[0]), (a, b), b * jnp.ones(2))[0]


def growing_while(a, b):
    return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1.5, c[1] - 1), (a, b))


STEPS = {
    "sin": lambda a, b: (jnp.sin(a), b),
    "mul": lambda a, b: (a * b, a),
    "swap": lambda a, b: (b, a),
    "jit": lambda a, b: jax.jit(lambda u, v: (u + v, v))(a, b),
    "constant": lambda a, b: (a, jnp.float32(0.5)),
    "scan": lambda a, b: lax.scan(lambda c, x: ((c[1], c[0] + x), c[0]), (a, b), b * jnp.ones(2))[
        0
    ],
    "while": lambda a, b: lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1.5, c[1] - 1), (a, b)
    ),
    "cond": lambda a, b: lax.cond(a > 0.5, lambda u, v: (v, v * 2), lambda u, v: (u, v), a, b),
    "stop": lambda a, b: (lax.stop_gradient(a) + 1, jax.checkpoint(jnp.cos)(b)),
}


@pytest.mark.slow
@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=5),
    inside=st.lists(st.sampled_from(sorted(STEPS)), max_size=2),
    which=st.integers(0, 10**6),
    backward=st.booleans(),
)
def test_what_changes_is_downstream_in_random_programs(steps, inside, which, backward):
    def run(names, a, b):
        for name in names:
            a, b = STEPS[name](a, b)
        return a, b

    def f(a, b):
        a, b = run(steps, a, b)
        return lax.scan(lambda c, x: (run(inside, *c), x + c[0]), (a, b), jnp.arange(2.0))

    def loss(a, b):
        (a, b), ys = f(a, b)
        return a * b + ys.sum()

    backward &= "while" not in (*steps, *inside)  # which cannot be differentiated in reverse
    args = np.float32(0.3), np.float32(-0.7)
    program = taxpr.trace(jax.grad(loss, (0, 1)) if backward else f)(*args)
    addresses = values(program)
    check(program, args, [addresses[which % len(addresses)]])


@pytest.mark.parametrize("name", PROGRAMS)
def test_upstream_is_the_inverse_of_downstream(name):
    index = Index(PROGRAMS[name]())
    slices = Slices(index)
    places = [place.address for place in index.places]
    places = random.Random(name).sample(places, min(len(places), 12))
    below = {place: slices.downstream(place) for place in places}
    above = {place: slices.upstream(place) for place in places}
    for a in places:
        assert below[a].touches(a)
        assert above[a].touches(a)
        for b in places:
            assert below[a].touches(b) == above[b].touches(a), (a, b)
            assert bool(slices.between(a, b).places()) == below[a].touches(b)


def test_a_slice_is_no_larger_than_it_must_be():
    program = taxpr.trace(lambda x, y: (jnp.sin(x) * 2, jnp.cos(y) + x))(X, X)
    assert Slices(Index(program)).downstream("in1").addresses == ("in1", "2:cos", "3:add", "out1")
    assert Slices(Index(program)).upstream("out0").addresses == ("in0", "0:sin", "1:mul", "out0")
    assert Slices(Index(program)).between("in0", "3:add").addresses == ("in0", "3:add")
    assert Slices(Index(program)).between("in1", "out0").addresses == ()
    assert Slices(Index(program)).upstream("2:cos.0").addresses == ("in1", "2:cos")


def test_values_that_a_scan_carries_side_by_side_stay_apart():
    def f(a, b, w):
        return lax.scan(lambda c, x: ((c[0] * 2, c[1] + x), c[0]), (a, b), w)

    program = taxpr.trace(f)(X, X, V)
    assert [a for a in Slices(Index(program)).downstream("in0").addresses if "out" in a] == [
        "out0",
        "out2",
    ]
    assert [a for a in Slices(Index(program)).upstream("out1").addresses if "in" in a][:2] == [
        "in1",
        "in2",
    ]
    # The way back: what is added now is in the carry of the next iteration.
    assert Slices(Index(program)).downstream("0:scan/body/1:add").touches("0:scan/body/in1")


def test_what_a_predicate_or_an_index_decides_is_downstream_of_it():
    def f(n, i, x):
        y = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0.0, x))[1]
        return lax.cond(i > 0, lambda: x, lambda: y), x * 3

    program = taxpr.trace(f)(X, X, X)
    (loop,) = [a for a, eqn in taxpr.iter_eqns(program.jaxpr) if a.endswith(":while")]
    slice_ = Slices(Index(program)).downstream("in0")
    assert slice_.touches(f"{loop}/body/1:mul")
    assert [a for a in slice_.addresses if a.startswith("out")] == ["out0"]
    assert [
        a for a in Slices(Index(program)).downstream("in1").addresses if a.startswith("out")
    ] == ["out0"]
    assert slice_.unsure == ()


def test_what_is_written_to_a_reference_is_seen_by_who_reads_it():
    program = PROGRAMS["refs"]()
    assert Slices(Index(program)).downstream("in0").touches("out0")
    assert Slices(Index(program)).upstream("out0").touches("in0")


def test_it_says_where_it_cannot_know():
    program = PROGRAMS["kernel"]()
    (call,) = [a for a, e in taxpr.iter_eqns(program.jaxpr) if e.primitive.name == "pallas_call"]
    assert Slices(Index(program)).downstream("in0").unsure == (call,)
    assert Slices(Index(program)).downstream("in0").touches("out0")


def test_groups_and_jaxprs_stand_for_what_is_in_them():
    def f(x):
        return lax.scan(lambda c, _: (jnp.sin(c) + 1, None), jnp.cos(x), None, 3)[0] * 2

    slices = Slices(Index(taxpr.trace(f)(X)))
    assert slices.downstream("group:1-2").addresses[0] == "1:scan"
    assert slices.upstream("1:scan/body").addresses == slices.upstream("1:scan").addresses
    assert slices.downstream("0:cos").touches("1:scan/body/group:0-1")
    assert not slices.upstream("0:cos").touches("1:scan/body")
    assert slices.of(["0:cos", "out0"]).addresses == ("0:cos", "out0")


@pytest.mark.parametrize(
    "address", ["9:sin", "0:sin.4", "0:sin/body/0:cos", "group:0-9", "", "in7", "in0.0"]
)
def test_an_address_that_is_not_there(address):
    program = taxpr.trace(lambda x: jnp.sin(x) * 2)(X)
    with pytest.raises(PanelError, match="There is no"):
        Slices(Index(program)).downstream(address)
