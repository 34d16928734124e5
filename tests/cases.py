"""The table of programs that all tests share: at least one for each rule.

Each function is traced with its arguments. Tags carry PyTrees, arrays of several dtypes,
literals, unused values; programs close over arrays, drop results and return one twice.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from cases_hops import PROGRAMS
from jax import lax

import taxpr
from taxpr import tag
from taxpr._engine import iterations

W = np.linspace(-1.0, 1.0, 3).astype(np.float32)  # an array that programs close over


@dataclasses.dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
        name: Its name.
        fn: The function.
        args: Arguments; float arrays may be batched on a new leading axis.
        reverse: Whether reverse-mode derivatives exist (not through a while loop).
        refused: Primitives of which one, depending on JAX, holds the tag, and into which
            `inject` does not go, by name.
        tolerance: Of values and derivatives; XLA keeps more than bfloat16 where it likes.
        fires: The names of the tags in the order in which they fire, for these arguments.
        vmap: Whether JAX itself can batch it with its checks on.
        keeps_rule: Whether its derivative is a rule of its own, not that of what runs.
        batches: Whether JAX can batch it after an injection.
    """

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    reverse: bool = True
    refused: tuple[str, ...] = ()
    tolerance: float = 2e-5
    fires: tuple[str, ...] | None = None
    vmap: bool = True
    keeps_rule: bool = False
    batches: bool = True

    def __repr__(self):
        return self.name


CASES: list[Case] = []


def case(*args, **more):
    def add(fn):
        CASES.append(Case(fn.__name__, fn, args, **more))
        return fn

    return add


X = np.float32(0.7)
V = np.asarray([0.3, -0.8, 1.1], np.float32)


@case(X, fires=("a", "b"))
def flat(x):
    a = tag(jnp.sin(x), name="a")
    return tag(a * x + 1.0, name="b")


@case(V, fires=("t", "unused", "same", "same again"))
def flat_pytrees(v):
    token = tag({"v": v, "n": jnp.int32(3), "ok": (v > 0, None)}, name="t", extra=(1, 2))
    tag(v * 2, name="unused")
    a = tag(v, name="same")
    b = tag(v, name="same again")
    out = token["v"] * token["n"].astype(v.dtype)
    return out, out, a - b, jnp.where(token["ok"][0], v, -v)


@case(X, fires=("literal", "empty", "out"))
def flat_literal(x):
    one = tag(1.0, name="literal")
    tag((), name="empty")
    return tag(x, name="out") * one, 2.0


@case(V, tolerance=2e-2)
def flat_bf16(v):
    return tag(v.astype(jnp.bfloat16) * 2, name="h").astype(jnp.float32).sum()


@case(X)
def flat_key(x):
    key = tag(jax.random.key(3), name="key")
    return tag(x * jax.random.uniform(key, (), x.dtype), name="u")


@case(V, fires=("inner", "inner", "outer"))
def jit_twice(v):
    @jax.jit
    def twice(y):
        return tag(y * 2 + W, name="inner")

    return tag(twice(twice(v)), name="outer")


@case(V)
def jit_nested(v):
    def inner(y):
        return tag(jnp.cos(y), name="deep") + W

    return jax.jit(lambda y: jax.jit(inner)(y) * 2, keep_unused=True)(v)


@case(V, fires=("c",) * 3)
def scan_plain(v):
    def step(c, x):
        c = tag(c * 0.9 + x, name="c")
        return c, c * 2

    return lax.scan(step, jnp.float32(0.5), v)


@case(V, fires=("c", "y") * 3)
def scan_reverse(v):
    def step(carry, x):
        c, i = carry
        c = tag({"c": c * 0.5 + x * W.sum(), "i": i}, name="c")
        return (c["c"], c["i"] + 1), tag(c["c"] + W, name="y")

    return lax.scan(step, (jnp.float32(0.1), jnp.int32(0)), v, reverse=True, unroll=2)


@case(X)
def scan_empty(x):
    def step(c, _):
        return tag(c * 2, name="never"), c

    return lax.scan(step, tag(x, name="before"), None, length=0)


@case(V)
def scan_nested(v):
    def outer(c, x):
        def inner(d, y):
            d = tag(d + y * x, name="d")
            return d, d

        c, ds = lax.scan(inner, c, v)
        return tag(c * 0.1, name="c"), ds

    return lax.scan(outer, jnp.float32(0), v)


@case(X, reverse=False, fires=("cond", "body") * 3 + ("cond",))
def while_both(x):
    def go_on(c):
        return tag(c, name="cond") < 6.0

    return lax.while_loop(go_on, lambda c: tag(c * 2.0 + 0.3, name="body"), x)


@case(V, reverse=False)
def while_body(v):
    def step(carry):
        i, c = carry
        return i + 1, tag(c * 1.1 + W, name="body")

    return lax.while_loop(lambda carry: carry[0] < 4, step, (jnp.int32(0), v))


