"""Closed-over arrays in the memory of a call, by the names that its source reaches them with."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import pytest

import taxpr

WIDTH = 128
X = jnp.ones((WIDTH, WIDTH))


class Layer:
    def __init__(self, number):
        self.w = jnp.full((WIDTH, WIDTH), number)

    def loss(self, x):
        hidden = x @ self.w
        return jnp.sum(jnp.tanh(hidden))


@dataclasses.dataclass
class Model:
    layers: list


def row_of(fun, *args):
    """The row of what is closed over, and its line in this file."""
    use = taxpr.memory(fun)(*args)
    assert sum(row.bytes for row in use.rows) == use.total
    [row] = [row for row in use.rows if row.why == "closed over"]
    assert not [one for one in use.rows if one.why == "XLA's own" and one.bytes > 64]
    return row


def line_of(text):
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    [number] = [k for k, line in enumerate(lines, 1) if line.strip() == text]
    return f"test_memory_closed_over.py:{number}"


WRAPPED = {
    "plain": jax.grad,
    "jitted": lambda fun: jax.jit(jax.grad(fun)),
    "of a jitted one": lambda fun: jax.grad(jax.jit(fun)),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_weight_of_self_has_its_name_and_the_line_that_reads_it(wrapped):
    row = row_of(WRAPPED[wrapped](Layer(0.01).loss), X)
    assert (row.variable, row.code) == ("self.w", "hidden = x @ self.w")
    assert row.line == line_of("hidden = x @ self.w")
    assert (row.bytes, row.arrays) == (X.nbytes, 1)


def test_a_weight_in_an_object_that_is_closed_over_has_its_path():
    model = Model([Layer(0.25)])

    def loss(x):
        return jnp.sum(jnp.tanh(x @ model.layers[0].w))

    row = row_of(jax.grad(loss), X)
    assert (row.variable, row.bytes) == ("model.layers[0].w", X.nbytes)
    assert row.code == "return jnp.sum(jnp.tanh(x @ model.layers[0].w))"


def test_a_weight_that_a_scan_reads():
    layer = Layer(0.01)

    def loss(x):
        return jax.lax.scan(lambda x, _: (jnp.sin(x @ layer.w), None), x, None, length=3)[0].sum()

    row = row_of(jax.grad(loss), X)
    assert row.variable == "layer.w"


def test_weights_with_one_value_share_its_memory():
    model = Model([Layer(0.25), Layer(0.25), Layer(0.25)])

    def loss(x):
        for layer in model.layers:
            x = jnp.tanh(x @ layer.w)
        return jnp.sum(x)

    row = row_of(jax.grad(loss), X)
    assert (row.variable, row.bytes) == ("model.layers[…].w", X.nbytes)
    other = jnp.full((WIDTH, WIDTH), 0.25)
    row = row_of(jax.grad(lambda x: loss(x @ other)), X)
    assert set(row.variable.split(", ")) == {"other", "model.layers[…].w"}
    assert row.bytes == X.nbytes


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32, jnp.complex64])
def test_of_alike_shapes_the_value_tells_them_apart(dtype):
    first, second = jnp.full((WIDTH, WIDTH), 3, dtype), jnp.full((WIDTH, WIDTH), 5, dtype)

    def both(x):
        return (x @ first) @ second

    use = taxpr.memory(both)(X.astype(dtype))
    rows = [row.variable for row in use.rows if row.why in ("closed over", "XLA's own")]
    if dtype in (jnp.bfloat16, jnp.complex64):  # which XLA may convert, and writes as two numbers
        assert set(rows) <= {"", "first", "second"}
    else:
        assert rows
        assert set(rows) <= {"first", "second"}


def test_what_xla_fills_itself_has_no_name_of_the_users():
    """Zeros are the initial values of what a loop writes, and another value is not this one."""
    zeros, twos = jnp.zeros((4, WIDTH, WIDTH)), jnp.full((WIDTH, WIDTH), 2.0)
    bumpy = twos.at[0, 0].set(3)

    def states(x):
        grow = jax.lax.scan(lambda x, _: (jnp.sin(x), x), x, None, length=4)[1]
        return grow @ bumpy + zeros, x @ (x * 0 + 1)

    use = taxpr.memory(states)(X)
    assert not {row.variable for row in use.rows} & {"zeros", "twos", "bumpy"}
