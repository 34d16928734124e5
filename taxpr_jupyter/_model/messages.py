"""The types of all data that Python and a browser exchange: in the panel, and in a saved page.

`make lint` writes them as TypeScript (`tools/messages.py`) and checks the browser's modules
with them.
"""

from typing import Literal, NotRequired, TypedDict

# --- from the browser to the panel ----------------------------------------------------------------


class Plain(TypedDict):
    """A request without data."""

    do: Literal["cancel", "shown", "gone", "only", "all", "writeStates", "undo", "redo"]


class At(TypedDict):
    """A request about an address, or about a name: of a state, an array, a view, a kind of heat.

    A line of source is called by its file and number: ``model.py:12``.
    """

    do: Literal[
        "untag",
        "fold",
        "unfold",
        "toggle",
        "heat",
        "place",
        "upstream",
        "downstream",
        "line",
        "unedit",
        "reveal",
        "keepState",
        "resetState",
        "watch",
        "unwatch",
        "keepView",
        "view",
        "dropView",
    ]
    address: str


class AddTag(TypedDict):
    """Tags a value; without a name if it is empty."""

    do: Literal["tag"]
    address: str
    name: str


class Attach(TypedDict):
    """Attaches an injector; removes it if the name is empty."""

    do: Literal["attach"]
    address: str
    injector: str


class SetText(TypedDict):
    """Sets a parameter to a typed text."""

    do: Literal["value"]
    address: str
    param: str
    text: str


class SetPosition(TypedDict):
    """Sets a parameter to a position of its slider."""

    do: Literal["value"]
    address: str
    param: str
    position: int


class SetState(TypedDict):
    """Sets the initial value of an array of a state to a typed text."""

    do: Literal["state"]
    address: str
    value: str


class Find(TypedDict):
    """Searches, and goes on by so many hits."""

    do: Literal["find"]
    text: str
    step: int


class Between(TypedDict):
    """Shows the paths between two places."""

    do: Literal["between"]
    address: str
    to: str


class ToggleBoth(TypedDict):
    """Opens or closes something in both programs of the comparison."""

    do: Literal["toggleBoth"]
    address: str
    side: Literal["before", "after"]


class StartRun(TypedDict):
    """Runs on a device."""

    do: Literal["run"]
    device: str


class AskValues(TypedDict):
    """Shows what the variables held in one iteration of the outermost loops; in all if it is -1.

    With the injectors of the session, or without them.
    """

    do: Literal["record"]
    step: int
    injectors: bool


class EditLine(TypedDict):
    """Types a line of the source over: it gets this right-hand side."""

    do: Literal["edit"]
    address: str
    text: str


class Ask(TypedDict):
    """Asks a question of the program."""

    do: Literal["ask"]
    question: str
    of: NotRequired[str]  # the result whose gradients are asked for, if it is not the first one


Message = (
    Plain
    | At
    | AddTag
    | Attach
    | SetText
    | SetPosition
    | SetState
    | Find
    | Between
    | ToggleBoth
    | StartRun
    | AskValues
    | EditLine
    | Ask
)

# Comes with each message: the name of the page, and the message's number there.
Numbered = TypedDict("Numbered", {"from": str, "number": int})

# --- from the panel to the browser ----------------------------------------------------------------

Facts = list[tuple[str, str]]


class Empty(TypedDict):
    """Nothing to show."""


class Tag(TypedDict):
    """A tag."""

    address: str
    name: str
    type: str
    where: str
    added: bool
    injector: str


class Value(TypedDict):
    """A value of the selected node."""

    address: str
    text: str
    tag: Tag | None
    refused: str


class Inspection(TypedDict):
    """The selected node."""

    address: str
    title: str
    kind: str
    facts: Facts
    inputs: list[str]
    outputs: list[str]
    values: list[Value]
    source: str
    line: str
    valueSource: str
    valueLine: str
    addedBy: str
    scope: str
    cost: list[str]
    tag: Tag | None
    tagParams: Facts
    toggle: Literal["", "fold", "unfold"]
    note: str


