"""Random programs with states: as JAX code, and as plain Python that changes an object.

A program is a nested list of statements. Each of them changes one number, `x`, and may read
and write states. `Plain` runs it with Python's own loops and branches; `as_function` makes of it
a function in which these are JAX's.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from taxpr import State

DEPTH = 4
# The places where a state is kept: the second one is a tree.
PLACES = ("a", "b.p", "b.q", "n")
LOOPS = ("scan", "reverse", "fori", "while")
ONCE = ("jit", "shared", "remat", "custom_jvp", "custom_vjp")
BRANCHES = ("cond", "switch")
KINDS = (*LOOPS, *ONCE, *BRANCHES, "vmap")
# Transformations that may be refused: derivatives, and a vmap of what writes states.
REFUSED = ("grad", "jvp", "vmap_writes")


@dataclasses.dataclass
class Op:
    """One statement without others in it."""

    kind: str  # "compute", "read", "write", or "count", a write that does not depend on x
    place: str
    factor: float
    offset: float


@dataclasses.dataclass
class Hop:
    """One with blocks."""

    kind: str
    blocks: list
    number: int  # of iterations, or how the index of a branch is found
    limit: float


def random_program(rng, kinds=KINDS, places=PLACES):
    return _block(rng, DEPTH, kinds, places, ("write", "count"))


def _block(rng, depth, kinds, places, writes):
    size = rng.randint(1, 3 if depth == DEPTH else 2)
    return [_statement(rng, depth, kinds, places, writes) for _ in range(size)]


def _statement(rng, depth, kinds, places, writes):
    if depth and rng.random() < 0.55:
        kind = rng.choice(kinds)
        n_blocks = {"cond": 2, "switch": 3, "while": 2}.get(kind, 1)
        inner = () if kind == "vmap" else writes
        if kind in REFUSED and rng.random() < 0.8:
            inner = ("count",)  # what depends on x is mostly refused
        # In a derivative there is none: plain Python has numbers with one derivative.
        below = [k for k in kinds if k not in REFUSED] if kind in REFUSED else kinds
        blocks = [_block(rng, depth - 1, below, places, inner) for _ in range(n_blocks)]
        return Hop(kind, blocks, rng.randint(0, 3), rng.choice((-0.5, 0.0, 0.5)))
    ops = ("read", *writes, "compute")
    factor, offset = rng.choice((0.25, 0.5, -0.5)), rng.choice((0.0, 0.25, -1.0))
    return Op(rng.choice(ops), rng.choice(places), factor, offset)


def occurring(block, depth=0):
    """The kinds in a program, with how deep the statements in them are."""
    for one in block:
        if isinstance(one, Hop):
            yield one.kind, depth
            for inner in one.blocks:
                yield from occurring(inner, depth + 1)
        else:
            yield one.kind, depth


# ---- plain Python ------------------------------------------------------------


class Dual:
    """A number with its derivative."""

    def __init__(self, value, slope=0.0):
        self.value, self.slope = value, slope

    def __add__(self, other):
        other = _dual(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other):
        other = _dual(other)
        slope = self.slope * other.value + self.value * other.slope
        return Dual(self.value * other.value, slope)

    __radd__, __rmul__ = __add__, __mul__

    def __gt__(self, other):
        return self.value > _dual(other).value


def _dual(x):
    return x if isinstance(x, Dual) else Dual(x)


class Plain:
    """Runs a program with numbers of any kind; ``states`` is what the program changes."""

    def __init__(self, states, number=np.float32):
        self.states, self.number = dict(states), number

    def __call__(self, block, x):
        for one in block:
            x = self.op(one, x) if isinstance(one, Op) else self.hop(one, x)
        return x

    def op(self, one, x):
        factor, offset = self.number(one.factor), self.number(one.offset)
        if one.kind == "compute":
            return x * factor + offset
        if one.kind == "read":
            return x + self.states[one.place] * factor
        more = x if one.kind == "write" else offset
        self.states[one.place] = self.states[one.place] * factor + more
        return x

    def hop(self, one, x):
        first = one.blocks[0]
        if one.kind in ("scan", "reverse", "fori"):
            for _ in range(one.number):
                x = self(first, x)
            return x
        if one.kind == "while":
            steps = 0
            while self(one.blocks[1], x) > self.number(one.limit) and steps < one.number:
                x, steps = self(first, x), steps + 1
            return x
        if one.kind in ONCE:
            x = self(first, x)
            return self(first, x) if one.kind == "shared" else x
        if one.kind in ("vmap", "vmap_writes"):
            # Where lanes write, all of them write the same: that is one write.
            others = Plain(self.states, self.number)
            lanes = [self(first, x), others(first, x + self.number(1))]
            return (lanes[0] + lanes[1]) * self.number(0.5)
        if one.kind in ("grad", "jvp"):
            return self.derivative(one, first, x)
        return self(one.blocks[index_of(one, x > self.number(one.limit))], x)

    def derivative(self, one, first, x):
        dual = Plain(self.states, lambda number: Dual(self.number(number)))
        out = dual(first, Dual(x, self.number(1)))
        self.states = {place: getattr(s, "value", s) for place, s in dual.states.items()}
        return out.value + out.slope if one.kind == "jvp" else out.slope * self.number(1)


def index_of(one, above):
    """The branch that is taken: of a cond the first one is for true."""
    return int(not above) if one.kind == "cond" else 2 * int(above)


# ---- JAX ---------------------------------------------------------------------


def make_states(initial):
    """The states, and their places in them."""
    tree = {"p": initial["b.p"], "q": initial["b.q"]}
    states = {"a": State(initial["a"], name="a"), "b": State(tree, name="b")}
    return states | {"n": State(initial["n"])}


def place_of(values, place):
    """The number at a place, of the values that `uncurry` returns."""
    name, _, key = place.partition(".")
    return values[name][key] if key else values["state0" if name == "n" else name]


def _read(states, place):
    name, _, key = place.partition(".")
    return states[name].value[key] if key else states[name].value


def _write(states, place, value):
    name, _, key = place.partition(".")
    states[name].value = {**states[name].value, key: value} if key else value


def as_function(block, states):
    def run(x):
        for one in block:
            x = _op(one, states, x) if isinstance(one, Op) else _hop(one, states, x)
        return x

    return run


def _op(one, states, x):
    if one.kind == "compute":
        return x * one.factor + one.offset
    if one.kind == "read":
        return x + _read(states, one.place) * one.factor
    more = x if one.kind == "write" else one.offset
    _write(states, one.place, _read(states, one.place) * one.factor + more)
    return x


def _hop(one, states, x):
    inner = [as_function(block, states) for block in one.blocks]
    run = inner[0]
    if one.kind in ("scan", "reverse"):
        reverse = one.kind == "reverse"
        step = lambda x, _: (run(x), None)
        return lax.scan(step, x, None, length=one.number, reverse=reverse)[0]
    if one.kind == "fori":
        return lax.fori_loop(0, one.number, lambda _, x: run(x), x)
    if one.kind == "while":
        goes_on = lambda loop: (inner[1](loop[1]) > one.limit) & (loop[0] < one.number)
        return lax.while_loop(goes_on, lambda loop: (loop[0] + 1, run(loop[1])), (0, x))[1]
    if one.kind == "cond":
        return lax.cond(x > one.limit, inner[0], inner[1], x)
    if one.kind == "switch":
        return lax.switch(2 * (x > one.limit).astype(int), inner, x)
    if one.kind == "grad":
        return jax.grad(run)(x)
    if one.kind == "jvp":
        return sum(jax.jvp(run, (x,), (jnp.ones_like(x),)))
    if one.kind in ("vmap", "vmap_writes"):
        lanes = jax.vmap(run)(jnp.stack([x, x + 1.0]))
        return (lanes[0] + lanes[1]) * 0.5
    if one.kind == "remat":
        return jax.checkpoint(run)(x)
    if one.kind == "custom_jvp":
        return _custom_jvp(run)(x)
    if one.kind == "custom_vjp":
        return _custom_vjp(run)(x)
    run = jax.jit(run)
    return run(run(x)) if one.kind == "shared" else run(x)


def _custom_jvp(run):
    fn = jax.custom_jvp(run)
    fn.defjvp(lambda primals, tangents: (run(*primals), tangents[0]))
    return fn


def _custom_vjp(run):
    fn = jax.custom_vjp(run)
    fn.defvjp(lambda x: (run(x), None), lambda _, ct: (ct,))
    return fn
