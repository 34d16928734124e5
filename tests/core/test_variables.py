"""Variables of the source are the values that plain Python sees in the same functions."""

import dataclasses
import functools
import heapq
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES
from cases_hops import metadata_call, works
from checks import assert_close
from jax import lax
from python_locals import compare

import taxpr

# ---- programs ---------------------------------------------------------------------------------

X = jnp.asarray([0.3, -0.8, 1.1])
P = {"w": jnp.arange(9.0).reshape(3, 3) / 9, "b": [X, X + 1]}


def flat(x):
    y = jnp.sin(x)
    z = y * 2
    y = z + y
    return y.sum()


def calls(p, x):
    def affine(w, b, x):
        h = w @ x
        return h + b

    x = affine(p["w"], p["b"][0], x)
    x = jnp.tanh(x)
    x = affine(p["w"], p["b"][1], x)
    return x


def unrolled(p, x):
    total = jnp.zeros(3)
    for k in range(3):
        h = p["w"] @ x
        x = jnp.tanh(h) + k
        total += x
    return total


def scanned(x):
    def step(carry, x):
        new = carry * 0.5 + x
        twice = {"a": new * 2, "b": (new, x)}
        return new, twice

    last, rows = lax.scan(step, jnp.float32(1), x)
    return last, rows["a"]


def nested(x):
    def outer(c, x):
        def inner(d, y):
            e = d * y
            return e, e

        c, rows = lax.scan(inner, c + x, X)
        s = rows.sum()
        return s, s

    return lax.scan(outer, jnp.float32(0.1), x)


def python_loop_in_a_scan(x):
    def step(c, x):
        for _ in range(2):
            c = jnp.sin(c) + x
        return c, c

    return lax.scan(step, jnp.float32(0), x)


def counted(x):
    def body(k, state):
        a, b = state
        a = a + b * k
        return a, b * 0.5

    return lax.fori_loop(0, 3, body, (x, x * 2))


def jitted(x):
    @jax.jit
    def f(v):
        w = jnp.exp(v)
        return w / w.sum()

    y = f(x)
    return f(y)


def rematerialised(x):
    @jax.checkpoint
    def f(v):
        s = jnp.sin(v)
        return jnp.cos(s)

    y = f(x)
    return y * y


def with_a_rule(x):
    @jax.custom_jvp
    def f(v):
        s = jnp.sin(v)
        return s * 2

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    y = f(x)
    return y + 1


def comprehension(p, x):
    parts = [p["w"][k] * x for k in range(3)]
    whole = jnp.stack(parts)
    return whole.sum(0)


def in_place(x):
    cache = {}
    for k in range(2):
        cache[f"layer {k}"] = x * (k + 1)
    out = []
    out.append(cache["layer 0"] + 1)
    out.append(cache["layer 1"] + 1)
    return out


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: jax.Array
    b: jax.Array

    def __call__(self, x):
        h = self.w @ x
        return h + self.b


class Plain:
    def __init__(self, w):
        self.w = w

    def apply(self, x):
        y = self.w @ x
        self.last = y * 1.5
        return y


def modules(p, x):
    layer = Layer(p["w"], p["b"][0])
    x = layer(x)
    plain = Plain(p["w"] * 2)
    x = plain.apply(x)
    return functools.partial(jnp.multiply, x)(plain.last)


def decorated(x):
    def doubling(fn):
        @functools.wraps(fn)
        def wrapper(v):
            out = fn(v)
            return out * 2

        return wrapper

    @doubling
    def f(v):
        u = v + 1
        return u

    return f(x)


def several_on_a_line(x):
    a = x + 1; b = a * 2; c = b - a  # fmt: skip  # noqa: E702
    return c


def written_over_several_lines(
    p,
    x,
):
    h = jnp.tanh(
        p["w"]
        @ x
    )  # fmt: skip
    out = {
        "first": h + 1,
        "second": [h * 2, (h, x)],
    }
    first, (second, *rest) = out["first"], [*out["second"][1], h - 1]
    if (peak := first.max()) is not None:
        second = second + peak
    return second, rest


