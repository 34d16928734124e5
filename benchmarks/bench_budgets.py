"""What questions cost by the memory that they may take, from all of it to one byte.

For each program and question it prints the time against that with all memory, how many programs XLA
compiles, and how often one that hands values out runs. Less memory is to take at most so many times
as long, and never much less than more does.

    .envs/clients/bin/python benchmarks/bench_budgets.py [layers, else 4]

Everything counts: tracing, compiling and running once. The times are of the processor. They also
go to build/bench_budgets.json.
"""

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import programs

import taxpr
from taxpr._keeping.extent import bytes_of
from taxpr._keeping.handing import Handing
from taxpr._keeping.wanted import every_value

PARTS = 1, 1 / 2, 1 / 8, 1 / 64, 1 / 1000, 0  # of the bytes of all values
AT_MOST = {"find_nan": 2, "find_nan, NaN": 4, "watch": 2, "first_difference": 2, "sweep": 3}
NEVER_BELOW = 0.6  # of the time with more memory


def loss(weights: Any, x: Any) -> Any:
    return jnp.mean(programs.transformer(lambda y: y)(weights, x) ** 2)


def loss_of_scan(weights: Any, x: Any) -> Any:
    stacked = jax.tree.map(lambda *each: jnp.stack(each), *weights)
    step = lambda x, one: (programs.block(one, x, lambda y: y), None)
    return jnp.mean(jax.lax.scan(step, x, stacked)[0] ** 2)


def training(weights: Any, x: Any) -> Any:
    optimizer = optax.adam(1e-3)
    value, grads = jax.value_and_grad(loss)(weights, x)
    updates, state = optimizer.update(grads, optimizer.init(weights), weights)
    return optax.apply_updates(weights, updates), state, value


PROGRAMS = {
    "unrolled gradient": jax.grad(loss),
    "scanned gradient": jax.grad(loss_of_scan),
    "training step": training,
}


def doubled(args: Any) -> Any:
    return jax.tree.map(lambda x: x * 2, args)


def spoiled(fun: Any) -> Any:
    return lambda *args: jax.tree.map(lambda x: jnp.log(x - 1e9), fun(*args))


Ask = Callable[[Any, Any, Any], Any]
ASKED: dict[str, Ask] = {
    "find_nan": lambda f, args, m: taxpr.find_nan(f, memory=m)(*args),
    "find_nan, NaN": lambda f, args, m: taxpr.find_nan(spoiled(f), memory=m)(*args),
    "watch": lambda f, args, m: taxpr.watch(f, memory=m)(*args),
    "first_difference": lambda f, args, m: taxpr.first_difference(f, memory=m)(args, doubled(args)),
}


class Count:
    """How many programs were compiled, and how often one that hands values out ran."""

    def __init__(self) -> None:
        self.compiled = self.ran = 0
        jax.monitoring.register_event_duration_secs_listener(self)
        run = Handing.__call__

        def counted(handing: Handing, flat: Any) -> Any:
            self.ran += 1
            return run(handing, flat)

        Handing.__call__ = counted  # type: ignore[method-assign]

    def __call__(self, event: str, duration: float, **more: Any) -> None:
        self.compiled += event.endswith("backend_compile_duration")


def measured(name: str, fun: Any, args: Any, count: Count) -> list[dict[str, Any]]:
    every, _ = every_value(taxpr.trace(fun, names=True)(*args))
    total = sum(bytes_of(one, 1) for one in {one.read.address: one.read for one in every}.values())
    results = []
    for ask, run in ASKED.items():
        whole = before = 0.0
        worst, least = 0.0, 1.0
        for part in (None, *PARTS):
            memory = None if part is None else max(int(total * part), 1)
            jax.clear_caches()
            gc.collect()
            count.compiled = count.ran = 0
            start = time.process_time()
            run(fun, args, memory)
            took = time.process_time() - start
            whole = whole or took
            worst, least = max(worst, took / whole), min(least, took / (before or took))
            before = max(before, took)
            given = "all memory" if memory is None else f"{memory:,} bytes"
            print(
                f"{name}, {ask}, {given}: {took / whole:.2f} of the time, "
                f"{count.compiled} compiled, {count.ran} runs",
                flush=True,
            )
        most = AT_MOST[ask]
        results.append(programs.reached(f"{name}, {ask}: the most", worst, most, " times"))
        saved = f"{name}, {ask}: what less memory saves"
        results.append(programs.reached(saved, 1 - least, 1 - NEVER_BELOW))
    return results


def sweep_measured(args: Any, count: Count) -> list[dict[str, Any]]:
    """Less memory for a sweep means fewer runs at once. Less than one run takes is an error."""
    scales = jnp.linspace(0.0, 2.0, 64)
    named = lambda weights, x: loss(weights, taxpr.tag(x, name="x"))
    ask = lambda m: taxpr.sweep(named, "x", taxpr.scale, scales, memory=m)(*args)
    whole = worst = 0.0
    for memory in (None, 2**24, 2**22, 2**20, 2**18):
        jax.clear_caches()
        gc.collect()
        count.compiled = 0
        start = time.process_time()
        try:
            ask(memory)
        except taxpr.errors.ArgumentError as error:
            print(f"sweep, {memory:,} bytes: {error}", flush=True)
            break
        took = time.process_time() - start
        whole = whole or took
        worst = max(worst, took / whole)
        given = "all memory" if memory is None else f"{memory:,} bytes"
        print(f"sweep, {given}: {took / whole:.2f} of the time, {count.compiled} compiled")
    return [programs.reached("sweep: the most", worst, AT_MOST["sweep"], " times")]


def main(layers: int = 4) -> None:
    args = programs.transformer_args(layers, tokens=32, width=32)
    count = Count()
    for run in ASKED.values():  # the first call of each does more
        run(jax.grad(loss), programs.transformer_args(1), None)
    results = [one for name, fun in PROGRAMS.items() for one in measured(name, fun, args, count)]
    results += sweep_measured(args, count)
    programs.write("bench_budgets", results)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
