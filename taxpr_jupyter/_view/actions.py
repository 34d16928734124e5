"""The messages of the browser; each asks for one action."""

from collections.abc import Callable
from typing import cast

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._messages.requests import Message
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.inbox import Content, Inbox
from taxpr_jupyter._view.jobs import GONE, Jobs
from taxpr_jupyter._view.running import Running


class Messages:
    """Does what the browser asks for.

    Args:
        parts: Each does what some messages ask for, and returns whether it knew the message.
    """

    def __init__(
        self, graph: Graph, jobs: Jobs, running: Running, *parts: Callable[[Message], bool]
    ) -> None:
        self._graph = graph
        self._jobs = jobs
        self._running = running
        self._parts = parts
        self.take = Inbox(self.handle).take

    def handle(self, content: Content) -> None:
        """Does what a message asks for, and says that it was handled."""
        with self._running.handling(), self._graph.together():
            try:
                if (session := self._jobs.known()) is None:
                    self._jobs.say(GONE, error=True)
                else:
                    self._do(session, cast(Message, content))
            finally:  # else the page waits for ever
                if "from" in content:
                    self._graph.handled = {content["from"]: content.get("number", 0)}

    def _do(self, session: Session, message: Message) -> None:
        with session.later():
            self._jobs.attempt(self._handle, session, message)
            self._running.try_out()

    def _handle(self, session: Session, message: Message) -> None:
        match message:
            case {"do": "tag", "address": address, "name": name}:
                session.tag(address, name or None)
            case {"do": "untag", "address": address}:
                session.untag(address)
            case {"do": "fold", "address": address}:
                session.fold(address)
            case {"do": "unfold", "address": address}:
                session.unfold(address)
            case {"do": "toggle", "address": address}:
                _toggle(session, address)
            case {"do": "keepView", "address": name}:
                session.keep_view(name)
            case {"do": "view", "address": name}:
                session.view(name)
            case {"do": "dropView", "address": name}:
                session.drop_view(name)
            case {"do": "run", "device": device}:
                self._running.start(device)
            case {"do": "undo"}:
                self._jobs.say(f"Undone: {session.undo()}.")
            case {"do": "redo"}:
                self._jobs.say(f"Redone: {session.redo()}.")
            case {"do": "cancel"}:
                self._jobs.cancel()
            case _:
                if not any(part(message) for part in self._parts):
                    raise PanelError(
                        f"No part of the panel takes the message {message!r}. A message is "
                        "declared in _messages/requests.py, and a part's `handle` takes it."
                    )


def _toggle(session: Session, address: str) -> None:
    node = session.inspect(address)
    if node.foldable:
        (session.fold if node.unfolded else session.unfold)(address)
