"""Find the mesh axes over which the values of a jaxpr may differ between devices.

JAX tracks this as ``vma`` types if ``check_vma=True``, but ignores control flow: it takes a counter
in a while loop for equal on all devices, even if some of them leave the loop earlier (0.7.2 to
0.12). The entry of shard_map uses this.
"""

from collections.abc import Hashable, Sequence

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr, Var
from taxpr._hops.interpreter import Forwards
from taxpr._hops.nested import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag

Axes = frozenset[str]
_NONE: Axes = frozenset()


def varying_axes(jaxpr: StoredJaxpr, given: Sequence[Axes]) -> list[Axes]:
    """The axes over which each result may differ, given the axes of each argument.

    An upper bound: a value differs if anything it depends on differs, including the choice of a
    branch or the trip count, unless a collective made it equal again. A value that JAX considers
    varying also varies here.
    """
    return _Varying().run(jaxpr, given)


def waiting(jaxpr: StoredJaxpr, given: Sequence[Axes]) -> dict[Hashable, tuple[JaxprEqn, Axes]]:
    """The loops and branches that may deadlock, each with the axes along which it may.

    All devices along an axis must reach a collective over it. They may not if the loop or branch
    around it has a different trip count or choice per device. The keys are the primitive and its
    traceback, which stay the same in a rewritten jaxpr.
    """
    analysis = _Varying()
    analysis.run(jaxpr, given)
    return analysis.waiting


class _Varying(Forwards[Axes]):
    nothing = _NONE
    chooses = True

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[Hashable, tuple[JaxprEqn, Axes]] = {}

    def join(self, each: Sequence[Axes]) -> Axes:
        return _NONE.union(*each)

    def held(self, var: Var, of: Axes, address: Address | None) -> Axes:
        return of | _compat.varying(var.aval) | _compat.in_parts(var.aval)

    def entered(self, eqn: JaxprEqn, operands: Sequence[Axes]) -> Sequence[Nested]:
        nested = nested_jaxprs(eqn)
        if all(None not in one.operands for one in nested):
            return nested
        for one in nested:
            # It is unknown which operands feed which input: assume all of them.
            self.through(one.stored, (self.join(operands),) * len(one.operands), None)
        return ()

    def made(self, eqn: JaxprEqn, operands: Sequence[Axes]) -> Sequence[Axes]:
        made, equal = _made_by(eqn), _compat.made_equal(eqn)
        if is_tag(eqn) or eqn.primitive in _compat.side_by_side:
            return [(axes | made) - equal for axes in operands]
        return [(self.join(operands) | made) - equal] * len(eqn.outvars)

    def decided(self, eqn: JaxprEqn, by: Axes) -> None:
        if by and (stuck := by & _waited_for(eqn)):
            key = eqn.primitive, eqn.source_info.traceback
            _, known = self.waiting.get(key, (eqn, _NONE))
            self.waiting[key] = eqn, known | stuck


def _waited_for(eqn: JaxprEqn) -> Axes:
    """The axes along which a collective in the equation waits for all devices."""
    found = _compat.waits_for(eqn)
    for nested in nested_jaxprs(eqn):
        found = found.union(*map(_waited_for, nested.jaxpr.eqns))
    return found


def _made_by(eqn: JaxprEqn) -> Axes:
    """The axes along which the equation itself makes devices differ, as axis_index does."""
    made = _compat.made_different(eqn)
    for nested in nested_jaxprs(eqn):
        made = made.union(*map(_made_by, nested.jaxpr.eqns))
    return made
