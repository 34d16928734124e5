"""What injection and tags cost once compiled: time and instructions, against code by hand.

    python benchmarks/bench_compiled.py

Times are medians of runs of both in turn, in one process; what counts are their ratios. They
also go to build/bench_compiled.json.
"""

import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import programs

import taxpr

LAYERS, TOKENS, WIDTH, TAGS = 4, 128, 128, 10
RUNS = 60


def unrolled(mark):
    return programs.transformer(mark)


def scanned(mark_one):
    """The blocks in a scan; ``mark_one`` is called once, in its body."""

    def apply(weights, x):
        def step(x, one):
            return mark_one(programs.block(one, x, lambda y: y)), None

        return jax.lax.scan(step, x, jax.tree.map(lambda *w: jnp.stack(w), *weights))[0]

    return apply


def unrolled_by_hand(n, weights, x):
    """`unrolled` with `programs.half_and_count` in its code."""
    counted = [n]

    def act(x, _):
        counted[0] = counted[0] + 1
        return x * 0.5

    y = unrolled(programs.spread(act, TAGS, programs.MARKS * LAYERS))(weights, x)
    return y, counted[0]


def scanned_by_hand(n, weights, x):
    def step(carry, one):
        n, x = carry
        return (n + 1, programs.block(one, x, lambda y: y) * 0.5), None

    stacked = jax.tree.map(lambda *w: jnp.stack(w), *weights)
    (n, x), _ = jax.lax.scan(step, (n, x), stacked)
    return x, n


def gradient(fn):
    """The gradient of a loss, and the context, with respect to all arguments but that."""

    def loss(n, weights, x):
        y, n = fn(n, weights, x)
        return jnp.mean(y**2), n

    return jax.grad(loss, argnums=(1, 2), has_aux=True)


def instructions(compiled: Any) -> int:
    return sum(" = " in line for line in compiled.as_text().splitlines())


def without_sources(text: Any) -> str:
    """HLO without the names and places of the Python code that it comes from."""
    text = re.sub(r", (metadata|frontend_attributes)=\{[^{}]*\}", "", text)
    return re.split(r"\n(?:FileNames|StackFrames)\n", text)[0].split("\n", 1)[1]


def milliseconds(works: list[Callable[[], Any]]) -> list[float]:
    """The median of each; they take turns, so that all see the same machine."""
    times: list[list[float]] = [[] for _ in works]
    for run in range(RUNS + 5):
        for work, seen in zip(works, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(work())
            if run >= 5:
                seen.append(time.perf_counter() - start)
    return [1e3 * statistics.median(seen) for seen in times]


def compare(name: str, injected: Callable, by_hand: Callable, args: Any) -> dict[str, Any]:
    ours, theirs = (jax.jit(fn).lower(*args).compile() for fn in (injected, by_hand))
    # The third is the second again: what differs between these is noise.
    a, b, c = milliseconds([lambda: ours(*args), lambda: theirs(*args), lambda: theirs(*args)])
    row = {
        "name": name,
        "time": a / b,
        "noise": c / b,
        "instructions": instructions(ours),
        "by_hand": instructions(theirs),
    }
    print(
        f"{name:>22}: time {a / b:.3f} of that by hand (the same twice: {c / b:.3f}), "
        f"{row['instructions']} instructions, by hand {row['by_hand']}"
    )
    return row


PROGRAMS = {"unrolled": (unrolled, unrolled_by_hand), "scan": (scanned, scanned_by_hand)}


def tagged(name: str) -> Callable:
    if name == "scan":
        return scanned(lambda x: taxpr.tag(x, name="y"))
    return unrolled(programs.tagging(TAGS, LAYERS))


def main() -> None:
    print(f"jax {jax.__version__} on {jax.default_backend()}")
    weights, x = programs.transformer_args(LAYERS, TOKENS, WIDTH)
    n = jnp.int32(0)
    rows, goals = [], []
    for name, (_, by_hand) in PROGRAMS.items():
        injected = taxpr.trace(tagged(name))(weights, x).inject(programs.half_and_count, 0)
        rows.append(compare(name, injected, by_hand, (n, weights, x)))
        pair = gradient(injected), gradient(by_hand)
        rows.append(compare(f"gradient of {name}", *pair, (n, weights, x)))
    for row in rows:
        what = f"{row['name']}: instructions by inject / by hand"
        goals.append(programs.reached(what, row["instructions"] / row["by_hand"], 1))

    for name, (make, _) in PROGRAMS.items():
        assert taxpr.trace(tagged(name))(weights, x).tags()
        texts = [
            without_sources(jax.jit(fn).lower(weights, x).compile().as_text())
            for fn in (tagged(name), make(lambda x: x))
        ]
        what = f"{name}: HLO differs between tagged and untagged"
        goals.append(programs.reached(what, int(texts[0] != texts[1]), 0))
    programs.write("bench_compiled", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main()
