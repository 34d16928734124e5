"""Where the backward pass of a gradient begins: the loss.

A jaxpr does not say what was differentiated. But the backward pass begins with 1.0, the derivative
of the loss by itself, in the equation that is the transpose of the one that made the loss: it has
the same source line and, of what is linear, the same primitive. Where that leaves a doubt, there is
no loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.extend.core.primitives as p
import jax.numpy as jnp

import taxpr
from taxpr_jupyter._picture._flow import pass_of
from taxpr_jupyter._picture._text import scalar_text

# Their transpose is no equation: what they get, or a part of it, goes on.
_PASSING = frozenset({p.add_p, p.sub_p, p.convert_element_type_p, p.reshape_p, p.squeeze_p})
_TRANSPOSES = frozenset({(p.reduce_sum_p, p.broadcast_in_dim_p)})
_MOST = 64  # terms of a sum that are looked at


class Loss(NamedTuple):
    """The loss.

    Attributes:
        eqn: The equation of the forward pass that makes it.
        var: The variable.
        first: The equation of the backward pass that takes its derivative, 1.0.
    """

    eqn: Any
    var: Any
    first: Any


def loss_of(jaxpr: Any) -> Loss | None:
    """The loss of a jaxpr that holds a forward and a backward pass; None where it is not known."""
    firsts = [eqn for eqn in jaxpr.eqns if _is_first(eqn)]
    if not firsts:
        return None
    makers: dict[Any, Any] = {}
    tagged: dict[Any, Any] = {}  # what is a tag of what
    used: set[Any] = set()
    finals: list[tuple[Any, Any]] = []
    for eqn in jaxpr.eqns:
        if taxpr.is_tag(eqn):
            tagged |= zip(eqn.outvars, eqn.invars, strict=True)
            continue
        makers |= dict.fromkeys(eqn.outvars, eqn)
        name = pass_of(eqn)
        if name:
            used.update(_values(eqn, tagged))
        if name == "forward":
            finals += [(eqn, var) for var in eqn.outvars if _is_scalar(var.aval)]
    found = [
        Loss(eqn, var, first)
        for eqn, var in finals
        if var not in used and (first := _first_of(var, makers, tagged, firsts)) is not None
    ]
    return found[0] if len(found) == 1 else None


def _is_first(eqn: Any) -> bool:
    """Whether an equation of the backward pass takes 1.0."""
    return pass_of(eqn) == "backward" and any(
        taxpr.is_literal(atom) and scalar_text(atom.val) == "1.0" for atom in eqn.invars
    )


def _is_scalar(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return getattr(aval, "shape", None) == () and jnp.issubdtype(dtype, jnp.floating)


def _values(eqn: Any, tagged: Mapping[Any, Any]) -> list[Any]:
    """The variables that an equation takes, tags left out."""
    found = [_untagged(atom, tagged) for atom in eqn.invars]
    return [atom for atom in found if not taxpr.is_literal(atom)]


def _untagged(atom: Any, tagged: Mapping[Any, Any]) -> Any:
    while not taxpr.is_literal(atom) and atom in tagged:
        atom = tagged[atom]
    return atom


def _first_of(
    var: Any, makers: Mapping[Any, Any], tagged: Mapping[Any, Any], firsts: Sequence[Any]
) -> Any | None:
    """The first equation of the backward pass, if it begins at this value."""
    todo, seen = [var], 0
    while todo and seen < _MOST:
        seen += 1
        eqn = makers.get(todo.pop())
        if eqn is None or pass_of(eqn) != "forward":
            continue
        for first in firsts:
            if _is_transpose(first, eqn):
                return first
        if eqn.primitive in _PASSING:
            todo += _values(eqn, tagged)
    return None


def _is_transpose(first: Any, eqn: Any) -> bool:
    source = taxpr.source_of(eqn)
    if source is None or taxpr.source_of(first) != source:
        return False
    pair = eqn.primitive, first.primitive
    # Of what is not linear the transpose takes a value that the forward pass keeps for it.
    kept = any(not taxpr.is_literal(atom) for atom in first.invars)
    return pair[0] is pair[1] or pair in _TRANSPOSES or (kept and not taxpr.is_hop(eqn))
