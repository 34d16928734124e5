"""The tracers that a variable holds: it is one, or they are in its PyTree or its attributes.

They are held by weak references, so that nothing lives longer than without.
"""

from __future__ import annotations

import functools
import operator
import types
import weakref
from collections.abc import Callable, Iterator, ValuesView
from typing import Any, cast

import jax
import numpy as np

from taxpr import _compat

_trees: Any = jax.tree_util  # which declares no types of paths
_MOST = 10_000  # leaves of a variable
_MANY = 64  # leaves that are looked at only where they may have changed
# These hold no tracer.
_WITHOUT = (
    *(str, bytes, int, float, complex, type, type(None), np.ndarray, np.generic, jax.Array),
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
)


def holds_none(value: object) -> bool:
    """Whether a value is of a class that holds no tracer."""
    return _is_plain(type(value))


@functools.lru_cache(maxsize=4096)
def _is_plain(kind: type) -> bool:
    return not _compat.is_tracer_type(kind) and issubclass(kind, _WITHOUT)


class Held:
    """The tracers that a variable held at one line.

    Classes of the user's say what their PyTrees and keys are, and whether these are equal: what
    they raise, methods raise.

    Attributes:
        at: References to the tracers, by path.
    """

    __slots__ = ("_changes", "_container", "_flatten", "_itself", "_leaves", "_structure", "at")

    def __init__(self, value: object, changes: int) -> None:
        self.at: dict[str, Callable[[], Any]] = {}
        self._itself: Callable[[], Any] | None = None  # where the leaves need no look
        self._changes = changes
        self._container: object = None  # which is the same until something changes containers
        if is_tracer(value):
            self._itself = self.at[""] = weakref.ref(value)
            return
        contents, leaves, self._structure = _contents(value, _flat)
        # A large tree is looked at before each line: without a function of Python for each leaf.
        self._flatten = _flat if any(map(_is_iterator, leaves)) else jax.tree_util.tree_flatten
        if len(leaves) > _MOST:
            self._itself = lambda: value
            leaves = []
        elif len(leaves) > _MANY and _is_of_python(value):
            self._container = value
        self._leaves = [weakref.ref(one) if is_tracer(one) else None for one in leaves]
        if any(self._leaves):
            paths = _trees.tree_flatten_with_path(contents, is_leaf=_is_iterator)[0]
            written = _attribute if contents is not value else _key
            self.at = {written(path): weakref.ref(one) for path, one in paths if is_tracer(one)}
        if _is_frozen(type(value)):
            self._itself = weakref.ref(value)

    def still(self, value: object, changes: int) -> bool:
        """Whether a value has the same tracers at the same places.

        Args:
            value: What the variable holds now.
            changes: A number that has grown wherever a container may have changed.
        """
        if self._itself is not None:
            return self._itself() is value
        if self._changes == changes and self._container is value is not None:
            return True
        self._changes = changes
        _, leaves, structure = _contents(value, self._flatten)
        if structure != self._structure:
            return False
        held = [None if one is None else one() for one in self._leaves]
        if all(map(operator.is_, held, leaves)):
            return True
        return all(map(_is_same, self._leaves, leaves))

    def unlike(self, before: Held | None) -> Iterator[tuple[str, Any]]:
        """The tracers that were not held before, with their paths."""
        for path, reference in self.at.items():
            tracer = reference()
            if before is None or path not in before.at or before.at[path]() is not tracer:
                yield path, tracer


def _contents(
    value: object, flatten: Callable[[Any], tuple[list[Any], Any]]
) -> tuple[Any, list[Any], Any]:
    """The attributes of an object by name, a PyTree itself; its leaves and structure."""
    leaves, structure = flatten(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return value, leaves, structure
    try:
        attributes = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError, ValueError):
        return (), [], None
    return attributes, *flatten(attributes)


def _flat(contents: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(contents, is_leaf=_is_iterator)


def _is_iterator(value: object) -> bool:
    return _of_iterators(type(value))


@functools.lru_cache(maxsize=4096)
def _of_iterators(kind: type) -> bool:
    """Whether values of a class are leaves of which JAX warns where it meets them."""
    return issubclass(kind, (Iterator, ValuesView))


def is_tracer(value: object) -> bool:
    """Whether JAX traces a value."""
    return _compat.is_tracer_type(type(value))


def _is_of_python(value: object) -> bool:
    """Whether a value is made of lists and dicts alone, and of leaves that do not change."""
    if type(value) in (list, tuple):
        return all(map(_is_of_python, cast("list[object]", value)))
    if type(value) is dict:
        return all(map(_is_of_python, cast("dict[object, object]", value).values()))
    return is_tracer(value) or holds_none(value)


def _is_same(reference: Callable[[], Any] | None, leaf: object) -> bool:
    return not is_tracer(leaf) if reference is None else reference() is leaf


def _is_frozen(kind: type) -> bool:
    params = getattr(kind, "__dataclass_params__", None)
    return getattr(params, "frozen", False) and kind.__weakrefoffset__ > 0


def _key(path: tuple[Any, ...]) -> str:
    return "".join(map(_part, path))


def _part(part: Any) -> str:
    # Of a class that does not say what its parts are called, as JAX writes it for arguments.
    return f"[{part.key}]" if isinstance(part, jax.tree_util.FlattenedIndexKey) else str(part)


def _attribute(path: tuple[Any, ...]) -> str:
    return f".{path[0].key}{_key(path[1:])}"