class Param(TypedDict):
    """A parameter of an injector; ``last`` is the slider's last position, from 0."""

    name: str
    help: str
    text: str
    mistake: str
    flag: bool
    position: int
    last: int


class Controls(TypedDict):
    """The injector at the selected value, and the places where one can be."""

    address: str
    places: Facts
    injectors: list[str]
    injector: str
    doc: str
    note: str
    failure: str
    fields: list[Param]


class Output(TypedDict):
    """An output of a run, next to that of the original program."""

    name: str
    type: str
    before: str
    after: str
    largest: str
    mean: str
    same: bool
    notFinite: str
    note: str


class Recorded(TypedDict):
    """What a run recorded at a tag."""

    name: str
    address: str
    facts: Facts
    values: str
    note: str


class Injected(TypedDict):
    """An injector of a run."""

    address: str
    text: str


class Results(TypedDict):
    """The results of a run."""

    title: str
    summary: str
    status: Literal["error", "cancelled", "done"]
    error: str
    cancelled: str
    times: list[tuple[str, float]]
    xla: list[str]
    injectors: list[Injected]
    outputs: list[Output]
    unchanged: str
    gradients: list[Output]
    gradientNote: str
    records: list[Recorded]


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


class Row(TypedDict):
    """A row of the text or of the outline; spans are a text, what it is, and its address."""

    address: str
    depth: int
    kind: str
    marks: list[str]
    fold: str
    open: bool
    spans: list[tuple[str, str, str]]


class Rows(TypedDict):
    """The text or the outline; ``more`` rows are not sent."""

    view: Literal["text", "outline"]
    note: str
    more: int
    rows: list[Row]


class Found(TypedDict, total=False):
    """The hits of a search; ``at`` counts from 1, and is 0 before the first hit was asked for."""

    text: str
    count: int
    at: int
    address: str
    why: str
    turn: int
    error: str


class Slice(TypedDict, total=False):
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


class Comparison(TypedDict, total=False):
    """The program before and after the changes, or why there is none."""

    svg: str
    refolded: bool  # whether it is the one from before, with something else open
    changes: list[str]
    counts: list[Count]
    note: str
    text: str


class Write(TypedDict):
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
    writes: list[Write]


class State(TypedDict):
    """A state of the function."""

    name: str
    address: str
    written: bool
    edited: bool
    watched: bool
    more: str
    leaves: list[Leaf]


class States(TypedDict):
    """All states, and the run that their values are from."""

    run: str
    states: list[State]


class SourceVariable(TypedDict):
    """A variable of a line, or a part of one; one address for each value that it held."""

    name: str
    type: str
    addresses: list[str]


class SourceLine(TypedDict):
    """A line of source; ``holds`` if it made a loop or the like; shares are None if not known.

    ``right`` is the right-hand side that can be typed over, and empty if there is none. ``left`` is
    what is before it, ``"x = "`` or ``"return "``.
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


class Source(TypedDict):
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
    """What runs say of a line of the source."""

    kind: LineMarkKind
    text: str


class Values(TypedDict):
    """What variables held in a recorded run: short texts by the addresses of the values.

    ``steps`` is how many iterations the longest loop has, ``step`` the one that is shown, or -1;
    ``injectors`` whether injectors took part, None if there are none.
    """

    step: int
    steps: int
    texts: dict[str, str]
    note: str
    injectors: bool | None


class LineShare(TypedDict):
    """The measured share of a line, 0 to 1, and the amount in words."""

    share: float
    words: str


class SourceHeat(TypedDict):
    """Measured numbers of lines, by the numbers of the lines, and the rest in words.

    Without lines nothing is shown.
    """

    title: str
    rest: str
    lines: dict[str, LineShare]


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


class SourceEdits(TypedDict):
    """The right-hand sides that were typed, by the places of lines, and their diff; a mistake.

    The number counts mistakes: the same one can be made twice.
    """

    lines: dict[str, str]
    diff: str
    place: str
    mistake: str
    number: int


class History(TypedDict):
    """What is undone next, and what is redone, in words; empty if there is nothing."""

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
    """A row of an answer; an address that is empty cannot be selected."""

    address: str
    cells: list[str]


class Answer(TypedDict):
    """What a question answered; ``more`` rows are not sent, ``stale`` says what has changed since.

    Without a headline the answer is awaited, or there is none because of an error.
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
    """What the question about gradients can be asked of: the first result, or these; or why not."""

    first: bool
    results: list[str]
    note: str


