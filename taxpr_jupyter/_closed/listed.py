"""Statements of the user's in few words, or as the source has them, in the lines of a label."""

import re
import textwrap
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

# The most lines, of statements in few words and of those as in the source, by the equations of the
# part: a larger one would take more room if it were open.
_LINES: Mapping[int, tuple[int, int]] = {0: (3, 8), 60: (4, 12), 150: (6, 24)}
_WITHIN = 60  # equations: from so many on, the functions that are called are looked into
_WIDER = 10  # characters: and lines are longer, so that fewer statements take two
_FEW_CALLED = 3  # lines, of the statements of such a function in few words
_LONG = 110  # characters of a statement that is written as in the source
_MOST = 40  # statements: of more, only the most telling ones are looked at
_VARIABLES = 4, 2  # of one assignment: if there is room, and if there is not


class StatementWords(NamedTuple):
    """A statement of the user's in few words.

    Attributes:
        targets: The variables that it assigns; none of a `return` or an expression.
        calls: The user's functions that it calls, with `∂` before one whose derivative it takes.
        telling: How much it says; if there is no room, that with less is left out.
        whole: Whether it assigns the results of the calls themselves.
        branch: The branch of a conditional that it is in; "" if no other branch has any.
        source: The statement as in the source; "" if there are several.
        within: The statements of the one function of the user's that it calls.
    """

    targets: tuple[str, ...]
    calls: tuple[str, ...] = ()
    telling: int = 0
    whole: bool = True
    branch: str = ""
    source: str = ""
    within: "tuple[StatementWords, ...]" = ()

    def text(self, variables: int = _VARIABLES[0]) -> str:
        """`x = push(…)`, `y = … push(…)`, `temperature`, `push(…)`; "" of a `return x + y`."""
        more = ["…"] if len(self.targets) > variables else []
        targets = ", ".join([*self.targets[:variables], *more])
        called = ", ".join(f"{name}(…)" for name in self.calls)
        called = f"… {called}" if targets and called and not self.whole else called
        return " = ".join(filter(None, (targets, called)))


MORE = StatementWords(("…",), telling=1 << 20)  # what no room is left for, or nobody has read


def lines_of(
    said: Sequence[StatementWords], width: int, told: Iterable[str] = (), equations: int = 0
) -> list[str]:
    """`x = push(…); log_q = flow_log_density(…)`: statements in a few lines; the most telling ones.

    If there is room for more, each has its own line, and the most telling ones are as in the
    source: `log_q = flow_log_density(frozen, x)`. A larger part also has the statements of the
    functions that they call, each after `in flow_log_density:`.

    Args:
        said: The statements.
        width: The characters of a line.
        told: Lines with functions that are not told again.
        equations: How many equations they have made.
    """
    words = {*re.findall(r"\w+", " ".join(told))}
    few, room = max(lines for least, lines in _LINES.items() if equations >= least)
    width += _WIDER * (equations >= _WITHIN)
    found = [
        one
        for one in said
        if one.targets or _is_result(one) or not words.issuperset(bare(one.calls))
    ]
    if len(found) == 1 and not found[0].calls:  # which says nothing of how it is made
        return []
    if found and not any(one.targets or one.source for one in found):
        names = [name for one in found for name in one.calls if name not in words]
        return _wrapped(f"calls {', '.join(dict.fromkeys(names))}", width, few)[:few]
    lines = _fitted(found, width, few, room)
    if equations >= _WITHIN:
        lines += _called(found, width, room - len(lines))
    return lines


def _called(said: Sequence[StatementWords], width: int, room: int) -> list[str]:
    """The statements of the functions that statements call, the most telling ones first."""
    lines: list[str] = []
    todo = sorted((one for one in said if one.within), key=lambda one: -one.telling)
    seen: set[str] = set()
    for one in todo:  # which grows
        head, left = f"in {one.calls[0]}:", room - len(lines) - 1
        if head not in seen and left > 1:
            found = _fitted(one.within, width, min(_FEW_CALLED, left), left)
            lines += [head, *found] if len(found) > 1 or len(one.within) > 1 else []
        seen.add(head)
        todo += sorted((inner for inner in one.within if inner.within), key=lambda k: -k.telling)
    return lines


