"""The traits of the panel: all that it sends to a browser."""

from typing import Literal, NotRequired, TypedDict

from taxpr_jupyter._messages.run_results import Idle, Progress, Results, Said, States
from taxpr_jupyter._messages.selected import Controls, Empty, Facts, Inspection, Tag
from taxpr_jupyter._messages.source_tab import LineMark, SourceEdits, SourceHeat, SourceText, Values
from taxpr_jupyter._messages.tabs import (
    Answer,
    Comparison,
    Flows,
    History,
    QuestionButton,
    Rows,
    SearchHits,
    Slice,
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
    found: SearchHits
    slice: Slice
    comparison: Comparison
    source: SourceText | Empty
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