@case(X, reverse=False)
def while_never(x):
    return lax.while_loop(lambda c: tag(c, name="cond") < 0, lambda c: tag(c, name="b"), x)


@case(V)
def fori(v):
    return lax.fori_loop(0, 3, lambda i, c: tag(c * 0.5 + v, name="c"), v)


@case(V)
def map_over(v):
    return lax.map(lambda x: tag(jnp.tanh(x), name="m"), v)


@case(X, fires=("true", "after"))
def cond_true(x):
    y = lax.cond(
        x > 0.5, lambda a: tag(a * 3 + W.sum(), name="true"), lambda a: tag(a, name="false"), x
    )
    return tag(y, name="after")


@case(-X, fires=())
def cond_untagged_branch(x):
    return lax.cond(x > 0.5, lambda a: tag(a * 3, name="true"), lambda a: a - W.sum(), x)


@case(np.int32(1), X, fires=("b1",))
def switch(i, x):
    branches = [
        lambda a: tag(a + 1, name="b0"),
        lambda a: tag(a * 2 + W.sum(), name="b1"),
        lambda a: a - 3,
    ]
    return lax.switch(i, branches, x)


@case(V)
def remat(v):
    f = jax.checkpoint(lambda a: jnp.sin(tag(jnp.cos(a) * W, name="r")) + W)
    return f(f(v))


@case(V)
def remat_policy(v):
    def body(a):
        return tag(jnp.dot(a, W), name="dot") * jnp.sin(a)

    policy = jax.checkpoint_policies.dots_saveable
    return jax.checkpoint(body, policy=policy, prevent_cse=False)(v)


@case(V, reverse=False)
def deep(v):
    def step(c, x):
        def go(d):
            return tag(d, name="go") < 3.0

        c = lax.cond(
            x > 0,
            lambda c: lax.while_loop(go, lambda d: tag(d + 1.0, name="loop"), c),
            lambda c: jax.jit(lambda d: tag(d * 0.5, name="half"))(c),
            c,
        )
        return c, jax.checkpoint(lambda d: tag(jnp.sin(d), name="y") * W.sum())(c)

    return jax.jit(lambda v: lax.scan(step, jnp.float32(0.2), v))(v)


@case(V, vmap=False)
def eval_call(v):
    inner = jax.make_jaxpr(lambda a: tag(a * 2.0, name="called"))(v)
    # closed_call up to 0.11, eval_jaxpr from 0.12: rules of some libraries leave them behind.
    primitive = jex.primitives.closed_call_p
    bound = primitive.get_bind_params({"call_jaxpr": inner})
    subfuns, params = bound if isinstance(bound, tuple) else ([], bound)
    (out,) = primitive.bind(*subfuns, v, **params)
    return out


@case(V, keeps_rule=True)
def custom_jvp(v):
    @jax.custom_jvp
    def f(x):
        return tag(jnp.sin(x), name="primal")

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    return f(v)


@case(V, keeps_rule=True)
def custom_vjp(v):
    @jax.custom_vjp
    def f(x):
        return tag(jnp.sin(x), name="primal")

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    return f(v)


# jax 0.8 itself cannot batch the psum that an injection adds.
@case(V, batches=not jax.__version__.startswith("0.8."))
def shard_map(v):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    body = jax.shard_map(
        lambda x: tag(x * 2, name="shard"), mesh=mesh, in_specs=spec, out_specs=spec
    )
    return body(v)


@case(V, keeps_rule=True)
def linear_solve(v):
    return lax.custom_linear_solve(
        lambda x: 2.0 * x,
        v,
        lambda matvec, b: tag(b / 2.0, name="solve"),
        transpose_solve=lambda vecmat, b: b / 2.0,
    )


# From 0.12 it is an object of its own; see `cases_hops`.
@case(np.float32(8), keeps_rule=True)
def custom_root(x):
    def newton(f, y):
        step = lambda i, y: y - f(y) / (3.0 * y**2)
        return tag(lax.fori_loop(0, 20, step, y), name="root")

    return lax.custom_root(lambda y: y**3 - x, jnp.float32(1), newton, lambda g, y: y / g(1.0))


@case(V, refused=("reduce",))
def reduce(v):
    return lax.reduce(v, np.float32(0), lambda a, b: tag(a + b * b, name="pair"), (0,))


CASES += [Case(fn.__name__, fn, args, **more) for fn, args, more in PROGRAMS]

INJECTABLE = [c for c in CASES if not c.refused]
REFUSED = [c for c in CASES if c.refused]


def runs_plainly(case):
    """Whether no other code ever runs in the place of what holds a tag, such as a rule."""
    sites = taxpr.trace(case.fn)(*case.args).tags()
    return all(iterations.runs_plainly(step) for site in sites for step in site.steps)
