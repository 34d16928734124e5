"""Whether what runs may change a container that somebody holds.

Looking at all leaves of a large one before each line is slow, and of use only where something may
have changed it: an instruction that stores into an object, or a call of what is neither watched
itself nor hands functions new containers, as JAX does.
"""

from __future__ import annotations

import dis
import functools
import os
import types
from typing import Any

import jax
import numpy as np

from taxpr._source.files import is_user_file

_STORES = {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_ATTR"}
# Whoever has one of these methods and functions at hand may call it, or have it called.
_CHANGING = {
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"),
    *("setdefault", "popitem", "setattr", "delattr", "getattr", "exec", "eval", "vars"),
    *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__", "__ior__"),
    *("__imul__", "__dict__", "__getattribute__"),
}
_FOLDERS = tuple(os.path.dirname(str(one.__file__)) + os.sep for one in (jax, np))
_MODULES = {"jax", "jaxlib", "numpy", "builtins", "math", "itertools"}
_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


@functools.lru_cache(maxsize=4096)
def stores(code: types.CodeType) -> tuple[bool, frozenset[str]]:
    """Whether a function may change any container, and the variables that it changes in place."""
    if not _CHANGING.isdisjoint(code.co_names):
        return True, frozenset()
    in_place: set[str] = set()
    was_in_place = False
    for one in dis.get_instructions(code):
        if one.opname in _STORES:
            return True, frozenset()
        if was_in_place:  # and now comes the store of `x += y` into `x`
            if not one.opname.startswith(("STORE_FAST", "STORE_DEREF")):
                return True, frozenset()
            # Python 3.13 has instructions that store one variable and load another.
            stored: Any = one.argval
            in_place.update((stored,) if isinstance(stored, str) else stored)
        was_in_place = one.opname == "BINARY_OP" and one.argrepr.endswith("=")
    return False, frozenset(in_place)


def keeps(called: Any) -> bool:
    """Whether a call leaves containers as they are, or is watched itself."""
    kinds: Any = type
    kind = kinds(called)
    while kind in (functools.partial, types.MethodType):
        called = called.func if kind is functools.partial else called.__func__
        kind = kinds(called)
    if kind is types.FunctionType:
        file = called.__code__.co_filename
        return is_user_file(file) or file.startswith(_FOLDERS)
    if isinstance(called, _IN_C):
        return called.__name__ not in _CHANGING and _of_these(called)
    return _of_these(called if kind is type else kind)


def _of_these(one: Any) -> bool:
    one = getattr(one, "__objclass__", one)  # the class of a method that is written in C
    return str(getattr(one, "__module__", "")).partition(".")[0] in _MODULES
