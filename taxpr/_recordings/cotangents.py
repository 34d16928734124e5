"""The cotangents of the values of a function: what flows back to each when it is differentiated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, ClosedJaxpr
from taxpr._engine.memo import made_of
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
    addresses = tuple(dict.fromkeys(one.value.address for one in marked))
    avals = program.in_avals
    floats = [k for k, aval in enumerate(avals) if jnp.issubdtype(aval.dtype, jnp.floating)]
    gradient = made_of(
        program.jaxpr, (), ("gradient", addresses), lambda: _gradient(program, addresses, floats)
    )
    names = tuple(f"gradient {program.in_names[k]}" for k in floats)
    tree = jax.tree.structure([0] * len(floats))
    derived = dataclasses.replace(
        program, jaxpr=gradient.jaxpr, out_tree=tree, out_names=names, named=None, arranged=None
    )
    out: list[Wanted] = []
    for one in marked:
        at = gradient.named.cotangents_of(gradient.tokens[one.value.address])
        value = value_at(gradient.jaxpr, at[0]) if len(at) == 1 else None
        if value is None or value.refusal:
            continue
        more: dict[str, Any] = {"value": value, "read": value, "cotangent": True}
        out.append(dataclasses.replace(one, name=f"∂ {one.name}", **more))
    return derived, out


@dataclasses.dataclass(frozen=True, eq=False)
class _Gradient:
    """The gradient of a program, with the tokens of values by their addresses."""

    named: Variables
    tokens: dict[Address, _compat.Token]

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.named.jaxpr


def _gradient(program: Program, addresses: Sequence[Address], floats: Sequence[int]) -> _Gradient:
    tokens = {address: _compat.Token() for address in addresses}
    by_text: dict[str, _compat.Token] = {**tokens}
    jaxpr = program.jaxpr
    if addresses:
        where: list[Selector] = [*addresses]
        jaxpr, _ = tag_where(jaxpr, where, lambda at: hidden(by_text[at]), cotangents=True)
    run = _compat.jaxpr_as_fun(jaxpr)

    def gradient(*flat: Array) -> list[Array]:
        def loss(some: list[Array]) -> Array:
            given = list(flat)
            for k, x in zip(floats, some, strict=True):
                given[k] = x
            return run(*given)[0]

        return _jax.grad(loss)([flat[k] for k in floats])

    return _Gradient(Variables(_compat.make_jaxpr(gradient)(*program.in_avals), True), tokens)


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
