"""Pair the values of two runs, in the order of execution."""

import difflib
import linecache
import math
import re
from collections.abc import Callable, Container, Hashable, Mapping, Sequence

from taxpr._address import Address
from taxpr._devices.blocks import Processes
from taxpr._differences.choices import around
from taxpr._differences.in_step import Pair, in_step, kinds
from taxpr._hops.table import nested_jaxprs
from taxpr._programs.program import Program
from taxpr._recordings.part import Part
from taxpr._sites.walk import iter_eqns
from taxpr._untyped import np
from taxpr._variables.variable import Variable

_Key = Callable[[Part], Hashable]
_LIKE = 0.6  # how much of two lines is the same where they are one that was edited


def aligned(
    a: Sequence[Part],
    b: Sequence[Part],
    chosen: tuple[Mapping[str, str], Mapping[str, str]],
    together: Processes,
) -> list[Pair]:
    """The values that belong together.

    If both have the same variables in the same order, they are paired in that order. Else variables
    of one name are paired: first values that agree, as far as they are in one order; then variables
    bound by an identical source line, then by similar lines, then any others; functions of one name
    come before others. If several differ, they are paired if both sides have as many between two
    that agree, see `in_step`. Values without a variable are paired by equation, type and line, in
    the same order. A variable that is in a loop on one side only, as when a scan became a Python
    loop, has no partner.

    Args:
        a: The values that the first run kept.
        b: The values that the second run kept.
        chosen: The values that choose the branches of either, see `choices`. They are paired if
            values in the branches are.
        together: The processes that have parts of these values.
    """
    if _held(a) == _held(b):  # it is the same source
        pairs = list(zip(*(_variables(of) for of in (a, b)), strict=True))
    else:
        pairs = _by_name(_variables(a), _variables(b), together)
    one, two = _left(a, b, pairs)
    pairs += _choosing(pairs, one, two, *chosen)
    left = [[one for one in of if one.variable is None] for of in _left(a, b, pairs)]
    return pairs + _in_order(*left)


def _variables(parts: Sequence[Part]) -> list[Part]:
    return [one for one in parts if one.variable is not None]


def _left(a: Sequence[Part], b: Sequence[Part], pairs: Sequence[Pair]) -> list[list[Part]]:
    """Those of both that are in no pair."""
    gone = {id(part) for pair in pairs for part in pair}
    return [[part for part in of if id(part) not in gone] for of in (a, b)]


def _by_name(a: Sequence[Part], b: Sequence[Part], together: Processes) -> list[Pair]:
    """Variables that belong together."""
    named = _groups(_NAME, a, b)
    several = [[*ones, *twos] for ones, twos in named if len(ones) + len(twos) > 2]
    alike = kinds(several, together)
    paired: dict[int, int] = {}
    pairs: list[Pair] = []
    of_a: dict[str, str] = {}
    of_b: dict[str, str] = {}

    def label(part: Part) -> Hashable:
        at = paired.get(id(part))
        return (alike.get(id(part), id(part)), None) if at is None else (None, at)

    def pair(key: _Key, *, differing: bool) -> None:
        for ones, twos in _groups(key, a, b):
            for (one, two), equal in list(in_step(ones, twos, label)):
                if id(one) in paired or id(two) in paired or not (equal or differing):
                    continue
                x, y = one.address, two.address
                if not equal and (of_a.get(x, y), of_b.get(y, x)) != (y, x) and _given(one, two):
                    continue  # what a helper is called with is compared by its own names
                of_a.setdefault(x, y)
                of_b.setdefault(y, x)
                paired[id(one)] = paired[id(two)] = len(pairs)
                pairs.append((one, two))

    # First what agrees, whatever line it is of: a line that did not change tells less than numbers.
    pair(_NAME, differing=False)
    for key in _BY_LINE:
        pair(key, differing=True)
    pair(_resembling(*_left(a, b, pairs)), differing=True)
    for key in _BY_NAME:
        pair(key, differing=True)
    # What a helper gets and returns has its name twice, if it is called so there, too.
    a, b = (_once(parts, paired) for parts in (a, b))
    pair(_NAME, differing=True)
    # One that is left in both, on another side of what agrees, was edited and moved.
    a, b = _left(a, b, pairs)
    alone = [of for of in _groups(_NAME, a, b) if len(of[0]) == len(of[1]) == 1]
    a, b = ([of[k][0] for of in alone] for k in (0, 1))
    pair(_NAME, differing=True)
    return pairs


def _given(*parts: Part) -> bool:
    """Whether one of the variables is a parameter."""
    return any(one.variable and one.variable.line == one.variable.begins for one in parts)


def _once(parts: Sequence[Part], paired: Container[int]) -> list[Part]:
    """For each value that has a name several times, the entry that is in a pair, else the first."""
    found: dict[Hashable, Part] = {}
    for part in parts:
        key = _NAME(part), part.address
        if key not in found or id(part) in paired:
            found[key] = part
    return [part for part in parts if found[_NAME(part), part.address] is part]


def _groups(key: _Key, a: Sequence[Part], b: Sequence[Part]) -> list[tuple[list[Part], list[Part]]]:
    """Those of both that have one key."""
    called: dict[Hashable, tuple[list[Part], list[Part]]] = {}
    for k, parts in enumerate((a, b)):
        for part in parts:
            called.setdefault(key(part), ([], []))[k].append(part)
    return [of for name, of in called.items() if name is not None and all(of)]


