"""Warnings about rules that injection drops, and derivatives that it does not update."""

import inspect
import os
from collections.abc import Mapping, Sequence

import jax

from taxpr._errors import (
    DroppedRuleWarning,
    SharedValueWarning,
    StaleDerivativeWarning,
    UnobservedWarning,
    UnusedNamesWarning,
    warn,
)
from taxpr._hops.table import dropped
from taxpr._sites.site import Site, around, described

_HERE = os.path.dirname(os.path.dirname(__file__))
_JAX = os.path.dirname(jax.__file__)
_SHOWN = 5  # tags in one warning


def warn_of_dropped_rules(sites: Sequence[Site]) -> None:
    """Warn once for each equation around these sites that loses a special rule.

    Warns:
        DroppedRuleWarning: Names the tag, the equation, its primitive and the rule.
    """
    warned: set[str] = set()
    for site in sites:
        for address, step in around(site.steps):
            rule = dropped(step.eqn)
            if rule is None or address in warned:
                continue
            warned.add(address)
            warn(
                f"the {site} is inside {described(address, step.eqn)}. With an injection, "
                f"{step.eqn.primitive.name} is replaced by its computation, and {rule} is "
                "dropped. Select other tags with where= to keep it.",
                DroppedRuleWarning,
                _levels_to_the_caller(),
            )


def warn_of_stale_derivatives(tags: Mapping[str, str]) -> None:
    """Warn once about tags that change a value whose derivative was taken before.

    Args:
        tags: The tags in words, each with the name of the variable that it was put for, or "".

    Warns:
        StaleDerivativeWarning: Names the tags.
    """
    if not tags:
        return
    name = next(filter(None, tags.values()), "").partition("#")[0]
    edit = f"taxpr.edit(fun, {name!r}, injector)" if name else "taxpr.edit(fun, variable, injector)"
    warn(
        f"inject: {_first(list(tags))}: the program was differentiated before this change, so "
        "its derivative stays the original function's. For the changed function's derivative, "
        "inject first and differentiate then: jax.grad(lambda *args: injected(ctx, *args)[0]). "
        f"Or change the variable before JAX differentiates: {edit}.",
        StaleDerivativeWarning,
        _levels_to_the_caller(),
    )


def warn_of_shared_values(tags: Sequence[str]) -> None:
    """Warn once about variables that are changed and hold values of their functions' callers.

    Warns:
        SharedValueWarning: Names the variables, and the other uses of the values.
    """
    if tags:
        warn(f"inject: {_first(tags)}.", SharedValueWarning, _levels_to_the_caller())


def warn_of_unobserved(tags: Sequence[str], label: str, ruled: str) -> None:
    """Warn once about tags of a rule that no injector can observe.

    Warns:
        UnobservedWarning: Names the tags and the equation that has the rule.
    """
    if not tags:
        return
    warn(
        f"nothing is seen in this derivative at {_first(tags)}: only the {label} rule of "
        f"{ruled} has such a tag, and cannot be told there from the others with its params and "
        "shapes, since the rule may have other tags for other inputs that are differentiated and "
        "the lines of the source do not tell them apart. Give these tags names of their own.",
        UnobservedWarning,
        _levels_to_the_caller(),
    )


def warn_of_unused_names(modules: Sequence[str], name: str) -> None:
    """Warn once about libraries that have nothing in a program.

    Warns:
        UnusedNamesWarning: Names the libraries and the program.
    """
    warn(
        f"trace: names: no function of {', '.join(modules)} made an equation of {name}, so there "
        "is nothing to name.",
        UnusedNamesWarning,
        _levels_to_the_caller(),
    )


def _first(tags: Sequence[str]) -> str:
    return "; ".join(tags[:_SHOWN]) + (f"; and {len(tags) - _SHOWN} more" * (len(tags) > _SHOWN))


def _levels_to_the_caller() -> int:
    """The stacklevel of the user's call into taxpr or JAX, seen from the calling function."""
    level, frame = 0, inspect.currentframe()
    while frame and frame.f_back and frame.f_code.co_filename.startswith((_HERE, _JAX)):
        level, frame = level + 1, frame.f_back
    return level
