"""A session: a traced call, the tags and injectors added to it, and its runs.

It is plain Python. The panel, the text in a terminal and the user's own code see and
change the same state by the same methods.
"""

from __future__ import annotations

import dataclasses
import numbers
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from taxpr_jupyter._code import code as _code
from taxpr_jupyter._code.state_code import StatesOf
from taxpr_jupyter._edits import attach
from taxpr_jupyter._edits import outline as _outline
from taxpr_jupyter._edits.attach import Attached, Choice
from taxpr_jupyter._edits.drawn import Drawn
from taxpr_jupyter._edits.inspect import Inspection
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError, UnderWayError, one_line
from taxpr_jupyter._layout.dot import to_dot
from taxpr_jupyter._layout.layout import TIMEOUT
from taxpr_jupyter._lines.listing import Line
from taxpr_jupyter._model.model import HeatKind, Picture, checked_heat, checked_limits, count_of
from taxpr_jupyter._output import files, saved
from taxpr_jupyter._output.comparison import Comparison
from taxpr_jupyter._runs.clock import OnPhase
from taxpr_jupyter._runs.devices import devices
from taxpr_jupyter._runs.execute import Executor, Plan
from taxpr_jupyter._runs.released import KEPT_BYTES, trimmed
from taxpr_jupyter._runs.run import LEFT, PHASES, Phase, Run
from taxpr_jupyter._session.editor import Editor
from taxpr_jupyter._session.states import WithStates
from taxpr_jupyter._stoppable import CancelledError, stoppable
from taxpr_jupyter._tracing.call_names import call_text, given_names
from taxpr_jupyter._tracing.trace import traced
from taxpr_jupyter._tree.fold import BUDGET

__all__ = ["Attached", "Choice", "Session", "SiteRow"]

_RUNS_KEPT = 10


