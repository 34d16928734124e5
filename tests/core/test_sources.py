"""What equations say of where they come from."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp

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
    bare = SimpleNamespace(source_info=SimpleNamespace(traceback=None))
    assert taxpr.sources_of(bare) == ()  # type: ignore[arg-type]
