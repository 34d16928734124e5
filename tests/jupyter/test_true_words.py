"""Python reads the words for values: each has the value of what it names, where it stands."""

import importlib.util
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from true_words import Named

from taxpr_jupyter import draw

V = jnp.asarray([0.3, -0.8, 1.1])
M = jnp.asarray(np.linspace(-1.0, 1.0, 9, dtype=np.float32).reshape(3, 3))


def helper(x):
    y = jnp.sin(x * 2.0)
    return y * jnp.cos(x)


def other(x, y):
    x = jnp.tanh(x + y * 3.0)
    return x * jnp.exp(y)


def nested(x, y):
    z = helper(y) * x
    return helper(z * 0.5) + helper(x) * y


def rebound(x):
    x = jnp.exp(x + (x := x * 2.0))
    y = x * 3.0
    x = jnp.sin(x) * y
    return jnp.exp(x) * y


def swapped(x, y):
    x, y = y * 2.0, x * 3.0
    return other(y, x) * other(x, y)


def twice(x):
    return helper(helper(x * 2.0)) * x


def looped(x, w):
    for _ in range(3):
        h = jnp.tanh(w @ x)
        x = x + helper(h) * h
    return x


def closure(x, y):
    z = x * y

    def inner(y):
        return jnp.sin(y * 2.0) * z

    def shadowing(z):
        x = z * 3.0
        return jnp.cos(x) * y

    return inner(x) + shadowing(z) * inner(z)


def of_jit(x, y):
    @jax.jit
    def inner(y):
        x = y * 2.0
        return jnp.sin(x) * x

    return inner(x) * inner(y * 3.0)


def of_library(x, y):
    a, b = jax.nn.silu(x * 2.0), jax.nn.silu(y)
    c = jax.nn.gelu(b)
    return jax.nn.softmax(a) * jax.nn.softmax(b) * jax.nn.silu(c) * jnp.where(a > 0.0, a, b)


def of_scan(x, ys):
    def step(y, x):
        y = jnp.tanh(y * x)
        return y, jnp.sin(y) * x

    y, zs = lax.scan(step, x, ys)
    return jnp.sum(zs * 2.0, 0) * y


def of_remat(x, w):
    @jax.checkpoint
    def block(x, y):
        w = jnp.sin(y @ x)
        return jnp.tanh(w) * x

    for _ in range(2):
        x = block(x, w) + x
    return x


def of_tree(p, g):
    p = jax.tree.map(lambda p, g: p - 0.1 * g, p, {"a": g, "b": p["a"]})
    return jnp.sum(jax.tree.map(lambda g, p: jnp.sin(g) * p, p, {"a": g, "b": g})["b"])


def of_vmap(x, ys):
    def one(y):
        x = jnp.sin(y)
        return other(y, x)

    return jnp.sum(jax.vmap(one)(ys)) * x


def of_cond(x, y):
    def yes(y, x):
        return jnp.sin(x * 2.0) * y

    def no(x, y):
        return helper(x) - y

    return lax.cond(x[0] > 0.0, yes, no, y * 3.0, x)


def of_comprehension(x, y):
    parts = [helper(x * k) for x, k in ((x, y), (y, x * 3.0))]
    return sum(jnp.sin(y * 4.0) for y in parts) * y


def of_another_type(x, y):
    z = jnp.exp(x) * y
    x = [y * 2.0, x]
    z = x[0] * z + jnp.sin(x[0]) * (x[1] - x[0])
    x = x[0] * z
    return jnp.exp(x) * z - x


def of_shadowing_comprehension(x, y):
    z = sum([jnp.sin(x) * y for x in (x, y, x + y)])
    return z * x


@jax.jit
def of_pair(pair, unused=None):
    return pair[0] * 2.0 - pair[1]


def both(x):
    return jnp.sin(x), jnp.cos(x)


def of_argument(x, y):
    return of_pair(both(x), None) * of_pair(both(y))


def of_axes(a, b):
    x = jnp.sum(jnp.sin(a) * b, 0) * jnp.max(a - b, axis=1)
    y = jnp.cumsum(a * b, 1) - jnp.prod(a + b, 0) * jnp.min(b, 1)
    z = jnp.exp(a - jnp.max(a, 1, keepdims=True))
    return x * y - jnp.mean(b * a, -1) / jnp.sum(z, 1, keepdims=True)


def of_norm(x, w):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return jax.nn.softmax((x - mu) * lax.rsqrt(var + 1e-5) * w)


def of_repeated(a, b):
    x = (a * b).reshape(1, 9).sum(0)
    y = jnp.broadcast_to(b[0] * 2.0, (3, 3)) @ a
    return x[:3] * y - jnp.ones((3, 3)) @ (a + b)


