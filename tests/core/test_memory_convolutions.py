"""Nets of convolutions without a gradient: the estimate says how far it may be off."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr._answers.tables import size_text
from taxpr._estimates.doubts import LEAST, MOST

X = jnp.ones((8, 32, 32, 3))


def conv(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def bounded(ws, x):
    for w in ws:
        x = jnp.tanh(conv(x, w))
    return jnp.mean(x)


def rectified(ws, x):
    for w in ws:
        x = jax.nn.relu(conv(x, w))
    return jnp.mean(x)


def pooled(ws, x):
    for w in ws:
        x = jnp.tanh(conv(x, w))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.mean(x)


def strided(ws, x):
    for w in ws:
        x = jax.nn.gelu(conv(x, w, 2))
    return x


def residual(ws, x):
    x = conv(x, ws[0])
    for w in ws[1:]:
        x = x + jax.nn.relu(conv(x, w))
    return jnp.mean(x)


def normalized(ws, x):
    for w in ws:
        x = conv(x, w)
        mean = x.mean((0, 1, 2), keepdims=True)
        spread = ((x - mean) ** 2).mean((0, 1, 2), keepdims=True)
        x = jax.nn.relu((x - mean) / jnp.sqrt(spread + 1e-5))
    return x


def classified(ws, x):
    for w in ws[:-1]:
        x = jax.nn.relu(conv(x, w))
    return jax.nn.softmax(x.mean((1, 2)) @ ws[-1])


def depthwise(ws, x):
    x = conv(x, ws[0])
    for w in ws[1:]:
        x = jax.nn.relu(conv(x, w, groups=16))
    return x


def shifted(ws, x):
    for k, w in enumerate(ws):
        x = jax.nn.relu(conv(x, w) + 0.5 * k)
    return x


def skipped(ws, x):
    fine = jax.nn.relu(conv(x, ws[0]))
    coarse = jax.nn.relu(conv(fine, ws[1], 2))
    again = jax.image.resize(coarse, (*fine.shape[:3], 32), "nearest")
    return conv(jnp.concatenate([fine, again], -1), ws[2])


def kernels(*channels):
    return [jnp.full((3, 3, n, m), 0.1) for n, m in channels]


ROW = kernels((3, 16), (16, 32), (32, 32))
EVEN = kernels((3, 16), (16, 16), (16, 16), (16, 16), (16, 16))
NETS = {
    bounded: ROW,
    rectified: EVEN,
    pooled: ROW,
    strided: ROW,
    residual: EVEN,
    normalized: ROW,
    classified: [*ROW[:2], jnp.ones((32, 10))],
    depthwise: [ROW[0], *kernels((1, 16), (1, 16))],
    shifted: ROW,
    skipped: kernels((3, 16), (16, 32), (48, 8)),
}


@pytest.mark.parametrize("fun", NETS, ids=lambda fun: fun.__name__)
def test_the_estimate_says_how_far_it_may_be_off(fun):
    guess = taxpr.memory(fun, compile=False)(NETS[fun], X)
    found = taxpr.memory(fun)(NETS[fun], X)
    least, most = LEAST * guess.temporaries, MOST * guess.temporaries
    # A thousandth for numbers such as a mean.
    assert 0.999 * least <= found.temporaries <= 1.001 * most
    assert f"here {size_text(least)} to {size_text(most)}." in " ".join(guess.notes)
