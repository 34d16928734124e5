"""Functions with state of other libraries, as they are, in the picture and in the panel."""

import functools

import brainstate
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from client_states import PROGRAMS
from IPython.core.interactiveshell import InteractiveShell

from taxpr_jupyter import Session, draw


@pytest.fixture(autouse=True)
def brainstate_draws_from_one_key():
    """Its generator belongs to the process, and any other test may have drawn from it."""
    brainstate.random.seed(0)


@functools.cache
def opened(name):
    """The program, a session of it, and its run."""
    program = PROGRAMS[name]()
    before = copied(program.held())
    args, kwargs = program.arguments
    session = Session(program.function, args, kwargs, call=program.call, namespace=program.names)
    run = session.run()
    assert run.ok, run.error
    draw(program.function, *args, **kwargs)
    return program, session, run, before


def copied(held):
    return jax.tree.map(lambda x: np.asarray(data(x)) if hasattr(x, "dtype") else x, held)


def data(x):
    is_key = jnp.issubdtype(getattr(x, "dtype", np.int8), jax.dtypes.prng_key)
    return jax.random.key_data(x) if is_key else x


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    (found, rest), (expected, others) = (
        eqx.partition(one, eqx.is_array) for one in (found, expected)
    )
    assert_close(jax.tree.map(data, found), jax.tree.map(data, expected))
    assert jax.tree.leaves(rest) == jax.tree.leaves(others)


pytestmark = pytest.mark.parametrize("name", PROGRAMS)


def test_states_have_names_and_the_written_ones_are_told_apart(name):
    program, session, *_ = opened(name)
    assert {row.name for row in session.states() if row.written} == program.written
    assert {row.name for row in session.states() if not row.written} == program.read
    assert " ".join(session.notes) == program.notes


@pytest.mark.spread(5)
def test_a_run_gives_what_the_library_gives(name):
    program, _, run, _ = opened(name)
    out, states = program.eager()
    same(run.outputs, out)
    for key, value in states.items():
        same(run.final_states[key], value)


def test_the_users_objects_stay_as_they_are(name):
    program, _, _, before = opened(name)
    after = copied(program.held())
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        assert a is b or np.array_equal(a, b)


@pytest.mark.spread(3)
def test_the_code_gives_the_same(name):
    program, session, run, _ = opened(name)
    scope = dict(program.names)
    exec(session.code(), scope)
    same(scope["out"], run.outputs)
    same(scope.get("states", {}), run.final_states)


def test_the_magic_takes_it_as_it_is(name):
    program, session, *_ = opened(name)
    shell = InteractiveShell(user_ns=dict(program.names))
    shell.run_line_magic("load_ext", "taxpr_jupyter")
    found = shell.run_cell_magic("taxpr", "", program.call)
    assert found.states() == session.states()
    assert found.text() == session.text()


def test_the_picture_shows_states_as_states(name):
    program, *_ = opened(name)
    args, kwargs = program.arguments
    picture = draw(program.function, *args, budget=500, **kwargs).picture
    nodes = [node for node in picture.nodes if node.kind == "state"]
    assert bool(nodes) == bool(program.written | program.read)
    # A state that is used far away stands there once more.
    written = {node.id.partition("@")[0] for node in nodes if "written" in node.marks}
    assert bool(written) == bool(program.written)
    assert {edge.target for edge in picture.edges if edge.kind == "write"} == written
    assert all(not e.head or e.head.isdigit() for e in picture.edges if e.kind == "read")
    shown = {node.lines[0].removeprefix("state ").lstrip("…") for node in nodes}
    for end in sorted(shown):
        # The name of several is what theirs begin with.
        assert any(end in key for key in program.written | program.read), end
