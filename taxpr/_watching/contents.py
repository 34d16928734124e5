"""The tracers in lists, tuples and dicts; only changed places are looked at again.

A list that a Python loop appends to gets as long as the program. If the changed place is known,
only that one is looked at; else all are, without a Python function for each.
"""

import itertools
import operator
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from taxpr import _compat

CONTAINERS = (list, tuple, dict)  # of these very classes
SOMEWHERE: Any = object()  # in the place of a key that is not known
_NOTHING = object()


class ContainerTracers:
    """The tracers in a container and in those within it, by path.

    Args:
        container: A list, tuple or dict, or the attributes of an object.
        is_leaf: Whether an element of another class is a leaf, which holds no tracer.
        root: Writes a key of this container at the beginning of a path.

    Attributes:
        leaves: How many there are.
        others: Whether elements were found that are neither containers of these classes nor leaves.
    """

    def __init__(
        self,
        container: Any,
        is_leaf: Callable[[Any], bool],
        root: Callable[[Any], str],
    ) -> None:
        self.leaves, self.others = 0, False
        self.is_leaf = is_leaf
        self.nodes: dict[int, list[_Node]] = defaultdict(list)
        self._root = _Node(self, container, "", root)

    @property
    def container(self) -> Any:
        """The one that holds all the others."""
        return self._root.container

    def tracers(self) -> Iterator[tuple[str, Any]]:
        """All of them, with their paths."""
        return self._root.tracers()

    def changed(self, deep: bool = True) -> list[tuple[str, Any]]:
        """The tracers that were not at their paths when somebody looked last.

        Args:
            deep: Whether to look into the containers in this one, too.
        """
        return self._root.changed(deep)

    def has(self, container: int) -> bool:
        """Whether the container with this `id` is among these."""
        return container in self.nodes

    def stored(self, container: int, keys: set[Any]) -> list[tuple[str, Any]]:
        """The same where places of one container may have changed, and nothing else."""
        nodes = list(self.nodes[container])
        return [row for node in nodes for row in node.stored(keys)]


