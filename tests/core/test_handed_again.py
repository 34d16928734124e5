"""A large value that a function is handed again has new names for what has changed alone.

All names that comparing and naming everything in each call would give are there, once for each
place that the function is called from.
"""

import dataclasses
import functools
import importlib
import sys

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr._watching import held
from taxpr._watching.mark import mark_p

X = jnp.asarray([0.3, -0.8, 1.1])
MANY = 40  # layers of two arrays each: more leaves than are compared before each line


class Layer:
    def __init__(self, w, b):
        self.w = w
        self.b = b

    def __call__(self, x):
        y = x * self.w
        return y + self.b


class Stack:
    """Layers in dicts, called one by one."""

    def __init__(self, ws, kind=dict):
        self.layers = [kind(w=w, b=w * 2) for w in ws]

    def step(self, k, x):
        p = self.layers[k]
        layers = self.layers
        y = x * p["w"] + layers[k]["b"]
        return y

    def changing(self, k, x):
        y = self.step(k, x)
        self.layers[k]["b"] = y
        self.layers.append({"w": y, "b": x})
        self.last = x
        return y


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Pair:
    w: jax.Array
    b: jax.Array

    def __getitem__(self, name):
        return self.w if name == "w" else self.b


def weights(x, n=MANY):
    return [x + k for k in range(n)]


def in_a_loop(x):
    stack = Stack(weights(x))
    for k in range(MANY):
        x = stack.step(k, x)
    return x


def from_two_places(x):
    stack = Stack(weights(x))
    for k in range(3):
        x = stack.step(k, x)
        x = stack.step(k + 1, x) * 2
    return stack.step(0, x)


def changed_in_between(x):
    stack = Stack(weights(x))
    for k in range(4):
        x = stack.step(k, x)
        stack.layers[k + 1] = {"w": x, "b": x * 2}
        stack.layers[k - 1]["w"] = x
    return x


def changed_within(x):
    stack = Stack(weights(x))
    for k in range(4):
        x = stack.changing(k, x)
    return x


def two_of_them(x):
    for k in range(3):
        stack, other = Stack(weights(x)), Stack(weights(x * 2))
        for one in (stack, other, stack):
            x = one.step(k, x)
    return x


def other_classes(x):
    stack = Stack(weights(x), Pair)
    for k in range(4):
        x = stack.step(k, x)
        stack.layers[k].w = x
    return x


def a_list_of_parameters(x):
    def step(params, k, x):
        y = x * params[k]["w"]
        return y

    def loss(params, x):
        for k in range(5):
            x = step(params, k, x)
        return jnp.sum(x)

    params = [{"w": w} for w in weights(x, 2 * MANY)]
    grads = jax.grad(loss)(params, x)
    return jax.vmap(lambda x: loss(params, x))(x[None]), grads


def within_transformations(x):
    stack = Stack(weights(x))
    for k in range(3):
        x = jax.checkpoint(functools.partial(stack.step, k))(x)
        x = jax.jit(lambda x, k=k: stack.step(k, x))(x)

    def body(c, _):
        for k in range(3):
            c = stack.step(k, c)
        return c, None

    return jax.lax.scan(body, x, None, length=2)


def recursive(x):
    stack = Stack(weights(x))

    def down(stack, k, x):
        y = stack.step(k, x)
        return down(stack, k - 1, y) if k else y

    return down(stack, 3, x) + down(stack, 2, x)


def generators(x):
    stack = Stack(weights(x))

    def rows(stack, x):
        for k in range(3):
            y = stack.step(k, x)
            yield y

    a, b = (rows(stack, x * k) for k in range(2))
    for row in a:
        stack.layers[0] = {"w": row, "b": next(b)}
    return row


def of_a_comprehension(x):
    stack = Stack(weights(x))
    return sum([stack.step(k, x) for k in range(4)])


def pushed(x):
    def push(rows, x):
        y = x * 2
        rows.append(y)
        rows.append(x)
        rows[len(rows) - 4] = y
        return y

    rows = weights(x, 70)
    for _ in range(5):
        x = push(rows, x)
    return x


def rebound(x):
    def step(params, k, x):
        params = [*params[:3], x, *params[4:]]
        other = params
        params = other[::-1]
        return x * params[k]

    params = weights(x, 70)
    for k in range(3):
        x = step(params, k, x)
        params = [x, *params]
    return x


