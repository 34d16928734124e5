"""`every`: a training loop that tells statistics, and stops where something is not finite."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr


def loss(params, x):
    hidden = jnp.tanh(x @ params["w"])
    return jnp.mean((hidden - params["b"][None]) ** 2)


def plain_step(params, momentum, x):
    grads = jax.grad(loss)(params, x)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
    return params, momentum


STEPS = {"plain": jax.jit(plain_step), "donating": jax.jit(plain_step, donate_argnums=(0, 1))}


def start():
    w = jnp.linspace(-1.0, 1.0, 12).reshape(4, 3)
    params = {"w": w, "b": jnp.arange(3.0)}
    return params, jax.tree.map(jnp.zeros_like, params)


def batches(number, bad=None):
    for k in range(number):
        x = jnp.sin(jnp.arange(8.0) + k).reshape(2, 4)
        yield x.at[1, 2].set(jnp.nan) if k == bad else x


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    assert all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("n", [1, 3, 100])
def test_the_state_after_is_that_of_the_plain_loop_and_the_numbers_are_right(step, n):
    told, by_hand, state = [], {}, start()
    for k, x in enumerate(batches(10)):
        if k % n == 0:
            hidden = np.tanh(np.asarray(x, np.float64) @ np.asarray(state[0]["w"], np.float64))
            by_hand[k] = hidden.mean(), hidden.std(), hidden.min(), (hidden**2).sum() ** 0.5
        state = step(*state, x)
    other = start()
    stats = ("mean", "std", "min", "norm", "nonfinite")
    with taxpr.every(n, step, told.append, "hidden", stats=stats) as stepping:
        for x in batches(10):
            other = stepping(*other, x)
    same(state, other)
    assert stepping.calls == 10
    assert [one["step"] for one in told] == list(range(0, 10, n)) == list(by_hand)
    for one in told:
        assert list(one) == ["step", *(f"hidden/{name}" for name in stats)]
        found = [one[f"hidden/{name}"] for name in stats]
        np.testing.assert_allclose(found, [*by_hand[one["step"]], 0.0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("bad", [0, 1, 4, 9])
@pytest.mark.parametrize("n", [1, 4])
def test_it_stops_at_the_first_step_and_keeps_its_arguments(step, bad, n):
    state, before = start(), None
    for k, x in enumerate(batches(bad + 1, bad)):
        before = jax.tree.map(np.array, state) if k == bad else None
        state = step(*state, x)
    stepping = taxpr.every(n, step, lambda told: None)

    def train():
        other = start()
        with stepping:
            for x in batches(10, bad):
                other = stepping(*other, x)

    with pytest.raises(taxpr.NonfiniteError, match=rf"every: step {bad} of plain_step") as caught:
        train()
    error = caught.value
    assert error.step == bad
    assert error.results == [f"out[{k}]['{name}']" for k in (0, 1) for name in ("b", "w")]
    assert stepping.calls <= bad + 2
    same(error.kept[:2], before)
    assert not error.keywords
    [row] = taxpr.find_nan(step)(*error.kept).rows
    assert (row.variable, row.elements) == ("x", "1 of 8 elements, the first at (1, 2)")


def test_calls_between_run_the_users_own_program():
    traces = []

    @jax.jit
    def step(w, x):
        traces.append(1)
        return w - 0.1 * jnp.mean(x * w)

    w = jnp.ones(3)
    step(w, w)
    compiled, told = step._cache_size(), []
    stepping = taxpr.every(4, step, told.append)
    for _ in range(12):
        w = stepping(w, jnp.ones(3))
    stepping.close()
    assert step._cache_size() == compiled
    assert len(told) == 3
    assert len(traces) <= 2  # one of them for the first program that is watched


def test_results_may_be_picked_and_finiteness_left_alone():
    def step(w, best):
        return w + 1.0, best

    for finite in (False, lambda out: out[0]):
        with taxpr.every(2, step, lambda told: None, finite=finite) as stepping:
            for _ in range(4):
                stepping(jnp.ones(2), jnp.float32(jnp.inf))
        assert stepping.calls == 4
    with (
        pytest.raises(taxpr.NonfiniteError, match=r"not finite: out\[1\]\."),
        taxpr.every(2, step, lambda told: None) as stepping,
    ):
        stepping(jnp.ones(2), jnp.float32(jnp.inf))


def test_an_error_of_the_loop_is_not_hidden():
    def train():
        with taxpr.every(1, lambda x: x / 0.0, lambda told: None) as stepping:
            stepping(jnp.ones(2))
            raise KeyError

    with pytest.raises(KeyError):
        train()


class Wandb:
    def __init__(self):
        self.told = []

    def log(self, numbers):
        self.told.append(numbers)


class Writer:
    def __init__(self):
        self.told = []

    def add_scalar(self, tag, value, step):
        self.told.append((tag, value, step))


def test_numbers_go_to_each_kind_of_logger(tmp_path):
    def step(x):
        y = x * 2
        return y

    wandb, writer, rows, path = Wandb(), Writer(), [], tmp_path / "run.csv"
    for log in (wandb, writer, rows.append, path, str(tmp_path / "other.csv")):
        stepping = taxpr.every(2, step, log, "y", stats=["max", "mean"])
        for k in range(3):
            stepping(jnp.arange(3.0) + k)
    expected = [
        {"step": 0, "y/max": 4.0, "y/mean": 2.0},
        {"step": 2, "y/max": 8.0, "y/mean": 6.0},
    ]
    assert wandb.told == rows == expected
    assert writer.told == [
        ("y/max", 4.0, 0),
        ("y/mean", 2.0, 0),
        ("y/max", 8.0, 2),
        ("y/mean", 6.0, 2),
    ]
    with path.open() as file:
        read = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert read == expected
    assert (tmp_path / "other.csv").read_text() == path.read_text()


def test_what_does_not_fit_is_refused(tmp_path):
    for n in (0, -1, 2.0, True):
        with pytest.raises(taxpr.ArgumentError, match=r"every: n=.* is no whole number from 1 on"):
            taxpr.every(n, jnp.sin, print)
    with pytest.raises(taxpr.ArgumentError, match="every: 3 is an int, not a function"):
        taxpr.every(1, 3, print)
    with pytest.raises(taxpr.ArgumentError, match=r"every: log=3 is an int\. Give a function"):
        taxpr.every(1, jnp.sin, 3)
    with pytest.raises(taxpr.ArgumentError, match=r"every: stats='median' is not one of mean, std"):
        taxpr.every(1, jnp.sin, print, stats="median")
    with pytest.raises(taxpr.ArgumentError, match=r"every: .*cannot be written"):
        taxpr.every(1, jnp.sin, tmp_path / "none" / "run.csv")
