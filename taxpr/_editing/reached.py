"""All functions, and the user's functions that a function may call."""

import functools
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

from taxpr import _compat
from taxpr._editing.exchange import own_code
from taxpr._source.files import is_user_file

_class: Any = type  # which leaves types of classes unknown
_CONTAINERS = (dict, list, tuple, set, frozenset, types.CellType)


def every_function() -> Iterator[types.FunctionType]:
    """All functions, which takes long."""
    yield from (one for one in gc.get_objects() if type(one) is types.FunctionType)


@functools.lru_cache(maxsize=1)
def names_in_jax(modules: int) -> frozenset[str]:
    """The names of JAX's own functions and classes.

    Args:
        modules: How many modules there are: others have more names.
    """
    del modules
    codes = map(own_code, every_function())
    return frozenset(
        code.co_qualname.partition(".")[0]
        for code in codes
        if _compat.is_jax_file(code.co_filename)
    )


def is_users(function: types.FunctionType) -> bool:
    """Whether a function is the user's."""
    return is_user_file(own_code(function).co_filename)


def reached(*given: Any) -> Iterator[types.FunctionType]:
    """The user's functions that functions, their arguments and their modules hold.

    They are looked for in closures, decorators, containers, modules, and in classes and objects of
    the user's. Functions that only a library holds are not among them.
    """
    seen: dict[int, Any] = {}
    waiting = list(given)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or not gc.is_tracked(one):
            continue
        seen[id(one)] = one
        if type(one) is types.FunctionType:
            if is_users(one):
                yield one
            else:  # the rest of it is the library's
                waiting += (one.__closure__, vars(one))
                continue
        if _may_hold(one):
            waiting += gc.get_referents(one)


def _may_hold(one: Any) -> bool:
    kind: Any = _class(one)
    if issubclass(kind, types.ModuleType):
        return _is_users_module(one.__name__)
    if issubclass(kind, type):
        return _is_users_module(one.__module__)
    # A method, a property and the like have __get__.
    is_holder = issubclass(kind, _CONTAINERS) or callable(one) or hasattr(kind, "__get__")
    return is_holder or _is_users_module(kind.__module__)


def _is_users_module(module: str) -> bool:
    if module == "__main__" or (found := sys.modules.get(module)) is None:
        return True
    file = getattr(found, "__file__", None)
    return file is not None and is_user_file(file)
