"""`compile_time`: find the functions that are slow to trace, lower and compile."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._answers.progress import Progress, Tells
from taxpr._compat import PyTree
from taxpr._compile_time.alone import Spent, of_nothing, spent, spent_alone
from taxpr._compile_time.loop_body import LoopBody
from taxpr._compile_time.parts import CompiledPart, Parts, function_of, statement_of
from taxpr._compile_time.rolled import scan_alone, with_scans
from taxpr._compile_time.rows import CompileTime, CompileTimeRow, ConstantRow, UnrolledRow
from taxpr._compile_time.sampled import NOTHING, Sampled, sampled
from taxpr._compile_time.unrolled import Unrolled, unrolled
from taxpr._compiled.exhausted import saying_what_is_exhausted
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, trace
from taxpr._transforms.question import question
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_BY = {"function": function_of, "statement": statement_of}
# Compiles the whole with the loops of a function, by its name, as scans; returns these loops, too.
Scanned = Callable[[str], tuple[Spent, list[LoopBody]]]
_STAGES = "trace", "lower", "compile"
_DIFFERS = 0.2  # of the whole, from where on it is told that the sum of the parts is another
_LARGE = 1 << 20  # bytes of a constant that is told
_TIMES = 3  # times the whole, after which no more parts are compiled alone
_SHORT = 20.0  # seconds that they may take in any case
_WORTH = 0.05  # the share of the whole from which on a loop is told
_LATE = (
    "Compiling parts alone took longer than three times the whole and ended early: {left}scans in "
    "place of loops have no times. Ask for a function of yours alone to have them."
)
_LEFT = "{left} of {every} parts, the smallest, with {share:.0%} of the equations, and "


@question
def compile_time(
    fun: Any, *, by: str = "function", progress: Tells = None
) -> Callable[..., CompileTime]:
    """Say which functions make tracing, lowering and compiling slow. Nothing is run.

    The function is traced and compiled once as a whole. Then the equations that each of the user's
    functions made are compiled alone, less the time of an empty program. A sampler looks every few
    milliseconds which function is running, and so divides the time of tracing. All this takes about
    twice as long as compiling, and once more for Python loops. After three times as long as
    compiling, and 20 seconds at least, no more parts are compiled: those with most equations come
    first, and a note tells how many are left out.

    Args:
        fun: A function of PyTrees of arrays, also a jitted one; or a `Program`, which is traced.
        by: ``"function"``, or ``"statement"`` for the statements of all functions.
        progress: Called with the number of parts done and the total; False says nothing. None
            writes to stderr after one second.

    Returns:
        A function of the arguments of ``fun`` that returns a `CompileTime`, with a
        `CompileTimeRow` for each function or statement, the slowest first. If it is stopped, the
        rows so far are kept.

    Raises:
        ArgumentError: If ``by`` is something else.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def slow(x):
        ...     for k in range(200):
        ...         x = jnp.cos(x) * k
        ...     return x
        >>> def model(x):
        ...     return slow(jnp.sin(x))
        >>> found = taxpr.compile_time(model)(jnp.ones(3))
        >>> [row.function for row in found.rows], found.rows[0].equations
        (['slow', 'model'], 400)
    """
    if by not in [*_BY]:
        raise ArgumentError(f"compile_time: by={by!r} is not one of {', '.join(map(repr, _BY))}.")
    if not isinstance(fun, Program):
        refuse_no_function("compile_time", fun)

    def timed(*args: PyTree, **kwargs: PyTree) -> CompileTime:
        def with_its_scans(name: str) -> tuple[Spent, list[LoopBody]]:
            found: list[LoopBody] = []
            other = trace(with_scans(fun, name, found))(*args, **kwargs)
            structs = other.structs(args, dict(kwargs))
            return spent(_compat.jaxpr_as_fun(other.jaxpr), structs), found

        if isinstance(fun, Program):
            program, tracing, scanned = fun, NOTHING, None
        else:
            program, tracing = sampled(lambda: trace(fun)(*args, **kwargs))
            scanned = with_its_scans
        structs = program.structs(args, dict(kwargs))
        with saying_what_is_exhausted(program.name, "compiling"):
            return _timed(program, tracing, by, structs, progress, scanned)

    return called_as(fun)(timed)


def _timed(
    program: Program,
    tracing: Sampled,
    by: str,
    structs: Sequence[Any],
    progress: Tells,
    scanned: Scanned | None,
) -> CompileTime:
    parts = Parts(program, _BY[by])
    loops = unrolled(parts.made)
    large = [one for one in program.consts if np.size(one) * one.dtype.itemsize >= _LARGE]
    whole, least = Spent(0.0, 0.0), of_nothing()
    times: dict[int, Spent] = {}  # by the number of the part
    left, left_out = 0.0, list[str]()
    worth: list[tuple[Unrolled, UnrolledRow]] = []
    constants: list[ConstantRow] = []
    skipped: list[int] = []
    counts, late = [one.count for one in parts.found], False
    steps = Progress("compile_time", 1 + len(parts.found) + len(loops) + len(large), progress)
    with steps:
        for _ in steps.over(range(1)):
            whole = spent(_compat.jaxpr_as_fun(program.jaxpr), structs)
        end = time.monotonic() + max(_SHORT, _TIMES * whole.total)
        for k in steps.over(sorted(range(len(counts)), key=lambda k: -counts[k])):
            part = parts.found[k]
            if late := bool(times) and time.monotonic() > end:
                skipped.append(k)
                continue
            try:
                times[k] = _alone(part, least)
            except Exception as error:  # such as equations that need the axes of a mesh around
                name = part.owner.code or part.owner.function or "code without a source"
                left_out.append(f"{name} cannot be compiled alone: {str(error).splitlines()[0]}")
        if not late:
            _compile_again(parts.found, times, least)
        left = sum(counts[k] for k in skipped) / max(sum(counts), 1)
        of_parts = (1 - left) * whole.total
        for loop in steps.over(loops):
            late = late or time.monotonic() > end
            row = _row_of_loop(loop, parts.found, times, of_parts, None if late else least)
            worth += [(loop, row)] if row.seconds >= _WORTH * whole.total else []
        worth = _with_scans(worth, whole, scanned) if scanned and not late else worth
        for one in steps.over(large):
            name, size = program.const_name(one), np.size(one) * one.dtype.itemsize
            alone = spent(functools.partial(_constant, one), ()).without(least)
            constants.append(ConstantRow(name, size, alone.total))
    rows = [_row(part, times[k], tracing) for k, part in enumerate(parts.found) if k in times]
    rows.sort(key=lambda row: -row.seconds)
    if late:
        parts_left = _LEFT.format(left=len(skipped), every=len(counts), share=left)
        left_out.insert(0, _LATE.format(left=parts_left if skipped else ""))
    # Only of all parts is the sum compared with the whole.
    known = whole.total if late else sum(row.lower + row.compile for row in rows)
    told = sorted((row for _, row in worth), key=lambda row: -row.seconds)
    stages: dict[str, float] = dict(zip(_STAGES, (tracing.seconds, *whole), strict=True))
    each = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in stages.items())
    return CompileTime(
        f"compile time of {program.name}: {each}",
        rows,
        (*_notes(known, whole.total, told, constants, left_out), *filter(None, [steps.note])),
        not (steps.stopped or late),
        stages=stages,
        loops=told,
        constants=constants,
    )


def _constant(value: Any) -> Any:
    return value


def _alone(part: CompiledPart, least: Spent) -> Spent:
    each = [spent_alone(one).without(least) for one in part.pieces]
    return Spent(sum(one.lower for one in each), sum(one.compile for one in each))


def _compile_again(parts: Sequence[CompiledPart], times: dict[int, Spent], least: Spent) -> None:
    """Compile the slowest part again if another one has more equations.

    The machine may have paused meanwhile. So the minimum of both times counts.
    """
    sure: set[int] = set()
    while times:
        slowest = max(times, key=lambda k: times[k].total)
        if slowest in sure or all(parts[k].count <= parts[slowest].count for k in times):
            return
        sure.add(slowest)
        times[slowest] = min(times[slowest], _alone(parts[slowest], least), key=sum)


def _row(part: CompiledPart, alone: Spent, tracing: Sampled) -> CompileTimeRow:
    line, code = part.slowest
    traced = 0.0 if part.owner.code else tracing.of(part.owner.file, part.owner.function)
    each = dict(zip(_STAGES, (traced, *alone), strict=True))
    slowest = max(each, key=each.__getitem__)
    total = sum(each.values())
    return CompileTimeRow(
        part.owner.function, line, code, total, slowest, part.count, *each.values()
    )


def _row_of_loop(
    loop: Unrolled,
    parts: Sequence[CompiledPart],
    times: Mapping[int, Spent],
    whole: float,
    least: Spent | None,
) -> UnrolledRow:
    """A loop, with its share of the whole, and the time of a scan; None without a least time."""
    each = {
        id(eqn): times[k].total / max(sum(len(one.eqns) for one in part.pieces), 1)
        for k, part in enumerate(parts)
        if k in times
        for one in part.pieces
        for eqn in one.eqns
    }
    share = sum(each.get(id(eqn), 0.0) for eqn in loop.eqns) / max(sum(each.values()), 1e-9)
    seconds = share * whole
    as_scan = None
    with contextlib.suppress(Exception):  # its iterations differ, or need what is around it
        as_scan = spent(*scan_alone(loop)).without(least).total if least else None
    return UnrolledRow(
        loop.function,
        loop.place,
        loop.code,
        loop.iterations,
        loop.within,
        len(loop.eqns),
        seconds,
        as_scan,
    )


def _with_scans(
    loops: Sequence[tuple[Unrolled, UnrolledRow]], whole: Spent, scanned: Scanned
) -> list[tuple[Unrolled, UnrolledRow]]:
    """Loops with their rows, also with scans of those that cannot be compiled alone.

    A loop in a gradient is in its forward and its backward pass. So the whole is compiled with the
    loops of a function as scans: how much less that takes is shared by these loops.
    """
    kept: dict[tuple[str, str], float] = {}
    for name in dict.fromkeys(loop.name for loop, row in loops if row.as_scan is None):
        with contextlib.suppress(Exception):  # its iterations differ
            taken, found = scanned(name)
            places = {(one.loop.place, one.loop.code) for one in found}
            seconds = sum(row.seconds for _, row in loops if (row.line, row.code) in places)
            share = max(seconds - (whole.total - taken.total), 0.0) / seconds
            kept.update(dict.fromkeys(places, share))
    return [
        (loop, dataclasses.replace(row, as_scan=row.seconds * kept[row.line, row.code]))
        if row.as_scan is None and (row.line, row.code) in kept
        else (loop, row)
        for loop, row in loops
    ]


def _as_scan(row: UnrolledRow) -> str:
    if row.as_scan is None:
        return ""
    return f" As a jax.lax.scan {row.as_scan:.2f} s."


def _notes(
    known: float,
    whole: float,
    loops: Sequence[UnrolledRow],
    constants: Sequence[ConstantRow],
    left_out: Sequence[str],
) -> list[str]:
    notes = [
        f"`{row.code}` ({row.line}) is unrolled: {row.iterations} iterations"
        f"{' in all' if row.within else ''}, {row.equations} equations, "
        f"{row.seconds:.2f} s.{_as_scan(row)}"
        for row in loops
    ]
    notes += [
        f"The constant {row.variable or 'without a name'} has {row.bytes / 1e6:.1f} MB and takes "
        f"{row.seconds:.2f} s: give it as an argument."
        for row in constants
    ]
    if whole and abs(known - whole) > _DIFFERS * whole:
        notes.append(
            f"The parts take {known:.2f} s to lower and compile alone, and {whole:.2f} s together: "
            "XLA does less, or more, with all of them at hand."
        )
    if _jax.config.jax_compilation_cache_dir:
        notes.append("JAX's cache on disk is on: what is in it was not compiled.")
    return [*notes, *dict.fromkeys(left_out)]
