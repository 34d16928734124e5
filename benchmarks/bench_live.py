"""How long a new value of a parameter takes with Live, beyond the program's own run.

    python benchmarks/bench_live.py

A train step of a transformer with an injector: what `Session.run(live=True)` takes beyond the time
of the compiled program, and what a whole run takes beyond it, in one process and in turn. It counts
on a machine that does nothing else. The numbers also go to build/bench_live.json.
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


def train_step(weights, x):
    def loss(weights):
        return jnp.mean(programs.transformer(programs.tagging(TAGS, LAYERS))(weights, x) ** 2)

    value, grads = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value


def beyond(session: Session, number: int, live: bool) -> tuple[float, float]:
    """Milliseconds beyond the program's own run, and of that."""
    start = time.perf_counter()
    session.set_value("t0", "factor", 1.0 + number / 1000)
    run = session.run(live=live)
    total = time.perf_counter() - start
    assert run.ok, run.error
    assert run.reused
    return 1e3 * (total - run.times["run"]), 1e3 * run.times["run"]


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
    goals = [programs.reached("a live run beyond the program's own", row["live"], 50, " ms")]
    programs.write("bench_live", {"rows": [row], "goals": goals})


if __name__ == "__main__":
    main()
