"""`first_difference` of functions whose statements were moved, renamed, inlined or extracted."""

import inspect

import jax
import jax.numpy as jnp
import pytest
from planted_faults import planted, some

from taxpr import first_difference

ARGS = some(4, 6), some(6, 6), some(6)


def norm(x, eps=1e-5):
    mean = jnp.mean(x, -1, keepdims=True)
    spread = jnp.std(x, -1, keepdims=True)
    y = (x - mean) / (spread + eps)
    return y


def before(x, w, b):
    t = jnp.sin(x)
    left = t + b
    t = jnp.cos(x)
    right = t * b
    h = norm(left @ w)
    gate = jax.nn.sigmoid(right)
    h = norm(h * gate)
    out = jnp.sum(h, -1)
    return out


def swapped(x, w, b):
    t = jnp.cos(x)
    right = t * b
    gate = jax.nn.sigmoid(right)
    t = jnp.sin(x)
    left = t + b
    h = norm(left @ w)
    h = norm(h * gate)
    out = jnp.sum(h, -1)
    return out


def inlined(x, w, b):
    t = jnp.sin(x)
    left = t + b
    t = jnp.cos(x)
    right = t * b
    x = left @ w
    mean = jnp.mean(x, -1, keepdims=True)
    spread = jnp.std(x, -1, keepdims=True)
    h = (x - mean) / (spread + 1e-5)
    gate = jax.nn.sigmoid(right)
    x = h * gate
    mean = jnp.mean(x, -1, keepdims=True)
    spread = jnp.std(x, -1, keepdims=True)
    h = (x - mean) / (spread + 1e-5)
    out = jnp.sum(h, -1)
    return out


def extracted(x, w, b):
    def gated(x):
        t = jnp.cos(x)
        right = t * b
        gate = jax.nn.sigmoid(right)
        return gate

    def mixed(x):
        t = jnp.sin(x)
        left = t + b
        h = left @ w
        return norm(h)

    h = mixed(x)
    h = norm(h * gated(x))
    out = jnp.sum(h, -1)
    return out


def normalise(x, eps=1e-5):
    mean = jnp.mean(x, -1, keepdims=True)
    spread = jnp.std(x, -1, keepdims=True)
    return (x - mean) / (spread + eps)


def renamed(inputs, w, bias):
    first = jnp.sin(inputs)
    left = first + bias
    second = jnp.cos(inputs)
    right = second * bias
    h = normalise(left @ w)
    switch = jax.nn.sigmoid(right)
    h = normalise(h * switch)
    result = jnp.sum(h, -1)
    return result


def stepwise(x, w, b):
    t = jnp.sin(x)
    left = t + b
    t = jnp.cos(x)
    right = t * b
    h = left @ w
    h = norm(h)
    gate = jax.nn.sigmoid(right)
    h = h * gate
    h = norm(h)
    out = jnp.sum(h, -1)
    return out


MOVED = [swapped, inlined, extracted, renamed, stepwise]


@pytest.fixture(autouse=True)
def promoting():
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("after", MOVED, ids=lambda fn: fn.__name__)
def test_what_was_moved_does_not_alarm(after):
    for one, other in ((before, after), (after, before)):
        found = first_difference(one, other)(*ARGS)
        assert not found, found
        assert int(found.headline.split(" values")[0].split()[-1]) >= 7


@pytest.mark.parametrize(
    ("after", "old", "new", "variable"),
    [
        (swapped, "jnp.sin(x)", "jnp.sin(2 * x)", "t"),
        (swapped, "t * b", "t * -b", "right"),
        (swapped, "h * gate", "h + gate", "x"),
        (inlined, "jax.nn.sigmoid", "jnp.tanh", "gate"),
        (inlined, "left @ w", "left @ w.T", "x"),
        (inlined, "t + b", "t - b", "left"),
        (extracted, "t * b", "t * -b", "right"),
        (extracted, "jnp.sin(x)", "jnp.sin(2 * x)", "t"),
        (extracted, "left @ w", "left @ w.T", "x"),
        (renamed, "+ bias", "- bias", "left"),
        (renamed, "jnp.cos", "jnp.sin", "right"),
        (renamed, "h * switch", "h + switch", "x"),
        (stepwise, "h * gate", "h + gate", "x"),
        (stepwise, "jnp.cos(x)", "jnp.cos(x + 1)", "t"),
    ],
)
def test_faults_are_found_after_the_move(after, old, new, variable):
    found = first_difference(before, planted(after, old, new))(*ARGS)
    name = found.first.variable.partition("#")[0].rpartition(".")[2]
    assert name == variable, found
    assert found.first.file == inspect.getsourcefile(before)
