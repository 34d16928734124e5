"""`find_nan` on random programs of nested loops, against a run in plain Python that knows for each
number of which faults it is made.
"""

import dataclasses
import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr

SIZE = 3
GUARDED = "guard", "guarded", "guarded", "guarded"  # more statements, of programs with guards


@dataclasses.dataclass
class Num:
    """A number, and the faults that it is not finite of: ``(when, name, iteration, element)``."""

    value: float
    faults: frozenset = frozenset()


def made(value, *given, fault=None):
    """A number that was computed of others."""
    if math.isfinite(value):
        return Num(value)
    faults = frozenset().union(*(one.faults for one in given))
    return Num(value, faults if faults or fault is None else frozenset([fault]))


def log(x):
    return math.nan if x < 0 or math.isnan(x) else -math.inf if x == 0 else math.log(x)


class Python:
    """The statements of a program, one number at a time."""

    def __init__(self, rows):
        self.rows, self.when, self.iteration = rows, (), ()
        self.begun = set()  # all faults, whether or not something has them in the end

    def at(self, kind, n):
        row = self.rows[n % len(self.rows)]
        return {"bool": row > 0, "float": row, "int": np.abs(row * 7).astype(int) % SIZE}[kind]

    def log(self, name, v):
        fault = self.when, name, self.iteration
        out = [made(log(x.value), x, fault=(*fault, k)) for k, x in enumerate(v)]
        self.begun |= {one for x in out for one in x.faults if one[:3] == fault}
        return out

    def guard(self, v):
        return [x if math.isfinite(x.value) else Num(-math.inf, x.faults) for x in v]

    def add(self, v, w):
        return [made(x.value + y.value, x, y) for x, y in zip(v, w, strict=True)]

    def data(self, n):
        return [Num(float(x)) for x in self.at("float", n)]

    def select(self, n, v, w):
        return [x if p else y for p, x, y in zip(self.at("bool", n), v, w, strict=True)]

    def take(self, n, v):
        return [v[k] for k in self.at("int", n)]

    def roll(self, v):
        return [v[-1], *v[:-1]]

    def total(self, v):
        return [made(sum(x.value for x in v), *v)] * SIZE

    def mix(self, n, v):
        weights = np.outer(self.at("float", n), self.at("float", n + 1)) + 3
        return [
            made(sum(float(w) * x.value for w, x in zip(row, v, strict=True)), *v)
            for row in weights
        ]

    def put(self, n, v, w):
        k = int(self.at("int", n)[0])
        return [*v[:k], w[k], *v[k + 1 :]]

    def calm(self, v):
        return [made(0.25 * x.value, x) for x in v]

    def block(self, block, v, now):
        """The value after some statements; ``now`` numbers the rows of what is read."""
        around = self.when
        state = {"v": v, "w": self.calm(v)}
        for position, (op, *more) in enumerate(block):
            self.when = (*around, position)
            v = state["v"]
            if op == "log":
                state["w"] = self.log(more[0], v)
            elif op == "guarded":
                state["v"] = self.add(self.guard(self.log(more[0], v)), self.calm(v))
            elif op == "use":
                state["v"] = self.add(v, state["w"])
            elif op == "pick":
                state["v"] = self.select(now + more[0], state["w"], v)
            elif op in ("take", "mix"):
                state["v"] = getattr(self, op)(now + more[0], v)
            elif op == "put":
                state["v"] = self.put(now + more[0], v, state["w"])
            elif op == "read":
                state["v"] = self.data(now + more[0])
            elif op in ("roll", "total", "calm", "guard"):
                state["v"] = getattr(self, op)(v)
            elif op == "swap":
                state = {"v": state["w"], "w": v}
            else:
                state = self.nested(op, more, state, now)
        self.when = around
        return state["v"]

    def nested(self, op, more, state, now):
        when, iteration = self.when, self.iteration
        if op == "scan":
            block, length, reverse = more
            ys = [None] * length
            for turn in range(length):
                k = length - 1 - turn if reverse else turn
                self.when, self.iteration = (*when, turn, 0), (*iteration, k)
                state = {**state, "v": self.block(block, state["v"], now + k)}
                ys[k] = state["v"]
            state["w"] = ys[length // 2]
        elif op == "while":
            block, n = more
            for k in range(int(self.at("int", n)[0]) + 1):
                self.when, self.iteration = (*when, k, 1), (*iteration, k)
                state = {**state, "v": self.block(block, state["v"], now + k)}
        elif op == "cond":
            n, blocks = more
            taken = int(self.at("bool", now + n)[0])
            self.when = (*when, taken)
            state = {**state, "v": self.block(blocks[taken], state["v"], now)}
        else:
            self.when = (*when, 0)
            state = {**state, "v": self.block(more[0], state["v"], now)}
        self.when, self.iteration = when, iteration
        return state


class Jax(Python):
    """The same by JAX."""

    def at(self, kind, n):
        row = self.rows[n % len(self.rows)]
        return {"bool": row > 0, "float": row, "int": abs(row * 7).astype(int) % SIZE}[kind]

    def log(self, name, v):
        with jax.named_scope(name):
            return jnp.log(v)

    def guard(self, v):
        return jnp.where(jnp.isfinite(v), v, -jnp.inf)

    def add(self, v, w):
        return v + w

    def data(self, n):
        return self.at("float", n)

    def select(self, n, v, w):
        return jnp.where(self.at("bool", n), v, w)

    def take(self, n, v):
        return v[self.at("int", n)]

    def roll(self, v):
        return jnp.roll(v, 1)

    def total(self, v):
        return jnp.broadcast_to(v.sum(), v.shape)

    def mix(self, n, v):
        return (jnp.outer(self.at("float", n), self.at("float", n + 1)) + 3) @ v

    def put(self, n, v, w):
        k = self.at("int", n)[0]
        return lax.dynamic_update_slice(v, lax.dynamic_slice(w, (k,), (1,)), (k,))

    def calm(self, v):
        return 0.25 * v

    def nested(self, op, more, state, now):
        v, w = state["v"], state["w"]
        if op == "scan":
            block, length, reverse = more

            def step(v, k):
                v = self.block(block, v, now + k)
                return v, v

            v, ys = lax.scan(step, v, jnp.arange(length), reverse=reverse)
            w = ys[length // 2]
        elif op == "while":
            block, n = more
            end = self.at("int", n)[0] + 1

            def body(state):
                return state[0] + 1, self.block(block, state[1], now + state[0])

            v = lax.while_loop(lambda state: state[0] < end, body, (0, v))[1]
        elif op == "cond":
            n, blocks = more
            branches = [lambda v, one=one: self.block(one, v, now) for one in blocks]
            v = lax.cond(self.at("bool", now + n)[0], *reversed(branches), v)
        else:

            def run(v):
                return self.block(more[0], v, now)

            wrapped = {"jit": jax.jit, "remat": jax.checkpoint, "rule": jax.custom_jvp}[op](run)
            if op == "rule":
                wrapped.defjvp(lambda primals, tangents: (run(*primals), tangents[0]))
            v = wrapped(v)
        return {"v": v, "w": w}


def random_block(rng, names, depth, more=()):
    """Some statements, with a fault now and then; also such as ``more`` names."""
    block = []
    for _ in range(rng.randint(2, 4)):
        op = rng.choice(
            ["log", "log", "use", "pick", "pick", "take", "roll", "total", "mix", "put", "read"]
            + ["calm", "swap", *more]
            + ["scan", "scan", "while", "cond", "jit", "remat", "rule"] * (depth > 0)
        )
        some = rng.randint(0, 5)
        if op in ("log", "guarded"):
            block.append((op, f"fault{next(names)}"))
        elif op in ("pick", "take", "mix", "put", "read"):
            block.append((op, some))
        elif op == "scan":
            inner = random_block(rng, names, depth - 1, more)
            block.append((op, inner, rng.randint(1, 4), rng.random() < 0.5))
        elif op == "while":
            block.append((op, random_block(rng, names, depth - 1, more), some))
        elif op == "cond":
            blocks = [random_block(rng, names, depth - 1, more) for _ in range(2)]
            block.append((op, some, blocks))
        elif op in ("jit", "remat", "rule"):
            block.append((op, random_block(rng, names, depth - 1, more)))
        else:
            block.append((op,))
    return block


def expected(block, batch):
    """The faults of the first place of which the results have something, over all examples."""
    faults = set()
    for number, rows in enumerate(batch):
        with np.errstate(all="ignore"):
            out = Python(rows).block(block, [Num(float(x)) for x in rows[0]], 0)
        faults |= {(*fault, number) for x in out for fault in x.faults}
    first = min((fault[0] for fault in faults), default=None)
    return [fault for fault in faults if fault[0] == first]


def random_program(seed, more=()):
    """A random program, and values for three examples."""
    block = random_block(random.Random(seed), iter(range(99)), 2, more)
    many = np.random.default_rng(seed)
    batch = many.choice([2.0, 0.5, 1.5, 3.0, -1.0], (3, 7, SIZE), p=[0.3, 0.2, 0.2, 0.2, 0.1])
    return block, batch.astype(np.float32)


def scoped(program, names):
    """The names of faults by the addresses of what makes them: each has a scope of its own."""
    return {
        value.address: name
        for name in names
        for value in taxpr.find_values(program, taxpr.maybe(taxpr.scope(name)))
    }


@pytest.mark.parametrize("more", [(), GUARDED], ids=["plain", "guards"])
@pytest.mark.parametrize("seed", range(12))
def test_the_first_place_of_a_random_program_is_named(seed, more):
    block, batch = random_program(seed, more)

    def run(rows):
        return Jax(rows).block(block, rows[0], 0)

    for fn, given, examples in ((run, batch[0], batch[:1]), (jax.vmap(run), batch, batch)):
        faults = expected(block, examples)
        found = taxpr.find_nan(fn)(given)
        assert bool(found) == bool(faults), (block, found)
        if not faults:
            continue
        row, program = found.rows[0], taxpr.trace(fn)(given)
        named = scoped(program, {fault[1] for fault in faults})
        (iteration,) = {fault[2] for fault in faults}
        assert (named.get(row.address), row.iteration) == (faults[0][1], iteration), (block, found)
        assert int(row.elements.split()[0]) == len(faults), (block, found)
        assert not any("may not have reached" in note for note in found.notes), found


@pytest.mark.parametrize("seed", range(12))
def test_every_place_of_a_random_program_is_counted(seed):
    block, batch = random_program(seed, GUARDED)

    def run(rows):
        return Jax(rows).block(block, rows[0], 0)

    python = Python(batch[0])
    with np.errstate(all="ignore"):
        out = python.block(block, [Num(float(x)) for x in batch[0][0]], 0)
    begun = {name: {one for one in python.begun if one[1] == name} for _, name, *_ in python.begun}
    found = taxpr.find_nan(run, everywhere=True)(batch[0])
    program = taxpr.trace(run)(batch[0])
    named = scoped(program, begun)
    assert {named[row.address] for row in found.rows} == set(begun)
    order = sorted(begun, key=lambda name: min(one[0] for one in begun[name]))
    assert [named[row.address] for row in found.rows] == order
    reaching = {one for x in out for one in x.faults}
    for row in found.rows:
        faults = begun[named[row.address]]
        first = min(faults)
        assert row.iteration == first[2]
        same = [one for one in faults if one[2] == first[2]]
        assert int(row.elements.split()[0]) == len(same)
        assert ("no result has it" in row.became) == (not faults & reaching), (block, row)
        if row.times:
            times, elements = row.times.split(", ")
            assert int(times.split()[0]) == len({one[2] for one in faults})
            assert int(elements.split()[0]) == len(faults)
