"""How long a new value of a parameter takes with Live, beyond the program's own run.

    python benchmarks/bench_live.py

A train step of a transformer with an injector: what `Session.run(live=True)` takes beyond the time
of the compiled program, and what a whole run takes beyond it, in one process and in turn. Then what
the first run with an injector takes, of a bare trace, compilation and run; and a run with a result
of 200 MB that an injector changes, of its bare run. It counts on a machine that does nothing else.
The numbers also go to build/bench_live.json.
"""

import statistics
import time
import warnings

import jax
import jax.numpy as jnp
import programs

import taxpr
from taxpr_jupyter import Session

LAYERS, TOKENS, WIDTH, TAGS = 4, 64, 64, 3
RUNS = 30


train_step = programs.training(LAYERS, TAGS)


def beyond(session: Session, number: int, live: bool) -> tuple[float, float]:
    """Milliseconds beyond the program's own run, and of that."""
    start = time.perf_counter()
    session.set_value("t0", "factor", 1.0 + number / 1000)
    run = session.run(live=live)
    total = time.perf_counter() - start
    assert run.ok, run.error
    assert run.reused
    return 1e3 * (total - run.times["run"]), 1e3 * run.times["run"]


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def first_run() -> float:
    """The first run with an injector, of a trace, compilation and run of the function alone."""
    args = programs.transformer_args(LAYERS, TOKENS, WIDTH)

    def bare():
        jax.block_until_ready(jax.jit(lambda *args: train_step(*args))(*args))

    bare()  # what only the first one in a process takes
    session = Session(train_step, args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taxpr.StaleDerivativeWarning)
        session.attach("t0", "scale")
    ratio = timed(session.run) / timed(bare)
    assert session.last.ok, session.last.error
    return ratio


def large_result() -> float:
    """A run that changes a result of 200 MB, of the compiled program's."""

    def wave(x):
        return jnp.sin(taxpr.tag(x * 2.0, name="h")) + 1.0

    x = jnp.arange(50_000_000, dtype=jnp.float32)
    compiled = jax.jit(wave)
    own = min(timed(lambda: jax.block_until_ready(compiled(x))) for _ in range(5))
    session = Session(wave, (x,))
    session.attach("h", "scale")
    session.run()
    seen = []
    for number in range(3):
        session.set_value("h", "factor", 0.5 + number / 10)
        seen.append(timed(session.run))
        assert session.last.ok, session.last.error
    return min(seen) / own


def main() -> None:
    print(f"jax {jax.__version__} on {jax.default_backend()}")
    session = Session(train_step, programs.transformer_args(LAYERS, TOKENS, WIDTH))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taxpr.StaleDerivativeWarning)
        session.attach("t0", "scale")
    assert session.run().ok
    assert session.run(live=True).ok
    seen: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for number in range(RUNS):
        for live, found in seen.items():
            found.append(beyond(session, number, live))
    row = {
        "live": statistics.median(extra for extra, _ in seen[True]),
        "whole": statistics.median(extra for extra, _ in seen[False]),
        "own": statistics.median(own for _, own in seen[True]),
    }
    print(
        f"{session}: its own run {row['own']:.1f} ms; beyond that {row['live']:.1f} ms live, "
        f"{row['whole']:.1f} ms with statistics and comparison"
    )
    first, large = first_run(), large_result()
    goals = [
        programs.reached("a live run beyond the program's own", row["live"], 50, " ms"),
        programs.reached("the first run with an injector, of a bare one", first, 1.1, " times"),
        programs.reached(
            "a run that changes a result of 200 MB, of a bare one", large, 3, " times"
        ),
    ]
    programs.write("bench_live", {"rows": [row], "goals": goals})


if __name__ == "__main__":
    main()
