"""The data of a saved page."""

from typing import NotRequired, TypedDict

from taxpr_jupyter._messages.panel_traits import PicturePlace
from taxpr_jupyter._messages.selected import Empty, Facts
from taxpr_jupyter._messages.source_tab import SourceHeat, SourceText
from taxpr_jupyter._messages.tabs import Timeline


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


class SearchTexts(TypedDict):
    """The searchable texts of a program.

    Each place is the last part of its address, the letters of its variables, and the numbers of
    its types, source, scope, name, label and variables among the texts, without zeros at the end.
    Places are grouped by their address before the last part.
    """

    texts: list[str]
    places: list[tuple[str, list[tuple[str, str, *tuple[int, ...]]]]]
    total: int


class PageView(TypedDict):
    """The selection of a kept view, and the panel's position of the picture."""

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
    """Why a picture is missing, and the addresses to unfold in Python to see it."""

    reason: str
    path: list[str]


class PageData(TypedDict):
    """The data of a saved page."""

    pages: dict[str, Page]
    left: dict[str, Left]
    call: str
    source: SourceText | Empty
    heat: SourceHeat | Empty
    timeline: Timeline | Empty
    legend: Facts
    grammar: Grammar
    known: SearchTexts
