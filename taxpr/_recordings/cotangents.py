"""The cotangents of the values of a function: what flows back to each when it is differentiated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy

from taxpr import _compat
from taxpr._compat import Array
from taxpr._errors import ArgumentError
from taxpr._primitives.cotangent import hidden
from taxpr._programs.edit import tag_where
from taxpr._programs.program import Program
from taxpr._recordings.wanted import Wanted
from taxpr._sites.criteria import Selector, is_list
from taxpr._sites.values import Value, value_at
from taxpr._variables.table import Variables

jnp: Any = jax.numpy  # which leaves types of arrays unknown
_jax: Any = jax

_SCALAR = (
    "watch(loss, grads=True) and flow(loss) differentiate the result of {name}, which is to be a "
    "scalar of floats, or a tuple that begins with one; it is {found}. Give the loss itself, not "
    "its gradient."
)


def with_gradient(program: Program, wanted: Sequence[Wanted]) -> tuple[Program, list[Wanted]]:
    """The gradient of a program, and where in it the cotangents of values are.

    Args:
        program: A program with a scalar as its result, or first in it.
        wanted: The values. What has no cotangent, as an integer, has no place in the result.

    Raises:
        ArgumentError: If there is no scalar to be differentiated.
    """
    _check_scalar(program)
    marked = [one for one in wanted if _can_have_one(one.value)]
    tokens: dict[str, _compat.Token] = {one.value.address: _compat.Token() for one in marked}
    jaxpr = program.jaxpr
    if tokens:
        addresses: list[Selector] = list(tokens)
        jaxpr, _ = tag_where(jaxpr, addresses, lambda at: hidden(tokens[at]), cotangents=True)
    run = _compat.jaxpr_as_fun(jaxpr)
    avals = program.in_avals
    floats = [k for k, aval in enumerate(avals) if jnp.issubdtype(aval.dtype, jnp.floating)]

    def gradient(*flat: Array) -> list[Array]:
        def loss(some: list[Array]) -> Array:
            given = list(flat)
            for k, x in zip(floats, some, strict=True):
                given[k] = x
            return run(*given)[0]

        return _jax.grad(loss)([flat[k] for k in floats])

    named = Variables(_compat.make_jaxpr(gradient)(*avals), cotangents=True)
    names = tuple(f"gradient {program.in_names[k]}" for k in floats)
    tree = jax.tree.structure([0] * len(floats))
    derived = dataclasses.replace(
        program, jaxpr=named.jaxpr, out_tree=tree, out_names=names, named=None, arranged=None
    )
    out: list[Wanted] = []
    for one in marked:
        at = named.cotangents_of(tokens[one.value.address])
        value = value_at(named.jaxpr, at[0]) if len(at) == 1 else None
        if value is None or value.refusal:
            continue
        more = {"value": value, "read": value, "cotangent": True}
        out.append(dataclasses.replace(one, name=f"∂ {one.name}", **more))
    return derived, out


def _can_have_one(value: Value) -> bool:
    aval: Any = value.aval
    replaceable = all(step.nested.replaceable for step in value.steps)
    return replaceable and jnp.issubdtype(aval.dtype, jnp.inexact)


def _check_scalar(program: Program) -> None:
    first: Any = jax.tree.unflatten(program.out_tree, program.out_avals)
    if is_list(first) and first:
        first = first[0]
    shape, dtype = getattr(first, "shape", None), getattr(first, "dtype", None)
    if shape != () or not jnp.issubdtype(dtype, jnp.floating):
        types = [aval.str_short() for aval in program.out_avals[:3]]
        raise ArgumentError(_SCALAR.format(name=program.name, found=", ".join(types) or "nothing"))
