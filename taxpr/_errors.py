"""The errors of taxpr.

Each says what was found, what was expected, where (site address and the
user's source line) and what to do. All derive from `TaxprError`, and also from
the builtin error that a caller would think of first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TaxprError(Exception):
    """Base of all errors that taxpr raises on purpose."""


class TagError(TaxprError, TypeError):
    """A value or a parameter that `tag` cannot carry."""


class AddressError(TaxprError, LookupError):
    """An address that names no place in the program."""


class SelectorError(TaxprError, LookupError):
    """A selector that matches nothing, or that cannot be understood."""


class InjectorError(TaxprError, TypeError):
    """An injector that returned what the program cannot go on with."""


class RefusedError(TaxprError, NotImplementedError):
    """A rewrite that taxpr does not do, because it could not do it right."""


class ArgumentError(TaxprError, TypeError):
    """Arguments that do not fit the program that was traced."""


class StateError(TaxprError, ValueError):
    """A `State` used where, or as, it cannot be."""


class DroppedRuleWarning(UserWarning):
    """A rewrite that keeps the values of an equation, and not a rule that it carries."""


def name_of(fn: Callable[..., Any]) -> str:
    """The name of a function, of what `functools.partial` wraps, or of a type."""
    fn = getattr(fn, "func", fn)
    return getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__
