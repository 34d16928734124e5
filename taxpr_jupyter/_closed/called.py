"""The user's functions that a statement or the nested jaxprs of an equation call."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

import jax.extend.core.primitives as p

from taxpr import introspect
from taxpr_jupyter._analysis.names import function_of, is_of_library
from taxpr_jupyter._closed.listed import bare
from taxpr_jupyter._closed.running import READ, Read, name_of, read, shared

_DERIVED = frozenset({"jvp", "transpose"})

Transformations = tuple[str, ...]
Calls = tuple[tuple[str, ...], Collection[str]]  # all functions, and whose result it may be


class CalledFunctions:
    """Finds the functions that are called, in each jaxpr once."""

    def __init__(self) -> None:
        # By a jaxpr and what is around it.
        self._known: introspect.ByIdentity[dict[Transformations, tuple[str, ...]]]
        self._known = introspect.ByIdentity()

    def at(self, rows: Sequence[Read], level: int, around: Transformations) -> Calls:
        """The functions that a statement at a level of the stacks calls, the user's or JAX's."""
        if found := _of_jax(rows, rows[0].stack[level]):
            return found
        made: dict[str, list[introspect.JaxprEqn]] = {}
        looped: set[str] = set()  # in a loop, in a branch, or by a library
        for one in rows:
            if name := next(filter(None, map(name_of, one.stack[level + 1 :])), ""):
                made.setdefault(name, []).append(one.eqn)
            elif len(one.stack) == level + 1:
                for nested in introspect.nested_jaxprs(one.eqn):
                    plain = nested.trips == 1 and not nested.conditional
                    for found in self.of(nested, one.eqn, around):
                        made.setdefault(found, []).append(one.eqn)
                        if not plain or found != function_of(nested, one.eqn):
                            looped.add(found)
        names = _signed(made, around)
        return names, [name for name in names if looped.isdisjoint((name, *bare([name])))]

    def of(
        self, nested: introspect.Nested, eqn: introspect.JaxprEqn, around: Transformations
    ) -> tuple[str, ...]:
        """The user's function that a nested jaxpr was traced from, or those that it calls."""
        called = self._known.of(nested.jaxpr, lambda _: {})
        if around not in called:
            called[around] = self._read_called(nested, eqn, around)
        return called[around]

    def _read_called(
        self, nested: introspect.Nested, eqn: introspect.JaxprEqn, around: Transformations
    ) -> tuple[str, ...]:
        if name := function_of(nested, eqn):
            return (name,)
        every = [read(one) for one in nested.jaxpr.eqns[:READ]]
        # The function that the jaxpr was traced from is running, if it is the user's.
        own = (
            0
            if is_of_library(nested, eqn)
            else shared([one.stack[:1] for one in every if one.stack])
        )
        made: dict[str, list[introspect.JaxprEqn]] = {}
        for one in every:
            if name := next(filter(None, map(name_of, one.stack[own:])), ""):
                made.setdefault(name, []).append(one.eqn)
                continue
            for inner in introspect.nested_jaxprs(one.eqn):
                for found in self.of(inner, one.eqn, around):
                    made.setdefault(found, []).append(one.eqn)
        return _signed(made, around)


def _of_jax(rows: Sequence[Read], frame: introspect.Statement) -> Calls | None:
    """The function of JAX that a statement calls, if it is the point of the statement."""
    if all(one.eqn.primitive is p.stop_gradient_p for one in rows):
        return ("stop_gradient",), ["stop_gradient"]
    if "associative_scan(" in frame.text:
        found = map(introspect.associative_scan_of, (one.eqn for one in rows))
        if any(one is not None and one.place == frame.place for one in found):
            return ("associative_scan",), ["associative_scan"]
    return None


def _signed(
    made: Mapping[str, Sequence[introspect.JaxprEqn]], around: Transformations
) -> tuple[str, ...]:
    """Functions with the equations that each has made; with `∂` if its derivative is taken.

    Then all of them are in a `jvp`, and some are transposed. A function that takes a derivative
    itself has other ones.

    Args:
        made: The functions.
        around: The transformations of all that is around.
    """
    signed: list[str] = []
    for name, eqns in made.items():
        own = [introspect.transformations_of(eqn)[len(around) :] for eqn in eqns]
        derived = any("transpose" in one for one in own)
        derived = derived and not any(_DERIVED.isdisjoint(one) for one in own)
        signed.append(f"∂ {name}" if derived and not name.startswith("∂ ") else name)
    return tuple(dict.fromkeys(signed))


def transformed(eqns: Iterable[introspect.JaxprEqn]) -> Transformations:
    """The transformations that all equations are in."""
    alike = zip(*map(introspect.transformations_of, eqns), strict=False)
    first = itertools.takewhile(lambda names: len(set(names)) == 1, alike)
    return tuple(names[0] for names in first)
