"""Functions that use states of brainstate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import brainstate
import jax
from jax.core import Tracer

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states._model import PureCall, PureCode, like
from taxpr_jupyter._states._objects import dotted, taken, traceable, unique
from taxpr_jupyter._states._reach import reached
from taxpr_jupyter._states._texts import pure_code, taking

_LEAKED = (
    "This function writes {states} of brainstate in a loop or a branch of jax.lax, or under "
    "jax.jit, jax.grad or jax.vmap, which brainstate does not see. Use its own there, such as "
    "brainstate.transform.scan, cond, jit, grad; or a taxpr.State, which may be used in all of them"
)


def pure_call(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """A call of a function that uses states, by `brainstate.transform.StatefulFunction`.

    Modules and states among the arguments are taken out.

    Raises:
        PanelError: If a state is written where brainstate does not see it.
        Exception: What the function itself raises.
    """
    out = taken(fn, args, kwargs, _is_object)
    if not traceable(out.args, out.kwargs):
        return None

    def with_objects(*args: Any, **kwargs: Any) -> Any:
        own, words = out.put(out.objects, args, kwargs)
        return fn(*own, **words)

    seen: list[Any] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        with brainstate.StateTraceStack() as stack:
            seen.append(stack)
            return with_objects(*args, **kwargs)

    try:
        brainstate.transform.StatefulFunction(watched).make_jaxpr(*out.args, **out.kwargs)
    except Exception:
        if any(stack.states for stack in seen):
            raise
        return None  # it may be one that another library makes pure
    stateful = brainstate.transform.StatefulFunction(with_objects, return_only_write=False)
    stateful.make_jaxpr(*out.args, **out.kwargs)
    states = stateful.get_states(*out.args, **out.kwargs)
    if not states:
        return None
    names = _names(fn, states, out.objects)
    if any(isinstance(c, Tracer) for c in stateful.get_jaxpr(*out.args, **out.kwargs).consts):
        raise PanelError(_LEAKED.format(states=", ".join(names)))
    written = stateful.get_write_states(*out.args, **out.kwargs)

    @like(fn)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        given = [values[name] for name in names]
        new, result = stateful.jaxpr_call(given, *args, **kwargs)
        return result, dict(zip(names, new, strict=True))

    def write(values: Mapping[str, Any]) -> None:
        for name, state in zip(names, states, strict=True):
            if name in values and state in written:
                state.value = values[name]

    return PureCall(
        fn=pure,
        states={name: state.value for name, state in zip(names, states, strict=True)},
        written=frozenset(
            name for name, state in zip(names, states, strict=True) if state in written
        ),
        args=out.args,
        kwargs=out.kwargs,
        library="brainstate",
        code=lambda text, args: _code(text, args, names, out.places),
        write=write,
    )


def _is_object(x: Any) -> bool:
    return isinstance(x, (brainstate.State, brainstate.graph.Node))


def _names(
    fn: Callable[..., Any], states: Sequence[Any], objects: Mapping[str, Any]
) -> list[str]:
    """A name for each state: its own; the variable or the attributes by which it is reached."""
    known: dict[int, str] = {id(brainstate.random.DEFAULT): "random.DEFAULT"}
    nodes: dict[int, tuple[str, Any]] = {}
    for name, thing in [*objects.items(), *reached(fn)]:
        for path, leaf in _leaves(thing):
            label = ".".join(part for part in (name, dotted(path)) if part)
            if isinstance(leaf, brainstate.State) and label:
                known.setdefault(id(leaf), label)
            elif isinstance(leaf, brainstate.graph.Node):
                nodes.setdefault(id(leaf), (label, leaf))
    used = {id(state) for state in states}
    paths = []
    for label, node in nodes.values():
        found = brainstate.graph.states(node).items()
        own = [(path, state) for path, state in found if id(state) in used - set(known)]
        if own:
            paths.append((label, own))
    for label, own in paths:
        for path, state in own:
            parts = [label] if label and len(paths) > 1 else []
            known.setdefault(id(state), ".".join([*parts, *map(str, path)]))
    kinds = unique([type(state).__name__ for state in states])
    return unique(
        [
            state.name or known.get(id(state)) or kind
            for state, kind in zip(states, kinds, strict=True)
        ]
    )


def _leaves(thing: Any) -> Sequence[tuple[Any, Any]]:
    """The states and modules in what a function reaches, with their paths."""
    try:
        found = jax.tree_util.tree_flatten_with_path(thing, is_leaf=_is_object)[0]
    except (TypeError, ValueError):  # a dict whose keys have no order
        return []
    return [(path, leaf) for path, leaf in found if _is_object(leaf)]


_CODE = """
def call(*args, **kwargs):
    args, kwargs = put(objects, args, kwargs)
    return fn(*args, **kwargs)

given, words = rest
stateful = brainstate.transform.StatefulFunction(call, return_only_write=False)
found = stateful.make_jaxpr(*given, **words).get_states(*given, **words)
names = {names!r}
states = {{name: state.value for name, state in zip(names, found)}}

def pure(states, *args, **kwargs):
    values = [states[name] for name in names]
    values, out = stateful.jaxpr_call(values, *args, **kwargs)
    return out, dict(zip(names, values))
"""


def _code(fn: str, args: Sequence[str], names: Sequence[str], places: Mapping[int, str]) -> PureCode:
    body = taking("(brainstate.State, brainstate.graph.Node)", places)
    body += _CODE.format(names=list(names))
    return pure_code(body, fn, args, ["import brainstate"])