def as_an_attribute(x):
    class State:
        pass

    state = State()
    state.xs = weights(x, 70)
    state.x = x
    for k in range(5):
        state.x = state.x * state.xs[k]
        state.xs[k - 1] = state.x
        state.xs[-k * 2 + 60 // 7] = x
        state.x, state.other = state.xs[0], state.x
        state.other += x
        if k % 2: state.x = x  # fmt: skip  # noqa: E701
    return x


PROGRAMS = [
    *(in_a_loop, from_two_places, changed_in_between, changed_within, two_of_them, other_classes),
    *(a_list_of_parameters, within_transformations, recursive, generators, of_a_comprehension),
    *(pushed, rebound, as_an_attribute),
]


def names(fn):
    jax.clear_caches()
    variables = taxpr.trace(fn, names=True)(X).variables()
    return [(one.function, one.text, one.address) for one in variables]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_no_name_of_a_value_is_lost(fn, monkeypatch):
    found = names(fn)
    monkeypatch.setattr(held, "_MANY", 10_000)
    every = names(fn)
    assert set(found) == set(every)
    assert len(found) <= len(every)


LIBRARY = """
def folded(step, rows, x):
    for k in range(3):
        x = step(rows, k, x)
        rows.append(x)
        rows[k] = x
    return x
"""


def test_what_a_library_changes_between_calls_has_names(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "library_that_folds.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    library = importlib.import_module("library_that_folds")

    def fn(x):
        def step(rows, k, x):
            y = x * rows[k + 1]
            return y

        rows = weights(x, 70)
        return library.folded(step, rows, x)

    found = names(fn)
    monkeypatch.setattr(held, "_MANY", 10_000)
    assert set(found) == set(names(fn))


def operands(fn, *args):
    """How many values the marks of a program read."""
    jax.clear_caches()
    program = taxpr.trace(fn, names=True)(*args)
    marked = program.named._marked
    return sum(len(eqn.invars) for eqn in marked.jaxpr.eqns if eqn.primitive is mark_p)


@pytest.mark.parametrize("kind", [dict, Pair, Layer])
def test_a_model_costs_as_much_for_each_layer_however_many_there_are(kind, monkeypatch):
    looked = 0
    held_anew, compared = held.HeldTracers._hold, held.HeldTracers._is_same

    def counted(function):
        def of(self, value, *more):
            nonlocal looked
            result = function(self, value, *more)
            looked += len(self._leaves)
            return result

        return of

    monkeypatch.setattr(held.HeldTracers, "_hold", counted(held_anew))
    monkeypatch.setattr(held.HeldTracers, "_is_same", counted(compared))

    def model(ws, x):
        layers = Stack(ws, kind)
        for k in range(len(ws)):
            x = apply(layers, k, x)
        return x

    def apply(stack, k, x):
        layer = stack.layers[k]
        return layer(x) if kind is Layer else x * layer["w"]

    def work(n):
        nonlocal looked
        looked = 0
        return operands(model, [1.5] * n, 1.0), looked

    few, many = work(100), work(400)
    if sys.version_info >= (3, 12):  # before, Python tells of no calls
        assert many[1] - few[1] < 40 * 300
    assert many[0] - few[0] < 20 * 300


def test_a_change_inside_the_calls_is_for_all_calls_from_the_place():
    def outer(x):
        stack = Stack(weights(x))
        for k in range(3):
            x = stack.step(k, x)
        return x + stack.layers[2]["w"]

    def zeroed(x):
        y = x
        for k in range(3):
            y = y * (jnp.zeros_like(x) if k == 2 else x + k) + (x + k) * 2
        return y + x + 2

    at = taxpr.var("step.self.layers[2]['w']", inside=True)
    injected = taxpr.inject(outer, taxpr.zero(), where=at)
    found = injected(injected.init(X), X)[0]
    # p and layers hold it, too, and are other names of the same use
    assert jnp.allclose(found, zeroed(X))


def test_an_edit_of_the_only_occurrence_is_of_all_calls_that_it_stands_for():
    def outer(x):
        stack = Stack(weights(x))
        for k in range(3):
            x = stack.step(k, x)
        y = stack.step(2, x)
        return y

    def by_hand(x, first, second):
        y = x
        for k in range(3):
            y = y * ((x + k) * (first if k == 2 else 1)) + (x + k) * 2
        return y * (x + 2) * second + (x + 2) * 2

    text = "step.self.layers[2]['w']"
    variables = taxpr.trace(outer, names=True)(X).variables()
    assert [str(one) for one in variables if one.short == text] == [f"{text} 0", f"{text} 1"]
    for occurrence, factors in {0: (3, 1), 1: (1, 3), None: (3, 3)}.items():
        where = taxpr.var(text, occurrence=occurrence)
        edited = taxpr.edit(outer, where, taxpr.scale(3.0))
        assert jnp.allclose(edited(X), by_hand(X, *factors)), occurrence
