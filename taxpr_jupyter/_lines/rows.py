"""Rows of coloured text; the outline of a program as rows.

A row consists of spans, each with a kind that decides its colour: by the classes of `panel.css` in
a notebook, by `plain` in a terminal. `jaxpr_text` also writes rows.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from taxpr_jupyter._lines.line import ProgramLine

SpanKind = Literal[
    "name",  # the subject of the row, in the colour of its kind
    "value",  # letters
    "input",  # the letter of an input
    "output",
    "const",
    "type",
    "param",
    "note",
    "mark",  # a flag such as "injected"
    "",  # other text
]


class Span(NamedTuple):
    """A piece of a row.

    Attributes:
        text: The text.
        kind: One of `SpanKind`.
        address: The address of its element, if it differs from the row's; else "".
    """

    text: str
    kind: SpanKind = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class LineRow:
    """A row of text.

    Attributes:
        spans: The pieces of the row.
        address: The address of its element, or "".
        depth: The indentation.
        kind: The kind of its line; "" for the brackets of the program.
        marks: The marks of its line.
        fold: The address to fold or unfold, if possible.
        open: Whether its content follows.
    """

    spans: tuple[Span, ...]
    address: str
    depth: int
    kind: str = ""
    marks: tuple[str, ...] = ()
    fold: str | None = None
    open: bool = False


Spans = list[Span]


def plain(rows: Iterable[LineRow], color: bool = False, gap: str = "", twists: bool = False) -> str:
    """Rows as text.

    Args:
        rows: The rows.
        color: Whether to use the colours of a terminal.
        gap: The text between two spans.
        twists: Whether rows that fold have a triangle.
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


def outline_rows(lines: Sequence[ProgramLine]) -> list[LineRow]:
    """A row for each line: title, number of equations inside, results.

    An equation shares a row with its nested jaxpr if it has only one and the jaxpr has no name of
    its own.
    """
    rows: list[LineRow] = []
    shared: list[int] = []  # depths of the heads left out around the line
    around: dict[int, ProgramLine] = {}  # the last line of each depth
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


def _says_it_all(owner: ProgramLine, lines: Sequence[ProgramLine], at: int) -> bool:
    """Whether the jaxpr at a position is its equation's only one, and has no name of its own."""
    head = lines[at]
    if lines[at - 1] is not owner or head.text.replace(" body", "", 1) != owner.text:
        return False
    rest = itertools.islice(lines, at + 1, None)
    after = next((line for line in rest if line.depth <= head.depth), None)
    return after is None or after.depth < head.depth


def _outline_spans(line: ProgramLine) -> Spans:
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
    spans += [Span(line.held, "note")] if line.held else []
    spans += [Span(line.note, "note")] if line.note else []
    spans += [Span(line.types, "type")] if line.types else []
    if line.kind == "injected":
        spans.append(Span("injected", "mark"))
    return spans


def row_of(line: ProgramLine, spans: Spans, depth: int) -> LineRow:
    """The row of a line."""
    return LineRow(tuple(spans), line.address, depth, line.kind, line.marks, line.fold, line.open)


def range_of(line: ProgramLine) -> str:
    """The first and last letter of several inputs or outputs."""
    letters = [text.partition(":")[0] for text in (*line.made, *line.used)]
    return f"{letters[0]} … {letters[-1]}"
