"""Objects among the arguments whose arrays a function changes in place."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

from taxpr._calls.checked import Checked, Merge, Objects, Split, Update
from taxpr._calls.libraries import Library
from taxpr._calls.model import Held, Opened, PureCode, States, Taken, Unbound, is_held, like
from taxpr._calls.objects import Apart, apart
from taxpr._calls.static import run
from taxpr._calls.unbound import unbind
from taxpr._compat import PyTree


class _Ways(NamedTuple):
    """The functions given to `objects`."""

    name: str
    is_object: Callable[[Any], bool]
    split: Split
    merge: Merge
    update: Update
    grows: Callable[[Objects], frozenset[tuple[str, str]]] | None
    code: Callable[[Apart, int], PureCode] | None


def objects(
    name: str,
    kinds: type | tuple[type, ...],
    split: Split,
    merge: Merge,
    update: Update,
    *,
    grows: Callable[[Objects], frozenset[tuple[str, str]]] | None = None,
    told: Callable[[Exception], Exception | None] | None = None,
    code: Callable[[Apart, int], PureCode] | None = None,
) -> Library:
    """A library whose objects, among the arguments, hold arrays that functions change in place.

    Objects are given and returned in a dict by the names of their arguments, all at once, since
    they may share parts. An array that several share has a name in one of them only.

    Args:
        name: The name of the library.
        kinds: The classes of the objects. An object inside another one belongs to it.
        split: ``(objects) -> (static, states)``: the rest of the objects, compared by ``==``; and
            the arrays of each object, or PyTrees of them, by name.
        merge: ``(static, states) -> objects``: makes objects anew.
        update: ``(objects, states) -> None``: sets arrays of objects; those left out stay.
        grows: ``(objects) -> {(object, name)}``: the arrays that grow with each call.
        told: As for `Library`.
        code: Python source that makes a function pure, for `Session.code`.

    Returns:
        A `Library`, for `taxpr.register_library`.

    Example:
        >>> import taxpr
        >>> class Box:
        ...     def __init__(self, x):
        ...         self.set(x)
        ...     def set(self, x):
        ...         self.x = x
        >>> library = taxpr.libraries.objects(
        ...     "boxes",
        ...     Box,
        ...     lambda boxes: (None, {label: {"x": box.x} for label, box in boxes.items()}),
        ...     lambda static, states: {label: Box(**one) for label, one in states.items()},
        ...     lambda boxes, states: [boxes[label].set(**one) for label, one in states.items()],
        ... )
    """
    own = Checked(name, kinds, split, merge, update)
    is_object = own.is_object
    ways = _Ways(name, is_object, own.split, own.merge, own.update, grows, code)

    def open_objects(
        fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Opened | None:
        unbound = unbind(fun, is_object)
        found = apart(unbound.fun, (*unbound.args, *args), kwargs, is_object)
        return _Call(ways, unbound, found).opened() if found.objects else None

    made = Library(open_objects, is_object)
    return made if told is None else dataclasses.replace(made, told=told)


class _Call:
    """A function, and the first call of it."""

    def __init__(self, ways: _Ways, unbound: Unbound, first: Apart) -> None:
        self._ways, self._unbound, self._first = ways, unbound, first
        self._n_bound = len(unbound.args)
        self._static, _ = ways.split(first.objects)
        self._lost: list[str] = []

    def opened(self) -> Opened:
        ways, first, n = self._ways, self._first, self._n_bound
        code = ways.code
        return Opened(
            fun=like(self._unbound.fun)(self._run),
            take=self._take,
            first=self._taken(first),
            library=ways.name,
            lost=self._lost,
            grows=ways.grows(first.objects) if ways.grows else frozenset(),
            bound=self._unbound if n else None,
            code=(lambda: code(first, n)) if code else PureCode,
        )

    def _take(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Taken:
        bound = self._unbound
        every = (*bound.args, *args)
        return self._taken(apart(bound.fun, every, kwargs, self._ways.is_object))

    def _taken(self, found: Apart) -> Taken:
        static, states = self._ways.split(found.objects)
        held: dict[str, Any] = {k: Held(k, states.get(k, {})) for k in found.objects}
        # The second place of an object has None.
        args, kwargs = found.put_at({at: held.pop(k, None) for at, k in found.places.items()})
        n = self._n_bound
        bound: list[Any] = jax.tree.leaves(args[:n], is_leaf=is_held)
        hidden = tuple(filter(is_held, bound))
        update, own = self._ways.update, found.objects
        return Taken((hidden, *args[n:]), kwargs, (found.places, static), lambda s: update(own, s))

    def _run(self, hidden: tuple[Held, ...], *args: Any, **kwargs: Any) -> tuple[PyTree, States]:
        before = Taken((hidden, *args), kwargs).states()
        inside = self._ways.merge(self._static, before)
        first = self._first
        own, words = first.put(inside, (*first.args[: self._n_bound], *args), kwargs)
        out = run(self._unbound.fun, own, words)
        static, after = self._ways.split(inside)
        self._lost[:] = _lost(before, after, static == self._static)
        changed = {
            label: {name: x for name, x in after[label].items() if _is_new(x, name, arrays)}
            for label, arrays in before.items()
        }
        return out, {label: arrays for label, arrays in changed.items() if arrays}


def _is_new(x: PyTree, name: str, before: Mapping[str, PyTree]) -> bool:
    """Whether an object's array of this name has been replaced."""
    if name not in before:
        return False
    (old, tree), (now, after) = jax.tree.flatten(before[name]), jax.tree.flatten(x)
    return tree != after or any(a is not b for a, b in zip(old, now, strict=True))


def _lost(before: States, after: States, same: bool) -> list[str]:
    """In words, the changes of objects other than new values of arrays."""
    names = [
        {f"{k}.{name}" for k, arrays in one.items() for name in arrays} for one in (before, after)
    ]
    made, gone = (sorted(names[1] - names[0]), sorted(names[0] - names[1]))
    found = [f"makes {', '.join(made)}"] if made else []
    found += [f"removes {', '.join(gone)}"] if gone else []
    if not (same or found):
        found = [f"changes something of {' or '.join(before)} that is no array"]
    return found