def filled_by_others(x):
    def fill(into, value):
        into["filled"] = value * 2
        into["more"] = [value]

    def grow(some, value):
        some += [value + 1]

    cache, some = {}, [x]
    fill(cache, x)
    y = cache["filled"] + 1
    grow(some, y)
    z = some[1] * y
    some += [z]
    cache |= {"again": z}
    return z.sum()


def around_a_loop(p, x):
    def affine(p, x):
        h = p["w"] @ x
        return h + p["b"][0]

    def step(x, _):
        x = affine(p, x)
        return x, x.sum()

    y, sums = lax.scan(step, x, None, length=2)
    return y + sums.sum()


def generated(p, x):
    def rows(w):
        for k in range(3):
            row = w[k] * (k + 1)
            yield row

    total = x * 0
    for row in rows(p["w"]):
        total = total + row
    begun = rows(p["w"] + 1)
    one = next(begun)
    del begun
    other = next(rows(p["w"] + 2))
    return total * one + sum(v * 2 for v in (one, other))


def guarded(x):
    try:
        y = x + 1
        bad = jnp.zeros(2) + y
        del bad
    except TypeError:
        y = x - 1
    finally:
        z = y * 2
    with jax.named_scope("inner"):
        w = z + y
    return w


def recursive(x, depth=2):
    y = x * 0.5
    if depth:
        y = recursive(y, depth - 1)
    z = y + 1
    return z


def packed(*args, **named):
    (first, second), third = args, named["third"]
    both = first + second
    return {"both": both, "third": third * 2}


def packing(x):
    named = {"third": x * 3}
    packs = packed(x, x + 1, **named)
    pair = packs["both"], packs["third"]
    return pair


class Stack:
    depth = 2

    def __init__(self, w):
        self.layers = [w, w + 1]
        self.norm = {"scale": w[0]}

    @property
    def scale(self):
        s = self.norm["scale"] * 2
        return s

    @staticmethod
    def twice(v):
        t = v * 2
        return t

    @classmethod
    def deep(cls, v):
        d = v * cls.depth
        return d

    def __call__(self, x):
        for layer in self.layers:
            x = layer @ x
        x = self.twice(x) + self.deep(x) + self.scale
        self.norm["seen"] = x
        return x


def a_stack(p, x):
    stack = Stack(p["w"])
    y = stack(x)
    y = functools.partial(Stack.twice)(v=y)
    return y * stack.scale


def lambdas(x):
    double = lambda v: v * 2
    y = double(x)
    z = jax.tree.map(lambda row: row + y, [x, y])
    return z[0] + z[1]


def counting(x):
    total = x * 0

    def add(v):
        nonlocal total
        total = total + v
        return total

    first = add(x)
    second = add(first)
    return first + second


def while_of(x):
    def unfinished(state):
        n, v = state
        size = jnp.abs(v).sum()
        return (size < 20.0) & (n < 6)

    def body(state):
        n, v = state
        v = v * 2
        return n + 1, v

    n, v = lax.while_loop(unfinished, body, (jnp.int32(0), x))
    return n, v


def branches(x):
    def up(v):
        a = v + 1
        return a

    def down(v):
        b = v - 1
        return b

    y = lax.cond(x[0] > 0, up, down, x)
    z = lax.switch(jnp.int32(1), [up, down], y)
    return z


def mapped(x):
    def f(v):
        s = jnp.sin(v)
        t = s * v
        return t

    each = jax.vmap(f)(x)
    both = jax.vmap(jax.vmap(f), in_axes=1, out_axes=1)(jnp.stack([x, each]))
    return both.sum()


def forward(x):
    def f(v):
        s = jnp.sin(v)
        t = s * v
        return t

    value, slope = jax.jvp(f, (x,), (x + 1,))
    return value + slope


def with_a_backward_rule(x):
    @jax.custom_vjp
    def f(v):
        s = jnp.sin(v)
        return s * 2

    def fwd(v):
        c = jnp.cos(v)
        return f(v), c

    def bwd(c, g):
        h = c * g * 2
        return (h,)

    f.defvjp(fwd, bwd)

    def loss(x):
        y = f(x)
        return y.sum()

    return jax.grad(loss)(x)


