"""A program's lines as rows of text in colour: what rows are, and the outline.

Rows consist of spans that say what they are, so that they can be coloured: in a notebook by the
classes of `panel.css`, in a terminal by `plain`. The other writer of rows is `_jaxpr_text`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from taxpr_jupyter._lines.listing import Line

SpanKind = Literal[
    "name",  # what the row is about, in the colour of its kind
    "value",  # letters
    "input",  # the letter of an input
    "output",
    "const",
    "type",
    "param",
    "note",
    "mark",  # what else there is to know, such as "injected"
    "",  # all else
]


class Span(NamedTuple):
    """A piece of a row.

    Attributes:
        text: The text.
        kind: What it is.
        address: What it stands for, where that is something else than the row does; else "".
    """

    text: str
    kind: SpanKind = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of text.

    Attributes:
        spans: Its pieces.
        address: What it stands for; "" for nothing.
        depth: How far it is indented.
        kind: The kind of its line; "" for the program's own brackets.
        marks: Those of its line.
        fold: The address to fold or unfold, where that can be done.
        open: Whether what is in it follows.
    """

    spans: tuple[Span, ...]
    address: str
    depth: int
    kind: str = ""
    marks: tuple[str, ...] = ()
    fold: str | None = None
    open: bool = False


Spans = list[Span]


def plain(rows: Iterable[Row], color: bool = False, gap: str = "", twists: bool = False) -> str:
    """Rows as text.

    Args:
        rows: The rows.
        color: Whether to use the colours of a terminal.
        gap: What stands between two spans.
        twists: Whether a triangle says what can be folded and unfolded.
    """
    lines = []
    for row in rows:
        texts = [_colored(text, kind, row.kind) if color else text for text, kind, _ in row.spans]
        twist = ("▾ " if row.open else "▸ " if row.fold else "  ") if twists else ""
        lines.append(f"{'  ' * row.depth}{twist}{gap.join(texts)}".rstrip())
    return "\n".join(lines)


_NAMES = {"hop": "34", "group": "33", "jaxpr": "34", "tag": "1;35", "injected": "1;32"}
_SPANS = {"name": "1", "mark": "1;32", "input": "36", "const": "36", "output": "36"}
_SPANS |= dict.fromkeys(("type", "param", "note"), "2")


def _colored(text: str, kind: str, of: str) -> str:
    code = _NAMES.get(of, _SPANS["name"]) if kind == "name" else _SPANS.get(kind)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def outline_rows(lines: Sequence[Line]) -> list[Row]:
    """A row for each line: what it is, how much is in it, what it makes.

    Where an equation holds one nested jaxpr that is called as it is, they share a row.
    """
    rows: list[Row] = []
    shared: list[int] = []  # depths of the heads left out around the line
    around: dict[int, Line] = {}  # the last line of each depth
    for at, line in enumerate(lines):
        while shared and line.depth <= shared[-1]:
            shared.pop()
        owner = around.get(line.depth - 1)
        around[line.depth] = line
        if line.kind == "jaxpr" and owner and _says_it_all(owner, lines, at):
            shared.append(line.depth)
        else:
            rows.append(row_of(line, _outline_spans(line), line.depth - len(shared)))
    return rows


def _says_it_all(owner: Line, lines: Sequence[Line], at: int) -> bool:
    """Whether the jaxpr at a position is the only one of its equation, and has no other name."""
    head = lines[at]
    if lines[at - 1] is not owner or head.text.replace(" body", "", 1) != owner.text:
        return False
    rest = itertools.islice(lines, at + 1, None)
    after = next((line for line in rest if line.depth <= head.depth), None)
    return after is None or after.depth < head.depth


def _outline_spans(line: Line) -> Spans:
    spans: Spans = []
    word = {"input": "in", "output": "out"}.get(line.kind, "")
    if word and word != line.text.split(" ")[0]:
        spans.append(Span(word, "note"))
    spans.append(Span(line.text, "name"))
    if "many" in line.marks:
        spans.append(Span(range_of(line), "value"))
    elif line.kind not in ("group", "hop"):
        made = " ".join(text.partition(":")[0] for text in line.made)
        used = " ".join(line.used)
        value = " → ".join(filter(None, (used, made)))
        spans += [Span(value, "value")] if value else []
    spans += [Span(line.note, "note")] if line.note else []
    spans += [Span(line.types, "type")] if line.types else []
    if line.kind == "injected":
        spans.append(Span("injected", "mark"))
    return spans


def row_of(line: Line, spans: Spans, depth: int) -> Row:
    """The row of a line."""
    return Row(tuple(spans), line.address, depth, line.kind, line.marks, line.fold, line.open)


def range_of(line: Line) -> str:
    """The first and the last letter of several inputs or outputs."""
    letters = [text.partition(":")[0] for text in (*line.made, *line.used)]
    return f"{letters[0]} … {letters[-1]}"
