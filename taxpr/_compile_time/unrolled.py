"""Find unrolled Python loops: the program has the equations of every iteration."""

import collections
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr._compat import Jaxpr, JaxprEqn
from taxpr._compile_time.parts import MadeBy, PieceOfPart, function_name
from taxpr._places import place_text
from taxpr._source.statements import Statement

_LEAST = 4  # iterations
_ALIKE = 0.9  # the share of the equations that each iteration has


class Unrolled(NamedTuple):
    """A Python loop.

    Attributes:
        function: Its function.
        place: Its line.
        code: Its head.
        iterations: The number of iterations.
        eqns: All equations of it.
        iteration: The equations of one iteration; None if the iterations are not alike.
    """

    function: str
    place: str
    code: str
    iterations: int
    eqns: list[JaxprEqn]
    iteration: PieceOfPart | None

    @property
    def name(self) -> str:
        """The name of its function as `edit` takes it, such as ``Block.__call__``."""
        parts = self.function.split(".")
        return ".".join(parts[-2:] if parts[-1].startswith("__") else parts[-1:])


def unrolled(made: Sequence[MadeBy]) -> list[Unrolled]:
    """The Python loops that a program has unrolled."""
    loops: dict[tuple[Statement, str, int], list[tuple[MadeBy, bool]]] = {}
    jaxprs: dict[int, Jaxpr] = {}
    for one in made:
        jaxprs[id(one.jaxpr)] = one.jaxpr
        innermost = next((held.loops[-1] for held in one.statements if held.loops), None)
        for statement in one.statements:
            for around in statement.loops:
                head, place = around
                where = Statement(statement.file, statement.function, place[0], head)
                key = where, head, id(one.jaxpr)
                loops.setdefault(key, []).append((one, around is innermost))
    found: list[Unrolled] = []
    for (where, head, home), both in loops.items():
        inside = [one for one, _ in both]
        # A loop in it has more iterations in all, and a backward pass more products in each.
        own = [one for one, is_own in both if is_own and not _compat.is_transposed(one.eqn)]
        iterations, iteration = _iteration(inside, own or inside)
        if iterations >= _LEAST:
            piece = PieceOfPart(jaxprs[home], iteration) if iteration else None
            name = function_name(where.function)
            place = place_text(where.file, where.line)
            found.append(
                Unrolled(name, place, head, iterations, [one.eqn for one in inside], piece)
            )
    return found


def _iteration(inside: Sequence[MadeBy], own: Sequence[MadeBy]) -> tuple[int, list[JaxprEqn]]:
    """The number of iterations of a loop, and the equations of one if all are alike.

    Args:
        inside: The equations in the loop.
        own: Those that count the iterations: in no loop within it, and in no backward pass.
    """
    counts = collections.Counter(map(_signature, inside))
    by_iterations: collections.Counter[int] = collections.Counter()
    for n in collections.Counter(map(_signature, own)).values():
        by_iterations[n] += n
    iterations, _ = by_iterations.most_common(1)[0]
    alike = {kind: n // iterations for kind, n in counts.items() if n % iterations == 0}
    if sum(counts[kind] for kind in alike) < _ALIKE * len(inside):
        return iterations, []
    iteration: list[JaxprEqn] = []
    for one in inside:
        if alike.get(_signature(one), 0) > 0:
            alike[_signature(one)] -= 1
            iteration.append(one.eqn)
    return iterations, iteration


def _signature(one: MadeBy) -> Hashable:
    """A key that is equal for the same equation in different iterations."""
    places = tuple((held.file, *held.place, *held.part) for held in one.statements)
    avals = tuple(str(_compat.aval_of(atom)) for atom in (*one.eqn.invars, *one.eqn.outvars))
    return one.eqn.primitive, places, avals
