"""Contents of the tabs beside the picture and the source."""

from typing import Literal, NotRequired, TypeAlias, TypedDict

# The tabs of the panel; panel.js says what each shows.
TabName: TypeAlias = Literal["picture", "source", "ask", "results", "text", "outline", "compare"]


class TextRow(TypedDict):
    """A row of the text or of the outline; spans are a text, what it is, and its address."""

    address: str
    depth: int
    kind: str
    marks: list[str]
    fold: str
    open: bool
    spans: list[tuple[str, str, str]]


class TextRows(TypedDict):
    """The text or the outline; ``more`` rows are not sent."""

    view: Literal["text", "outline"]
    note: str
    more: int
    rows: list[TextRow]


class SearchHits(TypedDict, total=False):
    """The hits of a search; ``at`` counts from 1, and is 0 before the first hit was asked for.

    ``elements`` are the addresses of the nodes of the picture that have a hit in them. ``note``
    says what was not searched.
    """

    text: str
    count: int
    at: int
    address: str
    why: str
    turn: int
    error: str
    note: str
    elements: list[str]


class LitSlice(TypedDict, total=False):
    """The lit part of the picture, if any; ``whole`` if all of the program is drawn.

    ``line`` is the line of source whose equations are lit.
    """

    words: str
    line: str
    elements: list[str]
    edges: list[int]
    only: bool
    whole: bool
    note: str


class Count(TypedDict):
    """How many equations differ in one way."""

    mark: str
    sign: str
    name: str
    count: int


class ComparisonTab(TypedDict, total=False):
    """The program before and after the changes, or why it is missing."""

    svg: str
    refolded: bool  # whether it is the one from before, with something else open
    changes: list[str]
    counts: list[Count]
    note: str
    text: str


class Timeline(TypedDict):
    """The memory over the steps of a program.

    For each position of the line the number of the step, the bytes, words, and the elements of the
    picture that compute there; for each array its element and its first and last step; the first
    and last step of each loop. Elements are numbers in the list of addresses.
    """

    at: list[int]
    bytes: list[int]
    words: list[str]
    steps: list[list[int]]
    lives: list[tuple[int, int, int]]
    loops: list[tuple[int, int]]
    elements: list[str]


class History(TypedDict):
    """The next undo and the next redo, in words; empty without one."""

    undo: str
    redo: str


class QuestionButton(TypedDict):
    """A question and its button, one of a group; what it needs, see `_model.questions`."""

    question: str
    group: str
    button: str
    title: str
    needs: str
    sentences: bool


class AnswerRow(TypedDict):
    """A row of an answer; an address that is empty cannot be selected.

    A row for several places has the addresses of the others, too.
    """

    address: str
    others: NotRequired[list[str]]
    cells: list[str]


class Answer(TypedDict):
    """The answer of a question; ``more`` rows are not sent, ``stale`` says what has changed since.

    Without a headline the answer is awaited, or missing because of an error.
    """

    question: str
    of: str
    headline: str
    columns: list[str]
    rows: list[AnswerRow]
    more: int
    notes: list[str]
    code: str
    stale: str
    error: str


class Flows(TypedDict):
    """The results whose gradients can be asked for: the first result, or these; or why not."""

    first: bool
    results: list[str]
    note: str
