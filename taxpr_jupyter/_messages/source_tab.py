"""The source of the user's functions, with values, shares and edits of its lines."""

from typing import Literal, TypedDict


class SourceVariable(TypedDict):
    """A variable of a line, or a part of one; one address for each value that it held.

    ``devices`` says which part each of several devices has. ``tree`` is the title of the variable
    that holds several arrays, and empty for a variable that is an array itself.
    """

    name: str
    type: str
    devices: str
    addresses: list[str]
    tree: str


class SourceLine(TypedDict):
    """A line of source; ``holds`` if it made a loop or the like; shares are None if not known.

    ``right`` is the right-hand side that can be typed over, or empty. ``left`` is the text before
    it, ``"x = "`` or ``"return "``.
    """

    number: int
    text: str
    variables: list[SourceVariable]
    equations: int
    derivative: int
    holds: bool
    runs: str
    flops: float | None
    bytes: float | None
    marks: list[str]
    left: str
    right: str


class SourcePart(TypedDict):
    """A function, or a class."""

    file: str
    title: str
    lines: list[SourceLine]


class SourceText(TypedDict):
    """The source of the user's functions; ``more`` lines are not sent.

    Elsewhere lines are called by their numbers, from 0, through all parts.
    """

    note: str
    rest: str
    more: int
    parts: list[SourcePart]


# Of values of a line: some are not finite, or changed with the injectors; a run recorded them; they
# have a tag at which the next run records.
LineMarkKind = Literal["bad", "changed", "recorded", "watched"]


class LineMark(TypedDict):
    """A remark of runs on a line of the source."""

    kind: LineMarkKind
    text: str


class LineShare(TypedDict):
    """The measured share of a line, 0 to 1, and the amount in words.

    ``label`` stands beside the bar; without one the share does.
    For a compiled program also the kernels that XLA made of it, and the mark of its nodes in the
    picture; else both are empty.
    """

    share: float
    label: str
    words: str
    sign: str
    mark: str


class SourceHeat(TypedDict):
    """Measured numbers or kernels of lines, by the numbers of the lines, and the rest in words.

    Without lines nothing is shown.
    """

    title: str
    rest: str
    lines: dict[str, LineShare]


class SourceEdits(TypedDict):
    """The right-hand sides that were typed, by the places of lines, and their diff; a mistake.

    The number counts mistakes: the same one can be made twice.
    """

    lines: dict[str, str]
    diff: str
    place: str
    mistake: str
    number: int
