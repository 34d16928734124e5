"""What equations say of where they come from."""

import dataclasses
import linecache
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import taxpr


def inner(x):
    return jnp.sin(x)


def outer(x):
    with jax.named_scope("first"), jax.named_scope("second"):
        y = inner(x)
    return y * 2


def test_scopes_and_calls():
    sine, product = taxpr.trace(outer)(1.0).eqns
    assert taxpr.scopes_of(sine) == ("first", "second")
    assert taxpr.scopes_of(product) == taxpr.transformations_of(product) == ()
    calls = taxpr.sources_of(sine)
    assert calls[0] == taxpr.source_of(sine)
    names = [call.function.rpartition(".")[2] for call in calls]
    assert names[:2] == ["inner", "outer"]
    assert calls[1].line == outer.__code__.co_firstlineno + 2


def test_transformations():
    def loss(x):
        with jax.named_scope("layer"):
            return jax.vmap(jnp.sin)(x).sum()

    program = taxpr.trace(jax.grad(loss))(jnp.ones(2))
    found = {taxpr.transformations_of(eqn) for eqn in program.eqns}
    assert ("jvp", "vmap") in found
    assert any("transpose" in names for names in found)
    assert {taxpr.scopes_of(eqn) for eqn in program.eqns} == {("layer",)}


def test_an_equation_from_nowhere():
    nothing = SimpleNamespace(traceback=None, name_stack=SimpleNamespace(stack=()))
    bare = SimpleNamespace(source_info=nothing)
    assert taxpr.sources_of(bare) == ()  # type: ignore[arg-type]


# ---- code that libraries write -----------------------------------------------

WRITTEN = """
def __init__(self, given):
    whole = convert(given)
    self.held = whole + 1
"""


def of_class(file, monkeypatch):
    """A function that makes an object by an ``__init__`` that was compiled from a text."""
    monkeypatch.setitem(linecache.cache, file, (len(WRITTEN), None, WRITTEN.splitlines(True), file))
    space = {"convert": lambda x: jnp.sin(x) * 2}
    exec(compile(WRITTEN, file, "exec"), space)
    made = type("Made", (), {"__init__": space["__init__"]})

    def f(x):
        one = made(x)
        return one.held

    return f


@pytest.mark.parametrize(
    "file",
    [
        "<attrs generated init e3nn_jax.Irreps>",
        "<attrs generated methods model.Layer>",
        "<cattrs generated structure model.Layer>",
        "<@beartype(model.Layer.__init__) at 0x7f2ab5a6c0e0>",
    ],
)
def test_methods_that_libraries_write_are_not_the_user_s(file, monkeypatch):
    f = of_class(file, monkeypatch)
    assert not taxpr.is_user_file(file)
    assert taxpr.is_library_file(file)
    program = taxpr.trace(f, names=True)(1.0)
    assert {variable.text for variable in program.variables()} == {"x", "one.held"}
    for eqn in program.eqns:
        assert file not in {one.file for one in taxpr.sources_of(eqn)}
        assert file not in {one.file for one in taxpr.statements_of(eqn, libraries=True)}
        assert taxpr.source_of(eqn) == taxpr.sources_of(eqn)[0]
    assert taxpr.source_of(program.eqns[-1]).line == f.__code__.co_firstlineno + 1


@pytest.mark.parametrize("file", ["<my model>", "<doctest model.py[3]>", "<ipython-input-3-c0f>"])
def test_code_of_the_user_s_that_has_no_file_stays_so(file, monkeypatch):
    f = of_class(file, monkeypatch)
    assert taxpr.is_user_file(file)
    assert not taxpr.is_library_file(file)
    program = taxpr.trace(f, names=True)(1.0)
    assert {"x", "given", "whole"} <= {variable.text for variable in program.variables()}
    assert taxpr.source_of(program.eqns[-1]).file == file


def test_methods_of_a_dataclass_are_in_no_call_stack():
    @dataclasses.dataclass
    class Held:
        value: Any

        def __post_init__(self):
            self.value = jnp.sin(self.value)

    def f(x):
        held = Held(x)
        return held.value

    [eqn] = taxpr.trace(f)(1.0).eqns
    for found in (taxpr.sources_of(eqn), taxpr.statements_of(eqn, libraries=True)):
        names = [one.function.rpartition("<locals>.")[2] for one in found]
        assert names[:2] == ["Held.__post_init__", "f"]
