"""Delegate attributes of an object to its parts."""

import functools
from typing import Any, TypeVar

T = TypeVar("T")


def of(part: str, member: T) -> T:
    """A method or property of a part, which an attribute holds, as one of the whole."""
    known: Any = member
    made: Any
    if isinstance(known, property):
        function: Any = known.fget

        @functools.wraps(function)
        def get(whole: Any) -> Any:
            return getattr(getattr(whole, part), function.__name__)

        def put(whole: Any, value: Any) -> None:
            setattr(getattr(whole, part), function.__name__, value)

        made = property(get, put if known.fset else None)
    else:

        @functools.wraps(known)
        def call(whole: Any, /, *args: Any, **kwargs: Any) -> Any:
            return getattr(getattr(whole, part), known.__name__)(*args, **kwargs)

        made = call
    return made
