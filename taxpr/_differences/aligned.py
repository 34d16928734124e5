"""Which values of two runs belong together, and the order in which they were computed."""

import difflib
import linecache
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Hashable, Sequence

from taxpr._address import Address
from taxpr._hops.table import nested_jaxprs
from taxpr._programs.program import Program
from taxpr._recordings.recorded import Part
from taxpr._sites.walk import iter_eqns

Pair = tuple[Part, Part]


def aligned(a: Sequence[Part], b: Sequence[Part]) -> list[Pair]:
    """The values that belong together.

    Variables by their names, those of a function by its name, too, where another has them; what
    has no variable by what computes it, its type and line, in the same order. A variable that is
    in a loop of one only, as where a scan became a loop of Python, has no partner; nor has one that
    held another number of values, unless the same line bound both.
    """
    pairs: list[Pair] = []
    for key in (_whole, _short, _bare):
        pairs += _by(key, _left(a, [one for one, _ in pairs]), _left(b, [two for _, two in pairs]))
    left = _left(a, [one for one, _ in pairs]), _left(b, [two for _, two in pairs])
    pairs += _in_order(*([one for one in of if one.variable is None] for of in left))
    held = [Counter(map(_held, of)) for of in (a, b)]
    return [
        (one, two)
        for one, two in pairs
        if held[0][_held(one)] == held[1][_held(two)] or _same_line(one, two)
    ]


def _held(part: Part) -> Hashable:
    """What holds several values one after the other: a variable of one function."""
    one = part.variable
    return (one.owner, one.text, one.recomputed) if one else part.address


def _same_line(one: Part, two: Part) -> bool:
    if all(part.address.startswith("in") for part in (one, two)):
        return True  # arguments
    texts = [linecache.getline(part.file or "", part.line or 0).strip() for part in (one, two)]
    return texts[0] == texts[1] != ""


def _left(parts: Sequence[Part], taken: Sequence[Part]) -> list[Part]:
    gone = set(map(id, taken))
    return [part for part in parts if id(part) not in gone]


def _whole(part: Part) -> Hashable:
    one = part.variable
    return one and (one.file, one.function, one.text, one.occurrence, one.recomputed, _loops(part))


def _short(part: Part) -> Hashable:
    one = part.variable
    return one and (
        one.function.rpartition(".")[2],
        one.text,
        one.occurrence,
        one.recomputed,
        _loops(part),
    )


def _bare(part: Part) -> Hashable:
    one = part.variable
    return one and (one.text, one.occurrence, one.recomputed, _loops(part))


def _loops(part: Part) -> int:
    """How many loops are around a value; one that each iteration has pairs with no single one."""
    return len(part.kept.axes)


def _by(key: Callable[[Part], Hashable], a: Sequence[Part], b: Sequence[Part]) -> list[Pair]:
    """Those that alone have a key, in both."""
    counts = [Counter(map(key, of)) for of in (a, b)]
    of_b = {key(part): part for part in b}
    return [
        (part, of_b[key(part)])
        for part in a
        if key(part) is not None and counts[0][key(part)] == counts[1][key(part)] == 1
    ]


def _in_order(a: Sequence[Part], b: Sequence[Part]) -> list[Pair]:
    keys = [list(map(_computed, of)) for of in (a, b)]
    blocks = difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    return [(a[i + k], b[j + k]) for i, j, n in blocks for k in range(n)]


def _computed(part: Part) -> Hashable:
    """What computes a value: the address without its numbers, the shape and the line."""
    return re.sub(r"(^|/)\d+:", r"\1", part.address), part.kept.shape, part.file, part.line


def reversed_loops(program: Program) -> frozenset[str]:
    """The addresses of the loops that run from their last iteration to the first."""
    return frozenset(
        str(address)
        for address, eqn in iter_eqns(program.jaxpr)
        if any(nested.reverse for nested in nested_jaxprs(eqn))
    )


def turns_of(part: Part, at: Sequence[int], backwards: Container[str]) -> tuple[int, ...]:
    """Numbers by which iterations sort as they run."""
    pairs = zip(part.kept.axes, at, strict=False)
    return tuple(-k if axis in backwards else k for axis, k in pairs)


def order_of(part: Part, at: Sequence[int], backwards: Container[str]) -> tuple[float, ...]:
    """A key by which values sort as they were computed."""
    turns = dict(zip(part.kept.axes, turns_of(part, at, backwards), strict=False))
    key: list[float] = []
    home = Address()
    for number, local in enumerate(Address(part.address).parts):
        home = home / local
        if number % 2 == 0:
            kind = Address(local)
            key += [kind.number if kind.kind in ("eqn", "tag") else -1]
            key += [turns.get(home, 0) if kind.result is None else math.inf]
    return tuple(key)
