"""Several selected values in the panel: the data and the actions of `static/several.js`."""

from collections.abc import Mapping

from taxpr_jupyter._edits.inspect import ValueRow
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.selected import ChosenValue, Several
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.parts.finding import elements_of

SHOWN = 100  # values in the list


class SeveralView:
    """Shows what is selected if it is more than one place, and changes all of it at once."""

    def __init__(self, session: Session, graph: Graph) -> None:
        self._session = session
        self._graph = graph

    def handle(self, message: Message) -> bool:
        """Does what the browser asks for, if it is for this."""
        match message:
            case {"do": "tagAll", "addresses": addresses}:
                self._session.tag(self._values(addresses))
            case {"do": "untagAll", "addresses": addresses}:
                self._session.untag(self._values(addresses))
            case {"do": "attachAll", "addresses": addresses, "injector": ""}:
                self._session.detach(self._values(addresses))
            case {"do": "attachAll", "addresses": addresses, "injector": injector}:
                choice = self._session.choices().get(injector)
                seeds = choice.seeds if choice else {}
                self._session.attach(self._values(addresses), injector, **seeds)
            case _:
                return False
        return True

    def moved(self, keys: Mapping[str, str | None]) -> None:
        """Keeps what is selected in a program that was traced anew."""
        now = [keys.get(one) or keys.get(f"{one}.0") for one in self._graph.chosen]
        self._graph.chosen = [one for one in now if one]

    def refresh(self) -> None:
        """Shows what is selected, as it is now."""
        graph = self._graph
        if graph.chosen and graph.selected not in graph.chosen:
            graph.chosen = []  # another one was selected alone
        graph.several = self._state(graph.chosen) if graph.chosen else {}

    def _state(self, places: list[str]) -> Several:
        rows = [row for one in places for row in self._rows(one)]
        tags = [row.tag for row in rows if row.tag]
        empty = sum(not self._rows(one) for one in places)
        picture = self._session.picture()
        hidden = [one for one in places if not (picture.find(one) or one in picture.unfolded)]
        return {
            "title": f"{count_of(len(rows), 'value')} selected",
            "note": f"Nothing can be tagged at {empty} of the {len(places)} places." * bool(empty),
            "values": [_shown(row) for row in rows[:SHOWN]],
            "more": max(len(rows) - SHOWN, 0),
            "elements": elements_of(self._session, hidden),
            "bare": len(rows) - len(tags),
            "added": sum(tag.added for tag in tags),
            "injected": sum(tag.injector is not None for tag in tags),
            "injectors": list(self._session.choices()),
        }

    def _values(self, places: list[str]) -> list[str]:
        return [row.address for one in places for row in self._rows(one)]

    def _rows(self, place: str) -> list[ValueRow]:
        """The values at a place that can have tags and injectors."""
        node = self._session.inspect(place)
        if node.site:
            text = f"{node.site.name or node.site.key}: {node.site.avals}"
            return [ValueRow(node.site.key, text, node.site, None)] if not node.refused else []
        return [row for row in node.values if not (row.refused or (row.tag and row.tag.refused))]


def _shown(row: ValueRow) -> ChosenValue:
    return {
        "address": row.address,
        "text": row.text,
        "tag": (row.tag.name or row.tag.address) if row.tag else "",
        "injector": str(row.tag.injector or "") if row.tag else "",
    }
