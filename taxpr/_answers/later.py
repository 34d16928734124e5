"""`Later`: a sequence that is made when somebody reads it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")


class Later(Sequence[_T]):
    """A sequence that is made when somebody reads it; otherwise like a list.

    Args:
        make: Makes its items; called once, unless several threads begin to read together.

    Example:
        >>> rows = Later(lambda: [1, 2, 3])
        >>> rows[:2], len(rows), rows == [1, 2, 3]
        ([1, 2], 3, True)
    """

    def __init__(self, make: Callable[[], Iterable[_T]]) -> None:
        self._make: Callable[[], Iterable[_T]] | None = make
        self._found: list[_T] = []

    @property
    def _items(self) -> list[_T]:
        if make := self._make:
            self._found = list(make())
            self._make = None  # and what it needed
        return self._found

    def __getitem__(self, key: Any) -> Any:
        items: list[Any] = self._items
        return items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == getattr(other, "_items", other)

    def __repr__(self) -> str:
        return repr(self._items)
