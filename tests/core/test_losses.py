"""`first_difference` with another precision: which statements add most error, and how much."""

import inspect
import json
import linecache
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taxpr import first_difference

RNG = np.random.default_rng(0)


def some(*shape, scale=1.0):
    return jnp.asarray(RNG.normal(size=shape) * scale, jnp.float32)


def attended(x, v):
    s = x @ x.T * 3.0
    e = jnp.exp(s)  # here: no maximum is subtracted
    z = e.sum(-1, keepdims=True)
    p = e / z
    y = p @ v
    return y * 2


def normalised(x):
    h = jnp.tanh(x) + 8.0
    mean = h.mean(-1, keepdims=True)
    square = (h * h).mean(-1, keepdims=True)
    var = square - mean * mean  # here
    y = (h - mean) / jnp.sqrt(jnp.abs(var) + 1e-3)
    z = jnp.tanh(y)
    return z.sum()


def summed(xs):
    ws = jnp.sin(xs) + 1.5

    def step(total, w):
        total = total + w  # here
        copy = total * 1.0
        return copy, None

    total, _ = jax.lax.scan(step, jnp.zeros((), xs.dtype), ws)
    mean = total / xs.shape[0]
    y = ws / mean
    return y


def subtracted(a, b):
    p = a * 3.0
    q = b * 3.0
    gap = p - q  # here
    slope = gap / 0.01
    for _ in range(3):
        slope = jnp.tanh(slope * 0.5)
    return slope * p


A = jnp.asarray(RNG.uniform(1, 2, 8), jnp.float32)
KNOWN = [
    (attended, (some(6, 4, scale=2.0), some(6, 3))),
    (normalised, (some(5, 16),)),
    (summed, (some(600),)),
    (subtracted, (A, A * (1 + some(8, scale=0.004)))),
]


def marked(fn):
    lines, first = inspect.getsourcelines(fn)
    [k] = [k for k, line in enumerate(lines) if "# here" in line]
    return f"test_losses.py:{first + k}"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("fn", "args"), KNOWN, ids=lambda one: getattr(one, "__name__", ""))
def test_the_line_that_loses_precision_is_first(fn, args, dtype):
    with jax.numpy_rank_promotion("allow"):
        found = first_difference(fn, dtype)(*args)
    first = found.first
    assert first.line == marked(fn), found
    assert first.share > 0.4
    assert found.headline.startswith(f"where {dtype} hurts most in {fn.__name__}: {first.variable}")
    assert f"{first.share:.0%} of the sum over all" in found.headline
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert [row.adds for row in found.rows] == sorted(row.adds for row in found.rows)[::-1]
    assert len({row.line for row in found.rows}) == len(found.rows)
    assert all(0 < row.adds <= 1 and 0 <= row.error <= 1 for row in found.rows)


def test_what_is_added_is_the_error_without_what_came_in():
    def f(x):
        y = x + 0.0
        z = y * 3
        return z

    x = some(50)
    narrow = np.asarray(x.astype(jnp.bfloat16), np.float64)
    wide = np.asarray(x, np.float64)
    cast = np.sqrt(np.mean((narrow - wide) ** 2) / max(np.mean(wide**2), np.mean(narrow**2)))
    out = np.asarray((x.astype(jnp.bfloat16) * 3), np.float64)
    off = np.sqrt(np.mean((out - 3 * wide) ** 2) / max(np.mean(9 * wide**2), np.mean(out**2)))
    found = first_difference(f, "bfloat16")(x)
    rows = {row.variable: row for row in found.rows}
    assert rows["x"].adds == pytest.approx(cast, rel=1e-3)
    assert rows["z"].error == pytest.approx(off, rel=1e-3)
    assert rows["z"].adds == pytest.approx(off - cast, rel=1e-3)
    assert "y" not in rows
    assert found.error == pytest.approx(off, rel=1e-3)
    assert not found  # nothing is beyond what is tolerated
    assert not found.differences
    assert "By more than is tolerated, none of 3 values differ." in found.notes


def test_what_only_stands_elsewhere_adds_nothing():
    def f(x):
        both = jnp.concatenate([jnp.exp(x) * 1e-3, 1000 * x])
        part = both[: x.size]  # whose error is larger, measured by its own size
        turned = part[::-1]
        return turned.sum() + 0 * both.sum()

    found = first_difference(f, "bfloat16")(some(8, scale=4.0))
    assert not {"part", "turned"} & {row.variable for row in found.rows}


