"""`profile`: how long each statement of a call takes, measured."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._answers.portions import Portion
from taxpr._answers.progress import Progress, Tells
from taxpr._compat import PyTree
from taxpr._compiled.attribution import Attribution, Attributions
from taxpr._compiled.compile_call import CompiledCall, compile_call
from taxpr._errors import ArgumentError, RefusedError, refuse_no_function
from taxpr._kernels.collectives import collectives
from taxpr._kernels.kernels import Kernel, Kernels
from taxpr._profile.runs import ProfiledRun, runs_of
from taxpr._programs.functions import called_as
from taxpr._programs.question import question

SHORT = 1e-4  # seconds of kernels, below which a run is too short to be divided
_LOW = 0.85  # the coverage below which it is said what the rest is
_TOO_SHORT = (
    "All kernels together take {time}, which is too short to be divided: most of the {wall} is "
    "spent to start them. Give larger arguments, or a function that does it many times, as by "
    "jax.lax.scan."
)
_REST = (
    "{idle:.0%} of the time ran no kernel that the profiler knows: kernels were started, or a "
    "processor was awaited; {added:.0%} was XLA's own."
)
_SHARED = (
    "Where `shared` is more than 1, one kernel computes several statements, and nothing says which "
    "part of its time is whose."
)
_NOTHING = (
    "profile: the profiler has recorded no kernel of {name} on {platform}, so that it cannot say "
    "what took the {wall}. taxpr.compiled tells which kernels there are."
)
# Graphs of kernels are started as one, and what they run has no names.
_ON_GPU = {"xla_gpu_enable_command_buffer": ""}
_GPU_NOTE = "Command buffers of the GPU are switched off, so that each kernel has a time."


@dataclasses.dataclass(frozen=True)
class ProfileRow:
    """A statement in `Profile`, or several that are one kernel.

    Attributes:
        seconds: How long its kernels took in the run that is told.
        share: Which share of the whole that is.
        variable: The variables that it bound; of what XLA has added what it copies, or makes room
            for.
        line: Its line.
        code: The statement; after ``∂`` that of which it computes the derivative.
        iterations: How often its kernels ran: the iterations of the loops around it.
        shared: How many statements these kernels compute; 0 of what XLA has added, such as
            collectives between devices.
        least: The seconds in the run in which it took least.
        most: The seconds in the run in which it took most.
        address: The first of its equations.
        equations: The addresses of all.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = x @ x
        ...     return jnp.sum(y)
        >>> row = taxpr.profile(f, runs=3)(jnp.ones((300, 300))).rows[0]
        >>> row.least <= row.seconds <= row.most, "x @ x" in row.code
        (True, True)
    """

    seconds: float
    share: float
    variable: str
    line: str
    code: str
    iterations: int
    shared: int
    least: float
    most: float
    address: str
    equations: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Profile(Answer):
    """How long each statement of a call takes; `profile` makes it.

    It tells one run: that whose wall time is the median. The seconds of all rows and ``idle`` are
    its wall time.

    Attributes:
        wall: The seconds of that run, until all results were there.
        walls: Those of all runs, in order.
        coverage: The share of the wall time that has a statement or a variable.
        idle: The seconds in which no kernel ran that the profiler knows.
        portions: The seconds of each kernel by its equations, which have equal parts of it. These
            and ``idle`` are its wall time.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> found = taxpr.profile(lambda x: jnp.sum(x @ x), runs=3)(jnp.ones((300, 300)))
        >>> abs(sum(row.seconds for row in found.rows) + found.idle - found.wall) < 1e-9
        True
        >>> 0 < found.coverage <= 1
        True
    """

    wall: float = 0.0
    walls: tuple[float, ...] = ()
    coverage: float = 0.0
    idle: float = 0.0
    portions: Sequence[Portion] = ()

    _columns = "seconds", "share", "variable", "line", "code", "iterations", "shared"

    def _shown(self) -> list[dict[str, Any]]:
        return [{**row, "share": f"{row['share']:.1%}"} for row in super()._shown()]


@question
def profile(fun: Any, *, runs: int = 10, progress: Tells = None) -> Callable[..., Profile]:
    """Measure how long each statement of a call takes.

    The program is compiled as `jax.jit` does it, and run under JAX's profiler. The time of each
    kernel is that of the statements that XLA has put into it. What runs at the same time has equal
    parts of it. What the profiler does not know is never divided among the rest: see
    `Profile.coverage`.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        runs: How often it is run, after a run that is not measured.
        progress: Called with the numbers of runs that are done and of all; False says nothing. None
            writes to stderr what takes longer than a second.

    Returns:
        A function of the arguments of ``fun`` that returns a `Profile`, with a `ProfileRow` for
        each statement, the longest first. What the function changes of its arguments stays as it
        is, and of what it donates it gets copies. Where it is stopped, the runs that are done are
        told.

    Raises:
        RefusedError: If there is no profiler, or another profile is running.
        ArgumentError: If an argument is a type without values.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def loss(w, x):
        ...     h = x @ w
        ...     total = jnp.sum(h)
        ...     return total
        >>> found = taxpr.profile(loss, runs=3)(jnp.ones((256, 512)), jnp.ones((512, 256)))
        >>> found.rows[0].code.split(";")[0]
        'h = x @ w'
    """
    if not hasattr(fun, "jaxpr"):
        refuse_no_function("profile", fun)
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        raise ArgumentError(f"profile: runs={runs!r}: give a number of runs, such as 10.")

    def asked(*args: PyTree, **kwargs: PyTree) -> Profile:
        for leaf in jax.tree.leaves((args, kwargs)):
            if isinstance(leaf, jax.ShapeDtypeStruct):
                raise ArgumentError(
                    f"profile: an argument is {leaf}, which has no values, and the function is "
                    "run. Give arrays, as jnp.ones(shape, dtype)."
                )
        on_gpu = jax.default_backend() == "gpu"
        call = compile_call(fun, args, kwargs, _ON_GPU if on_gpu else None)
        steps = Progress("profile", runs, progress)
        found = runs_of(call, call.program.flat(args, kwargs), steps, runs)
        if not found:
            raise KeyboardInterrupt
        notes = (steps.note, _GPU_NOTE if on_gpu else "")
        return _answer(call, found, tuple(filter(None, notes)), not steps.stopped)

    return called_as(fun)(asked)


def _answer(
    call: CompiledCall, runs: Sequence[ProfiledRun], notes: tuple[str, ...], complete: bool
) -> Profile:
    kernels = Kernels(call)
    every = _with_collectives(kernels)
    told = sorted(runs, key=lambda run: run.wall)[(len(runs) - 1) // 2]
    busy = sum(told.kernels.values())
    if every and not any(run.kernels for run in runs):
        platform = call.executable.runtime_executable().local_devices()[0].platform
        raise RefusedError(
            _NOTHING.format(name=call.program.name, platform=platform, wall=time_text(told.wall))
        )
    rows = _rows(every, runs, told)
    named = sum(row.seconds for row in rows if row.line or row.variable)
    coverage = named / told.wall
    idle = told.wall - busy
    if every and busy < SHORT:
        notes = (_TOO_SHORT.format(time=time_text(busy), wall=time_text(told.wall)), *notes)
    elif coverage < _LOW:
        notes = (_REST.format(idle=idle / told.wall, added=(busy - named) / told.wall), *notes)
    if any(row.shared > 1 for row in rows):
        notes = (*notes, _SHARED)
    walls = tuple(run.wall for run in runs)
    spread = f"{time_text(min(walls))} to {time_text(max(walls))} in {len(walls)} runs"
    headline = (
        f"profile of {call.program.name}: {time_text(told.wall)} ({spread}), {coverage:.0%} of it "
        "by statement"
    )
    return Profile(
        headline,
        rows,
        notes,
        complete,
        wall=told.wall,
        walls=walls,
        coverage=coverage,
        idle=idle,
        portions=[part for one in every for part in _portions(one, kernels.words, told)],
    )


def _portions(kernel: Kernel, words: Attributions, told: ProfiledRun) -> Iterator[Portion]:
    seconds = told.kernels.get(kernel.instruction.name, 0.0)
    if not kernel.equations or kernel.added is not None:
        of = kernel.added
        yield Portion(seconds, of.address if of else "", of.line if of else "")
        return
    for address in kernel.equations:
        each, shared = seconds / len(kernel.equations), len(kernel.statements) > 1
        yield Portion(each, address, words.of(address).line, shared)


def _with_collectives(kernels: Kernels) -> list[Kernel]:
    """The kernels of a call; those that move values between devices are told by what they do."""
    moved = collectives(kernels)
    found: list[Kernel] = []
    for one in kernels.every:
        row = moved.get(one.instruction.name)
        if row is not None:
            what = f"{row.kind} of {row.moves or 'a value'} for {row.code}"
            added = Attribution(row.variable, row.line, what, Address(row.address))
            one = dataclasses.replace(one, statements=(), added=added)
        found.append(one)
    return found


def _rows(
    every: Sequence[Kernel], runs: Sequence[ProfiledRun], told: ProfiledRun
) -> list[ProfileRow]:
    """The statements with the seconds of the run that is told, the longest first."""
    groups: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in every:
        variable, line, code = kernel.told
        groups.setdefault((line, code or variable or _own_name(kernel)), []).append(kernel)
    rows = [_row(kernels, runs, told) for kernels in groups.values()]
    return sorted((row for row in rows if row.seconds), key=lambda row: -row.seconds)


def _row(kernels: Sequence[Kernel], runs: Sequence[ProfiledRun], told: ProfiledRun) -> ProfileRow:
    names = [one.instruction.name for one in kernels]
    times = [_sum(run.kernels, names) for run in runs]
    _, line, code = kernels[0].told
    variables = [name for one in kernels for name in one.told[0].split(", ")]
    equations = dict.fromkeys(address for one in kernels for address in one.equations)
    seconds = _sum(told.kernels, names)
    return ProfileRow(
        seconds,
        seconds / told.wall,
        ", ".join(dict.fromkeys(filter(None, variables))),
        line,
        code or _own_name(kernels[0]),
        max(_iterations(one, told) for one in kernels),
        len(kernels[0].statements),
        min(times),
        max(times),
        next(iter(equations), Address()),
        tuple(equations),
    )


def _own_name(kernel: Kernel) -> str:
    """What XLA calls something that it has added, and of which no more is known."""
    return "" if kernel.statements else f"XLA's own {kernel.instruction.opcode}"


def _iterations(kernel: Kernel, run: ProfiledRun) -> int:
    """How often a kernel ran: in a branch less often than the loops around it."""
    seen = run.counts.get(kernel.instruction.name, 0)
    return seen if kernel.times is None else min(seen, kernel.times)


def _sum(times: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(times.get(name, 0.0) for name in names)


def time_text(seconds: float) -> str:
    """A time for people.

    Example:
        >>> time_text(0.00123), time_text(75.0)
        ('1.23 ms', '75 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
