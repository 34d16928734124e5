"""A cell that was edited and run again: its tags are at the same values, or are said to be lost."""

import pytest

BEFORE = """%%taxpr
import jax, jax.numpy as jnp
def f(xs):
    def step(c, x):
        c = jnp.sin(c + x)
        return c, c * 2
    return jax.lax.scan(step, jnp.float32(0), xs)
f(jnp.arange(4.0))"""
ADD, SIN = "0:scan/body/0:add.0", "0:scan/body/1:sin.0"


def again(notebook, before, after, key, name="s"):
    old = notebook.good(before, cell_id="one")
    old.tag(key, name)
    return notebook.good(after, cell_id="one")


def test_a_value_whose_line_was_changed_is_found_by_its_neighbours(notebook):
    after = BEFORE.replace("jnp.sin(c + x)", "jnp.sin(jnp.cos(x) + c + x)")
    new = again(notebook, BEFORE, after, ADD)
    [(key, params)] = new.tags.items()
    assert params == {"name": "s"}
    # The sum that goes into the sine, not the one that was put before it.
    assert key == "0:scan/body/2:add.0"
    assert f"Moved, since the program has changed: the tag 's' from {ADD} to {key}." in new.notes


def test_a_value_after_a_new_line_moves_with_its_own(notebook):
    after = BEFORE.replace("        c = jnp.sin", "        x = x * 3\n        c = jnp.sin")
    new = again(notebook, BEFORE, after, SIN)
    assert list(new.tags) == ["0:scan/body/2:sin.0"]


def test_the_same_program_moves_nothing(notebook):
    new = again(notebook, BEFORE, BEFORE.replace("(0), xs", "(0),  xs"), SIN)
    assert list(new.tags) == [SIN]
    assert not any("Moved" in note or "Dropped" in note for note in new.notes)


UNROLLED = """%%taxpr
import jax.numpy as jnp
def f(x):
    for _ in range(3):
        x = jnp.sin(x + 1)
    return x
f(1.0)"""


def test_iterations_of_a_python_loop_are_told_apart_by_their_number(notebook):
    after = UNROLLED.replace("    for", "    x = jnp.cos(x)\n    for")
    new = again(notebook, UNROLLED, after, "3:sin.0")
    assert list(new.tags) == ["4:sin.0"]


def test_what_could_be_two_values_is_lost_and_said(notebook):
    new = again(notebook, UNROLLED, UNROLLED.replace("range(3)", "range(4)"), "3:sin.0")
    assert not new.tags
    assert any("Dropped" in note and "'s' at 3:sin.0" in note for note in new.notes)


def test_inputs_are_found_by_name(notebook):
    before = "%%taxpr\ndef f(a, b): return a * b\nf(1.0, 2.0)"
    new = again(notebook, before, before.replace("(a, b)", "(b, a)"), "in0")
    assert list(new.tags) == ["in1"]


def test_an_injector_at_a_tag_of_the_source_follows_its_name(notebook):
    before = """%%taxpr
import jax.numpy as jnp, taxpr
def f(x): return taxpr.tag(jnp.sin(x), name="h") * 2
f(1.0)"""
    old = notebook.good(before, cell_id="one")
    old.attach("h", "scale", factor=0.0)
    new = notebook.good(before.replace("jnp.sin(x)", "jnp.sin(jnp.cos(x))"), cell_id="one")
    assert [site.injector.name for site in new.sites()] == ["scale"]
    assert new.run().outputs == 0.0


def test_numbers_of_runs_go_on(notebook):
    old = notebook.good(BEFORE, cell_id="one")
    assert old.run().number == 1
    assert notebook.good(BEFORE, cell_id="one").run().number == 2


@pytest.mark.parametrize("swap", [("c * 2", "c * 3"), ("c, c * 2", "c, (c + x) * 2")])
def test_other_lines_may_change(notebook, swap):
    new = again(notebook, BEFORE, BEFORE.replace(*swap), ADD)
    assert list(new.tags) == [ADD]
