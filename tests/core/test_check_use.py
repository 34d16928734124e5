"""`check`: what counts as use, and what does not. Each row is a function and what it finds."""

import json
import types

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

import taxpr

X = jnp.ones(3)
W = jnp.ones((3, 3))
seen = []


def only_its_shape(x, y):
    return x + jnp.zeros_like(y)


def the_shape_of_random_numbers(x, key):
    return jax.random.bernoulli(key, 0.5, x.shape)


def its_dtype(x, y):
    return x.astype(y.dtype)


def its_length(x, y):
    return x * len(y)


def its_shape_in_a_helper(x, y):
    def rows(y):
        (n,) = y.shape
        return n

    return x * rows(y)


def the_shape_of_what_is_computed_from_it(x, w):
    out = jax.eval_shape(lambda: x @ w)
    return jnp.zeros(out.shape)


def a_branch_that_was_not_taken(x, y, training=False):
    if training:
        x = x * y
    return x


def a_shape_of_a_result(x, w):
    h = x @ w
    return x * h.shape[0]


def a_shape_of_an_expression(x, w):
    n = (x @ w).ndim
    return x * n


def a_result_for_a_list(x):
    total = jnp.sum(x)
    seen.append(total)
    seen.append(jnp.mean(x))
    return x


class Mean:
    value = 0.0

    def update(self, x):
        self.value = self.value + jnp.mean(x)
        return self


def a_method_that_changes_its_object(x):
    mean = Mean()
    mean.update(x)
    return x * 2


def a_dict_that_is_changed(x, stats):
    stats["mean"] = stats["mean"] + jnp.mean(x)
    return x


def what_a_helper_returns_besides(x):
    def moments(x):
        mean, largest = jnp.mean(x), jnp.max(x)
        smallest = jnp.min(x)
        return mean, largest, smallest

    mean, *_ = moments(x)
    return mean


library = types.ModuleType("library")
SOURCE = """
def note(kept, x):
    kept.append(x * 2)
def change(kept, x):
    kept["y"] = x * 2
    return x
def double(x):
    return x * 2
"""
# Functions that are not the user's.
exec(compile(SOURCE, json.__file__, "exec"), library.__dict__)


def a_call_that_returns_nothing(x):
    library.note(seen, x)
    return x


def a_call_that_changes_an_argument(x, stats):
    library.change(stats, x)
    return x


mark_p = Primitive("mark")
mark_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(mark_p, lambda ctx, x: [x])


def a_marker_of_a_library(x):
    pred = x * 2
    mark_p.bind(pred)
    return x


QUIET = [
    (only_its_shape, X, X),
    (the_shape_of_random_numbers, X, jax.random.key(0)),
    (its_dtype, X, X),
    (its_length, X, X),
    (its_shape_in_a_helper, X, X),
    (the_shape_of_what_is_computed_from_it, W, W),
    (a_branch_that_was_not_taken, X, X),
    (a_shape_of_a_result, W, W),
    (a_shape_of_an_expression, W, W),
    (a_result_for_a_list, X),
    (a_method_that_changes_its_object, X),
    (a_dict_that_is_changed, X, {"mean": jnp.float32(0)}),
    (what_a_helper_returns_besides, X),
    (a_call_that_returns_nothing, X),
    (a_call_that_changes_an_argument, X, {}),
    (a_marker_of_a_library, X),
]


@pytest.mark.parametrize("row", QUIET, ids=lambda row: row[0].__name__)
def test_what_is_used_is_not_told(row):
    fn, *args = row
    assert not taxpr.check(fn)(*args), taxpr.check(fn)(*args)


@pytest.mark.parametrize("names", [False, True, None])
def test_shapes_are_used_also_where_only_a_program_is_given(names):
    for fn, *args in (QUIET[0], QUIET[1], QUIET[7]):
        program = taxpr.trace(fn, names=names)(*args)
        assert not taxpr.check(program)(), taxpr.check(program)()


def handed_on_and_not_used(x, mask):
    def scores(x, mask):
        return x * 2

    return scores(x, mask)


class Layer:
    def __call__(self, x, mask):
        return x * 2


def handed_on_to_an_object(x, mask):
    layer = Layer()
    return layer(x, mask)


def named_again(x, mask):
    mask = jnp.ones(3)
    return x * mask


def an_option_that_is_asked_for(x, mask):
    return x if mask is None else x * 2


def a_result_that_is_computed_again(x):
    y = jnp.sin(x)
    y = jnp.cos(x)
    return y * y.shape[0]


def a_call_whose_result_is_lost(x):
    library.double(x)
    return x


def an_update_that_is_lost(x, stats):
    stats = {**stats, "mean": jnp.mean(x)}
    x.at[0].set(1.0)
    return x


FOUND = [
    (handed_on_and_not_used, "mask", X, X),
    (handed_on_to_an_object, "mask", X, X),
    (named_again, "mask", X, X),
    (an_option_that_is_asked_for, "mask", X, X),
    (a_result_that_is_computed_again, "y", X),
    (a_call_whose_result_is_lost, "library.double(x)", X),
    (an_update_that_is_lost, "x.at[0].set(1.0)", X, {"mean": jnp.float32(0)}),
]


@pytest.mark.parametrize("row", FOUND, ids=lambda row: row[0].__name__)
def test_what_is_not_used_is_told(row):
    fn, variable, *args = row
    rows = taxpr.check(fn)(*args).rows
    assert ("unused", variable) in {(one.rule, one.variable) for one in rows}


def test_what_a_function_puts_into_its_arguments_goes_into_copies():
    stats = {"mean": jnp.float32(0)}
    assert not taxpr.check(a_dict_that_is_changed)(X, stats)
    assert float(stats["mean"]) == 0


def test_what_a_derivative_leaves_in_an_argument_is_no_result():
    def leaking(x, box):
        def loss(x):
            box["aux"] = x * 2
            return jnp.sum(x * x)

        return jax.grad(loss)(x)

    assert not taxpr.check(leaking)(X, {})
