"""Bind the static arguments of a function, given by position or by name."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from taxpr._calls.objects import parameters_of


class Statics(NamedTuple):
    """The static arguments, which are not traced.

    Attributes:
        nums: The positions.
        names: The names of keyword arguments.
    """

    nums: tuple[int, ...]
    names: tuple[str, ...]


def without_statics(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], statics: Statics
) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
    """The function with its static arguments bound, and the other arguments."""
    traced = [arg for k, arg in enumerate(args) if k not in statics.nums]
    keywords = {name: value for name, value in kwargs.items() if name not in statics.names}
    fixed = {name: kwargs[name] for name in statics.names if name in kwargs}
    if not (statics.nums or fixed):
        return fun, traced, keywords

    @functools.wraps(fun)
    def bound(*given: Any, **words: Any) -> Any:
        rest = iter(given)
        every = [arg if k in statics.nums else next(rest) for k, arg in enumerate(args)]
        return fun(*every, *rest, **fixed, **words)

    made: Any = bound
    made.__signature__ = _signature(fun, len(args), statics)
    made.bound_statics = fun, args, kwargs, statics
    return bound, traced, keywords


def _signature(fun: Callable[..., Any], positional: int, statics: Statics) -> inspect.Signature:
    """The signature without static arguments, for the names of the others."""
    parameters = parameters_of(fun)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [one for one in parameters if one.kind in kinds][:positional]
    gone = {one.name for k, one in enumerate(own) if k in statics.nums} | set(statics.names)
    kept = [one for one in parameters if one.name not in gone]
    every = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
    return inspect.Signature(kept or [every])