def combined(x):
    def combine(a, b):
        c = a * 0.5 + b
        return c

    sums = lax.associative_scan(combine, x)
    return sums * 2


def über(größe):
    höhe = größe + 1; maß = höhe * 2  # fmt: skip  # noqa: E702
    return maß - größe


def adam_step(p, x):
    def loss(p):
        h = jnp.tanh(p["w"] @ x + p["b"][0])
        out = h * p["b"][1]
        return (out**2).mean()

    value, grads = jax.value_and_grad(loss)(p)
    m = jax.tree.map(jnp.zeros_like, p)
    v = jax.tree.map(jnp.zeros_like, p)
    for t in range(1, 3):
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)
        scale = value * 0.1 / t

        def update(p, m, v):
            top = m * scale  # noqa: B023
            bottom = jnp.sqrt(v) + 1e-3
            return p - top / bottom

        p = jax.tree.map(update, p, m, v)
    return p


def attention(p, x):
    x = jnp.stack([x, x + 1])
    query, key, value = (x @ p["w"] for _ in range(3))
    scores = query @ key.T / 3**0.5
    mask = jnp.tril(jnp.ones((2, 2), bool))
    scores = jnp.where(mask, scores, -1e9)
    weights = jax.nn.softmax(scores)
    out = weights @ value
    return out @ p["w"]


def loss_of(p, x):
    h = jnp.tanh(p["w"] @ x)

    def step(c, b):
        c = c * b
        return c, c.sum()

    c, rows = lax.scan(step, h, jnp.stack(p["b"]))
    return rows.sum() + c.sum()


gradient = jax.grad(loss_of)
compiled_gradient = jax.jit(jax.grad(jax.jit(loss_of)))


def checkpointed_gradient(p, x):
    return jax.grad(jax.checkpoint(loss_of))(p, x)


PROGRAMS = [
    (flat, X),
    (calls, P, X),
    (unrolled, P, X),
    (scanned, X),
    (nested, X),
    (python_loop_in_a_scan, X),
    (counted, X),
    (jitted, X),
    (rematerialised, X),
    (with_a_rule, X),
    (comprehension, P, X),
    (in_place, X),
    (modules, P, X),
    (decorated, X),
    (several_on_a_line, X),
    (written_over_several_lines, P, X),
    (filled_by_others, X),
    (around_a_loop, P, X),
    (generated, P, X),
    (guarded, X),
    (recursive, X),
    (packing, X),
    (a_stack, P, X),
    (lambdas, X),
    (counting, X),
    (while_of, X),
    (branches, X),
    (mapped, X),
    (forward, X),
    (with_a_backward_rule, X),
    (combined, X),
    (über, X),
    (adam_step, P, X),
    (attention, P, X),
    (gradient, P, X),
    (compiled_gradient, P, X),
    (checkpointed_gradient, P, X),
]


@pytest.mark.parametrize(("fn", "args"), [(fn, args) for fn, *args in PROGRAMS])
def test_each_variable_is_what_python_saw(fn, args, monkeypatch):
    # What comes from around a loop is one value, which each of the two iterations sees.
    around = {
        ("around_a_loop.<locals>.affine", path) for path in ("p['w']", "p['b'][0]", "p['b'][1]")
    }
    compare(fn, args, monkeypatch, around)


# ---- large containers, which are looked at only where something may have changed them ----------


def large(x):
    return [x[k % 3] + k for k in range(70)]


def store(rows, value):
    rows[7] = value


def grow(rows, value):
    rows += [value]


def apply(fn, *args):
    return fn(*args)


class Rows:
    def __init__(self, rows):
        self.rows = rows

    def __enter__(self):
        self.rows[3] = self.rows[4] * 2

    def __exit__(self, *_):
        self.rows.pop()

    @property
    def longer(self):
        self.rows.insert(0, self.rows[1] - 1)
        return self.rows[0]

    def __iadd__(self, value):
        self.rows[0] = value
        return self


def stored_by_another(x):
    rows = large(x)
    store(rows, x[0] * 2)
    y = rows[7] + 1
    grow(rows, y)
    z = rows[-1]
    return z * 2


