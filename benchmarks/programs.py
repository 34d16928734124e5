"""Programs and measures that several benchmarks share."""

import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import taxpr

BUILD = Path(__file__).resolve().parent.parent / "build"
HEADS = 2
MARKS = 13  # that `block` sets

Mark = Callable[[Any], Any]


def block(weights, x, mark: Mark):
    """One block of a transformer, in plain jax.numpy, with ``mark`` at its inner values."""

    def normed(x):
        x = mark(x - jnp.mean(x, -1, keepdims=True))
        return mark(x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5))

    h = normed(x)
    q, k, v = (mark((h @ weights[name]).reshape(x.shape[0], HEADS, -1)) for name in "qkv")
    weight = mark(jax.nn.softmax(mark(jnp.einsum("thd,shd->hts", q, k))))
    x = mark(x + jnp.einsum("hts,shd->thd", weight, v).reshape(x.shape) @ weights["o"])
    h = mark(jax.nn.gelu(mark(normed(x) @ weights["up"])))
    return mark(x + h @ weights["down"])


def transformer(mark: Mark):
    def apply(weights, x):
        for one in weights:
            x = block(one, x, mark)
        return x

    return apply


def transformer_args(layers: int, tokens: int = 4, width: int = 8) -> tuple[Any, Any]:
    def normal(*shape):
        return jax.random.normal(jax.random.key(sum(shape)), shape) / width**0.5

    weights = {name: normal(width, width) for name in "qkvo"}
    weights |= {"up": normal(width, 2 * width), "down": normal(2 * width, width)}
    return [weights] * layers, normal(tokens, width)


def spread(act: Callable[[Any, int], Any], tags: int, marks: int) -> Mark:
    """Calls ``act(x, number)`` ``tags`` times, spread evenly over ``marks`` marks.

    For one trace: it counts its calls.
    """
    state = {"mark": 0, "tag": 0}

    def mark(x):
        state["mark"] += 1
        while state["tag"] < state["mark"] * tags // marks:
            x = act(x, state["tag"])
            state["tag"] += 1
        return x

    return mark


def tagging(tags: int, layers: int) -> Mark:
    return spread(lambda x, k: taxpr.tag(x, name=f"t{k}"), tags, MARKS * layers)


def gradient(mark: Mark):
    """The gradient of a loss of the transformer."""
    return jax.grad(lambda weights, x: jnp.mean(transformer(mark)(weights, x) ** 2))


def training(layers: int, tags: int) -> Callable[[Any, Any], Any]:
    """A train step of the transformer: the new weights and the loss."""

    def train_step(weights, x):
        def loss(weights):
            return jnp.mean(transformer(tagging(tags, layers))(weights, x) ** 2)

        value, grads = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value

    return train_step


def half_and_count(n, token, params):
    return token * 0.5, n + 1


def cpu_seconds(work: Callable[[], Any], runs: int) -> float:
    """The median of the processor time; tracing has one thread, so others hardly disturb it."""
    times = []
    for _ in range(runs):
        jax.clear_caches()
        gc.collect()
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def reached(what: str, value: float, goal: float, unit: str = "") -> dict[str, Any]:
    verdict = "reached" if value <= goal else "MISSED"
    print(f"{verdict}: {what} is {value:.3g}{unit}, to be at most {goal:g}{unit}")
    return {"what": what, "value": value, "goal": goal, "reached": value <= goal}


def write(name: str, results: Any) -> None:
    BUILD.mkdir(exist_ok=True)
    path = BUILD / f"{name}.json"
    path.write_text(json.dumps({"jax": jax.__version__, "results": results}, indent=1))
    print(f"written to {path}")
