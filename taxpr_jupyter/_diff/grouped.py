"""Group the differences of two programs: people see a `DiffChange` for each group.

Equal differences of equations from the same lines count as one change, with all their places. A
nested jaxpr that is used at many places is read once.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Literal

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.sizes import Sizes
from taxpr_jupyter._diff import phrases
from taxpr_jupyter._diff.phrases import NAME, Rank
from taxpr_jupyter._diff.status import QUIET, InnerPart, Part, Status, borders
from taxpr_jupyter._text.short import Where, shortened, visible

_MOST = 1000  # addresses of one change
_NEAR = 2  # lines with at most this distance are one change


Kind = Literal["equations", "wrapper", "pair", "end"]


@dataclasses.dataclass
class DiffChange:
    """One change for people, at one or several places.

    Attributes:
        what: The change in words, such as ``1e-05→1e-06`` or ``sin``.
        status: ``"changed"``, ``"added"`` or ``"removed"``.
        count: The number of places; of added and removed equations their number, with those in
            their jaxprs.
        addresses: Its places, at most 1,000 of them, in the program before for removed equations,
            else in the program after.
        source: The first line of the source; None if it is unknown.
        last: The last line.
        kind: ``"equations"`` that were added or removed; a ``"wrapper"`` such as `jit` around
            equations that stayed; a ``"pair"`` of equations that differ; an ``"end"``: an input,
            constant or output.
    """

    what: str
    status: Status
    count: int
    addresses: tuple[taxpr.Address, ...]
    source: introspect.Source | None
    last: int
    kind: Kind

    def text(self, where: Where | None = None, times: bool = True) -> str:
        """`sin added in f (model.py:12)`.

        Args:
            where: Writes source lines.
            times: Whether to say at how many places.
        """
        words = [self.what] if self.status == "changed" else [self.what, self.status]
        if self.source is not None:
            words.append(f"in {_place(self.source, self.last, where)}")
        if times and self.count > 1 and self.kind != "equations":
            return f"{' '.join(words)}, {self.count:,} times"
        return " ".join(words)


def _place(source: introspect.Source, last: int, where: Where | None) -> str:
    """`f (model.py:12-14)`."""
    plain = f"{PurePath(source.file).name}:{source.line} in {source.function}"
    place, _, function = (where(source) if where else plain).rpartition(" in ")
    function = visible(function.rpartition("<locals>.")[2])
    if source.file.startswith("<") and place.startswith("<"):  # what was typed in has no file
        return function
    return f"{function} ({visible(place)}{f'-{last}' if last > source.line else ''})"


@dataclasses.dataclass
class _ChangeGroup:
    """Differences that count as one change. Addresses are relative to a jaxpr."""

    rank: Rank
    status: Status
    source: introspect.Source | None
    words: Counter[str]
    kind: Kind
    again: bool = False
    count: int = 1
    addresses: Sequence[str] = ()

    def add(self, other: _ChangeGroup, home: taxpr.Address) -> None:
        self.count += other.count
        self.words.update(other.words)
        room = _MOST - len(self.addresses)
        self.addresses = [*self.addresses, *(home / a for a in other.addresses[:room])]

    def change(self, last: int) -> DiffChange:
        names = [word for word, n in self.words.items() for _ in range(min(n, 3))]
        what = ", ".join(names)
        if self.again:
            what = f"{self.count:,} equation{'s' * (self.count > 1)} of a recomputation"
        elif self.kind == "equations" and len(names) > 2:
            one = len(self.words) == 1
            what = f"{self.count:,}× {names[0]}" if one else f"{self.count:,} equations"
        elif self.kind != "equations":
            what = names[0]
        addresses = tuple(map(taxpr.Address, self.addresses))
        return DiffChange(what, self.status, self.count, addresses, self.source, last, self.kind)


_Groups = dict[Any, _ChangeGroup]


def changes_of(
    part: Part, names: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[DiffChange]:
    """The changes of two programs, the most important first."""
    found = _Reader(names).of(part, top=True)
    return [
        group.change(last)
        for group, last in sorted(_by_lines(found), key=lambda one: (one[0].rank, -one[0].count))
    ]


def _by_lines(groups: _Groups) -> Iterator[tuple[_ChangeGroup, int]]:
    """The groups, joined for equations on neighbouring lines, and the last line of each."""
    runs: dict[Any, list[tuple[_ChangeGroup, int]]] = {}
    for group in groups.values():
        line = group.source.line if group.source else 0
        key = id(group)
        if group.kind == "equations" and group.source:
            key = group.status, group.source.file, group.source.function
        runs.setdefault(key, []).append((group, line))
    for run in runs.values():
        run.sort(key=lambda one: one[1])
        group, last = run[0]
        for other, line in run[1:]:
            if line - last > _NEAR:
                yield group, last
                group = other
            else:
                group.add(other, taxpr.Address())
            last = line
        yield group, last


class _Reader:
    def __init__(self, names: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        self._names = names
        self._sizes = Sizes()
        self._known: dict[int, _Groups] = {}  # by the id of a part

    def of(self, part: Part, top: bool = False) -> _Groups:
        """The groups of two jaxprs."""
        if id(part) in self._known:
            return self._known[id(part)]
        found: _Groups = {}
        for key, group, address in (*self._ends(part, top), *self._eqns(part)):
            group.addresses = (address,)
            _merge(found, key, group)
        for i, inside in part.inside.items():
            for inner in inside:
                self._inside(found, part, i, inner)
        self._known[id(part)] = found
        return found

    def _eqns(self, part: Part) -> Iterator[tuple[Any, _ChangeGroup, str]]:
        before, after = part.sides
        for side in part.sides:
            for i, (status, partner) in enumerate(zip(side.status, side.partner, strict=True)):
                if partner >= 0 or i in side.converts:
                    continue
                eqn, name = side.eqns[i], side.names[i]
                if i in side.opened:
                    source, what = introspect.source_of(eqn), phrases.wrapper(eqn)
                    group = _ChangeGroup(Rank.WRAPPER, status, source, Counter([what]), "wrapper")
                    yield (status, what, source), group, name
                    continue
                key, group = self._alone(
                    status, eqn, phrases.word(eqn), self._sizes.of_eqn(eqn).total
                )
                if i in side.again:
                    key, group.rank, group.source, group.again = (status,), Rank.AGAIN, None, True
                yield key, group, name
        for i, texts in part.what.items():
            if before.status[i] != "changed":
                continue
            ours, theirs = before.eqns[i], after.eqns[before.partner[i]]
            source = introspect.source_of(theirs)
            rank, what = phrases.phrase(ours, theirs, texts)
            group = _ChangeGroup(rank, "changed", source, Counter([what]), "pair")
            key = what, introspect.source_of(ours), source
            yield key, group, after.names[before.partner[i]]

    def _alone(
        self, status: Status, eqn: introspect.JaxprEqn, word: str, size: int
    ) -> tuple[Any, _ChangeGroup]:
        source = introspect.source_of(eqn)
        group = _ChangeGroup(Rank.ALONE, status, source, Counter([word]), "equations", count=size)
        return (status, source), group

    def _inside(self, found: _Groups, part: Part, i: int, inner: InnerPart) -> None:
        before, after = part.sides
        homes = [
            taxpr.Address(side.names[k]) / (label or "")
            for side, k, label in zip(part.sides, (i, before.partner[i]), inner.labels, strict=True)
        ]
        if inner.part is not None:
            for key, group in self.of(inner.part).items():
                _merge(found, key, group, homes[group.status != "removed"])
        elif None in inner.labels:
            side = int(inner.labels[0] is None)
            eqn = (before.eqns[i], after.eqns[before.partner[i]])[side]
            label = inner.labels[side]
            (nested,) = [one for one in introspect.nested_jaxprs(eqn) if one.label == label]
            status: Status = ("removed", "added")[side]
            size = self._sizes.of_jaxpr(nested.jaxpr).total
            _, group = self._alone(status, eqn, nested.title, size)
            local = [local for local, _ in introspect.numbered(nested.jaxpr)]
            group.addresses = [homes[side] / one for one in local[:1]]
            _merge(found, (status, nested.title, group.source), group)

    def _ends(self, part: Part, top: bool) -> Iterator[tuple[Any, _ChangeGroup, str]]:
        for side, own in enumerate(part.sides):
            for word, k, name, end in borders(own, "in", "const", "out"):
                inner = not top and (word != "const" or end.partner is None) and not end.what
                if end.status in QUIET or inner or (end.partner is not None and side == 0):
                    continue
                is_constant = word == "const" or not top
                told = "" if is_constant else f" {self._names[side][word == 'out'][k]}"
                title = {"in": "input", "out": "output", "const": "constant"}[word]
                what = f"{title}{shortened(told, NAME)}"
                if end.partner is not None:
                    what = f"{what}: {phrases.ended(part.sides, name, end.partner, end.what)}"
                rank = Rank.RESULT if word == "out" or end.partner is None else Rank.VALUE
                group = _ChangeGroup(rank, end.status, None, Counter([what]), "end")
                yield (end.status, what), group, name


def _merge(
    found: _Groups, key: Any, group: _ChangeGroup, home: taxpr.Address | None = None
) -> None:
    if key not in found:
        found[key] = dataclasses.replace(group, count=0, words=Counter(), addresses=())
    found[key].add(group, home or taxpr.Address())
