"""Programs for the tests of the picture: the shared table, and what is hard to draw."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import CASES
from jax import lax
from jax.experimental import pallas

import taxpr

X = np.float32(0.7)
V = np.asarray([0.3, -0.8, 1.1], np.float32)
W = np.asarray([2.0, 0.5, -1.0], np.float32)

HOSTILE = (
    'double " quotes',
    "single ' quotes",
    "back\\slash \\n \\N \\",
    "</script><script>alert(1)</script>",
    "<b onclick='x()'>&lt;&amp;&#65;&</b>",
    "]]> <!-- -->",
    "new\nline\r\ttab",
    "nul\x00 bell\x07 escape\x1b[31m",
    "lone \ud800 surrogate",
    "right to left: \u202egnp.exe שלום",
    "emoji 👩‍👩‍👧 漢字 ﷽",
    "very long " * 40,
    "{a|<b>c}",
    "",
    "%s {0} $x ${y} `z`",
)

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(*args: Any):
    """Adds a program: a function and its arguments."""

    def add(fn):
        PROGRAMS[fn.__name__] = lambda: taxpr.trace(fn)(*args)
        return fn

    return add


def _of_case(case):
    return lambda: taxpr.trace(case.fn)(*case.args)


def _grad_of_case(case):
    def total(*args):
        outs = jax.tree.leaves(case.fn(*args))
        return sum(jnp.sum(o) for o in outs if jnp.issubdtype(o.dtype, jnp.floating))

    return lambda: taxpr.trace(jax.grad(total))(*case.args)


PROGRAMS |= {case.name: _of_case(case) for case in CASES}
PROGRAMS |= {
    f"grad_{case.name}": _grad_of_case(case)
    for case in CASES
    if case.name in {"flat", "scan_plain", "scan_nested", "cond_true", "remat", "custom_jvp"}
}


@program(X)
def identity(x):
    return x


@program(X)
def constant(x):
    del x
    return jnp.float32(3.0), W


@program(X)
def no_outputs(x):
    jnp.sin(x)
    return ()


@program()
def nothing():
    return None


@program(X, X, {"a": V, "b": V})
def unused_inputs(x, y, unused):
    del y, unused
    return x + 1


@program(X)
def duplicated_outputs(x):
    y = jnp.sin(x)
    return y, {"again": y, "input": x}, 1.0, y


@program(X, X)
def operand_order(a, b):
    return a - b, b - a, a * a, a / b, a * b, lax.select(a > b, b, a)


@program(X)
def literals(x):
    return (
        1.0 - x,
        x - 1.0,
        x * 2,
        x**3,
        jnp.clip(x, -1.0, 1.0),
        lax.cond(x > 0, lambda: 1, lambda: 2),
    )


@program(np.zeros((4, 6), np.float32))
def several_results(x):
    a, b, c = jnp.split(x, 3, axis=1)
    values, indices = lax.top_k(a, 2)
    return b - c, values, indices


@program(X)
def effects(x):
    jax.debug.print("x = {}", x)
    return x * 2


@program(V)
def combiner(v):
    return lax.reduce_window(v, X, lambda a, b: jnp.sin(b) + a, (2,), (1,), "VALID")


@program(X)
def branches_without_inputs(x):
    return lax.cond(x > 0, lambda: 1.0, lambda: 2.0)


@program(X)
def a_branch_without_anything(x):
    lax.cond(x > 0, lambda: jax.debug.print("positive"), lambda: None)
    return x


@program(X)
def empty_jit(x):
    return jax.jit(lambda y: y)(x)


@program(X)
def by_platform(x):
    return lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x - 1)


@program(X)
def deeply_nested(x):
    def level(n):
        return jax.jit(lambda y: jnp.sin(level(n - 1)(y))) if n else jnp.cos

    return level(12)(x)


@program(np.float32(1), {f"w{i}": V for i in range(60)})
def many_inputs(x, params):
    return x + sum(jnp.sum(w) * k for k, w in enumerate(params.values())), params


@program([X] * 60)
def many_carries(xs):
    return lax.fori_loop(0, 3, lambda i, c: [jnp.sin(x) * i.astype(x.dtype) for x in c], xs)


@program(X)
def far_use(x):
    y = x
    for k in range(14):  # of which no two are alike, so that all are drawn
        y = jnp.sin(y) * W[0] + k
    return y + x


@program(X)
def long_and_flat(x):
    return _flat(x, 400, tags_at=range(0, 400, 100))


@program(X)
def long_in_a_jit(x):
    return jax.jit(lambda y: _flat(y, 400, tags_at=range(400)))(x)


def _flat(x, steps, tags_at):
    for i in range(steps):
        x = jnp.sin(x) * (1.5 + i) if i % 2 else jnp.cos(x)
        if i in tags_at:
            x = taxpr.tag(x, name=f"step {i}")
        if i == steps // 2:
            x = jax.jit(lambda y: jnp.exp(y) + 1)(x)
    return x


@program(dict.fromkeys(HOSTILE, V))
def hostile(arguments):
    for name, v in arguments.items():
        v = taxpr.tag(v, name=name, more=(name, frozenset({"b", "a", name})))
        inner = lambda y: y * 2
        inner.__name__ = name.encode(errors="replace").decode()
        arguments[name] = jax.jit(inner)(v)
    return arguments


hostile.__name__ = HOSTILE[3]


@program(V)
def batched(v):
    return jax.vmap(lambda x: lax.while_loop(lambda c: c < 3, lambda c: taxpr.tag(c + 1, n=1), x))(
        v
    )


@program(V, W)
def mlp_step(x, w):
    def loss(w):
        h = taxpr.tag(jax.nn.relu(x * w), name="h")
        return jnp.mean((h - 1) ** 2)

    value, gradient = jax.value_and_grad(loss)(w)
    return value, w - 0.1 * gradient


def with_states(*args: Any):
    """Adds a program: a function that uses states and its arguments."""

    def add(fn):
        def make():
            from taxpr_jupyter import draw  # the core is tested without it

            return draw(fn, *args).program

        PROGRAMS[fn.__name__] = make
        return fn

    return add


TOTAL = taxpr.State(0.0, name="total")
NORM = taxpr.State({"mean": jnp.zeros(()), "var": jnp.ones(())}, name="norm")
UNIT = taxpr.State(2.0, name="unit")
RESET = taxpr.State(1.0, name="reset")
BOTH = taxpr.State(1, name="a"), taxpr.State(2, name="b")


@with_states(V)
def states(xs):
    """Read and written in a scan, a tree, only read, reset to a literal, swapped."""

    def step(_, x):
        TOTAL.value += x * UNIT.value
        NORM.value = NORM.value | {"mean": 0.9 * NORM.value["mean"] + x}
        return None, TOTAL.value

    _, sums = lax.scan(step, None, xs)
    RESET.value = 0.0
    a, b = BOTH
    a.value, b.value = b.value, a.value
    return sums


HOSTILE_STATES = [taxpr.State(float(k), name=name) for k, name in enumerate(HOSTILE) if name]


@with_states(X)
def hostile_states(x):
    for state in HOSTILE_STATES:
        state.value += x.sum()


@program(V)
def refs(v):
    ref = jax.new_ref(v)
    ref[...] = ref[...] * 2
    return ref[...]


@program(V)
def kernel(v):
    def double(source, target):
        target[...] = source[...] * 2

    return pallas.pallas_call(double, out_shape=jax.ShapeDtypeStruct(v.shape, v.dtype))(v)


@program(V)
def second_derivative(v):
    return jax.hessian(lambda x: jnp.sum(jnp.tanh(x) ** 3))(v)
