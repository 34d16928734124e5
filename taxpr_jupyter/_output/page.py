"""Write a drawing as one HTML file that needs no network and no Python.

The page contains the picture as SVG, visible without scripts, and as data a picture of each view
that was kept, and of each folded node, as far as size and time allow. `static/page.js` shows them
one at a time in the panel's viewer, with a model that answers out of these data.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import itertools
import json
import pathlib
import re
import string
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import taxpr
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.as_compiled import AsCompiled
from taxpr_jupyter._heat.line_heat import line_heat, line_kernels, source_heat
from taxpr_jupyter._heat.measured import Colours, Found, Measured
from taxpr_jupyter._heat.timeline import shown_timeline
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.dot import plain
from taxpr_jupyter._layout.layout import lay_out_all
from taxpr_jupyter._lines.source import LinesOf, SourceRows
from taxpr_jupyter._messages.panel_traits import PicturePlace
from taxpr_jupyter._messages.saved_page import PageData
from taxpr_jupyter._messages.selected import Empty
from taxpr_jupyter._messages.source_tab import SourceHeat, SourceText
from taxpr_jupyter._messages.tabs import Timeline
from taxpr_jupyter._model.legend import legend_rows
from taxpr_jupyter._model.model import Picture, count_of
from taxpr_jupyter._output.inner import NO_ROOM, NO_TIME, Inner, walk
from taxpr_jupyter._output.known import known_places
from taxpr_jupyter._output.modules import linked
from taxpr_jupyter._output.view import View
from taxpr_jupyter._search.grammar import GRAMMAR
from taxpr_jupyter._svg.svg import finish_svg
from taxpr_jupyter._text.short import visible

LEVELS = 6  # how deep one can walk
MAX_BYTES = 2_000_000
_LINES = 2000  # of the program as text
_TOGETHER = 16  # pictures that are laid out in one go
_VIEW = "view:"  # before the name of a view, as the address of its picture

STATIC = pathlib.Path(__file__).parent / "static"
_PANEL = pathlib.Path(__file__).parents[1] / "_view" / "static"
_STYLE = re.compile(r"<style>(.*?)</style>\n?", re.DOTALL)


class Pictured(Protocol):
    """The interface of `Drawing`, which cannot be imported here because it imports this module."""

    @property
    def builder(self) -> Builder: ...
    @property
    def call(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    @property
    def heat(self) -> Colours: ...
    @property
    def outline(self) -> Callable[[int | None], Sequence[tuple[str, str]]]: ...
    @property
    def program(self) -> taxpr.Program: ...
    @functools.cached_property
    def picture(self) -> Picture: ...
    @property
    def note(self) -> str: ...
    def svg(self, cancel: threading.Event | None = None) -> str: ...
    def part(self, address: str, path: Collection[str]) -> Picture | None: ...
    @property
    def views(self) -> Mapping[str, View]: ...
    def view(self, name: str) -> Pictured: ...


def page(
    drawing: Pictured, levels: int, max_bytes: int, cancel: threading.Event | None = None
) -> str:
    """Writes the page; see `Drawing.html`."""
    with without_collection():
        return _page(drawing, levels, max_bytes, cancel)


def _page(drawing: Pictured, levels: int, max_bytes: int, cancel: threading.Event | None) -> str:
    svg = drawing.svg(cancel)
    style = _STYLE.search(svg)
    lines = drawing.outline(_LINES)
    script, look, looks = linked(STATIC / "page.js"), style[1] if style else "", _looks()
    outline = "".join(map(_outline_line, lines))
    main = _STYLE.sub("", svg)
    size = sum(len(part.encode(errors="replace")) for part in (main, script, look, looks, outline))
    first = drawing.picture
    shown = {one.fold or one.address for one in (*first.nodes, *first.clusters)}
    # Half of the room at most: a search is worth little in a file without pictures.
    index = Index(drawing.program)
    known = known_places(index, drawing.builder.where, (max_bytes - size) // 2, shown)
    source, heat, lines_of = _source(drawing, index, (max_bytes - size) // 4)
    data: PageData = {
        "pages": {
            "": {
                "ends": _ends(drawing.picture),
                "lines": lines_of(drawing.picture),
                "counts": str(drawing.picture.counts),
            },
        },
        "left": {},
        "call": drawing.call,
        "source": source,
        "heat": heat,
        "timeline": _timeline(drawing),
        "legend": legend_rows(),
        "grammar": GRAMMAR,
        "known": known,
    }
    size += sum(len(_embedded(one)) for one in (known, source, heat, data["timeline"]))
    until = time.monotonic() + drawing.timeout

    def room() -> bool:
        return size < max_bytes

    pictures = {"": drawing}
    for name, view in drawing.views.items() if room() else ():
        one = pictures[f"{_VIEW}{name}"] = drawing.view(name)
        data["pages"][f"{_VIEW}{name}"] = {
            "title": name,
            "ends": _ends(one.picture),
            "lines": lines_of(one.picture),
            "counts": str(one.picture.counts),
            "svg": _STYLE.sub("", one.svg(cancel)),
            "view": {"selected": view.selected, "place": cast(PicturePlace, dict(view.place))},
        }
        size += len(_embedded(data["pages"][f"{_VIEW}{name}"]))
    level: dict[str, int] = {}
    found = itertools.chain.from_iterable(
        walk(one.picture, one.part, levels, until, room, start, level)
        for start, one in pictures.items()
    )
    for inner, shown in _laid_out(found, until, cancel):
        if cancel is not None and cancel.is_set():
            raise PanelError("No page: it was cancelled.")
        reason = inner.reason
        if inner.picture is not None:
            reason = ("" if shown else NO_TIME) if room() else NO_ROOM
        if inner.picture is None or shown is None or reason:
            data["left"][inner.address] = {"reason": reason, "path": list(inner.path)}
            continue
        data["pages"][inner.address] = {
            "outer": inner.outer,
            "title": inner.title,
            "ends": _ends(inner.picture),
            "lines": lines_of(inner.picture),
            "counts": _counts(inner.picture, tagged=drawing.picture.counts.tags > 0),
            "svg": shown,
        }
        size += len(_embedded(data["pages"][inner.address]))
    return string.Template((STATIC / "page.html").read_text("utf-8")).substitute(
        title=_escaped(drawing.program.name),
        counts=_escaped(f"{drawing.picture.counts}{_left_out(len(data['left']))}"),
        note=_escaped(drawing.note),
        look=look,
        looks=looks,
        svg=main,
        outline=outline,
        data=_embedded(data),
        script=script,
        hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _laid_out(
    found: Iterable[Inner], until: float, cancel: threading.Event | None
) -> Iterator[tuple[Inner, str | None]]:
    """Each with its SVG, but for the style sheet, which the page has; None without the time."""
    found, kept = iter(found), RecentLayouts()
    while part := list(itertools.islice(found, _TOGETHER)):
        pictures = [inner.picture for inner in part if inner.picture]
        left = max(0.0, until - time.monotonic())
        plans = [lambda one=picture: arranged(one, kept) for picture in pictures]
        made = iter(lay_out_all(plans, left, cancel))
        for inner in part:
            layout = next(made).layout if inner.picture else None
            shown = layout and inner.picture and _STYLE.sub("", finish_svg(layout, inner.picture))
            yield inner, shown


def _source(
    drawing: Pictured, index: Index, room: int
) -> tuple[SourceText | Empty, SourceHeat | Empty, Callable[[Picture], dict[str, list[int]]]]:
    """The source if there is room for it, what was measured of its lines, and `lines_of`.

    That gives the lines of the elements of a picture.
    """
    colours, source = drawing.heat, SourceRows(index.program, drawing.builder.divided)
    state = source.state()
    if len(_embedded(state)) > room:
        return {}, {}, lambda _: {}
    kind = colours.kind if isinstance(colours, Found) else None
    notes = colours.notes if isinstance(colours, AsCompiled) else ()
    heat = source_heat(kind, notes, line_heat(source, colours), line_kernels(source, colours))
    lines = LinesOf(index, source)

    def lines_of(picture: Picture) -> dict[str, list[int]]:
        return lines.of_all(one.address for one in (*picture.nodes, *picture.clusters))

    return state, heat, lines_of


def _timeline(drawing: Pictured) -> Timeline | Empty:
    """The memory over the steps, where the picture has the colours of the bytes at the peak."""
    colours = drawing.heat
    use = colours.answer if isinstance(colours, Measured) and colours.kind == "peak" else None
    known = use if isinstance(use, taxpr.questions.MemoryUse) else None
    return shown_timeline(known, lambda: drawing.picture)


def _ends(picture: Picture) -> list[tuple[int, int]]:
    """For each edge the numbers of its nodes; both are in the SVG in the order of the picture."""
    numbers = {node.id: number for number, node in enumerate(picture.nodes)}
    return [(numbers[edge.source], numbers[edge.target]) for edge in picture.edges]


def _counts(picture: Picture, tagged: bool) -> str:
    hidden = sum(picture.counts.folded.values())
    words = f"{count_of(picture.counts.total, 'equation')} here"
    words += ", any tags among them" if tagged else ""
    return f"{words}, {hidden:,} of them folded" if hidden else words


def _left_out(number: int) -> str:
    if not number:
        return ""
    return f"; what is inside of {count_of(number, 'folded node')} is not in this file"


def _outline_line(line: tuple[str, str]) -> str:
    address, text = line
    return f'<span data-line="{_escaped(address)}">{_escaped(text)}\n</span>'


def _escaped(text: str) -> str:
    return html.escape(plain("\n".join(map(visible, text.split("\n")))))


def _embedded(data: Any) -> str:
    """JSON that cannot end the script element around it, nor begin a comment or a script there.

    Other tags stay as they are: the SVGs are full of them.
    """
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return re.sub(r"<(?=[!?sS])", r"\\u003c", text)


def _looks() -> str:
    panel = (_PANEL / "panel.css").read_text("utf-8")
    return "\n".join([panel, (STATIC / "page.css").read_text("utf-8")])
