"""The picture of an edited program: built, written as DOT, laid out, and kept."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from taxpr_jupyter._picture._build import Builder
from taxpr_jupyter._picture._dot import to_dot
from taxpr_jupyter._picture._layout import LaidOut, lay_out
from taxpr_jupyter._picture._lines import Line
from taxpr_jupyter._picture._model import Picture
from taxpr_jupyter._picture._svg import finish_svg
from taxpr_jupyter._session._edits import Edited
from taxpr_jupyter._session._inspect import Inspection
from taxpr_jupyter._session._sources import source_text


class Drawn:
    """Draws edited programs. The last picture and the last layout are kept.

    Args:
        budget: Draw at most about this many nodes.
        timeout: Seconds that a layout may take.
    """

    def __init__(self, budget: int, timeout: float) -> None:
        self.budget = budget
        self.timeout = timeout
        self._builder: Builder | None = None
        self._picture: tuple[Any, Picture] | None = None
        self._laid_out: tuple[str, LaidOut] | None = None

    def picture(self, edited: Edited) -> Picture:
        """The picture of a program with its edits."""
        edits = edited.edits
        key = (edits.tags, frozenset(edits.attached), edits.unfolded)
        kept = self._picture
        if kept is not None and kept[0] == key:
            return kept[1]
        injected, added = _tags(edited)
        picture = self._builder_of(edited).picture(edits.unfolded, injected, added)
        self._picture = key, picture
        return picture

    def lines(self, edited: Edited) -> list[Line]:
        """What the picture shows, as lines."""
        return self._builder_of(edited).lines(edited.edits.unfolded, *_tags(edited))

    def all_lines(self, edited: Edited) -> list[Line]:
        """Every equation as a line."""
        return self._builder_of(edited).all_lines(*_tags(edited))

    def _builder_of(self, edited: Edited) -> Builder:
        if self._builder is None or self._builder.program is not edited.program:
            self._builder = Builder(edited.program, self.budget, source_text)
        return self._builder

    def svg(self, edited: Edited, cancel: threading.Event | None = None) -> str | None:
        """The picture as SVG; None where there is no layout, and `note` says why."""
        picture = self.picture(edited)
        dot = to_dot(picture)
        kept = self._laid_out
        if kept is not None and kept[0] == dot:
            laid_out = kept[1]
        else:
            laid_out = lay_out(dot, self.timeout, cancel)
            if cancel is not None and cancel.is_set():
                return None
            self._laid_out = dot, laid_out
        return None if laid_out.svg is None else finish_svg(laid_out.svg, picture)

    def note(self, edited: Edited) -> str:
        """What the user should know about the picture and its layout; may be empty."""
        notes = [self.picture(edited).note, self._laid_out[1].note if self._laid_out else ""]
        return " ".join(note for note in notes if note)

    def described(self, edited: Edited, address: str, found: Inspection | None) -> Inspection:
        """An inspection, completed by what the picture knows."""
        picture = self.picture(edited)
        element = picture.find(address)
        fold = address if address in picture.foldable else getattr(element, "fold", None)
        if found is None:
            lines = element.lines if element else ("nothing is here",)
            group = element is not None and element.kind in ("group", "literal")
            found = Inspection(
                address=address,
                kind=element.kind if element and group else "unknown",
                title=lines[0] if lines else "",
                params=tuple(("", line) for line in lines[1:]),
            )
        return dataclasses.replace(
            found, foldable=fold is not None, unfolded=fold in picture.unfolded
        )


def _tags(edited: Edited) -> tuple[set[str], set[str]]:
    """The addresses of tags with an injector, and of those added interactively."""
    injected = {site.address for site in edited.sites if site.injector}
    return injected, {site.address for site in edited.sites if site.added}
