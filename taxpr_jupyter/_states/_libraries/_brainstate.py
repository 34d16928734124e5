"""Make calls with states of brainstate pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import brainstate  # pyright: ignore[reportMissingImports]
from jax.core import Tracer

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states._libraries._brainstate_names import Named, is_object, named_states
from taxpr_jupyter._states.code import taking
from taxpr_jupyter._states.model import PureCall, PureCode, like
from taxpr_jupyter._states.objects import taken, traceable

_LEAKED = (
    "This function writes {states} of brainstate in a loop or a branch of jax.lax, or under "
    "jax.jit, jax.grad or jax.vmap, which brainstate does not see. Use its own there, such as "
    "brainstate.transform.scan, cond, jit, grad; or a taxpr.State, which may be used in all of them"
)


def pure_call(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> PureCall | None:
    """Make a call pure by `brainstate.transform.StatefulFunction`.

    Modules and states among the arguments are taken out.

    Raises:
        PanelError: If a state is written where brainstate does not see it.
        Exception: Any error of the function itself.
    """
    out = taken(fun, args, kwargs, is_object)
    if not traceable(out.args, out.kwargs):
        return None

    seen: list[Any] = []

    def with_objects(*args: Any, **kwargs: Any) -> Any:
        own, words = out.put(out.objects, args, kwargs)
        with brainstate.StateTraceStack() as stack:
            seen.append(stack)
            return fun(*own, **words)

    # Trace only once: JAX caches loop bodies, and a second trace would miss the states in them.
    stateful = brainstate.transform.StatefulFunction(with_objects, return_only_write=False)
    try:
        stateful.make_jaxpr(*out.args, **out.kwargs)
    except Exception:
        if any(stack.states for stack in seen):
            raise
        return None  # another library may make it pure
    states = stateful.get_states(*out.args, **out.kwargs)
    if not states:
        return None
    named = named_states(fun, states, out.objects)
    names = [one.name for one in named]
    if any(isinstance(c, Tracer) for c in stateful.get_jaxpr(*out.args, **out.kwargs).consts):
        raise PanelError(_LEAKED.format(states=", ".join(names)))
    written = stateful.get_write_states(*out.args, **out.kwargs)

    @like(fun)
    def pure(values: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        given = [values[name] for name in names]
        new, result = stateful.jaxpr_call(given, *args, **kwargs)
        return result, dict(zip(names, new, strict=True))

    def write(values: Mapping[str, Any]) -> None:
        for name, state in zip(names, states, strict=True):
            if name in values and state in written:
                state.value = values[name]

    return PureCall(
        fun=pure,
        states={name: state.value for name, state in zip(names, states, strict=True)},
        written=frozenset(
            name for name, state in zip(names, states, strict=True) if state in written
        ),
        args=out.args,
        kwargs=out.kwargs,
        library="brainstate",
        code=lambda: _code(named, out.places),
        write=write,
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
