"""What the tests of programs of other libraries share: choosing sites, comparing bits."""

import random

import jax
import jax.numpy as jnp
import numpy as np
from checks import as_bits, assert_close, check_types

import taxpr

SEED = 20
SITES = 25


def values(program):
    """The addresses of all values of a program that can be tagged and injected.

    That is what equations return, at any depth, where all equations around can be injected.
    """
    found = []

    def walk(jaxpr, prefix):
        for local, eqn in taxpr.numbered(jaxpr):
            found.extend(
                f"{prefix}{local}.{k}"
                for k, var in enumerate(eqn.outvars)
                if isinstance(var.aval, jax.core.ShapedArray) and var.aval.dtype != jax.float0
            )
            for nested in taxpr.nested_jaxprs(eqn):
                if taxpr.injectable(eqn, nested) is None:
                    walk(nested.stored, f"{prefix}{local}/{nested.label}/")

    walk(program.jaxpr, "")
    return found


def tagged_at_random(program, seed=SEED, number=SITES):
    """The program with tags, named by their addresses, at values that a seed chooses."""
    everywhere = values(program)
    chosen = random.Random(seed).sample(everywhere, min(number, len(everywhere)))
    for address in chosen:
        program = program.tag_at(address, name=address)
    assert {site.name for site in program.tags()} == set(chosen)
    return program


def assert_same_bits(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = (x if isinstance(x, jax.Array) else np.asarray(x) for x in (a, b))
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(as_bits(a), as_bits(b))


def check_identity(fn, *args):
    """Tags at random places, and the identity injected there, change no bit of a function."""
    expected = jax.jit(fn)(*args)
    program = tagged_at_random(taxpr.trace(fn)(*args))
    sites = program.tags()

    injected = program.inject(lambda n, token, params: (token, n + 1), 0)
    check_types(injected.jaxpr)
    assert injected.tags() == []
    out, fired = jax.jit(injected)(injected.ctx, *args)
    assert_same_bits(out, expected)
    least = sum(site.trips for site in sites if site.trips and not site.conditional)
    assert fired >= max(least, 1)

    # What is handed out must be computed as such, so that XLA fuses and rounds differently.
    collect = program.collect()
    check_types(collect.jaxpr)
    out, collected = jax.jit(collect)(*args)
    assert_close(out, expected)
    assert collected.keys() == {site.name for site in sites}


def scaled_at(fn, args, addresses):
    """``(factor, *args) -> out`` by injection: the values at the addresses are multiplied."""
    program = taxpr.trace(fn)(*args)
    for address in addresses:
        program = program.tag_at(address, name=address)
    injected = program.inject(lambda factor, token, params: (token * factor, factor), 1.0)
    return lambda factor, *args: injected(factor, *args)[0]


def check_scale(fn, edited, args, addresses, *, gradient=True):
    """Multiplying the values at some addresses is the same as in the function's own code.

    ``edited(factor, *args)`` is ``fn`` with the factor in its code.
    """
    factor = jnp.float32(0.5)
    ours = scaled_at(fn, args, addresses)
    out = jax.jit(ours)(factor, *args)
    assert_same_bits(out, jax.jit(edited)(factor, *args))
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(out), jax.tree.leaves(jax.jit(fn)(*args)), strict=True)
    )
    if gradient:
        every = tuple(range(1 + len(args)))
        found, expected = (
            jax.jit(jax.grad(lambda *args, f=f: total(f(*args)), every, allow_int=True))
            for f in (ours, edited)
        )
        assert_close(found(factor, *args), expected(factor, *args))


def total(out):
    """A number to differentiate."""
    return sum(jnp.sum(x**2) for x in jax.tree.leaves(out) if jnp.issubdtype(x.dtype, jnp.inexact))


def collected_at(fn, args, addresses):
    """``{key: value}`` for ``{key: address}``, under jit."""
    program = taxpr.trace(fn)(*args)
    for key, address in addresses.items():
        program = program.tag_at(address, name=key)
    return jax.jit(program.collect())(*args)[1]


def all_of(program, primitive):
    """The addresses of all equations of a primitive."""
    return [a for a, eqn in taxpr.iter_eqns(program.jaxpr) if eqn.primitive.name == primitive]


def last_in_scope(program, scope):
    """The address of the last equation in a named scope, such as ``"Dense_0"``."""
    found = [
        address
        for address, eqn in taxpr.iter_eqns(program.jaxpr)
        if f"/{scope}/" in f"/{taxpr.scope_of(eqn)}/" and not taxpr.is_hop(eqn)
    ]
    assert found, f"no equation is in a scope {scope!r}"
    return found[-1]
