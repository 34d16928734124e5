"""`memory`: what holds the memory of a call where it needs the most, and what a gradient keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.tables import size_text
from taxpr._compat import PyTree
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import compile_call, program_of
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._memory.held import MemoryRow, RowMaker, shown
from taxpr._memory.residuals import residuals
from taxpr._memory.used import Used, guessed, planned
from taxpr._programs.functions import called_as
from taxpr._programs.question import question

np: Any = numpy  # which leaves types of arrays unknown

_ESTIMATE = (
    "An estimate from the program alone; memory(fun)(*args) asks XLA, which takes a compilation."
)
_NO_GRADIENT = "Nothing is kept for a derivative: ask of jax.grad(fun), or of a step of a training."


class _Rows(Answer):
    _columns = "bytes", "share", "variable", "line", "code", "arrays", "iterations", "why"

    def _shown(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in shown(row).items() if v != 1} for row in super()._shown()]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Residuals(_Rows):
    """What a gradient keeps of its forward pass; `MemoryUse.residuals` has it.

    Attributes:
        total: The bytes of all of it.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(w, x):
        ...     act = jnp.tanh(x @ w)
        ...     return act.sum()
        >>> use = taxpr.memory(jax.grad(loss))(jnp.ones((8, 8)), jnp.ones((1000, 8)))
        >>> [(row.variable, row.bytes, row.why) for row in use.residuals.rows]
        [('act', 32000, 'kept for the derivative of `act = jnp.tanh(x @ w)`')]
    """

    total: int = 0


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MemoryUse(_Rows):
    """How much memory a call needs, and what holds it; `memory` makes it.

    Attributes:
        total: The bytes that it needs in all: arguments + results - alias + temporaries.
        arguments: The bytes of its arguments.
        results: Those of its results.
        alias: Those of results that lie where a donated argument was.
        temporaries: Those of all else.
        residuals: What a gradient in it keeps for its backward pass, whole.
        line: The bytes that are taken after each step of the program.
        loops: For each loop where it begins and ends on the line, and its statement.
        estimated: Whether it is guessed, and not what XLA says.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda x: (x @ x) @ x)(jnp.ones((100, 100)))
        >>> use.total, use.arguments, use.results, use.temporaries
        (120000, 40000, 40000, 40000)
    """

    total: int = 0
    arguments: int = 0
    results: int = 0
    alias: int = 0
    temporaries: int = 0
    residuals: Residuals = Residuals("residuals", [])
    line: Any = None
    loops: Sequence[tuple[int, int, str]] = ()
    estimated: bool = False

    def chart(self) -> Chart | None:
        """The bytes that are taken, in the order of the program; loops are bands."""
        if self.line is None or len(self.line) < 2:
            return None
        return Lines({"bytes": self.line}, xlabel="instructions in order", bands=self.loops)


@question
def memory(fun: Any, *, compile: bool = True) -> Callable[..., MemoryUse]:
    """What holds the memory of a call where it needs the most, by variable and line.

    The program is compiled as `jax.jit` does it, and not run. XLA says how much it needs and where
    each value lies; each is told by the variable that held it, or the statement that made it. What
    XLA has added is shown as such. Of a gradient, ``residuals`` says what it keeps for its backward
    pass, and for the derivative of which statement.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        compile: Whether to compile it. Without it the memory is guessed from the program alone, in
            a small part of the time that tracing takes; see `MemoryUse.estimated`.

    Returns:
        A function of the arguments of ``fun`` that returns a `MemoryUse`. Arguments may be
        `jax.ShapeDtypeStruct`, of what does not fit.

    Raises:
        RefusedError: If the backend does not say how much a program needs.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(weights, x):
        ...     def layer(x, w):
        ...         act = jnp.sin(x @ w)
        ...         return act, None
        ...     out, _ = jax.lax.scan(layer, x, weights)
        ...     return jnp.sum(out)
        >>> weights, x = jnp.ones((10, 16, 16)), jnp.ones((512, 16))
        >>> use = taxpr.memory(jax.grad(loss))(weights, x)
        >>> [(row.variable, row.bytes, row.iterations) for row in use.residuals.rows]
        [('x', 327680, 10), ('act', 327680, 10)]
        >>> sorted(row.variable for row in use.rows[:2])
        ['act', 'x']
    """
    if not hasattr(fun, "jaxpr"):
        refuse_no_function("memory", fun)
    if type(compile) is not bool:
        raise ArgumentError(f"memory: compile={compile!r}: give True, or False for an estimate.")

    def asked(*args: PyTree, **kwargs: PyTree) -> MemoryUse:
        if not compile:
            program = program_of(fun, args, kwargs)
            words = Attributions(program)
            used = guessed(program)
        else:
            call = compile_call(fun, args, kwargs)
            program, words = call.program, Attributions(call.program)
            used = planned(call, words)
        return _answer(program, words, used, estimated=not compile)

    return called_as(fun)(asked)


def _answer(program: Any, words: Attributions, used: Used, *, estimated: bool) -> MemoryUse:
    kept = residuals(program.jaxpr)
    maker = RowMaker(program, words, kept)
    rows = maker.rows(used.held, used.total)
    size = sum(one.bytes for one in kept)
    of_gradient = Residuals(
        f"residuals of {program.name}: {size_text(size)}",
        maker.residuals(kept),
        () if kept else (_NO_GRADIENT,),
        total=size,
    )
    about = "about " if estimated else ""
    alias = f" - {size_text(used.alias)} of donated arguments" if used.alias else ""
    headline = (
        f"memory of {program.name}: {about}{size_text(used.total)} = "
        f"{size_text(used.arguments)} arguments + {size_text(used.results)} results{alias} + "
        f"{size_text(used.temporaries)} temporaries"
    )
    loops = [(begin, end, words.of(at).code if at else "") for at, begin, end in used.loops]
    return MemoryUse(
        headline,
        rows,
        (_ESTIMATE,) if estimated else (),
        total=used.total,
        arguments=used.arguments,
        results=used.results,
        alias=used.alias,
        temporaries=used.temporaries,
        residuals=of_gradient,
        line=np.array(used.line),
        loops=loops,
        estimated=estimated,
    )


__all__ = ["MemoryRow", "MemoryUse", "Residuals", "memory"]