@pytest.mark.parametrize("fill", [-1e9, -float("inf")])
def test_the_number_of_a_mask_hides_no_error(fill):
    def f(x):
        big = x + 20.0
        s = big - 20.0  # here: most is lost
        masked = jnp.where(jnp.tri(8, dtype=bool), s, jnp.asarray(fill, s.dtype))
        w = jax.nn.softmax(masked * 4)
        return w @ x

    found = first_difference(f, "bfloat16")(some(8, 8, scale=0.3))
    assert found.first.line == marked(f), found


def test_what_is_no_longer_finite_is_lost():
    def f(x):
        e = jnp.exp(x)
        y = jnp.log(e)
        return y * 2

    found = first_difference(f, "float16")(jnp.asarray([1.0, 30.0]))
    assert found.first.variable == "e"
    assert (found.first.error, found.first.b) == (1.0, np.inf)
    assert found.first.adds > 0.99
    assert json.loads(found.to_json())["rows"][0]["b"] == "inf"


def test_branches_integers_and_loops_that_end_apart():
    def f(x):
        def halve(state):
            k, v = state
            v = jax.lax.cond(v > 3.0, lambda v: [low := v * 0.5, low][1], lambda v: v - 0.3, v)
            return k + 1, v

        steps, v = jax.lax.while_loop(lambda state: state[1] > 0.01, halve, (0, x))
        best = jnp.argmax(jnp.stack([v, x]))
        return v, steps, best

    found = first_difference(f, "bfloat16")(jnp.float32(7.77))
    assert found.rows
    assert "nan" not in str(found)


def test_a_wider_type_and_tolerances():
    def f(x):
        large = x + 512.0
        back = jnp.sqrt(large) - 22.627416998
        return back * 2

    x = jnp.asarray([0.3, 0.7])
    assert first_difference(f, "float64")(x).first.variable == "back"
    # Who says what is tolerated asks where it begins.
    found = first_difference(f, "bfloat16", rtol=0.01)(x)
    assert [row.variable for row in found.rows] == ["back", "out"]
    assert found.headline.startswith("first difference")


def test_all_layers_of_a_loop_are_one_statement():
    def f(x, ws):
        for w in ws:
            h = x @ w
            x = jnp.tanh(h)
        return x

    found = first_difference(f, "bfloat16")(some(4, 4), [some(4, 4) for _ in range(5)])
    lines = [row.line for row in found.rows]
    assert len(lines) == len(set(lines)) <= 5
    assert {row.statement for row in found.rows} <= {
        "def f(x, ws):",
        "for w in ws:",
        "h = x @ w",
        "x = jnp.tanh(h)",
        "return x",
    }
    assert found.chart().text()
    assert "<svg" in found._repr_mimebundle_()["text/html"]


SOUND = [
    "h = jnp.tanh(h @ w)",
    "h = h * 0.9 + 0.1 * x",
    "g = jax.nn.sigmoid(h)",
    "h = h * 1.5",
    "h = jax.nn.gelu(h) + x",
    "y = jax.nn.softmax(h)",
    "h = h / jnp.sqrt(1 + (h * h).mean(-1, keepdims=True))",
    "def step(c, k):\n    c = 0.5 * c + 0.5 * h\n    return c, None\n"
    "h, _ = jax.lax.scan(step, h, None, length=4)",
]
LOSSY = [
    ("big = h + 40.0", "h = big - 40.0"),
    ("s = h * 40.0 + 60.0", "h = jnp.log1p(jnp.exp(s - 60.0) % 7.0)"),
    (
        "c = h + 9.0\nm = c.mean(-1, keepdims=True)\nq = (c * c).mean(-1, keepdims=True)",
        "h = q - m * m + 0 * h",
    ),
    ("z = 0 * h + 1.0", "def add(z, k):\n    z = z + 0.003 * (1 + z * 0)\n    return z, None"),
]


@pytest.mark.spread(4)
@pytest.mark.parametrize("seed", range(24))
def test_the_lossy_line_of_a_random_program_is_first(seed):
    rng = random.Random(seed)
    before = [rng.choice(SOUND) for _ in range(rng.randint(0, 4))]
    ready, lossy = LOSSY[seed % len(LOSSY)]
    then = "z, _ = jax.lax.scan(add, z, None, length=400)\nh = h + z" if "add" in lossy else ""
    after = [rng.choice(SOUND[:6]) for _ in range(rng.randint(0, 3))]
    body = "\n".join([*before, ready, lossy, *([then] if then else []), *after, "return h"])
    text = "def model(x, w):\n    h = x\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    file = f"<lossy {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names = {"jnp": jnp, "jax": jax}
    exec(compile(text, file, "exec"), names)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        found = first_difference(names["model"], "bfloat16")(
            some(6, 6, scale=0.5), some(6, 6, scale=0.5)
        )
    line = "z = z + 0.003 * (1 + z * 0)" if then else lossy
    assert found.first.statement == line, (text, str(found))
