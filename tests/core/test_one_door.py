"""Arguments that are no arrays, and objects of a library that registers itself."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr._calls import libraries

X = jnp.arange(6.0).reshape(2, 3)
OTHER = X + 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Dense:
    """A layer with a function and a text among its leaves."""

    w: jax.Array
    act: Callable
    name: str

    def __call__(self, x):
        return self.act(x @ self.w)


def dense(act=jnp.tanh):
    return Dense(jnp.ones((3, 2)), act, "dense")


def loss(model, x, how="mean"):
    h = taxpr.tag(model(x), name="h")
    return {"mean": jnp.mean, "sum": jnp.sum}[how](h**2)


PLAIN = loss(dense(), X)
H = dense()(X)


def test_every_function_takes_what_is_no_array():
    args = dense(), X
    np.testing.assert_allclose(taxpr.trace(loss)(*args)(*args), PLAIN, rtol=1e-6)
    assert taxpr.collect(loss)(*args)[1]["h"].shape == (2, 2)
    halved = taxpr.inject(loss, taxpr.scale(0.5), where="h")
    np.testing.assert_allclose(halved(halved.init(*args), *args)[0], PLAIN / 4, rtol=1e-6)
    np.testing.assert_allclose(taxpr.grad_at(loss)(*args)["h"], 2 * H / H.size, rtol=1e-6)
    np.testing.assert_allclose(taxpr.watch(loss)(*args)["h"].value, H, rtol=1e-6)
    assert not taxpr.find_nan(loss)(*args)
    assert not taxpr.check(loss)(*args).rows
    assert "h" in str(taxpr.flow(loss)(*args))
    swept = taxpr.sweep(loss, "h", taxpr.scale, [0.0, 2.0])(*args)
    np.testing.assert_allclose(swept.values, [0.0, 4 * PLAIN], rtol=1e-6)
    patched = taxpr.patch(loss, "h", sources="clean")(args, (dense(), OTHER))
    assert patched.rows[0]["effect"] == pytest.approx(1.0)
    assert not taxpr.first_difference(loss, "op by op")(*args)


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_a_text_among_the_arguments_is_what_it_is(how):
    expected = loss(dense(), X, how)
    for args, kwargs in (((dense(), X, how), {}), ((dense(), X), {"how": how})):
        rec = taxpr.watch(loss)(*args, **kwargs)
        np.testing.assert_allclose(rec.out, expected, rtol=1e-6)


def test_a_program_refuses_another_text_or_function():
    program = taxpr.trace(loss)(dense(), X, "sum")
    np.testing.assert_allclose(program(dense(), OTHER, "sum"), loss(dense(), OTHER, "sum"))
    for args in ((dense(), X, "mean"), (dense(jnp.sin), X, "sum"), (dense(), X)):
        with pytest.raises(taxpr.ArgumentError, match="loss"):
            program(*args)


def test_numbers_are_traced_and_static_arguments_of_jit_are_static():
    def f(x, n, scale):
        return x * n * {"one": 1.0}[scale]

    program = taxpr.trace(f)(X, 2, "one")
    np.testing.assert_allclose(program(X, 5, "one"), X * 5)
    jitted = jax.jit(lambda x, n: sum([x] * n), static_argnums=1)
    np.testing.assert_allclose(taxpr.watch(jitted)(X, 3).out, X * 3)


def test_partials_and_methods():
    bound = functools.partial(loss, dense(), how="sum")
    np.testing.assert_allclose(taxpr.watch(bound)(X).out, loss(dense(), X, "sum"), rtol=1e-6)
    np.testing.assert_allclose(taxpr.watch(dense().__call__)(X).out, H, rtol=1e-6)


def test_what_is_no_array_comes_back():
    def step(model, x):
        grads = jax.grad(lambda w: loss(dataclasses.replace(model, w=w), x))(model.w)
        return dataclasses.replace(model, w=model.w - 0.1 * grads), "done"

    with taxpr.introspect.warnings_to(lambda warning: None):
        injected = taxpr.inject(step, taxpr.scale(1.0))
        (model, said), _ = injected(injected.init(dense(), X), dense(), X)
    np.testing.assert_allclose(model.w, step(dense(), X)[0].w, rtol=1e-6)
    assert (model.act, model.name, said) == (jnp.tanh, "dense", "done")


def test_an_object_that_a_function_makes_is_refused():
    class Box:
        def __init__(self, x):
            self.x = x

    with pytest.raises(TypeError, match="not a valid JAX type"):
        taxpr.trace(lambda x: Box(x))(X)


def test_states_see_texts():
    total = taxpr.State(0.0, name="total")

    def add(x, how):
        total.value += {"up": 1.0, "down": -1.0}[how] * x.sum()
        return total.value

    pure, states = taxpr.uncurry(add, X, "up")
    assert float(pure(states, X, "up")[0]) == 15.0
    assert float(pure(states, X, "down")[0]) == -15.0


# ---- objects -----------------------------------------------------------------


class Counter:
    def __init__(self, total, unit="m"):
        self.total, self.unit = total, unit


@pytest.fixture
def counters(monkeypatch):
    monkeypatch.setattr(libraries, "_registered", {})

    def split(objects):
        static = {label: (one.unit, *vars(one)) for label, one in objects.items()}
        return static, {label: {"total": one.total} for label, one in objects.items()}

    def merge(static, states):
        return {label: Counter(own["total"], static[label][0]) for label, own in states.items()}

    def update(objects, states):
        for label, own in states.items():
            objects[label].total = own["total"]

    library = taxpr.libraries.objects("counters", Counter, split, merge, update)
    taxpr.register_library("counters", library)
    return lambda: Counter(jnp.zeros(()))


def add(counter, x):
    counter.total += taxpr.tag(x.sum(), name="h")
    return counter.total


def test_what_transforms_a_function_changes_objects_and_questions_do_not(counters):
    counter = counters()
    doubled = taxpr.inject(add, taxpr.scale(2.0))
    for n in (1, 2):
        out, _ = doubled(doubled.init(counter, X), counter, X)
        assert float(out) == float(counter.total) == 30.0 * n
    taxpr.collect(add)(counter, X)
    assert float(counter.total) == 75.0
    rec = taxpr.watch(add)(counter, X)
    assert (float(rec.states["counter.total"]), float(counter.total)) == (90.0, 75.0)
    taxpr.sweep(add, "h", taxpr.scale, [0.0, 1.0])(counter, X)
    taxpr.patch(add, "h")((counter, X), (counter, OTHER))
    taxpr.first_difference(add)((counter, X), (counter, OTHER))
    taxpr.find_nan(add)(counter, X), taxpr.check(add)(counter, X), taxpr.grad_at(add)(counter, X)
    assert float(counter.total) == 75.0


def test_functions_of_a_library_have_no_variables(counters):
    rec = taxpr.watch(add)(counters(), X)
    assert [*rec] == ["counter.total#0", "x", "counter.total#1"]


def test_one_object_twice_is_one(counters):
    def both(pair, x):
        for one in pair:
            add(one, x)

    counter = counters()
    collected = taxpr.collect(both, stack=True)
    collected([counter, counter], X)
    assert float(counter.total) == 30.0
    collected([counter, counters()], X)
    assert float(counter.total) == 45.0


def test_what_cannot_be_handed_back_is_refused_by_name(counters):
    def rename(counter, x):
        counter.unit = "km"
        return add(counter, x)

    counter = counters()
    with pytest.raises(taxpr.RefusedError, match="rename changes something of counter that is no"):
        taxpr.collect(rename)(counter, X)
    assert (counter.unit, float(counter.total)) == ("m", 0.0)
    assert float(taxpr.watch(rename)(counter, X).out) == 15.0


def test_what_uncurry_has_no_state_for_is_refused_by_name(counters):
    counter = counters()
    with pytest.raises(taxpr.errors.StateError, match=r"uncurry: add changes 'counter\.total'"):
        taxpr.uncurry(add, counter, X)
    assert float(counter.total) == 0.0
    pure, states = taxpr.uncurry(lambda counter, x: x.sum() + counter.total, counter, X)
    assert (states, float(pure(states, counter, X)[0])) == ({}, 15.0)


def test_a_program_of_other_objects_is_traced_again(counters):
    program = taxpr.trace(add)(counters(), X)
    other = Counter(jnp.ones(()))
    assert float(program(other, X)) == float(other.total) == 16.0
    with pytest.raises(taxpr.ArgumentError, match="other objects than it was called with: counter"):
        program(Counter(jnp.ones(()), "km"), X)


def test_two_versions_of_a_class_are_two_inputs():
    class New(Dense):
        def __call__(self, x):
            h = jnp.sin(x @ self.w)
            return h

    class Old(Dense):
        def __call__(self, x):
            h = jnp.cos(x @ self.w)
            return h

    for kind in (New, Old):
        jax.tree_util.register_dataclass(kind)
    old, new = (kind(jnp.ones((3, 2)), jnp.sin, "a") for kind in (Old, New))
    apply = lambda model: model(X)
    found = taxpr.first_difference(lambda model: model(X), apply)(old)
    assert not found
    assert "Two versions of a class are two inputs" in str(found)
    assert taxpr.first_difference(apply)(old, new)


def test_what_is_registered_is_checked():
    with pytest.raises(taxpr.ArgumentError, match="register_library: 3 is an int"):
        taxpr.register_library("mine", 3)
    with pytest.raises(taxpr.ArgumentError, match="register_library: 3 is an int, not the name of"):
        taxpr.register_library(3, libraries.Library(lambda *call: None))
    with pytest.raises(taxpr.ArgumentError, match="equinox is a library that taxpr knows"):
        taxpr.register_library("equinox", libraries.Library(lambda *call: None))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """Holds a number of Python, which is none of its arrays."""

    w: jax.Array
    rate: float = 0.5


def test_numbers_in_objects_stay_when_arguments_move():
    def f(layer, x):
        y = layer.w * x * layer.rate
        return (y * 3).sum()

    layer, x = Layer(jnp.ones(3)), jnp.arange(3.0)
    assert taxpr.first_difference(f, taxpr.edit(f, "y", "y * 2"))(layer, x).first.variable == "y"


def test_results_with_numbers_of_python_are_checked():
    def f(x):
        return x * 2, 1.5, 3

    assert not taxpr.check(f)(jnp.ones(3))
