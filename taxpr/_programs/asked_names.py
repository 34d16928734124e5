"""Read the ``names`` that `trace` was given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, cast

from taxpr._errors import ArgumentError
from taxpr._source.own_modules import OwnModules, own_modules

COTANGENTS = "cotangents"


class AskedNames(NamedTuple):
    """What to note while a function is traced.

    Attributes:
        variables: Whether to note variables; None means those that add nothing to the program.
        cotangents: Whether to note the cotangents of their values.
        own: Libraries whose functions count as the user's.
    """

    variables: bool | None
    cotangents: bool = False
    own: OwnModules | None = None


def asked_names(names: Any) -> AskedNames:
    """Read ``names``.

    Args:
        names: True, False or None; ``"cotangents"``, the name of a module, or several of these.
            If None is among them, no equations stay that only variables hold, as with None alone.

    Raises:
        ArgumentError: If it is something else, or there is no such module.
    """
    if names is None or isinstance(names, bool):
        return AskedNames(names)
    given: Any = [names] if isinstance(names, str) else names
    if not (isinstance(given, Collection) and all(map(_is_name, cast(Collection[Any], given)))):
        raise ArgumentError(
            f'trace: names={names!r}: give True, False, None, "cotangents", or names of modules '
            "such as a library's. A variable is selected afterwards, by taxpr.var."
        )
    several = cast(Collection[str | None], given)
    modules = own_modules(one for one in several if one not in (None, COTANGENTS))
    cotangents = COTANGENTS in several
    return AskedNames(None if None in several and not cotangents else True, cotangents, modules)


def _is_name(one: object) -> bool:
    return one is None or (isinstance(one, str) and bool(one))