def stored_in_a_part(x):
    rows = {"deep": {"rows": large(x)}, "more": (x,)}
    part = rows["deep"]["rows"]
    y = jnp.sin(x)
    part[2] = y[0]
    z = y + 1
    rows["deep"]["new"] = z
    del part[0]
    return z.sum()


def stored_by_methods(x):
    rows = large(x)
    append = rows.append
    y = x * 2
    apply(append, y[0])
    y = x * 3
    list(map(rows.append, y))
    y = x * 4
    apply(operator.setitem, rows, 1, y[1])
    y = x * 5
    apply(functools.partial(heapq.heappush, []), 1)
    y = x * 6
    apply(setattr, Rows(rows), "rows", y)
    return y


def stored_by_a_class(x):
    rows = large(x)
    every = Rows(rows)
    with every:
        y = x * 2
    z = every.longer
    every += z
    return y + z


def stored_while_it_is_mapped(x):
    rows = large(x)
    y = jax.tree.map(lambda one: store(rows, one) or one, x * 2)
    z = y + 1
    jax.vmap(lambda one: one * 2)(z)
    return z


def stored_by_a_generator(x):
    rows = large(x)

    def changing():
        for k in range(3):
            rows[k] = x[k] * 2
            yield k

    for k in changing():
        y = x * k
    return y


def with_another_one_in_its_place(x):
    rows = large(x)
    y = x * 2
    rows = large(y)
    z = y * 2
    rows = [*rows[1:], z[0]]
    return z


def added_up_beside_it(x):
    rows = large(x)
    for k in range(2):
        x += rows[k]
    rows += [x[0]]
    return x


LARGE = [
    *(stored_by_another, stored_in_a_part, stored_by_methods, stored_by_a_class),
    *(stored_while_it_is_mapped, stored_by_a_generator, with_another_one_in_its_place),
    added_up_beside_it,
]


@pytest.mark.parametrize("fn", LARGE)
def test_a_large_container_is_what_python_saw_whoever_changes_it(fn, monkeypatch):
    compare(fn, [X], monkeypatch)


def test_there_are_enough():
    assert sum(len(taxpr.trace(fn, names=True)(*args).variables()) for fn, *args in PROGRAMS) > 300


def unused_in_jit(x):
    @jax.jit
    def inner(x):
        unused = jnp.sin(jnp.cos(x))  # noqa: F841
        return x * x

    return inner(x)


def printed(x):
    jax.debug.print("x")
    return x * 2


# Without taxpr: in 0.10 JAX's internal checks fail for any effect in such a call that is
# differentiated through a jit.
METADATA_EFFECTS = metadata_call is None or works(
    lambda: jax.grad(jax.jit(lambda x: metadata_call(printed, group="g")(x)))(1.0)
)


@pytest.mark.spread(6)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("order", ["jit of grad", "grad of jit"])
def test_with_none_a_derivative_is_never_another_one(case, order):
    def total(*args):
        return sum(jnp.sum(jnp.real(one).astype(jnp.float32)) for one in floats(case.fn(*args)))

    def floats(out):
        arrays = map(jnp.asarray, jax.tree.leaves(out))
        return [one for one in arrays if jnp.issubdtype(one.dtype, jnp.inexact)]

    grad = functools.partial(jax.grad, allow_int=True)
    fn = jax.jit(grad(total)) if order == "jit of grad" else grad(jax.jit(total))
    try:
        plain = taxpr.trace(fn)(*case.args)
    except (TypeError, ValueError, NotImplementedError):
        pytest.skip("JAX does not differentiate it")
    with jax.enable_checks(case.name != "metadata" or METADATA_EFFECTS):
        careful = taxpr.trace(fn, names=None)(*case.args)
        named = taxpr.trace(fn, names=True)(*case.args)
    assert text(careful) == text(plain)
    assert set(map(held, careful.variables())) <= set(map(held, named.variables()))
    assert bool(careful.variables()) == bool(named.variables())


def held(one):
    return one.short, one.line, one.occurrence, str(one.aval), len(one.loops), one.recomputed


@jax.jit
def other_slice(x):
    left = x[0:3] * 2
    right = x[1:4]
    del left
    return jnp.sin(right)