def _file(one: Variable) -> Hashable:
    return one.file, one.function


def _qualified(one: Variable) -> Hashable:
    return one.function


def _function(one: Variable) -> Hashable:
    return one.function.rpartition(".")[2]


def _any(one: Variable) -> Hashable:
    return None


def _line(part: Part) -> str:
    """The text of the line that bound a variable, empty if it is not known."""
    one = part.variable
    if one is None or Address(part.address).is_argument:
        return "in" if one else ""
    return linecache.getline(one.file, one.line).strip()


def _of(where: Callable[[Variable], Hashable], *, line: bool) -> _Key:
    """A key of the names of variables, with the text of the line or without."""

    def key(part: Part) -> Hashable:
        one = part.variable
        if one is None:
            return None
        # A variable that one of both has in a loop has a value for each iteration there.
        own = where(one), one.text, one.recomputed, len(part.kept.axes)
        text = _line(part)
        if not line:
            return own
        return (own, text) if text else None

    return key


_NAME = _of(_any, line=False)
# What belongs together, the surest first.
_WHERE = _file, _qualified, _function, _any
_BY_LINE = [_of(where, line=True) for where in _WHERE]
_BY_NAME = [_of(where, line=False) for where in _WHERE]


def _resembling(a: Sequence[Part], b: Sequence[Part]) -> _Key:
    """A key of variables by their names and lines, for lines that were edited.

    Two lines of one name are the same line if they are more like each other than like any other.
    """
    same: dict[tuple[Hashable, str], str] = {}
    for ones, twos in _groups(_NAME, a, b):
        texts = [list(dict.fromkeys(map(_line, of))) for of in (ones, twos)]
        like = np.array([[_likeness(x, y) for y in texts[1]] for x in texts[0]])
        for i, j in np.argwhere(like >= _LIKE).tolist():
            others = np.append(np.delete(like[i], j), np.delete(like[:, j], i))
            if (others < like[i, j]).all():
                same[_NAME(ones[0]), texts[1][j]] = texts[0][i]
    of_b = {id(part) for part in b}

    def key(part: Part) -> Hashable:
        name, text = _NAME(part), _line(part)
        return (name, same.get((name, text)) if id(part) in of_b else text) if text else None

    return key


def _likeness(one: str, two: str) -> float:
    return difflib.SequenceMatcher(None, one, two, autojunk=False).ratio()


def _held(parts: Sequence[Part]) -> list[Hashable]:
    """The variables, in their order, with the number of each value."""
    every = [one.variable for one in parts]
    return [(_file(one), one.line, one.text, one.occurrence) for one in every if one]


def _choosing(
    pairs: Sequence[Pair],
    a: Sequence[Part],
    b: Sequence[Part],
    of_a: Mapping[str, str],
    of_b: Mapping[str, str],
) -> list[Pair]:
    """Values that choose between branches whose values are in pairs."""
    left = {one.address: one for one in a}, {one.address: one for one in b}
    found: list[Pair] = []
    for one, two in pairs:
        eqns = [*around(one.address, of_a)], [*around(two.address, of_b)]
        if len(eqns[0]) != len(eqns[1]):
            continue
        for eqn, other in zip(*eqns, strict=True):
            both = left[0].pop(of_a[eqn], None), left[1].get(of_b[other])
            if both[0] is not None and both[1] is not None:
                found.append((both[0], left[1].pop(both[1].address)))
    return found


def _in_order(a: Sequence[Part], b: Sequence[Part]) -> list[Pair]:
    keys = [list(map(_computed, of)) for of in (a, b)]
    blocks = difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    return [(a[i + k], b[j + k]) for i, j, n in blocks for k in range(n)]


def _computed(part: Part) -> Hashable:
    """A key of how a value is computed: the address without its numbers, the shape and the line."""
    return re.sub(r"(^|/)\d+:", r"\1", part.address), part.kept.shape, part.file, part.line


def reversed_loops(program: Program) -> frozenset[str]:
    """The addresses of the loops that run from their last iteration to the first."""
    return frozenset(
        str(address)
        for address, eqn in iter_eqns(program.jaxpr)
        if any(nested.reverse for nested in nested_jaxprs(eqn))
    )


def iterations_of(part: Part, at: Sequence[int], backwards: Container[str]) -> tuple[int, ...]:
    """Numbers that sort iterations in the order of execution."""
    pairs = zip(part.kept.axes, at, strict=False)
    return tuple(-k if axis in backwards else k for axis, k in pairs)


def order_of(part: Part, at: Sequence[int], backwards: Container[str]) -> tuple[float, ...]:
    """A key that sorts values in the order of execution."""
    iterations = dict(zip(part.kept.axes, iterations_of(part, at, backwards), strict=False))
    key: list[float] = []
    home = Address()
    for number, local in enumerate(Address(part.address).parts):
        home = home / local
        if number % 2 == 0:
            kind = Address(local)
            key += [kind.number if kind.kind in ("eqn", "tag") else -1]
            key += [iterations.get(home, 0) if kind.result is None else math.inf]
    return tuple(key)
