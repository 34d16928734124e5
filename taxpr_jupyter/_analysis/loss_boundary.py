"""Where the backward pass of a gradient begins: the loss.

A jaxpr does not say what was differentiated. But the backward pass begins with 1.0, the derivative
of the loss by itself, in the equation that is the transpose of the one that made the loss: it has
the same source line and, of what is linear, the same primitive. Where that leaves a doubt, there is
no loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.extend.core.primitives as p
import jax.numpy as jnp

import taxpr
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._text.short import scalar_text

# Their transpose is no equation: what they get, or a part of it, goes on.
_PASSING = frozenset({p.add_p, p.sub_p, p.convert_element_type_p, p.reshape_p, p.squeeze_p})
_LINEAR = _PASSING | {p.reduce_sum_p, p.neg_p, p.dot_general_p}
_TRANSPOSES = frozenset({(p.reduce_sum_p, p.broadcast_in_dim_p)})
_MOST = 64  # terms of a sum that are looked at


class Loss(NamedTuple):
    """The loss.

    Attributes:
        eqn: The equation of the forward pass that makes it.
        var: The variable.
        firsts: The equations of the backward pass that take its derivative, 1.0: of a sum one for
            each term.
    """

    eqn: Any
    var: Any
    firsts: tuple[Any, ...]


def loss_of(jaxpr: Any) -> Loss | None:
    """The loss of a jaxpr that holds a forward and a backward pass; None where it is not known."""
    firsts: dict[taxpr.Source, list[Any]] = {}
    factors: set[Any] = set()  # of the forward pass that are 1.0, too: transposed they are no less
    for eqn in jaxpr.eqns:
        name = pass_of(eqn) if any(map(is_one, eqn.invars)) else ""
        source = taxpr.source_of(eqn) if name else None
        if source is None:
            continue
        kind = source, eqn.primitive, sum(map(is_one, eqn.invars))
        if name == "forward":
            factors.add(kind)
        elif kind not in factors:
            firsts.setdefault(source, []).append(eqn)
    if not firsts:
        return None
    makers: dict[Any, Any] = {}
    tagged: dict[Any, Any] = {}  # what is a tag of what
    used: set[Any] = set()
    begins: dict[int, Any] = {}  # by the id of an equation the one that may be its transpose
    finals: list[Any] = []
    place = {id(eqn): k for k, eqn in enumerate(jaxpr.eqns)}
    for eqn in jaxpr.eqns:
        if taxpr.is_tag(eqn):
            tagged |= zip(eqn.outvars, eqn.invars, strict=True)
            continue
        name = pass_of(eqn)
        if name:
            used.update(_values(eqn, tagged))
        scalars = [var for var in eqn.outvars if name == "forward" and _is_scalar(var.aval)]
        if not scalars:
            continue
        makers |= dict.fromkeys(scalars, eqn)
        finals += scalars
        source = taxpr.source_of(eqn)
        for first in firsts.get(source, ()) if source else ():
            if place[id(first)] > place[id(eqn)] and _is_transpose(first, eqn):
                begins.setdefault(id(eqn), first)
    found: list[Loss] = []
    for var in finals:
        summed = () if var in used else _summed(var, makers, tagged)
        begun = [eqn for eqn in summed if id(eqn) in begins]
        after = place[id(makers[var])]
        if begun and all(place[id(begins[id(eqn)])] > after for eqn in begun):
            begin = sorted({place[id(begins[id(eqn)])] for eqn in begun})
            found.append(Loss(makers[var], var, tuple(jaxpr.eqns[k] for k in begin)))
            # Another value at which it may begin makes all of this a guess.
            if begins.keys() != set(map(id, begun)):
                return None
    return found[0] if len(found) == 1 else None


def is_one(atom: Any) -> bool:
    """Whether a value is the literal 1.0."""
    return taxpr.is_literal(atom) and scalar_text(atom.val) == "1.0"


def _is_scalar(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    if dtype is None or getattr(aval, "shape", None) != ():
        return False
    return jnp.issubdtype(dtype, jnp.floating)


def _values(eqn: Any, tagged: Mapping[Any, Any]) -> list[Any]:
    """The variables that an equation takes, tags left out."""
    found = []
    for atom in eqn.invars:
        while not taxpr.is_literal(atom) and atom in tagged:
            atom = tagged[atom]
        found += [] if taxpr.is_literal(atom) else [atom]
    return found


def _summed(var: Any, makers: Mapping[Any, Any], tagged: Mapping[Any, Any]) -> list[Any]:
    """The equation that makes a scalar and, of a sum, those that make its terms."""
    todo, found = [var], []
    while todo and len(found) < _MOST:
        eqn = makers.get(todo.pop())
        if eqn is not None:
            found.append(eqn)
            todo += _values(eqn, tagged) if eqn.primitive in _PASSING else []
    return found


def _is_transpose(first: Any, eqn: Any) -> bool:
    """Whether an equation of the same source line may be the transpose of another one."""
    pair = eqn.primitive, first.primitive
    if pair[0] is pair[1] or pair in _TRANSPOSES:
        return True
    # Of what is not linear the transpose takes a value that the forward pass keeps for it.
    linear = eqn.primitive in _LINEAR or any(map(taxpr.is_literal, eqn.invars))
    kept = any(not taxpr.is_literal(atom) for atom in first.invars)
    return kept and not linear and not taxpr.is_hop(eqn)
