"""The tracers that a variable holds: its value, or tracers in its PyTree or its attributes.

They are held by weak references, so that nothing lives longer than without.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import types
import weakref
from collections.abc import Callable, Iterator, ValuesView
from typing import Any

import jax
import numpy as np

from taxpr import _compat
from taxpr._untyped import tree_util as _trees
from taxpr._watching.changes import Log
from taxpr._watching.contents import CONTAINERS, ContainerTracers, attribute, part, reference

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


class HeldTracers:
    """The tracers that a variable held at one line.

    Classes of the user's say what their PyTrees and keys are, and whether these are equal: what
    they raise, methods raise.

    Args:
        value: The variable's value.
        log: The changes of containers so far.

    Attributes:
        is_fixed: Whether the variable holds the same tracers until it is bound again.
        is_large: Whether there are so many leaves that they are not compared without a reason.
        handed: The variables that held the same, or a part of it, in functions that this one was
            handed to, by the places of these.
    """

    __slots__ = (
        "_at",
        "_contents",
        "_flatten",
        "_is_known",
        "_itself",
        "_leaves",
        "_seen",
        "_size",
        "_structure",
        "_whole",
        "handed",
        "is_large",
    )

    def __init__(self, value: object, log: Log) -> None:
        self.handed: dict[Any, Any] = {}
        self._hold(value, log)

    def _hold(self, value: object, log: Log) -> None:
        self._at: dict[str, Callable[[], Any]] = {}
        self._itself: Callable[[], Any] | None = None  # where the leaves need no look
        self._contents: ContainerTracers | None = None
        self._leaves: list[Callable[[], Any] | None] = []
        self._is_known = False  # whether these are all leaves
        self._seen = log.length
        self.is_large = False
        self._whole: Callable[[], Any] | None = None  # of a large one
        self._size = 0
        if is_tracer(value):
            self._itself = self._at[""] = weakref.ref(value)
            return
        contents = self._remember(value)
        self.is_large = len(self._leaves) > _MANY
        if self.is_large:
            self._whole, self._size = reference(value), _size(value)
        if len(self._leaves) > _MOST:
            self._itself, self._leaves = lambda: value, []
            return
        looked_into = type(value) in CONTAINERS or contents is not value
        container = container_of(value) if looked_into and self.is_large else None
        if container is not None:
            known = ContainerTracers(container, _is_leaf, part if contents is value else attribute)
            self._contents = None if known.others else known
        if self._contents is None and any(self._leaves):
            paths = _paths(self._structure, _key if contents is value else _attribute)
            pairs = zip(paths, self._leaves, strict=True)
            self._at = {path: one for path, one in pairs if one is not None}
        if _is_frozen(type(value)):
            self._itself = weakref.ref(value)

    @property
    def is_fixed(self) -> bool:
        return self._itself is not None

    def changes(self, value: object, log: Log) -> list[tuple[str, Any]] | None:
        """The tracers that have come into a value since somebody looked last.

        None where it is to be held anew, since it is another one, say.

        Args:
            value: The variable's value now.
            log: The changes of containers so far.
        """
        if self._itself is not None:
            return [] if self._itself() is value else None
        if self._contents is None:
            return self._compared(value, log)
        if container_of(value) is not self._contents.container:
            return None
        contents = self._contents
        found = self._within(contents, value, log)
        if contents.others or not _MANY < contents.leaves <= _MOST:
            known = {path for path, _ in contents.tracers()}
            self._hold(value, log)
            if contents.leaves > _MOST:
                return []
            found += [(path, one) for path, one in self.tracers() if path not in known]
        return found

    def _compared(self, value: object, log: Log) -> list[tuple[str, Any]] | None:
        is_itself = self._is(value)
        # A library may give an object another attribute where it is asked for one.
        if is_itself and log.since(self._seen) == [] and self._size == _size(value):
            return []
        self._seen = log.length
        if self._is_same(value):
            return []
        if not is_itself:
            return None
        before = dict(self.tracers())
        self._hold(value, log)
        return [(path, one) for path, one in self.tracers() if one is not before.get(path)]

    def _is(self, value: object) -> bool:
        return self._whole is not None and self._whole() is value

    def holds(self, value: object) -> bool:
        """Whether it is large, and a value is it itself or surely one of the containers in it."""
        if self._contents is not None:
            return self._contents.has(id(container_of(value)))
        return self._is(value)

    def _within(self, contents: ContainerTracers, value: object, log: Log) -> list[tuple[str, Any]]:
        places, self._seen = log.since(self._seen), log.length
        if places is not None:
            places = [place for place in places if contents.has(place[0])]
            if not places:  # an object may have other attributes all the same
                return [] if contents.container is value else contents.changed(deep=False)
        if places is not None and len({container for container, _ in places}) == 1:
            self._is_known = False
            return contents.stored(places[0][0], {key for _, key in places})
        if self._is_known and self._is_same(value):
            return []
        self._is_known = False
        if not (found := contents.changed()):
            self._remember(value)
        return found

    def _remember(self, value: object) -> Any:
        """Note the leaves of a value; what they are in: itself, or a dict of its attributes."""
        contents, leaves, self._structure = _contents(value, _flat)
        # A large tree is looked at before each line: without a function of Python for each leaf.
        self._flatten = _flat if any(map(_is_iterator, leaves)) else jax.tree_util.tree_flatten
        self._leaves = [weakref.ref(one) if is_tracer(one) else None for one in leaves]
        self._is_known = True
        return contents

    def _is_same(self, value: object) -> bool:
        """Whether a value has the same tracers at the same places."""
        _, leaves, structure = _contents(value, self._flatten)
        if structure != self._structure:
            return False
        held = [None if one is None else one() for one in self._leaves]
        if all(map(operator.is_, held, leaves)):
            return True
        return all(map(_is_same, self._leaves, leaves))

    def tracers(self) -> Iterator[tuple[str, Any]]:
        """The tracers, with their paths."""
        if self._contents is not None:
            return self._contents.tracers()
        return ((path, one()) for path, one in self._at.items())

    def unlike(self, before: HeldTracers | None) -> Iterator[tuple[str, Any]]:
        """The tracers that were not held before, with their paths."""
        known = dict(before.tracers()) if before is not None else {}
        for path, tracer in self.tracers():
            if path not in known or known[path] is not tracer:
                yield path, tracer


@functools.lru_cache(maxsize=512)
def _paths(structure: Any, written: Callable[[tuple[Any, ...]], str]) -> list[str]:
    tree = jax.tree.unflatten(structure, range(structure.num_leaves))
    return [written(path) for path, _ in _trees.tree_flatten_with_path(tree)[0]]


def _contents(
    value: object, flatten: Callable[[Any], tuple[list[Any], Any]]
) -> tuple[Any, list[Any], Any]:
    """The attributes of an object by name, a PyTree itself; its leaves and structure."""
    leaves, structure = flatten(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return value, leaves, structure
    slots, attributes = _slots(type(value)), dict[str, Any]()
    try:
        attributes.update(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError, ValueError):
        if not slots:
            return (), [], None
    for name in slots:
        with contextlib.suppress(AttributeError):  # nothing is in it
            attributes[name] = object.__getattribute__(value, name)
    return attributes, *flatten(attributes)


@functools.lru_cache(maxsize=4096)
def _slots(kind: type) -> tuple[str, ...]:
    """The attributes that objects of a class keep in slots, as `attrs.define` has them."""
    found: list[str] = []
    for one in kind.__mro__:
        names: Any = vars(one).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{one.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def _flat(contents: Any) -> tuple[list[Any], Any]:
    return jax.tree.flatten(contents, is_leaf=_is_iterator)


def _is_iterator(value: object) -> bool:
    return _of_iterators(type(value))


@functools.lru_cache(maxsize=4096)
def _of_iterators(kind: type) -> bool:
    """Whether values of a class are leaves that make JAX warn."""
    return issubclass(kind, (Iterator, ValuesView))


def is_tracer(value: object) -> bool:
    """Whether JAX traces a value."""
    return _compat.is_tracer_type(type(value))


def container_of(value: object) -> Any:
    """The holder of elements: a value itself, or an object's attributes; None of others."""
    if type(value) in CONTAINERS:
        return value
    if _slots(type(value)):
        return None
    try:
        return object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return None


def _size(value: object) -> int:
    """The number of elements or attributes."""
    return len(container_of(value) or ())


def _is_leaf(value: object) -> bool:
    """Whether an element of a container is a leaf; no tracers are looked for inside of it."""
    if is_tracer(value) or holds_none(value):
        return True
    return _trees.all_leaves((value,), is_leaf=_is_iterator)


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
