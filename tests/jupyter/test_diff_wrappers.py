"""`jit`, `remat` and others around equations on one side only: what they wrap is compared."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from compared_programs import V, chain, compared, counts, named
from drawn_programs import PROGRAMS
from jax import lax

import taxpr
from taxpr_jupyter import compare
from taxpr_jupyter._diff import wrappers
from taxpr_jupyter._diff.diff import diff
from taxpr_jupyter._diff.diff_text import diff_text

WRAPPERS = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "nested": lambda f: jax.jit(jax.checkpoint(jax.jit(f))),
}


def layer(x):
    return jnp.tanh(x / lax.sqrt(jnp.sum(x * x) + 1e-5))


def layer2(x):
    return jnp.tanh(x / lax.sqrt(jnp.sum(x * x) + 1e-6))


def said(found):
    return [(one.what, one.count, one.status) for one in found.changes]


def is_whole(found):
    """Checks that each place has a status, and that the counts are those of the equations."""
    for side, program in enumerate(found.programs):
        statuses = (found.before, found.after)[side]
        gone = found.counts["added" if side == 0 else "removed"]
        assert sum(found.counts.values()) - gone == sum(1 for _ in taxpr.iter_eqns(program.jaxpr))
        every = list(statuses)
        assert len(every) == len(set(every))
        for address in every:
            status, partner, _ = found.look(side, address)
            assert status == statuses[address]
            if partner is not None:
                assert found.look(1 - side, partner)[:2] == (status, address)
    walk(found, found.programs[0].jaxpr, taxpr.Address())
    for one, other in found.pairs.items():
        assert found.partner(1, other) == one


def walk(found, jaxpr, home, deep=6):
    for local, eqn in taxpr.numbered(jaxpr):
        assert found.before[home / local] in ("same", "inside", "follows", "changed", "removed")
        for nested in taxpr.nested_jaxprs(eqn) if deep else ():
            for k in range(len(nested.jaxpr.invars)):
                assert found.before[home / local / nested.label / f"in{k}"]
            walk(found, nested.jaxpr, home / local / nested.label, deep - 1)


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
@pytest.mark.parametrize("swap", [False, True])
def test_a_wrapper_that_is_gone_is_one_change(wrap, swap):
    sides = [chain(*[fn] * 3) for fn in (wrap(layer), layer)]
    found = compared(*(sides[::-1] if swap else sides), V)
    status = "added" if swap else "removed"
    assert counts(found) == {status: 3, "same": 18}
    ((what, count, became),) = said(found)
    assert (what.endswith(" around layer"), count, became) == (True, 3, status)
    assert found.summary().startswith(f"1 change at 3 places: {what} {status} in apply (")
    side = int(swap)
    (name, *_) = found.changes[0].addresses
    assert found.look(side, name) == (status, None, ("what it wraps is the same",))
    inner = f"{name}/call/2:add"
    assert found.look(side, inner) == ("same", "2:add", ())
    assert found.look(side, f"{inner}.0") == ("same", "2:add.0", ())
    assert found.look(1 - side, "2:add") == ("same", inner, ())
    assert found.look(side, f"{name}/call/in0")[:2] == (status, None)
    assert not found.opens(side, name)
    is_whole(found)


def test_a_change_inside_of_a_wrapper_that_is_gone():
    found = compared(chain(*[jax.checkpoint(layer)] * 2), chain(layer2, layer2), V)
    assert counts(found) == {"removed": 2, "changed": 2, "same": 10}
    assert said(found)[0] == ("1e-05→1e-06", 2, "changed")
    wrapper = found.changes[1].addresses[0]
    assert found.opens(0, wrapper)
    assert found.what(0, wrapper) == ("what it wraps is compared",)
    assert found.what(0, f"{wrapper}/call/2:add") == ("operand 1 1e-05→1e-06",)
    lines = diff_text(found).split("\n")
    assert any(line.endswith("what it wraps is compared") for line in lines)
    is_whole(found)


def test_another_wrapper_instead():
    found = compared(chain(jax.jit(layer)), chain(jax.checkpoint(layer)), V)
    assert counts(found) == {"added": 1, "removed": 1, "same": 6}
    is_whole(found)


@pytest.mark.parametrize("gone", range(3))
def test_one_of_several_calls_is_not_wrapped_any_more(gone):
    jitted = jax.jit(layer)
    after = [layer if n == gone else jitted for n in range(3)]
    found = compared(chain(*[jitted] * 3), chain(*after), V)
    assert said(found) == [("jit around layer", 1, "removed")]
    assert found.counts["same"] == 20
    is_whole(found)


def test_wrappers_in_wrappers_and_in_loops():
    inner = jax.jit(layer)
    outer = jax.checkpoint(named("outer", lambda x: inner(jnp.sin(x)) * 2))
    plain = named("outer", lambda x: inner(jnp.sin(x)) * 2)
    found = compared(outer, plain, V)
    assert counts(found) == {"removed": 1, "same": 9}
    flat = compared(outer, named("outer", lambda x: layer(jnp.sin(x)) * 2), V)
    assert counts(flat) == {"removed": 2, "same": 8}

    def loop(fn):
        return lambda xs: lax.scan(lambda c, x: (fn(c) + x, c), xs[0], xs)

    xs = np.stack([V, V])
    found = compared(loop(jax.checkpoint(layer)), loop(layer), xs)
    assert said(found) == [("remat around layer", 1, "removed")] or said(found) == [
        ("checkpoint around layer", 1, "removed")
    ]
    for one in (flat, found):
        is_whole(one)


def test_the_gradient_says_what_is_not_computed_again():
    def smooth(x):
        return jnp.tanh(jnp.sin(x) * jnp.sum(x))

    def loss(fn):
        return jax.grad(lambda x: jnp.sum(chain(fn, fn, fn)(x)))

    found = compared(loss(jax.checkpoint(smooth)), loss(smooth), V)
    assert found.counts["added"] == found.counts["changed"] == 0
    (wrapper, again) = found.changes
    assert (wrapper.count, wrapper.kind, wrapper.status) == (3, "wrapper", "removed")
    assert again.what == f"{again.count} equations of a recomputation"
    assert found.counts["removed"] == 3 + again.count
    assert all("/call/" in address for address in again.addresses)
    is_whole(found)


def test_constants_literals_and_effects():
    held = jnp.asarray(V)

    def fn(x):
        return jnp.sin(x) * held

    is_whole(found := compared(chain(jax.jit(fn)), chain(fn), V))
    assert {one.kind for one in found.changes} == {"wrapper"}
    other = compared(chain(jax.jit(fn)), chain(lambda x: jnp.sin(x) * (held + 1)), V)
    assert other.counts["same"] >= 1

    def scaled(x, factor):
        return jnp.sin(x) * factor + factor

    two, three = np.float32(2.0), np.float32(3.0)
    for factor, changed in ((two, 0), (three, 2)):
        found = compared(lambda x: jax.jit(scaled)(x, two), lambda x, f=factor: scaled(x, f), V)
        assert found.counts["added"] == 0, diff_text(found)
        assert found.counts["changed"] == changed, diff_text(found)
        is_whole(found)

    def printing(x):
        jax.debug.print("{x}", x=x)
        return jnp.sin(x)

    found = compared(jax.jit(printing), printing, V)
    assert {one.kind for one in found.changes} == {"wrapper"}
    donated = compared(jax.jit(layer, donate_argnums=0), layer, V)
    assert {one.kind for one in donated.changes} == {"wrapper"}
    donating = compared(jax.jit(layer, donate_argnums=0), jax.jit(layer), V)
    assert [one.kind for one in donating.changes] == ["pair"]
    for one in (found, donated, donating):
        is_whole(one)


W = jnp.arange(9.0).reshape(3, 3)


def with_weights(x):
    return jnp.tanh(x @ W) * 2 + jnp.cos(x)


def with_a_number(x, n=3):
    return jnp.tanh(x * n) + jnp.sin(x) / n


def with_a_cut_number(x, n=2.5):
    return x * jnp.asarray(n, int).astype(float)


def three_times(fn, *args):
    def program(x):
        for _ in range(3):
            x = fn(x, *args)
        return x

    program.__name__ = "program"
    return program


@pytest.mark.parametrize(
    ("fn", "args"), [(with_weights, ()), (with_a_number, (3,)), (with_a_number, (0.1,))]
)
def test_what_is_called_several_times_with_arrays_and_numbers_of_its_own(fn, args):
    wrapped, bare = (taxpr.trace(three_times(one, *args))(V) for one in (jax.jit(fn), fn))
    for programs, status in (((wrapped, bare), "removed"), ((bare, wrapped), "added")):
        is_whole(found := diff(*programs))
        assert said(found) == [(f"jit around {fn.__name__}", 3, status)]


def test_another_number_and_another_array_in_a_wrapper_that_is_gone():
    before = taxpr.trace(lambda x: jax.jit(with_a_number)(x, 3))(V)
    found = diff(before, taxpr.trace(lambda x: with_a_number(x, 4))(V))
    assert said(found)[0] == ("3→4.0", 2, "changed")
    cut = taxpr.trace(lambda x: jax.jit(with_a_cut_number)(x, 2.5))(V)
    assert len(diff(cut, taxpr.trace(lambda x: x * 2.5)(V)).changes) > 1
    other = taxpr.trace(three_times(lambda x: jnp.tanh(x @ (W + 1)) * 2 + jnp.cos(x)))(V)
    assert len(diff(taxpr.trace(three_times(jax.jit(with_weights)))(V), other).changes) > 1


def test_tags_and_injectors_in_a_wrapper():
    def tagged(x):
        return taxpr.tag(jnp.sin(x), name="s") * 2

    found = compared(chain(jax.jit(tagged)), chain(tagged), V)
    assert counts(found) == {"removed": 1, "same": 3}
    assert found.partner(1, "t0") == "0:jit/call/t0"
    is_whole(found)
    before = taxpr.trace(chain(jax.jit(tagged), jnp.cos))(V)
    found = diff(before, taxpr.trace(chain(tagged, jnp.cos))(V).inject({"s": taxpr.scale(3.0)}))
    assert found.counts["same"] == 3
    assert {one.kind for one in found.changes} == {"wrapper", "equations", "end"}
    is_whole(found)


def test_what_is_another_thing_is_not_opened():
    found = compared(jax.jit(layer), lambda x: jnp.sort(x) + jnp.cumsum(x) + 1, V)
    assert found.counts["same"] == found.counts["changed"] == 0
    assert {one.kind for one in found.changes} == {"equations"}
    is_whole(found)


def wrapped(case, wrap):
    return taxpr.trace(chain_of(case, wrap))(*case.args)


def chain_of(case, wrap):
    @functools.wraps(case.fn)
    def call(*args):
        return wrap(case.fn)(*args)

    return call


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrapping_a_program_is_one_change(case, wrap):
    before, after = taxpr.trace(case.fn)(*case.args), wrapped(case, WRAPPERS[wrap])
    for one, other in ((before, after), (after, before)):
        found = diff(one, other)
        is_whole(found)
        kinds = {c.kind for c in found.changes if "call_hi_primitive" not in c.what}
        assert kinds == {"wrapper"}, diff_text(found)
        kept = found.counts["same"] + found.counts["changed"]
        assert kept == sum(1 for _ in taxpr.iter_eqns(before.jaxpr))


NAMES = list(PROGRAMS)


@pytest.mark.parametrize("name", NAMES[::4])
def test_any_two_programs_have_a_status_everywhere(name):
    at = NAMES.index(name)
    is_whole(diff(PROGRAMS[name](), PROGRAMS[NAMES[at - 3]]()))


def test_the_cost_does_not_grow_with_what_is_shared():
    def program(depth, wrap):
        fn = named("leaf", lambda x: jnp.sin(x) * 2)
        for n in range(depth):
            fn = wrap(named(f"f{n}", lambda x, fn=fn: fn(fn(x))))
        with jax.enable_checks(False):
            return taxpr.trace(fn)(V)

    found = diff(program(30, jax.jit), program(4, lambda fn: fn))
    assert sum(len(side.eqns) for side in found.part.sides) < 10_000
    deep = functools.reduce(lambda fn, n: jax.jit(named(f"f{n}", fn)), range(12), layer)
    found = compared(deep, layer, V)
    assert found.counts["same"] in (0, 6)
    assert wrappers.ROUNDS < 12


def test_the_picture_marks_the_wrapper_and_not_what_it_wraps():
    found = compare(chain(*[jax.checkpoint(layer)] * 2), chain(layer2, layer2), V)
    before, after = found.pictures
    marks = {node.address: node.marks for node in before.nodes}
    wrapper = found.diff.changes[1].addresses[0]
    assert wrapper in before.unfolded
    (cluster,) = [c for c in before.clusters if c.fold == wrapper]
    assert cluster.marks == ("gone",)
    assert "same" in marks[f"{wrapper}/call/0:mul"]
    assert "changed" in marks[f"{wrapper}/call/2:add"]
    node = before.find(f"{wrapper}/call/0:mul")
    assert after.find(node.pair).pair == node.address
    same = compare(chain(jax.jit(layer), jnp.sin), chain(layer, jnp.sin), V)
    folded = {node.address: node for node in same.pictures[0].nodes}["0:jit"]
    assert "gone" in folded.marks
    assert "what it wraps is the same" in folded.tooltip


def test_wrappers_that_both_sides_have_stay_closed_in_one_that_goes():
    inner = named("layer", jax.checkpoint(jax.jit(named("layer", jnp.cos))))
    found = compared(jax.jit(inner), inner, V)
    is_whole(found)
    assert found.counts["added"] == 0, said(found)
    assert found.counts["removed"] == 1


def test_a_layer_that_goes_leaves_the_layer_behind_it_as_it_is():
    def first(x):
        return jnp.tanh(x * x) + x

    def second(x):
        return jax.nn.softmax(x) * x - x

    found = compared(chain(first, second), second, V)
    is_whole(found)
    assert counts(found).keys() == {"same", "removed"}, said(found)
    assert found.counts["removed"] == 3
