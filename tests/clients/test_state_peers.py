"""State in other libraries and in taxpr, the same programs side by side.

    python tests/clients/test_state_peers.py

prints the table, which is in docs/how-to/state.md. The newest PAX, pax3 0.5.9, needs a jax of 2023;
with 0.4.13 each of the plain programs raises its ValueError, "Cannot modify a module in immutable
mode".
"""

import importlib.metadata
import pathlib
import warnings

import brainstate
import haiku as hk
import jax
import jax.numpy as jnp
import pytest
from flax import linen, nnx
from jax import lax

import taxpr

# ---- programs: each is given what adds one to the count ----------------------

X = 1.0


def in_jit(bump):
    return jax.jit(lambda x: (bump(), x)[1])(X)


def in_scan(bump):
    return lax.scan(lambda c, _: ((bump(), c)[1], None), X, None, length=10)[0]


def in_cond(bump):
    return lax.cond(jnp.float32(X) > 0, lambda: (bump(), X)[1], lambda: X)


def in_condition(bump):
    return lax.while_loop(lambda n: (bump(), n < 4)[1], lambda n: n + 1, 0)


PLAIN = {
    "in an inner `jax.jit`": (in_jit, 1),
    "in the body of `jax.lax.scan`, 10 steps": (in_scan, 10),
    "in a branch of `jax.lax.cond`": (in_cond, 1),
    "in the condition of `jax.lax.while_loop`, 4 steps": (in_condition, 5),
}
OWN_SCAN = "in the library's own scan, 10 steps"
OWN_WHILE = "in the condition of its own while loop, 4 steps"
DERIVATIVE = "`jax.grad` of a function that writes what it is differentiated by"
MAPPED = "`jax.vmap` of a write that differs between batch elements"
RIGHT = {name: count for name, (_, count) in PLAIN.items()} | {OWN_SCAN: 10, OWN_WHILE: 5}


