"""Find the loss: the value where the backward pass of a gradient begins.

A jaxpr does not say what was differentiated. But the backward pass begins with 1.0, the derivative
of the loss with respect to itself, in the transpose of the equation that made the loss. Both have
the same source line and, if linear, the same primitive. If this is ambiguous, no loss is reported.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.extend.core.primitives as p
import jax.numpy as jnp

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import DefUse, Source
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._text.short import scalar_text

# Their transposes need no equation: the cotangent, or a part of it, is passed on as it is.
_PASSING = frozenset({p.add_p, p.sub_p, p.convert_element_type_p, p.reshape_p, p.squeeze_p})
_LINEAR = _PASSING | {p.reduce_sum_p, p.neg_p, p.dot_general_p}
_TRANSPOSES = frozenset({(p.reduce_sum_p, p.broadcast_in_dim_p)})
_MOST = 64  # terms of a sum to look at


class Loss(NamedTuple):
    """The loss.

    Attributes:
        eqn: The equation of the forward pass that makes it.
        var: Its variable.
        firsts: The equations of the backward pass that take its derivative, 1.0; if the loss is a
            sum, one for each term.
    """

    eqn: introspect.JaxprEqn
    var: introspect.Var
    firsts: tuple[Any, ...]


def loss_of(graph: DefUse) -> Loss | None:
    """The loss of a jaxpr that has a forward and a backward pass; None if it is not known."""
    eqns = graph.eqns
    firsts: dict[introspect.Source, list[int]] = {}
    factors: set[Any] = set()  # equations of the forward pass with a factor 1.0, as in a transpose
    for i, eqn in enumerate(eqns):
        name = pass_of(eqn) if any(map(is_one, eqn.invars)) else ""
        source = introspect.source_of(eqn) if name else None
        if source is None:
            continue
        kind = source, eqn.primitive, sum(map(is_one, eqn.invars))
        if name == "forward":
            factors.add(kind)
        elif kind not in factors:
            firsts.setdefault(source, []).append(i)
    if not firsts:
        return None
    scalars: dict[Source, Any] = {}  # made by the forward pass
    begins: dict[int, int] = {}  # from an equation to the one that may be its transpose
    for i, eqn in enumerate(eqns):
        made = {(i, k): var for k, var in enumerate(eqn.outvars) if _is_scalar(var.aval)}
        if not made or introspect.is_tag(eqn) or pass_of(eqn) != "forward":
            continue
        scalars |= made
        source = introspect.source_of(eqn)
        for first in firsts.get(source, ()) if source else ():
            if first > i and _is_transpose(eqns[first], eqn):
                begins.setdefault(i, first)
    found: list[Loss] = []
    for (i, k), var in scalars.items():
        users = (eqns[user] for user in graph.users(var) if user < len(eqns))
        summed = [] if any(map(pass_of, users)) else _summed(graph, (i, k), scalars)
        begun = {term: begins[term] for term in summed if term in begins}
        if begun and all(first > i for first in begun.values()):
            found.append(Loss(eqns[i], var, tuple(eqns[k] for k in sorted({*begun.values()}))))
            # If it may also begin at another value, this would be a guess.
            if begins.keys() != begun.keys():
                return None
    return found[0] if len(found) == 1 else None


def is_one(atom: introspect.Atom) -> bool:
    """Whether a value is the literal 1.0."""
    return introspect.is_literal(atom) and scalar_text(atom.val) == "1.0"


def _is_scalar(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    if dtype is None or getattr(aval, "shape", None) != ():
        return False
    return jnp.issubdtype(dtype, jnp.floating)


def _summed(graph: DefUse, source: Source, scalars: Mapping[Source, Any]) -> list[int]:
    """The equation that makes a scalar and, if that is a sum, those that make its terms."""
    todo, found = [source], []
    while todo and len(found) < _MOST:
        source = todo.pop()
        if source in scalars:
            found.append(source[0])
            eqn = graph.eqns[source[0]]
            terms = eqn.invars if eqn.primitive in _PASSING else ()
            todo += [graph.behind(atom)[0] for atom in terms]
    return found


def _is_transpose(first: Any, eqn: introspect.JaxprEqn) -> bool:
    """Whether `first` may be the transpose of an equation from the same source line."""
    pair = eqn.primitive, first.primitive
    if pair[0] is pair[1] or pair in _TRANSPOSES:
        return True
    # The transpose of a nonlinear equation also takes a value kept by the forward pass.
    linear = eqn.primitive in _LINEAR or any(map(introspect.is_literal, eqn.invars))
    kept = any(not introspect.is_literal(atom) for atom in first.invars)
    return kept and not linear and not introspect.is_hop(eqn)