class _Node:
    """One container.

    Attributes:
        container: Itself; while it is held here, no other one gets its `id`.
        fixed: Whether it always holds the same, as a tuple of tracers.
    """

    __slots__ = ("_all", "_held", "_inner", "_path", "_written", "container", "fixed")

    def __init__(
        self, everything: ContainerTracers, container: Any, path: str, written: Callable[[Any], str]
    ) -> None:
        self._all, self._path, self._written = everything, path, written
        self.container = container
        # What gives the element that was at a key; tracers and arrays are held weakly.
        self._held: Any = {} if _is_dict(container) else []
        self._inner: dict[Any, _Node] = {}
        everything.nodes[id(container)].append(self)
        for key in sorted(container) if _is_dict(container) else range(len(container)):
            self._put(key, container[key])
        inner = self._inner.values()
        self.fixed = type(container) is tuple and all(node.fixed for node in inner)

    def tracers(self) -> Iterator[tuple[str, Any]]:
        for key in sorted(self._held) if _is_dict(self._held) else range(len(self._held)):
            if (inner := self._inner.get(key)) is not None:
                yield from inner.tracers()
            elif _compat.is_tracer(one := self._held[key]()):
                yield self._at(key), one

    def changed(self, deep: bool) -> list[tuple[str, Any]]:
        now, held = self.container, self._held
        before: Iterator[Any]
        keys: list[Any]
        if _is_dict(now):
            was: Iterator[Any] = map(held.get, now, itertools.repeat(_absent))
            before = map(operator.call, was)
            keys = list(itertools.compress(now, map(operator.is_not, before, now.values())))
        else:
            before = map(operator.call, held)
            keys = list(itertools.compress(itertools.count(), map(operator.is_not, before, now)))
            keys += range(len(held), len(now))
        if deep:
            open_ones = [key for key, node in self._inner.items() if not node.fixed]
            keys += [key for key in open_ones if (key in now if _is_dict(now) else key < len(now))]
        found = self._look(keys) if keys else []
        if len(held) > len(now):
            gone = held.keys() - now.keys() if _is_dict(now) else range(len(now), len(held))
            for key in sorted(gone, reverse=True):
                self._forget(key)
                del held[key]
        return found

    def stored(self, keys: set[Any]) -> list[tuple[str, Any]]:
        now, held = self.container, self._held
        if SOMEWHERE in keys:
            if len(keys) > 1 or not _is_dict(now) or len(now) != len(held) + 1:
                return self.changed(deep=False)
            keys = {next(reversed(now))}  # where a new one is
        if len(now) - len(held) != sum(_has(now, key) - _has(held, key) for key in keys):
            return self.changed(deep=False)  # more places have changed
        there = [key for key in keys if _has(now, key)]
        changed = [key for key in there if not _has(held, key) or held[key]() is not now[key]]
        return self._look(changed) if changed else []

    def _look(self, keys: list[Any]) -> list[tuple[str, Any]]:
        """The contents that are new at these keys."""
        now, found = self.container, list[tuple[str, Any]]()
        for key in self._in_order(keys):
            element, inner = now[key] if _is_dict(now) or key < len(now) else _NOTHING, None
            if element is _NOTHING:
                continue
            if (inner := self._inner.get(key)) is not None and inner.container is element:
                found += inner.changed(deep=True)
                continue
            before = dict(inner.tracers()) if inner is not None else {}
            self._forget(key)
            self._put(key, element)
            if (inner := self._inner.get(key)) is not None:
                found += [(at, one) for at, one in inner.tracers() if one is not before.get(at)]
            elif _compat.is_tracer(element):
                found.append((self._at(key), element))
        return found

    def _in_order(self, keys: list[Any]) -> Iterable[Any]:
        """As `jax.tree.leaves` has them; it raises where the keys of a dict have no order."""
        if _is_dict(self._held):
            kinds: set[Any] = {type(key) for key in (*keys, *itertools.islice(self._held, 1))}
            if len(kinds) > 1 or not kinds <= {int, str}:
                sorted(self.container)
        return sorted(set(keys)) if len(keys) > 1 else keys

    def _put(self, key: Any, element: Any) -> None:
        if type(element) in CONTAINERS:
            self._inner[key] = _Node(self._all, element, self._at(key), part)
        else:
            self._all.leaves += 1
            self._all.others = self._all.others or not self._all.is_leaf(element)
        if not _is_dict(self._held) and key == len(self._held):
            self._held.append(reference(element))
        else:
            self._held[key] = reference(element)

    def _forget(self, key: Any) -> None:
        if (inner := self._inner.pop(key, None)) is not None:
            inner.leave()
        elif _has(self._held, key):
            self._all.leaves -= 1

    def leave(self) -> None:
        """To be called where it is no longer in the others."""
        nodes = self._all.nodes[id(self.container)]
        nodes.remove(self)
        if not nodes:
            del self._all.nodes[id(self.container)]
        for inner in self._inner.values():
            inner.leave()
        self._all.leaves -= len(self._held) - len(self._inner)

    def _at(self, key: Any) -> str:
        return self._path + self._written(key)


def _is_dict(value: Any) -> bool:
    return type(value) is dict


def _has(container: Any, key: Any) -> bool:
    return key in container if _is_dict(container) else key < len(container)


def part(key: Any) -> str:
    """A key as paths have it."""
    return f"[{key!r}]"


def attribute(key: Any) -> str:
    """The name of an attribute as paths have it."""
    return f".{key}"


def _absent() -> object:
    return _NOTHING


def reference(element: Any) -> Callable[[], Any]:
    """Gives a value, which it holds weakly if that is possible, and it is no container."""
    if type(element) not in CONTAINERS:
        try:
            return weakref.ref(element)
        except TypeError:  # a number, say
            pass
    return lambda: element
