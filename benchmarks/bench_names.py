"""What it costs to note the variables of a program, as a ratio to tracing it without.

    python benchmarks/bench_names.py [the most equations]

Of a train step, and of Python loops with 1,000, 10,000 and 100,000 equations, which append to a
list, fill a dict, fill a list from behind, set attributes, bind the same variables again, and of
as many lines that bind one each. Of models of 250 to 2,000 layers that hand all of their arrays to
each call, as an object and as a list of parameters. Also what a `taxpr.edit` costs, as a ratio to
tracing with names. JAX's caches are cleared before each measurement, and the two kinds take turns.
Each figure is a median of ratios of processor time, and also goes to build/bench_names.json.
"""

import linecache
import statistics
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import programs

import taxpr

RUNS = 9
HEADS = 4


def normed(p, x):
    mean = x.mean(-1, keepdims=True)
    square = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(square + 1e-5) * p["scale"] + p["shift"]


def split(x):
    return x.reshape(x.shape[0], HEADS, -1).swapaxes(0, 1)


def attention(p, x):
    q, k, v = split(x @ p["q"]), split(x @ p["k"]), split(x @ p["v"])
    scores = jnp.einsum("hid,hjd->hij", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    out = jnp.einsum("hij,hjd->hid", weights, v)
    return out.swapaxes(0, 1).reshape(x.shape) @ p["o"]


def block(p, x):
    h = normed(p["first"], x)
    x = x + attention(p, h)
    h = normed(p["second"], x)
    h = jax.nn.gelu(h @ p["up"])
    return x + h @ p["down"]


def loss_of(params, tokens, targets):
    x = params["embedding"][tokens]
    for p in params["layers"]:
        x = block(p, x)
    logs = jax.nn.log_softmax(x @ params["embedding"].T)
    return -jnp.take_along_axis(logs, targets[:, None], axis=-1).mean()


@jax.jit
def train_step(params, state, tokens, targets):
    value, grads = jax.value_and_grad(loss_of)(params, tokens, targets)
    m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)

    def update(p, m, v):
        m, v = m / (1 - 0.9**t), v / (1 - 0.99**t)
        return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)

    return jax.tree.map(update, params, m, v), (m, v, t), value


