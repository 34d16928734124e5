"""Trace a call that may use states into the program of a pure function."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.stateful import stateful_program
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states import of_taxpr
from taxpr_jupyter._states.model import PureCall
from taxpr_jupyter._states.objects import parameters_of

TWO_KINDS = (
    "This function uses states of {library}, and a taxpr.State besides ({state}). The picture and "
    "the panel take states of one kind: make all of them of one"
)


@dataclasses.dataclass(frozen=True)
class Statics:
    """The static arguments, which are not traced.

    Attributes:
        nums: The positions.
        names: The names of keyword arguments.
    """

    nums: tuple[int, ...]
    names: tuple[str, ...]


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
    if pure is not None and not pure.states:
        return taxpr.trace(_without_states(pure), names=variables)(*pure.args, **pure.kwargs), pure
    if pure is not None:
        program = taxpr.trace(pure.fun, names=variables)(pure.states, *pure.args, **pure.kwargs)
        if states := introspect.states_of(program):
            raise PanelError(TWO_KINDS.format(library=pure.library, state=states[0]))
        return stateful_program(program, pure.states, pure.written), pure
    words = {"static_argnums": statics.nums, "static_argnames": statics.names, "names": variables}
    program = taxpr.trace(fun, **words)(*args, **kwargs)
    if not introspect.states_of(program):
        return program, None
    bound, traced, keywords = without_statics(fun, args, kwargs, statics)
    pure = of_taxpr.pure_call(bound, traced, keywords)
    program = taxpr.trace(pure.fun, names=variables)(pure.states, *traced, **keywords)
    return stateful_program(program, pure.states, pure.written), pure


def _without_states(pure: PureCall) -> Callable[..., Any]:
    """The function itself, as a function of the arguments that JAX can trace."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return pure.fun({}, *args, **kwargs)[0]

    call.__name__ = pure.fun.__name__
    if not hasattr(pure.fun, "__signature__"):
        return call
    _, *own = inspect.signature(pure.fun).parameters.values()
    call.__signature__ = inspect.Signature(own)  # pyright: ignore[reportFunctionMemberAccess]
    return call


def without_statics(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], statics: Statics
) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
    """The function with its static arguments bound, and the other arguments."""
    traced = [arg for k, arg in enumerate(args) if k not in statics.nums]
    keywords = {name: value for name, value in kwargs.items() if name not in statics.names}
    fixed = {name: kwargs[name] for name in statics.names}
    if not (statics.nums or fixed):
        return fun, traced, keywords

    @functools.wraps(fun)
    def bound(*given: Any, **words: Any) -> Any:
        rest = iter(given)
        every = [arg if k in statics.nums else next(rest) for k, arg in enumerate(args)]
        return fun(*every, **fixed, **words)

    bound.__signature__ = _signature(fun, len(args), statics)  # pyright: ignore[reportAttributeAccessIssue]
    bound.bound_statics = fun, args, kwargs, statics  # pyright: ignore[reportAttributeAccessIssue]
    return bound, traced, keywords


def with_statics(
    pure: PureCall, args: Sequence[Any], kwargs: Mapping[str, Any], statics: Statics
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the user's call, with traced ones replaced by those of the pure call."""
    rest = iter(pure.args)
    every = [arg if k in statics.nums else next(rest) for k, arg in enumerate(args)]
    return every, {**kwargs, **pure.kwargs}


def _signature(fun: Callable[..., Any], positional: int, statics: Statics) -> inspect.Signature:
    """The signature without static arguments, for the names of the others."""
    parameters = parameters_of(fun)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [one for one in parameters if one.kind in kinds][:positional]
    gone = {one.name for k, one in enumerate(own) if k in statics.nums} | set(statics.names)
    kept = [one for one in parameters if one.name not in gone]
    every = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
    return inspect.Signature(kept or [every])
