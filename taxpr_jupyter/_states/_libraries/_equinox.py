"""Make calls with modules of equinox pure, with or without an `eqx.nn.State`."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.code import taking
from taxpr_jupyter._states.model import PureCall, PureCode, like
from taxpr_jupyter._states.objects import dotted, is_traceable, taken, unique
from taxpr_jupyter._states.passed import written

_TWICE = (
    "This function returns an eqx.nn.State of equinox more often than it takes it, so its value in "
    "the end cannot be said. Return each State once"
)


def pure_call(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """Make a call pure that takes modules, or takes and returns an `eqx.nn.State`.

    Leaves of modules that are no arrays are closed over, as by `eqx.partition`. Each State is taken
    out of the arguments and out of the result, where None replaces it.

    Raises:
        PanelError: If the result has a state twice.
        Exception: Any error of the function itself.
    """
    out = taken(fun, args, kwargs, _is_state)
    given = (out.args, out.kwargs)
    modules = [x for x in jax.tree.leaves(given, is_leaf=_is_module) if _is_module(x)]
    if not out.objects and all(map(is_traceable, jax.tree.leaves(modules))):
        return None
    given, rest = eqx.partition(given, jax.tree.map(_is_traced, given, is_leaf=_is_module))
    names = _names(out.objects, [fun, *modules])
    states = {
        name: value
        for label, state in out.objects.items()
        for name, value in zip(names[label], _children(state), strict=True)
    }
    results: dict[int, list[str]] = {}

    @like(fun)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        objects = {
            label: jax.tree.unflatten(
                jax.tree.structure(state, is_leaf=lambda x, own=state: x is not own),
                [values[name] for name in names[label]],
            )
            for label, state in out.objects.items()
        }
        own, words = eqx.combine(out.put(objects, args, kwargs), rest, is_leaf=_is_state)
        leaves, tree = jax.tree.flatten(fun(*own, **words), is_leaf=_is_state)
        found = _matched(leaves, out.objects, names, values)
        results.update(found)
        after = dict(values)
        for place, its in found.items():
            after |= zip(its, _children(leaves[place]), strict=True)
            leaves[place] = None
        return eqx.filter(jax.tree.unflatten(tree, leaves), eqx.is_array_like), after

    jaxpr = taxpr.trace(pure)(states, *given[0], **given[1]).jaxpr
    return PureCall(
        fun=pure,
        states=states,
        written=written(jaxpr, states),
        args=given[0],
        kwargs=given[1],
        library="equinox",
        code=lambda: _code(out.places, names, results),
    )


def _is_state(x: Any) -> bool:
    return isinstance(x, eqx.nn.State)


def _is_index(x: Any) -> bool:
    return isinstance(x, eqx.nn.StateIndex)


def _is_module(x: Any) -> bool:
    return isinstance(x, eqx.Module)


def _is_traced(x: Any) -> Any:
    """The filter for traced leaves: the arrays of modules, and everything else."""
    if not _is_module(x):
        return True
    return jax.tree.map(lambda x: eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct), x)


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
            raise PanelError(_TWICE)
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
