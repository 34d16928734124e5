"""Build a jaxpr from the equations of another one and pieces traced separately.

Kept equations are reused and not traced again, so they keep their source, scope and params. Only
variables are substituted: ``now`` maps a variable of the old jaxpr to the atom that has its value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr import _compat


def substituted(atoms: Sequence[Any], now: Mapping[Any, Any]) -> list[Any]:
    """The atoms with each variable replaced by its value in ``now``."""
    return [atom if isinstance(atom, _compat.Literal) else now.get(atom, atom) for atom in atoms]


def rewired(eqn: _compat.JaxprEqn, now: Mapping[Any, Any]) -> _compat.JaxprEqn:
    """The equation with its operands replaced by ``now``; the same object if none changes."""
    for atom in eqn.invars:
        if not isinstance(atom, _compat.Literal) and atom in now:
            invars = substituted(eqn.invars, now)
            return eqn.replace(invars=invars, effects=_compat.moved_effects(eqn.effects, now))
    return eqn


def without(jaxpr: Any, kept: Callable[[int, _compat.JaxprEqn], _compat.JaxprEqn | None]) -> Any:
    """Remove or replace equations. A removed one acts as the identity on its operands.

    Args:
        jaxpr: An open or closed jaxpr.
        kept: ``(index, eqn) -> eqn``: the equation to keep in its place; None removes it.

    Returns:
        A jaxpr of the same class; the same object if no equation changes.
    """
    inner = _compat.open_jaxpr(jaxpr)
    now: dict[Any, Any] = {}
    eqns = []
    for position, eqn in enumerate(inner.eqns):
        new = kept(position, eqn)
        if new is None:
            now.update(zip(eqn.outvars, substituted(eqn.invars, now), strict=True))
        else:
            eqns.append(rewired(new, now))
    if len(eqns) == len(inner.eqns) and all(map(operator.is_, eqns, inner.eqns)):
        return jaxpr
    return _compat.rebuilt(jaxpr, eqns=eqns, outvars=substituted(inner.outvars, now))


class Splice:
    """Builds a jaxpr step by step: `keep` equations of the original, `inline` traced pieces.

    Invariant: variables that were replaced are in ``_now``, so every equation that is added later
    must go through `rewired`, and every atom through `read`.
    """

    def __init__(self, jaxpr: Any, consts: Sequence[Any]):
        self._jaxpr = jaxpr
        self._eqns: list[Any] = []
        self._constvars = list(jaxpr.constvars)
        self._consts = list(consts)
        self._const_of: dict[int, Any] = {}
        self._now: dict[Any, Any] = {}

    def read(self, atoms: Sequence[Any]) -> list[Any]:
        return substituted(atoms, self._now)

    def write(self, variables: Sequence[Any], atoms: Sequence[Any]) -> None:
        self._now.update(zip(variables, atoms, strict=True))

    def keep(self, eqns: Sequence[Any]) -> None:
        self._eqns += [rewired(eqn, self._now) for eqn in eqns]

    def inline(self, piece: Any, atoms: Sequence[Any]) -> list[Any]:
        inner = _compat.open_jaxpr(piece)
        local = dict(zip(inner.invars, atoms, strict=True))
        for var, value in zip(inner.constvars, _compat.consts_of(piece), strict=True):
            local[var] = self._const(var, value)
        for eqn in inner.eqns:
            self._eqns.append(rewired(eqn, local))
        return substituted(inner.outvars, local)

    def _const(self, var: Any, value: Any) -> Any:
        # Injectors that close over the same value share one constvar.
        if id(value) not in self._const_of:
            self._const_of[id(value)] = var
            self._constvars.append(var)
            self._consts.append(value)
        return self._const_of[id(value)]

    def finish(self, invars: Sequence[Any], outvars: Sequence[Any]) -> Any:
        # An open jaxpr, such as that of remat, becomes closed if an injector brought consts.
        base = _compat.closed(self._jaxpr, self._consts[: len(self._jaxpr.constvars)])
        return _compat.rebuilt(
            base,
            eqns=self._eqns,
            invars=invars,
            outvars=outvars,
            constvars=self._constvars,
            consts=self._consts,
        )


def followed_by(jaxpr: Any, piece: Any) -> Any:
    """The composition of two jaxprs: the results of ``jaxpr`` are the inputs of ``piece``."""
    inner = _compat.open_jaxpr(jaxpr)
    splice = Splice(inner, _compat.consts_of(jaxpr))
    splice.keep(inner.eqns)
    return splice.finish(inner.invars, splice.inline(piece, inner.outvars))
