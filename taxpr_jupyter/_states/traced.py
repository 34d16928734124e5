"""Trace a call that may use states into the program of a pure function."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr
from taxpr import introspect
from taxpr.libraries import Statics, plain, without_statics
from taxpr_jupyter._analysis.stateful import stateful_program
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states import of_taxpr
from taxpr_jupyter._states.model import PureCall
from taxpr_jupyter._states.passed import written

TWO_KINDS = (
    "This function uses states of {library}, and a taxpr.State besides ({state}). The picture and "
    "the panel take states of one kind: make all of them of one"
)


def traced_pure(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    statics: Statics,
    pure: PureCall | None,
    variables: bool | None = None,
) -> tuple[taxpr.Program, PureCall | None]:
    """Trace a call. If it uses states, trace the pure function of the states instead.

    Args:
        fun: The user's function.
        args: The positional arguments.
        kwargs: The keyword arguments.
        statics: The static arguments among these.
        pure: The pure call, if the states are those of another library.
        variables: Whether to note the variables of the source, as ``names`` of `taxpr.trace`.

    Returns:
        The program, whose inputs are the states and then the arguments that are not static; and
        the pure call, or None if there are no states.

    Raises:
        PanelError: If both taxpr and another library have states in the call.
        StateError: If the result of a use of a `taxpr.State` could be wrong.
        Exception: Any error of the function itself.
    """
    if pure is not None:
        program = taxpr.trace(pure.fun, names=variables)(pure.states, *pure.args, **pure.kwargs)
        program = dataclasses.replace(program, arranged=plain)
        if states := introspect.states_of(program):
            raise PanelError(TWO_KINDS.format(library=pure.library, state=states[0]))
        pure = dataclasses.replace(pure, written=written(program.jaxpr, pure.states))
        return stateful_program(program, pure.states, pure.written), pure
    words = {"static_argnums": statics.nums, "static_argnames": statics.names, "names": variables}
    program = taxpr.trace(fun, **words)(*args, **kwargs)
    if not introspect.states_of(program):
        return program, None
    bound, traced, keywords = without_statics(fun, args, kwargs, statics)
    pure = of_taxpr.pure_call(bound, traced, keywords)
    program = taxpr.trace(pure.fun, names=variables)(pure.states, *traced, **keywords)
    return stateful_program(program, pure.states, pure.written), pure
