"""What stays in memory of many calls: each question of one function, and of a new one each time.

For each it prints how many objects live after the last call beside those after the first
calls, and how much the memory of the process has grown meanwhile, each by call. Nothing clears
JAX's caches; those that are bounded hold 2,048 or 4,096 entries, so what grows in 2,000 calls and
not in the last thousand of 6,000 is theirs. XLA's programs are kept on disk, or compiling them
would take five times as long as all else. The seconds are of the processor.

    .envs/newest/bin/python benchmarks/bench_flat.py [calls] [calls before] [questions, else all]
"""

import gc
import pathlib
import resource
import sys
import tempfile
import time

import jax
import jax.numpy as jnp

import taxpr

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests"))
from fresh_functions import ASKED, fresh

KEPT = tempfile.TemporaryDirectory()  # until Python exits
jax.config.update("jax_compilation_cache_dir", KEPT.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
PAGE = resource.getpagesize()


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * PAGE


def plain(fun, x):
    return jax.jit(fun)(x)


def grows(ask, of, x, calls, before):
    """Objects, bytes and seconds by call, after some calls before."""
    for _ in range(before):
        ask(of(), x)
    gc.collect()
    objects, bytes_before, start = len(gc.get_objects()), resident(), time.process_time()
    for _ in range(calls):
        ask(of(), x)
    took = time.process_time() - start
    gc.collect()
    return (
        (len(gc.get_objects()) - objects) / calls,
        (resident() - bytes_before) / calls,
        took / calls,
    )


def main(calls=2000, before=200, *names):
    x, same = jnp.ones(4), fresh()
    print(f"jax {jax.__version__}, taxpr {taxpr.__version__}, {calls} calls of each after {before}")
    for name, ask in {"jit": plain, **ASKED}.items():
        if names and name not in names:
            continue
        for what, of in (("same", lambda: same), ("fresh", fresh)):
            objects, held, took = grows(ask, of, x, calls, before)
            print(
                f"{name:>22} {what:>5}: {objects:8.2f} objects, {held / 1e3:8.1f} kB, "
                f"{took * 1e3:7.1f} ms by call",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
