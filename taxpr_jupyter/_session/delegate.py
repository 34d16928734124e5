"""What an object has of the parts that it consists of."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

T = TypeVar("T")


def of(part: str, member: T) -> T:
    """A method or property of a part, which an attribute holds, as one of the whole."""
    if isinstance(member, property):
        fget: Any = member.fget

        @functools.wraps(fget)
        def get(whole: Any) -> Any:
            return getattr(getattr(whole, part), fget.__name__)

        def put(whole: Any, value: Any) -> None:
            setattr(getattr(whole, part), fget.__name__, value)

        return property(get, put if member.fset else None)  # type: ignore
    function: Any = member

    @functools.wraps(function)
    def call(whole: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(whole, part), function.__name__)(*args, **kwargs)

    return call  # type: ignore
