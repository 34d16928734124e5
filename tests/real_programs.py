"""Programs as people write them, for the gallery of pictures and for tests/clients.

`PROGRAMS` makes each by name: `(function, arguments)`. What only one of them needs is imported
where it is made, so that a library that is missing, or broken, takes only its own away. Those that
tests/clients change, too, stand there.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Made = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Callable[[], Made]] = {}

WIDTH, HEADS, LAYERS = 16, 2, 4


def program(make: Callable[[], Made]) -> Callable[[], Made]:
    PROGRAMS[make.__name__] = make
    return make


def x_of(*shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(1), shape)


# ---- with other libraries ----------------------------------------------------


def linen_transformer():
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(h, h)
            h = nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))
            return x + nn.Dense(WIDTH)(nn.gelu(h))

    class Transformer(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(32, WIDTH)(tokens)
            for _ in range(LAYERS):
                x = Block()(x)
            return nn.Dense(32)(nn.LayerNorm()(x))

    tokens = jnp.arange(16).reshape(2, 8)
    model = Transformer()
    return model.apply, model.init(jax.random.key(0), tokens), tokens


@program
def flax_linen_transformer() -> Made:
    apply, variables, tokens = linen_transformer()
    return apply, (variables, tokens)


@program
def flax_linen_transformer_gradient() -> Made:
    import optax

    apply, variables, tokens = linen_transformer()

    def loss(variables, tokens):
        logits = apply(variables, tokens)[:, :-1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    return jax.value_and_grad(loss), (variables, tokens)


@program
def flax_nnx_transformer_gradient() -> Made:
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm1, self.norm2 = (
                nnx.LayerNorm(WIDTH, rngs=rngs),
                nnx.LayerNorm(WIDTH, rngs=rngs),
            )
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, rngs=rngs, decode=False)
            self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
            self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

        def __call__(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(nnx.gelu(self.up(self.norm2(x))))

    class Transformer(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Embed(32, WIDTH, rngs=rngs)
            self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
            self.head = nnx.Linear(WIDTH, 32, rngs=rngs)

        def __call__(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    graph, state = nnx.split(Transformer(nnx.Rngs(0)))

    def step(state, tokens):
        def loss(model):
            logs = jax.nn.log_softmax(model(tokens)[:, :-1])
            return -jnp.mean(jnp.take_along_axis(logs, tokens[:, 1:, None], -1))

        value, grads = nnx.value_and_grad(loss)(nnx.merge(graph, state))
        return value, grads

    return step, (state, jnp.arange(16).reshape(2, 8))


@program
def equinox_mlp_with_an_optax_step() -> Made:
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(8, 2, 16, 2, activation=jax.nn.gelu, key=jax.random.key(0))
    arrays, rest = eqx.partition(model, eqx.is_array)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def step(arrays, memory, x):
        def loss(arrays):
            return jnp.mean(jax.vmap(eqx.combine(arrays, rest))(x) ** 2)

        value, grads = jax.value_and_grad(loss)(arrays)
        updates, memory = optimizer.update(grads, memory, arrays)
        return value, optax.apply_updates(arrays, updates), memory

    return step, (arrays, optimizer.init(arrays), x_of(4, 8))


@program
def haiku_resnet_block() -> Made:
    import haiku as hk

    def net(x):
        block = hk.nets.ResNet.BlockGroup(
            channels=8,
            num_blocks=2,
            stride=2,
            bn_config={"create_scale": True, "create_offset": True, "decay_rate": 0.9},
            resnet_v2=False,
            bottleneck=False,
            use_projection=True,
        )
        return block(x, is_training=True, test_local_stats=False)

    model = hk.transform_with_state(net)
    x = x_of(2, 8, 8, 4)
    params, state = model.init(jax.random.key(0), x)
    return lambda params, state, x: model.apply(params, state, None, x), (params, state, x)


def numpyro_model(x, y, factor=None):
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("w", dist.Normal(0, 1).expand([8]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(1))
    mean = jnp.tanh(x @ w)
    mean = numpyro.deterministic("mean", mean if factor is None else mean * factor)
    with numpyro.plate("n", 4):
        numpyro.sample("y", dist.Normal(mean, s), obs=y)


@program
def numpyro_nuts_step() -> Made:
    from numpyro.infer import NUTS

    x = x_of(4, 8)
    kernel = NUTS(numpyro_model, max_tree_depth=2)
    state = kernel.init(jax.random.key(0), 10, None, (x, x[:, 0]), {})
    return lambda state, x, y: kernel.sample(state, (x, y), {}), (state, x, x[:, 0])


def diffrax_solution(y0, adjoint, factor=None):
    import diffrax

    def field(t, y, args):
        slope = jnp.tanh(args * y)
        return (slope if factor is None else slope * factor) - y

    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=1.0,
        dt0=0.1,
        y0=y0,
        args=0.7,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 4)),
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-4),
        adjoint=adjoint,
        max_steps=16,
    )


@program
def diffrax_solve() -> Made:
    import diffrax

    adjoint = diffrax.RecursiveCheckpointAdjoint()
    return lambda y0: diffrax_solution(y0, adjoint).ys, (x_of(8),)


# ---- with JAX alone ----------------------------------------------------------


@program
def rnn_by_scan() -> Made:
    def loss(params, xs, target):
        def cell(h, x):
            h = jnp.tanh(x @ params["w_in"] + h @ params["w_state"] + params["b"])
            return h, h @ params["w_out"]

        _, ys = lax.scan(cell, jnp.zeros((2, 8)), xs)
        return jnp.mean((ys - target) ** 2)

    params = {"w_in": x_of(4, 8), "w_state": x_of(8, 8), "b": x_of(1, 8), "w_out": x_of(8, 3)}
    return jax.value_and_grad(loss), (params, x_of(5, 2, 4), x_of(5, 2, 3))


@program
def sinkhorn_by_while_loop() -> Made:
    def sinkhorn(cost, a, b, epsilon=0.1, most=200):
        kernel = -cost / epsilon

        def unfinished(state):
            i, _, _, error = state
            return (i < most) & (error > 1e-4)

        def step(state):
            i, f, _, _ = state
            g = jnp.log(b) - jax.nn.logsumexp(kernel + f[:, None], axis=0)
            new = jnp.log(a) - jax.nn.logsumexp(kernel + g[None, :], axis=1)
            return i + 1, new, g, jnp.max(jnp.abs(new - f))

        start = (0, jnp.zeros_like(a), jnp.zeros_like(b), jnp.float32(jnp.inf))
        _, f, g, _ = lax.while_loop(unfinished, step, start)
        return jnp.exp(kernel + f[:, None] + g[None, :])

    return sinkhorn, (x_of(5, 4) ** 2, np.full(5, 0.2, np.float32), np.full(4, 0.25, np.float32))


@program
def shard_map_data_parallel_step() -> Made:
    """On all devices that there are: the gallery sees to it that they are eight."""
    devices = jax.device_count()
    mesh = jax.make_mesh((devices,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    split, same = jax.sharding.PartitionSpec("batch"), jax.sharding.PartitionSpec()

    def step(params, x, y):
        def loss(params):
            h = jnp.tanh(x @ params["w"] + params["b"])
            return jnp.mean((h @ params["v"] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        value, grads = lax.pmean((value, grads), "batch")
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    # Without the check the gradient of what all share is that of each device's own batch.
    sharded = jax.shard_map(
        step, mesh=mesh, in_specs=(same, split, split), out_specs=same, check_vma=False
    )
    params = {"w": x_of(4, 8), "b": x_of(1, 8), "v": x_of(8, 2)}
    return jax.jit(sharded), (params, x_of(16, 4), x_of(16, 2))


@program
def pmap_step() -> Made:
    devices = jax.device_count()

    def step(w, x):
        grad = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        return w - 0.1 * lax.pmean(grad, "i")

    return jax.pmap(step, axis_name="i", in_axes=(None, 0)), (x_of(4, 2), x_of(devices, 3, 4))


@program
def pallas_matmul() -> Made:
    from jax.experimental import pallas

    def kernel(x, y, out):
        out[...] = jnp.maximum(x[...] @ y[...], 0.0)

    def matmul(x, y):
        call = pallas.pallas_call(
            kernel,
            grid=(2, 2),
            in_specs=[
                pallas.BlockSpec((8, 8), lambda i, j: (i, 0)),
                pallas.BlockSpec((8, 8), lambda i, j: (0, j)),
            ],
            out_specs=pallas.BlockSpec((8, 8), lambda i, j: (i, j)),
            out_shape=jax.ShapeDtypeStruct((16, 16), x.dtype),
            interpret=True,
        )
        return call(x, y).sum()

    return matmul, (x_of(16, 8), x_of(8, 16))
