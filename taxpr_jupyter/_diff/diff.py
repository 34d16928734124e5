"""`diff` and its result `Diff`: the status and partner of every place of two programs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import taxpr
from taxpr_jupyter._diff.differ import Differ
from taxpr_jupyter._diff.grouped import DiffChange, changes_of
from taxpr_jupyter._diff.status import STATUSES, Part, Status, pairs, statuses
from taxpr_jupyter._text.short import Where

_SAID = 3  # changes in a summary
# The status of a place, its partner, and its differences.
_Found = tuple[Status, taxpr.Address | None, tuple[str, ...]]


def diff(before: taxpr.Program, after: taxpr.Program) -> Diff:
    """Compare two programs.

    Ignores letters, source lines and the order of independent equations. A tag is transparent: a
    new tag is ``"added"``, and the users of its value stay ``"same"``. So is a wrapper such as
    `jit` that only one program has, where the other one has what it wraps. Functions among params,
    such as callbacks and rules of `jax.custom_jvp`, are compared by name and code. Constants of
    more than 64 MiB are the same only if they are the same array object.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> before = taxpr.trace(lambda x: jnp.sin(x) * 2)(1.0)
        >>> after = taxpr.trace(lambda x: jnp.tanh(jnp.sin(x)) * 3)(1.0)
        >>> found = diff(before, after)
        >>> dict(found.after)["1:tanh"], found.partner(1, "2:mul"), found.what(1, "2:mul")
        ('added', '1:mul', ('operand 1 2.0→3.0',))
    """
    return Diff(before, after, Differ().programs(before, after))


_ALONE: tuple[Status, Status] = "removed", "added"  # by the side that has it


class Statuses(Mapping[str, Status]):
    """The status of each place of one program, by address.

    Iteration covers the places that were compared one by one. A lookup also works inside an
    equation that is the same, added or removed as a whole, and gives the equation's status. A value
    has the status of the equation that makes it.
    """

    def __init__(self, part: Part, side: int) -> None:
        self._part, self._side = part, side
        self._known: dict[str, Status] = {}  # a picture asks for each many times

    def __getitem__(self, address: str) -> Status:
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = _look(self._part, self._side, address)[0]
        return found

    def __iter__(self) -> Iterator[str]:
        return (address for address, _ in statuses(self._part, self._side, taxpr.Address()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(statuses(self._part, self._side, taxpr.Address())))


class Diff:
    """Two programs compared.

    A side is 0 for the program before, 1 for the one after.

    Attributes:
        programs: The two programs.
        part: The comparison of their outermost jaxprs.
        before: The status of each address of the program before: ``"same"``; ``"removed"``;
            ``"changed"`` (other params, literals, types or operands); ``"follows"`` (other types
            because its operands have other types); ``"inside"`` (only its jaxprs changed).
        after: The status of each address of the program after; ``"added"`` instead of
            ``"removed"``.
    """

    def __init__(self, before: taxpr.Program, after: taxpr.Program, part: Part) -> None:
        self.programs = before, after
        self.part = part
        self.before, self.after = Statuses(part, 0), Statuses(part, 1)

    @property
    def counts(self) -> dict[Status, int]:
        """The number of equations of each status. A pair counts once; nested equations count."""
        return {status: self.part.counts[status] for status in STATUSES}

    @property
    def is_same(self) -> bool:
        """Whether the programs do not differ."""
        found = {*self.before.values(), *self.after.values()}
        return found <= {"same"}

    @functools.cached_property
    def pairs(self) -> dict[str, str]:
        """The address of the partner of each equation that was compared and has one.

        Equations inside of one that is the same are left out. `partner` finds them too.
        """
        return dict(pairs(self.part, (taxpr.Address(), taxpr.Address())))

    def partner(self, side: int, address: str) -> taxpr.Address | None:
        """The address of the partner of a place in the other program; None if it has none.

        Raises:
            KeyError: There is no such address.
        """
        return self.look(side, address)[1]

    def what(self, side: int, address: str) -> tuple[str, ...]:
        """The differences at an address, in words.

        Raises:
            KeyError: There is no such address.
        """
        return self.look(side, address)[2]

    def look(self, side: int, address: str) -> _Found:
        """The status of a place, its partner, and its differences.

        Raises:
            KeyError: There is no such address.
        """
        return _look(self.part, side, address)

    def opens(self, side: int, address: str) -> bool:
        """Whether something changed inside an equation that was compared."""
        place = self._place(side, address)
        if place is None:
            return False
        part, position = place
        if position in part.sides[side].opened:
            return part.sides[side].opened[position] != "the same"
        return any(
            None in inner.labels or (inner.part is not None and not inner.part.is_quiet)
            for inner in part.inner(side, position)
        )

    def is_near(self, side: int, address: str) -> bool:
        """Whether an equation is next to a position where only the other program has one."""
        place = self._place(side, address)
        return place is not None and place[1] in place[0].near[side]

    def partner_of_nested(self, side: int, address: str, label: str) -> taxpr.Address | None:
        """The address of the partner of an equation's nested jaxpr; None if it has none."""
        partner, place = self.partner(side, address), self._place(side, address)
        if partner is None or place is None:
            return partner and partner / label
        inner = place[0].nested(side, place[1], label)
        other = label if inner is None else inner.labels[1 - side]
        return None if other is None else partner / other

    def _place(self, side: int, address: str) -> tuple[Part, int] | None:
        """The comparison that contains an equation, and its position, or None."""
        part, parts = self.part, taxpr.Address(address).parts
        while True:
            own = part.sides[side]
            name, n = own.first(parts)
            position = own.position[name]
            if n == len(parts):
                return part, position
            inner = part.nested(side, position, parts[n])
            if inner is None or inner.part is None:
                return None
            part, parts = inner.part, parts[n + 1 :]

    def __repr__(self) -> str:
        names = " and ".join(program.name for program in self.programs)
        return f"<difference of {names}: {self.summary()}>"

    @functools.cached_property
    def changes(self) -> tuple[DiffChange, ...]:
        """The changes as people see them, the most important first.

        Equal differences of the same lines count as one change at several places.
        """
        names = [(program.in_names, program.out_names) for program in self.programs]
        return tuple(changes_of(self.part, names))

    def summary(self, where: Where | None = None) -> str:
        """`1 change at 3 places: 1e-05→1e-06 in norm (model.py:6), 43 same`."""
        one = self.changes[0] if len(self.changes) == 1 else None
        several = one and one.count > 1 and one.kind != "equations"
        places = f" at {one.count:,} places" if one and several else ""
        texts = [change.text(where, times=one is None) for change in self.changes[:_SAID]]
        if more := len(self.changes) - len(texts):
            texts.append(f"and {more:,} more")
        number = f"{len(self.changes) or 'no'} change{'' if one else 's'}"
        head = f"{number}{places}: {'; '.join(texts)}" if texts else number
        words: dict[Status, str] = {"same": "same", "follows": "of other types that follow"}
        counts = [f"{self.counts[s]:,} {word}" for s, word in words.items() if self.counts[s]]
        total = sum(self.counts.values())
        return ", ".join([head, *(counts if total else ["no equations"])])


