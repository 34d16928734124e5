"""`Drawn`: draw an edited program, and cache the drawing until the edits change."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._edits.edits import Edited
from taxpr_jupyter._edits.inspect import Inspection
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import HeatKind, Picture
from taxpr_jupyter._output.drawing import Drawing, Layouts
from taxpr_jupyter._tracing.sources import source_text


class Drawn:
    """Draws edited programs. The last drawing and the last layout are kept.

    Args:
        budget: Draw at most about this many nodes.
        timeout: Seconds that a layout may take.
        heat: The quantity by which nodes are coloured.
    """

    def __init__(self, budget: int, timeout: float, heat: HeatKind | None = None) -> None:
        self.budget = budget
        self.heat: HeatKind | None = heat
        self.timeout = timeout
        self._layouts = Layouts()
        self._builder: Builder | None = None
        self._kept: tuple[Any, Drawing] | None = None
        self._edited: Edited | None = None  # the last one asked for

    def drawing(self, edited: Edited) -> Drawing:
        """The drawing of a program with its edits."""
        self._edited = edited
        edits = edited.edits
        # Values of injectors are shown in the text, not in the picture.
        key = (edits.tags, frozenset(edits.attached), edits.unfolded, edits.only, self.heat)
        kept = self._kept
        if kept is not None and kept[0] == key:
            return kept[1]
        drawing = Drawing(
            builder=self.builder(edited),
            outline=self._outline,
            timeout=self.timeout,
            unfolded=edits.unfolded,
            injected=frozenset(site.address for site in edited.sites if site.injector),
            added=frozenset(site.address for site in edited.sites if site.added),
            only=edits.only,
            heat=self.heat,
            call="session",
            layouts=self._layouts,
        )
        self._kept = key, drawing
        return drawing

    def _outline(self, limit: int | None) -> list[tuple[str, str]]:
        edited = self._edited
        assert edited is not None
        return edited.rows(edited.program.name, limit)

    def picture(self, edited: Edited) -> Picture:
        """The picture of a program with its edits."""
        return self.drawing(edited).picture

    def builder(self, edited: Edited) -> Builder:
        """The builder of a program's drawings; the last one is cached."""
        builder = self._builder  # another thread may replace the attribute
        if builder is None or builder.program is not edited.program:
            builder = self._builder = Builder(edited.program, self.budget, source_text)
        return builder

    def svg(self, edited: Edited, cancel: threading.Event | None = None) -> str | None:
        """The picture as SVG; None if there is no layout, and `note` says why."""
        try:
            return self.drawing(edited).svg(cancel)
        except PanelError:
            return None

    def note(self, edited: Edited) -> str:
        """Remarks about the picture and its layout for the user; may be empty."""
        notes = [edited.edits.note, edited.passed_over, self.drawing(edited).note]
        return " ".join(note for note in notes if note)

    def described(self, edited: Edited, address: str, found: Inspection | None) -> Inspection:
        """An inspection, completed with facts from the picture."""
        picture = self.picture(edited)
        element = picture.find(address)
        fold = address if address in picture.foldable else getattr(element, "fold", None)
        if found is None:
            lines = element.lines if element else ("nothing is here",)
            group = element is not None and element.kind in ("group", "literal", "state")
            found = Inspection(
                address=address,
                kind=element.kind if element and group else "unknown",
                title=lines[0] if lines else "",
                params=tuple(("", line) for line in lines[1:]),
                cost=getattr(element, "cost", ()),
            )
        return dataclasses.replace(
            found, foldable=fold is not None, unfolded=fold in picture.unfolded
        )
