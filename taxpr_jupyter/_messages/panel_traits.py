"""The traits of the panel: all that it sends to a browser."""

from typing import Literal, NotRequired, TypedDict

from taxpr_jupyter._messages.recorded_values import RecordedValues, ValueCurve, WatchedExpression
from taxpr_jupyter._messages.run_results import Idle, Progress, Results, RunStrip, Said, StatesTab
from taxpr_jupyter._messages.selected import Controls, Empty, Facts, SelectedNode, Several, Tag
from taxpr_jupyter._messages.source_tab import (
    LineMark,
    SourceEdits,
    SourceHeat,
    SourceText,
)
from taxpr_jupyter._messages.tabs import (
    Answer,
    ComparisonTab,
    Flows,
    History,
    LitSlice,
    QuestionButton,
    SearchHits,
    TabName,
    TextRows,
    Timeline,
)


class PicturePlace(TypedDict):
    """Where the user put the picture in its window; empty if they did not."""

    x: NotRequired[float]
    y: NotRequired[float]
    scale: NotRequired[float]


class Goes(TypedDict):
    """Where the picture goes, once it is there. The number makes each another one."""

    place: PicturePlace
    number: int


class Traits:
    """The traits of the panel's widget, which makes them of these types; see `_view.graph`."""

    _legend: Facts
    _criteria: Facts
    _questions: list[QuestionButton]
    svg: str
    note: str
    call: str
    counts: str
    view: TabName
    rows: TextRows | Empty
    heat: str
    marks: dict[str, str]
    selected: str
    chosen: list[str]  # if it is more than one place, `selected` among them
    several: Several | Empty
    place: PicturePlace
    views: list[str]
    goes: Goes | Empty
    inspection: SelectedNode | Empty
    controls: Controls | Empty
    devices: list[str]
    handled: dict[str, int]  # the number of a page's last message, see `Inbox`
    found: SearchHits
    slice: LitSlice
    comparison: ComparisonTab
    source: SourceText | Empty
    source_of: dict[str, list[int]]  # the lines of each element of the picture
    source_run: dict[str, list[LineMark]]  # what runs say of lines, by their numbers
    recorded: RecordedValues | Empty
    curves: dict[str, ValueCurve]  # of recorded values in loops, by address
    expressions: list[WatchedExpression]
    cotangents: bool  # whether they can be recorded
    held: dict[str, str]  # for elements of the picture the recorded value that each gives
    source_heat: SourceHeat | Empty
    timeline: Timeline | Empty
    source_edits: SourceEdits | Empty
    answer: Answer | Empty
    flows: Flows | Empty
    states: StatesTab | Empty
    tags: list[Tag]
    history: History | Empty
    message: Said | Empty
    progress: Progress | Idle
    results: Results | Empty
    runs: RunStrip | Empty
    live: bool
    not_live: str  # why; empty while it is live
    gradients: Literal["", "off", "on"]
    stale: bool
    code: str
    saved: str  # the class of the picture that is saved with the notebook in place of this
