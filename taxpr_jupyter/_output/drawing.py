"""`Drawing`: a drawn program to look at as text or SVG, to unfold, and to write to files."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import taxpr
from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.measured import Colours
from taxpr_jupyter._layout.arranged import Layout, RecentLayouts, arranged
from taxpr_jupyter._layout.dot import to_dot
from taxpr_jupyter._layout.layout import TIMEOUT, LaidOut, lay_out
from taxpr_jupyter._lines.line import ProgramLine
from taxpr_jupyter._model.model import Marked, Picture
from taxpr_jupyter._output import files, page, saved
from taxpr_jupyter._output.paper import Paper
from taxpr_jupyter._output.view import View, finder_of, found_view
from taxpr_jupyter._svg.in_cells import for_outputs
from taxpr_jupyter._svg.raster import raster
from taxpr_jupyter._svg.svg import finish_svg
from taxpr_jupyter._tree.focus import Only
from taxpr_jupyter._tree.refold import refolded

OUTPUT_LINES = 100  # of the program in the output of a cell

# The lines of a program as text, some of them or, for None, all: each with the address of what it
# is about, which is "" for the head and the like.
Outline = Callable[[int | None], Sequence[tuple[str, str]]]


class Layouts:
    """Lays out pictures, and keeps the last layout, and the layouts of frames."""

    def __init__(self) -> None:
        self.kept = RecentLayouts()
        self._last: tuple[Picture, LaidOut[Layout]] | None = None  # one thing, for several threads
        self._finished: tuple[Layout, str] | None = None

    @property
    def last(self) -> LaidOut[Layout] | None:
        """The result of the last layout that was not cancelled, or None."""
        return self._last[1] if self._last else None

    def of(
        self, picture: Picture, timeout: float, cancel: threading.Event | None
    ) -> LaidOut[Layout]:
        """The layout of this picture."""
        last = self._last
        if last is not None and last[0] is picture:
            return last[1]
        laid_out = lay_out(lambda: arranged(picture, self.kept), timeout, cancel)
        if cancel is None or not cancel.is_set():
            self._last = picture, laid_out
        return laid_out

    def finished(self, layout: Layout, picture: Picture) -> str:
        """The SVG of a picture with this layout; the last one is kept."""
        found = self._finished
        if found is None or found[0] is not layout:
            with without_collection():  # one takes longer than this
                found = self._finished = layout, finish_svg(layout, picture)
        return found[1]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A drawn program, made by `draw`.

    It never changes: `unfold` and `fold` return another drawing. Nothing is laid out before it is
    needed. At the end of a notebook's cell it shows itself as a static picture.

    Attributes:
        builder: Draws the program.
        outline: Writes the program as text.
        timeout: Seconds that a layout may take.
        unfolded: The addresses of open nodes; None leaves it to the budget.
        injected: Addresses of tags that have an injector.
        added: Addresses of tags that were added interactively.
        only: The part that is drawn; None for all.
        heat: The quantity that colours nodes; None for their kinds.
        paper: How it looks on paper; None on a screen.
        call: The call in Python: `draw(f, x)`.
        notes: Remarks about the program.
        layouts: Lays out.
        views: The views that were kept, by their names.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr_jupyter import draw
        >>> drawing = draw(jnp.sin, jnp.ones(3))
        >>> drawing.svg().startswith("<svg"), drawing.dot.startswith("digraph")
        (True, True)
    """

    builder: Builder
    outline: Outline
    timeout: float = TIMEOUT
    unfolded: Collection[str] | None = None
    injected: Collection[str] = frozenset()
    added: Collection[str] = frozenset()
    only: Only | None = None
    heat: Colours = None
    paper: Paper | None = None
    call: str = "draw(…)"
    notes: Sequence[str] = ()
    layouts: Layouts = dataclasses.field(default_factory=Layouts)
    views: Mapping[str, View] = dataclasses.field(default_factory=dict[str, View])

    # --- looking ----------------------------------------------------------------------------------

    @property
    def program(self) -> taxpr.Program:
        """The program."""
        return self.builder.program

    @property
    def _marked(self) -> Marked:
        return Marked(self.injected, self.added)

    @functools.cached_property
    def picture(self) -> Picture:
        """The picture as plain data: nodes, edges, clusters, counts."""
        return self.opened(self.unfolded)

    def lines(self) -> list[ProgramLine]:
        """The content of the picture as lines, in plain data."""
        return self.builder.lines(self.unfolded, self._marked, self.only)

    def opened(self, unfolded: Collection[str] | None) -> Picture:
        """The picture with other parts open.

        Args:
            unfolded: The addresses of open nodes; None leaves it to the budget.
        """
        picture = self.builder.picture(unfolded, self._marked, self.heat, only=self.only)
        return self.paper.of(picture) if self.paper else picture

    def part(self, address: str, path: Collection[str]) -> Picture | None:
        """Draw the content of an address and its neighbours; see `Builder.part`.

        Args:
            address: An equation, a group, or inputs or outputs that share a node.
            path: The nodes that must be open to see it, itself included.
        """
        picture = self.builder.part(address, path, self._marked, self.heat, self.only)
        return self.paper.of(picture) if self.paper and picture else picture

    @functools.cached_property
    def dot(self) -> str:
        """The picture in the DOT language, the same in every process."""
        return to_dot(self.picture)

    @property
    def source(self) -> str:
        """The DOT text, under the name that objects of the package `graphviz` use."""
        return self.dot

    def svg(self, cancel: threading.Event | None = None) -> str:
        """The picture as SVG.

        Args:
            cancel: Set it from another thread to stop the layout at once.

        Raises:
            PanelError: If it could not be laid out.
        """
        laid_out = self.layouts.of(self.picture, self.timeout, cancel)
        if laid_out.layout is None:
            raise PanelError(laid_out.note)
        svg = self.layouts.finished(laid_out.layout, self.picture)
        return self.paper.sized(svg) if self.paper else svg

    def text(self, limit: int | None = None) -> str:
        """The program as text: an equation in a line, nested ones indented.

        Args:
            limit: At most this many lines of the program; None for all.
        """
        return "\n".join(line for _, line in self.outline(limit))

    def html(
        self,
        levels: int = page.LEVELS,
        max_bytes: int = page.MAX_BYTES,
        cancel: threading.Event | None = None,
    ) -> str:
        """A self-contained page: pan, zoom, search, select, and walk into folded nodes.

        Args:
            levels: How deep one can walk.
            max_bytes: About how large the page may be. A node that finds no room in it, or in the
                time limit of one layout for all, says so, and how to open it in Python.
            cancel: Set it from another thread to stop at once.

        Raises:
            PanelError: If the picture could not be laid out.
        """
        return page.page(self, levels, max_bytes, cancel)

    @property
    def note(self) -> str:
        """Remarks about the program, the picture and its last layout; may be empty."""
        last = self.layouts.last
        notes = [*self.notes, self.picture.note, last.note if last else ""]
        return " ".join(note for note in notes if note)

    # --- opening and closing ----------------------------------------------------------------------

    def unfold(self, *addresses: str) -> Drawing:
        """A drawing with these equations or groups open, one after the other.

        Args:
            *addresses: Equations that hold jaxprs, or groups.

        Raises:
            PanelError: If one of them holds nothing that could be open.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import draw
            >>> drawing = draw(jax.jit(jnp.sin), 1.0).fold("0:jit")
            >>> drawing
            <drawing of sin: 2 equations, 1 of them folded>
            >>> drawing.unfold("0:jit")
            <drawing of sin: 2 equations>
        """
        return self._refolded(addresses, opened=True)

    def fold(self, *addresses: str) -> Drawing:
        """A drawing with these equations or groups closed.

        Args:
            *addresses: Equations that hold jaxprs, or groups.

        Raises:
            PanelError: If one of them holds nothing that could be open.
        """
        return self._refolded(addresses, opened=False)

    def _refolded(self, addresses: Sequence[str], opened: bool) -> Drawing:
        drawing = self
        for address in addresses:
            now = refolded(drawing.picture, address, opened)
            drawing = dataclasses.replace(drawing, unfolded=now)
        return drawing

    def keep_view(self, name: str) -> Drawing:
        """A drawing that keeps the open nodes of this one under a name.

        Args:
            name: The name, for `view`.
        """
        now = View(self.picture.unfolded, self.only)
        return dataclasses.replace(self, views={**self.views, name: now})

    def view(self, name: str) -> Drawing:
        """A drawing with a view that was kept, else opened at the first place of that name.

        Args:
            name: The name of a view that `keep_view` kept, or the words of a search: an address, a
                tag, a scope, a function, ``prim:dot_general``.

        Raises:
            PanelError: If there is no such view or place.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import draw
            >>> drawing = draw(jax.jit(jnp.tanh), 1.0).keep_view("open").fold("0:jit")
            >>> drawing, drawing.view("open")
            (<drawing of tanh: 2 equations, 1 of them folded>, <drawing of tanh: 2 equations>)
            >>> drawing.view("prim:tanh")
            <drawing of tanh: 2 equations>
        """
        found = self.views.get(name)
        if found is None:
            now = View(self.picture.unfolded, self.only)
            found = found_view(name, self.views, finder_of(self.builder), self.builder, now)
        return dataclasses.replace(self, unfolded=found.unfolded, only=found.only)

    # --- keeping ----------------------------------------------------------------------------------

    def writers(self) -> dict[str, Callable[[], str | bytes]]:
        """The functions that write a file, by its suffix."""
        return {
            ".svg": self.svg,
            ".png": lambda: self._raster("png"),
            ".pdf": lambda: self._raster("pdf"),
            ".html": self.html,
            ".dot": lambda: self.dot,
            ".gv": lambda: self.dot,
            ".txt": lambda: f"{self.text()}\n",
        }

    def _raster(self, form: str) -> bytes:
        paper = self.paper
        dots = (lambda width: paper.dots(form, width)) if paper else None
        return raster(self.picture, form, self.svg, self.timeout, dots=dots)

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes it to a file: .svg, .png, .pdf, .html, .dot, .gv or .txt.

        A PNG has two pixels for each of the SVG, in the style "paper" 300 in an inch. The program
        `dot` draws PNG and PDF, or else the package `cairosvg`, if it is installed.

        Args:
            path: The file; the ending of its name says which kind it is.

        Returns:
            The file.

        Raises:
            PanelError: If the name ends otherwise, or nothing here can write it.
            OSError: If the file cannot be written.

        Example:
            >>> import pathlib, tempfile
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import draw
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = draw(jnp.sin, 1.0).save(pathlib.Path(folder, "sin.svg"))
            ...     file.name, file.read_text().startswith("<svg")
            ('sin.svg', True)
        """
        return files.save(path, self.writers())

    def graphviz(self) -> Any:
        """The picture as a `graphviz.Source`.

        Raises:
            PanelError: If the package `graphviz` is not installed.
        """
        try:
            import graphviz  # optional: only for this
        except ImportError:
            raise PanelError(
                "The package graphviz is not installed: `pip install graphviz`. "
                "The DOT text itself is in `.dot`."
            ) from None
        return graphviz.Source(self.dot)

    # --- showing ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<drawing of {self.program.name}: {self.picture.counts}>"

    def _repr_mimebundle_(self, **choice: Any) -> dict[str, Any]:
        del choice  # the frontend takes what it can show
        data: dict[str, Any] = {}
        notes = [*self.notes, self.picture.note]
        try:
            data["image/svg+xml"] = for_outputs(self.svg())
        except PanelError as error:
            notes.append(str(error))
        data["text/plain"] = "\n\n".join(filter(None, [self.text(OUTPUT_LINES), *notes]))
        return data

    def _ipython_display_(self) -> None:
        saved.publish(self)