def _look(part: Part, side: int, address: str) -> _Found:
    """The status, partner and differences of a place."""
    parts, home = taxpr.Address(address).parts, taxpr.Address()
    while True:
        own, other = part.sides[side], part.sides[1 - side]
        name, n = own.first(parts)
        if n == len(parts):
            break
        position, label = own.position[name], parts[n]
        partner = own.partner[position]
        if partner < 0:
            return own.status[position], None, ()
        inner = part.nested(side, position, label)
        there = label if inner is None else inner.labels[1 - side]
        if there is None:
            return _ALONE[side], None, ()
        home, parts = home / other.names[partner] / there, parts[n + 1 :]
        if inner is None or inner.part is None:
            return "same", home / "/".join(parts), ()
        part = inner.part
    if name in own.ends:
        end = own.ends[name]
        texts = (end.what,) if end.what else ()
        return end.status, None if end.partner is None else home / end.partner, texts
    result = taxpr.Address(name).result
    position = own.position[taxpr.Address(name).eqn]
    partner = own.partner[position]
    if partner < 0:
        inside = own.opened.get(position)
        texts = (f"what it wraps is {inside}",) if inside else ()
        return own.status[position], None, texts
    texts = part.what.get(position if side == 0 else partner, ())
    there = home / other.names[partner]
    return own.status[position], there if result is None else there.value(result), texts
