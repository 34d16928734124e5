"""What `find_nan` and `watch` cost, against the bare program, in one process.

    .envs/clients/bin/python benchmarks/bench_questions.py

Everything counts: tracing, compiling and running once. The times are of the processor, the bare
program and the questions take turns, and what counts are the ratios of the medians. They also go to
build/bench_questions.json.
"""

import gc
import statistics
import time
from typing import Any

import diffrax
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import programs

import taxpr

TURNS = 5
AT_MOST = {taxpr.find_nan: 4, taxpr.watch: 3}


def transformer_loss(weights: Any, x: Any) -> Any:
    return jnp.mean(programs.transformer(lambda y: y)(weights, x) ** 2)


class Field(eqx.Module):
    mlp: eqx.nn.MLP
    until: float

    def __call__(self, t: Any, y: Any, args: Any) -> Any:
        damping = jnp.sqrt(self.until - t)
        return self.mlp(y) - damping * y


def solving(until: float, dt0: float, **more: Any) -> tuple[Any, Any]:
    """The loss of a solution of an equation whose field is NaN from a time on."""
    field = Field(eqx.nn.MLP(2, 2, 16, 2, key=jax.random.key(0)), until)
    params, static = eqx.partition(field, eqx.is_array)

    def loss(params: Any, y: Any) -> Any:
        term = diffrax.ODETerm(eqx.combine(params, static))
        save = diffrax.SaveAt(ts=jnp.linspace(0, 1, 4))
        given = term, diffrax.Tsit5(), 0.0, 1.0, dt0, y
        found = diffrax.diffeqsolve(*given, saveat=save, max_steps=256, throw=False, **more)
        return jnp.mean(found.ys**2)

    return loss, (params, jnp.ones(2))


class Net(nn.Module):
    least: float

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for width in (64, 64, 64):
            normed = nn.LayerNorm()(nn.Dense(width)(x))
            x = nn.gelu(normed)
        scale = jnp.sqrt(jnp.mean(x) - self.least)
        return nn.Dense(1)(x) * scale


def training(least: float) -> tuple[Any, Any]:
    """A step of training, which is NaN if ``least`` is large."""
    net, x, y = Net(least), jax.random.normal(jax.random.key(0), (32, 8)), jnp.ones((32, 1))
    params = net.init(jax.random.key(1), x)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((net.apply(params, x) - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, optimizer.init(params), x, y)


def rollout(length: int, times: int) -> Any:
    """Many operations on small arrays, which XLA puts into few kernels if nothing is handed out.

    There are 51 equations each of ``times``, in a scan, or in a straight line if its length is 0.
    """

    def step(state: Any, _: Any) -> Any:
        p, v = state
        for _ in range(times):
            delta = p - jnp.roll(p, 1, axis=0)
            dist = jnp.sqrt(jnp.sum(delta * delta, axis=-1, keepdims=True) + 1e-6)
            force = -delta / dist * (dist - 1.0)
            limited = jnp.where(dist > 2.0, jnp.tanh(force), force)
            v = v + 0.01 * (limited + jnp.cross(force, v))
            p = p + 0.01 * v
        return (p, v), jnp.sum(p)

    if not length:
        return lambda p, v: step((p, v), None)[1]
    return lambda p, v: jax.lax.scan(step, (p, v), None, length=length)[1]


def seconds(work: Any) -> float:
    jax.clear_caches()
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def measured(name: str, fn: Any, args: Any) -> list[dict[str, Any]]:
    def bare() -> None:
        jax.block_until_ready(jax.jit(fn).lower(*args).compile()(*args))

    bare()
    times: dict[Any, list[float]] = {ask: [] for ask in (None, *AT_MOST)}
    for _ in range(TURNS):
        times[None].append(seconds(bare))
        for ask in AT_MOST:
            times[ask].append(seconds(lambda ask=ask: ask(fn)(*args)))
    once = statistics.median(times[None])
    return [
        programs.reached(
            f"{name}: {ask.__name__}", statistics.median(times[ask]) / once, most, " times"
        )
        for ask, most in AT_MOST.items()
    ]


def main() -> None:
    adaptive = diffrax.PIDController(rtol=1e-3, atol=1e-4)
    wide = programs.transformer_args(12, tokens=256, width=256)
    gradient, args = solving(1.5, 0.1, stepsize_controller=adaptive)
    results = measured("diffrax, adaptive steps", *solving(1.5, 0.1, stepsize_controller=adaptive))
    results += measured("diffrax, 100 steps", *solving(1.5, 0.01))
    results += measured("diffrax, NaN in half of 100 steps", *solving(0.5, 0.01))
    results += measured("gradient of diffrax", jax.grad(gradient), args)
    results += measured("flax and optax", *training(-1e9))
    results += measured("flax and optax, NaN", *training(1e9))
    results += measured("loss of 12 layers", transformer_loss, wide)
    results += measured("gradient of 12 layers", jax.grad(transformer_loss), wide)
    positions = jax.random.normal(jax.random.key(0), (10, 3))
    moving = positions, jnp.zeros((10, 3))
    results += measured("rollout of small arrays", rollout(100, 20), moving)
    results += measured("10,000 equations on small arrays", rollout(0, 200), moving)
    programs.write("bench_questions", results)


if __name__ == "__main__":
    main()
