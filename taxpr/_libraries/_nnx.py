"""Objects of flax nnx, which hold their arrays in Variables."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import flax
from flax import nnx
from flax.errors import TraceContextError

from taxpr._calls.code import taking
from taxpr._calls.in_place import objects
from taxpr._calls.model import PureCode, States
from taxpr._calls.objects import Apart
from taxpr._errors import RefusedError

_CLOSED_OVER = (
    "This function changes a module or a Variable of flax nnx that is not among its arguments, "
    "which nnx allows in no transformation. Make it an argument, as nnx.jit would need it, too: "
    "`f(model, x)`. nnx says: {error}"
)
_TOO_OLD = (
    "States of flax nnx cannot be taken from flax {version}, which has no nnx.Variable.ref. "
    "Install flax 0.12.4 or newer; or give the function the state of nnx.split, and call "
    "nnx.merge in it"
)
_REFS = (
    "{name} of flax nnx holds a jax.Ref, which cannot be taken out of its module. Give the "
    "function a model without: nnx.with_vars(model, ref=False)"
)


class _Graph:
    """All of objects but their arrays; `nnx.merge` needs a state of that kind."""

    def __init__(self, graph: Any, state: Any) -> None:
        self.graph, self.state = graph, state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Graph) and self.graph == other.graph


def _split(given: Mapping[str, Any]) -> tuple[_Graph, States]:
    if not hasattr(nnx.Variable, "ref"):
        raise RefusedError(_TOO_OLD.format(version=flax.__version__))
    graph, state = nnx.split(dict(given))
    states: dict[str, dict[str, Any]] = {label: {} for label in given}
    for path, leaf in nnx.to_flat_state(state):
        label, name = _name(path)
        if isinstance(leaf, nnx.Variable) and leaf.ref:
            raise RefusedError(_REFS.format(name=name or label))
        is_variable = isinstance(leaf, nnx.Variable)
        states[label][name] = leaf.get_value() if is_variable else leaf
    return _Graph(graph, state), states


def _name(path: Sequence[Any]) -> tuple[str, str]:
    return str(path[0]), ".".join(map(str, path[1:]))


def _filled(state: Any, states: States) -> Any:
    """A state of nnx with other arrays, and without arrays that are left out."""

    def new(path: Sequence[Any], leaf: Any) -> Any:
        label, name = _name(path)
        value = states[label][name]
        return leaf.copy(value) if isinstance(leaf, nnx.Variable) else value

    given = {(label, name) for label, own in states.items() for name in own}
    flat = [(path, new(path, x)) for path, x in nnx.to_flat_state(state) if _name(path) in given]
    return nnx.from_flat_state(flat)


def _merge(static: _Graph, states: States) -> Mapping[str, Any]:
    return nnx.merge(static.graph, _filled(static.state, states))


def _update(given: Mapping[str, Any], states: States) -> None:
    nnx.update(dict(given), _filled(_split(given)[0].state, states))


def _grows(given: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """The collections that each call fills."""
    return frozenset(
        _name(path)
        for path, leaf in nnx.to_flat_state(_split(given)[0].state)
        if isinstance(leaf, nnx.Intermediate) and not isinstance(leaf, nnx.Perturbation)
    )


def _told(error: Exception) -> Exception | None:
    if isinstance(error, TraceContextError):
        return RefusedError(_CLOSED_OVER.format(error=error))
    return None


# Some versions of flax do not export it.
_APART: Any = getattr(nnx, "NodeStates", ())


def _attributes(x: Any) -> dict[str, Any] | None:
    """The attributes of an object that `nnx.jit` has taken apart."""
    if not isinstance(x, _APART):
        return None
    try:
        node: Any = nnx.merge(x.graphdef, *x.states)
    except Exception:
        return None  # a part of it is in another argument
    found: dict[str, Any] = {}
    for path, one in nnx.iter_graph(node):
        name = "".join(f"[{key!r}]" if isinstance(key, int) else f".{key}" for key in path)
        if isinstance(one, nnx.Variable):
            found[name] = one.get_value()
        elif isinstance(one, nnx.Pytree) or any(str(key)[0] == "_" for key in path):
            continue
        elif one is not None:  # nnx tells of the first None alone
            found[name] = one
    return found


# The names of gradients of nnx, with and without a graph.
_GRADIENTS = ("grad_wrapper", "tree_grad_wrapper")


def _transformed(fun: Any) -> Any:
    """The user's function in a gradient of nnx, which has neither its name nor its parameters."""
    made = inspect.unwrap(fun)
    if getattr(made, "__name__", "") not in _GRADIENTS or made.__module__ != nnx.grad.__module__:
        return None
    inside = inspect.getclosurevars(made).nonlocals
    return next((inspect.unwrap(inside[k]) for k in ("f", "gradded_fn") if k in inside), None)


_CODE = """
graph, state = nnx.split(objects)

def name(path):
    return ".".join(map(str, path{inner}))

def by_name(state):
    found = nnx.to_flat_state(state)
    return {{name(path): x.get_value() if hasattr(x, "get_value") else x for path, x in found}}

def with_values(states):
    def new(path, x):
        return x.copy(states[name(path)]) if hasattr(x, "get_value") else states[name(path)]

    return nnx.merge(graph, nnx.map_state(new, state))

states = by_name(state)

def pure(states, *args, **kwargs):
    objects = with_values(states)
    args, kwargs = put(objects, {args}, kwargs)
    out = fun(*args, **kwargs)
    after = by_name(nnx.state(objects))
    return out, {{name: {kept} for name, value in states.items()}}
"""


def _code(found: Apart, n_bound: int) -> PureCode:
    several = len(found.objects) > 1
    grows = sorted(".".join(one if several else one[1:]) for one in _grows(found.objects))
    body = taking("(nnx.Pytree, nnx.Variable)", found.places) + _CODE.format(
        inner="" if several else "[1:] or path",
        args=f"(*rest[0][:{n_bound}], *args)" if n_bound else "args",
        kept=(
            f"value if name in {grows!r} else after.get(name, value)"
            if grows
            else "after.get(name, value)"
        ),
    )
    return PureCode(body, {"nnx": "flax.nnx"}, n_bound)


LIBRARY = dataclasses.replace(
    objects(
        "flax.nnx",
        (nnx.Pytree, nnx.Variable),
        _split,
        _merge,
        _update,
        grows=_grows,
        told=_told,
        code=_code,
    ),
    attributes=_attributes,
    checkpoint=("nnx.remat", nnx.remat),
    transformed=_transformed,
)
