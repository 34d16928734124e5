"""The values of a recorded run, for the chips in picture, source and inspector."""

from typing import TypedDict


class ValueChip(TypedDict):
    """A value at a glance, see `taxpr_jupyter._lines.values.Chip`."""

    name: str
    words: str
    wrong: str
    span: str


class ValueCurve(TypedDict):
    """The means of a value over iterations, see `taxpr_jupyter._lines.values.Curve`."""

    points: list[float | None]
    wrong: list[int]
    iterations: int


class WatchedExpression(TypedDict):
    """An expression over recorded values, and why it cannot be computed; or empty.

    Its chip and its curve have the key ``"= "`` and its text.
    """

    text: str
    mistake: str


class RecordedValues(TypedDict):
    """The chips of values at an iteration and an example, by their addresses.

    ``iterations`` is how many the longest loop has, ``iteration`` the one that is shown, or -1 for
    all; and so for examples. ``injectors`` says whether the changes of the session took part, None
    without changes. The chip of a cotangent has the key ``"∂ "`` and the address of its value;
    ``cotangents`` says whether there are any, and ``past`` whether the values are from before the
    last change of the session.
    """

    iteration: int
    iterations: int
    example: int
    examples: int
    chips: dict[str, ValueChip]
    note: str
    injectors: bool | None
    cotangents: bool
    past: bool
