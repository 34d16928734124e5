"""A session: a traced call, the tags and injectors added to it, and its runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import taxpr
from taxpr_jupyter._code.code import source_now
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._layout.layout import TIMEOUT
from taxpr_jupyter._model.kinds import (
    COST_KINDS,
    MEASURED_KINDS,
    CostKind,
    HeatKind,
    MeasuredKind,
    checked_heat,
    checked_limits,
)
from taxpr_jupyter._output import saved
from taxpr_jupyter._output.view import View
from taxpr_jupyter._runs.devices import device_named
from taxpr_jupyter._runs.execute import Executor
from taxpr_jupyter._runs.released import KEPT_BYTES
from taxpr_jupyter._session.asker import Asker
from taxpr_jupyter._session.delegate import of
from taxpr_jupyter._session.editor import Editor
from taxpr_jupyter._session.edits_file import EditsFile
from taxpr_jupyter._session.navigator import Navigator
from taxpr_jupyter._session.ordering import Ordering
from taxpr_jupyter._session.painter import Painter
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._session.rewriter import Rewriter
from taxpr_jupyter._session.runner import Runner
from taxpr_jupyter._session.scrubber import Scrubber
from taxpr_jupyter._session.trials import Trials
from taxpr_jupyter._session.views import Views
from taxpr_jupyter._states.trace_pure import Names, unchanging
from taxpr_jupyter._store.following import Following
from taxpr_jupyter._store.hand_over import KEPT, hand_over
from taxpr_jupyter._store.states import States
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._store.tracer import Tracer
from taxpr_jupyter._tracing.call_names import call_text, given_names
from taxpr_jupyter._tracing.trace import traced
from taxpr_jupyter._tree.fold import BUDGET


class Session:
    """A traced call, with added tags and injectors, and its runs.

    Methods take addresses as the picture has them, and also keys and names of tags; addresses are
    tried first. An equation with one result means that result. A method that fails raises
    `PanelError` and changes nothing.

    Args:
        fun: The function. It is traced, never called otherwise.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        call: The call in Python, such as ``f(x)``.
        namespace: Where functions to inject are looked up, and names for `code`.
        name: The name of the program; by default the function's name.
        static_argnums: Positions of arguments that are not traced.
        static_argnames: Names of arguments that are not traced.
        budget: About how many nodes to show, as for `draw`.
        timeout: Seconds that a layout may take.
        device: Where `run` runs unless told otherwise; by default where JAX would.
        text_only: Show text, no picture.
        heat: The quantity that colours nodes, as the property; measured ones cannot be given here.
        kept_bytes: See the property.
        names: Which variables of the source to note, as for `taxpr.trace`; ``("brax", "jax_md")``
            includes the libraries. None notes yours if this leaves the program unchanged.

    Attributes:
        name: The name of the program.
        call: The call in Python.
        text_only: Whether only text is shown.
        view_state: A place for views to keep their state for when a cell is run again.

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
    _widget: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        fun: Callable[..., Any],
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
        heat: CostKind | None = None,
        kept_bytes: float = KEPT_BYTES,
        names: Names = None,
    ) -> None:
        if device is not None:
            device_named(device)
        budget, timeout = checked_limits(budget, timeout)
        heat = checked_heat(heat, COST_KINDS)
        noted = unchanging(names)
        start = traced(fun, args, kwargs or {}, static_argnums, static_argnames, noted)
        program = dataclasses.replace(start.program, name=name or start.program.name)
        start = dataclasses.replace(start, program=program)
        space = {} if namespace is None else namespace
        self.call = call = call or call_text(fun, args, kwargs or {}, space)
        given = dict(zip(given_names(fun, space), (fun, tuple(args), kwargs or {}), strict=True))
        statics = start.static_argnums, start.static_argnames
        source = source_now(call, *statics, space, given, names)
        self.name = program.name
        self.text_only = text_only
        self.view_state: dict[str, Any] = {}
        self._store = store = Store(program, call, space, start.notes)
        self._tracer = tracer = Tracer(store, start, noted)
        self._trials = trials = Trials(store, tracer)
        self._ordering = Ordering(store, trials)
        self._editor = Editor(store, trials, tracer, self._ordering)
        self._rewriter = Rewriter(store, tracer)
        self._states = states = States(store, start.pure)
        renderer = Renderer(store, trials, source, start.pure, budget, timeout, heat)
        self._renderer = renderer
        store.folding = renderer.folding
        self._navigator = Navigator(store, renderer)
        self._painter = Painter(store, renderer)
        self._views = Views(store, renderer, lambda: self.view_state)
        executor = Executor(start.args, start.kwargs)
        self._runner = runner = Runner(
            store, trials, states, renderer, executor, device, kept_bytes
        )
        self._following = following = Following(store, lambda: runner.kept, lambda: runner.compiled)
        self._file = EditsFile(
            store, renderer, self._editor, self._ordering, self._rewriter, states, following
        )
        self._scrubber = scrubber = Scrubber(store)
        self._asker = Asker(store, self._runner, tracer, renderer, scrubber)

    tag = of("_editor", Editor.tag)
    untag = of("_editor", Editor.untag)
    rename = of("_editor", Editor.rename)
    attach = of("_editor", Editor.attach)
    detach = of("_editor", Editor.detach)
    append = of("_ordering", Ordering.append)
    arrange = of("_ordering", Ordering.arrange)
    switch = of("_editor", Editor.switch)
    set_value = of("_editor", Editor.set_value)
    set_ctx = of("_ordering", Ordering.set_ctx)
    edit = of("_rewriter", Rewriter.edit)
    unedit = of("_rewriter", Rewriter.unedit)
    edits = of("_rewriter", Rewriter.edits)
    written = of("_rewriter", Rewriter.written)
    editable = of("_rewriter", Rewriter.editable)
    diff = of("_rewriter", Rewriter.diff)
    undo = of("_editor", Editor.undo)
    redo = of("_editor", Editor.redo)
    undoes = of("_editor", Editor.undoes)
    redoes = of("_editor", Editor.redoes)
    choices = of("_editor", Editor.choices)
    sites = of("_editor", Editor.sites)
    later = of("_trials", Trials.later)
    settle = of("_trials", Trials.settle)
    untried = of("_trials", Trials.untried)
    give_up = of("_trials", Trials.give_up)
    states = of("_states", States.states)
    initial_states = of("_states", States.initial_states)
    set_state = of("_states", States.set_state)
    reset_state = of("_states", States.reset_state)
    watch_state = of("_states", States.watch_state)
    unwatch_state = of("_states", States.unwatch_state)
    on_change = of("_store", Store.on_change)
    close = of("_store", Store.close)
    inspect = of("_navigator", Navigator.inspect)
    find = of("_navigator", Navigator.find)
    reveal = of("_navigator", Navigator.reveal)
    upstream = of("_navigator", Navigator.upstream)
    downstream = of("_navigator", Navigator.downstream)
    between = of("_navigator", Navigator.between)
    slice_of = of("_navigator", Navigator.slice_of)
    source = of("_navigator", Navigator.source)
    line = of("_navigator", Navigator.line)
    lines_of = of("_navigator", Navigator.lines_of)
    line_heat = of("_navigator", Navigator.line_heat)
    line_kernels = of("_navigator", Navigator.line_kernels)
    color = of("_painter", Painter.color)
    save_node_data = of("_painter", Painter.save_node_data)
    show_only = of("_navigator", Navigator.show_only)
    show_all = of("_navigator", Navigator.show_all)
    fold = of("_navigator", Navigator.fold)
    unfold = of("_navigator", Navigator.unfold)
    fold_default = of("_navigator", Navigator.fold_default)
    keep_view = of("_views", Views.keep_view)
    view = of("_views", Views.view)
    drop_view = of("_views", Views.drop_view)
    picture = of("_renderer", Renderer.picture)
    dot = of("_renderer", Renderer.dot)
    svg = of("_renderer", Renderer.svg)
    layout_note = of("_renderer", Renderer.layout_note)
    html = of("_renderer", Renderer.html)
    lines = of("_renderer", Renderer.lines)
    text = of("_renderer", Renderer.text)
    outline = of("_renderer", Renderer.outline)
    tags_table = of("_renderer", Renderer.tags_table)
    code = of("_renderer", Renderer.code)
    changes = of("_renderer", Renderer.changes)
    save = of("_file", EditsFile.save)
    load = of("_file", EditsFile.load)
    run = of("_runner", Runner.run)
    running = of("_runner", Runner.running)
    runs = of("_runner", Runner.runs)
    last = of("_runner", Runner.last)
    stale = of("_runner", Runner.stale)
    live = of("_following", Following.live)
    why_not_live = of("_following", Following.why_not_live)
    changes_values = of("_runner", Runner.changes_values)
    differentiable = of("_runner", Runner.differentiable)
    kept_bytes = of("_runner", Runner.kept_bytes)
    finish = of("_runner", Runner.finish)
    watch = of("_asker", Asker.watch)
    recorded = of("_scrubber", Scrubber.recorded)
    recorded_before = of("_scrubber", Scrubber.recorded_before)
    has_recorded = of("_scrubber", Scrubber.has_recorded)
    at = of("_scrubber", Scrubber.at)
    expressions = of("_scrubber", Scrubber.expressions)
    evaluate = of("_scrubber", Scrubber.evaluate)
    watch_expression = of("_scrubber", Scrubber.watch_expression)
    unwatch_expression = of("_scrubber", Scrubber.unwatch_expression)
    watched_expressions = of("_scrubber", Scrubber.watched_expressions)
    has_cotangents = of("_asker", Asker.has_cotangents)
    ask = of("_asker", Asker.ask)
    find_nan = of("_asker", Asker.find_nan)
    flow = of("_asker", Asker.flow)
    losses = of("_asker", Asker.losses)
    check = of("_asker", Asker.check)
    first_difference = of("_asker", Asker.first_difference)
    release = of("_runner", Runner.release)
    devices = of("_runner", Runner.devices)
    write_states = of("_runner", Runner.write_states)

    @property
    def program(self) -> taxpr.Program:
        """The program as traced, with the changes of its source, without the added tags."""
        return self._store.program

    @property
    def untouched(self) -> taxpr.Program:
        """The program as traced without changes of its source."""
        return self._store.untouched

    @property
    def moved(self) -> Mapping[str, str | None]:
        """The keys of tags before the program was traced again, and their keys since then."""
        return self._store.moved

    @property
    def edited(self) -> taxpr.Program:
        """The program with the added tags."""
        return self._store.edited.program

    @property
    def tags(self) -> dict[str, dict[str, Any]]:
        """The params of the added tags, by the address of the value that they mark."""
        return {address: dict(params) for address, params in self._store.edits.tags.items()}

    @property
    def injectors(self) -> dict[str, Attached]:
        """The injectors, by the key of their site."""
        return dict(self._store.edits.attached)

    @property
    def namespace(self) -> Mapping[str, Any]:
        """Where functions to inject are looked up."""
        return self._store.namespace

    @namespace.setter
    def namespace(self, namespace: Mapping[str, Any]) -> None:
        self._store.namespace = namespace

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user."""
        return self._store.notes

    @property
    def error(self) -> str | None:
        """The message of the last mistake; None after something that worked."""
        return self._store.error

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._store.closed

    def take_over(self, old: Session) -> None:
        """Take over the work of an older session, as far as its values are found again.

        These are tags, injectors, folding, and the initial values of states that were set. `notes`
        says which were taken over, which have moved, and which could not be found.

        Args:
            old: The older session.
        """
        with self._store.change("tags", step=KEPT):
            hand_over(old._store, self._store, self._states, self._tracer)
            self.view_state = dict(old.view_state)
            self._renderer.views = old.views
            self._renderer.heat = self._renderer.heat or old.heat
        self._following.choice = old._following.choice
        self._runner.count = old._runner.count  # so that no two runs of a cell have one number

    @property
    def unfolded(self) -> frozenset[str] | None:
        """The addresses drawn open; None if the picture chooses."""
        return self._store.edits.unfolded

    @property
    def shows_all(self) -> bool:
        """Whether nothing is left out by `show_only`."""
        return self._store.edits.only is None

    @property
    def views(self) -> Mapping[str, View]:
        """The views that `keep_view` kept, by their names."""
        return self._renderer.views

    @property
    def heat(self) -> HeatKind | None:
        """The quantity that colours nodes.

        ``"flops"`` and ``"bytes"`` count operations and bytes moved. ``"time"`` needs
        ``ask("profile")``. ``"peak"`` and ``"kept"`` need ``ask("memory")``: the bytes of each node
        at the peak of the memory, and the bytes that a gradient keeps. ``"numbers"`` need
        `color`. None gives nodes the colours of their kinds.

        Raises:
            PanelError: If it is set to another word, or to a quantity that was not asked for yet.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: (x @ x) @ x, (jnp.ones((100, 100)),))
            >>> answer = session.ask("memory")
            >>> session.heat = "peak"
            >>> [node.address for node in session.picture().nodes if node.heat == 1]
            ['in0', '0:dot_general', '1:dot_general']
        """
        return self._renderer.heat

    @heat.setter
    def heat(self, kind: HeatKind | None) -> None:
        self._painter.colour(kind)

    @property
    def measured(self) -> tuple[MeasuredKind, ...]:
        """The kinds of numbers that `ask` has measured for the present program."""
        return tuple(kind for kind in MEASURED_KINDS if self._renderer.measured(kind))

    @property
    def memory_use(self) -> taxpr.questions.MemoryUse | None:
        """The last answer of ``ask("memory")`` for the present program; None without one."""
        found = self._renderer.measured("peak")
        answer = getattr(found, "answer", None)
        return answer if isinstance(answer, taxpr.questions.MemoryUse) else None

    def __repr__(self) -> str:
        return self._store.summary(self._runner.count if self.runs else 0)

    def _repr_mimebundle_(self, **choice: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return type(self)._display(self, **choice)

    def _display_(self) -> Any:
        """What marimo shows; other notebooks do not call it."""
        return type(self)._widget(self)

    def _ipython_display_(self) -> None:
        saved.publish(self)
