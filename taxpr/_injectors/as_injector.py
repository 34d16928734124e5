"""Convert the user's argument, an injector, a function or several of these, to injectors."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, InjectorError, a_type, name_of, unfit
from taxpr._injectors.injector import Injector, from_function
from taxpr._injectors.kind import InjectorKind
from taxpr._injectors.per_iteration import in_iterations
from taxpr._sites.criteria import Each, Selector

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# Injectors that run one after the other at the same sites.
Chain = tuple[Injector, ...]
# What a user attaches: an injector, a function
# ``(ctx, token, params) -> (token, ctx)``, or several.
One = Injector | Callable[..., tuple[PyTree, PyTree]]
Given = One | Sequence[One]


def as_injector(given: Given) -> Injector | Chain:
    """Convert the user's argument to an `Injector`, or a tuple of them.

    Raises:
        InjectorError: If it is no injector.
    """
    if _are_several(given):
        if not given:
            raise InjectorError("inject: the list of injectors is empty.")
        return tuple(_single(one) for one in given)
    return _single(given)


def in_some(where: Selector, given: Given) -> tuple[Selector, Given]:
    """A selector without `each`, and the injector in the iterations that this has.

    Raises:
        ArgumentError: If it takes parts of values one by one.
        InjectorError: If a function is given that has a context of its own.
    """
    if not isinstance(where, Each):
        return where, given
    if where.axis is not None:
        raise ArgumentError(
            f"inject: each: axis={where.axis} is for sweep and patch, which take the parts of a "
            "value one by one. inject acts at all of them: leave it out."
        )
    if isinstance(where.iterations, bool):
        return where.where, given
    made = as_injector(given)
    if not isinstance(given, (Injector, list, tuple)):
        raise InjectorError(
            f"inject: each(iterations=...) takes an injector, and {name_of(given)} is a function "
            "whose context would be for all iterations. Give taxpr.from_function(fun, ctx)."
        )
    every = made if isinstance(made, tuple) else (made,)
    some = tuple(in_iterations(one, where.iterations) for one in every)
    return where.where, some if isinstance(made, tuple) else some[0]


def _are_several(given: Given) -> TypeIs[Sequence[One]]:
    return isinstance(given, (list, tuple))


def _single(given: One) -> Injector:
    if isinstance(given, InjectorKind):
        values = ", ".join(map(str, given.__signature__.parameters.values()))
        raise InjectorError(
            f"inject: {given.name} is a kind of injector, which needs its values: call it, "
            f"{given.name}({values})."
        )
    if not callable(given):
        raise InjectorError(
            f"inject: {given!r} is {a_type(given)}. An injector is made by a kind, "
            "as in scale(0.5), or is a function (ctx, token, params) -> (token, ctx)."
        )
    if isinstance(given, Injector):
        return given
    _check_signature(given)
    return from_function(given)


def _check_signature(fun: Callable[..., object]) -> None:
    """Refuse a function whose signature cannot take ctx, token and params."""
    if wrong := unfit(fun, None, None, None):
        name = getattr(fun, "__name__", repr(fun))
        raise InjectorError(
            f"inject: {name}{wrong[0]} cannot be an injector, which takes three arguments and "
            "returns two values: (ctx, token, params) -> (token, ctx). To change the token alone: "
            "lambda ctx, token, params: (token * 2, ctx)."
        )
