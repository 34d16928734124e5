"""Find the mesh axes over which the values of a jaxpr may differ between devices.

JAX tracks this as ``vma`` types if ``check_vma=True``, but ignores control flow: it takes a counter
in a while loop for equal on all devices, even if some of them leave the loop earlier (0.7.2 to
0.12). This is a forward dataflow analysis with a fixed point for loops, as for a taint: the set
of axes of a value only grows, so the iteration ends. The entry of shard_map uses it.
"""

from collections.abc import Hashable, Sequence

from taxpr import _compat
from taxpr._compat import Atom, JaxprEqn, StoredJaxpr, Var
from taxpr._hops.protocol import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag import is_tag

Axes = frozenset[str]
_NONE: Axes = frozenset()


def varying_axes(jaxpr: StoredJaxpr, given: Sequence[Axes]) -> list[Axes]:
    """The axes over which each result may differ, given the axes of each argument.

    An upper bound: a value differs if anything it depends on differs, including the choice of a
    branch or the trip count, unless a collective made it equal again. A value that JAX considers
    varying also varies here.
    """
    return _Analysis().of_jaxpr(jaxpr, tuple(given))


def waiting(jaxpr: StoredJaxpr, given: Sequence[Axes]) -> dict[Hashable, tuple[JaxprEqn, Axes]]:
    """The loops and branches that may deadlock, each with the axes along which it may.

    All devices along an axis must reach a collective over it. They may not if the loop or branch
    around it has a different trip count or choice per device. The keys are the primitive and its
    traceback, which stay the same in a rewritten jaxpr.
    """
    analysis = _Analysis()
    analysis.of_jaxpr(jaxpr, tuple(given))
    return analysis.waiting


class _Analysis:
    def __init__(self) -> None:
        self.waiting: dict[Hashable, tuple[JaxprEqn, Axes]] = {}
        # Memoized, because the fixed point of an outer loop visits inner loops many times.
        self._done: dict[Hashable, list[Axes]] = {}

    def of_jaxpr(self, jaxpr: StoredJaxpr, given: tuple[Axes, ...]) -> list[Axes]:
        inner = _compat.open_jaxpr(jaxpr)
        key = (id(inner), given)
        if key not in self._done:
            axes: dict[Var, Axes] = dict(zip(inner.invars, given, strict=True))

            def read(atom: Atom) -> Axes:
                known = _NONE if _compat.is_literal(atom) else axes.get(atom, _NONE)
                return known | _compat.varying(atom.aval) | _compat.in_parts(atom.aval)

            for eqn in inner.eqns:
                results = self._of_eqn(eqn, [read(atom) for atom in eqn.invars])
                axes.update(zip(eqn.outvars, results, strict=True))
            self._done[key] = [read(atom) for atom in inner.outvars]
        return self._done[key]

    def _of_eqn(self, eqn: _compat.JaxprEqn, operands: list[Axes]) -> list[Axes]:
        nested = nested_jaxprs(eqn)
        if nested and all(None not in one.operands for one in nested):
            return self._of_hop(eqn, nested, operands)
        for one in nested:
            # It is unknown which operands feed which input: assume all of them.
            self.of_jaxpr(one.stored, (_NONE.union(*operands),) * len(one.operands))
        made = _made_by(eqn)
        if is_tag(eqn) or eqn.primitive in _compat.side_by_side:
            return [(axes | made) - _compat.made_equal(eqn) for axes in operands]
        together = _NONE.union(*operands) | made
        return [together - _compat.made_equal(eqn)] * len(eqn.outvars)

    def _of_hop(
        self, eqn: _compat.JaxprEqn, nested: Sequence[Nested], operands: list[Axes]
    ) -> list[Axes]:
        given, results = list(operands), [_NONE] * len(eqn.outvars)
        fed = {k for one in nested for k in one.operands}
        # An operand that feeds no jaxpr is the branch index. A predicate decides the trip count.
        choice = _NONE.union(*(axes for k, axes in enumerate(operands) if k not in fed))
        while True:
            before = (choice, list(given), list(results))
            for one in nested:
                into = [k for k in one.operands if k is not None]
                out = self.of_jaxpr(one.stored, tuple(given[k] for k in into))
                for axes, result, role in zip(out, one.results, one.out_roles, strict=True):
                    if role == "predicate":
                        choice |= axes
                    if result is not None:
                        results[result] |= axes | choice
                for result, invar in one.back:
                    carried = given[into[invar]] | out[result] | choice
                    given[into[invar]] = results[result] = carried
            if before == (choice, given, results):
                break
        if choice and (stuck := choice & _waited_for(eqn)):
            key = eqn.primitive, eqn.source_info.traceback
            _, known = self.waiting.get(key, (eqn, _NONE))
            self.waiting[key] = eqn, known | stuck
        return results


def _waited_for(eqn: _compat.JaxprEqn) -> Axes:
    """The axes along which a collective in the equation waits for all devices."""
    found = _compat.waits_for(eqn)
    for nested in nested_jaxprs(eqn):
        found = found.union(*map(_waited_for, nested.jaxpr.eqns))
    return found


def _made_by(eqn: _compat.JaxprEqn) -> Axes:
    """The axes along which the equation itself makes devices differ, as axis_index does."""
    made = _compat.made_different(eqn)
    for nested in nested_jaxprs(eqn):
        made = made.union(*map(_made_by, nested.jaxpr.eqns))
    return made
