"""Write the lines of a program as the text of a jaxpr, similar to `print(jaxpr)`."""

import itertools
from collections.abc import Sequence

from taxpr_jupyter._lines.line import ProgramLine
from taxpr_jupyter._lines.rows import LineRow, Span, Spans, range_of, row_of
from taxpr_jupyter._text.short import shortened

WIDTH = 92  # characters in a row, if possible
_OPERANDS = 8  # operands of a group to show; it may have hundreds


def jaxpr_rows(lines: Sequence[ProgramLine], complete: bool = True) -> list[LineRow]:
    """Rows as in `print(jaxpr)`; groups are comments, folded parts ⟨angle brackets⟩.

    Args:
        lines: The lines.
        complete: Whether these are all lines. If not, open jaxprs at the end are not closed.
    """
    return _JaxprText(lines, complete).rows


class _JaxprText:
    def __init__(self, lines: Sequence[ProgramLine], complete: bool) -> None:
        self.rows: list[LineRow] = []
        self._lines = lines
        self._complete = complete
        self._block(0, None, -1, 0)

    def _inside(self, at: int, depth: int) -> bool:
        return at < len(self._lines) and self._lines[at].depth > depth

    def _cut(self, at: int) -> bool:
        """Whether the lines end before the open jaxpr does."""
        return at >= len(self._lines) and not self._complete

    def _block(self, at: int, head: ProgramLine | None, depth: int, indent: int) -> int:
        """Writes a jaxpr whose first line is at `at`. Returns the position after its last line."""
        start = at
        while self._inside(at, depth) and self._lines[at].kind in ("const", "input"):
            at += 1
        self._head(self._lines[start:at], head, indent)
        while self._inside(at, depth) and self._lines[at].kind != "output":
            at = self._line(at, indent + 1)
        start = at
        while self._inside(at, depth):
            at += 1
        if not self._cut(at):
            self._foot(self._lines[start:at], head, indent)
        return at

    def _line(self, at: int, indent: int) -> int:
        line = self._lines[at]
        at += 1
        if line.kind == "group" and line.open:
            spans: Spans = [Span(f"# {line.text}", "name"), Span(f"  {line.note}", "note")]
            self.rows.append(row_of(line, spans, indent))
            while self._inside(at, line.depth):
                at = self._line(at, indent + 1)
        elif line.kind == "hop" and line.open:
            spans = [*_made(line), Span(line.name, "name"), Span("[")]
            spans += [Span(" ".join(line.params), "param")] if line.params else []
            self.rows.append(row_of(line, spans, indent))
            while self._inside(at, line.depth):
                head = self._lines[at]
                at = self._block(at + 1, head, head.depth, indent + 1)
            if not self._cut(at):
                spans = [Span("] "), Span(" ".join(line.used), "value")]
                self.rows.append(LineRow(tuple(spans), line.address, indent, "hop", line.marks))
        else:
            self.rows.append(row_of(line, _eqn_spans(line), indent))
        return at

    def _head(self, ins: Sequence[ProgramLine], head: ProgramLine | None, indent: int) -> None:
        """`{ lambda a:f32[3] ; b:f32[] . let`, in one row if it is short."""
        first: Spans = []
        if head:
            first += [Span(head.name, "name"), Span("=")]
        first.append(Span("{ lambda "))
        consts = [line for line in ins if line.kind == "const"]
        inputs = [line for line in ins if line.kind == "input"]
        note: Spans = [Span(f"  # {_about(head, ins)}", "note")] if _about(head, ins) else []
        if _fits(ins, indent):
            spans = [*first, *_joined(consts, " "), Span("; "), *_joined(inputs, " ")]
            spans += [Span(" . let" if inputs else ". let"), *note]
            self._bracket(spans, head, indent, opens=True)
            return
        self._bracket([*first, *([] if consts else [Span(";")])], head, indent, opens=True)
        self._ends(consts, indent)
        if consts:
            self._bracket([Span(";")], head, indent)
        self._ends(inputs, indent)
        self._bracket([Span(". let")], head, indent)

    def _foot(self, outs: Sequence[ProgramLine], head: ProgramLine | None, indent: int) -> None:
        """`in (c, d) }`, in one row if it is short."""
        if not _fits(outs, indent):
            self._bracket([Span("in (")], head, indent)
            self._ends(outs, indent)
            self._bracket([Span(") }")], head, indent)
            return
        about = _about(head, outs)
        spans: Spans = [Span("in ("), *_joined(outs, ", ")]
        spans.append(Span(",) }" if len(outs) == 1 else ") }"))
        spans += [Span(f"  # {about}", "note")] if about else []
        self._bracket(spans, head, indent)

    def _ends(self, ends: Sequence[ProgramLine], indent: int) -> None:
        """Inputs or outputs, each in a row of its own."""
        least = min((line.depth for line in ends), default=0)
        for line in ends:
            spans = _end_spans(line)
            if "many" not in line.marks:
                spans.append(Span(f"  # {line.text}", "note"))
            self.rows.append(row_of(line, spans, indent + 2 + line.depth - least))

    def _bracket(
        self, spans: Spans, head: ProgramLine | None, indent: int, opens: bool = False
    ) -> None:
        fold = head.fold if head and opens else None
        address, kind = (head.address, "jaxpr") if head else ("", "")
        self.rows.append(LineRow(tuple(spans), address, indent, kind, (), fold, bool(fold)))


