"""Fill the traits of `Graph` from the session."""

from __future__ import annotations

from collections.abc import Mapping

from taxpr_jupyter._heat.timeline import shown_timeline
from taxpr_jupyter._messages.panel_traits import PicturePlace
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view import wire
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.jobs import LAYOUT, Jobs
from taxpr_jupyter._view.parts.choosing import SeveralView
from taxpr_jupyter._view.parts.controls import InjectorControls
from taxpr_jupyter._view.parts.finding import FindView
from taxpr_jupyter._view.parts.state_fields import StateFields


class Showing:
    """Shows the program, its picture, what is selected, and the last run.

    Attributes:
        instead: Whether the outline is shown because there is no picture.
    """

    def __init__(
        self,
        graph: Graph,
        jobs: Jobs,
        finding: FindView,
        several: SeveralView,
        controls: InjectorControls,
        fields: StateFields,
    ) -> None:
        self._graph = graph
        self._jobs = jobs
        self._finding = finding
        self._several = several
        self._controls = controls
        self._fields = fields
        self._going: tuple[str, PicturePlace] | None = None  # once the picture is there
        self._gone = 0
        self._tags: dict[str, str] = {}  # the keys of selected tags, whose addresses can move
        self._outdated = False  # whether the code is to be written again
        self.instead = False

    @property
    def _session(self) -> Session:
        return self._jobs.session

    def program(self) -> None:
        """Shows the program, and its selected elements."""
        self.texts()
        self._follow()
        self.selected()

    def moved(self, keys: Mapping[str, str | None]) -> None:
        """Keeps the selection in a program that was traced anew."""
        self._follow(keys)

    def _follow(self, keys: Mapping[str, str | None] | None = None) -> None:
        """Keeps what is selected where it has another address.

        Args:
            keys: The keys of tags before the program was traced anew, and now; None if it was not.
        """
        graph, now = self._graph, dict[str, str]()
        addresses = {site.key: site.address for site in self._session.sites()}
        tags, self._tags = self._tags, {}
        for place in (*graph.chosen, graph.selected):
            if key := tags.get(place):
                key = key if keys is None else keys.get(key)
                now[place] = addresses.get(key or "", "")
                self._tags |= {now[place]: key} if key and now[place] else {}
            elif keys is None:
                now[place] = place
            else:
                # For an equation, its result.
                result = keys.get(f"{place}.0") or ""
                now[place] = keys.get(place) or result.removesuffix(".0")
        chosen = [now[one] for one in graph.chosen if now[one]]
        chosen = chosen if len(chosen) > 1 else []
        # Together, since what is selected alone ends the selection of several.
        with graph.hold_trait_notifications():
            graph.selected = now[graph.selected] or (chosen[-1] if chosen else "")
            graph.chosen = chosen

    def folding(self) -> None:
        """Shows everything but the picture that depends on open nodes."""
        self.rows()
        self.selected()

    def texts(self, code: bool = True) -> None:
        """Shows tags, states and rows, and the code, which can wait until a live run has ended."""
        sites = self._session.sites()
        self._graph.tags = wire.tags_state(sites)
        self._graph.history = {"undo": self._session.undoes, "redo": self._session.redoes}
        self._graph.marks = {
            site.address: "failed"
            for site in sites
            if site.injector and site.injector.error and not site.injector.idle
        }
        self._outdated = not code
        if code:
            self._graph.code = self._session.code()
        if not (self._session.changes_values and self._session.losses()):
            self._graph.gradients = ""
        elif not self._graph.gradients:
            self._graph.gradients = "on" if self._session.differentiable else "off"
        self._fields.refresh()
        self.rows()

    def rows(self) -> None:
        """Shows the view that is looked at, if it is not the picture."""
        view = self._graph.view
        if view in ("text", "outline"):
            note = "" if self._graph.svg else self._session.layout_note
            self._graph.rows = wire.rows_state(view, self._session.lines(), note)

    def selected(self) -> None:
        """Shows what is selected."""
        graph, address = self._graph, self._graph.selected
        if graph.chosen and address not in graph.chosen:
            graph.chosen = []  # another one was selected alone; this comes back with it
            return
        node = self._session.inspect(address) if address else None
        if node and node.kind == "unknown" and self._session.picture().find(address) is None:
            graph.selected = ""  # it is there no longer; this comes back with nothing
            return
        graph.inspection = wire.inspection_state(address, node) if node else {}
        self._tags = self._several.refresh()
        self._tags |= {address: node.site.key} if node and node.site else {}
        self._controls.show(None if graph.chosen else node, self._several.keys)

    def run(self) -> None:
        """Shows the last run."""
        self._fields.refresh()
        self._graph.stale = self._session.stale
        last = self._session.last
        if self._outdated and not (last and last.finish):
            self._outdated, self._graph.code = False, self._session.code()

    def picture(self, svg: str | None) -> None:
        """Shows a picture, or the outline."""
        session, graph = self._session, self._graph
        graph.svg = svg or ""
        graph.note = " ".join(filter(None, [*session.notes, session.layout_note]))
        graph.call = session.call
        graph.heat = session.heat or ""
        use = session.memory_use if svg and session.heat == "peak" else None
        graph.timeline = shown_timeline(use, session.picture)
        graph.counts = str(session.picture().counts)
        if not svg and graph.view == "picture":
            self.instead = True
            graph.view = "outline"
        elif svg and self.instead:
            graph.view = "picture"
        elif not svg:
            self.rows()  # the note may be another one
        self._finding.refresh()
        if self._going is not None:
            (graph.selected, place), self._going = self._going, None
            self._gone += 1
            graph.goes = {"place": place, "number": self._gone}

    def goes_to(self, selected: str, place: PicturePlace) -> None:
        """Selects an address and moves the picture, as soon as the next one is shown."""
        self._going = selected, place

    def viewed(self, view: str) -> None:
        """Shows the view that is looked at now."""
        self.instead = self.instead and view == "outline"
        self.rows()

    def redraw(self) -> None:
        """Lays the picture out again in the background; only the newest one is shown."""

        def show(svg: str | None, cancelled: bool) -> None:
            if cancelled:
                self._jobs.say("The layout was cancelled: this is the picture from before.")
            else:
                self.picture(svg)

        self._jobs.do(LAYOUT, lambda task: self._session.svg(task.cancelled), "layout", show)
