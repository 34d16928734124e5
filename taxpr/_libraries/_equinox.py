"""Modules of equinox, whose Python scalars are static; and its `eqx.nn.State`, for pictures."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from taxpr._calls.code import taking
from taxpr._calls.libraries import Library
from taxpr._calls.model import Held, Opened, PureCode, Taken, like
from taxpr._calls.objects import apart, dotted, unique
from taxpr._calls.static import run
from taxpr._errors import RefusedError

_TWICE = (
    "This function returns an eqx.nn.State of equinox more often than it takes it, so its value in "
    "the end cannot be said. Return each State once"
)


def _open(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Opened | None:
    """A call that takes and returns an `eqx.nn.State`.

    Each State is taken out of the arguments and out of the result, where None replaces it.

    Raises:
        RefusedError: If the result has a state twice.
        Exception: Any error of the function itself.
    """
    first = apart(fun, args, kwargs, _is_state)
    if not first.objects:
        return None
    given = jax.tree.leaves((first.args, first.kwargs), is_leaf=_is_module)
    names = _names(first.objects, [fun, *filter(_is_module, given)])
    results: dict[int, list[str]] = {}

    @like(fun)
    def pure(hidden: tuple[Held], *args: Any, **kwargs: Any) -> Any:
        values = hidden[0].values
        objects = {
            label: jax.tree.unflatten(
                jax.tree.structure(state, is_leaf=lambda x, own=state: x is not own),
                [values[name] for name in names[label]],
            )
            for label, state in first.objects.items()
        }
        own, words = first.put(objects, args, kwargs)
        leaves, tree = jax.tree.flatten(run(fun, own, words), is_leaf=_is_state)
        found = _matched(leaves, first.objects, names, values)
        results.update(found)
        after: dict[str, Any] = {}
        for place, its in found.items():
            after |= zip(its, _children(leaves[place]), strict=True)
            leaves[place] = None
        return jax.tree.unflatten(tree, leaves), {"": after}

    def take(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Taken:
        found = apart(fun, args, kwargs, _is_state)
        states = {
            name: value
            for label, state in found.objects.items()
            for name, value in zip(names[label], _children(state), strict=True)
        }
        return Taken(((Held("", states),), *found.args), found.kwargs)

    return Opened(
        fun=pure,
        take=take,
        first=take(args, kwargs),
        library="equinox",
        code=lambda: _code(first.places, names, results),
        of_pictures=True,
    )


def _is_state(x: Any) -> bool:
    return isinstance(x, eqx.nn.State)


def _is_index(x: Any) -> bool:
    return isinstance(x, eqx.nn.StateIndex)


def _is_module(x: Any) -> bool:
    return isinstance(x, eqx.Module)


def _children(state: Any) -> list[Any]:
    """The values in a State, each whole."""
    return jax.tree.leaves(state, is_leaf=lambda x: x is not state)


def _markers(state: Any) -> tuple[Any, ...]:
    return state.tree_flatten()[1]


def _names(objects: Mapping[str, Any], models: Sequence[Any]) -> dict[str, list[str]]:
    """For each State, the names of its values: the paths of their `eqx.nn.StateIndex`.

    `eqx.nn.make_with_state` stores these paths in the State, after the name of the model.
    """
    known = {
        leaf.marker: dotted(path)
        for model in models
        for path, leaf in jax.tree_util.tree_flatten_with_path(model, is_leaf=_is_index)[0]
        if _is_index(leaf) and path
    }
    found = {}
    for label, state in objects.items():
        own = []
        for marker in _markers(state):
            if isinstance(marker, str):
                name = re.sub(r"[\[\].']+", ".", re.sub(r"^\w*", "", marker)).strip(".") or marker
            else:
                name = known.get(marker, "state")
            own.append(f"{label}.{name}" if len(objects) > 1 else name)
        found[label] = unique(own)
    return found


def _matched(
    leaves: Sequence[Any],
    objects: Mapping[str, Any],
    names: Mapping[str, Sequence[str]],
    values: Mapping[str, Any],
) -> dict[int, list[str]]:
    """For each leaf of the result that is a State of the arguments, the names of its values.

    A State whose values have other shapes, such as a stacked one, is an ordinary result.
    """
    found: dict[int, list[str]] = {}
    taken: set[str] = set()
    for place, leaf in enumerate(leaves):
        if not _is_state(leaf):
            continue
        own = _markers(leaf)
        same = [label for label, state in objects.items() if set(own) <= set(_markers(state))]
        if not same:
            continue
        label = next((label for label in same if label not in taken), None)
        if label is None:
            raise RefusedError(_TWICE)
        its = [dict(zip(_markers(objects[label]), names[label], strict=True))[one] for one in own]
        if all(
            _types(value) == _types(values[name])
            for name, value in zip(its, _children(leaf), strict=True)
        ):
            taken.add(label)
            found[place] = its
    return found


def _types(value: Any) -> Any:
    leaves, tree = jax.tree.flatten(value)
    return tree, [(jnp.shape(x), jnp.result_type(x)) for x in leaves]


_CODE = """
def is_module(x):
    return isinstance(x, eqx.Module)

def is_traced(x):
    return jax.tree.map(eqx.is_array, x) if is_module(x) else True

def values(state):
    return jax.tree.leaves(state, is_leaf=lambda x: x is not state)

rest, static = eqx.partition(rest, jax.tree.map(is_traced, rest, is_leaf=is_module))
names = {names!r}
results = {results!r}
states = {{
    name: value
    for key, state in objects.items()
    for name, value in zip(names[key], values(state))
}}

def pure(states, *args, **kwargs):
    new = {{}}
    for key, state in objects.items():
        tree = jax.tree.structure(state, is_leaf=lambda x: x is not state)
        new[key] = jax.tree.unflatten(tree, [states[name] for name in names[key]])
    args, kwargs = eqx.combine(put(new, args, kwargs), static, is_leaf=is_object)
    leaves, tree = jax.tree.flatten(fun(*args, **kwargs), is_leaf=is_object)
    after = dict(states)
    for place, own in results.items():
        after |= zip(own, values(leaves[place]))
        leaves[place] = None
    return eqx.filter(jax.tree.unflatten(tree, leaves), eqx.is_array_like), after
"""


def _code(
    places: Mapping[int, str],
    names: Mapping[str, Sequence[str]],
    results: Mapping[int, Sequence[str]],
) -> PureCode:
    body = taking("eqx.nn.State", places)
    body += _CODE.format(names=dict(names), results=dict(results)).lstrip("\n")
    return PureCode(body, {"eqx": "equinox"})


_JITTED = type(eqx.filter_jit(lambda: None))


def _takes_numbers(fun: Any) -> bool:
    """Whether `eqx.filter_jit` has made a function, or one that it wraps."""
    while fun is not None and not isinstance(fun, _JITTED):
        fun = getattr(fun, "func", None) or getattr(fun, "__wrapped__", None)
    return fun is not None


LIBRARY = Library(
    _open,
    keeps_numbers=_is_module,
    takes_numbers=_takes_numbers,
    checkpoint=("eqx.filter_checkpoint", eqx.filter_checkpoint),
)
