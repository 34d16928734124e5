"""Plain data for the comparison of two jaxprs: the status of each equation, input and output."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from taxpr import Address

Status = Literal[
    "same",
    "inside",  # only its jaxprs changed
    "follows",  # other types, because its operands have other types
    "changed",  # other params, literals, types or operands
    "added",
    "removed",
]
STATUSES: tuple[Status, ...] = ("same", "inside", "follows", "changed", "added", "removed")
QUIET = frozenset({"same", "follows"})  # nothing was changed here


class EndStatus(NamedTuple):
    """An input, constant or output.

    Attributes:
        status: Its status.
        partner: Its partner, such as ``in2``; None if it has none.
        what: The difference in words.
    """

    status: Status
    partner: str | None
    what: str = ""


@dataclass(eq=False)
class Side:
    """One of two jaxprs.

    Attributes:
        jaxpr: The jaxpr.
        names: The last part of the address of each equation.
        eqns: The equations.
        status: The status of each equation.
        partner: The position of the partner of each; -1 if it has none.
        ends: Inputs, constants and outputs by name, such as ``in0``, ``const0``, ``out0``.
        opened: Wrappers that were looked through, by position: they have no partners, but their
            contents may have. It is ``"the same"`` or ``"compared"``.
        again: The equations in opened wrappers that a backward pass computes again.
        converts: The equations in opened wrappers that convert a literal from outside.
        held: The variable of each constant, by name.
    """

    jaxpr: Any
    names: Sequence[str]
    eqns: Sequence[Any]
    status: list[Status]
    partner: Sequence[int]
    ends: dict[str, EndStatus] = field(default_factory=dict)
    opened: dict[int, str] = field(default_factory=dict)
    again: frozenset[int] = frozenset()
    converts: frozenset[int] = frozenset()
    held: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def position(self) -> Mapping[str, int]:
        """The position of an equation by its name."""
        return {name: i for i, name in enumerate(self.names)}

    def first(self, parts: Sequence[str]) -> tuple[str, int]:
        """The name of the first place here on the way of an address.

        Returns:
            The name, through opened wrappers, and how many parts it has.
        """
        name, n = parts[0], 1
        while n + 1 < len(parts) and self.position[name] in self.opened:
            name, n = f"{name}/{parts[n]}/{parts[n + 1]}", n + 2
        return name, n


class InnerPart(NamedTuple):
    """Two nested jaxprs of two equations that are partners.

    Attributes:
        labels: Their labels; None for a missing one.
        part: Their comparison; None if they are equal or one is missing.
    """

    labels: tuple[str | None, str | None]
    part: Part | None


@dataclass(eq=False)
class Part:
    """Two jaxprs compared.

    Attributes:
        sides: Before and after.
        what: The differences in words, by position in the jaxpr before.
        inside: The nested jaxprs, by position in the jaxpr before, unless all are equal.
        counts: The number of equations of each status, with those inside.
    """

    sides: tuple[Side, Side]
    what: dict[int, tuple[str, ...]] = field(default_factory=dict)
    inside: dict[int, tuple[InnerPart, ...]] = field(default_factory=dict)
    counts: Counter[Status] = field(default_factory=Counter)

    @functools.cached_property
    def is_quiet(self) -> bool:
        """Whether nothing differs except types that follow from operands."""
        return all(
            QUIET.issuperset(side.status) and all(end.status in QUIET for end in side.ends.values())
            for side in self.sides
        )

    @functools.cached_property
    def near(self) -> tuple[frozenset[int], frozenset[int]]:
        """For each side, the equations next to one that only the other side has."""
        return _next_to(self.sides[1]), _next_to(self.sides[0])

    def inner(self, side: int, position: int) -> tuple[InnerPart, ...]:
        """The nested jaxprs of an equation of a side."""
        first = position if side == 0 else self.sides[1].partner[position]
        return self.inside.get(first, ())

    def nested(self, side: int, position: int, label: str) -> InnerPart | None:
        """The nested jaxpr of an equation with a label; None if all of them are equal."""
        found = (one for one in self.inner(side, position) if one.labels[side] == label)
        return next(found, None)


def _next_to(side: Side) -> frozenset[int]:
    """The partners of equations that are next to one without a partner."""
    found, last, alone = set(), -1, False
    for partner in side.partner:
        if partner < 0:
            alone = True
            continue
        if alone:
            found |= {last, partner}
        last, alone = partner, False
    return frozenset(found | ({last} if alone else set())) - {-1}


def pairs(part: Part, homes: tuple[Address, Address]) -> Iterator[tuple[Address, Address]]:
    """The addresses of all pairs of equations, each before those in its nested jaxprs."""
    before, after = part.sides
    for i, j in enumerate(before.partner):
        if j < 0:
            continue
        here, there = homes[0] / before.names[i], homes[1] / after.names[j]
        yield here, there
        for (ours, theirs), inner in part.inside.get(i, ()):
            if inner is not None:
                yield from pairs(inner, (here / (ours or ""), there / (theirs or "")))


def statuses(part: Part, side: int, home: Address) -> Iterator[tuple[Address, Status]]:
    """The address and status of everything that was compared on one side."""
    own = part.sides[side]
    for name, end in own.ends.items():
        yield home / name, end.status
    for i, (name, status) in enumerate(zip(own.names, own.status, strict=True)):
        yield home / name, status
        for labels, inner in part.inner(side, i):
            if inner is not None:
                yield from statuses(inner, side, home / name / (labels[side] or ""))


def parsed(name: str) -> tuple[str, int]:
    """`("in", 2)` for `in2`; of an opened wrapper for `0:jit/call/in2`."""
    name = name.rpartition("/")[2]
    word = name.rstrip("0123456789")
    return word, int(name[len(word) :])


def atom_of(side: Side, name: str) -> Any:
    """The variable of an input, constant or output; an output may be a literal."""
    word, k = parsed(name)
    return side.held[name] if word == "const" else getattr(side.jaxpr, f"{word}vars")[k]


def borders(side: Side, *words: str) -> Iterator[tuple[str, int, str, EndStatus]]:
    """Inputs, constants and outputs: kind, number, name. Those that wrappers have are left out."""
    for name, end in side.ends.items():
        word, k = parsed(name)
        if word in words and ("/" not in name or name in side.held):
            yield word, k, name, end
