"""Functions that run while a function is traced and are no part of it."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Now(threading.local):
    """Whether such a function runs in this thread."""

    runs: bool = False


_now = _Now()


def unnoticed(fun: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function during which no variables are noted, also none of other functions.

    Example:
        >>> unnoticed(is_unnoticed)(), is_unnoticed()
        (True, False)
    """

    @functools.wraps(fun)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        before, _now.runs = _now.runs, True
        try:
            return fun(*args, **kwargs)
        finally:
            _now.runs = before

    return run


def is_unnoticed() -> bool:
    """Whether an `unnoticed` function runs in this thread."""
    return _now.runs
