"""Whether `taxpr.compile_time` tells right what a loop in Python would take to compile as a scan.

For layers that Python unrolls, in a forward pass and a gradient: the seconds of the loop, what it
says that a `jax.lax.scan` would take, and what the program with the scan takes in truth. From both
programs is taken what the same program takes without any layer.

    .envs/newest/bin/python benchmarks/bench_compile_time.py
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from bench_memory import arguments, attention, gated, perceptron

import taxpr

LAYERS, RUNS = 6, 3


def unrolled(layer, weights, x):
    for k in range(LAYERS):
        x = layer(x, {name: w[k] for name, w in weights.items()})
    return jnp.mean(x**2)


def scanned(layer, weights, x):
    x, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, weights)
    return jnp.mean(x**2)


def without(layer, weights, x):
    return jnp.mean(x**2) + sum(jnp.sum(w) for w in weights.values())


def compiling(fun: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """The seconds of lowering and compiling, the median of some."""
    found: list[float] = []
    for _ in range(RUNS):
        jax.clear_caches()
        traced = jax.jit(lambda *a: fun(*a)).trace(*args)
        begin = time.perf_counter()
        traced.lower().compile()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def main() -> None:
    print(f"jax {jax.__version__}; seconds of lowering and compiling")
    args = arguments()
    for kind, wrap in (("forward", lambda f: f), ("gradient", jax.grad)):
        for layer in (attention, perceptron, gated):
            loop, scan, rest = (
                compiling(wrap(partial(fun, layer)), args) for fun in (unrolled, scanned, without)
            )
            told = taxpr.compile_time(wrap(partial(unrolled, layer)))(*args).loops
            says = ", ".join(
                f"{row.seconds:.2f}, as a scan "
                + ("not told" if row.as_scan is None else f"{row.as_scan:.2f}")
                for row in told
            )
            print(
                f"  {kind} of {layer.__name__}: in truth {loop - rest:.2f}, as a scan "
                f"{scan - rest:.2f}; it says {says or 'nothing'}"
            )


if __name__ == "__main__":
    main()
