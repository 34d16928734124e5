"""What people use state for, as one would write it, against code that threads it by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from taxpr import State, uncurry

XS = jnp.asarray([1.0, 2.0, 3.0, 4.0])


def assert_close(found, expected):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), found, expected
    )


@pytest.mark.smoke
def test_running_sum():
    """The example of taxpr's page."""
    total = State(jnp.zeros(1), name="total")

    def running_sum(x):
        total.value += x
        return total.value

    rsum, state = uncurry(running_sum, jnp.zeros(1))
    for _ in range(3):
        _, state = rsum(state, jnp.ones(1))
    assert jnp.allclose(next(iter(state.values())), 3)


class Counter:
    """That of PAX's page on JAX's transformations, where both programs below raise."""

    def __init__(self):
        self.count = State(0, name="count")

    def __call__(self, x):
        self.count.value = self.count.value + 1
        return x


def test_pax_counter_in_a_scan():
    class RNN:
        def __init__(self):
            self.counter = Counter()

        def __call__(self, xs):
            def scan_fn(carry, x):
                y = self.counter(x)
                return carry, y

            _, y = lax.scan(scan_fn, init=None, xs=xs)
            return y

    rnn = RNN()
    xs = jnp.arange(0, 10)
    pure, states = uncurry(rnn, xs)
    ys, states = pure(states, xs)
    assert states["count"] == 10
    assert ys.tolist() == xs.tolist()


def test_pax_counter_in_an_inner_jit():
    class BadModule:
        def __init__(self):
            self.counter = Counter()

        def __call__(self, x):
            @jax.jit
            def fn(x):
                y = self.counter(x)
                return y

            y = fn(x)
            return y

    mod = BadModule()
    x = jnp.array(0.0)
    pure, states = uncurry(mod, x)
    y, states = pure(states, x)
    assert (y, states["count"]) == (0.0, 1)


class BatchNorm:
    def __init__(self, size):
        self.mean = State(jnp.zeros(size), name="mean")
        self.var = State(jnp.ones(size), name="var")

    def __call__(self, x, train):
        mean, var = (x.mean(0), x.var(0)) if train else (self.mean.value, self.var.value)
        if train:
            self.mean.value = 0.9 * self.mean.value + 0.1 * mean
            self.var.value = 0.9 * self.var.value + 0.1 * var
        return (x - mean[None]) * lax.rsqrt(var + 1e-5)[None]


def test_batch_norm():
    norm = BatchNorm(3)
    x = jax.random.normal(jax.random.key(0), (8, 3)) * 2 + 1
    w = jnp.ones(3)

    def loss(w, x):
        return jnp.mean((norm(x, True) * w[None]) ** 4)

    pure, states = uncurry(jax.checkpoint(loss), w, x)
    step = jax.jit(jax.value_and_grad(pure, argnums=1, has_aux=True))
    (value, states), grads = step(states, w, x)
    normed = (x - x.mean(0)[None]) * lax.rsqrt(x.var(0) + 1e-5)[None]
    assert_close(value, jnp.mean(normed**4))
    assert_close(grads, jax.grad(lambda w: jnp.mean((normed * w[None]) ** 4))(w))
    assert_close(states, {"mean": 0.1 * x.mean(0), "var": 0.9 + 0.1 * x.var(0)})
    pure.write(states)
    assert_close(
        norm(x, False), (x - 0.1 * x.mean(0)[None]) * lax.rsqrt(norm.var.value + 1e-5)[None]
    )


def test_batch_norm_in_a_step_that_takes_the_gradient_itself():
    """The statistics do not depend on the weights, so nothing of a derivative is lost."""
    norm, w = BatchNorm(3), State(jnp.ones(3), name="w")
    x = jax.random.normal(jax.random.key(0), (8, 3)) + 1

    def step(x):
        w.value -= 0.1 * jax.grad(lambda w: jnp.mean((norm(x, True) * w[None]) ** 4))(w.value)

    def train(xs):
        lax.scan(lambda _, x: (None, step(x)), None, xs)

    pure, states = uncurry(train, jnp.stack([x, x]))
    _, states = jax.jit(pure)(states, jnp.stack([x, 2 * x]))
    w_by_hand, mean = jnp.ones(3), jnp.zeros(3)
    for batch in (x, 2 * x):
        normed = (batch - batch.mean(0)[None]) * lax.rsqrt(batch.var(0) + 1e-5)[None]
        w_by_hand -= 0.1 * jax.grad(lambda w, n=normed: jnp.mean((n * w[None]) ** 4))(w_by_hand)
        mean = 0.9 * mean + 0.1 * batch.mean(0)
    assert_close((states["w"], states["mean"]), (w_by_hand, mean))


class Keys:
    def __init__(self, seed):
        self.key = State(jax.random.key(seed), name="key")

    def __call__(self):
        self.key.value, new = jax.random.split(self.key.value)
        return new


