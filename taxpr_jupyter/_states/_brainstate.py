"""Functions that use states of brainstate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import brainstate
import jax
from jax.core import Tracer

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states._model import PureCall, PureCode, like
from taxpr_jupyter._states._objects import dotted, taken, unique
from taxpr_jupyter._states._reach import reached

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

    def of_leaves(leaves: Sequence[Any]) -> Any:
        values, words = out.put(out.objects, *_put_leaves(out.args, out.kwargs, leaves))
        return fn(*values, **words)

    stateful = brainstate.transform.StatefulFunction(of_leaves, return_only_write=False)
    leaves = _leaves(out.args, out.kwargs)
    states = stateful.make_jaxpr(leaves).get_states(leaves)
    if not states:
        return None
    names = _names(fn, states, out.objects)
    if any(isinstance(const, Tracer) for const in stateful.get_jaxpr(leaves).consts):
        raise PanelError(_LEAKED.format(states=_listed(names)))
    written = stateful.get_write_states(leaves)

    @like(fn)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        given = [values[name] for name in names]
        new, result = stateful.jaxpr_call(given, _leaves(args, kwargs))
        return result, dict(zip(names, new, strict=True))

    def write(values: Mapping[str, Any]) -> None:
        for name, state in zip(names, states, strict=True):
            if name in values and state in written:
                state.value = values[name]

    def code(fn: str, args: Sequence[str]) -> PureCode:
        return _code(fn, args, names, bool(out.objects))

    return PureCall(
        fn=pure,
        states={name: state.value for name, state in zip(names, states, strict=True)},
        written=frozenset(
            name for name, state in zip(names, states, strict=True) if state in written
        ),
        args=out.args,
        kwargs=out.kwargs,
        library="brainstate",
        code=code,
        write=write,
    )


def _is_object(x: Any) -> bool:
    return isinstance(x, (brainstate.State, brainstate.graph.Node))


def _is_traced(leaf: Any) -> bool:
    """Whether a leaf of the arguments is no text and no function."""
    return hasattr(leaf, "shape") or isinstance(leaf, (bool, int, float, complex))


def _leaves(args: Any, kwargs: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves((tuple(args), dict(kwargs))) if _is_traced(leaf)]


def _put_leaves(args: Any, kwargs: Any, leaves: Sequence[Any]) -> Any:
    rest = iter(leaves)
    return jax.tree.map(
        lambda leaf: next(rest) if _is_traced(leaf) else leaf, (tuple(args), dict(kwargs))
    )


def _names(
    fn: Callable[..., Any], states: Sequence[Any], objects: Mapping[str, Any]
) -> list[str]:
    """A name for each state: its own; the variable or the attributes by which it is reached."""
    known: dict[int, str] = {id(brainstate.random.DEFAULT): "random.DEFAULT"}
    nodes: list[tuple[str, Any]] = []
    for name, thing in [*objects.items(), *reached(fn)]:
        for path, leaf in jax.tree_util.tree_flatten_with_path(thing, is_leaf=_is_object)[0]:
            label = ".".join(part for part in (name, dotted(path)) if part)
            if isinstance(leaf, brainstate.State) and label:
                known.setdefault(id(leaf), label)
            elif isinstance(leaf, brainstate.graph.Node):
                nodes.append((label, leaf))
    used = {id(state) for state in states}
    paths = []
    for label, node in nodes:
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


def _code(fn: str, args: Sequence[str], names: Sequence[str], objects: bool) -> PureCode:
    given = ", ".join([fn, *args])
    if objects:
        raise NotImplementedError
    lines = [
        f"stateful = brainstate.transform.StatefulFunction({fn}, return_only_write=False)",
        f"found = stateful.make_jaxpr({', '.join(args)}).get_states({', '.join(args)})",
        f"names = {list(names)!r}",
        "states = {name: state.value for name, state in zip(names, found)}",
        "",
        "def pure(states, *args, **kwargs):",
        "    new, out = stateful.jaxpr_call([states[name] for name in names], *args, **kwargs)",
        "    return out, dict(zip(names, new))",
        "",
    ]
    del given
    return PureCode(lines, args, ["import brainstate"])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
