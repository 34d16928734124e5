"""Search and paths in the panel: the data and the actions of `static/find.js`."""

from collections.abc import Callable, Sequence

from taxpr import Address, file_text
from taxpr_jupyter._analysis.slices import Slice
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.tabs import SearchHits
from taxpr_jupyter._model.model import Picture, count_of
from taxpr_jupyter._search.typed import is_selector
from taxpr_jupyter._session.session import Session


class FindView:
    """The hits of a search, and a slice of the program that is lit in the picture.

    Args:
        session: The session.
        show: Takes new values of the traits ``found`` and ``slice``, and ``selected``.
    """

    def __init__(self, session: Session, show: Callable[..., None]) -> None:
        self._session = session
        self._show = show
        self._text = ""
        self._found: SearchHits = {}
        self._hits: list[str] = []
        self._at = -1
        self._turn = 0
        self._traced: tuple[str, ...] = ()  # such as ("upstream", "3:mul")
        self._words = ""  # of what is shown alone

    def handle(self, message: Message) -> bool:
        """Does what the browser asks for, if it is for this."""
        match message:
            case {"do": "find", "text": text, "step": step}:
                self.find(text, step)
            case {"do": "enter", "text": text, "step": step}:
                alone = is_selector(text)
                self.find(text, 0 if alone else step)
                if alone:
                    self.choose()
            case {"do": "choose"}:
                self.choose()
            case {"do": "upstream" | "downstream" | "line" as what, "address": address}:
                self.trace(what, address)
            case {"do": "between", "address": address, "to": to}:
                self.trace("between", address, to)
            case {"do": "reveal", "address": address}:
                self.reveal(address)
            case {"do": "only"}:
                self.only()
            case {"do": "all"}:
                self.all()
            case _:
                return False
        return True

    def find(self, text: str, step: int) -> None:
        """Counts the hits; with a step other than 0 goes to the next or to the one before."""
        try:
            hits = self._session.find(text)
        except PanelError as error:
            self._text, self._at, self._hits = text, -1, []
            self._show(found={"text": text, "error": str(error)})
            return
        if text != self._text or not step:
            self._at = -1
        self._text, self._hits = text, [hit.address for hit in hits]
        found: SearchHits = {"text": text, "count": len(hits)}
        if step and hits:
            first = 0 if step > 0 else len(hits) - 1
            self._at = (self._at + step) % len(hits) if self._at >= 0 else first
            hit = hits[self._at]
            element = self._session.reveal(hit.address)
            self._turn += 1
            found |= {"address": element, "why": ", ".join(hit.why)}
            self._show(selected=element)
        self._found = {**found, "at": self._at + 1, "turn": self._turn}
        self._show_hits()

    def choose(self) -> None:
        """Selects all hits."""
        if self._hits:
            several = self._hits if len(self._hits) > 1 else []
            self._show(selected=self._hits[0], chosen=several)

    def _show_hits(self) -> None:
        """Shows the hits, and which nodes of the picture have some of them."""
        elements = elements_of(self._session, self._hits)
        self._show(found={**self._found, "elements": elements})

    def trace(self, what: str, *addresses: str) -> None:
        """Lights what is upstream or downstream of a place, between two, or of a line of source."""
        if what == "between" and not self._session.between(*addresses).addresses:
            addresses = addresses[::-1]  # the reader need not know which comes first
            if not self._session.between(*addresses).addresses:
                raise PanelError("There is no path from {} to {}, or back".format(*addresses[::-1]))
        self._traced = (what, *addresses)
        self.refresh()

    def reveal(self, address: str) -> None:
        """Selects a value, or the equation that makes it alone, and opens what it is in."""
        eqn = Address(address).eqn
        alone = len(self._session.inspect(eqn).values) == 1
        self._session.reveal(address)
        self._show(selected=eqn if alone else address)

    def only(self) -> None:
        """Shows what is lit, and folds the rest."""
        if not self._traced:
            return
        what, *addresses = self._traced
        self._words = f"Only {self._title(self._slice())}"
        self._traced = ()
        if what == "between":
            self._session.show_only(between=(addresses[0], addresses[1]))
        else:
            self._session.show_only(getattr(self._session, what)(*addresses))
        self.refresh()

    def all(self) -> None:
        """Shows everything, with nothing lit."""
        self._traced = ()
        self._session.show_all()
        self.refresh()

    def refresh(self) -> None:
        """Shows what is lit in the picture as it is now."""
        if self._hits:
            self._show_hits()
        whole = self._session.shows_all
        try:
            traced = self._slice() if self._traced else None
        except PanelError:  # it was of a tag that is gone
            self._traced, traced = (), None
        if traced is None:
            words = "" if whole else self._words or "A part of the program"
            self._show(slice={"words": words, "whole": whole})
            return
        elements, edges = _lit(self._session.picture(), traced)
        what = self._title(traced)
        self._show(
            slice={
                "words": what[0].upper() + what[1:],
                "line": "".join(self._traced[1:]) if "line" in self._traced[:1] else "",
                "elements": elements,
                "edges": edges,
                "only": True,
                "whole": whole,
                "note": _unsure(traced),
            }
        )

    def _slice(self) -> Slice:
        what, *addresses = self._traced
        return getattr(self._session, what)(*addresses)

    def _title(self, traced: Slice) -> str:
        what, *addresses = self._traced
        where = f"the paths from {' to '.join(addresses)}" if len(addresses) > 1 else ""
        where = where or f"what is {what} of {addresses[0]}"
        equations = sum(address.kind in ("eqn", "tag") for address in traced.addresses)
        if what == "line":
            file, _, number = addresses[0].rpartition(":")
            where = f"what line {number} of {file_text(file)} makes"
            equations = len(self._session.source().at(addresses[0]).line.equations) or equations
        star = "*" if traced.unsure else ""
        return f"{where}: {count_of(equations, 'equation')}{star}"


def elements_of(session: Session, places: Sequence[str]) -> list[str]:
    """The nodes of the picture that have some of these places in them."""
    if not places:
        return []
    try:
        part = session.slice_of(places)
        elements = [node.address for node in session.picture().nodes if part.touches(node.address)]
    except PanelError:  # one of them is gone
        return []
    return list(dict.fromkeys(elements))


def _unsure(traced: Slice) -> str:
    if not traced.unsure:
        return ""
    named = ", ".join(traced.unsure[:3]) + (" …" if len(traced.unsure) > 3 else "")
    return f"* It is not known which inputs {named} uses for which outputs, so all are shown."


def _lit(picture: Picture, traced: Slice) -> tuple[list[str], list[int]]:
    """The addresses of the elements, and the numbers of the edges, that have a part of a slice."""

    def touches(address: str) -> bool:
        try:
            return traced.touches(address)
        except PanelError:
            return False

    lit = {e.id: touches(e.address) for e in (*picture.nodes, *picture.clusters)}
    edges = [
        number
        for number, edge in enumerate(picture.edges)
        if lit[edge.source] and lit[edge.target] and (not edge.value or touches(edge.value))
    ]
    elements = [e.address for e in (*picture.nodes, *picture.clusters) if lit[e.id]]
    return list(dict.fromkeys(elements)), edges