def _fits(ends: Sequence[ProgramLine], indent: int) -> bool:
    length = sum(len(text) + 2 for line in ends for text, _, _ in _end_spans(line))
    return length + 2 * indent <= WIDTH and not any("many" in line.marks for line in ends)


def _about(head: ProgramLine | None, ends: Sequence[ProgramLine]) -> str:
    """A comment with the names of inputs or outputs; before inputs also the jaxpr's title."""
    names = [line.text for line in ends]
    # The names `arg` and `out` of a call tell nothing.
    told = any(name.split(" ")[0] not in ("arg", "out", "const") for name in names)
    words = ", ".join(names) if told and ends else ""
    if head and not any(line.kind == "output" for line in ends):
        words = ": ".join(filter(None, (head.text, words)))
    return shortened(words, WIDTH) if words else ""


def _joined(ends: Sequence[ProgramLine], comma: str) -> Spans:
    parts = [[*_end_spans(line), Span(comma)] for line in ends]
    spans = list(itertools.chain.from_iterable(parts))
    return spans[:-1]


def _end_spans(line: ProgramLine) -> Spans:
    """An input, a constant or an output, or several."""
    address = line.address
    if "many" in line.marks:
        letters = Span(f"{range_of(line)}  ", "output" if line.used else "input", address)
        names = Span(line.text, "name", address), Span(f" · {line.note}⟩", "note", address)
        return [letters, Span("⟨", "note"), *names]
    if line.kind == "output":
        return [Span(line.used[0], "output", address)]
    letter, colon, aval = line.made[0].partition(":")
    kind = "const" if line.kind == "const" else "input"
    return [Span(letter, kind, address), Span(colon + aval, "type", address)]


def _value_spans(text: str) -> Spans:
    letter, colon, aval = text.partition(":")
    return [Span(letter, "value"), Span(colon + aval, "type")]


def _made(line: ProgramLine) -> Spans:
    """`c:f32[3] d:f32[] = `; for a group only the first values."""
    few = line.made[:_OPERANDS] if line.kind == "group" else line.made
    spans = list(itertools.chain.from_iterable([*_value_spans(text), Span(" ")] for text in few))
    if len(few) < len(line.made):
        spans.append(Span(f"+{len(line.made) - len(few)} ", "note"))
    return [*spans, Span("= ")] if line.made else []


def _eqn_spans(line: ProgramLine) -> Spans:
    """An equation, or a folded part, in one row."""
    spans = _made(line)
    if line.kind in ("group", "hop"):
        # The name of an equation is its primitive. Add the title only if that differs.
        spans += [Span("⟨", "note"), Span(line.text, "name"), Span(f" · {line.note}⟩", "note")]
    else:
        spans.append(Span(line.name, "name"))
        if line.params:
            spans.append(Span(f"[{' '.join(line.params)}]", "param"))
    used = line.used[:_OPERANDS] if line.kind == "group" else line.used
    spans += [Span(f" {' '.join(used)}", "value")] if used else []
    if len(used) < len(line.used):
        spans.append(Span(f" +{len(line.used) - len(used)}", "note"))
    if line.held:
        spans.append(Span(f"  # {line.held}", "note"))
    return spans
