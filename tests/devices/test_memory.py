"""The memory of a program on several devices: XLA's numbers are of one, and others are marked."""

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr._errors import RefusedError


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh("4x2"), P(*spec)))


def loss(ws, x):
    def layer(x, w):
        act = jnp.tanh(x @ w)
        return act, None

    return jnp.sum(lax.scan(layer, x, ws)[0] ** 2)


def arguments():
    return put(jnp.ones((12, 16, 16))), put(jnp.ones((256, 16)), "i")


def test_sizes_are_of_one_device_and_others_say_so():
    gradient = jax.jit(jax.grad(loss))
    use = taxpr.memory(gradient)(*arguments())
    stats = gradient.lower(*arguments()).compile().memory_analysis()
    assert use.arguments == stats.argument_size_in_bytes
    assert (use.devices, use.headline.endswith(", on each of 8 devices")) == (8, True)
    [act] = [row for row in use.rows if row.variable == "act" and row.iterations > 1]
    assert (act.bytes, act.iterations) == (act.arrays * 12 * 256 * 16 * 4 // 4, 12)
    [whole] = [row for row in use.residuals.rows if row.variable == "act"]
    assert (whole.bytes, whole.iterations) == (whole.arrays * 12 * 256 * 16 * 4, 12)
    note = "the bytes of whole arrays; each of the 8 devices may have only a part"
    assert note in use.residuals.notes[0]
    guess = taxpr.memory(gradient, compile=False)(*arguments())
    assert note in guess.notes[1]
    assert guess.arguments == 4 * (12 * 16 * 16 + 256 * 16)


def test_a_prediction_for_one_device_is_refused_and_a_measurement_is_not():
    use = taxpr.memory(jax.grad(loss))(*arguments())
    for ask in (lambda: use.what_if(checkpoint="layer"), use.advice):
        with pytest.raises(RefusedError, match=r"uses 8 devices, and .* measure=True"):
            ask()
    [row] = use.what_if(checkpoint="layer", measure=True).rows
    assert row.measured
    assert row.total < use.total


def test_one_device_is_not_told():
    use = taxpr.memory(jax.grad(loss))(jnp.ones((12, 16, 16)), jnp.ones((256, 16)))
    assert (use.devices, use.residuals.notes) == (1, ())
    assert "devices" not in use.headline
