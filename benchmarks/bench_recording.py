"""What recordings cost, against the bare program, in one process.

    python benchmarks/bench_recording.py

Tracing, rewriting and compiling once, and then the run; the times are of the processor, and what
counts are their ratios. They also go to build/bench_recording.json.
"""

import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import programs

import taxpr
from taxpr._compat import jaxpr_as_fun
from taxpr._engine.hand_out import hand_out
from taxpr._keeping.wanted import wanted

RUNS = 9


def loss(weights: Any, x: Any) -> Any:
    return jnp.mean(programs.transformer(lambda y: y)(weights, x) ** 2)


def seconds(work: Any) -> tuple[Any, float]:
    start = time.process_time()
    out = work()
    return out, time.process_time() - start


def compiled(fn: Any, args: Any) -> Any:
    return jax.jit(fn).lower(*args).compile()


def measured(name: str, fn: Any, args: Any, where: Any) -> list[dict[str, Any]]:
    jax.clear_caches()
    bare, bare_compile = seconds(lambda: compiled(fn, args))
    jax.clear_caches()

    def recording() -> Any:
        program = taxpr.trace(fn, names=True)(*args)
        found, _ = wanted(program, where)
        reads = {one.read.address: one.read for one in found if one.read.steps or one.read.eqn}
        handing = hand_out(program.jaxpr, reads.values(), max_steps=32, summaries={})
        flat = program.flat(args, {})
        return len(found), len(reads), compiled(jaxpr_as_fun(handing.jaxpr), flat), flat

    (names, values, kept, flat), kept_compile = seconds(recording)
    times: dict[str, list[float]] = {"bare": [], "kept": []}
    for _ in range(RUNS):
        times["bare"].append(seconds(lambda: jax.block_until_ready(bare(*args)))[1])
        times["kept"].append(seconds(lambda: jax.block_until_ready(kept(*flat)))[1])
    run = {what: statistics.median(of) for what, of in times.items()}
    print(f"{name}: {values} values by {names} names")
    print(f"  compile {bare_compile:.2f} s, kept {kept_compile:.2f} s")
    print(f"  run {run['bare'] * 1e3:.2f} ms, kept {run['kept'] * 1e3:.2f} ms")
    return [
        programs.reached(f"{name}: trace and compile", kept_compile / bare_compile, 3, " times"),
        programs.reached(f"{name}: run", run["kept"] / run["bare"], 3, " times"),
    ]


def watched(name: str, fn: Any, args: Any, where: Any, goal: float) -> list[dict[str, Any]]:
    """Whole calls of `watch`, compiled before: of statistics, and of all values."""
    bare, program = compiled(fn, args), taxpr.trace(fn, names=True)(*args)
    calls = {keep: taxpr.watch(program, where, keep=keep) for keep in ("values", "stats")}
    times: dict[str, list[float]] = {"bare": [], "values": [], "stats": []}
    for run in range(RUNS + 1):
        now = {"bare": seconds(lambda: jax.block_until_ready(bare(*args)))[1]}
        now |= {keep: seconds(lambda call=call: call(*args))[1] for keep, call in calls.items()}
        for what, time_of in now.items():
            times[what] += [time_of] if run else []  # the first one compiles
    values, stats = (
        statistics.median(a / b for a, b in zip(times[keep], times["bare"], strict=True))
        for keep in ("values", "stats")
    )
    print(f"{name}: all values {values:.1f} times the bare run, statistics {stats:.1f}")
    return [programs.reached(f"{name}: statistics", stats / values, goal, " times all values")]


def loop(weights: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        for _ in range(20):
            c = jnp.sin(c) * x + c
        return c, c

    return jax.lax.scan(step, weights, xs)


def main() -> None:
    wide = programs.transformer_args(12, tokens=256, width=256)
    results = measured("loss of 12 layers, variables", loss, wide, taxpr.var("*"))
    results += measured("loss of 12 layers, everything", loss, wide, "*")
    small = programs.transformer_args(12, tokens=16, width=32)
    results += measured("gradient of it, small arrays", jax.grad(loss), small, "*")
    deep = programs.transformer_args(184, tokens=64, width=256)
    results += measured("loss of 184 layers", loss, deep, "*")
    results += watched("loss of 12 layers, variables", loss, wide, taxpr.var("*"), 10)
    results += watched("loss of 12 layers, everything", loss, wide, "*", 10)
    results += watched("gradient of it, small arrays", jax.grad(loss), small, "*", 3)
    carried = jnp.ones((64, 64)), jnp.ones((200, 64, 64))
    results += watched("a loop of 200 iterations", loop, carried, "*", 2)
    programs.write("bench_recording", results)


if __name__ == "__main__":
    main()
