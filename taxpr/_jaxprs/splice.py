"""Building a jaxpr out of another one's equations and of traced pieces."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr import _compat


def substituted(atoms: Sequence[Any], now: Mapping[Any, Any]) -> list[Any]:
    """The atoms, with the variables that ``now`` replaces replaced."""
    return [atom if isinstance(atom, _compat.Literal) else now.get(atom, atom) for atom in atoms]


def rewired(eqn: _compat.JaxprEqn, now: Mapping[Any, Any]) -> _compat.JaxprEqn:
    """The equation with its operands replaced; itself where none is."""
    for atom in eqn.invars:
        if not isinstance(atom, _compat.Literal) and atom in now:
            invars = substituted(eqn.invars, now)
            return eqn.replace(invars=invars, effects=_compat.moved_effects(eqn.effects, now))
    return eqn


def without(jaxpr: Any, kept: Callable[[int, _compat.JaxprEqn], _compat.JaxprEqn | None]) -> Any:
    """The jaxpr without some equations, in place of whose results stand their operands.

    Args:
        jaxpr: An open or closed jaxpr.
        kept: Gives for each equation, by its index, what takes its place; None where it goes.

    Returns:
        A jaxpr of the same class; itself where all equations stay as they are.
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
    """Builds a jaxpr out of another one's equations and of traced pieces."""

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
        # A value that several injectors close over becomes one constant.
        if id(value) not in self._const_of:
            self._const_of[id(value)] = var
            self._constvars.append(var)
            self._consts.append(value)
        return self._const_of[id(value)]

    def finish(self, invars: Sequence[Any], outvars: Sequence[Any]) -> Any:
        # An open jaxpr (remat's) may have got consts from an injector.
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
    """A closed jaxpr whose results go through another one."""
    inner = _compat.open_jaxpr(jaxpr)
    splice = Splice(inner, _compat.consts_of(jaxpr))
    splice.keep(inner.eqns)
    return splice.finish(inner.invars, splice.inline(piece, inner.outvars))
