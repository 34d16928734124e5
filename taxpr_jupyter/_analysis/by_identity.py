"""`ByIdentity`: remember a result for each object, also of objects that have no hash."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


class ByIdentity(Generic[_Result]):
    """A cache of one function. It keeps each object, so that no other one gets its `id`."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, _Result]] = {}

    def of(self, thing: Any, make: Callable[[Any], _Result]) -> _Result:
        """The result for an object; `make` computes it at the first call."""
        known = self._known.get(id(thing))
        if known is None:
            known = self._known[id(thing)] = thing, make(thing)
        return known[1]
