"""`Recent`: keep the most recently used results, by keys."""

import collections
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """A cache of ``most`` results: the least recently used ones go. Several threads may use it.

    Args:
        most: How many results are kept.

    Attributes:
        most: How many results are kept, at most.

    Example:
        >>> from taxpr.introspect import Recent
        >>> squares = Recent(2)
        >>> [squares.once(n, lambda: n * n) for n in (1, 2, 3)], squares.get(1)
        ([1, 4, 9], None)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: collections.OrderedDict[Hashable, T] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """Get the value of a key, or None."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: Hashable, made: T) -> T:
        """Keep a result, unless another thread was faster; returns the one that is kept."""
        with self._lock:
            made = self._known.setdefault(key, made)
            self._known.move_to_end(key)
            while len(self._known) > self.most:
                self._known.popitem(last=False)
            return made

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Get the value of a key; make it, without a lock, if it is missing."""
        known = self.get(key)
        return self.put(key, make()) if known is None else known

    def __len__(self) -> int:
        return len(self._known)
