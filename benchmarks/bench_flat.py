"""What stays in memory of many calls: each question of one function, and of a new one each time.

For each it prints how many objects live after the last call beside those after a tenth of the
calls, and how much the memory of the process has grown meanwhile, each by call. Nothing clears
JAX's caches.

    .envs/newest/bin/python benchmarks/bench_flat.py [calls, else 2000] [questions, else all]
"""

import gc
import pathlib
import resource
import sys
import time

import jax
import jax.numpy as jnp

import taxpr

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests"))
from fresh_functions import ASKED, fresh

PAGE = resource.getpagesize()


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * PAGE


def plain(fun, x):
    return jax.jit(fun)(x)


def grows(ask, of, x, calls):
    """Objects, bytes and seconds by call, after the first tenth of the calls."""
    first = max(calls // 10, 1)
    for _ in range(first):
        ask(of(), x)
    gc.collect()
    objects, bytes_before, start = len(gc.get_objects()), resident(), time.perf_counter()
    for _ in range(calls - first):
        ask(of(), x)
    took = time.perf_counter() - start
    gc.collect()
    rest = calls - first
    return (
        (len(gc.get_objects()) - objects) / rest,
        (resident() - bytes_before) / rest,
        took / rest,
    )


def main(calls=2000, *names):
    x, same = jnp.ones(4), fresh()
    print(f"jax {jax.__version__}, taxpr {taxpr.__version__}, {calls} calls of each")
    for name, ask in {"jit": plain, **ASKED}.items():
        if names and name not in names:
            continue
        for what, of in (("same", lambda: same), ("fresh", fresh)):
            objects, held, took = grows(ask, of, x, calls)
            print(
                f"{name:>22} {what:>5}: {objects:8.2f} objects, {held / 1e3:8.1f} kB, "
                f"{took * 1e3:7.1f} ms by call",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
