"""How long a picture takes, compared with tracing the program.

Run it as `python benchmarks/bench_picture.py`. Times are medians; what counts are the ratios, which
hardly depend on the machine.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import taxpr
from taxpr_jupyter._picture import _layout
from taxpr_jupyter._picture._build import build_picture
from taxpr_jupyter._picture._dot import to_dot
from taxpr_jupyter._picture._svg import finish_svg

REPEAT = 5


def chain(steps):
    """Flat code: a chain with operands from a few steps back."""

    def run(x):
        values = [x, x + 1]
        for i in range(steps - 1):
            a, b = values[-1], values[-min(len(values), 1 + i % 7)]
            values.append(a * b if i % 2 else jnp.sin(a))
        return values[-1]

    return run, (np.float32(1),)


def mlp_gradient(layers, width=8):
    """The gradient refers back to the forward pass."""

    def loss(params, x):
        for w, b in params:
            x = jnp.tanh(x @ w + b[None])
        return jnp.mean(x**2)

    params = [(np.ones((width, width), np.float32), np.ones(width, np.float32))] * layers
    return jax.grad(loss), (params, np.ones((4, width), np.float32))


def transformer_gradient(layers, scanned, width=16, heads=2, tokens=8):
    """Attention and MLP blocks, in a scan or unrolled."""

    def block(x, w):
        h = x - jnp.mean(x, -1, keepdims=True)
        h = h / jnp.sqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-5)
        q, k, v = (y.reshape(tokens, heads, -1) for y in jnp.split(h @ w["qkv"], 3, -1))
        a = jax.nn.softmax(jnp.einsum("thd,shd->hts", q, k), -1)
        x = x + jnp.einsum("hts,shd->thd", a, v).reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"]

    def loss(w, x):
        if scanned:
            x, _ = jax.lax.scan(lambda x, w: (block(x, w), None), x, w)
        else:
            for i in range(layers):
                x = block(x, {name: leaf[i] for name, leaf in w.items()})
        return jnp.mean(x**2)

    shapes = {
        "qkv": (layers, width, 3 * width),
        "out": (layers, width, width),
        "up": (layers, width, 4 * width),
        "down": (layers, 4 * width, width),
    }
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    return jax.grad(loss), (weights, np.ones((tokens, width), np.float32))


PROGRAMS = {
    "chain of 60": chain(60),
    "chain of 240": chain(240),
    "chain of 2,000": chain(2000),
    "chain of 10,000": chain(10_000),
    "grad of MLP, 3 layers": mlp_gradient(3),
    "grad of MLP, 20 layers": mlp_gradient(20),
    "grad of transformer, scan": transformer_gradient(12, scanned=True),
    "grad of transformer, 1 layer": transformer_gradient(1, scanned=False),
    "grad of transformer, 12 layers": transformer_gradient(12, scanned=False),
    "the same in a jit": (
        jax.jit(transformer_gradient(12, scanned=False)[0]),
        transformer_gradient(12, scanned=False)[1],
    ),
}


def median(function):
    """The result of a function, and the median of its times."""
    times = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def fresh_trace(fn, args):
    """Tracing without what JAX remembers of the last time."""
    jax.clear_caches()
    return taxpr.trace(fn)(*args)


def by_wasm(text):
    """The layout of the engine that is used where there is no `dot`."""
    return _layout._run_wasm(text, _layout._Deadline(60, None))


def main():
    """Prints a table."""
    columns = ("equations", "nodes", "trace", "build", "dot text", "dot", "wasi", "svg", "kB")
    print(f"{'program':31}" + "".join(f"{column:>10}" for column in columns))
    print(f"{'':31}{'':>10}{'':>10}{'ms':>10}" + f"{'/ trace':>10}" * 5)
    for name, (fn, args) in PROGRAMS.items():
        program, trace = median(lambda fn=fn, args=args: fresh_trace(fn, args))
        picture, build = median(lambda program=program: build_picture(program))
        text, write = median(lambda picture=picture: to_dot(picture))
        laid_out, by_dot = median(lambda text=text: _layout.lay_out(text, timeout=60))
        _, by_wasi = median(lambda text=text: by_wasm(text))
        svg, finish = median(lambda raw=laid_out.svg, picture=picture: finish_svg(raw, picture))
        counts = f"{picture.counts.total:>10,}{len(picture.nodes):>10}{trace * 1e3:>10.0f}"
        ratios = (f"{t / trace:>10.2f}" for t in (build, write, by_dot, by_wasi, finish))
        print(f"{name:31}{counts}{''.join(ratios)}{len(svg) / 1000:>10.0f}")


if __name__ == "__main__":
    main()
