"""What it costs to have states: a training step uncurried, against one that threads them by hand.

    python benchmarks/bench_state.py

Times of the compiled steps are medians of runs of both in turn; those of tracing are processor
times, with JAX's caches cleared. They also go to build/bench_state.json.
"""

from typing import Any

import jax
import jax.numpy as jnp
import programs
from bench_compiled import compare

from taxpr import State, uncurry

LAYERS, WIDTH, BATCH, STEPS = 4, 64, 32, 10
RUNS = 7


def initial(layers: int = LAYERS) -> dict[str, Any]:
    def normal(key):
        return jax.random.normal(key, (WIDTH, WIDTH)) / WIDTH**0.5

    params = [normal(key) for key in jax.random.split(jax.random.key(0), layers)]
    return {
        "params": params,
        "momentum": [jnp.zeros_like(w) for w in params],
        "means": [jnp.zeros(WIDTH)] * layers,
        "key": jax.random.key(1),
        "steps": 0,
    }


def layer(w, x, mean, key):
    """A layer with batch norm and dropout: what it returns, and the new mean."""
    h = x @ w
    mean = 0.9 * mean + 0.1 * jax.lax.stop_gradient(h.mean(0))
    h = jax.nn.gelu(h - mean[None])
    return jnp.where(jax.random.bernoulli(key, 0.9, h.shape), h, 0.0), mean


def updated(params, momentum, grads):
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 0.01 * m, params, momentum), momentum


def with_states(layers: int = LAYERS):
    """A step that uses states, and these."""
    states = {name: State(value, name=name) for name, value in initial(layers).items()}
    params, momentum, means, key, steps = states.values()

    def loss(weights, x):
        for k, w in enumerate(weights):
            key.value, new = jax.random.split(key.value)
            x, mean = layer(w, x, means.value[k], new)
            means.value = [*means.value[:k], mean, *means.value[k + 1 :]]
        return jnp.mean(x**2)

    def step(x):
        value, grads = jax.value_and_grad(loss)(params.value, x)
        params.value, momentum.value = updated(params.value, momentum.value, grads)
        steps.value += 1
        return value

    return step


def by_hand(states, x):
    def loss(weights, means, key, x):
        new_means = []
        for w, mean in zip(weights, means, strict=True):
            key, new = jax.random.split(key)
            x, mean = layer(w, x, mean, new)
            new_means.append(mean)
        return jnp.mean(x**2), (new_means, key)

    gradient = jax.value_and_grad(loss, has_aux=True)
    args = states["params"], states["means"], states["key"], x
    (value, (means, key)), grads = gradient(*args)
    params, momentum = updated(states["params"], states["momentum"], grads)
    steps = states["steps"] + 1
    new = {"params": params, "momentum": momentum, "means": means, "key": key, "steps": steps}
    return value, new


def looped_by_hand(states, xs):
    def one(states, x):
        value, states = by_hand(states, x)
        return states, value

    states, values = jax.lax.scan(one, states, xs)
    return values, states


def looped(step):
    return lambda xs: jax.lax.map(step, xs)


def pairs(layers: int = LAYERS):
    """Both forms of the step, and of a loop of steps, with arguments: name, ours, theirs, args."""
    x = jax.random.normal(jax.random.key(2), (BATCH, WIDTH))
    xs = jnp.stack([x] * STEPS)
    for name, make, theirs, arg in (
        ("step", lambda f: f, by_hand, x),
        ("loop of steps", looped, looped_by_hand, xs),
    ):
        pure, states = uncurry(make(with_states(layers)), arg)
        yield name, pure, theirs, (states, arg)


def tracing(name, layers, fn, hand, arg):
    start = initial(layers)
    traced = programs.cpu_seconds(lambda: jax.make_jaxpr(hand)(start, arg), RUNS)
    alone = programs.cpu_seconds(lambda: jax.make_jaxpr(fn)(arg), RUNS)
    both = programs.cpu_seconds(lambda: uncurry(fn, arg), RUNS)
    print(
        f"{name}, {layers} layers: traced by hand {traced:.3f} s, with accesses {alone:.3f} s, "
        f"uncurried {both:.3f} s: {both / traced - 1:.2f} more than by hand"
    )
    return {"name": name, "layers": layers, "by_hand": traced, "uncurry": both}


def main() -> None:
    print(f"jax {jax.__version__} on {jax.default_backend()}")
    rows, goals = [], []
    for name, ours, theirs, args in pairs():
        row = compare(name, ours, theirs, args)
        what = f"{name}: instructions by uncurry / by hand"
        goals.append(programs.reached(what, row["instructions"] / row["by_hand"], 1))
        rows.append(row)
    x = jnp.ones((BATCH, WIDTH))
    xs = jnp.stack([x] * STEPS)
    for layers in (4, 32):
        fn = with_states(layers)
        rows.append(tracing("step", layers, fn, by_hand, x))
        rows.append(tracing("loop of steps", layers, looped(fn), looped_by_hand, xs))
    programs.write("bench_state", {"rows": rows, "goals": goals})


if __name__ == "__main__":
    main()
