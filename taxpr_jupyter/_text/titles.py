"""The titles of nodes and frames: source in few lines, with signs."""

import re
import textwrap
from collections.abc import Iterable, Sequence

from taxpr_jupyter._text import short

_LINES = 3  # of a list, such as the parts of an optimizer
_SOURCE = 36  # characters in a line of source
_WIDE = 42  # where nothing has to be left out then
_FRAME = 56  # characters of the title of a frame in one line
_SOURCE_LINES = 4  # of a statement
_BREAK = re.compile(r"[ ,(\[]|\.(?=[^\W\d])")  # after which a line of source may end
_WORDS = re.compile(r"[ (\[]")  # after which something may be left out
_EDGE = re.compile(r"(?<![\w.])(?=\w)|(?<=[ (\[])(?=\S)")  # of a word
_ENDS = re.compile(r"[,)\]]|(?<= )[^ ]")  # with which it may go on
_TOKEN = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[][(){}]""")


def source_lines(text: str) -> list[str]:
    """A statement or expression in four lines at most, which break between words where they can.

    Only what has no room in these is left out: the reader needs each operand.
    """
    text = short.visible(text)
    for width in (_SOURCE, _WIDE):
        lines = _in_lines(text, width)
        if len(lines[-1].removesuffix("()")) <= width:
            return lines if text else []
    *lines, rest = _in_lines(text, _SOURCE)
    return [*lines, shortened_source(rest, _SOURCE)]


def frame_lines(title: str) -> list[str]:
    """The title of a frame: a long line, or three lines at most."""
    title = short.visible(title)
    if len(title) <= _FRAME:
        return [title]
    *lines, rest = _in_lines(title, _WIDE, most=3)
    return [*lines, shortened_source(rest, _WIDE)]


def _in_lines(text: str, width: int, most: int = _SOURCE_LINES) -> list[str]:
    """Source in so many lines at most; the last one has what is left, which may be long."""
    lines: list[str] = []
    while len(text) > width and len(lines) < most - 1:
        ends = [found.end() for found in _BREAK.finditer(text, 0, width + 1)]
        spaces = [end for end in ends if end > width * 2 // 3 and text[end - 1] == " "]
        others = [end for end in ends if width // 3 < end <= width]
        end = max(spaces or others, default=width)
        if text[end - 1 :] == "()":  # which no line begins with
            break
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def wrapped(lines: Sequence[str], width: int) -> list[str]:
    """Source in lines, in more lines of at most so many characters where it can be broken."""
    text = "".join(line if line[-1:] in ("(", "[", ".") else f"{line} " for line in lines).rstrip()
    made: list[str] = []
    while len(text) > width:
        ends = [found.end() for found in _BREAK.finditer(text)]
        inside = [end for end in ends if end <= width + (text[end - 1] == " ")]
        spaces = [end for end in inside if text[end - 1] == " " and end > width // 2]
        end = max(spaces or inside, default=min(ends, default=len(text)))
        if not text[end:].strip():
            break
        made.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*made, text]


def shortened_source(text: str, width: int) -> str:
    """Leave out what is in a pair of brackets, as in `0.1 * jax.random.normal(…)`, or whole words.

    What is left out is as short as it can be.
    """
    if len(text) <= width:
        return text
    # What is whole rather than a piece of two; arguments rather than words; as little as possible.
    cuts = [
        (whole, text[a - 2 : a] == ", " and text[b] in ")],", a - b, a, b)
        for a in (found.end() for found in _WORDS.finditer(text, 0, width))
        for b in (found.start() for found in _ENDS.finditer(text, len(text) - width))
        if width // 3 <= a and a + 3 + len(text) - b <= width
        if (whole := _is_whole(text[a:b])) or text[b] not in ")],"
    ]
    cuts += [(True, True, a - b, a, b) for a, b in _brackets(text) if len(text) - b + a < width]
    if not cuts:  # whole words, if it can be
        edges = [found.start() for found in _EDGE.finditer(text)]
        cuts = [
            (True, True, a - b, a, b)
            for a in edges
            for b in edges
            if width // 3 <= a <= b and a + 2 + len(text) - b <= width
        ]
    if not cuts:
        return short.shortened(text, width)
    *_, a, b = max(cuts)
    joint = "…" if text[b] in ")]," else "… "
    return f"{text[:a]}{joint}{text[b:]}"


def _is_whole(text: str) -> bool:
    """Whether each bracket in a text has its partner there."""
    depth = 0
    for found in _TOKEN.finditer(text):
        depth += (found[0] in "([{") - (found[0] in ")]}")
        if depth < 0:
            return False
    return depth == 0


def _brackets(text: str) -> list[tuple[int, int]]:
    """Start and end of all text in round brackets, such as the arguments of calls."""
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []
    for found in _TOKEN.finditer(text):
        if found[0] in "([{":
            opened.append(found.end())
        elif found[0] in ")]}" and opened:
            start = opened.pop()
            pairs += [(start, found.start())] if found[0] == ")" else []
    return pairs


def titled(lines: Sequence[str], source: str) -> int:
    """How many lines of a label are its title, which may be the source."""
    title = source_lines(source)
    return len(title) if title and [*lines[: len(title)]] == title else 1


def signed(lines: Sequence[str], titled: int, signs: Iterable[str]) -> tuple[str, ...]:
    """A label with signs at the end of its title."""
    end = titled - 1
    return (
        *lines[:end],
        " ".join((lines[end], *(f"[{sign}]" for sign in signs))),
        *lines[titled:],
    )


def list_lines(text: str, width: int = short.LINE, most: int = _LINES) -> list[str]:
    """A list of names in a few lines, which ends with `…` if there are more."""
    text = re.sub(r"(∂|\w:) ", "\\1\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(text, width, max_lines=most, placeholder=" …")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def says(title: str, name: str) -> bool:
    """Whether a title has a name in it."""
    title, name = (text.replace('"', "'") for text in (title, name))
    return bool(name) and re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", title) is not None
