"""What it costs to note the variables of a train step, as a ratio to tracing it without.

    python benchmarks/bench_names.py [number of layers]

JAX's caches are cleared before each measurement, and the two kinds take turns. The figure is a
median of ratios of processor time, and also goes to build/bench_names.json.
"""

import statistics
import sys
from typing import Any

import jax
import jax.numpy as jnp
import programs

import taxpr

RUNS = 9
HEADS = 4


def normed(p, x):
    mean = x.mean(-1, keepdims=True)
    square = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(square + 1e-5) * p["scale"] + p["shift"]


def split(x):
    return x.reshape(x.shape[0], HEADS, -1).swapaxes(0, 1)


def attention(p, x):
    q, k, v = split(x @ p["q"]), split(x @ p["k"]), split(x @ p["v"])
    scores = jnp.einsum("hid,hjd->hij", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    out = jnp.einsum("hij,hjd->hid", weights, v)
    return out.swapaxes(0, 1).reshape(x.shape) @ p["o"]


def block(p, x):
    h = normed(p["first"], x)
    x = x + attention(p, h)
    h = normed(p["second"], x)
    h = jax.nn.gelu(h @ p["up"])
    return x + h @ p["down"]


def loss_of(params, tokens, targets):
    x = params["embedding"][tokens]
    for p in params["layers"]:
        x = block(p, x)
    logs = jax.nn.log_softmax(x @ params["embedding"].T)
    return -jnp.take_along_axis(logs, targets[:, None], axis=-1).mean()


@jax.jit
def train_step(params, state, tokens, targets):
    value, grads = jax.value_and_grad(loss_of)(params, tokens, targets)
    m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, grads)

    def update(p, m, v):
        m, v = m / (1 - 0.9**t), v / (1 - 0.99**t)
        return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)

    return jax.tree.map(update, params, m, v), (m, v, t), value


def shapes(layers: int, width: int = 32) -> Any:
    def array(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    norm = {"scale": array(width), "shift": array(width)}
    layer = {name: array(width, width) for name in "qkvo"}
    layer |= {"up": array(width, 4 * width), "down": array(4 * width, width)}
    layer |= {"first": norm, "second": norm}
    params = {"embedding": array(100, width), "layers": [layer] * layers}
    tokens = jax.ShapeDtypeStruct((16,), jnp.int32)
    return params, (params, params, array()), tokens, tokens


def main() -> None:
    args = shapes(int(sys.argv[1]) if len(sys.argv) > 1 else 4)

    def seconds(names: bool) -> float:
        return programs.cpu_seconds(lambda: taxpr.trace(train_step, names=names)(*args), 1)

    seconds(True)
    pairs = [(seconds(False), seconds(True)) for _ in range(RUNS)]
    ratio = statistics.median(named / bare for bare, named in pairs)
    known = len(taxpr.trace(train_step, names=True)(*args).variables())
    print(f"{known} values of variables, {1e3 * statistics.median(b for b, _ in pairs):.0f} ms")
    goal = programs.reached("tracing with names", ratio, 1.3, " times tracing without")
    programs.write("bench_names", {"goals": [goal]})


if __name__ == "__main__":
    main()
