"""The panel: one view of a session in the notebook. Everything that it does, the session does."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets

from taxpr_jupyter._errors import LOG, PanelError, UnderWayError, one_line
from taxpr_jupyter._output.saved import WIDGET_MIME, mark_of
from taxpr_jupyter._runs.run import LEFT, Run
from taxpr_jupyter._session.session import Attached, Session
from taxpr_jupyter._stoppable import CancelledError
from taxpr_jupyter._view import interrupts, states, wire
from taxpr_jupyter._view.background import Task
from taxpr_jupyter._view.comparing import CompareView
from taxpr_jupyter._view.controls import InjectorControls
from taxpr_jupyter._view.finding import FindView
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.inbox import Inbox

KEPT = ("selected", "place", "view", "live")  # when a cell is run again
CANCELLING = "Cancelling."
CANCELLED = "Cancelled."
REST = 0.5  # seconds without another value, after which a live run is looked at as a whole
GONE = "The session of this panel is gone: run the cell again."
TEXT_LINES = 400  # of the program in the output of a cell; all of it is `session.text()`


class PanelView(ipywidgets.VBox):
    """The panel of one session: `Graph`, in the boxes that its style needs.

    It holds nothing that the session does not hold, except what is selected. Close it with
    `close()`; the session stays as it is.

    ipywidgets keeps what is open for ever. So this keeps its session only from when it is handed
    out to be shown until no page shows it any longer, and closes when the session is gone.
    """

    _ipython_display_ = None

    def __init__(self, session: Session) -> None:
        self._known = weakref.ref(session)
        self._held: Session | None = None
        self._pages: int | None = None  # that show it; None before the first one does
        session = weakref.proxy(session)  # which the parts of the panel get
        self._lock = threading.RLock()
        self._layout_task: Task | None = None
        self._run_task: Task | None = None
        self._trial_task: Task | None = None
        self._wanted = False  # whether Live has to run once more
        self._device: str | None = None  # where it ran last
        self._selected_key = ""  # of the selected tag, whose address can move
        self._refused = states.Refused(session)
        self._instead = False  # whether the outline is shown because there is no picture
        kept = {name: session.view_state[name] for name in KEPT if name in session.view_state}
        self.graph = Graph(self._lock, devices=session.devices(), **kept)
        self.finding = FindView(session, self._show_found)
        self.comparing = CompareView(
            session, self._show_comparison, self._attempt, self._lock, self._report_compare
        )
        self.controls = InjectorControls(session, self._show_controls)
        super().__init__([ipywidgets.VBox([self.graph]).add_class("taxpr-grid")])
        self.add_class("taxpr-panel")
        self.graph.saved = mark_of(self.model_id)
        self.graph.observe(self._on_selected, "selected")
        self.graph.observe(self._on_view, "view")
        self.graph.observe(self._run_live, "live")
        self.graph.observe(self._keep, KEPT)
        inbox = Inbox(self._on_message)
        self.graph.on_msg(lambda _, content, buffers: inbox.take(content))
        self._unsubscribe = session.on_change(self._on_change)
        self._show_picture(session.svg())
        self._show_program()
        self._show_run()
        self.comparing.look(self.graph.view == "compare")

    @property
    def session(self) -> Session:
        """The session."""
        session = self._known()
        if session is None:
            raise PanelError(GONE)
        return session

    # From the session to the browser

    def _on_change(self, change: str) -> None:
        with self._lock:
            if change == "closed":
                self.close()
            elif change == "run":
                self._show_run()
                self._show_states()
                if self._wanted and self._run_task is None:  # a cell's run was in the way
                    self._run_live()
            elif change == "error":
                self._say(self.session.error or "", error=bool(self.session.error))
            elif change in ("values", "states"):
                self._show_texts()
                self.controls.refresh()
            elif change == "tried":
                self._show_program()
            else:
                self._show_program()
                self._redraw()
            if change in ("tags", "injectors"):
                self.comparing.changed()
            if change in ("tags", "injectors", "values", "states"):
                self.graph.stale = self.session.stale
            if change in ("values", "states"):
                self._run_live()
            if not self.session.error:
                self._say("")

    def _show_program(self) -> None:
        self._show_texts()
        self._follow_selected_tag()
        self._show_selected()

    def _show_texts(self) -> None:
        sites = self.session.sites()
        self.graph.tags = wire.tags_state(sites)
        self.graph.marks = {
            site.address: "failed" for site in sites if site.injector and site.injector.error
        }
        self.graph.code = self.session.code()
        self._show_states()
        self._show_rows()

    def _show_states(self) -> None:
        self.graph.states = states.states_state(self.session, self._refused.texts)

    def _show_rows(self) -> None:
        """Sends the view that is looked at, if it is not the picture."""
        view = self.graph.view
        if view in ("text", "outline"):
            note = "" if self.graph.svg else self.session.layout_note
            self.graph.rows = wire.rows_state(view, self.session.lines(), note)

    def _follow_selected_tag(self) -> None:
        if self._selected_key:
            addresses = {site.key: site.address for site in self.session.sites()}
            self.graph.selected = addresses.get(self._selected_key, "")

    def _show_selected(self) -> None:
        address = self.graph.selected
        node = self.session.inspect(address) if address else None
        if node and node.kind == "unknown" and self.session.picture().find(address) is None:
            self.graph.selected = ""  # it is there no longer; this comes back with nothing selected
            return
        self._selected_key = node.site.key if node and node.site else ""
        self.graph.inspection = wire.inspection_state(address, node) if node else {}
        self.controls.show(node)

    def _show_run(self) -> None:
        if self.session.last:
            names = {site.key: site.name for site in self.session.sites()}
            self.graph.results = wire.results_state(self.session.last, names)
            self.graph.stale = self.session.stale

    def _show_picture(self, svg: str | None) -> None:
        self.graph.svg = svg or ""
        self.graph.note = " ".join(filter(None, [*self.session.notes, self.session.layout_note]))
        self.graph.call = self.session.call
        self.graph.heat = self.session.heat or ""
        self.graph.counts = str(self.session.picture().counts)
        if not svg and self.graph.view == "picture":
            self._instead = True
            self.graph.view = "outline"
        elif svg and self._instead:
            self.graph.view = "picture"
        elif not svg:
            self._show_rows()  # the note may be another one
        self.finding.refresh()

    def _show_found(self, **traits: Any) -> None:
        for name, value in traits.items():
            setattr(self.graph, name, value)

    def _show_controls(self, state: dict[str, Any]) -> None:
        self.graph.controls = state

    def _show_comparison(self, state: dict[str, Any]) -> None:
        self.graph.comparison = state

    def _report_compare(self, task: Task) -> None:
        self._report(task)
        self._report_idle()

    def _redraw(self) -> None:
        """Lays the picture out again in the background; only the newest one is shown."""
        if self._layout_task:
            self._layout_task.cancel()
        self._layout_task = Task(self._lay_out, self._report, "layout")
        self._layout_task.start()

    def _lay_out(self, task: Task) -> None:
        svg = self._attempt(self.session.svg, cancel=task.cancelled)
        with self._lock:
            if self._layout_task is task:
                self._layout_task = None
                self._report_idle()
                if task.cancelled.is_set():
                    self._say("The layout was cancelled: this is the picture from before.")
                else:
                    self._show_picture(svg)

    # From the browser to the session

    def _on_selected(self, change: Any) -> None:
        with self._lock:
            self._show_selected()

    def _on_view(self, change: Any) -> None:
        with self._lock:
            self._instead = self._instead and change.new == "outline"
            self._show_rows()
            self.comparing.look(change.new == "compare")

    def _keep(self, change: Any) -> None:
        """A cell that is run again shows the same node at the same place."""
        if not (change.name == "view" and self._instead):
            self.session.view_state[change.name] = change.new

    def _on_message(self, content: Mapping[str, Any]) -> None:
        try:
            if (session := self._known()) is None:
                self._say(GONE, error=True)
            else:
                self._do(session, content)
        finally:  # else the page waits for ever
            if "from" in content:
                with self._lock:
                    self.graph.handled = {content["from"]: content.get("number")}

    def _do(self, session: Session, content: Mapping[str, Any]) -> None:
        actions: dict[str, Callable[[str], Any]] = {
            "tag": lambda address: session.tag(address, content.get("name") or None),
            "untag": session.untag,
            "fold": session.fold,
            "unfold": session.unfold,
            "toggle": self._toggle,
            "heat": self._set_heat,
            "run": lambda _: self.start_run(content.get("device")),
            "cancel": lambda _: self.cancel(),
            "shown": lambda _: self._count_pages(1),
            "gone": lambda _: self._count_pages(-1),
            **self.controls.actions(content),
            **self.finding.actions(content),
            **states.actions(session, content, self._refused),
        }
        what = content.get("do", "")
        with self._lock, session.later():
            if what in actions:
                self._attempt(actions[what], content.get("address", ""))
                if what in ("state", "keepState"):  # what is wrong stands beside the field
                    self._show_states()
                    self._say("")
            self._try_out()

    def _try_out(self) -> None:
        """Traces what was attached, on a thread of its own: messages are handled meanwhile."""
        with self._lock:
            session = self._known()
            untried = session.untried if session else ()
            if session and untried and self._trial_task is None and self.comm is not None:
                work = functools.partial(self._settle, session)
                self._trial_task = Task(work, self._report, self._tracing(untried[0]))
                self._report(self._trial_task)
                self._trial_task.start()

    def _settle(self, session: Session, task: Task) -> None:
        def on_trial(one: Attached) -> None:
            task.label = self._tracing(one)

        said = ""
        try:
            self._attempt(session.settle, task.cancelled, on_trial)
        except CancelledError as stopped:
            said = f"{CANCELLED} {LEFT['trace'] if stopped.left else ''}".strip()
        finally:
            with self._lock:
                self._trial_task = None
                self._try_out()  # what came while the last one was traced
                self._report_idle()
                if said:
                    self._say(said)

    def _tracing(self, one: Attached) -> str:
        names = {site.key: site.name for site in self.session.sites()}
        return f"tracing {one.name} at {names.get(one.key) or one.key}"

    def _toggle(self, address: str) -> None:
        node = self.session.inspect(address)
        if node.foldable:
            (self.session.fold if node.unfolded else self.session.unfold)(address)

    def _set_heat(self, kind: str) -> None:
        self.session.heat = kind or None  # pyright: ignore[reportAttributeAccessIssue] - it checks

    def start_run(self, device: str | None = None) -> Task:
        """Runs the session on a thread of its own. Returns the task, which can be waited for.

        There is one run at a time: the one that is under way is not disturbed.
        """
        with self._lock:
            self._device = device
            if self._run_task is not None:
                self._say("A run is under way.")
                return self._run_task
            return self._start_run(live=False)

    def _run_live(self, change: Any = None) -> None:
        """Runs what is there now if Live is on; the run under way is followed by another one."""
        with self._lock:
            if self.graph.live and self.session.injectors:
                self._wanted = True
                if self._run_task is None:
                    self._start_run(live=True)

    def _start_run(self, live: bool) -> Task:
        task = Task(lambda task: self._run_on(task, live), self._report, "starting")
        self._run_task = task
        self._say("")
        if not live:  # else it is over before it could be read
            self._report(task)
        task.start()
        return task

    def _run_on(self, task: Task, live: bool) -> None:
        def on_phase(phase: Any) -> None:
            task.label = f"{phase.program} · {phase.name}"
            task.fraction = (phase.step - 1) / phase.steps

        def run_once() -> Run | None:
            try:
                more = {"live": True} if live else {}
                return self.session.run(
                    self._device, on_phase=on_phase, cancel=task.cancelled, **more
                )
            except UnderWayError:  # a cell's run
                if not live:
                    raise
                self._wanted = True
                return None

        run = None
        try:
            while True:
                with self._lock:
                    self._wanted = False
                run = self._attempt(run_once)
                with self._lock:
                    wanted = self._wanted and self.graph.live and not task.cancelled.is_set()
                    if wanted and not self.session.running:
                        live = True
                        continue
                    self._wanted = wanted  # when the cell's run has ended
                    self._run_ended(task, run)
                    break
        finally:
            self._run_ended(task, run)
        if run is not None and run.finish:
            rest = threading.Timer(REST, self._finish, (run,))
            rest.daemon = True
            rest.start()

    def _run_ended(self, task: Task, run: Run | None) -> None:
        with self._lock:
            if self._run_task is not task:
                return
            self._run_task = None
            self._report_idle()
            if task.cancelled.is_set() and not self.graph.message.get("error"):
                late = run is not None and not run.cancelled
                left = f"{CANCELLED} {run.left if run else ''}".strip()
                self._say("The run ended before it was cancelled." if late else left)

    def _finish(self, run: Any) -> None:
        """Shows all of a live run, unless another one has come since."""
        with self._lock:
            current = self._run_task is None and self.comm is not None
        if current and self.session.last is run:
            self._attempt(self.session.finish, run)

    def cancel(self) -> None:
        """Stops what is under way: tracing, a run, a layout. What is not tried out is given up."""
        with self._lock:
            for task in self._tasks():
                task.cancel()
                self._report(task)
            if session := self._known():
                session.give_up()
            if self._run_task or self._trial_task:
                self._say(CANCELLING)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for what is under way. Returns whether it has ended."""
        return all(task.wait(timeout) for task in self._tasks())

    def _tasks(self) -> list[Task]:
        tasks = self._trial_task, self._run_task, self._layout_task, self.comparing.task
        return [task for task in tasks if task]

    # Messages and progress

    def _attempt(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the session. A mistake becomes a message and gives None."""
        try:
            return method(*args, **kwargs)
        except PanelError as error:
            self._say(str(error), error=True)
        except CancelledError:
            raise
        except BaseException as error:  # in a message from the browser it would be seen by nobody
            in_main = threading.current_thread() is threading.main_thread()
            if in_main and isinstance(error, KeyboardInterrupt):
                raise
            LOG.warning("The panel of %r failed", self.session, exc_info=True)
            self._say(one_line(error), error=True)
        return None

    def _say(self, text: str, error: bool = False) -> None:
        with self._lock:
            self.graph.message = {"text": text, "error": error}

    def _report(self, task: Task) -> None:
        with self._lock:
            if task in self._tasks()[:1]:
                self.graph.progress = {
                    "running": True,
                    "label": task.label,
                    "fraction": task.fraction,
                    "elapsed": task.elapsed,
                    "cancelling": task.cancelled.is_set(),
                }

    def _report_idle(self) -> None:
        if tasks := self._tasks():
            self._report(tasks[0])
        else:
            self.graph.progress = {"running": False}

    # As an output of a cell

    def _repr_mimebundle_(  # pyright: ignore[reportIncompatibleMethodOverride] - as anywidget's
        self, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self._held = self.session
        # anywidget's own pair: on Colab the metadata name the widget manager to load.
        data, metadata = self.graph._repr_mimebundle_() or ({}, {})
        view = {**data[WIDGET_MIME], "model_id": self.model_id}
        text = self.session.text(limit=TEXT_LINES)
        return {**data, WIDGET_MIME: view, "text/plain": text}, metadata

    def close(self) -> None:
        """Takes the panel away; the session keeps everything."""
        with self._lock:
            if self.comm is None:
                return  # ipywidgets also closes what is collected as garbage
            _closed(self)
            self._held = None
            self._unsubscribe()
            for task in self._tasks():
                task.cancel()
            super().close()
        for part in (*self.children, self.layout):
            _close_all(part)

    def _count_pages(self, more: int) -> None:
        self._pages = (self._pages or 0) + more
        if self._pages > 0:
            self._held = self.session

    def let_go(self) -> None:
        """Keeps the session no longer where no page shows it, and closes if the session is gone.

        Not at once: a cell that is moved is shown again in a moment.
        """
        if self._pages is not None and self._pages <= 0:
            self._held = None
        if self._known() is None:
            self.close()

    def is_of(self, session: Session) -> bool:
        """Whether it is the panel of this session."""
        return self._known() is session


_open: list[PanelView] = []
_lock = threading.RLock()  # of this list


def view_for(session: Session) -> PanelView:
    """The panel of a session, always the same one until it is closed."""
    with _lock:
        found = next((view for view in _open if view.is_of(session)), None)
        if found is None:
            for view in list(_open):
                view.let_go()
            found = PanelView(session)
            _open.append(found)
            interrupts.listen(_cancel_all)
        return found


def _closed(view: PanelView) -> None:
    with _lock:
        if view in _open:
            _open.remove(view)
            if not _open:
                interrupts.forget()


def _cancel_all() -> None:
    """Stops what is under way in all panels."""
    with _lock:
        views = list(_open)
    for view in views:
        view.cancel()


def _close_all(widget: ipywidgets.Widget) -> None:
    """Closes a widget with what it consists of."""
    for part in (*getattr(widget, "children", ()), getattr(widget, "layout", None)):
        if part is not None:
            _close_all(part)
    widget.close()
