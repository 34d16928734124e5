"""Runs, their results, and the states that they read and write."""

from typing import Literal, TypedDict

from taxpr_jupyter._messages.selected import Facts


class Drawn(TypedDict):
    """The chart of an output: heights from 0 to 1, without and with the changes.

    ``words`` says what the ends of its axis are.
    """

    kind: Literal["line", "bars"]
    before: list[float | None]
    after: list[float | None]
    words: str


class Output(TypedDict):
    """An output of a run, next to the original program's.

    ``tree`` is the beginning of the name that it shares with other outputs, ``relative`` the mean
    difference as a share of the mean size before.
    """

    name: str
    tree: str
    chart: Drawn | None
    relative: str
    type: str
    before: str
    after: str
    largest: str
    mean: str
    same: bool
    notFinite: str
    note: str


class Divided(TypedDict):
    """An argument or result that several devices share."""

    name: str
    type: str
    devices: str


class Recorded(TypedDict):
    """The values that a run recorded at a tag."""

    name: str
    address: str
    facts: Facts
    values: str
    note: str


class RunChip(TypedDict):
    """A run in the strip of runs; ``current`` if the session has again what it had then."""

    number: int
    title: str
    name: str
    loss: str
    changes: str
    failed: bool
    current: bool


class RunStrip(TypedDict):
    """The runs, newest first; what the last one gave; and a table of them, while it is open."""

    runs: list[RunChip]
    summary: str
    csv: str


class Results(TypedDict):
    """A run next to the untouched program, or to the run with the number ``against``.

    ``headline`` is its loss before and after, ``plain`` whether nothing was changed, and ``sides``
    the names of the two runs. ``recorded`` has the values that both runs recorded. A live run sends
    only its first outputs that changed. ``more`` is the number of the others, and ``unchanged``
    counts those that did not change.
    """

    number: int
    against: int
    sides: list[str]
    title: str
    headline: str
    plain: bool
    status: Literal["error", "cancelled", "done"]
    error: str
    cancelled: str
    times: list[tuple[str, float]]
    xla: list[str]
    changes: list[str]
    outputs: list[Output]
    unchanged: str
    more: int
    divided: list[Divided]
    gradients: list[Output]
    gradientNote: str
    records: list[Recorded]
    recorded: list[Output]


class Progress(TypedDict):
    """The work under way."""

    running: Literal[True]
    label: str
    fraction: float | None
    elapsed: float
    cancelling: bool


class Idle(TypedDict):
    """Nothing is under way."""

    running: Literal[False]


class Said(TypedDict):
    """A message for the user."""

    text: str
    error: bool


class WrittenValue(TypedDict):
    """The values written to a state at one place."""

    address: str
    text: str
    note: str


class Leaf(TypedDict):
    """An array of a state."""

    name: str
    type: str
    text: str
    editable: bool
    edited: bool
    typed: str
    error: str
    before: str
    after: str
    same: bool
    notFinite: str
    writes: list[WrittenValue]


class State(TypedDict):
    name: str
    address: str
    written: bool
    edited: bool
    watched: bool
    more: str
    leaves: list[Leaf]


class StatesTab(TypedDict):
    """All states, and the run that their values are from."""

    run: str
    states: list[State]
