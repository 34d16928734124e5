"""The messages of the browser, each of which asks for one action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.graph import Graph
from taxpr_jupyter._view.inbox import Content, Inbox
from taxpr_jupyter._view.jobs import GONE, Jobs
from taxpr_jupyter._view.running import Running

Actions = Mapping[str, Callable[[str], Any]]  # by name, each takes an address


class Messages:
    """Does what the browser asks for.

    Args:
        more: Functions that give more actions for a message.
    """

    def __init__(
        self, graph: Graph, jobs: Jobs, running: Running, *more: Callable[[Content], Actions]
    ) -> None:
        self._graph = graph
        self._jobs = jobs
        self._running = running
        self._more = more
        self.take = Inbox(self.handle).take

    def handle(self, content: Content) -> None:
        """Does what a message asks for, and says that it was handled."""
        try:
            if (session := self._jobs.known()) is None:
                self._jobs.say(GONE, error=True)
            else:
                self._do(session, content)
        finally:  # else the page waits for ever
            if "from" in content:
                with self._jobs.lock:
                    self._graph.handled = {content["from"]: content.get("number")}

    def _do(self, session: Session, content: Content) -> None:
        actions: dict[str, Callable[[str], Any]] = {
            "tag": lambda address: session.tag(address, content.get("name") or None),
            "untag": session.untag,
            "fold": session.fold,
            "unfold": session.unfold,
            "toggle": lambda address: _toggle(session, address),
            "heat": lambda kind: setattr(session, "heat", kind or None),  # it checks
            "run": lambda _: self._running.start(content.get("device")),
            "cancel": lambda _: self._jobs.cancel(),
        }
        for more in self._more:
            actions.update(more(content))
        what = content.get("do", "")
        with self._jobs.lock, session.later():
            if what in actions:
                self._jobs.attempt(actions[what], content.get("address", ""))
            self._running.try_out()


def _toggle(session: Session, address: str) -> None:
    node = session.inspect(address)
    if node.foldable:
        (session.fold if node.unfolded else session.unfold)(address)
