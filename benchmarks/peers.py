"""Other people's pictures of the same programs, for `bench_picture`, which starts this.

python benchmarks/peers.py NAME LAYERS      prints one line of JSON

From the traced program to what is shown, with `dot` for those that write DOT. They all trace for
themselves; a trace of its own is taken off. A page of jaxviz is laid out by the browser, later:
that is not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import programs

Made = tuple[str, int]  # what it is, and how large, in bytes


def by_dot(text: str) -> Made:
    run = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=True)
    return "SVG", len(run.stdout)


def of_jaxviz(fn: Callable[..., Any], args: Any) -> Made:
    import jaxviz

    return "HTML, not laid out", len(jaxviz.trace_model(fn, *args, return_html=True).encode())


def of_brainstate(fn: Callable[..., Any], args: Any) -> Made:
    from brainstate.transform import _ir_visualize  # its `draw` has no public name

    return by_dot(_ir_visualize.draw(jax.jit(fn))(*args).to_string())


def of_haiku(fn: Callable[..., Any], args: Any) -> Made:
    import haiku

    return by_dot(haiku.experimental.to_dot(fn)(*args))


PEERS = {"jaxviz": of_jaxviz, "brainstate": of_brainstate, "haiku": of_haiku}


def main(name: str, layers: str) -> None:
    def fn(weights: Any, x: Any) -> Any:
        return programs.gradient(lambda x: x)(weights, x)

    args = programs.transformer_args(int(layers))
    start = time.perf_counter()
    jax.make_jaxpr(fn)(*args)
    trace = time.perf_counter() - start
    jax.clear_caches()
    start = time.perf_counter()
    what, size = PEERS[name](fn, args)
    seconds = max(0.0, time.perf_counter() - start - trace)
    print(json.dumps({"seconds": seconds, "what": what, "bytes": size}))


if __name__ == "__main__":
    main(*sys.argv[1:])
