"""Several selected values in the panel: the data and the actions of `static/several.js`."""

from collections.abc import Iterable, Mapping

from taxpr_jupyter._edits.inspect import Inspection, ValueRow
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._messages.selected import ChosenValue, Several
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.parts.finding import elements_of

SHOWN = 100  # values in the list


class SeveralView:
    """Shows what is selected if it is more than one place, and changes all of it at once.

    Attributes:
        keys: The keys of the tags at these places.
    """

    def __init__(self, session: Session, graph: Graph) -> None:
        self._session = session
        self._graph = graph
        self.keys: list[str] = []

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

    def refresh(self) -> dict[str, str]:
        """Shows what is selected, as it is now.

        Returns:
            The keys of the tags among it, by their addresses.
        """
        graph = self._graph
        nodes = {one: self._session.inspect(one) for one in graph.chosen}
        self.keys = [row.tag.key for row in _rows(nodes.values()).values() if row.tag]
        graph.several = self._state(nodes) if nodes else {}
        return {one: node.site.key for one, node in nodes.items() if node.site}

    def revalue(self) -> None:
        """Shows other values of injectors: nothing else has changed."""
        shown = self._graph.several
        if "values" in shown:
            injectors = {key: str(one) for key, one in self._session.injectors.items()}
            values = [
                {**one, "injector": injectors.get(one["address"], "")} for one in shown["values"]
            ]
            self._graph.show(several={**shown, "values": values})

    def _state(self, nodes: Mapping[str, Inspection]) -> Several:
        rows = list(_rows(nodes.values()).values())
        tags = [row.tag for row in rows if row.tag]
        empty = sum(not _rows([node]) for node in nodes.values())
        picture = self._session.picture()
        hidden = [one for one in nodes if not (picture.find(one) or one in picture.unfolded)]
        return {
            "title": f"{count_of(len(rows), 'value')} selected",
            "note": f"Nothing can be tagged at {empty} of the {len(nodes)} places." * bool(empty),
            "values": [_shown(row) for row in rows[:SHOWN]],
            "more": max(len(rows) - SHOWN, 0),
            "elements": elements_of(self._session, hidden),
            "bare": len(rows) - len(tags),
            "added": sum(tag.added for tag in tags),
            "injected": sum(tag.injector is not None for tag in tags),
            "injectors": list(self._session.choices()),
        }

    def _values(self, places: list[str]) -> list[str]:
        return list(_rows(map(self._session.inspect, places)))


def _rows(nodes: Iterable[Inspection]) -> dict[str, ValueRow]:
    """The values at these places that can have tags and injectors, by address, each once."""
    found: dict[str, ValueRow] = {}
    for node in nodes:
        rows = node.values
        if node.site:
            text = f"{node.site.name or node.site.key}: {node.site.avals}"
            rows = (ValueRow(node.site.key, text, node.site, node.refused),)
        for row in rows:
            if not (row.refused or (row.tag and row.tag.refused)):
                found.setdefault(row.address, row)
    return found


def _shown(row: ValueRow) -> ChosenValue:
    return {
        "address": row.address,
        "text": row.text,
        "tag": (row.tag.name or row.tag.address) if row.tag else "",
        "injector": str(row.tag.injector or "") if row.tag else "",
    }
