"""Modules of libraries whose functions count as the user's own in a program."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._errors import ArgumentError

_TAXPR = os.path.dirname(os.path.dirname(__file__))
TAXPR = (_TAXPR + os.sep, f"{_TAXPR}_jupyter{os.sep}")  # the folders of its two packages


class OwnModules(NamedTuple):
    """The modules that a program's ``names`` have: see `taxpr.trace`.

    Attributes:
        names: Their names.
        places: For each the files that belong to it: of a module its file, of a package its folders
            with a separator at the end.
    """

    names: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]

    def has(self, file: str) -> bool:
        """Whether a file belongs to one of them; code without a file does not."""
        return _among(file, self.places) is not None

    def without(self, files: Iterable[str]) -> list[str]:
        """The names of the modules that none of these files belongs to."""
        found = {_among(file, self.places) for file in files}
        return [name for k, name in enumerate(self.names) if k not in found]


@functools.lru_cache(maxsize=4096)
def _among(file: str, places: tuple[tuple[str, ...], ...]) -> int | None:
    if file.startswith("<"):
        return None
    real = os.path.realpath(file)
    # The innermost of two, such as a package and one in it.
    found = [(max(map(len, some)), k) for k, some in enumerate(places) if _is_in(real, some)]
    return max(found)[1] if found else None


def _is_in(file: str, places: tuple[str, ...]) -> bool:
    return any(file.startswith(one) if one.endswith(os.sep) else file == one for one in places)


def own_modules(names: Iterable[str]) -> OwnModules | None:
    """The modules with these names; None without any. None of them is imported.

    Raises:
        ArgumentError: If there is no such module, or it is of JAX or of taxpr, or not of Python.
    """
    found = {name: tuple(_places(name)) for name in dict.fromkeys(names)}
    return OwnModules(tuple(found), tuple(found.values())) if found else None


def _places(name: str) -> Iterator[str]:
    folders, file = _located(name)
    for folder in folders:
        yield os.path.realpath(folder) + os.sep
    if not folders:
        yield os.path.realpath(file)
    for place in (*folders, file):
        if _compat.is_jax_file(place + os.sep) or f"{place}{os.sep}".startswith(TAXPR):
            raise ArgumentError(
                f"trace: names={name!r}: the functions of {name.partition('.')[0]} itself are "
                "never shown as yours. Give the name of another library."
            )


def _located(name: str) -> tuple[list[str], str]:
    """The folders of a package, or none and the file of a module."""
    if (module := sys.modules.get(name)) is not None:
        folders = [*getattr(module, "__path__", ())]
        file: Any = getattr(module, "__file__", None)
    else:
        spec = _spec(name)
        if spec is None:
            raise ArgumentError(
                f"trace: names={name!r}: there is no module {name}. Give a name that can be "
                'imported, such as "optax", or several: names=("brax", "jax_md"). A variable is '
                "selected afterwards, by taxpr.var."
            )
        folders, file = [*(spec.submodule_search_locations or ())], spec.origin
    if not folders and (file is None or not file.endswith((".py", ".pyc"))):
        raise ArgumentError(
            f"trace: names={name!r}: {name} is not written in Python, so its functions have no "
            "variables and lines."
        )
    return folders, file or folders[0]


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """How a module would be found, without an import of the packages that it is in."""
    path, spec = None, None
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for k in range(1, len(parts) + 1):
        whole = ".".join(parts[:k])
        finders = [one for one in sys.meta_path if hasattr(one, "find_spec")]
        spec = next(filter(None, (one.find_spec(whole, path) for one in finders)), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations or []
    return spec
