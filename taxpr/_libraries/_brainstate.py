"""States of brainstate, which functions find anywhere."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import brainstate
from jax.core import Tracer

from taxpr import _compat
from taxpr._calls.code import taking
from taxpr._calls.libraries import Library
from taxpr._calls.model import Held, Opened, PureCode, States, Taken, like
from taxpr._calls.objects import apart
from taxpr._calls.static import run
from taxpr._errors import RefusedError
from taxpr._libraries._brainstate_names import Named, is_object, named_states

_LEAKED = (
    "This function writes {states} of brainstate in a loop or a branch of jax.lax, or under "
    "jax.jit, jax.grad or jax.vmap, which brainstate does not see. Use its own there, such as "
    "brainstate.transform.scan, cond, jit, grad; or a taxpr.State, which may be used in all of them"
)
# JAX caches loop bodies by this: where a body is traced again, it finds the states of then.
_afresh = _compat.user_context()
# The key of what was traced while states were noticed, and used none. Another one comes after a
# trace that did: read from JAX's cache, a jitted function would hide from us that it uses states.
_without_states = object()


def _open(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Opened | None:
    """A call that uses states, which `brainstate.transform.StatefulFunction` finds.

    Raises:
        RefusedError: If a state is written where brainstate does not see it.
        Exception: Any error of the function itself.
    """
    first = apart(fun, args, kwargs, is_object)
    seen: list[Any] = []

    def with_objects(*args: Any, **kwargs: Any) -> Any:
        own, words = first.put(first.objects, args, kwargs)
        with brainstate.StateTraceStack() as stack:
            seen.append(stack)
            return run(fun, own, words)

    stateful = brainstate.transform.StatefulFunction(with_objects, return_only_write=False)
    try:
        with _afresh(object()):
            stateful.make_jaxpr(*first.args, **first.kwargs)
    except Exception:
        if any(stack.states for stack in seen):
            raise
        return None  # another library may make it pure
    given = first.args, first.kwargs
    states = stateful.get_states(*given[0], **given[1])
    if not states:
        return None
    named = named_states(fun, states, first.objects)
    names = [one.name for one in named]
    if any(isinstance(c, Tracer) for c in stateful.get_jaxpr(*given[0], **given[1]).consts):
        raise RefusedError(_LEAKED.format(states=", ".join(names)))
    written = {
        name
        for name, state in zip(names, states, strict=True)
        if state in stateful.get_write_states(*given[0], **given[1])
    }

    def take(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Taken:
        found = apart(fun, args, kwargs, is_object)
        same = {at: id(found.objects[label]) for at, label in found.places.items()}
        values = {name: state.value for name, state in zip(names, states, strict=True)}
        return Taken(((Held("", values),), *found.args), found.kwargs, same, put)

    def put(after: States) -> None:
        for name, state in zip(names, states, strict=True):
            if name in after.get("", {}):
                state.value = after[""][name]

    @like(fun)
    def pure(hidden: tuple[Held], *args: Any, **kwargs: Any) -> Any:
        own, words = first.put(first.objects, args, kwargs)
        before = [state.value for state in states]
        try:
            for name, state in zip(names, states, strict=True):
                state.restore_value(hidden[0].values[name])
            # Without a trace of its own around them brainstate refuses writes.
            with _afresh(object()), brainstate.StateTraceStack():
                out = run(fun, own, words)
            after = {name: s.value for name, s in zip(names, states, strict=True)}
        finally:
            for state, value in zip(states, before, strict=True):
                state.restore_value(value)
        return out, {"": {name: after[name] for name in names if name in written}}

    return Opened(
        fun=pure,
        take=take,
        first=take(args, kwargs),
        library="brainstate",
        code=lambda: _code(named, first.places),
    )


_CODE = """
def call(*args, **kwargs):
    args, kwargs = put(objects, args, kwargs)
    return fun(*args, **kwargs)

given, words = rest
stateful = brainstate.transform.StatefulFunction(call, return_only_write=False)
found = stateful.make_jaxpr(*given, **words).get_states(*given, **words)
known = {{{known}
}}
others = [state for state in found if not any(state is one for one in known.values())]
known.update(zip({others!r}, others))
names = [name for state in found for name in known if known[name] is state]
states = {{name: state.value for name, state in zip(names, found)}}

def pure(states, *args, **kwargs):
    values = [states[name] for name in names]
    values, out = stateful.jaxpr_call(values, *args, **kwargs)
    return out, dict(zip(names, values))
"""


def _code(named: Sequence[Named], places: Mapping[int, str]) -> PureCode:
    body = taking("(brainstate.State, brainstate.graph.Node)", places) + _CODE.format(
        known="".join(f"\n    {one.name!r}: {one.text}," for one in named if one.text),
        others=[one.name for one in named if not one.text],
    )
    inspects = {"inspect": "inspect"} if "inspect." in body else {}
    return PureCode(body, {**inspects, "brainstate": "brainstate"})


@contextlib.contextmanager
def _noticing() -> Iterator[Callable[[], bool]]:
    """Notices states that are read or written, and sets them back."""
    global _without_states
    with _afresh(_without_states), brainstate.StateTraceStack() as stack:
        try:
            yield lambda: bool(stack.states)
        finally:
            if stack.states:
                _without_states = object()
            for state, value in zip(stack.states, stack.original_state_values, strict=True):
                state.restore_value(value)


LIBRARY = Library(_open, is_object, noticing=_noticing)
