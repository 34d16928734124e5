"""Python loops as scans: they compute the same, and need as much as a scan by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr._compile_time.rolled import rolled
from taxpr._errors import ArgumentError, RefusedError

WS = [jnp.full((16, 16), 0.01 * (k + 1)) for k in range(6)]
STACKED = jnp.stack(WS)
X = jnp.linspace(-1.0, 1.0, 8 * 16).reshape(8, 16)


def layer(x, w):
    return x + jnp.tanh(x @ w)


def listed(ws, x):
    for w in ws:
        x = layer(x, w)
    return jnp.sum(x**2)


def indexed(ws, x):
    for k in range(6):
        x = layer(x, ws[k])
    return jnp.sum(x**2)


def nested(ws, x):
    for w in ws:
        x = layer(x, w)
        for _ in range(2):
            x = jnp.sin(x) * 2
    return jnp.sum(x**2)


def trees(ws, x):
    for p in [{"w": w, "scale": w[0, 0]} for w in ws]:
        x = jax.nn.relu(x @ p["w"]) * p["scale"] + x
    return jnp.sum(x**2)


def numbered(ws, x):
    del ws
    for k in range(6):
        x = jnp.sin(x) * (k + 0.5)
    return jnp.sum(x)


def collected(ws, x):
    outs = []
    for w in ws:
        x = layer(x, w)
        outs.append(jnp.sum(x))
    return outs[0] * outs[2] + outs[-1] + jnp.sum(x)


def two_carries(ws, x):
    before, y = x, x * 2.0
    for w in ws:
        x, y = y @ w, x + y
        y = y * before
    return jnp.sum(x) + jnp.sum(y)


def summed(ws, x):
    total = 0.0
    for w in ws:
        total = total + jnp.sum(x @ w)
    return total


def two_loops(ws, x):
    for w in ws:
        x = layer(x, w)
    x = x * 3.0
    for w in ws:
        x = jnp.cos(x @ w)
    return jnp.sum(x)


PROGRAMS = {
    one.__name__: (one, ws)
    for one, ws in (
        *((listed, WS), (indexed, STACKED), (trees, WS), (numbered, WS), (collected, WS)),
        *((two_carries, WS), (summed, WS), (two_loops, WS), (nested, WS)),
    )
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_scan_computes_what_the_loop_computes(name):
    fun, ws = PROGRAMS[name]
    found = []
    scanned = rolled(fun, found)
    for made, wanted in zip(
        jax.tree.leaves(jax.value_and_grad(scanned, (0, 1))(ws, X)),
        jax.tree.leaves(jax.value_and_grad(fun, (0, 1))(ws, X)),
        strict=True,
    ):
        np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
    loops = 2 if name == "two_loops" else 1
    assert [one.loop.iterations for one in found] == [6] * loops
    text = str(jax.make_jaxpr(scanned)(ws, X))
    assert text.count("scan[") == loops
    assert text.count("tanh") <= 1


def changing(ws, x):
    for k, w in enumerate(ws):
        x = layer(x, w) if k % 2 else jnp.cos(x @ w)
    return jnp.sum(x)


def numbers(ws, x):
    for k in range(6):
        x = jnp.roll(x, k + 1) @ ws[k]
    return jnp.sum(x)


def remembering(ws, x):
    every = [x, x]
    for w in ws:
        every.append(every[-1] @ w + every[-2])
    return jnp.sum(every[-1])


def alone(ws, x):
    return jnp.sum(x @ ws[0])


@pytest.mark.parametrize(
    ("fun", "text"),
    [
        (changing, "changing has no Python loop with four or more iterations that are alike"),
        (numbers, r"`for k in range\(6\)` .* are not alike: "),
        (remembering, "an iteration reads a value of an earlier one than the last"),
        (alone, "alone has no Python loop with four or more iterations"),
    ],
)
def test_iterations_that_are_not_alike_are_refused(fun, text):
    with pytest.raises(RefusedError, match=text):
        rolled(fun, [])(WS, X)


def deep(layer, ws, x):
    for w in ws:
        x = layer(x, w)
    return jnp.mean(x**2)


def deep_as_scan(layer, ws, x):
    x, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), x, jnp.stack(ws))
    return jnp.mean(x**2)


def perceptron(x, w):
    return x + jnp.tanh(x @ w) @ w.T


def attention(x, w):
    weights = jax.nn.softmax((x @ w) @ x.T)
    return x + weights @ x


LARGE = [jnp.ones((64, 64)) / 64] * 8, jnp.ones((256, 64))


@pytest.mark.parametrize("block", [layer, perceptron, attention], ids=lambda one: one.__name__)
def test_a_scan_in_the_place_of_a_loop_is_predicted_and_measured(block):
    use = taxpr.memory(jax.grad(functools.partial(deep, block)))(*LARGE)
    found = [use.what_if(scan="deep", measure=measure) for measure in (False, True)]
    (guess,), (row,) = (one.rows for one in found)
    assert abs(guess.total - row.total) < 0.2 * row.total
    by_hand = taxpr.memory(jax.grad(functools.partial(deep_as_scan, block)))(*LARGE)
    assert abs(row.total - by_hand.total) < 0.1 * by_hand.total
    assert row.change == "the loop in deep is a scan"
    code = "x, _ = jax.lax.scan(body, x, jax.tree.map(lambda *x: jnp.stack(x), *ws))"
    assert row.code == code
    assert row.equations == guess.equations < 0.5 * use.asked.now.equations
    assert any(
        "`body` does one iteration of `for w in ws` (test_rolled.py:" in n for n in found[1].notes
    )


def rolling(w, xs):
    state = jnp.zeros(xs.shape[1:])
    for k in range(12):
        state = jnp.tanh(state @ w + xs[k])
    return state


def test_advice_tells_a_scan_that_leaves_few_equations():
    use = taxpr.memory(rolling)(jnp.ones((64, 64)), jnp.ones((12, 256, 64)))
    found = use.advice()
    [row] = [row for row in found.rows if "scan" in row.change]
    assert row.code == "state, _ = jax.lax.scan(body, state, stacked)"
    assert any(f"There are {row.equations} equations to compile" in note for note in found.notes)
    [measured] = [row for row in use.advice(measure=True).rows if "scan" in row.change]
    assert measured.measured
    # XLA for CPUs of jax 0.10 copies the argument that the loop reads; that of others does not.
    gap, copied = measured.total - row.total, 12 * 256 * 64 * 4
    assert min(abs(gap), abs(gap - copied)) < 0.2 * measured.total


def test_what_is_no_function_with_a_loop_is_refused():
    use = taxpr.memory(jax.grad(listed))(*LARGE)
    with pytest.raises(ArgumentError, match=r"scan='listed\.x' is a variable and no function"):
        use.what_if(scan="listed.x")
    with pytest.raises(RefusedError, match=r"^what_if: scan: layer has no Python loop"):
        use.what_if(scan="layer")