def outcome(run, *args):
    """In words: the final value, or what is the matter with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flax's, of names that change
            value = run(*args)
    except Exception as error:
        return f"raises {type(error).__name__}"
    if isinstance(value, jax.core.Tracer):
        return "leaks a tracer"
    return value.tolist()


# ---- taxpr -------------------------------------------------------------------


def with_taxpr(program):
    count = taxpr.State(0, name="count")

    def bump():
        count.value += 1

    pure, states = taxpr.uncurry(lambda: program(bump))
    return jax.jit(pure)(states)[1]["count"]


def taxpr_write(transform, x):
    state = taxpr.State(1.0, name="s")
    taxpr.uncurry(transform(lambda x: (setattr(state, "value", x), x * 2)[1]), x)


# ---- brainstate --------------------------------------------------------------


def brainstate_pure(fn, state, *args):
    stateful = brainstate.transform.StatefulFunction(fn)
    stateful.make_jaxpr(*args)
    values = [one.value for one in stateful.get_states(*args)]
    (new,), _ = stateful.jaxpr_call(values, *args)
    return new


def with_brainstate(program):
    count = brainstate.State(jnp.int32(0))

    def bump():
        count.value = count.value + 1

    return brainstate_pure(lambda: program(bump), count)


def brainstate_write(transform, x):
    state = brainstate.State(jnp.float32(1))

    def fn(x):
        state.value = x
        return x * 2

    return brainstate_pure(transform(fn), state, x)


def brainstate_scan(bump):
    return brainstate.transform.scan(lambda c, _: ((bump(), c)[1], c), X, jnp.arange(10))[0]


def brainstate_while(bump):
    return brainstate.transform.while_loop(lambda n: (bump(), n < 4)[1], lambda n: n + 1, 0)


# ---- flax nnx ----------------------------------------------------------------


class Counter(nnx.Module):
    def __init__(self):
        self.count = nnx.Variable(jnp.int32(0))

    def bump(self):
        self.count[...] = self.count[...] + 1


def nnx_pure(program):
    """``program`` is given the module."""
    graph, state = nnx.split(Counter())

    def pure(state):
        counter = nnx.merge(graph, state)
        program(counter)
        return nnx.state(counter)

    [new] = jax.tree.leaves(jax.jit(pure)(state))
    return new


def with_nnx(program):
    return nnx_pure(lambda counter: program(counter.bump))


def nnx_scan(counter):
    run = nnx.scan(in_axes=(None, 0), out_axes=0)(lambda c, x: (c.bump(), x)[1])
    run(counter, jnp.arange(10))


def nnx_while(counter):
    goes_on = lambda loop: (loop[0].bump(), loop[1] < 4)[1]
    nnx.while_loop(goes_on, lambda loop: (loop[0], loop[1] + 1), (counter, 0))


def nnx_write(transform, x):
    def program(counter):
        transform(lambda x: (counter.count.__setitem__(..., x), x * 2)[1])(x)

    return nnx_pure(program)


# ---- flax linen and haiku ----------------------------------------------------


def with_linen(program):
    class Module(linen.Module):
        @linen.compact
        def __call__(self):
            count = self.variable("state", "count", lambda: jnp.int32(0))
            program(lambda: setattr(count, "value", count.value + 1))

    states = {"state": {"count": jnp.int32(0)}}
    return Module().apply(states, mutable=["state"])[1]["state"]["count"]


def with_haiku(program):
    def bump():
        hk.set_state("count", hk.get_state("count", (), jnp.int32, jnp.zeros) + 1)

    def fn():
        hk.get_state("count", (), jnp.int32, jnp.zeros)
        return program(bump)

    transformed = hk.transform_with_state(fn)
    states = {"~": {"count": jnp.int32(0)}}
    return transformed.apply({}, states, None)[1]["~"]["count"]


def haiku_scan(bump):
    return hk.scan(lambda c, _: ((bump(), c)[1], None), X, None, length=10)[0]


def haiku_while(bump):
    return hk.while_loop(lambda n: (bump(), n < 4)[1], lambda n: n + 1, 0)


def columns():
    plain = {
        "taxpr": with_taxpr,
        "brainstate": with_brainstate,
        "flax nnx": with_nnx,
        "flax linen": with_linen,
        "haiku": with_haiku,
    }
    found = {
        name: {row: outcome(run, program) for row, (program, _) in PLAIN.items()}
        for name, run in plain.items()
    }
    for name, run, scan, loop in (
        ("taxpr", with_taxpr, in_scan, in_condition),
        ("brainstate", with_brainstate, brainstate_scan, brainstate_while),
        ("flax nnx", nnx_pure, nnx_scan, nnx_while),
        ("haiku", with_haiku, haiku_scan, haiku_while),
    ):
        found[name] |= {OWN_SCAN: outcome(run, scan), OWN_WHILE: outcome(run, loop)}
    for name, run in (
        ("taxpr", taxpr_write),
        ("brainstate", brainstate_write),
        ("flax nnx", nnx_write),
    ):
        found[name] |= {
            DERIVATIVE: outcome(run, jax.grad, jnp.float32(3)),
            MAPPED: outcome(run, jax.vmap, jnp.ones(3)),
        }
    return found


def table(found):
    """The table in Markdown."""
    found = dict(found)
    versions = {
        name: importlib.metadata.version(package)
        for name, package in (
            ("brainstate", "brainstate"),
            ("flax nnx", "flax"),
            ("flax linen", "flax"),
            ("haiku", "dm-haiku"),
        )
    }
    names = [f"{name} {versions.get(name, '')}".strip() for name in found]
    found["PAX"], names = dict.fromkeys(PLAIN, "raises ValueError"), [*names, "PAX 0.5.9"]
    rows = [f"| a count that is written … | right | {' | '.join(names)} |"]
    rows.append("|---" * (len(names) + 2) + "|")
    for row in (*RIGHT, DERIVATIVE, MAPPED):
        cells = [str(column.get(row, "")) for column in found.values()]
        rows.append(f"| {row} | {RIGHT.get(row, '')} | {' | '.join(cells)} |")
    return "\n".join(rows)


LEAKS = "leaks a tracer"
EXPECTED = {
    "brainstate": [*[LEAKS] * 4, 10, "raises ValueError", LEAKS, LEAKS],
    "flax nnx": [*["raises TraceContextError"] * 4, 0, 0, *["raises TraceContextError"] * 2],
    "flax linen": [LEAKS] * 4,
    "haiku": [*[LEAKS] * 4, 10, "raises ValueError"],
}


@pytest.fixture(scope="module")
def found():
    return columns()


def test_ours_are_right_or_refused(found):
    assert {row: found["taxpr"][row] for row in RIGHT} == RIGHT
    assert found["taxpr"][DERIVATIVE] == found["taxpr"][MAPPED] == "raises StateError"


@pytest.mark.parametrize("name", EXPECTED)
def test_theirs_do_what_the_table_says(found, name):
    """Their versions are pinned: where one of these fails, the table has to change."""
    assert list(found[name].values()) == EXPECTED[name]


def test_the_page_shows_this_table(found):
    page = pathlib.Path(__file__).parents[2].joinpath("docs/how-to/state.md").read_text("utf-8")
    begin = "<!-- python tests/clients/test_state_peers.py -->"
    assert page.partition(begin)[2].partition("<!-- end -->")[0].strip() == table(found)
    for library, version in (("equinox", "equinox"), ("haiku", "dm-haiku"), ("flax nnx", "flax")):
        assert f"| {library} {importlib.metadata.version(version)} |" in page


def test_every_cell_of_the_table_is_tested(found):
    assert {"taxpr", *EXPECTED} == set(found)
    for name, expected in EXPECTED.items():
        assert len(expected) == len(found[name])
    assert set(found["taxpr"]) == {*RIGHT, DERIVATIVE, MAPPED}


def test_the_same_gradient_as_by_hand_once_the_loss_is_uncurried():
    state = taxpr.State(1.0, name="s")

    def loss(x):
        state.value = state.value * x
        return state.value

    pure, states = taxpr.uncurry(loss, 3.0)
    assert jax.grad(pure, argnums=1, has_aux=True)(states, 3.0) == (1.0, {"s": 3.0})


@pytest.mark.parametrize("only_write", [False, True])
def test_make_jaxpr_returns_what_that_of_brainstate_does(only_write):
    def outputs(module, state, read):
        def f(x, n):
            state.value = state.value + x * read.value
            return {"y": jnp.sum(state.value) * n}

        made = module.make_jaxpr(
            f, static_argnums=1, return_shape=True, return_only_write=only_write
        )
        jaxpr, states, shapes = made(jnp.ones(2), 2)
        values = [one.value for one in states]
        return states, jax.core.eval_jaxpr(jaxpr, jaxpr.consts or (), jnp.ones(2), *values), shapes

    start = jnp.ones(2), jnp.float32(3)
    own = [taxpr.State(value) for value in start]
    theirs = [brainstate.State(value) for value in start]
    states, out, shapes = outputs(taxpr, *own)
    their_states, their_out, their_shapes = outputs(brainstate.transform, *theirs)
    assert [own.index(one) for one in states] == [theirs.index(one) for one in their_states]
    assert [x.tolist() for x in out] == [x.tolist() for x in their_out]
    assert shapes == their_shapes


def test_make_jaxpr_of_a_gradient_as_that_of_brainstate():
    own, theirs = taxpr.State(jnp.ones(2)), brainstate.State(jnp.ones(2))
    for make, state in ((taxpr.make_jaxpr, own), (brainstate.transform.make_jaxpr, theirs)):
        jaxpr, states = make(jax.grad(lambda x, s=state: jnp.sum(x * s.value)))(jnp.zeros(2))
        assert states == (state,)
        out = jax.core.eval_jaxpr(jaxpr, jaxpr.consts or (), jnp.zeros(2), state.value * 3)
        assert out[0].tolist() == [3.0, 3.0]


if __name__ == "__main__":
    print(table(columns()))
