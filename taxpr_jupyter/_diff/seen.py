"""`HashedGraph`: the def-use graph of one jaxpr for a comparison.

Tags are transparent. So are wrappers that are opened: their jaxprs take their places.
"""

from collections.abc import Collection, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from taxpr import introspect
from taxpr_jupyter._analysis.def_use import CONST, INPUT, LITERAL, Source
from taxpr_jupyter._analysis.structural_hash import EqnKeys, Keys
from taxpr_jupyter._diff.wrappers import wrapped

_Found = tuple[Source, tuple[int, ...]]  # a source before any tags, and these tags, last first


class HashedGraph:
    """A graph with the structural hashes of its equations and literals.

    Args:
        jaxpr: The jaxpr, or a program.
        consts: The values of its constants, as far as these are known.
        keys: The structural hashes.
        opened: The names of the wrappers whose equations are compared as if they stood alone. These
            have names such as ``0:remat2/call/3:add``.

    Attributes:
        jaxpr: The jaxpr.
        names: The address of each equation, from here.
        eqns: The equations, those in an opened wrapper after it.
        keys: The numbers of each equation.
        is_tag: Whether each equation is a tag.
        skip: Whether it is a tag, an opened wrapper or in `converts`: these are not matched.
        converts: The equations in opened wrappers that convert a literal from outside. Where
            nothing is wrapped, JAX has converted the number before.
        again: Whether a backward pass computes it again (`taxpr.introspect.Nested.recomputed`).
        operands: For each equation the source of each operand, before any tags.
        through: For each equation the tags that each operand goes through, last first.
        outs: The source of each output, before any tags.
        out_through: The tags that each output goes through, last first.
        uses: For each source the equations that use it, without tags, and the operand's number.
        ends: For each source the outputs with this value.
        opened: The jaxpr of each opened wrapper, by position.
        consts: The constants, also of opened wrappers: name, variable, and the number of the value
            or None. Without those of a wrapper that have a value of one before.
        literals: A literal of each number.
    """

    def __init__(
        self, jaxpr: Any, consts: Sequence[Any], keys: Keys, opened: Collection[str] = ()
    ) -> None:
        self.jaxpr = jaxpr
        self._numbers, self._wanted = keys, opened
        self.names: list[str] = []
        self.eqns: list[Any] = []
        self.is_tag: list[bool] = []
        self.again: list[bool] = []
        self.operands: list[list[Source]] = []
        self.through: list[list[tuple[int, ...]]] = []
        self.opened: dict[int, introspect.Nested] = {}
        self.converts: set[int] = set()
        self.consts: list[tuple[str, Any, int | None]] = []
        self.literals: dict[int, Any] = {}
        self._held: dict[int, int] = {}  # the first constant of each value
        made: dict[Any, _Found] = {var: ((INPUT, k), ()) for k, var in enumerate(jaxpr.invars)}
        outs = self._read(jaxpr, consts, made, "", again=False)
        self.keys: list[EqnKeys] = [keys.eqn(eqn) for eqn in self.eqns]
        without = self.converts.union(self.opened)
        self.skip = [is_tag or i in without for i, is_tag in enumerate(self.is_tag)]
        self.uses: dict[Source, list[tuple[int, int]]] = {}
        for i, operands in enumerate(self.operands):
            for k, source in enumerate(() if self.skip[i] else operands):
                if source[0] != LITERAL:
                    self.uses.setdefault(source, []).append((i, k))
        self.outs, self.out_through = [source for source, _ in outs], [tags for _, tags in outs]
        self.ends: dict[Source, list[int]] = {}
        for k, source in enumerate(self.outs):
            self.ends.setdefault(source, []).append(k)

    def results(self, i: int) -> int:
        """The number of results of an equation."""
        return len(self.eqns[i].outvars)

    def is_hop(self, i: int) -> bool:
        """Whether an equation has nested jaxprs."""
        return introspect.is_hop(self.eqns[i])

    def _read(
        self, jaxpr: Any, consts: Sequence[Any], made: dict[Any, _Found], home: str, again: bool
    ) -> list[_Found]:
        """Read a jaxpr, given the sources of its inputs; the sources of its outputs."""
        # Some equations have operands for their constvars. Then the values are unknown.
        known = len(consts) == len(jaxpr.constvars)
        for k, var in enumerate(jaxpr.constvars):
            value = self._numbers.value(consts[k]) if known else None
            number = len(self.consts)
            if home and value is not None:
                number = self._held.get(value, number)
            made[var] = (CONST, number), ()
            if number == len(self.consts):
                self.consts.append((f"{home}const{k}", var, value))
            if value is not None:
                self._held.setdefault(value, number)

        def of(atom: introspect.Atom) -> _Found:
            if not introspect.is_literal(atom):
                return made[atom]
            number = self._numbers.literal(atom)
            self.literals[number] = atom
            return (LITERAL, number), ()

        for local, eqn in introspect.numbered(jaxpr):
            i, name, found = len(self.eqns), f"{home}{local}", [of(atom) for atom in eqn.invars]
            is_tag = introspect.is_tag(eqn)
            self.names.append(name)
            self.eqns.append(eqn)
            self.is_tag.append(is_tag)
            self.again.append(again)
            self.operands.append([source for source, _ in found])
            self.through.append([tags for _, tags in found])
            results: list[_Found] = [((i, k), ()) for k in range(len(eqn.outvars))]
            if is_tag:
                results = [(source, (i, *tags)) for source, tags in found]
            elif name in self._wanted and (inner := wrapped(eqn)) is not None:
                self.opened[i] = inner
                inside = dict(zip(inner.jaxpr.invars, found, strict=True))
                within = f"{name}/{inner.label}/"
                is_again = again or inner.recomputed
                results = self._read(inner.jaxpr, inner.consts, inside, within, is_again)
            elif home and found and found[0][0][0] == LITERAL and _converts_a_number(eqn, jaxpr):
                self.converts.add(i)
                results = found
            made.update(zip(eqn.outvars, results, strict=True))
        return [of(atom) for atom in jaxpr.outvars]


def _converts_a_number(eqn: introspect.JaxprEqn, jaxpr: Any) -> bool:
    """Whether an equation converts a Python scalar that its jaxpr is given, and it stays one."""
    if eqn.primitive is not lax.convert_element_type_p or eqn.invars[0] not in jaxpr.invars:
        return False
    given: Any = eqn.invars[0].aval
    made: Any = eqn.outvars[0].aval
    wider = {"i": jnp.number, "f": jnp.inexact, "c": jnp.complexfloating}
    return given.weak_type and jnp.issubdtype(made.dtype, wider.get(given.dtype.kind, given.dtype))
