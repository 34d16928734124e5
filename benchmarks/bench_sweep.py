"""What `sweep` and `patch` cost, against loops over edits by hand, in one process.

    python benchmarks/bench_sweep.py

By hand there is one jitted function for each place, with its edit, as one writes it without taxpr.
Everything counts: tracing, compiling and running. The second time the arrays are others, of the
same types. The times are of the processor, and what counts are their ratios. They also go to
build/bench_sweep.json.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import programs

import taxpr

LAYERS = 6
Edit = Callable[[int, Any], Any]


def loss(edit: Edit) -> Callable[..., Any]:
    """The loss of a transformer, with ``edit(layer, attention weights)``."""

    def apply(weights: Any, x: Any) -> Any:
        layer = -1

        def mark(y: Any) -> Any:
            nonlocal layer
            if y.ndim != 3 or y.shape[0] != programs.HEADS or y.shape[1] != y.shape[2]:
                return y
            layer += 1  # first the scores, then their softmax
            return edit(layer // 2, y) if layer % 2 else y

        return jnp.mean(programs.transformer(mark)(weights, x) ** 2)

    return apply


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    out = work()
    return np.asarray(out), time.process_time() - start


def named(layer: int, y: Any) -> Any:
    return taxpr.tag(y, name="heads", layer=layer)


def zeroed(layer: int, head: int) -> Any:
    return jax.jit(loss(lambda at, y: y.at[head].set(0) if at == layer else y))


def planted(layer: int, head: int) -> Any:
    def run(weights: Any, clean: Any, corrupted: Any) -> Any:
        held: list[Any] = []
        loss(lambda at, y: held.append(y) or y)(weights, clean)
        plant = loss(lambda at, y: y.at[head].set(held[at][head]) if at == layer else y)
        return plant(weights, corrupted)

    return jax.jit(run)


def compared(name: str, ask: Callable[..., Any], by_hand: Any, given: Any) -> list[dict[str, Any]]:
    places = [(layer, head) for layer in range(LAYERS) for head in range(programs.HEADS)]
    jax.clear_caches()
    functions = [by_hand(*place) for place in places]
    ratios: list[float] = []
    first = 0.0
    for time_, args in zip(("first", "second"), given, strict=True):
        loop, hand = seconds(lambda args=args: [float(f(*args)) for f in functions])
        found, own = seconds(lambda args=args: ask(*args))
        np.testing.assert_allclose(found.ravel(), loop, rtol=1e-4)
        print(f"{name}, {time_} call: by hand {hand:.2f} s, taxpr {own:.2f} s")
        ratios.append(own / hand if not ratios else own / first)
        first = own
    return [
        programs.reached(f"{name}: the first call, by hand", ratios[0], 1, " times"),
        programs.reached(f"{name}: the second call, the first", ratios[1], 0.5, " times"),
    ]


def main() -> None:
    weights, x = programs.transformer_args(LAYERS, tokens=64, width=64)
    tagged, heads = loss(named), taxpr.each("heads", axis=0)
    swept = taxpr.sweep(tagged, heads, taxpr.zero())
    results = compared(
        f"sweep over {LAYERS} layers of {programs.HEADS} heads",
        lambda *args: [row["metric"] for row in swept(*args).rows],
        zeroed,
        [(weights, x), (weights, x + 1)],
    )

    ask = taxpr.patch(tagged, heads, sources="clean")

    def patched(weights: Any, clean: Any, corrupted: Any) -> Any:
        return [row["metric"] for row in ask((weights, clean), (weights, corrupted)).rows]

    results += compared(
        f"patch over {LAYERS} layers of {programs.HEADS} heads",
        patched,
        planted,
        [(weights, x, x + noise) for noise in (1.0, 2.0)],
    )
    programs.write("bench_sweep", results)


if __name__ == "__main__":
    main()
