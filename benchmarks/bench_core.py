"""What rewriting a program costs, as ratios to tracing it, as programs grow.

    python benchmarks/bench_core.py [number of equations ...]

Each figure is the median of several runs in one process; only ratios are printed,
since machines differ and are noisy.
"""

import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

import taxpr

RUNS = 3


def flat(eqns: int, tags: int) -> Callable:
    """A program of about ``eqns`` equations in a row, with ``tags`` tags spread over it."""
    every = max(eqns // tags, 1)

    def f(x):
        for k in range(eqns):
            x = jax.lax.sin(x)
            if k % every == 0:
                x = taxpr.tag(x, name=f"t{k}")
        return x

    return f


def nested(eqns: int, tags: int) -> Callable:
    """The same with a tenth of it in the body of a scan, and all tags there."""
    body = flat(eqns // 10, tags)
    rest = flat(eqns - eqns // 10, 1)

    def f(x):
        return rest(jax.lax.scan(lambda c, _: (body(c), None), x, None, length=3)[0])

    return f


def seconds(work: Callable) -> float:
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def count(n, token, params):
    return token, n + 1


def main(sizes: list[int]) -> None:
    print(f"jax {jax.__version__}; ratios to the time that tracing takes")
    print(f"{'program':>14} {'find_tags':>10} {'dissolve':>10} {'tag_at':>10} {'inject':>10}")
    x = jnp.float32(1)
    for make in (flat, nested):
        for size in sizes:
            fn = make(size, 20)
            program = taxpr.trace(fn)(x)
            last = f"{sum(not taxpr.is_tag(e) for e in program.eqns) - 1}:sin"
            # A new function each time: JAX remembers the traces of old ones.
            base = seconds(lambda make=make, size=size: taxpr.trace(make(size, 20))(x))
            works = (
                program.tags,
                program.dissolve,
                lambda program=program, last=last: program.tag_at(last, name="last"),
                lambda program=program: program.inject(count, 0),
            )
            ratios = " ".join(f"{seconds(work) / base:10.3f}" for work in works)
            print(f"{make.__name__:>7}{size:>7} {ratios}")


if __name__ == "__main__":
    main([int(arg) for arg in sys.argv[1:]] or [1_000, 10_000, 100_000])
