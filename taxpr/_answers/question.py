"""What all questions have in common: one is asked of a function, and its result of arguments."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from taxpr._errors import ArgumentError, name_of

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SELECTS = "where", "b"  # parameters that no array is given for


def question(ask: Callable[_P, _R]) -> Callable[_P, _R]:
    """A decorator for questions: arguments of the function that are given to it are refused."""
    signature = inspect.signature(ask)

    @functools.wraps(ask)
    def asked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            given = signature.bind(*args, **kwargs).arguments
            found = next((name for name in _SELECTS if _has_arrays(given.get(name))), None)
            why = f"{found} is an array" if found else ""
        except TypeError as error:
            why = str(error)
        if why:
            what = ask.__name__
            of = name_of(args[0]) if args and callable(args[0]) else "f"
            raise ArgumentError(
                f"{what}: {why}. It takes a function and options; what it returns takes the "
                f"arguments of the function: {what}({of})(*args)."
            )
        return ask(*args, **kwargs)

    return asked


def _has_arrays(given: Any) -> bool:
    arrays = (jax.Array, np.ndarray, np.generic, numbers.Number)
    return any(isinstance(leaf, arrays) for leaf in jax.tree.leaves(given))