UNUSED = {
    "an operand of a condition": lambda p, x: jax.lax.cond(
        p > 0, lambda pair: pair[0] + p, lambda pair: pair[1][0], (x, (x * 2, x))
    ),
    "an argument of a rule": lambda p, x: jax.nn.softplus(x) * jax.nn.relu(p),
    "what a loop hands on": lambda p, x: jax.lax.fori_loop(
        0, 3, lambda k, c: (c[0] * p, c[1] + p), (x, x)
    )[0],
    "dead lines": lambda p, x: unused_in_jit(x) * p,
    "a slice like one that is used": lambda p, x: other_slice(x) * p,
}


@pytest.mark.parametrize("what", UNUSED)
@pytest.mark.parametrize("order", ["jit of grad", "grad of jit", "jit of grad of jit"])
def test_with_none_the_first_program_has_names_and_the_next_ones_the_same(what, order):
    """They are of the same values as in the program that was traced with names."""

    def loss(p, x):
        y = UNUSED[what](p, x)
        return y.sum()

    inner = jax.jit(loss) if order != "jit of grad" else loss
    grad = jax.value_and_grad(inner, argnums=(0, 1))
    fn = grad if order == "grad of jit" else jax.jit(grad)
    args = jnp.float32(1.5), jnp.arange(4.0) / 3
    jax.clear_caches()
    programs = [taxpr.trace(fn, names=None)(*args) for _ in range(3)]
    assert len({str(one.jaxpr) for one in [*programs, taxpr.trace(fn)(*args)]}) == 1
    first, *more = [[(held(v), v.address) for v in one.variables()] for one in programs]
    assert {"loss.p", "loss.x", "loss.y"} <= {one[0] for one, _ in first}
    assert more == [first, first]
    named = taxpr.trace(fn, names=True)(*args)
    ours, theirs = (list(taxpr.watch(one)(*args).table().rows) for one in (programs[0], named))
    known = [(row.variable, row.line, row.ran, row.shape) for row in theirs]
    for row in ours:
        at = known.index((row.variable, row.line, row.ran, row.shape))
        norms = np.array([row.norm, theirs[at].norm], float)  # nan where nothing ran
        np.testing.assert_allclose(*norms, rtol=1e-6)
        del known[at], theirs[at]


def text(program):
    """The program but for the letters of variables, which jax 0.7 gives to unused results, too."""
    return [
        (eqn.primitive.name, str([atom.aval for atom in (*eqn.invars, *eqn.outvars)]))
        for _, eqn in taxpr.iter_eqns(program)
    ]


def test_with_none_a_program_is_never_another_one():
    plain = taxpr.trace(jax.grad(unused_in_jit))(2.0)
    noted = taxpr.trace(jax.grad(unused_in_jit), names=True)(2.0)
    assert str(noted.jaxpr) != str(plain.jaxpr)
    careful = taxpr.trace(jax.grad(unused_in_jit), names=None)(2.0)
    assert str(careful.jaxpr) == str(plain.jaxpr)
    assert {one.short for one in noted.variables()} == {
        "unused_in_jit.x",
        "inner.x",
        "inner.unused",
    }
    assert {one.short for one in careful.variables()} == {"unused_in_jit.x", "inner.x"}
    assert taxpr.trace(unused_in_jit, names=None)(2.0).variables()


@pytest.mark.parametrize("names", [False, True, "cotangents"])
@pytest.mark.parametrize("where", ["t", taxpr.var("new"), taxpr.var("y")])
def test_an_injected_function_can_be_watched(where, names):
    """An injected function traces the user's when it is called, and finds the same addresses."""

    def f(xs):
        y = xs * 1

        def step(c, x):
            new = taxpr.tag(jnp.sin(c + x), name="t")
            return new, new * 2

        return jax.lax.scan(step, 0.0, y)

    xs = jnp.arange(3.0)
    injected = taxpr.inject(f, taxpr.scale(0.5), where=where)
    ctx = injected.init(xs)
    program = taxpr.trace(injected, names=names)(ctx, xs)
    assert_close(program(ctx, xs), jax.jit(injected)(ctx, xs))
    assert not taxpr.find_nan(injected)(ctx, xs)
