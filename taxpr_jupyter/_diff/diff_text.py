"""Write a `Diff` as text, like a unified diff: the changes, with a few equations around them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._diff.changes import joined, type_text
from taxpr_jupyter._diff.diff import Diff
from taxpr_jupyter._diff.status import QUIET, Part, Side, atom_of, borders
from taxpr_jupyter._text.short import Tooltips, Where, shortened

_LETTERS = 20_000  # equations; in larger programs JAX takes too long to assign letters
_LINE = 160
MARKS = {"same": " ", "inside": "▾", "follows": "≈", "changed": "~", "added": "+", "removed": "-"}


def diff_text(
    found: Diff,
    context: int = 2,
    where: Where | None = None,
    divided: Sequence[introspect.Divisions | None] = (None, None),
) -> str:
    """Write a difference as text.

    Args:
        found: The difference.
        context: The number of equal equations to show around a change.
        where: Writes source lines.
        divided: How values of both sides are divided among devices.

    Returns:
        Text with a line for each equation: `+` added, `-` removed, `~` changed (both forms
        follow), `≈` other types because its operands have, `▾` changed only inside. The content of
        an equation is indented.
    """
    writer = _Writer(found, context, where, divided)
    before, after = (shortened(program.name, _LINE) for program in found.programs)
    head = [f"--- {before}", f"+++ {after}", found.summary(where)]
    lines = list(writer.part(found.part, (taxpr.Address(), taxpr.Address()), ""))
    return "\n".join([*head, *lines])


_Homes = tuple[taxpr.Address, taxpr.Address]


class _Writer:
    def __init__(
        self,
        found: Diff,
        context: int,
        where: Where | None,
        divided: Sequence[introspect.Divisions | None],
    ) -> None:
        self._context = context
        few = sum(found.counts.values()) <= _LETTERS
        self._tips = [
            Tooltips(introspect.var_names(program) if few else {}, where, divided=one)
            for program, one in zip(found.programs, divided, strict=True)
        ]
        self._names = [(program.in_names, program.out_names) for program in found.programs]

    def part(self, part: Part, homes: _Homes, indent: str) -> Iterator[str]:
        """The lines of two jaxprs."""
        top = not homes[0] and not homes[1]
        names = self._names if top else None
        yield from self._ends(part, ("in", "const"), indent, names)
        rows = self._rows(part, homes, indent)
        near = range(-self._context, self._context + 1)
        shown = {n + m for n, (quiet, _) in enumerate(rows) if not quiet for m in near}
        skipped = 0
        for n, (_, lines) in enumerate(rows):
            if n not in shown:
                skipped += 1
                continue
            if skipped:
                yield f"{indent}  … {skipped} the same or alike"
                skipped = 0
            yield from lines()
        if skipped and shown:
            yield f"{indent}  … {skipped} the same or alike"
        yield from self._ends(part, ("out",), indent, names)

    def _rows(
        self, part: Part, homes: _Homes, indent: str
    ) -> list[tuple[bool, Callable[[], Iterator[str]]]]:
        """For each equation whether it is quiet (same or follows), and a function to write it."""
        before, after = part.sides
        gone: dict[int, list[int]] = {}
        last = -1
        for i, j in enumerate(before.partner):
            if j < 0:
                gone.setdefault(last, []).append(i)
            else:
                last = j
        rows: list[tuple[bool, Callable[[], Iterator[str]]]] = []

        def add(side: int, position: int) -> None:
            quiet = part.sides[side].status[position] in QUIET
            rows.append((quiet, lambda: self._eqn(part, side, position, homes, indent)))

        for j in range(-1, len(after.names)):
            if j >= 0:
                add(1, j)
            for i in gone.get(j, ()):
                add(0, i)
        return rows

    def _eqn(
        self,
        part: Part,
        side: int,
        position: int,
        homes: _Homes,
        indent: str,
    ) -> Iterator[str]:
        own = part.sides[side]
        status, partner = own.status[position], own.partner[position]
        if status != "changed":
            yield self._line(MARKS[status], own, side, position, homes[side], indent)
            if inside := own.opened.get(position):
                yield f"{indent}~     what it wraps is {inside}"
        else:
            before = part.sides[0]
            yield self._line("-", before, 0, partner, homes[0], indent)
            yield self._line("+", own, side, position, homes[side], indent)
            yield f"{indent}~     {shortened(joined(part.what[partner]), _LINE)}"
        for labels, inner in part.inner(side, position):
            mark = "▾" if None not in labels else "-" if labels[1] is None else "+"
            if inner is None and mark == "▾":
                continue
            name = labels[1] or labels[0]
            yield f"{indent}    {mark} {name}:"
            if inner is not None:
                before = part.sides[0].names[partner]
                inside = (
                    homes[0] / before / (labels[0] or ""),
                    homes[1] / own.names[position] / (labels[1] or ""),
                )
                yield from self.part(inner, inside, f"{indent}      ")

    def _line(
        self, mark: str, own: Side, side: int, position: int, home: taxpr.Address, indent: str
    ) -> str:
        name, eqn = own.names[position], own.eqns[position]
        text, *more = self._tips[side].eqn(home / name, eqn).split("\n")[1:]
        where = f"  # {more[-1]}" if more and introspect.source_of(eqn) else ""
        return f"{indent}{mark} {name.ljust(18)} {text}{where}"

    def _ends(self, part: Part, words: tuple[str, ...], indent: str, names: Any) -> Iterator[str]:
        """The lines of inputs or outputs that changed."""
        for side in (0, 1):
            own, other = part.sides[side], part.sides[1 - side]
            for word, k, name, end in borders(own, *words):
                if end.status in QUIET:
                    continue
                if end.partner is not None and side == 0:
                    continue  # written once, for the program after
                atom = atom_of(own, name)
                texts = [f"{MARKS[end.status]} {name.ljust(18)} {self._tips[side].value(atom)}"]
                if names and word != "const":
                    texts.append(shortened(names[side][word == "out"][k], 60))
                text = end.what
                if end.partner is not None and not text:
                    text = type_text(atom_of(other, end.partner).aval, atom.aval)
                    text = "another value" if word == "const" and text == "sharding" else text
                yield indent + "  ".join([*texts, text] if text else texts)