def of_scans(x, ys):
    def outer(x, y):
        def inner(y, x):
            return jnp.sin(x * y) * y, y * 2.0

        y, z = lax.scan(inner, y, ys)
        return y * x, jnp.sum(z)

    x, y = lax.scan(outer, x, ys)
    return x * jnp.sum(y)


def of_parts(x, y):
    d = {"a": x, "b": y}
    d["a"] = d["a"] * 2.0
    d["a"], d["b"] = d["b"], d["a"] * d["b"]
    return d["a"] - d["b"] * 2.0


def of_powers(x):
    y = (x**2) ** 3 + (2.0**x) ** 2
    return (y**2).sum() + (jnp.tanh(x) ** 2).sum() * (x**3)[0]


def of_sorted(m):
    columns = lambda a: lax.sort(a, dimension=0) * 2.0
    return columns(m * 2.0) + columns(jnp.sin(m)) @ m


PROGRAMS = {
    of_another_type: (V, V * 2),
    of_shadowing_comprehension: (V, V * 2),
    of_argument: (V, V * 2),
    of_axes: (M, M.at[0, 1].set(5.0)),
    of_norm: (M, V),
    of_repeated: (M, M.T),
    of_scans: (V, M),
    of_parts: (V, V * 2),
    nested: (V, V * 2),
    rebound: (V,),
    swapped: (V, V * 2),
    twice: (V,),
    looped: (V, M),
    closure: (V, V * 2),
    of_jit: (V, V * 2),
    of_library: (V, V * 2),
    of_scan: (V, M),
    of_remat: (V, M),
    of_tree: ({"a": V, "b": V * 2}, V * 3),
    of_vmap: (V, M),
    of_cond: (V, V * 2),
    of_comprehension: (V, V * 2),
    of_powers: (V,),
    of_sorted: (M[::-1],),
}


def total(fun):
    def loss(*args):
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(fun(*args)))

    return loss


@pytest.mark.parametrize("wrap", [lambda fun: fun, lambda fun: jax.grad(total(fun)), jax.jit])
@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda fun: fun.__name__)
def test_words_have_the_value_of_what_they_name(fun, wrap):
    with jax.numpy_rank_promotion("allow"):
        found = Named(wrap(fun), *PROGRAMS[fun])
    assert not found.wrong
    assert len(found.checked) > 3


def written(choose):
    """The source of a program of three functions, in which the same names mean many values."""
    lines = []
    for number, parameters in enumerate(("x, y", "y, x", "x, y")):
        lines.append(f"def f{number}({parameters}):")
        indent = "    "
        for _ in range(choose.randint(3, 6)):
            a, b, to = (choose.choice("xy") for _ in range(3))
            term = choose.choice(
                [
                    f"jnp.sin({a} * 2.0)",
                    f"{a} - {b} * 0.5",
                    f"jnp.exp({a} + ({b} := {b} * 0.3))",
                    f"jax.nn.silu({a}) * {b}",
                    f"f{choose.randrange(number)}({a}, {b} * 0.5)" if number else f"{a} * {b}",
                    f"jax.jit(f{choose.randrange(number)})({b}, {a})" if number else f"{a} / 2.0",
                    f"sum([{b} * {a} for {a} in ({a}, {b})])",
                    f"jax.checkpoint(lambda {b}: jnp.cos({b}) * {a})({a})",
                ]
            )
            if choose.random() < 0.2:
                lines.append(f"{indent}for _ in range(2):")
                indent += "    "
            lines.append(f"{indent}{to} = {term}")
            indent = "    "
        lines.append("    return jnp.tanh(x * y) - x")
    return "\n".join(["import jax", "import jax.numpy as jnp", *lines])


@pytest.mark.parametrize("seed", range(12))
def test_words_in_programs_that_nobody_wrote(seed, tmp_path):
    file = tmp_path / f"made_{seed}.py"
    file.write_text(written(random.Random(seed)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for fun in (module.f2, jax.grad(total(module.f2))):
        found = Named(fun, V * 0.1, V * 0.2)
        assert not found.wrong, file.read_text(encoding="utf-8")
        assert found.checked


def names(fun, *args):
    return {edge.name for edge in draw(fun, *args).picture.edges if edge.name}


def test_a_name_of_another_function_says_so_in_the_picture():
    def inner(x):
        return jnp.cos(x * 2.0)

    def outer(x):
        return jnp.sum(inner(jnp.sin(x) * jnp.tanh(x) - jnp.exp(x)) * x)

    of_inner = {name for name in names(jax.grad(outer), V) if "* 2.0" in name}
    assert of_inner
    assert all(name.startswith("inner: ") for name in of_inner)


def test_a_value_has_one_name_inside_of_a_call_and_outside():
    def outer(x):
        for _ in range(9):
            x = jnp.sin(x)
        return jax.jit(lambda x: sum([x * jnp.exp(x)] * 9))(x) * x

    found = names(outer, V)
    assert "x #10" in found  # the last one of the loop, which enters the call
    assert "x #11" not in found
