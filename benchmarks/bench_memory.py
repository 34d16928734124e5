"""How near an estimate of memory is to what XLA says, and what asking costs.

Prints the error of the estimate for gradients of layers in a scan, unrolled, and rematerialized,
and for convolutions, without and with maxima over windows;
the time of measuring against that of one compilation, and of an estimate against that of tracing a
program of 10,000 equations.

    .envs/newest/bin/python benchmarks/bench_memory.py
"""

import gc
import statistics
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

import taxpr
from taxpr._memory.used import guessed

WIDTH, HIDDEN, TIME, LAYERS, BATCH = 128, 512, 64, 6, 16


def normal(x):
    mean = x.mean(-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(spread + 1e-5)


def attention(x, p):
    h = normal(x)
    scores = jnp.einsum("btd,bsd->bts", h @ p["q"], h @ p["k"]) / WIDTH**0.5
    weights = jax.nn.softmax(scores, -1)
    x = x + jnp.einsum("bts,bsd->btd", weights, h @ p["v"]) @ p["o"]
    return x + jax.nn.gelu(normal(x) @ p["a"]) @ p["b"]


def perceptron(x, p):
    return x + jnp.tanh(x @ p["a"]) @ p["b"]


def gated(x, p):
    return x + (jax.nn.silu(x @ p["a"]) * (x @ p["gate"])) @ p["b"]


def scanned(layer, weights, x):
    x, _ = jax.lax.scan(lambda x, p: (layer(x, p), None), x, weights)
    return jnp.mean(x**2)


def unrolled(layer, weights, x):
    for k in range(LAYERS):
        x = layer(x, jax.tree.map(lambda one, k=k: one[k], weights))
    return jnp.mean(x**2)


def arguments():
    keys = iter(jax.random.split(jax.random.key(0), 7))
    shapes = dict.fromkeys("qkvo", (WIDTH, WIDTH)) | dict.fromkeys(["a", "gate"], (WIDTH, HIDDEN))
    shapes |= {"b": (HIDDEN, WIDTH)}
    weights = {k: jax.random.normal(next(keys), (LAYERS, *s)) * 0.02 for k, s in shapes.items()}
    return weights, jnp.ones((BATCH, TIME, WIDTH))


def convolved(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jnp.tanh(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers))


def images(weights, x):
    for w in weights:
        x = convolved(x, w)
    return jnp.mean(x)


def pooled(weights, x):
    window = 1, 2, 2, 1
    for w in weights:
        x = convolved(x, w)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
    return jnp.mean(x)


def image_arguments():
    weights = [jnp.ones((3, 3, n, m)) for n, m in ((3, 16), (16, 32), (32, 32))]
    return weights, jnp.ones((8, 32, 32, 3))


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """The least of several runs."""
    found: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)


def errors() -> None:
    args = arguments()
    dots = partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    kinds = {
        "scan": [partial(scanned, layer) for layer in (attention, perceptron, gated)],
        "unrolled": [partial(unrolled, layer) for layer in (attention, perceptron, gated)],
        "remat in a scan": [
            partial(scanned, wrap(layer))
            for wrap in (jax.checkpoint, dots)
            for layer in (attention, perceptron)
        ],
        "remat, unrolled": [
            partial(unrolled, wrap(layer))
            for wrap in (jax.checkpoint, dots)
            for layer in (attention, perceptron, gated)
        ],
    }
    for kind, losses in kinds.items():
        print(f"  {kind:16} {', '.join(error(jax.grad(loss), args) for loss in losses)}")
    nets = [images, pooled]
    args = image_arguments()
    print(f"  convolutions     {', '.join(error(net, args) for net in nets)} without a gradient")
    print(f"  convolutions     {', '.join(error(jax.grad(net), args) for net in nets)}")


def error(fun: Callable[..., object], args: tuple[object, ...]) -> str:
    """The error of an estimate, of the temporaries and of the total."""
    guess = taxpr.memory(fun, compile=False)(*args)
    stats = jax.jit(fun).lower(*args).compile().memory_analysis()
    total = guess.total - guess.temporaries + stats.temp_size_in_bytes
    return (
        f"{guess.temporaries / stats.temp_size_in_bytes - 1:+.0%} ({guess.total / total - 1:+.0%})"
    )


def long_chain(x):
    for _ in range(2500):
        x = jnp.sin(x) * 1.01 + jnp.cos(x)
    return x.sum()


def many_donated(*given):
    return [jnp.sin(x) * 1.01 + jnp.cos(jnp.sin(x) * 1.01 + jnp.cos(x)) + 1.0 for x in given]


def costs() -> None:
    args = arguments()
    fun = jax.grad(partial(unrolled, attention))
    compiling = seconds(lambda: jax.jit(lambda *a: fun(*a)).lower(*args).compile(), 2)
    asking = seconds(lambda: taxpr.memory(lambda *a: fun(*a))(*args), 2)
    print(f"  memory {asking:.2f} s, one compilation with its trace {compiling:.2f} s")
    xs = [jnp.ones(100)] * 1250
    of_estimate("10,000 equations", lambda: lambda x: long_chain(x), xs[:1])
    donated = tuple(range(len(xs)))
    of_estimate(
        "10,000 equations, 1,250 donated arguments",
        lambda: jax.jit(lambda *xs: many_donated(*xs), donate_argnums=donated),
        xs,
    )


def of_estimate(what: str, new: Callable[[], Callable[..., object]], args: list[jax.Array]) -> None:
    """The estimate, and the whole answer, against tracing, in turns."""
    program = taxpr.trace(new(), names=True)(*args)
    runs: dict[str, Callable[[], object]] = {
        "trace": lambda: jax.make_jaxpr(new())(*args),
        "named": lambda: taxpr.trace(new(), names=True)(*args),
        "guess": lambda: guessed(program),
        "asked": lambda: taxpr.memory(new(), compile=False)(*args).total,
        "printed": lambda: str(taxpr.memory(new(), compile=False)(*args)),
    }
    times = [{name: processor_seconds(run) for name, run in runs.items()} for _ in range(9)]

    def median(of: Callable[[dict[str, float]], float]) -> float:
        return statistics.median(map(of, times))

    print(
        f"  {what}: estimate {median(lambda x: x['guess']):.3f} s, "
        f"{median(lambda x: x['guess'] / x['trace']):.2f} of tracing "
        f"({median(lambda x: x['trace']):.2f} s), "
        f"{median(lambda x: x['guess'] / x['named']):.2f} of tracing with names; "
        "more than tracing with names: "
        f"{median(lambda x: (x['asked'] - x['named']) / x['trace']):.2f} of tracing for the total, "
        f"{median(lambda x: (x['printed'] - x['named']) / x['trace']):.2f} for the printed answer"
    )


def processor_seconds(run: Callable[[], object]) -> float:
    """The time of this thread, without that of others on a busy machine."""
    gc.collect()
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


if __name__ == "__main__":
    print(f"jax {jax.__version__} on {jax.devices()[0].platform}")
    print("error of the estimate, of temporaries (of the total):")
    errors()
    print("costs:")
    costs()
