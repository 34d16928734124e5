"""Find names for states of brainstate, since most have no name."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import brainstate
import jax

from taxpr._calls.free_variables import Reached, reached
from taxpr._calls.objects import dotted, unique


class Named(NamedTuple):
    """A state with its name.

    Attributes:
        name: Its name.
        text: Python that finds it, with ``fun`` for the function, ``objects`` for those among the
            arguments, `inspect` and `brainstate`; "" if there is none.
    """

    name: str
    text: str


def is_object(x: Any) -> bool:
    """Whether a value is a state, or holds states."""
    return isinstance(x, (brainstate.State, brainstate.graph.Node))


def named_states(
    fun: Callable[..., Any], states: Sequence[Any], objects: Mapping[str, Any]
) -> list[Named]:
    """A name for each state: its own, or the variable and attributes that lead to it."""
    default = Reached("random.DEFAULT", brainstate.random.DEFAULT, "brainstate.random.DEFAULT")
    ways = [default, *(Reached(name, x, f"objects[{name!r}]") for name, x in objects.items())]
    used = {id(state) for state in states}
    known: dict[int, Reached] = {}
    nodes: dict[int, Reached] = {}
    for way in [*ways, *reached(fun)]:
        for found in _leaves(way):
            if isinstance(found.thing, brainstate.State) and found.name:
                known.setdefault(id(found.thing), found)
            elif isinstance(found.thing, brainstate.graph.Node):
                nodes.setdefault(id(found.thing), found)
    inside = [(node, _states(node, used - set(known))) for node in nodes.values()]
    inside = [(node, own) for node, own in inside if own]
    for node, own in inside:
        for found in own:
            parts = [node.name, found.name] if len(inside) > 1 else [found.name]
            way = Reached(".".join(filter(None, parts)), found.thing, found.text)
            known.setdefault(id(found.thing), way)
    kinds = unique([type(state).__name__ for state in states])
    names, texts = [], []
    scope = {"fun": fun, "objects": objects, "inspect": inspect, "brainstate": brainstate}
    for state, kind in zip(states, kinds, strict=True):
        way = known.get(id(state), Reached(kind, state, ""))
        names.append(state.name or way.name)
        texts.append(way.text if _gives(way.text, state, scope) else "")
    return [Named(*one) for one in zip(unique(names), texts, strict=True)]


def _leaves(way: Reached) -> list[Reached]:
    """The states and modules in an object that a function reaches."""
    try:
        found = jax.tree_util.tree_flatten_with_path(way.thing, is_leaf=is_object)[0]
    except (TypeError, ValueError):  # a dict whose keys have no order
        return []
    return [
        Reached(
            ".".join(filter(None, (way.name, dotted(path)))),
            leaf,
            f"{way.text}{jax.tree_util.keystr(path)}" if way.text else "",
        )
        for path, leaf in found
        if is_object(leaf)
    ]


def _states(node: Reached, wanted: set[int]) -> list[Reached]:
    """The wanted states in a module."""
    found = []
    for path, state in brainstate.graph.states(node.thing).items():
        if id(state) in wanted:
            text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
            text = f"{node.text}{text}" if node.text else ""
            found.append(Reached(".".join(map(str, path)), state, text))
    return found


def _gives(text: str, state: Any, scope: Mapping[str, Any]) -> bool:
    """Whether evaluating the text gives the state."""
    try:
        return bool(text) and eval(text, dict(scope)) is state
    except Exception:  # a path of another kind
        return False
