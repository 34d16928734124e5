"""The panel: one view of a session in the notebook. Everything that it does, the session does."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import ipywidgets

from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._output.saved import WIDGET_MIME, mark_of
from taxpr_jupyter._session.delegate import of
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view import interrupts
from taxpr_jupyter._view.actions import Messages
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import Jobs
from taxpr_jupyter._view.parts.asking import AskView
from taxpr_jupyter._view.parts.choosing import SeveralView
from taxpr_jupyter._view.parts.comparing import CompareView
from taxpr_jupyter._view.parts.controls import InjectorControls
from taxpr_jupyter._view.parts.finding import FindView
from taxpr_jupyter._view.parts.notebook_picture import NotebookPicture
from taxpr_jupyter._view.parts.recorded_view import RecordedView
from taxpr_jupyter._view.parts.run_strip import RunStripView
from taxpr_jupyter._view.parts.sourcing import SourceView
from taxpr_jupyter._view.parts.state_fields import StateFields
from taxpr_jupyter._view.running import Running
from taxpr_jupyter._view.showing import Showing

KEPT = ("selected", "place", "view")  # when a cell is run again
TEXT_LINES = 400  # of the program in the output of a cell; all of it is `session.text()`


class PanelView(ipywidgets.VBox):
    """The panel of one session: `Graph`, in the boxes that its style needs.

    It holds nothing that the session does not hold, except what is selected. Close it with
    `close()`; the session stays as it is.

    ipywidgets keeps what is open for ever. So this keeps its session only from when it is handed
    out to be shown until no page shows it any longer, and closes when the session is gone.

    Attributes:
        graph: The traits that the browser draws.
        jobs: The work under way.
        messages: Does the actions that the browser asks for.
        showing: Fills the graph.
    """

    _ipython_display_ = None

    def __init__(self, session: Session) -> None:
        self._held: Session | None = None
        self._pages: int | None = None  # that show it; None before the first one does
        self._lock = threading.RLock()
        self._looked: tuple[str, list[str]] | None = None  # what was selected when it was shown
        self._live = session.live  # as it was shown last
        kept = {name: session.view_state[name] for name in KEPT if name in session.view_state}
        self.graph = graph = Graph(
            self._lock,
            devices=session.devices(),
            live=self._live,
            not_live=session.why_not_live,
            **kept,
        )
        self.jobs = jobs = Jobs(session, graph, self._lock)
        known = weakref.proxy(session)  # which the parts of the panel get
        finding = FindView(known, graph.show)
        self._several = several = SeveralView(known, graph)
        controls = InjectorControls(known, lambda state: graph.show(controls=state))
        self._controls = controls
        fields = StateFields(known, graph, jobs)
        self._comparing = CompareView(known, graph, jobs)
        self._sourcing = SourceView(known, graph, jobs)
        self._recorded = RecordedView(known, graph, jobs)
        self._asking = AskView(known, graph, jobs)
        self.showing = Showing(graph, jobs, finding, several, controls, fields)
        self._running = Running(graph, jobs)
        self._runs = RunStripView(known, graph, jobs)
        others = self._comparing, self._sourcing, self._recorded, self._asking, self._runs
        parts = controls, finding, several, fields, *others
        handles = [*(part.handle for part in parts), self._on_page]
        self.messages = messages = Messages(graph, jobs, self._running, *handles)
        super().__init__([ipywidgets.VBox([graph]).add_class("taxpr-grid")])
        self._picture = NotebookPicture(graph, jobs, self.model_id)
        self.add_class("taxpr-panel")
        graph.saved = mark_of(self.model_id)
        graph.observe(self._on_selected, ("selected", "chosen"))
        graph.observe(self._on_view, "view")
        graph.observe(self._on_live, "live")
        graph.observe(self._keep, KEPT)
        graph.on_msg(lambda _, content, buffers: messages.take(content))
        self._unsubscribe = session.on_change(self._on_change)
        try:
            svg = session.svg()
        except BaseException:  # an interrupt of the layout
            self.close()
            raise
        with graph.together():
            self.showing.picture(svg)
            self.showing.program()
            self.showing.run()
            self._runs.ran()
            graph.views = list(session.views)
            self._look()
        graph.observe(self._sourcing.refresh, "svg")
        graph.observe(self._recorded.drawn, "svg")
        graph.observe(self._sourcing.asked, "answer")
        self._picture.published()
        graph.observe(self._on_picture, ("svg", "results"))

    start_run = of("_running", Running.start)
    cancel = of("jobs", Jobs.cancel)
    wait = of("jobs", Jobs.wait)

    @property
    def session(self) -> Session:
        """The session."""
        return self.jobs.session

    # What the session tells

    def _on_change(self, change: str) -> None:
        session, graph, showing = self.session, self.graph, self.showing
        with graph.together():
            # A live run is to be seen first: what it shows again, or can wait, is left out here.
            soon = change in ("values", "states") and self._running.follows
            if change == "closed":
                self.close()
            elif change == "run":
                showing.run()
                self._runs.ran()
                self._sourcing.ran()
                self._running.another_ended()
            elif change in ("recorded", "expressions"):
                if change == "expressions":
                    showing.texts()
                if self._recorded.refresh():
                    self._sourcing.ran()
            elif change == "error":
                self.jobs.say(session.error or "", error=bool(session.error))
            elif change in ("values", "states"):
                showing.texts(code=not soon)
                self._controls.refresh()
                self._several.revalue()
            elif change == "folding":
                showing.folding()
                showing.redraw()
            elif change == "tried":
                showing.program()
            elif change == "program":
                showing.moved(session.moved)
                if graph.selected:
                    self.jobs.attempt(session.reveal, graph.selected)
                showing.program()
                showing.redraw()
                self._comparing.changed()
                self._sourcing.reread()
                self._recorded.refresh()
                self._asking.changed("injectors")
                graph.stale = session.stale
            elif change == "live":
                pass  # which is shown after every change
            elif change == "named":
                self._runs.again()
            elif change == "views":
                graph.views = list(session.views)
            else:
                if change == "view":
                    showing.goes_to(**{k: session.view_state[k] for k in ("selected", "place")})
                showing.program()
                showing.redraw()
            if change in ("tags", "injectors"):
                self._comparing.changed()
            if change in ("tags", "injectors", "tried", "values", "states"):
                graph.stale = session.stale
                if self._recorded.refresh():
                    self._sourcing.ran()
                self._asking.changed(change)
            if change in ("values", "states"):
                self._running.live(soon)
            if change != "run" and not soon:
                self._runs.refresh()
            if not session.error:
                self.jobs.say("")
            self._show_live(change)

    def _show_live(self, change: str) -> None:
        """Shows whether runs follow new values, and why they do no longer."""
        if change in ("values", "states") and self._running.following:
            return  # which shows it when it has ended
        was, why = self._live, self.session.why_not_live
        self._live = self.graph.live = not why
        self.graph.not_live = why
        if was and change in ("run", "values", "states") and why:
            self.jobs.say(f"Live is off: {why}. Switch it on to run with each new value.")

    # What the browser changes

    def _on_live(self, change: Any) -> None:
        """Keeps the user's own choice."""
        with self._lock:
            if change.new != self._live:
                # pyright takes a delegated property to be one of its own class.
                self.session.live = change.new  # pyright: ignore[reportAttributeAccessIssue]
                self._running.live()

    def _on_selected(self, change: Any) -> None:
        with self._lock:
            now = self.graph.selected, list(self.graph.chosen)
            if now != self._looked:  # it is told of each of the two
                self._looked = now
                self.showing.selected()

    def _on_view(self, change: Any) -> None:
        with self._lock:
            by_itself = (
                self.showing.instead
            )  # where there is no picture, which the message is about
            self.showing.viewed(change.new)
            self._look()
            if self.graph.message.get("error") and not by_itself:
                self.jobs.say("")  # it was about what was looked at before

    def _look(self) -> None:
        for tab in (self._comparing, self._sourcing, self._asking):
            tab.look(self.graph.view)

    def _keep(self, change: Any) -> None:
        """A cell that is run again shows the same node at the same place."""
        if not (change.name == "view" and self.showing.instead):
            self.session.view_state[change.name] = change.new

    def _on_picture(self, change: Any) -> None:
        if self._pages:  # what nobody sees, the picture of when the cell ran says as well
            self._picture.changed()

    def _on_page(self, message: Message) -> bool:
        match message:
            case {"do": "shown"}:
                self._count_pages(1)
            case {"do": "gone"}:
                self._count_pages(-1)
            case _:
                return False
        return True

    # As an output of a cell

    def alone(self) -> Graph:
        """The widget without the boxes around it, to be shown at once."""
        self._held = self.session
        return self.graph

    def _repr_mimebundle_(  # pyright: ignore[reportIncompatibleMethodOverride] - as anywidget's
        self, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = self.as_output()
        return {**data, "text/plain": self.session.text(limit=TEXT_LINES)}, metadata

    def as_output(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Data and metadata for front ends that show widgets."""
        self._held = self.session
        # anywidget's own pair: on Colab the metadata name the widget manager to load.
        data, metadata = self.graph._repr_mimebundle_() or ({}, {})
        return {**data, WIDGET_MIME: {**data[WIDGET_MIME], "model_id": self.model_id}}, metadata

    def close(self) -> None:
        """Takes the panel away; the session keeps everything."""
        with self._lock:
            if self.comm is None:
                return  # ipywidgets also closes what is collected as garbage
            _closed(self)
            self._held = None
            self._unsubscribe()
            self.jobs.close()
            self._picture.close()
            super().close()
        for part in (*self.children, self.layout):
            _close_all(part)

    def _count_pages(self, more: int) -> None:
        self._pages = (self._pages or 0) + more
        if self._pages > 0:
            self._held = self.session
            self._picture.changed()  # cells below may have changed it before the page showed it

    def let_go(self) -> None:
        """Keeps the session no longer where no page shows it, and closes if the session is gone.

        Not at once: a cell that is moved is shown again in a moment.
        """
        if self._pages is not None and self._pages <= 0:
            self._held = None
        if self.jobs.known() is None:
            self.close()

    def is_of(self, session: Session) -> bool:
        """Whether it is the panel of this session."""
        return self.jobs.known() is session


_open: list[PanelView] = []
_stays: list[ipywidgets.Widget] = []
_lock = threading.RLock()  # of these lists


def view_for(session: Session) -> PanelView:
    """The panel of a session, always the same one until it is closed."""
    with _lock:
        found = next((view for view in _open if view.is_of(session)), None)
        if found is None:
            _keep_a_widget()
            for view in list(_open):
                view.let_go()
            found = PanelView(session)
            _open.append(found)
            interrupts.listen(_cancel_all)
        return found


def _keep_a_widget() -> None:
    """Has a widget that stays open.

    JupyterLab 4.6 ends the thread of the kernel that takes the messages of widgets when the last
    one is closed, also if the next one opens meanwhile: a panel whose cell ran again would then
    wait for ever.
    """
    if not _stays or _stays[0].comm is None:  # somebody closed all widgets
        _stays[:] = [ipywidgets.Layout()]


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
    """Closes a widget with its parts."""
    for part in (*getattr(widget, "children", ()), getattr(widget, "layout", None)):
        if part is not None:
            _close_all(part)
    widget.close()