def _fitted(found: Sequence[StatementWords], width: int, few: int, room: int) -> list[str]:
    """Statements in so few lines, or as in the source in no more than there is room for."""
    order = sorted(range(len(found)), key=lambda k: (-found[k].telling, k))[:_MOST]
    kept, variables = {k: found[k] for k in order}, _VARIABLES[0]
    while kept:
        shown = [kept[k] for k in sorted(kept)]
        shown += [MORE] if len(kept) < len(found) and not _is_more(shown[-1]) else []
        texts = _short(shown, variables)
        lines = _wrapped("; ".join(filter(None, _branched(shown, texts))), width, few)
        if len(lines) <= few or len(kept) == 1:
            return _as_written(shown, texts, width, room) or lines[:few]
        least = order[len(kept) - 1]
        if variables == _VARIABLES[0]:
            variables = _VARIABLES[1]
        elif kept[least].targets and kept[least].calls:
            kept[least] = kept[least]._replace(calls=())
        else:
            del kept[least]
    return []


def _as_written(
    shown: Sequence[StatementWords], texts: Sequence[str], width: int, room: int
) -> list[str]:
    """Statements in lines, the most telling ones as in the source; empty if there is no room."""
    found, written = dict(enumerate(texts)), dict[int, str]()
    lines: list[str] = []
    for k in sorted(found, key=lambda k: (-shown[k].telling, k)):
        source = shown[k].source
        if 0 < len(source) <= _LONG and source != found[k]:
            longer = _rows(shown, found | written | {k: source}, {*written, k}, width)
            if len(longer) <= room:
                written[k], lines = source, longer
    untold = any(_is_result(one) and k not in written for k, one in enumerate(shown))
    return [*lines, "…"] if untold and lines and lines[-1][-1] != "…" else lines


def _rows(
    shown: Sequence[StatementWords],
    texts: Mapping[int, str],
    written: Container[int],
    width: int,
) -> list[str]:
    """A line for each statement that is as in the source; others share theirs."""
    rows: list[str] = []
    together = False
    for k, text in enumerate(_branched(shown, texts.values())):
        if together and k not in written:
            rows[-1] += f"; {text}" if text else ""
        elif text:
            rows.append(text)
        together = bool(rows) and k not in written and (together or bool(text))
    return [line for row in rows for line in textwrap.wrap(row, width)]


def _branched(said: Sequence[StatementWords], texts: Iterable[str]) -> Iterator[str]:
    """The texts of statements, the first of each branch with its name before it."""
    branch = ""
    for one, text in zip(said, texts, strict=True):
        named = one.branch != branch and not _is_more(one) and text
        yield f"{one.branch}: {text}" if named else text
        branch = one.branch if text else branch


def _wrapped(text: str, width: int, most: int) -> list[str]:
    text = re.sub(r"(∂|\w:) ", "\\1\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(text, width, max_lines=most + 1, placeholder=" …")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _is_more(one: StatementWords) -> bool:
    """Whether it is the sign of statements that are left out."""
    return one.targets == MORE.targets


def _is_result(one: StatementWords) -> bool:
    """Whether it is a `return` that calls no function of the user's."""
    return not one.calls and one.source.startswith("return ")


def bare(names: Iterable[str]) -> list[str]:
    """Names of functions without the sign of a derivative."""
    return [name.removeprefix("∂ ") for name in names]


def _short(said: Sequence[StatementWords], variables: int) -> list[str]:
    """Each text once, "" for another time; a variable alone only if no other statement makes it."""
    made = {one.targets for one in said if one.calls}
    alone = [not one.calls and one.targets in made for one in said]
    found: set[tuple[str, str]] = set()
    texts: list[str] = []
    for one, is_again in zip(said, alone, strict=True):
        text = one.text(variables)
        is_known = is_again or (one.branch, text) in found
        texts.append("" if is_known else text)
        found.add((one.branch, text))
    return texts
