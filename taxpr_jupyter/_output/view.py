"""`View`: what of a picture is open, what is selected and how near it is, to come back to."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._search.find import Finder
from taxpr_jupyter._tree.focus import Only


@dataclasses.dataclass(frozen=True)
class View:
    """A view of a program.

    Attributes:
        unfolded: The addresses of open nodes; None leaves it to the picture.
        only: The part that is drawn; None for all.
        selected: The selected address, or "".
        place: The panel's position and scale of the picture; empty if it chooses.
    """

    unfolded: Collection[str] | None
    only: Only | None = None
    selected: str = ""
    place: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])


def found_view(
    name: str, kept: Collection[str], finder: Finder, builder: Builder, now: View
) -> View:
    """The view of the first place that a search for a name finds.

    Raises:
        PanelError: Nothing is found.
    """
    hits = finder.find(name)
    if not hits:
        known = f" Kept are {', '.join(map(repr, kept))}." if kept else ""
        raise PanelError(
            f"There is no view {name!r}, and a search for it finds nothing in the program.{known}"
        )
    address = hits[0].address
    shown = builder.reveal(address, now.unfolded, only=now.only)
    return View(shown.unfolded, now.only, address)


def finder_of(builder: Builder) -> Finder:
    """Searches the program of a drawing."""
    return Finder(Index(builder.program), builder.where)
