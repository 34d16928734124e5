"""`memory`: the variables in memory at the peak of a call, and the residuals of a gradient."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from taxpr._address import Address
from taxpr._answers.later import Later
from taxpr._answers.portions import Portion
from taxpr._answers.tables import size_text
from taxpr._compat import PyTree
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import compile_call, program_of
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._estimates.residuals import Residual, residuals
from taxpr._kernels.mesh_axes import meshes_in
from taxpr._memory.held import MemoryRow, RowMaker, merged
from taxpr._memory.memory_use import MemoryStep, MemoryUse, Residuals
from taxpr._memory.tried_changes import Asked, Needs
from taxpr._memory.used import Used, guessed, planned
from taxpr._programs.listing import around
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as
from taxpr._transforms.question import question
from taxpr._untyped import np

_MUCH = 0.05  # the share of the residuals that makes a function worth a trial
_TRIED = 6  # functions
_ESTIMATE = (
    "An estimate from the program alone; memory(fun)(*args) asks XLA, which takes a compilation."
)
_WHOLE = (
    "These are the bytes of whole arrays; each of the {devices} devices may have only a part "
    "of them."
)
_NO_GRADIENT = "Nothing is kept for a derivative: ask of jax.grad(fun), or of a step of a training."


@question
def memory(fun: Any, *, compile: bool = True) -> Callable[..., MemoryUse]:
    """Show which variables and lines hold the memory at the peak of a call.

    The program is compiled as `jax.jit` does it, and not run. XLA says how much it needs and where
    each value lies; a row names the variable that held it, or the statement that made it. Buffers
    that XLA has added are shown as such. For a gradient, ``residuals`` lists the values kept for
    the backward pass, and the statements whose derivatives need them.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        compile: Whether to compile it. If not, the memory is estimated from the program alone, in a
            small part of the time that tracing takes; see `MemoryUse.estimated`.

    Returns:
        A function of the arguments of ``fun`` that returns a `MemoryUse`. Arguments may be
        `jax.ShapeDtypeStruct`, if the arrays do not fit.

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
    if not isinstance(fun, Program):
        refuse_no_function("memory", fun)
    if type(compile) is not bool:
        raise ArgumentError(f"memory: compile={compile!r}: give True, or False for an estimate.")

    def asked(*args: PyTree, **kwargs: PyTree) -> MemoryUse:
        def used_by(fun: Any, compiled: bool) -> tuple[Program, Attributions, Used]:
            if not compiled:
                program = program_of(fun, args, kwargs)
                return program, Attributions(program), guessed(program)
            call = compile_call(fun, args, kwargs, planned=True)
            words = Attributions(call.program)
            return call.program, words, planned(call, words)

        def needs(other: Any, compiled: bool) -> Needs:
            program, _, used = used_by(other, compiled)
            return _needs(program, used)

        program, words, used = used_by(fun, compile)
        kept, now = residuals(program.jaxpr), _needs(program, used)
        parts = Later(lambda: _parts(program, words, kept))
        devices = _devices(program, (args, kwargs))
        call = Asked(fun, args, kwargs, needs, now, compile, parts, devices)
        use = _answer(program, words, used, kept, devices, estimated=not compile)
        return dataclasses.replace(use, asked=call)

    return called_as(fun)(asked)


def _needs(program: Program, used: Used) -> Needs:
    return Needs(used.total - used.temporaries, used.temporaries, program.jaxpr)


def _parts(
    program: Program, words: Attributions, kept: Sequence[Residual]
) -> list[tuple[str, int]]:
    """The names of functions that make residuals, or call such functions, most bytes first."""
    made: dict[str, set[int]] = {}
    for number, one in enumerate(kept):
        for function in words.functions(one.address):
            parts = function.split(".")
            name = ".".join(parts[-2:] if parts[-1].startswith("__") else parts[-1:])
            if name != program.name and not name.startswith("<"):
                made.setdefault(name, set()).add(number)
    # Of functions that make the same the innermost one.
    names = {frozenset(numbers): name for name, numbers in reversed(made.items())}
    least = _MUCH * sum(one.bytes for one in kept)
    sizes = [(name, sum(kept[k].bytes for k in numbers)) for numbers, name in names.items()]
    large = [(name, size) for name, size in sizes if size > least]
    return sorted(large, key=lambda pair: -pair[1])[:_TRIED]


def _devices(program: Program, given: PyTree) -> int:
    """How many devices a call uses, by the largest mesh in it."""
    leaves = jax.tree.leaves(given)
    shardings = [getattr(leaf, "sharding", None) for leaf in leaves] or program.shardings
    meshes = meshes_in(program, shardings)
    return max((math.prod(one.values()) for one in meshes), default=1)


def _answer(
    program: Program,
    words: Attributions,
    used: Used,
    kept: Sequence[Residual],
    devices: int,
    *,
    estimated: bool,
) -> MemoryUse:
    whole = (_WHOLE.format(devices=devices),) if devices > 1 else ()
    # Residuals, and what is estimated, are whole arrays.
    maker = RowMaker(program, words, kept, 1 if estimated else devices)
    # Names take as long as an estimate, which may be asked for its numbers alone.
    rows = Later(lambda: maker.each(used.held))
    of_kept = Later(lambda: RowMaker(program, words, kept, 1).residuals(kept))
    size = sum(one.bytes for one in kept)
    of_gradient = Residuals(
        f"residuals of {program.name}: {size_text(size)}",
        Later(lambda: merged(of_kept, size)),
        whole if kept else (_NO_GRADIENT,),
        total=size,
        portions=Later(lambda: _portions(of_kept)),
    )
    about = "about " if estimated else ""
    alias = f" - {size_text(used.alias)} of donated arguments" if used.alias else ""
    headline = (
        f"memory of {program.name}: {about}{size_text(used.total)} = "
        f"{size_text(used.arguments)} arguments + {size_text(used.results)} results{alias} + "
        f"{size_text(used.temporaries)} temporaries"
    )
    if devices > 1 and not estimated:
        headline += f", on each of {devices} devices"
    return MemoryUse(
        headline,
        Later(lambda: merged(rows, used.total)),
        (_ESTIMATE, *whole, *used.notes) if estimated else (),
        total=used.total,
        arguments=used.arguments,
        results=used.results,
        alias=used.alias,
        temporaries=used.temporaries,
        residuals=of_gradient,
        portions=Later(lambda: _portions(rows)),
        line=np.array(used.line),
        steps=Later(lambda: [_step(equations, words) for equations in used.steps]),
        lives=Later(
            lambda: [(x.begin, x.end, row) for x in used.lives for row in maker.each([x.held])]
        ),
        loops=Later(
            lambda: [(begin, end, words.of(at).code if at else "") for at, begin, end in used.loops]
        ),
        devices=devices,
        estimated=estimated,
    )


def _portions(rows: Sequence[MemoryRow]) -> list[Portion]:
    return [Portion(row.bytes, row.address, row.line) for row in rows]


def _step(equations: Sequence[Address], words: Attributions) -> MemoryStep:
    # A loop that keeps what an equation in it makes is told by that equation.
    loops = {at for one in equations for at in around(one)}
    equations = [one for one in equations if one not in loops]
    told = [words.of(one) for one in equations]
    code = "; ".join(dict.fromkeys(one.code for one in told if one.code))
    return MemoryStep(told[-1].line if told else "", code, tuple(equations))