def test_dropout_keys():
    keys = Keys(0)

    def layer(x):
        return jnp.where(jax.random.bernoulli(keys(), 0.5, x.shape), x * 2, 0.0)

    def net(x):
        x = jax.jit(layer)(x)
        return lax.fori_loop(0, 2, lambda _, x: layer(x + 1), x)

    def by_hand(x):
        key = jax.random.key(0)
        for n in range(3):
            key, new = jax.random.split(key)
            x = x + 1 if n else x
            x = jnp.where(jax.random.bernoulli(new, 0.5, x.shape), x * 2, 0.0)
        return x, key

    x = jnp.ones(32)
    pure, states = uncurry(net, x)
    out, new = jax.jit(pure)(states, x)
    expected, key = by_hand(x)
    assert_close(out, expected)
    assert jax.random.key_data(new["key"]).tolist() == jax.random.key_data(key).tolist()
    again, _ = pure(new, x)
    assert jnp.any(again != out)
    lanes = jax.vmap(lambda seed: pure({"key": jax.random.key(seed)}, x)[0])(jnp.arange(2))
    assert_close(lanes[0], expected)


def test_exponential_moving_average():
    average = State(0.0, name="average")

    def update(x):
        average.value = lax.cond(
            x > 0, lambda: 0.5 * average.value + 0.5 * x, lambda: average.value
        )
        return average.value

    pure, states = uncurry(lambda xs: lax.map(update, xs), XS)
    out, _ = pure(states, jnp.asarray([1.0, -9.0, 2.0, 4.0]))
    assert out.tolist() == [0.5, 0.5, 1.25, 2.625]


def test_rnn_cell():
    h = State(jnp.zeros(3), name="h")
    w = State(jax.random.normal(jax.random.key(0), (3, 3)), name="w")

    def cell(x):
        h.value = jnp.tanh(w.value @ h.value + x)
        return h.value

    def loss(xs):
        return jnp.sum(lax.map(jax.jit(cell), xs) ** 2)

    def by_hand(w, xs):
        step = lambda h, x: (jnp.tanh(w @ h + x),) * 2
        return jnp.sum(lax.scan(step, jnp.zeros(3), xs)[1] ** 2)

    xs = jax.random.normal(jax.random.key(1), (5, 3))
    pure, states = uncurry(loss, xs)
    (value, new), grads = jax.jit(jax.value_and_grad(pure, has_aux=True))(states, xs)
    expected, grad = jax.value_and_grad(by_hand)(w.value, xs)
    assert_close((value, grads["w"]), (expected, grad))
    longer = jnp.concatenate([xs, xs])
    halves = pure(new, xs)[0] + value
    assert_close(halves, by_hand(w.value, longer))


def test_momentum_in_a_training_loop_under_scan():
    params = State({"w": jnp.zeros(2), "b": 0.0}, name="params")
    momentum = State({"w": jnp.zeros(2), "b": 0.0}, name="momentum")
    steps = State(0, name="steps")

    def loss(params, x, y):
        return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)

    def train_step(batch):
        value, grads = jax.value_and_grad(loss)(params.value, *batch)
        momentum.value = jax.tree.map(lambda m, g: 0.9 * m + g, momentum.value, grads)
        params.value = jax.tree.map(lambda p, m: p - 0.1 * m, params.value, momentum.value)
        steps.value += 1
        return value

    def by_hand(carry, batch):
        params, momentum, steps = carry
        value, grads = jax.value_and_grad(loss)(params, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
        return (params, momentum, steps + 1), value

    x = jax.random.normal(jax.random.key(0), (6, 16, 2))
    batches = x, x @ jnp.asarray([1.0, -2.0]) + 0.5
    pure, states = uncurry(lambda batches: lax.map(train_step, batches), batches)
    losses, new = jax.jit(pure)(states, batches)
    start = params.value, momentum.value, 0
    (p, m, n), expected = lax.scan(by_hand, start, batches)
    assert_close(losses, expected)
    assert_close(new, {"params": p, "momentum": m, "steps": n})
    assert losses[-1] < losses[0]

    threaded = lambda states, batches: lax.scan(by_hand, states, batches)
    assert instructions(pure, states, batches) == instructions(threaded, start, batches)
    one = jax.tree.map(lambda x: x[0], batches)
    pure, states = uncurry(train_step, one)
    assert instructions(pure, states, one) == instructions(by_hand, start, one)


def instructions(fn, *args):
    """The number of instructions of a compiled function."""
    text = jax.jit(fn).lower(*args).compile().as_text()
    return sum(" = " in line for line in text.splitlines())


def test_a_while_loop_whose_condition_counts_its_evaluations():
    count = State(0, name="count")

    def goes_on(n):
        count.value += 1
        return n < 4

    pure, states = uncurry(lambda n: lax.while_loop(goes_on, lambda n: n + 1, n), 0)
    assert pure(states, 0) == (4, {"count": 5})
    assert jax.jit(pure)(states, 9) == (9, {"count": 1})
    _, lanes = jax.vmap(pure, in_axes=(None, 0))(states, jnp.asarray([0, 9, 3]))
    assert lanes["count"].tolist() == [5, 1, 2]