class PicturePlace(TypedDict):
    """Where the user put the picture in its window; empty if they did not."""

    x: NotRequired[float]
    y: NotRequired[float]
    scale: NotRequired[float]


class Goes(TypedDict):
    """Where the picture goes, once it is there. The number makes each another one."""

    place: PicturePlace
    number: int


class Traits(TypedDict):
    """The traits of `Graph`."""

    _legend: Facts
    _criteria: Facts
    _questions: list[QuestionButton]
    svg: str
    note: str
    call: str
    counts: str
    view: Literal["picture", "source", "ask", "text", "outline", "compare"]
    rows: Rows | Empty
    heat: str
    marks: dict[str, str]
    selected: str
    place: PicturePlace
    views: list[str]
    goes: Goes | Empty
    inspection: Inspection | Empty
    controls: Controls | Empty
    devices: list[str]
    handled: dict[str, int]
    found: Found
    slice: Slice
    comparison: Comparison
    source: Source | Empty
    source_of: dict[str, list[int]]  # the lines of each element of the picture
    source_run: dict[str, list[LineMark]]  # what runs say of lines, by their numbers
    source_values: Values | Empty
    source_heat: SourceHeat | Empty
    timeline: Timeline | Empty
    source_edits: SourceEdits | Empty
    answer: Answer | Empty
    flows: Flows | Empty
    states: States | Empty
    tags: list[Tag]
    history: History | Empty
    message: Said | Empty
    progress: Progress | Idle
    results: Results | Empty
    live: bool
    gradients: Literal["", "off", "on"]
    stale: bool
    code: str
    saved: str


# --- in a saved page ------------------------------------------------------------------------------


class Criterion(TypedDict):
    """A prefix of words in a search."""

    words: str
    example: str


class Grammar(TypedDict):
    """The grammar of searches, see `_search.grammar`."""

    criteria: dict[str, Criterion]
    texts: dict[str, str]
    plain: list[str]
    dtypes: dict[str, str]
    patterns: dict[str, str]
    mistakes: dict[str, str]


class Known(TypedDict):
    """The searchable texts of a program.

    Each place is the last part of its address, the letters of its variables, and the numbers of
    its types, source, scope, name, label and variables among the texts, without zeros at the end.
    Places stand by what is before the last part.
    """

    texts: list[str]
    places: list[tuple[str, list[tuple[str, str, *tuple[int, ...]]]]]
    total: int


class PageView(TypedDict):
    """What is selected in a view that was kept, and where the panel had the picture."""

    selected: str
    place: PicturePlace


class Page(TypedDict):
    """A picture: the numbers of the nodes of each edge, and the lines of source of each element."""

    ends: list[tuple[int, int]]
    lines: dict[str, list[int]]
    counts: str
    svg: NotRequired[str]
    outer: NotRequired[str]
    title: NotRequired[str]
    view: NotRequired[PageView]


class Left(TypedDict):
    """Why there is no picture of something, and what to unfold in Python to see it."""

    reason: str
    path: list[str]


class PageData(TypedDict):
    """The data of a saved page."""

    pages: dict[str, Page]
    left: dict[str, Left]
    call: str
    source: Source | Empty
    legend: Facts
    grammar: Grammar
    known: Known