class Session(WithStates):
    """A traced call, what was added to it, and its runs.

    Args:
        fn: The function. It is traced, never called otherwise.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        call: The call in Python, such as ``f(x)``.
        namespace: Where functions to inject are looked up, and names for `code`.
        name: What to call the program; by default the function's name.
        static_argnums: Positions of arguments that are not traced.
        static_argnames: Names of arguments that are not traced.
        budget: Draw at most about this many nodes.
        timeout: Seconds that a layout may take.
        device: Where `run` runs unless told otherwise; by default where JAX would.
        text_only: Show text, no picture.
        heat: What to colour nodes by: ``"flops"``, ``"bytes"``, or None for their kinds.
        kept_bytes: See the property.

    Attributes:
        name: The name of the program.
        call: The call in Python.
        text_only: Whether only text is shown.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr_jupyter import Session
        >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
        >>> attached = session.attach("0:sin", "scale", factor=0.0)
        >>> print(session.run().outputs)
        1.0
    """

    # How it shows itself: views are above sessions, so the package hands this in.
    _display: ClassVar[Callable[..., tuple[dict[str, Any], dict[str, Any]]]]

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        call: str | None = None,
        namespace: Mapping[str, Any] | None = None,
        name: str | None = None,
        static_argnums: int | Iterable[int] = (),
        static_argnames: str | Iterable[str] = (),
        budget: int = BUDGET,
        timeout: float = TIMEOUT,
        device: str | None = None,
        text_only: bool = False,
        heat: HeatKind | None = None,
        kept_bytes: float = KEPT_BYTES,
    ) -> None:
        if device is not None and device not in devices():
            raise PanelError(f"There is no device {device!r}. There are {', '.join(devices())}")
        budget, timeout = checked_limits(budget, timeout)
        start = traced(fn, args, kwargs or {}, static_argnums, static_argnames)
        program = dataclasses.replace(start.program, name=name or start.program.name)
        names = {} if namespace is None else namespace
        super().__init__(program, names, Drawn(budget, timeout, checked_heat(heat)), start.pure)
        self.name = program.name
        self.call = call or call_text(fn, args, kwargs or {}, names)
        self.notes = start.notes
        self.text_only = text_only
        statics = start.static_argnums, start.static_argnames
        given = dict(zip(given_names(fn, names), (fn, tuple(args), kwargs or {}), strict=True))
        self._source = _code.source_now(self.call, *statics, names, given)
        self._executor = Executor(start.args, start.kwargs)
        self._device = device
        self._runs: tuple[Run, ...] = ()
        self._kept_bytes = _checked_bytes(kept_bytes)
        self._count = 0
        self._under_way = threading.Lock()

    # ---- looking -----------------------------------------------------------------

    def inspect(self, address: str) -> Inspection:
        """What is at an address of the picture, or at the tag with this key; never raises.

        Args:
            address: Of a value, an equation, a group or a tag.
        """
        with self._lock:
            inspector = self._edited.inspector
            address = inspector.address_of(address)
            return self._drawn.described(self._edited, address, inspector.look(address))

    def choices(self) -> dict[str, Choice]:
        """What `attach` takes by name: ready injectors, and functions of the namespace."""
        return attach.choices(self.namespace)

    def devices(self) -> list[str]:
        """Where `run` can run, the default first."""
        return sorted(devices(), key=lambda name: name != self._device)

    def code(self) -> str:
        """Python that traces, tags, injects and runs the same, without the session.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(jnp.sin, (0.5,), call="jnp.sin(0.5)")
            >>> attached = session.attach("0:sin", "scale", factor=2.0)
            >>> print(session.code().splitlines()[-1])
            report = injected.report(ctx)
        """
        with self._lock:
            edits = self._edited.edits
            states = StatesOf(self._pure, edits.states) if self._pure else None
            return _code.code_of(self._source, edits.tags, self._edited.sites, states)

    def take_over(self, old: Editor) -> None:
        super().take_over(old)
        if isinstance(old, Session):
            self._count = old._count  # so that no two runs of a cell have one number

    # ---- running -----------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._under_way.locked()

    @property
    def runs(self) -> tuple[Run, ...]:
        """The last runs, oldest first; see `kept_bytes` for what the older ones still have."""
        return self._runs

    @property
    def stale(self) -> bool:
        """Whether tags, injectors, their values or states were changed after the last run began."""
        last = self.last
        return last is not None and last.edition != self._edition

    @property
    def kept_bytes(self) -> float:
        """How large the results of the runs before the last one may be, together.

        The last run that came to its end keeps all, and every run its texts, statistics,
        differences, and arrays of up to 16 KiB. Of the runs before the larger arrays are released,
        the oldest first: there something stands for them that says how to have them again. A
        `Run` that you hold yourself stays as it is.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(jnp.sin, (jnp.ones((100, 100)),), kept_bytes=0)
            >>> attached = session.attach("0:sin", "scale", factor=0.5)
            >>> first, second = session.run(), session.run()
            >>> session.runs[0].outputs
            <f32[100,100] of run 1, released: print(run.code) shows how to have it again>
        """
        return self._kept_bytes

    @kept_bytes.setter
    def kept_bytes(self, number: float) -> None:
        with self._change("values"):
            self._kept_bytes = _checked_bytes(number)
            self._trim()

    def release(self) -> None:
        """Frees large arrays of all runs, cached results and compiled programs.

        The next run makes them again. A cell that is run again does this to its old session.
        """
        with self._lock:
            self._executor.release()
            self._runs = tuple(trimmed(self._runs, -1, keep_last=False))

    def _trim(self) -> None:
        kept = self._executor.trimmed(self._kept_bytes)
        self._runs = tuple(trimmed(self._runs[-_RUNS_KEPT:], self._kept_bytes, kept))

    @property
    def last(self) -> Run | None:
        """The last run, or None."""
        runs = self.runs
        return runs[-1] if runs else None

    def run(
        self,
        device: str | None = None,
        on_phase: OnPhase | None = None,
        cancel: threading.Event | None = None,
        live: bool = False,
    ) -> Run:
        """Runs the program with the injectors, beside the untouched program.

        The untouched program runs once per device, with its debug prints and callbacks, since
        the arguments of a session never change; later runs compare with those outputs. It runs
        again where they were let go of, see `kept_bytes` and `release`. With nothing attached one
        program runs, which records its tags and is the untouched one, too.

        What goes wrong in the program or in an injector is in `Run.error`, and does not raise;
        `Run.exception` is the exception itself.

        Args:
            device: One of `devices`; by default where JAX would run it.
            on_phase: Called before each phase.
            cancel: Set it from another thread to stop within a second. XLA goes on with a
                program that it runs, and what comes of that is thrown away; see `Run.left`. So it
                is with the kernel's interrupt, which raises `KeyboardInterrupt`.
            live: Only glance at the results, for an answer at once: no records, and no comparison
                of arrays; `Run.whole` makes up for it. Such a run takes the place and the number
                of the live one before it.

        Returns:
            Outputs with and without the injectors, differences, records of the tags, times, what
            became of states. The user's own states stay as they are, see `write_states`.

        Raises:
            PanelError: A run is under way.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.0,))
            >>> attached = session.attach("0:sin", "add", value=2.0)
            >>> run = session.run()
            >>> print(run.baseline, run.outputs)
            1.0 3.0
        """
        if not self._under_way.acquire(blocking=False):
            raise UnderWayError("A run is under way: wait for it, or cancel it")
        try:
            again = live and self.last is not None and self.last.live
            left = self._settled(on_phase, cancel)
            plan = self._plan(again)
            run = self._executor.run(plan, device or self._device, on_phase, cancel, live)
            run = dataclasses.replace(run, left=run.left or left)
        finally:
            self._under_way.release()
        with self._change("run"):
            self._runs = (*(self._runs[:-1] if again else self._runs), run)
            self._trim()
            return run

    def finish(self, run: Run) -> Run:
        """Looks at all of a live run, and puts what it found in its place; see `run`.

        Args:
            run: One that ``run(live=True)`` returned.
        """
        whole = run.whole()
        with self._change("run"):
            if whole is not run and self.last is run:
                self._runs = (*self._runs[:-1], whole)
                self._trim()
        return whole

    def _settled(self, on_phase: OnPhase | None, cancel: threading.Event | None) -> str:
        """Tries out what is attached; where that is cancelled returns what goes on, in words."""
        self._refresh()

        def on_trial(attached: Attached) -> None:
            del attached
            if on_phase is not None:
                on_phase(Phase("injected", "trace", 1, len(PHASES)))

        try:
            self.settle(cancel, on_trial)
        except CancelledError as stopped:
            return LEFT["trace"] if stopped.left else ""
        return ""

    def _plan(self, again: bool) -> Plan:
        with self._lock:
            self._count += not again
            return Plan(
                number=self._count,
                edition=self._edition,
                program=self.program,
                edited=self.edited,
                sites=self._edited.sites,
                code=self.code(),
                tags=tuple((key, *params.items()) for key, params in self.tags.items()),
                states=self.initial_states,
                watched=self._edited.edits.watched,
            )

    # ---- showing -----------------------------------------------------------------

    def picture(self) -> Picture:
        """The picture as plain data."""
        with self._lock:
            return self._drawn.picture(self._edited)

    def dot(self) -> str:
        """The picture as DOT text."""
        return to_dot(self.picture())

    def svg(self, cancel: threading.Event | None = None) -> str | None:
        """The picture as SVG; None where it could not be laid out, and `layout_note` says why.

        Args:
            cancel: Set it from another thread to stop the layout at once.
        """
        return self._drawn.svg(self._edited, cancel)

    @property
    def layout_note(self) -> str:
        """What to know about the picture and its last layout; may be empty."""
        return self._drawn.note(self._edited)

    def lines(self) -> list[Line]:
        """What the picture shows as lines, in plain data."""
        with self._lock:
            return self._drawn.drawing(self._edited).lines()

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
        with self._lock:
            rows = self._edited.rows(self.call, limit, color)
        return "\n".join(text for _, text in rows)

    def outline(self, color: bool = False, limit: int | None = None) -> str:
        """What the picture shows, as a list of what is in what; for screen readers, too.

        Args:
            color: Whether to use the colours of a terminal.
            limit: At most this many lines of the program; None for all.
        """
        return self._folded_text(True, color, limit)

    def _folded_text(self, outline: bool, color: bool, limit: int | None) -> str:
        with self._lock:
            lines, sites = self.lines(), self._edited.sites
        return _outline.folded_text(
            lines, sites, outline=outline, call=self.call, color=color, limit=limit
        )

    def changes(self, cancel: threading.Event | None = None) -> Comparison:
        """The program with the added tags and the injectors, compared with the untouched one.

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
            >>> session.changes().diff.summary()
            '3 added, 2 same'
        """
        self.settle(cancel)
        try:
            injected = stoppable(self._edited.injected, cancel and cancel.is_set)
        except (PanelError, CancelledError):
            raise
        except Exception as error:  # what an injector reads may have changed since it was tried
            raise PanelError(f"An injector cannot work: {one_line(error)}") from error
        after = dataclasses.replace(injected, name=f"{self.name}, edited")
        drawn = self._drawn
        return Comparison(self.program, after, budget=drawn.budget, timeout=drawn.timeout)

    def tags_table(self, color: bool = False) -> str:
        """A table of all tags.

        Args:
            color: Whether to use the colours of a terminal.
        """
        return _outline.tags_table(self.sites(), color=color)

    def html(self) -> str:
        """The picture as a page that needs nothing else; see `Drawing.html`.

        Raises:
            PanelError: If the picture could not be laid out.
        """
        with self._lock:
            drawing = self._drawn.drawing(self._edited)
        return drawing.html()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the picture, the text (.txt) or the code (.py) to a file.

        Args:
            path: The file. For the picture it ends as for `Drawing.save`: .svg, .png, .pdf,
                .html, .dot or .gv.

        Raises:
            PanelError: If the name ends otherwise, or nothing here can write it.
            OSError: If the file cannot be written.
        """
        with self._lock:
            drawing = self._drawn.drawing(self._edited)
        own = {
            ".txt": lambda: f"{self.text()}\n\n{self.tags_table()}\n",
            ".py": self.code,
        }
        files.save(path, {**drawing.writers(), **own})

    def __repr__(self) -> str:
        with self._lock:
            equations = sum(1 for _ in self._edited.index.eqns()) - len(self._edited.sites)
            parts = [count_of(equations, "equation"), count_of(len(self._edited.sites), "tag")]
        parts.append(count_of(len(self.injectors), "injector"))
        if self.runs:
            parts.append(count_of(self._count, "run"))
        return f"<taxpr session {self.call}: {', '.join(parts)}>"

    def _repr_mimebundle_(self, **choice: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return type(self)._display(self, **choice)

    def _ipython_display_(self) -> None:
        saved.publish(self)


def _checked_bytes(number: float) -> float:
    """The number itself.

    Raises:
        PanelError: It is no number of bytes.
    """
    if isinstance(number, bool) or not isinstance(number, numbers.Real) or not number >= 0:
        raise PanelError(
            f"kept_bytes is a number of bytes, such as 2**28, 0, or math.inf: not {number!r}"
        )
    return number
