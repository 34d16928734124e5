"""Build a jaxpr from the equations of another one and pieces traced separately.

Kept equations are reused and not traced again, so they keep their source, scope and params. Only
variables are substituted: ``now`` maps a variable of the old jaxpr to the atom that has its value.
"""

import operator
from collections.abc import Callable, Mapping, Sequence

from taxpr import _compat
from taxpr._compat import Array, Atom, ClosedJaxpr, J, Jaxpr, JaxprEqn, Var


def substituted(atoms: Sequence[Atom], now: Mapping[Var, Atom]) -> list[Atom]:
    """The atoms with each variable replaced by its value in ``now``."""
    return [atom if isinstance(atom, _compat.Literal) else now.get(atom, atom) for atom in atoms]


def rewired(eqn: JaxprEqn, now: Mapping[Var, Atom]) -> JaxprEqn:
    """The equation with its operands replaced by ``now``; the same object if none changes."""
    for atom in eqn.invars:
        if not isinstance(atom, _compat.Literal) and atom in now:
            invars = substituted(eqn.invars, now)
            return eqn.replace(invars=invars, effects=_compat.moved_effects(eqn.effects, now))
    return eqn


def without(jaxpr: J, kept: Callable[[int, JaxprEqn], JaxprEqn | None]) -> J:
    """Remove or replace equations. A removed one acts as the identity on its operands.

    Args:
        jaxpr: An open or closed jaxpr.
        kept: ``(index, eqn) -> eqn``: the equation to keep in its place; None removes it.

    Returns:
        A jaxpr of the same class; the same object if no equation changes.
    """
    inner = _compat.open_jaxpr(jaxpr)
    now: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
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

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Array]):
        self._jaxpr = jaxpr
        self._eqns: list[JaxprEqn] = []
        self._constvars = list(jaxpr.constvars)
        self._consts = list(consts)
        self._const_of: dict[int, Var] = {}
        self._now: dict[Var, Atom] = {}

    def read(self, atoms: Sequence[Atom]) -> list[Atom]:
        return substituted(atoms, self._now)

    def write(self, variables: Sequence[Var], atoms: Sequence[Atom]) -> None:
        self._now.update(zip(variables, atoms, strict=True))

    def keep(self, eqns: Sequence[JaxprEqn]) -> None:
        self._eqns += [rewired(eqn, self._now) for eqn in eqns]

    def inline(
        self, piece: ClosedJaxpr, atoms: Sequence[Atom], *, again: bool = False
    ) -> list[Atom]:
        """Add the equations of a piece; with ``again`` one that may be there already."""
        inner = _compat.open_jaxpr(piece)
        local: dict[Var, Atom] = dict(zip(inner.invars, atoms, strict=True))
        for var, value in zip(inner.constvars, _compat.consts_of(piece), strict=True):
            local[var] = self._const(var, value)
        for eqn in inner.eqns:
            now = rewired(eqn, local)
            if again:
                fresh = [_compat.fresh_var(var.aval) for var in eqn.outvars]
                local.update(zip(eqn.outvars, fresh, strict=True))
                now = now.replace(outvars=fresh)
            self._eqns.append(now)
        return substituted(inner.outvars, local)

    def _const(self, var: Var, value: Array) -> Var:
        # Injectors that close over the same value share one constvar.
        if id(value) not in self._const_of:
            self._const_of[id(value)] = var
            self._constvars.append(var)
            self._consts.append(value)
        return self._const_of[id(value)]

    def finish(self, invars: Sequence[Var], outvars: Sequence[Atom]) -> ClosedJaxpr:
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


def followed_by(jaxpr: ClosedJaxpr, piece: ClosedJaxpr) -> ClosedJaxpr:
    """The composition of two jaxprs: the results of ``jaxpr`` are the inputs of ``piece``."""
    inner = _compat.open_jaxpr(jaxpr)
    splice = Splice(inner, _compat.consts_of(jaxpr))
    splice.keep(inner.eqns)
    return splice.finish(inner.invars, splice.inline(piece, inner.outvars))
