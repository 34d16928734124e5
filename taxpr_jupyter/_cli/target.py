"""Load a function by `package.module:function`, `path/file.py:function`, `module:obj.method`."""

import functools
import importlib
import importlib.util
import pathlib
import sys
from typing import Any

from taxpr_jupyter._errors import PanelError, nearest

FORMS = "package.module:function, path/to/file.py:function or module:object.method"


def load(target: str) -> Any:
    """Load the object of a target. Imports its module, with the current directory on the path.

    Raises:
        PanelError: If there is no such module or name.
        Exception: Any error of the module itself.
    """
    place, colon, names = target.rpartition(":")
    if not colon or not place or not names:
        raise PanelError(f"{target!r} names no function. Write {FORMS}")
    found: Any = _from_file(place) if place.endswith(".py") else _from_module(place)
    for name in names.split("."):
        if not hasattr(found, name):
            what = "The module" if found is sys.modules.get(getattr(found, "__name__", "")) else ""
            known = nearest(name, [own for own in vars_of(found) if not own.startswith("_")])
            where = f"{what or type(found).__name__} {getattr(found, '__name__', '')}".strip()
            raise PanelError(f"{where} has no {name!r}. It has {known or 'nothing'}")
        found = getattr(found, name)
    return found


def vars_of(found: Any) -> list[str]:
    """The names that an object defines itself, its callables first."""
    own = getattr(found, "__dict__", {})
    module = getattr(found, "__name__", None)
    mine = [n for n, v in own.items() if callable(v) and getattr(v, "__module__", None) == module]
    return mine or list(own)


def _from_module(name: str) -> Any:
    if pathlib.Path(name).is_file():
        raise PanelError(f"{name} is no file of Python. Write {FORMS}")
    here = str(pathlib.Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but imports another one that does not
        raise PanelError(
            f"There is no module {error.name!r} on Python's path or in {here}. Write {FORMS}"
        ) from error


def _from_file(place: str) -> Any:
    file = pathlib.Path(place).resolve()
    if not file.is_file():
        raise PanelError(f"There is no file {place}")
    return _executed(file, file.stat().st_mtime_ns)


@functools.cache  # a function and its arguments may be of one file, whose classes are made once
def _executed(file: pathlib.Path, _changed: int) -> Any:
    # Put its folder on the path, as when Python runs it.
    sys.path[:0] = [str(file.parent), str(pathlib.Path.cwd())]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
