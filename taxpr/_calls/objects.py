"""Take objects with states out of the arguments of a call, and put them back."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr._calls.model import is_held
from taxpr._calls.static import is_static
from taxpr._untyped import tree_util as _keys


@dataclasses.dataclass(frozen=True)
class Apart:
    """The arguments of a call without the objects that were among them.

    Attributes:
        objects: Each object once, by the name of its argument.
        args: The positional arguments, with None in the place of each object.
        kwargs: The keyword arguments, likewise.
        places: The object at each leaf index of ``(args, kwargs)``; None and static values count as
            leaves.
    """

    objects: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    places: Mapping[int, str]

    def put(self, objects: Mapping[str, Any], args: Any, kwargs: Any) -> Any:
        """``(args, kwargs)`` with objects in place of the None or `Held` that is there now."""
        at = {place: objects[label] for place, label in self.places.items()}
        return _with((tuple(args), dict(kwargs)), at)

    def put_at(self, values: Mapping[int, Any]) -> Any:
        """``(args, kwargs)`` with values in places of objects."""
        return _with((self.args, dict(self.kwargs)), values)


def apart(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    is_object: Callable[[Any], bool],
) -> Apart:
    """Take all objects, each a whole subtree, out of the arguments of a call.

    An object that occurs twice gets one name.

    Example:
        >>> out = apart(lambda model, x: x, (["a", "b"], 1.0), {}, lambda x: isinstance(x, str))
        >>> out.args, dict(out.objects)
        (([None, None], 1.0), {'model.0': 'a', 'model.1': 'b'})
        >>> out.put({"model.0": "c", "model.1": "d"}, ([None, None], 2.0), {})
        ((['c', 'd'], 2.0), {})
    """

    def is_whole(x: Any) -> bool:
        return _is_place(x) or is_object(x)

    found, tree = _keys.tree_flatten_with_path((tuple(args), dict(kwargs)), is_leaf=is_whole)
    names: Any = argument_names(fun, len(args))
    objects: dict[str, Any] = {}
    labels: dict[int, str] = {}
    places: dict[int, str] = {}
    leaves: list[Any] = []
    for place, (given, leaf) in enumerate(found):
        path: Any = given
        if is_object(leaf):
            first: str = names[path[1].idx] if path[0].idx == 0 else path[1].key
            label = f"{first}.{dotted(path[2:])}" if path[2:] else first
            label = labels.setdefault(id(leaf), label)
            objects[label] = leaf
            places[place] = label
        leaves.append(None if is_object(leaf) else leaf)
    rest, words = jax.tree.unflatten(tree, leaves)
    return Apart(objects, rest, words, places)


def dotted(path: Sequence[Any]) -> str:
    """A path in a PyTree: ``layers.0.weight``."""
    return _keys.keystr(tuple(path), simple=True, separator=".")


def unique(names: Sequence[str]) -> list[str]:
    """Make names unique by a number after repeated ones.

    Example:
        >>> unique(["a", "b", "a"])
        ['a', 'b', 'a_1']
    """
    out: list[str] = []
    for name in names:
        number, free = 0, name
        while free in out or (number and free in names):
            number += 1
            free = f"{name}_{number}"
        out.append(free)
    return out


def _is_place(x: Any) -> bool:
    return x is None or is_held(x) or is_static(x)


def _with(tree: Any, values: Mapping[int, Any]) -> Any:
    leaves, structure = jax.tree.flatten(tree, is_leaf=_is_place)
    for place, value in values.items():
        leaves[place] = value
    return jax.tree.unflatten(structure, leaves)


def parameters_of(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function; an empty list if unknown, as for some builtins."""
    try:
        return list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return []


def argument_names(fun: Callable[..., Any], positional: int) -> list[str]:
    """A name for each positional argument."""
    parameters = parameters_of(fun)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    return [*names, *(f"{rest}{k}" for k in range(positional))][:positional]
