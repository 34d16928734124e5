"""Arguments that stay Python values: jitted functions have theirs, for others an error says how."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr

X = jnp.linspace(0.5, 1.5, 3)


def f(x, mode="train", times=1):
    h = jnp.sin(x) if mode == "train" else jnp.cos(x)
    for _ in range(times):
        h = h * 2
    return h.sum()


def step(x, mode="train", times=1):
    return x - 0.1 * times


QUESTIONS = {
    "trace": taxpr.trace,
    "find_nan": taxpr.find_nan,
    "first_difference": lambda f: taxpr.first_difference(f, "op by op"),
    "before and after": lambda f: taxpr.first_difference(f, f.__wrapped__),
    "check": taxpr.check,
    "watch": taxpr.watch,
    "flow": lambda f: taxpr.flow(f, step=step),
    "collect": lambda f: taxpr.collect(f, taxpr.var("h"), stack=True),
    "sweep": lambda f: taxpr.sweep(f, taxpr.each(taxpr.var("h")), taxpr.zero()),
}
JITTED = [jax.jit(f, static_argnames=("mode", "times")), jax.jit(f, static_argnums=(1, 2))]


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_questions_take_static_arguments_of_jitted_functions(ask):
    told = []
    for jitted in JITTED:
        question = ask(jitted)
        told += [str(question(X, "test", 2)), str(question(X, mode="test", times=2))]
    assert len({re.sub("<function.*?>", "", one) for one in told}) == 1
    assert ask(JITTED[0])(X) is not None  # defaults


def test_values_are_those_of_the_static_arguments():
    ask = taxpr.watch(JITTED[0])
    for mode, fn in (("train", np.sin), ("test", np.cos), ("train", np.sin)):
        np.testing.assert_allclose(ask(X, mode=mode)["h"].value[0], fn(X), rtol=1e-6)
    rec = ask(X, "train", times=True)
    assert "h" in rec
    _, found = taxpr.collect(JITTED[1], taxpr.var("h"), stack=True)(X, "test", 2)
    np.testing.assert_allclose(found["h"], np.cos(X) * np.asarray([[1], [2], [4]]), rtol=1e-6)
    assert taxpr.first_difference(JITTED[0])(X, X + 1, mode="test").first.variable == "x"


def flagged(x, flag, y=1.0):
    return x * y if flag else x


def sized(x, n, config):
    return jnp.zeros(n) + x * config["rate"]


def applied(act, x):
    return act(x)


ALL = (
    taxpr.trace,
    taxpr.find_nan,
    taxpr.check,
    taxpr.watch,
    taxpr.flow,
    lambda f: taxpr.first_difference(f, "op by op"),
    lambda f: taxpr.sweep(f, taxpr.each(taxpr.var("x")), taxpr.zero()),
    lambda f: taxpr.collect(f, taxpr.var("x")),
)


@pytest.mark.parametrize("ask", ALL)
@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "kind", "words"),
    [
        (
            flagged,
            (X,),
            {"flag": True},
            jax.errors.TracerBoolConversionError,
            "flagged was given flag=True, and only its type is known during tracing. If "
            "it is static, give functools.partial(flagged, flag=True) or jax.jit("
            "flagged, static_argnames='flag') instead.",
        ),
        (flagged, (X, True, 2.0), {}, jax.errors.TracerBoolConversionError, "give jax.jit(flagged"),
        (
            sized,
            (X, 3, {"rate": 2.0}),
            {},
            TypeError,
            "sized was given n=3, and only its type is known",
        ),
        (
            applied,
            (jnp.sin, "x"),
            {},
            TypeError,
            "applied was given x='x', which is no array, so the function got it as it is.",
        ),
    ],
)
def test_errors_say_how_an_argument_is_made_static(ask, fn, args, kwargs, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        ask(fn)(*args, **kwargs)
    assert str(caught.value).count("A static argument?") == 1


def test_errors_of_what_is_no_argument_are_as_they_are():
    def f(x, n):
        return x if x.sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        taxpr.watch(f)(X, 3)
    assert "A static argument?" not in str(caught.value)
    assert not taxpr.find_nan(functools.partial(flagged, flag=True))(X)


@pytest.mark.parametrize("jitted", JITTED, ids=["by name", "by position"])
def test_injected_functions_and_gradients_take_static_arguments(jitted):
    def plain(x):
        return 4 * jnp.cos(x)

    for injector in (taxpr.scale(0.5), [taxpr.scale(0.5), taxpr.count()]):
        halved = taxpr.inject(jitted, injector, where=taxpr.var("h", occurrence=0))
        ctx = halved.init(X, "test", 2)
        out, ctx = halved(ctx, X, "test", 2)
        assert out == pytest.approx(plain(X).sum() / 2)
        out, ctx = halved(ctx, X, mode="test", times=2)
        assert out == pytest.approx(plain(X).sum() / 2)
        assert halved.report(ctx, X, "test", 2) is not None
        assert halved.skipped(X, "test", 2) == ()
        # As by hand: a jitted function around it is told its own static arguments.
        again = jax.jit(halved, static_argnums=(2, 3))
        assert again(halved.init(X, "test", 2), X, "test", 2)[0] == pytest.approx(out)
    # Another value of a static argument is another program.
    assert halved(halved.init(X), X)[0] == pytest.approx(jnp.sin(X).sum())
    found = taxpr.grad_at(jitted, taxpr.var("h", occurrence=0))(X, "test", 2)
    np.testing.assert_allclose(found["h"], 4 * np.ones(3))


def test_an_injected_train_step_with_static_arguments_is_an_edit():
    @functools.partial(jax.jit, static_argnames="power")
    def step(w, x, power):
        def loss(w):
            h = x * w
            return (h**power).sum()

        return w - 0.1 * jax.grad(loss)(w)

    def by_hand(w, x):
        return w - 0.1 * jax.grad(lambda w: ((x * w * 0.5) ** 3).sum())(w)

    halved = taxpr.inject(step, {taxpr.var("h"): taxpr.scale(0.5)})
    ctx = halved.init(2.0, X, power=3)
    np.testing.assert_allclose(halved(ctx, 2.0, X, power=3)[0], by_hand(2.0, X), rtol=1e-6)


class Layer:
    def __init__(self):
        self.w = jnp.ones(3)

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x):
        h = x * self.w
        return h.sum()

    @functools.partial(jax.jit, static_argnames=("self", "mode"))
    def moded(self, x, mode="train"):
        return f(x * self.w, mode)


METHODS = {
    "memory": taxpr.memory,
    "profile": functools.partial(taxpr.profile, runs=1),
    "compiled": taxpr.compiled,
    "compile_time": taxpr.compile_time,
    "summary": taxpr.summary,
    "check_grad": taxpr.check_grad,
    "watch": taxpr.watch,
    "trace": taxpr.trace,
}


@pytest.mark.parametrize("ask", METHODS.values(), ids=METHODS)
def test_a_jitted_method_with_a_static_self_takes_the_other_arguments(ask):
    layer = Layer()
    assert not isinstance(ask(layer.apply)(X), jax.Array)
    told = str(ask(lambda x: layer.apply(x))(X))
    if ask in (taxpr.memory, taxpr.compiled):
        assert str(ask(layer.apply)(X)).partition(":")[2] == told.partition(":")[2]
    for call in (ask(layer.moded)(X, "test"), ask(layer.moded)(X, mode="test")):
        assert not isinstance(call, jax.Array)


def test_values_in_a_jitted_method_are_its_own():
    layer = Layer()
    assert taxpr.trace(layer.apply)(X).in_names == ("x",)
    np.testing.assert_allclose(taxpr.watch(layer.apply)(X)["h"].value, X)
    for mode, fn in (("train", np.sin), ("test", np.cos)):
        rec = taxpr.watch(layer.moded)(X, mode)
        np.testing.assert_allclose(rec["h"].value[0], fn(X), rtol=1e-6)
    np.testing.assert_allclose(taxpr.grad_at(layer.apply, taxpr.var("h"))(X)["h"], np.ones(3))


def test_an_edited_method_has_the_static_arguments_of_the_method():
    layer = Layer()
    doubled = taxpr.edit(layer.apply, "h", taxpr.scale(2.0))
    assert taxpr.trace(doubled)(X).in_names == ("x",)
    np.testing.assert_allclose(taxpr.watch(doubled)(X)["h"].value, 2 * X)
    moded = taxpr.edit(layer.moded, "moded.x", taxpr.scale(2.0))
    for program in (taxpr.trace(moded)(X, "test"), taxpr.trace(moded)(X, mode="test")):
        assert program.in_names == ("x",)
        np.testing.assert_allclose(program(X), layer.moded(2 * X, "test"), rtol=1e-6)


def stacked(w, x):
    return jnp.tanh(jnp.tanh(x @ w) @ w)


class Net:
    @functools.partial(jax.jit, static_argnums=0)
    def slope(self, w, x):
        return jax.grad(lambda w: stacked(w, stacked(w, x)).sum())(w)


def test_what_a_change_saves_in_a_jitted_method_is_that_in_a_function():
    net, w = Net(), jnp.ones((16, 16))
    of_method, of_function = (
        taxpr.memory(fn)(w, w).what_if(checkpoint="stacked").rows
        for fn in (net.slope, jax.jit(lambda w, x: net.slope(w, x)))
    )
    assert of_method == of_function


def test_two_inputs_have_no_static_arguments():
    message = r"f has static arguments: mode and times\. .* functools\.partial\(f, name=value\)"
    for ask in (taxpr.patch(JITTED[0], taxpr.var("h")), taxpr.first_difference(JITTED[0])):
        with pytest.raises(taxpr.ArgumentError, match=message):
            ask((X, "test"), (X + 1, "test"))
    assert taxpr.patch(JITTED[0], taxpr.var("h", occurrence=1))(X, X + 1).rows


def test_static_arguments_that_have_no_hash_are_told_by_jax():
    with pytest.raises(ValueError, match="Non-hashable static arguments"):
        taxpr.watch(JITTED[0])(X, mode=["test"])
