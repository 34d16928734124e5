"""What `every` costs in each step, against the plain loop, in one process.

    python benchmarks/bench_every.py

The ratios of the times of a loop, with the results looked at and without, once all is compiled; and
what a step of many small arrays costs. These are times of the processor, with all threads: other
programs do not change them.
"""

import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp

import taxpr

STEPS, RUNS, WIDTH, LAYERS, BATCH = 100, 3, 256, 4, 256


def loss(params: Any, x: Any) -> Any:
    for w in params:
        hidden = x @ w
        x = jnp.tanh(hidden)
    return jnp.mean(x**2)


def update(params: Any, x: Any) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def ignore(told: Any) -> None:
    del told


def seconds(call: Any, x: Any) -> float:
    params = [jnp.eye(WIDTH) * 0.5 for _ in range(LAYERS)]
    begun = time.process_time()
    for _ in range(STEPS):
        params, _ = call(params, x)
    jax.block_until_ready(params)
    return time.process_time() - begun


for donated in ((), (0,)):
    step = jax.jit(update, donate_argnums=donated)
    x = jnp.ones((BATCH, WIDTH))
    calls = {
        (n, finite): taxpr.every(n, step, ignore, finite=finite)
        for n in (1, 10, 100)
        for finite in (True, False)
    }
    measured: dict[Any, list[float]] = {"plain": [], **{key: [] for key in calls}}
    for call in calls.values():
        seconds(call, x)
    for _ in range(RUNS):
        measured["plain"].append(seconds(step, x))
        for key, call in calls.items():
            measured[key].append(seconds(call, x))
    plain = statistics.median(measured.pop("plain"))
    print(f"donated: {bool(donated)}; plain {plain / STEPS * 1e3:.2f} ms a step")
    for (n, finite), times in measured.items():
        print(f"  n={n}, finite={finite}: {statistics.median(times) / plain:.2f} times")


SMALL = 100  # arrays


def each_seconds(call: Any) -> float:
    """What a step costs that scales many small arrays, which it donates."""
    small = [jnp.ones(4) for _ in range(SMALL)]
    begun = time.process_time()
    for _ in range(STEPS):
        small = call(small)
    jax.block_until_ready(small)
    return (time.process_time() - begun) / STEPS


scaled = jax.jit(lambda xs: [x * 0.99 for x in xs], donate_argnums=0)
watched = taxpr.every(10**6, scaled, ignore)
for call in (scaled, watched):
    each_seconds(call)
alone, seen = (
    statistics.median(each_seconds(call) for _ in range(RUNS)) for call in (scaled, watched)
)
print(f"{SMALL} small arrays: {alone * 1e3:.2f} ms a step, {seen * 1e3:.2f} ms with every")
