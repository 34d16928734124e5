"""`Inbox`: handle messages of the browser one at a time, in the order of sending.

A kernel with subshells (ipykernel 7) hands the messages of one widget to several threads, so that
what was sent first may be handled last.
"""

import collections
import threading
from collections.abc import Callable, Mapping
from typing import Any

MISSING_AFTER = 10.0  # seconds to wait for a message that was sent earlier

Content = Mapping[str, Any]


class Inbox:
    """Takes messages from any thread.

    The browser numbers what it sends from 1, and gives each page a name. A message without a
    number is handled as it comes.

    Args:
        handle: Called with each message, by one thread at a time.

    >>> inbox = Inbox(lambda content: print(content["do"]))
    >>> inbox.take({"do": "run", "from": "page", "number": 2})
    >>> inbox.take({"do": "attach", "from": "page", "number": 1})
    attach
    run
    """

    def __init__(self, handle: Callable[[Content], None]) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._handling = False
        self._ready: collections.deque[Content] = collections.deque()
        self._early: dict[str, dict[int, Content]] = {}  # by page and number
        self._next: dict[str, int] = {}

    def take(self, content: Content) -> None:
        """Handles the message, and those that waited for it, or keeps it until its turn."""
        page, number = content.get("from", ""), content.get("number", 0)
        with self._lock:
            if number < self._next.setdefault(page, 1):  # without a number, or given up
                self._ready.append(content)
            else:
                early = self._early.setdefault(page, {})
                early[number] = content
                self._release(page)
                if early:
                    late = threading.Timer(MISSING_AFTER, self._go_on_without, (page, number))
                    late.daemon = True
                    late.start()
        self._handle_ready()

    def _release(self, page: str) -> None:
        early = self._early[page]
        while self._next[page] in early:
            self._ready.append(early.pop(self._next[page]))
            self._next[page] += 1

    def _go_on_without(self, page: str, number: int) -> None:
        with self._lock:
            if number not in self._early[page]:
                return
            self._next[page] = min(self._early[page])
            self._release(page)
        self._handle_ready()

    def _handle_ready(self) -> None:
        """Handles what is ready, unless another thread does so already.

        An error, or an interrupt, is raised when all is handled.
        """
        raised: BaseException | None = None
        while True:
            with self._lock:
                if self._handling or not self._ready:
                    break
                self._handling = True
                content = self._ready.popleft()
            try:
                self._handle(content)
            except BaseException as error:
                raised = raised or error
            finally:
                with self._lock:
                    self._handling = False
        if raised is not None:
            raise raised
