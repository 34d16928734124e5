"""Forty programs of many sciences: every question answers, and injection means what it says.

What an injection of a factor should do to a result is known only for some; that a factor of one
changes nothing is known for all.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from called_functions import hidden_functions
from library_programs import PROGRAMS, Made
from picture_quality import quality_of

import taxpr
from taxpr import scale, var
from taxpr_jupyter import draw
from taxpr_jupyter._model.kinds import COMPUTING

# Warnings of the libraries themselves, and of a factor in a program that differentiates.
pytestmark = pytest.mark.filterwarnings("ignore")
EACH = pytest.mark.parametrize("name", PROGRAMS)


def arrays(tree):
    for leaf in jax.tree.leaves(tree):
        is_key = jnp.issubdtype(getattr(leaf, "dtype", np.float64), jax.dtypes.prng_key)
        yield np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def assert_same(one, two):
    for a, b in zip(arrays(one), arrays(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def with_floats(args, change):
    """The arguments with all floating-point arrays changed by ``change(number, leaf)``."""
    leaves, tree = jax.tree.flatten(args)
    floats = [jnp.issubdtype(getattr(x, "dtype", np.int32), jnp.floating) for x in leaves]
    for number, k in enumerate(np.flatnonzero(floats)):
        leaves[k] = change(number, leaves[k])
    return jax.tree.unflatten(tree, leaves)


def planted(args):
    def change(number, leaf):
        if number:
            return leaf
        return jnp.asarray(leaf).at[(0,) * jnp.ndim(leaf)].set(jnp.nan)

    return with_floats(args, change)


def made(name: str) -> Made:
    return PROGRAMS[name]()


@EACH
def test_the_first_picture_names_the_functions_that_the_program_calls(name):
    program = made(name)
    drawing = draw(program.fun, *program.args)
    assert hidden_functions(drawing.builder.program, drawing.picture) == []
    computing = [node for node in drawing.picture.nodes if node.kind in COMPUTING]
    assert len(computing) <= 40
    assert len(drawing.picture.nodes) <= 70  # with the names of what enters and leaves
    size = quality_of(drawing.svg())
    assert size.width <= 4000
    assert size.aspect <= 3


@EACH
def test_variables_are_known_and_recorded(name):
    program = made(name)
    seen = taxpr.watch(program.fun)(*program.args)
    for variable in program.variables:
        assert np.asarray(jax.tree.leaves(seen[variable].value)[0]).size
    assert_same(seen.out, made(name).fun(*made(name).args))


@EACH
def test_what_is_finite_is_said_to_be(name):
    program = made(name)
    found = taxpr.find_nan(program.fun)(*program.args)
    assert not found, str(found)


@EACH
def test_a_nan_in_an_argument_is_found(name):
    """Or the library hides it in all results, or ends the run; then the answer says so."""
    program = made(name)
    found = taxpr.find_nan(program.fun)(*planted(program.args))
    if found:
        assert found.rows[0].line
    else:
        everywhere = taxpr.find_nan(program.fun, everywhere=True)(*planted(program.args))
        assert everywhere.rows, str(found)


@EACH
def test_moved_arguments_are_the_first_difference(name):
    program = made(name)
    moved = with_floats(program.args, lambda _, leaf: leaf * 1.01 + 0.01)
    found = taxpr.first_difference(program.fun)(program.args, moved)
    assert found, str(found)
    assert found.rows[0].line


@EACH
def test_check_answers(name):
    program = made(name)
    for row in taxpr.check(program.fun)(*program.args).rows:
        assert row.what
        assert row.fix


@EACH
def test_a_factor_of_one_changes_nothing(name):
    program = made(name)
    expected = program.fun(*program.args)
    for variable in program.variables:
        program = made(name)
        injected = taxpr.inject(program.fun, {var(variable): scale(1.0)})
        assert_same(injected(injected.init(*program.args), *program.args)[0], expected)
