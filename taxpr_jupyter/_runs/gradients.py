"""The gradients of a float result, by arguments, which a run compares, and by variables."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import taxpr
from taxpr_jupyter._analysis.same_values import same_values
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.outputs.array_diff import ArrayDifference, compare


def losses_of(program: taxpr.Program) -> dict[int, str]:
    """The names of the results that can be differentiated, single floats, by their numbers."""
    states = {k for one in states_of(program) for k in one.outs}
    return {
        k: name
        for k, (name, aval) in enumerate(zip(program.out_names, program.out_avals, strict=True))
        if k not in states and aval.shape == () and jnp.issubdtype(aval.dtype, jnp.floating)
    }


def is_loss(program: taxpr.Program) -> bool:
    """Whether a program returns a single float and nothing else, so that one differentiates it."""
    states = sum(len(one.outs) for one in states_of(program))
    return len(program.out_names) - states == 1 and bool(losses_of(program))


def _floats_of(program: taxpr.Program) -> dict[int, str]:
    """The names of the arrays of floats among the arguments, by their numbers; no states."""
    states = {k for one in states_of(program) for k in one.ins}
    return {
        k: name
        for k, (name, aval) in enumerate(zip(program.in_names, program.in_avals, strict=True))
        if k not in states and jnp.issubdtype(aval.dtype, jnp.floating)
    }


@dataclasses.dataclass(frozen=True)
class Slopes:
    """The gradients of a run.

    Attributes:
        loss: The name of the result that is differentiated.
        number: Its number among the results of the untouched program.
        changed: Its number among the results of the program with changes of its source.
        arguments: The names of the differentiated arguments, by their numbers.
        before: The gradients of the untouched program.
        after: The gradients of the program with injectors and changes.
        note: Why there are no gradients; else empty.
    """

    loss: str = ""
    number: int = 0
    changed: int = 0
    arguments: Mapping[int, str] = dataclasses.field(default_factory=dict)
    before: Sequence[Any] = ()
    after: Sequence[Any] = ()
    note: str = ""

    def of(self, number: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A maker of the function that computes the gradients of the result with this number."""
        return functools.partial(_gradient, out=number, places=tuple(self.arguments))

    def compared(self) -> tuple[ArrayDifference, ...]:
        """How the gradients differ."""
        names = [f"∂{self.loss}/∂{name}" for name in self.arguments.values()]
        pairs = zip(names, self.before, self.after, strict=True) if self.after else ()
        return tuple(compare(*pair) for pair in pairs)


def slopes_of(untouched: taxpr.Program, changed: taxpr.Program) -> Slopes:
    """The result to differentiate in two programs, and the arguments; else a note."""
    losses = losses_of(untouched)
    if not losses:
        return Slopes(note="no result is a single float")
    number, loss = next(iter(losses.items()))
    there = {name: k for k, name in losses_of(changed).items()}
    if loss not in there:
        return Slopes(note=f"{loss} is a single float no longer")
    arguments = _floats_of(untouched)
    note = "" if arguments else "no argument is an array of floats"
    return Slopes(loss, number, there[loss], arguments, note=note)


def _gradient(call: Callable[..., Any], out: int, places: Sequence[int]) -> Callable[..., Any]:
    """A function of the arguments of ``call`` that computes the gradients of one of its results."""

    def slopes(args: Any, kwargs: Any, *more: Any) -> list[Any]:
        leaves, tree = jax.tree.flatten((args, kwargs))

        def loss(floats: list[Any]) -> Any:
            given = list(leaves)
            for k, x in zip(places, floats, strict=True):
                given[k] = x
            own, words = jax.tree.unflatten(tree, given)
            return jax.tree.leaves(call(own, words, *more))[out]

        return jax.grad(loss)([leaves[k] for k in places])

    return slopes


def has_cotangents(program: taxpr.Program) -> bool:
    """Whether the variables of a program have cotangents.

    That is the case if it takes a derivative inside, or has a result to differentiate.
    """
    return differentiates(program) or bool(losses_of(program))


def differentiates(program: taxpr.Program) -> bool:
    """Whether a program takes a derivative inside, as a train step does."""
    return any(one.differentiated for one in program.variables())


def loss_to_differentiate(program: taxpr.Program) -> str:
    """The name of the first result that is a single float.

    Raises:
        PanelError: It has no such result.
    """
    losses = losses_of(program)
    if not losses:
        raise PanelError(
            f"{program.name} has no cotangents: it takes no derivative, and no result is a "
            "single float to differentiate"
        )
    return next(iter(losses.values()))


def watched_with_cotangents(
    program: taxpr.Program, fun: Callable[..., Any]
) -> Callable[..., taxpr.questions.Recording]:
    """Run a program and keep the values of its variables, and their cotangents.

    If the program takes a derivative inside, as a train step does, its own cotangents are kept;
    else the gradient of its first result that is a single float.

    Args:
        program: The program, which knows its variables.
        fun: The function that it was traced from, of the same arguments.

    Raises:
        PanelError: There is nothing to differentiate.
    """
    if not differentiates(program):
        return taxpr.watch(program, grads=loss_to_differentiate(program))

    def run(*args: Any, **kwargs: Any) -> taxpr.questions.Recording:
        values = taxpr.watch(program)(*args, **kwargs)
        traced = taxpr.trace(fun, names="cotangents")(*args, **kwargs)
        found = taxpr.watch(traced, cotangents_of(traced))(*args, **kwargs)
        same = same_values(traced, program)
        # The axes of an outer `jax.vmap` may be elsewhere than in the value, so no axis is named.
        back = [
            dataclasses.replace(part, variable=same[part.variable], mapped=())
            for part in found.parts
            if part.variable in same
        ]
        return with_back(values, found, back)

    return run


def cotangents_of(traced: taxpr.Program) -> list[Any]:
    """Selectors of the cotangents of all variables that have one, one for each variable.

    Args:
        traced: A program that was traced with ``names="cotangents"``.
    """
    return [
        taxpr.maybe(taxpr.cotangent(taxpr.var(one.short, occurrence=one.occurrence)))
        for one in traced.variables()
    ]


def with_back(
    values: taxpr.questions.Recording,
    found: taxpr.questions.Recording,
    back: Sequence[Any],
) -> taxpr.questions.Recording:
    """A recording with the parts of another run added, which hold cotangents."""
    return taxpr.questions.Recording(
        values.name,
        values.out,
        (*values.parts, *back),
        (*values.skipped, *found.skipped),
        tuple(dict.fromkeys((*values.notes, *found.notes))),
        values.complete and found.complete,
        values.states,
    )
