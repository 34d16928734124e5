"""Find unrolled Python loops: the program has the equations of every iteration."""

import ast
import collections
import itertools
import linecache
import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr._compat import Jaxpr, JaxprEqn
from taxpr._compile_time.parts import MadeBy, PieceOfPart, function_name
from taxpr._places import place_text
from taxpr._source.parsed import parsed_text
from taxpr._source.statements import Statement

_RANGE = re.compile(r"for .+ in range\((-?\d+(?:, -?\d+){0,2})\)")
_LEAST = 4  # iterations
_ALIKE = 0.9  # the share of the equations that each iteration has


class Unrolled(NamedTuple):
    """A Python loop.

    Attributes:
        function: Its function.
        place: Its line.
        code: Its head.
        iterations: The number of iterations; a loop within others counts all its runs together.
        within: Whether it is within another loop.
        eqns: All equations of it.
        iteration: The equations of one iteration; None if the iterations are not alike.
    """

    function: str
    place: str
    code: str
    iterations: int
    within: bool
    eqns: list[JaxprEqn]
    iteration: PieceOfPart | None

    @property
    def name(self) -> str:
        """The name of its function as `edit` takes it, such as ``Block.__call__``."""
        parts = self.function.split(".")
        return ".".join(parts[-2:] if parts[-1].startswith("__") else parts[-1:])


def unrolled(made: Sequence[MadeBy]) -> list[Unrolled]:
    """The Python loops that a program has unrolled.

    A loop that holds other loops alone is left out, if its head does not say how long it is, or if
    something may end it before: the equations tell only how often the inner ones run.
    """
    loops: dict[tuple[Statement, str, int], list[tuple[MadeBy, bool]]] = {}
    within = set[tuple[Statement, str, int]]()
    jaxprs: dict[int, Jaxpr] = {}
    for one in made:
        jaxprs[id(one.jaxpr)] = one.jaxpr
        innermost = next((held.loops[-1] for held in one.statements if held.loops), None)
        for k, statement in enumerate(one.statements):
            called = any(outer.loops for outer in one.statements[k + 1 :])
            for number, around in enumerate(statement.loops):
                head, place = around
                where = Statement(statement.file, statement.function, place[0], head)
                key = where, head, id(one.jaxpr)
                loops.setdefault(key, []).append((one, around is innermost))
                if called or number:
                    within.add(key)
    found: list[Unrolled] = []
    for key, both in loops.items():
        where, head, home = key
        inside, own = [one for one, _ in both], [one for one, is_own in both if is_own]
        length = None
        if not own:
            length = _length(head)
            if length is None or key in within or _ends_early(where):
                continue
        # A loop in it has more iterations in all, and a backward pass more products in each.
        forward = [one for one in own if not _compat.is_transposed(one.eqn)]
        iterations, iteration = _iteration(inside, forward or inside, length)
        if iterations >= _LEAST:
            piece = PieceOfPart(jaxprs[home], iteration) if iteration else None
            name = function_name(where.function)
            place = place_text(where.file, where.line)
            found.append(
                Unrolled(
                    name,
                    place,
                    head,
                    iterations,
                    key in within,
                    [one.eqn for one in inside],
                    piece,
                )
            )
    return found


def _length(head: str) -> int | None:
    """The number of iterations of a loop over a range of numbers; None for another head."""
    match = _RANGE.fullmatch(head)
    return len(range(*map(int, match[1].split(",")))) if match else None


def _ends_early(loop: Statement) -> bool:
    """Whether a loop may end before its last iteration, by ``break`` or ``return``."""
    parsed = parsed_text("".join(linecache.getlines(loop.file)), loop.file)
    nodes = ast.walk(parsed.tree) if parsed else ()
    found = [node for node in nodes if isinstance(node, ast.For) and node.lineno == loop.line]
    inside = itertools.chain.from_iterable(map(ast.walk, found))
    return not found or any(isinstance(node, ast.Break | ast.Return) for node in inside)


def _iteration(
    inside: Sequence[MadeBy], own: Sequence[MadeBy], length: int | None
) -> tuple[int, list[JaxprEqn]]:
    """The number of iterations of a loop, and the equations of one if all are alike.

    Args:
        inside: The equations in the loop.
        own: Those that count the iterations: in no loop within it, and in no backward pass.
        length: The number of iterations, if it is known.
    """
    counts = collections.Counter(map(_signature, inside))
    by_iterations: collections.Counter[int] = collections.Counter()
    for n in collections.Counter(map(_signature, own)).values():
        by_iterations[n] += n
    iterations = length or by_iterations.most_common(1)[0][0]
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
