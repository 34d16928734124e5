"""What rewriting a program costs, as ratios to tracing it, as programs and tags grow.

    python benchmarks/bench_core.py [number of equations ...]

The program is the gradient of an unrolled transformer. JAX's caches are cleared before each
measurement. All figures are of one process and of processor time; ratios hardly depend on
the machine. They also go to build/bench_core.json.
"""

import gc
import sys
import tracemalloc
from typing import Any

import jax
import programs

import taxpr

SIZES = [1_000, 10_000, 100_000]
TAGS = [1, 10, 1_000]


def traced(layers: int, tags: int, args: Any = None) -> taxpr.Program:
    fn = programs.gradient(programs.tagging(tags, layers))
    return taxpr.trace(fn)(*(args or shapes(layers)))


def shapes(layers: int) -> Any:
    return jax.eval_shape(lambda: programs.transformer_args(layers))


def count(program: taxpr.Program) -> int:
    return sum(not taxpr.is_tag(eqn) for eqn in program.eqns)


def inject(program: taxpr.Program) -> taxpr.Injected:
    return program.inject(programs.half_and_count, 0)


def layers_of(eqns: int) -> int:
    """How many blocks make a gradient of about so many equations."""
    one, two = (count(traced(layers, 1)) for layers in (1, 2))
    return max(round((eqns - one) / (two - one)) + 1, 1)


def ratios(size: int, tags: int) -> dict[str, float]:
    layers = layers_of(size)
    runs = 3 if size < 50_000 else 1  # of 10 s and more
    args = shapes(layers)
    tracing = programs.cpu_seconds(lambda: traced(layers, tags, args), runs)
    program = traced(layers, tags, args)
    assert len(program.tags()) == tags
    last = [address for address, eqn in taxpr.numbered(program) if not taxpr.is_tag(eqn)][-1]
    works = {
        "find_tags": program.tags,
        "inject": lambda: inject(program),
        "collect": program.collect,
        "dissolve": program.dissolve,
        "tag_at": lambda: program.tag_at(last, name="last"),
    }
    times = {name: programs.cpu_seconds(work, 2 * runs + 1) for name, work in works.items()}
    return {"eqns": count(program), "tags": tags, "trace": tracing, **times}


def memory(layers: int, tags: int) -> dict[str, float]:
    """What a jaxpr takes, and by how much more it takes at most to inject into it; in bytes."""
    traced(1, 1)
    jax.clear_caches()
    gc.collect()
    tracemalloc.start()
    program = traced(layers, tags)
    jax.clear_caches()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    injected = inject(program)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert injected.ctx is not None
    return {"eqns": count(program), "jaxpr": held, "inject": peak - held}


def main(sizes: list[int]) -> None:
    print(f"jax {jax.__version__}; ratios to the time that tracing takes")
    rows, names = [], ("find_tags", "inject", "collect", "dissolve", "tag_at")
    print(f"{'equations':>10} {'tags':>6} {'trace':>8}", *(f"{name:>10}" for name in names))
    for size in sizes:
        for tags in TAGS:
            row = ratios(size, tags)
            rows.append(row)
            shown = (f"{row[name] / row['trace']:10.4f}" for name in names)
            print(f"{row['eqns']:>10} {tags:>6} {row['trace']:7.2f}s", *shown)

    goals = []
    for row in rows:
        if row["tags"] == 10 and 5_000 < row["eqns"] < 20_000:
            what = f"inject / trace at {row['eqns']} equations with 10 tags"
            goals.append(programs.reached(what, row["inject"] / row["trace"], 0.09))
    for small, large in zip(rows, rows[len(TAGS) :], strict=False):
        slope = (large["inject"] - small["inject"]) / (large["eqns"] - small["eqns"])
        print(
            f"inject, {small['tags']} tags: {slope * 1e6:.2f} µs for each further equation "
            f"between {small['eqns']} and {large['eqns']}"
        )
    if largest := [row for row in rows if row["eqns"] > 50_000]:
        for row in largest:
            what = f"find_tags at {row['eqns']} equations with {row['tags']} tags"
            goals.append(programs.reached(what, row["find_tags"], 0.1, " s"))
        used = memory(layers_of(100_000), 10)
        what = f"peak memory of inject / memory of a jaxpr of {used['eqns']} equations"
        goals.append(programs.reached(what, used["inject"] / used["jaxpr"], 2))
    programs.write("bench_core", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main([int(arg) for arg in sys.argv[1:]] or SIZES)
