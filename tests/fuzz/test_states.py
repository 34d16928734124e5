"""Random programs with states: uncurried, against plain Python that changes an object.

Every program is traced and uncurried, and its jaxpr run equation by equation: the same bits.
A fixed share is run by JAX as well: compiled, mapped, and differentiated in float64.

They are half as many as `fuzz.amount` says.
"""

import collections
import random

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz.amount import PROGRAMS, SEED
from fuzz.states import (
    BRANCHES,
    KINDS,
    PLACES,
    REFUSED,
    Dual,
    Plain,
    as_function,
    make_states,
    occurring,
    place_of,
    random_program,
)
from reference import Reference

from taxpr import RefusedError, StateError, uncurry

# Up to 0.7 only experimental.
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

CHUNKS = 4
INITIAL = dict(zip(PLACES, (0.5, -1.0, 0.25, 2.0), strict=True))
X = 0.75
# Of these JAX has reverse-mode derivatives in which a state counts.
DIFFERENTIABLE = ("scan", "reverse", "fori", "jit", "shared", "remat", "vmap", *BRANCHES)


@pytest.fixture(autouse=True)
def without_internal_checks():
    """They take most of the time, and every rule is tested under them elsewhere."""
    before = jax.config.jax_enable_checks
    jax.config.update("jax_enable_checks", False)
    yield
    jax.config.update("jax_enable_checks", before)


def in_chunks(share, compiled=False):
    """Run a check on a share of all programs, in tests that can run side by side.

    With ``compiled`` it compiles whole programs, which are forgotten at the end.
    """

    def decorate(check):
        @pytest.mark.timeout(1200)
        @pytest.mark.parametrize("chunk", range(CHUNKS))
        def test(chunk):
            COUNTS.clear()
            for number in range(chunk, round(PROGRAMS * share), CHUNKS):
                check(random.Random(f"{SEED} {check.__name__} {number}"))
            if check.__name__ == "test_transformed_inside" and number > 100:
                assert all(COUNTS[what] > number // 50 for what in ("right", "refused"))
            if compiled:
                jax.clear_caches()

        test.__name__ = check.__name__
        return test

    return decorate


COUNTS = collections.Counter()


class Drawn:
    def __init__(self, rng, kinds=KINDS, dtype=jnp.float32):
        self.program = random_program(rng, kinds)
        print(self.program)  # pytest shows it where the test fails
        self.initial = {place: dtype(value) for place, value in INITIAL.items()}
        states = make_states(self.initial)
        self.x = dtype(X)
        self.pure, self.states = uncurry(as_function(self.program, states), self.x)

    def plain(self, x, initial):
        run = Plain(initial)
        with np.errstate(all="ignore"):
            return run(self.program, x), run.states

    def used(self):
        return [place for place in PLACES if self._name(place) in self.states]

    def _name(self, place):
        name = place.partition(".")[0]
        return "state0" if name == "n" else name


def assert_equal(found, expected, tolerance=0.0):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), tolerance, tolerance)


def check_bits(drawn, tolerance=0.0):
    """The jaxpr of what is uncurried, equation by equation."""
    x, states = drawn.plain(np.float32(X), {k: np.float32(v) for k, v in INITIAL.items()})
    jaxpr = jax.make_jaxpr(drawn.pure)(drawn.states, drawn.x)
    flat = Reference()(jaxpr, *jax.tree.leaves((drawn.states, drawn.x)))
    out, values = jax.tree.unflatten(jax.tree.structure((0.0, drawn.states)), flat)
    assert_equal(out, x, tolerance)
    for place in drawn.used():
        assert_equal(place_of(values, place), states[place], tolerance)


@pytest.mark.spread(4)
@in_chunks(share=0.6)
def test_the_bits_of_plain_python(rng):
    check_bits(Drawn(rng))


@in_chunks(share=0.24)
def test_transformed_inside(rng):
    """What derivatives and vmaps inside would make wrong is refused, and the rest is right."""
    # A custom rule in there is made up: it says nothing of the true derivative.
    kinds = [kind for kind in KINDS if not kind.startswith("custom")]
    try:
        drawn = Drawn(rng, [*kinds, *REFUSED * 3])
    except (StateError, RefusedError):
        COUNTS["refused"] += 1
    except ValueError as error:
        if "Reverse-mode differentiation does not work" not in str(error):
            raise
    else:
        COUNTS["right"] += any(kind in REFUSED for kind, _ in occurring(drawn.program))
        check_bits(drawn, 1e-5)


def test_all_kinds_occur_at_all_depths():
    counts = collections.Counter()
    for number in range(200):
        counts.update(occurring(random_program(random.Random(number))))
    for depth in range(5):
        assert counts["write", depth], depth
        assert counts["read", depth], depth
    assert all(counts[kind, depth] for kind in KINDS for depth in range(3))


@pytest.mark.spread(4)
@in_chunks(share=0.08, compiled=True)
def test_compiled_and_mapped(rng):
    drawn = Drawn(rng)
    xs = np.asarray([X, -0.5], np.float32)
    batch = jax.tree.map(lambda s: jnp.stack([s, s * -2.0]), drawn.states)
    outs, values = jax.jit(jax.vmap(drawn.pure))(batch, xs)
    for lane, factor in enumerate((1, -2)):
        initial = {k: np.float32(v * factor) for k, v in INITIAL.items()}
        x, states = drawn.plain(xs[lane], initial)
        assert_equal(outs[lane], x, 1e-5)
        for place in drawn.used():
            assert_equal(place_of(values, place)[lane], states[place], 1e-5)


@pytest.mark.spread(3)
@in_chunks(share=0.08, compiled=True)
def test_differentiated(rng):
    with enable_x64(True):
        drawn = Drawn(rng, DIFFERENTIABLE, jnp.float64)

        def loss(states, x):
            out, states = drawn.pure(states, x)
            return sum(jax.tree.leaves(states), start=out)

        of_states, of_x = jax.jit(jax.grad(loss, argnums=(0, 1)))(drawn.states, drawn.x)
    every = [None, *drawn.used()]
    for seeded in every:
        run = Plain({k: Dual(v, float(k == seeded)) for k, v in INITIAL.items()}, float)
        out = run(drawn.program, Dual(X, float(seeded is None)))
        names = {place.partition(".")[0] for place in drawn.used()}
        kept = [run.states[place] for place in PLACES if place.partition(".")[0] in names]
        expected = sum((one.slope for one in kept), start=out.slope)
        found = of_x if seeded is None else place_of(of_states, seeded)
        assert_equal(found, expected, 1e-9)
