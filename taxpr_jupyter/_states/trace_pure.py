"""Trace a call that may use states into the program of a pure function."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax

import taxpr
from taxpr import introspect
from taxpr.libraries import PureCode, Statics, like, plain, without_statics
from taxpr_jupyter._analysis.stateful import stateful_program
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.pure_call import PureCall

Names = bool | str | Collection[str | None] | None  # as for `taxpr.trace`
TWO_KINDS = (
    "This function uses states of {library}, and a taxpr.State besides ({state}). The picture and "
    "the panel take states of one kind: make all of them of one"
)


def unchanging(names: Names) -> Names:
    """The ``names`` of a picture: names of libraries leave the program as it is, too.

    Example:
        >>> unchanging(("brax", "jax_md")), unchanging(True)
        ((None, 'brax', 'jax_md'), True)
    """
    if names is None or isinstance(names, bool):
        return names
    return (None, names) if isinstance(names, str) else (None, *names)


def traced_pure(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    statics: Statics,
    pure: PureCall | None,
    variables: Names = None,
) -> tuple[taxpr.Program, PureCall | None]:
    """Trace a call. If it uses states, trace the pure function of the states instead.

    Args:
        fun: The user's function.
        args: The positional arguments.
        kwargs: The keyword arguments.
        statics: The static arguments among these.
        pure: The pure call, if the states belong to another library.
        variables: Which variables of the source to note, as ``names`` of `taxpr.trace`.

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
    pure = _pure_call(bound, traced, keywords)
    program = taxpr.trace(pure.fun, names=variables)(pure.states, *traced, **keywords)
    return stateful_program(program, pure.states, pure.written), pure


def _pure_call(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> PureCall:
    """A call without static arguments of a function that uses a `taxpr.State`, by `taxpr.uncurry`.

    Raises:
        StateError: If the result of a use of a state could be wrong.
        RefusedError: If a state is used in an equation that cannot be injected.
    """
    pure, states = taxpr.uncurry(fun, *args, **kwargs)

    def tag_writes() -> taxpr.Program:
        tagged = taxpr.program.Uncurried(fun, args, kwargs, tag_writes=True)
        return taxpr.trace(like(fun)(tagged))(states, *args, **kwargs)

    return PureCall(
        fun=like(fun)(pure),
        states=states,
        written=frozenset(name for name, uses in pure.uses.items() if uses.written),
        args=tuple(args),
        kwargs=dict(kwargs),
        library="taxpr",
        code=PureCode,
        write=pure.write,
        tag_writes=tag_writes,
    )


def written(jaxpr: Any, states: Mapping[str, Any]) -> frozenset[str]:
    """The names of the states that ``(states, ...) -> (..., states)`` does not return unchanged."""
    number = len(jax.tree.leaves(dict(states)))
    first = len(jaxpr.jaxpr.outvars) - number
    same = [into == k for k, into in enumerate(passed(jaxpr)[first:])]
    leaves = jax.tree.unflatten(jax.tree.structure(dict(states)), same)
    return frozenset(name for name in states if not all(jax.tree.leaves(leaves[name])))


def passed(jaxpr: Any) -> list[int | None]:
    """For each output of a jaxpr, the position of the input that it equals, or None.

    Libraries pass the whole state of a model through their own `jit` and `scan`, and each output is
    a new variable there. So this follows values through calls, branches and carries.

    Example:
        >>> import jax
        >>> passed(jax.make_jaxpr(jax.jit(lambda x, y: (y, x + 1)))(1.0, 2.0))
        [1, None]
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    place = {var: k for k, var in enumerate(inner.invars)}
    for eqn in inner.eqns:
        for result, operand in _passed_by(eqn).items():
            atom = eqn.invars[operand]
            if not introspect.is_literal(atom) and atom in place:
                place[eqn.outvars[result]] = place[atom]
    return [None if introspect.is_literal(atom) else place.get(atom) for atom in inner.outvars]


def _passed_by(eqn: introspect.JaxprEqn) -> dict[int, int]:
    """For each result of an equation that equals an operand, the positions of both."""
    found: dict[int, set[int | None]] = {}
    for nested in introspect.nested_jaxprs(eqn):
        if nested.rule or nested.idle:
            continue
        for out, into in enumerate(passed(nested.stored)):
            result, role = nested.results[out], nested.out_roles[out]
            if result is None:
                continue
            same = into is not None and (
                (out, into) in nested.back if role == "carry" else role == "out"
            )
            operand = nested.operands[into] if same and into is not None else None
            found.setdefault(result, set()).add(operand)
    return {
        result: operand
        for result, operands in found.items()
        for operand in operands
        if len(operands) == 1
        and operand is not None
        and eqn.outvars[result].aval == eqn.invars[operand].aval
    }
