"""Which values of two runs belong together, and the order in which they were computed."""

import difflib
import linecache
import math
import re
from collections.abc import Callable, Container, Hashable, Sequence

from taxpr._address import Address
from taxpr._hops.table import nested_jaxprs
from taxpr._programs.program import Program
from taxpr._recordings.part import Part
from taxpr._sites.walk import iter_eqns
from taxpr._variables.table import Variable

Pair = tuple[Part, Part]
_Key = Callable[[Part], Hashable]


def aligned(a: Sequence[Part], b: Sequence[Part]) -> list[Pair]:
    """The values that belong together.

    Variables of one name do: first those that a line of the same text bound, wherever it stands,
    then others; of functions of one name before those of others. Where as many are called so in
    both, they belong together in their order. What has no variable belongs together by what
    computes it, its type and line, in the same order. A variable that is in a loop of one only, as
    where a scan became a loop of Python, has no partner.
    """
    pairs: list[Pair] = []
    for key, may_repeat in _KEYS:
        pairs += _by(key, may_repeat, *_left(a, b, pairs))
    left = [[one for one in of if one.variable is None] for of in _left(a, b, pairs)]
    return pairs + _in_order(*left)


def _left(a: Sequence[Part], b: Sequence[Part], pairs: Sequence[Pair]) -> list[list[Part]]:
    """Those of both that are in no pair."""
    gone = {id(part) for pair in pairs for part in pair}
    return [[part for part in of if id(part) not in gone] for of in (a, b)]


def _file(one: Variable) -> Hashable:
    return one.file, one.function


def _qualified(one: Variable) -> Hashable:
    return one.function


def _function(one: Variable) -> Hashable:
    return one.function.rpartition(".")[2]


def _any(one: Variable) -> Hashable:
    return None


def _of(where: Callable[[Variable], Hashable], *, line: bool, turn: bool) -> _Key:
    """A key of what variables are called: with the text of the line, and which value it is."""

    def key(part: Part) -> Hashable:
        one = part.variable
        if one is None:
            return None
        # A variable that one of both has in a loop has a value for each iteration there.
        own = where(one), one.text, one.recomputed, len(part.kept.axes)
        is_argument = Address(part.address).is_argument
        text = "in" if is_argument else linecache.getline(one.file, one.line).strip()
        if not line:
            return own
        return (own, text, one.occurrence if turn else None) if text else None

    return key


# What belongs together, the surest first; and whether several may be called so.
_KEYS: list[tuple[_Key, bool]] = [
    *((_of(where, line=True, turn=False), True) for where in (_file, _qualified, _function, _any)),
    *((_of(where, line=True, turn=True), False) for where in (_file, _qualified, _function)),
    *((_of(where, line=False, turn=False), True) for where in (_file, _qualified, _function)),
    (_of(_any, line=False, turn=False), False),
]


def _by(key: _Key, may_repeat: bool, a: Sequence[Part], b: Sequence[Part]) -> list[Pair]:
    """Those that have a key, in their order, where as many have it in both."""
    called: list[dict[Hashable, list[Part]]] = [{}, {}]
    for of, parts in zip(called, (a, b), strict=True):
        for part in parts:
            of.setdefault(key(part), []).append(part)
    return [
        pair
        for name, ones in called[0].items()
        if name is not None
        and len(ones) == len(called[1].get(name, ()))
        and (may_repeat or len(ones) == 1)
        for pair in zip(ones, called[1][name], strict=True)
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
