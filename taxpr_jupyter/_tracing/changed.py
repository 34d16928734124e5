"""Trace a call again with changes of its source, by `taxpr.edit`; their numbers are inputs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import taxpr
from taxpr.libraries import parameters_of
from taxpr_jupyter._analysis.stateful import stateful_program
from taxpr_jupyter._tracing.closure_key import reads
from taxpr_jupyter._tracing.trace import Names, TracedCall

# Keeps the numbers behind the user's own keywords, which JAX sorts: no name in Python begins so.
_LAST = chr(sys.maxunicode)


class SourceChange(NamedTuple):
    """A variable and its change.

    Attributes:
        where: A `taxpr.var`.
        by: An injector, or a line of Python that takes the place of the one that binds it.
    """

    where: Any
    by: taxpr.injectors.Injector | str

    @property
    def numbers(self) -> dict[str, Any]:
        """The values of the injector's parameters as arrays, by the names of inputs."""
        if isinstance(self.by, str):
            return {}
        return {
            f"{_LAST}{self.by.name}.{name} at {repr(self.where)[4:-1]}": jax.tree.map(_array, value)
            for name, value in self.by.values.items()
        }

    @property
    def key(self) -> Any:
        """The fixed parts when it is traced: all but the numbers."""
        if isinstance(self.by, str):
            return repr(self.where), self.by
        fun = inspect.unwrap(self.by.fire)
        fun = fun.func if isinstance(fun, functools.partial) else fun  # the rest is in `options`
        leaves, tree = jax.tree.flatten(self.numbers)
        types = tuple(map(jax.typeof, leaves))
        return repr(self.where), fun, reads(fun), repr(self.by.options), str(tree), types

    def applied(self, fun: Callable[..., Any], numbers: dict[str, Any]) -> Callable[..., Any]:
        """The function with this change, whose own numbers are taken out of some."""
        by = self.by
        if not isinstance(by, str):
            own = [numbers.pop(name) for name in self.numbers]
            by = dataclasses.replace(by, values=dict(zip(by.values, own, strict=True)))
        return taxpr.edit(fun, self.where, by)


def numbers_of(changes: Sequence[SourceChange]) -> dict[str, Any]:
    """The numbers of all changes, the last inputs of the changed program."""
    return {name: value for one in changes for name, value in one.numbers.items()}


def changed(fun: Callable[..., Any], changes: Sequence[SourceChange]) -> Callable[..., Any]:
    """A function with changes of its source; the numbers of these are further keywords."""

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        made: Callable[..., Any] = fun
        for one in changes:
            made = one.applied(made, kwargs)
        return made(*args, **kwargs)

    own = parameters_of(fun)
    if own and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own):
        numbers = inspect.Parameter("numbers", inspect.Parameter.VAR_KEYWORD)
        run.__signature__ = inspect.Signature([*own, numbers])  # pyright: ignore[reportAttributeAccessIssue]
    return run


def ignoring(fun: Callable[..., Any], numbers: Mapping[str, Any]) -> Callable[..., Any]:
    """A function that takes the numbers of changes, too, and does nothing with them."""

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **{name: one for name, one in kwargs.items() if name not in numbers})

    return run


def traced_changed(
    start: TracedCall, changes: Sequence[SourceChange], variables: Names
) -> taxpr.Program:
    """The program of a call with changes of its source.

    Args:
        start: The call, traced without changes.
        changes: The changes, each after the ones before it.
        variables: Which variables to note, as ``names`` of `taxpr.trace`.

    Raises:
        Exception: Any error of the changes, or of the function.
    """
    pure = start.pure if start.pure and start.pure.states else None
    states = (dict(pure.states),) if pure else ()
    numbers = numbers_of(changes)
    trace = taxpr.trace(changed(start.fun, changes), names=variables)
    program = trace(*states, *start.args, **start.kwargs, **numbers)
    if pure:
        program = stateful_program(program, pure.states, pure.written)
    count = len(jax.tree.leaves(numbers))
    own = len(program.in_names) - count
    names = [f"{name.removeprefix(_LAST)}" for name in _leaf_names(numbers)]
    return dataclasses.replace(
        program,
        in_names=(*program.in_names[:own], *names),
        name=start.program.name,
        arranged=start.program.arranged,
    )


def _leaf_names(numbers: Mapping[str, Any]) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(dict(numbers))[0]
    return [f"{path[0].key}{jax.tree_util.keystr(path[1:])}" for path, _ in paths]


def _array(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else jnp.asarray(value)
