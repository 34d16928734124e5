"""`ByIdentity`: remember a result for each object, also of objects that have no hash."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


class ByIdentity(Generic[_Result]):
    """A cache of one function. It keeps each object, so that no other one gets its `id`.

    Attributes:
        known: Each object with its result, by its `id`.

    Example:
        >>> from taxpr.introspect import ByIdentity
        >>> lengths, names = ByIdentity(), ["a", "b"]
        >>> lengths.of(names, len), lengths.of(names, lambda _: 0)
        (2, 2)
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, _Result]] = {}

    def of(self, thing: Any, make: Callable[[Any], _Result]) -> _Result:
        """The result for an object; `make` computes it at the first call."""
        known = self.known.get(id(thing))
        if known is None:
            known = self.known[id(thing)] = thing, make(thing)
        return known[1]
