"""Statements of the user's, as the source has them, in the lines of a label."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from taxpr_jupyter._model.model import CodeLine, count_of
from taxpr_jupyter._text import titles

# The most lines by the equations of the part, and how many characters they have more than those of
# another label, which are larger. A larger part would take more room if it were open.
_LINES: Mapping[int, tuple[int, int]] = {
    0: (14, 6),
    30: (14, 18),
    40: (22, 18),
    100: (36, 30),
    250: (44, 36),
    500: (54, 46),
}
_CALLED = 15  # equations: from so many on, the functions that are called are looked into
_ROWS = 6  # lines of a statement, of which else a part is left out
_MOST = 150  # statements: of more, only the first ones are looked at
_INDENT = 4  # characters, of what hangs in a loop of Python, and of what a statement goes on with
_NUMBERS = 2  # lines of the numbers that statements name
_BODY = 2  # characters, of what is in a function
_VARIABLES = 4  # of one assignment without its source
_MANY = 30  # equations: a statement with more does not come earlier

Loop = tuple[str, tuple[int, ...]]  # its head and its place


class StatementWords(NamedTuple):
    """A statement of the user's in few words.

    Attributes:
        targets: The variables that it assigns; none of a `return` or an expression.
        calls: The user's functions that it calls, with `∂` before one whose derivative it takes.
        equations: How many equations it made.
        runs: Whether it calls a function of the user's, or has a loop.
        whole: Whether it assigns the results of the calls themselves.
        branch: The branch of a conditional that it is in; "" if no other branch has any.
        source: The statement as in the source; "" if there are several.
        within: The statements of the functions of the user's that it calls.
        loops: The heads of the loops of Python around it, outermost first, each with its place.
        result: Whether it makes a result of its function.
        hands: Whether it returns what the function that it calls does.
        numbers: The numbers of its module that it names: `CLIP = 0.2`.
        place: Its place in its file.
    """

    targets: tuple[str, ...]
    calls: tuple[str, ...] = ()
    equations: int = 0
    runs: bool = False
    whole: bool = True
    branch: str = ""
    source: str = ""
    within: "tuple[FunctionWords, ...]" = ()
    loops: tuple[Loop, ...] = ()
    result: bool = False
    hands: bool = False
    numbers: tuple[str, ...] = ()
    place: tuple[int, ...] = ()

    def text(self) -> str:
        """`x = push(…)`, `y = … push(…)`, `temperature`, `push(…)`; "" of a `return x + y`."""
        more = ["…"] if len(self.targets) > _VARIABLES else []
        targets = ", ".join([*self.targets[:_VARIABLES], *more])
        called = ", ".join(f"{name}(…)" for name in self.calls)
        called = f"… {called}" if targets and called and not self.whole else called
        return " = ".join(filter(None, (targets, called)))


class FunctionWords(NamedTuple):
    """A function of the user's.

    Attributes:
        name: Its name.
        around: The names of the functions that it is in, and its own: `train.step`.
        place: Its file and first line.
        said: Its statements.
    """

    name: str
    around: str
    place: tuple[str, int]
    said: tuple[StatementWords, ...]


MORE = StatementWords(("…",), equations=1 << 20, runs=True)  # what nobody has read


class _Line(NamedTuple):
    """A statement with the lines that it takes.

    Attributes:
        said: The statement.
        rows: Its lines.
        named: Its lines after the name of its branch, for the first one in it; as `rows` if the
            branch has no name.
        rank: The lower, the later it is left out if there is no room; see `_rank`.
    """

    said: StatementWords
    rows: tuple[CodeLine, ...]
    named: tuple[CodeLine, ...]
    rank: tuple[int, ...]


class _Section(NamedTuple):
    """The statements of a function after its head, which is "" for the part itself."""

    head: str
    lines: Sequence[_Line]
    width: int


def lines_of(
    said: Sequence[StatementWords],
    width: int,
    told: Iterable[str] = (),
    equations: int = 0,
    numbers: Iterable[str] = (),
) -> list[str]:
    """`log_q = flow_log_density(frozen, x)`: statements in lines, as in the source.

    After them are the statements of the functions that they call, each after
    `in flow_log_density:`. If there is no room for all, those which say least are left out as a
    whole: `… 3 lines`. Results of functions are left out last. Numbers that they name follow,
    `CLIP = 0.2`.

    Args:
        said: The statements.
        width: The characters of a line of another label.
        told: Lines with functions that are not told again.
        equations: How many equations they have made.
        numbers: Numbers that lines which are told name.
    """
    title = " ".join(told)
    words = {*re.findall(r"\w+", title)}
    room, wider = max(lines for least, lines in _LINES.items() if equations >= least)
    width += wider
    found = [
        one
        for one in said
        if one.targets or one.within or _is_result(one) or not words.issuperset(bare(one.calls))
    ]
    if len(found) == 1 and not (found[0].calls or found[0].within):
        return []  # it says nothing of how it is made
    if found and not any(one.targets or one.source or one.within for one in found):
        names = [name for one in found for name in one.calls if name not in words]
        return titles.list_lines(f"calls {', '.join(dict.fromkeys(names))}", width)
    functions = _called(found, small=equations < _CALLED)
    sections = _sections(found, functions, width, title)
    return [*_fitted(sections, room, width, numbers)]


def _called(said: Iterable[StatementWords], small: bool) -> list[tuple[FunctionWords, int]]:
    """The functions that statements call, each once, and how deep it is: nearer ones first.

    In a small part only those that make all that a function returns.
    """
    found: dict[tuple[str, int], tuple[FunctionWords, int]] = {}
    nearest, depth = [*said], 1
    while nearest:
        calling = [one for one in nearest if one.hands or not small]
        nearest = []
        for inner in (inner for one in calling for inner in one.within):
            first, at = found.get(inner.place, (inner._replace(said=()), depth))
            both = _both(first.said, inner.said)
            if both != first.said:  # as in the first of several calls
                found[inner.place] = first._replace(said=both), at
                nearest += inner.said
        depth += 1
    return [*found.values()]


def _both(
    first: tuple[StatementWords, ...], second: tuple[StatementWords, ...]
) -> tuple[StatementWords, ...]:
    """The statements of two calls of a function, which may run other branches of an `if`.

    Those of both would read as if they ran one after the other: of the second ones it says that
    there are more.
    """
    texts, others = (
        {(one.place, one.source or one.text()) for one in said} for said in (first, second)
    )
    if others <= texts or MORE in first:
        return first
    return second if texts <= others else (*first, MORE)


def _sections(
    said: Sequence[StatementWords],
    functions: Sequence[tuple[FunctionWords, int]],
    width: int,
    title: str,
) -> list[_Section]:
    """The statements of a part and of the functions, with their lines."""
    names = [inner.name for inner, _ in functions]
    sections = [_Section("", [*_lines(said, width, 0, title)], width)]
    left = _MOST - len(said)
    for inner, depth in functions:
        name = inner.name if names.count(inner.name) == 1 else inner.around
        if left > 0:
            lines = [*_lines(inner.said, width, depth)]
            sections.append(_Section(f"in {name}:", lines, width))
        left -= len(inner.said)
    return sections


def _lines(
    said: Sequence[StatementWords], width: int, depth: int, title: str = ""
) -> Iterator[_Line]:
    branch, inside = "", _BODY * (depth > 0)
    for one in said:
        text = one.source or one.text()
        loops = tuple(loop for loop in one.loops if loop[0] not in title)
        if not text:
            continue
        branch = branch if _is_more(one) else one.branch
        indent = inside + _INDENT * len(loops)
        rows = tuple(_shortened(text, width, indent))
        named = tuple(_shortened(f"{branch}: {text}", width, indent)) if branch else rows
        one = one._replace(loops=loops, branch=branch)
        yield _Line(one, rows, named, _rank(one, depth, len(rows)))


def _rank(one: StatementWords, depth: int, rows: int) -> tuple[int, ...]:
    """When a statement is told if there is no room for all: low ranks come first.

    Functions further down come later. A result counts as if it were two functions further up, a
    `return` one more, and a call or a loop of the part itself one. After that, statements with
    many equations and few lines come first.
    """
    further_up = 2 * one.result + one.source.startswith("return ") + (one.runs and not depth)
    return depth - further_up, 4 * rows - min(one.equations, _MANY)


def _shortened(text: str, width: int, indent: int) -> Iterator[CodeLine]:
    """The lines of a statement; of a very long one a part is left out."""
    rows = [*code_lines(text, width, indent)]
    if len(rows) <= _ROWS:
        yield from rows
        return
    short = titles.shortened_source(text, (_ROWS - 1) * (width - indent - _INDENT))
    yield from code_lines(short, width, indent)


def code_lines(text: str, width: int, indent: int) -> Iterator[CodeLine]:
    """A statement in lines of at most so many characters, the first one indented."""
    first, *_ = titles.wrapped([text], width - indent)
    yield CodeLine(first, indent)
    if rest := text[len(first) :].lstrip():
        for line in titles.wrapped([rest], width - indent - _INDENT):
            yield CodeLine(line, indent + _INDENT)


def _fitted(
    sections: Sequence[_Section], room: int, width: int, numbers: Iterable[str]
) -> Iterator[str]:
    """The lines of all sections, or of the statements which say most; then their numbers."""
    order = [
        (line.rank, a, b)
        for a, section in enumerate(sections)
        for b, line in enumerate(section.lines)
    ]
    kept: list[set[int]] = [set() for _ in sections]
    used = [0] * len(sections)
    for _, a, b in sorted(order):
        trial = {*kept[a], b}
        rows = sum(1 for _ in _rows(sections[a], trial))
        if sum(used) - used[a] + rows <= room or not any(kept):
            kept[a], used[a] = trial, rows
    for section, shown in zip(sections, kept, strict=True):
        if shown:
            yield from _rows(section, shown)
    named = dict.fromkeys(
        [
            *numbers,
            *(
                number
                for section, shown in zip(sections, kept, strict=True)
                for k in sorted(shown)
                for number in section.lines[k].said.numbers
            ),
        ]
    )
    # Two modules may have different numbers by one name: then neither says which it is.
    times = Counter(one.partition(" = ")[0] for one in named)
    named = [one for one in named if times[one.partition(" = ")[0]] == 1]
    for line in titles.list_lines(", ".join(named), width, most=_NUMBERS) if named else ():
        yield CodeLine(line)


def _rows(section: _Section, kept: Collection[int]) -> Iterator[CodeLine]:
    """The lines of some statements of a section, and between them how many others there are."""
    if section.head:
        yield CodeLine(section.head)
    inside = _BODY * bool(section.head)
    loops: tuple[Loop, ...] = ()
    branch = ""
    for lines, is_kept in _runs(section.lines, kept):
        first = lines[0]
        # What is shown first of a branch has its name, also if that is what is left out.
        named = first.said.branch if first.said.branch != branch else ""
        branch = first.said.branch
        if not is_kept:
            loops = _shared([loops, *(line.said.loops for line in lines)])
            left = f"… {count_of(len(lines), 'line')}"
            yield CodeLine(f"{named}: {left}" if named else left, inside + _INDENT * len(loops))
            continue
        around = () if named else _shared([loops, first.said.loops])
        loops = first.said.loops
        opened = range(len(around), len(loops))
        for k in opened:
            head = f"{loops[k][0]}:"
            head = f"{named}: {head}" if named and not k else head
            yield from code_lines(head, section.width, inside + _INDENT * k)
        yield from first.named if named and not opened else first.rows


def _shared(every: Iterable[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """The loops that all begin with."""
    alike = itertools.takewhile(lambda loops: len({*loops}) == 1, zip(*every, strict=False))
    return tuple(loops[0] for loops in alike)


def _runs(lines: Sequence[_Line], kept: Collection[int]) -> Iterator[tuple[Sequence[_Line], bool]]:
    """Each statement that is kept, and in between the left-out ones of a branch."""

    def left_in(k: int) -> object:
        return k if k in kept else ("left", lines[k].said.branch)

    for _, run in itertools.groupby(range(len(lines)), left_in):
        every = [*run]
        own = [lines[k] for k in every]
        # One that takes no more room than to say that it is left out is told.
        short = len(own) == 1 and len(own[0].named) == 1 and not own[0].said.loops
        yield own, short or every[0] in kept


def _is_more(one: StatementWords) -> bool:
    """Whether it is the sign of statements that are left out."""
    return one.targets == MORE.targets


def _is_result(one: StatementWords) -> bool:
    """Whether it is a `return` that calls no function of the user's."""
    return not one.calls and one.source.startswith("return ")


def bare(names: Iterable[str]) -> list[str]:
    """Names of functions without the sign of a derivative."""
    return [name.removeprefix("∂ ") for name in names]
