"""Take objects with state out of the arguments of a call, and put them back."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Taken:
    """The arguments of a call without the objects that were among them.

    Attributes:
        objects: Each object once, by the name of its argument.
        args: The positional arguments, with None in the place of each object.
        kwargs: The keyword arguments, likewise.
        places: The object at each leaf index of ``(args, kwargs)``; None counts as a leaf.
    """

    objects: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    places: Mapping[int, str]

    def put(self, objects: Mapping[str, Any], args: Any, kwargs: Any) -> Any:
        """``(args, kwargs)`` with objects in their places."""
        leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)), is_leaf=_is_none)
        for place, label in self.places.items():
            leaves[place] = objects[label]
        return jax.tree.unflatten(tree, leaves)


def taken(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    is_object: Callable[[Any], bool],
) -> Taken:
    """Take all objects, each a whole subtree, out of the arguments of a call.

    One that occurs twice gets one name.

    Example:
        >>> out = taken(lambda model, x: x, (["a", "b"], 1.0), {}, lambda x: isinstance(x, str))
        >>> out.args, dict(out.objects)
        (([None, None], 1.0), {'model.0': 'a', 'model.1': 'b'})
        >>> out.put({"model.0": "c", "model.1": "d"}, ([None, None], 2.0), {})
        ((['c', 'd'], 2.0), {})
    """
    found, tree = jax.tree_util.tree_flatten_with_path(
        (tuple(args), dict(kwargs)), is_leaf=lambda x: x is None or is_object(x)
    )
    names = argument_names(fun, len(args))
    objects: dict[str, Any] = {}
    labels: dict[int, str] = {}
    places: dict[int, str] = {}
    leaves = []
    for place, (path, leaf) in enumerate(found):
        if is_object(leaf):
            first = names[path[1].idx] if path[0].idx == 0 else path[1].key
            label = ".".join([first, *(dotted(path[2:]).split(".") if path[2:] else ())])
            label = labels.setdefault(id(leaf), label)
            objects[label] = leaf
            places[place] = label
        leaves.append(None if is_object(leaf) else leaf)
    rest, words = jax.tree.unflatten(tree, leaves)
    return Taken(objects, rest, words, places)


def dotted(path: Sequence[Any]) -> str:
    """A path in a PyTree: ``layers.0.weight``."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator=".")


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


def traceable(args: Any, kwargs: Any) -> bool:
    """Whether JAX can trace all arguments."""
    return all(map(is_traceable, jax.tree.leaves((tuple(args), dict(kwargs)))))


def is_traceable(leaf: Any) -> bool:
    """Whether a leaf is an array, a number, or a `jax.ShapeDtypeStruct`."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return True
    try:
        jax.typeof(leaf)
    except TypeError:
        return False
    return True


def _is_none(x: Any) -> bool:
    return x is None


def parameters_of(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function; none where they are not known, as of some builtins."""
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