def shapes(layers: int, width: int = 32) -> Any:
    def array(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    norm = {"scale": array(width), "shift": array(width)}
    layer = {name: array(width, width) for name in "qkvo"}
    layer |= {"up": array(width, 4 * width), "down": array(4 * width, width)}
    layer |= {"first": norm, "second": norm}
    params = {"embedding": array(100, width), "layers": [layer] * layers}
    tokens = jax.ShapeDtypeStruct((16,), jnp.int32)
    return params, (params, params, array()), tokens, tokens


def appending(n: int) -> Any:
    def f(x):
        rows = []
        for _ in range(n):
            x = x * 1.5
            rows.append(x)
        return rows[-1]

    return f


def filling(n: int) -> Any:
    def f(x):
        rows = {}
        for k in range(n):
            x = x * 1.5
            rows[k] = x
        return rows[n - 1]

    return f


def behind(n: int) -> Any:
    def f(x):
        rows = [x] * n
        for k in range(1, n):
            rows[k - 1] = rows[k] * 1.5
        return rows[0]

    return f


class State:
    def __init__(self, xs, x):
        self.xs = xs
        self.x = x


def setting(n: int) -> Any:
    def f(x):
        state = State([x] * 500, x)
        for k in range(n):
            state.x = state.x * state.xs[k % 500]
        return state.x

    return f


def binding(n: int) -> Any:
    def f(x):
        for _ in range(n):
            x = x * 1.5
        return x

    return f


def straight(n: int) -> Any:
    """A hundred lines of a function for each call, as models are written."""
    names = [f"v{k}" for k in range(100)]
    lines = [f"    {new} = {old} * 1.5" for old, new in zip(["x", *names], names, strict=False)]
    text = "\n".join(["def block(x):", *lines, f"    return {names[-1]}"])
    file = str(programs.BUILD / "straight.py")
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)

    def f(x):
        for _ in range(n // len(names)):
            x = scope["block"](x)
        return x

    return f


class Layer:
    def __init__(self, w, b):
        self.w = w
        self.b = b

    def __call__(self, x):
        y = x * self.w
        return y + self.b


class Model:
    """Of layers that are objects, in which nothing has a name but by their own methods."""

    def __init__(self, params):
        self.layers = [Layer(**p) for p in params]

    def step(self, k, x):
        return self.layers[k](x)


class Dicts:
    """Of layers that are dicts: each method has names for all of their arrays."""

    def __init__(self, params):
        self.layers = params

    def step(self, k, x):
        p = self.layers[k]
        y = x * p["w"]
        return y + p["b"]


def called(kind: Any) -> Any:
    def f(params, x):
        model = kind(params)
        for k in range(len(params)):
            x = model.step(k, x)
        return x

    return f


def step(params, k, x):
    p = params[k]
    y = x * p["w"]
    return y + p["b"]


def handing(params, x):
    for k in range(len(params)):
        x = step(params, k, x)
    return x


MODELS = {
    "objects": called(Model),
    "dicts": called(Dicts),
    "a list of parameters": handing,
}
LAYERS = 250, 500, 1000, 2000
LOOPS: dict[str, Callable[[int], Any]] = {
    "appends to a list": appending,
    "a dict that grows": filling,
    "a list from behind": behind,
    "sets attributes": setting,
    "one variable": binding,
    "lines of a function": straight,
}
EDITED = 1_000, 3_000, 10_000  # equations of functions of which one line is edited
SIZES = {1_000: 5, 10_000: 3, 100_000: 1}  # and how often each is measured


def ratio(fn: Any, args: Any, runs: int) -> float:
    def seconds(names: bool) -> float:
        return programs.cpu_seconds(lambda: taxpr.trace(fn, names=names)(*args), 1)

    seconds(True)
    return statistics.median(seconds(True) / seconds(False) for _ in range(runs))


def edited(fn: Any, where: str, args: Any, runs: int) -> float:
    """The first trace of a new edit, with names, as a ratio to tracing with names."""

    def with_edit() -> Any:
        return taxpr.trace(taxpr.edit(fn, where, taxpr.scale(0.5)), names=True)(*args)

    def with_names() -> Any:
        return taxpr.trace(fn, names=True)(*args)

    with_edit()
    return statistics.median(
        programs.cpu_seconds(with_edit, 1) / programs.cpu_seconds(with_names, 1)
        for _ in range(runs)
    )


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    step = ratio(train_step, shapes(4), RUNS)
    goals = [programs.reached("tracing a train step with names", step, 1.6, " times without")]
    edit = edited(train_step, "attention.weights", shapes(4), RUNS)
    goals.append(programs.reached("tracing a train step with an edit", edit, 1.3, " times names"))
    one = jnp.ones(())  # no weak type, so that what follows the edit has the types as before
    for size in EDITED:
        found = edited(straight(size), "block.v50", (one,), RUNS)
        what = f"tracing {size} equations with an edit"
        goals.append(programs.reached(what, found, 1.3, " times names"))
    for size, runs in SIZES.items():
        for name, program in LOOPS.items():
            if size <= most:
                found = ratio(program(size), (1.0,), runs)
                goals.append(programs.reached(f"{size} equations, {name}", found, 5, " times"))
    for layers in LAYERS:
        for name, model in MODELS.items():
            found = ratio(model, ([{"w": 1.5, "b": 1.0}] * layers, 1.0), 3)
            goals.append(programs.reached(f"{layers} layers, {name}", found, 10, " times"))
    programs.write("bench_names", {"goals": goals})


if __name__ == "__main__":
    main()
