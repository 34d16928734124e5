"""The part of a session that renders: pictures, texts, pages, code, comparisons."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._code.code import CallSource, Changed, code_of
from taxpr_jupyter._code.state_code import StatesOf
from taxpr_jupyter._drawing.build import Builder
from taxpr_jupyter._edits import outline as _outline
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._heat.as_compiled import AsCompiled
from taxpr_jupyter._heat.measured import Colours, Found
from taxpr_jupyter._layout.dot import to_dot
from taxpr_jupyter._lines.line import ProgramLine
from taxpr_jupyter._model.kinds import GivenKind, HeatKind, MeasuredKind
from taxpr_jupyter._model.model import Picture
from taxpr_jupyter._output import files
from taxpr_jupyter._output.comparison import Comparison
from taxpr_jupyter._output.drawing import Drawing, Layouts
from taxpr_jupyter._output.view import View
from taxpr_jupyter._session.trials import Trials
from taxpr_jupyter._states.pure_call import PureCall
from taxpr_jupyter._stoppable import CancelledError, stoppable
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._tracing.sources import source_text


@dataclasses.dataclass(eq=False, repr=False)
class Renderer:
    """Gives the program with its edits as pictures and texts.

    The last drawing and the last layout are kept.

    Attributes:
        budget: About how many nodes to show, as for `draw`.
        timeout: Seconds that a layout may take.
        views: The views that were kept, by their names.
    """

    _store: Store
    _trials: Trials
    _source: CallSource
    _pure: PureCall | None
    budget: int
    timeout: float
    _wanted: HeatKind | None
    views: Mapping[str, View] = dataclasses.field(default_factory=dict[str, View], init=False)
    _measured: dict[HeatKind, Found] = dataclasses.field(
        default_factory=dict["HeatKind", Found], init=False
    )
    _layouts: Layouts = dataclasses.field(default_factory=Layouts, init=False)
    _builder: Builder | None = dataclasses.field(default=None, init=False)
    _kept: tuple[Any, Drawing] | None = dataclasses.field(default=None, init=False)
    _results: tuple[taxpr.Program | None, Mapping[str, introspect.Division]] = dataclasses.field(
        default=(None, {}), init=False
    )  # of the last run
    _drawn: Edited | None = dataclasses.field(default=None, init=False)  # the last one

    @property
    def heat(self) -> HeatKind | None:
        """The kind of quantity that colours nodes; None if it was measured of another program."""
        colours = self.colours
        return colours.kind if isinstance(colours, Found) else colours

    @heat.setter
    def heat(self, kind: HeatKind | None) -> None:
        self._wanted = kind

    @property
    def colours(self) -> Colours:
        """The quantity that colours nodes, with its numbers if it was measured."""
        kind = self._wanted
        if kind is None or kind == "flops" or kind == "bytes":
            return kind
        return self.measured(kind)

    def measured(self, kind: MeasuredKind | GivenKind) -> Found | None:
        """The numbers of the program as it is now; None if nobody has asked for them yet."""
        found = self._measured.get(kind)
        return found if found is not None and found.program is self._store.program else None

    def note(self, found: Found) -> None:
        """Keeps the numbers or kernels of an answer."""
        self._measured[found.kind] = found

    def divided(self, edited: Edited) -> introspect.Divisions:
        """How values are divided among devices.

        Once the program has run its results, too, and once `ask` has had it compiled, all of them.
        """
        found, (ran, known) = self.measured("compiled"), self._results
        if isinstance(found, AsCompiled):
            known = found.answer.shardings.values
        elif ran is not self._store.program:
            known = None
        return edited.tagged.divided(known)

    def note_results(
        self, program: taxpr.Program, divided: Mapping[str, introspect.Division]
    ) -> bool:
        """Keeps how the arguments and results of a run are divided.

        Args:
            program: The program that ran, without added tags.
            divided: The divisions by the addresses of arguments and results.

        Returns:
            Whether that is new.
        """
        ran, known = self._results
        is_new = (divided, ran) != (known, program) if divided else bool(known)
        if is_new:
            self._results = program, divided
        return is_new

    def folding(self, after: Edited) -> dict[str, Any]:
        """The open addresses, as a program has them that is to take the place of this one."""
        before, now = self._store.edited, self._store.edits
        if after.base is before.base:
            return {"unfolded": now.unfolded, "by_hand": now.by_hand, "only": now.only}
        if now.unfolded is None:
            return {"unfolded": None, "by_hand": frozenset(), "only": None}
        found = self.builder(before).alike(self.builder(after), now.unfolded)
        by_hand = frozenset(found[one] for one in now.by_hand if one in found)
        return {"unfolded": frozenset(found.values()), "by_hand": by_hand, "only": None}

    def picture(self) -> Picture:
        """The picture as plain data."""
        with self._store.lock:
            return self.drawing(self._store.edited).picture

    def dot(self) -> str:
        """The picture as DOT text."""
        return to_dot(self.picture())

    def svg(self, cancel: threading.Event | None = None) -> str | None:
        """The picture as SVG; None if it could not be laid out, and `layout_note` says why.

        Args:
            cancel: Set it from another thread to stop the layout at once.
        """
        try:
            return self.drawing(self._store.edited).svg(cancel)
        except PanelError:
            return None

    @property
    def layout_note(self) -> str:
        """Remarks about the picture and its last layout; may be empty."""
        edited = self._store.edited
        notes = [edited.edits.note, edited.passed_over, self.drawing(edited).note]
        return " ".join(note for note in notes if note)

    def lines(self) -> list[ProgramLine]:
        """The content of the picture as lines, in plain data."""
        with self._store.lock:
            return self.drawing(self._store.edited).lines()

    def text(self, color: bool = False, limit: int | None = None, folded: bool = False) -> str:
        """The program as text, with its tags marked.

        Args:
            color: Whether to use the colours of a terminal.
            limit: At most this many lines of the program; None for all.
            folded: Whether to write what the picture shows, as `print(jaxpr)` would; else every
                equation is there, with its address.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> print(Session(lambda x: jnp.sin(x) * x, (0.5,)).text(folded=True))
            fn(0.5): 2 equations, 0 tags
            { lambda ; a:f32[] . let  # x
              b:f32[] = sin a
              c:f32[] = mul b a
            in (c,) }
        """
        if folded:
            return self._folded_text(False, color, limit)
        with self._store.lock:
            edited = self._store.edited
            rows = edited.rows(self._store.call, limit, self.divided(edited), color)
        return "\n".join(text for _, text in rows)

    def outline(self, color: bool = False, limit: int | None = None) -> str:
        """The content of the picture as an indented outline, also for screen readers.

        Args:
            color: Whether to use the colours of a terminal.
            limit: At most this many lines of the program; None for all.
        """
        return self._folded_text(True, color, limit)

    def html(self) -> str:
        """The picture as a page that needs nothing else; see `Drawing.html`.

        Raises:
            PanelError: If the picture could not be laid out.
        """
        return self._with_views().html()

    def tags_table(self, color: bool = False) -> str:
        """A table of all tags.

        Args:
            color: Whether to use the colours of a terminal.
        """
        return _outline.tags_table(self._store.edited.sites, color=color)

    def code(self, question: str | None = None, of: str = "") -> str:
        """Python that traces, tags, injects and runs the same, without the session.

        Its results equal `run`'s in each bit if `jax.jit` can compile it, else up to rounding, as a
        comment says. A function that is not jitted runs operation by operation when it is called
        itself, and may round otherwise, too.

        Args:
            question: A question that it asks instead of running, as `ask` is given it.
            of: For ``"flow"`` the result that is differentiated; empty for the first one.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(jnp.sin, (0.5,), call="jnp.sin(0.5)")
            >>> attached = session.attach("0:sin", "scale", factor=2.0)
            >>> print(session.code().splitlines()[-1])
            report = injected.report(ctx)
            >>> print(session.code("find_nan").splitlines()[-1])
            taxpr.find_nan(jnp.sin)(0.5)
        """
        return self.coding(question, of)()

    def coding(self, question: str | None = None, of: str = "") -> Callable[[], str]:
        """A function that writes `code` for the present state of the session."""
        with self._store.lock:
            edits = self._store.edits
            states = StatesOf(self._pure, edits.states) if self._pure else None
            edited = self._store.edited
            held = {address: edited.program.var_of(address) for address in edits.tags}
            # Lines may be others where the code runs.
            held = {key: repr(one) for key, one in held.items() if one and one.line is None}
            changes: list[Changed] = [(one.elsewhere, one.line) for one in edits.written]
            changes += [
                (one.variable, one) for one in edits.attached.values() if one.edits and not one.idle
            ]
            compiled = self._store.untouched.door is None
            given = self._source, edits.tags, edited.acting, held, states, question, of
            return functools.partial(code_of, *given, compiled=compiled, changes=changes)

    def changes(self, cancel: threading.Event | None = None) -> Comparison:
        """The program with the added tags and the injectors, compared with the untouched one.

        If `ask` has had the program compiled, both sides are, to know how they divide values among
        devices.

        Args:
            cancel: Set it from another thread to stop within a second.

        Raises:
            PanelError: An injector cannot work.
            CancelledError: ``cancel`` was set.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.0,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> session.changes().diff.counts["added"]
            3
        """
        self._trials.settle(cancel)
        try:
            after = stoppable(self._store.edited.injected_in_words, cancel and cancel.is_set)
        except (PanelError, CancelledError):
            raise
        except Exception as error:  # what an injector reads may have changed since it was tried
            raise PanelError(f"An injector cannot work: {one_line(error)}") from error
        return Comparison(
            self._store.untouched,
            after,
            budget=self.budget,
            timeout=self.timeout,
            compiled=self.measured("compiled") is not None,
            builder=self._builder,
        )

    def save(self, path: str | os.PathLike[str], more: files.Writers) -> None:
        """Writes the picture, the text, the code, or what others write; see `EditsFile.save`."""
        own = {
            ".txt": lambda: f"{self.text()}\n\n{self.tags_table()}\n",
            ".py": self.code,
        }
        files.save(path, {**self._with_views().writers(), **own, **more})

    # ---- within ------------------------------------------------------------------

    def _with_views(self) -> Drawing:
        with self._store.lock:
            return dataclasses.replace(self.drawing(self._store.edited), views=self.views)

    def drawing(self, edited: Edited) -> Drawing:
        """The drawing of a program with its edits."""
        self._drawn = edited
        edits = edited.edits
        # Values of injectors are shown in the text, not in the picture.
        attached = frozenset(key for key, one in edits.attached.items() if not one.idle)
        divided = self.divided(edited)
        key = (edited.base, edits.tags, attached, edits.unfolded, edits.only, self.colours, divided)
        kept = self._kept
        if kept is not None and kept[0] == key:
            return kept[1]
        drawing = Drawing(
            builder=self.builder(edited),
            outline=self._outline,
            timeout=self.timeout,
            unfolded=edits.unfolded,
            injected=edited.marked.injected,
            added=edited.marked.added,
            only=edits.only,
            heat=self.colours,
            call="session",
            layouts=self._layouts,
        )
        self._kept = key, drawing
        return drawing

    def builder(self, edited: Edited) -> Builder:
        """The builder of a program's drawings; the last one is cached."""
        builder = self._builder  # another thread may replace the attribute
        divided = self.divided(edited)
        if builder is None or (builder.program, builder.divided) != (edited.program, divided):
            tagged = edited.tagged  # whose letters the text of the program needs, too
            builder = self._builder = Builder(
                edited.program, self.budget, source_text, divided, letters=lambda: tagged.letters
            )
        return builder

    def _folded_text(self, outline: bool, color: bool, limit: int | None) -> str:
        with self._store.lock:
            lines, sites = self.lines(), self._store.edited.sites
        return _outline.folded_text(
            lines, sites, outline=outline, call=self._store.call, color=color, limit=limit
        )

    def _outline(self, limit: int | None) -> list[tuple[str, str]]:
        edited = self._drawn
        assert edited is not None
        return edited.rows(edited.program.name, limit, self.divided(edited))
