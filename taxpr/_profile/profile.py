"""`profile`: measure how long each statement of a call takes."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from taxpr._address import Address
from taxpr._answers.count_of import count_of
from taxpr._answers.portions import Portion
from taxpr._answers.progress import Progress, Tells
from taxpr._compat import PyTree
from taxpr._compile_time.parts import function_name
from taxpr._compiled.attribution import Attribution, Attributions
from taxpr._compiled.compile_call import CompiledCall, compile_call
from taxpr._costs.quantities import quantity
from taxpr._errors import ArgumentError, RefusedError, refuse_no_function
from taxpr._kernels.collectives import collectives
from taxpr._kernels.kernels import Kernel, Kernels
from taxpr._profile.grouped_times import by_function, by_statement
from taxpr._profile.profile_rows import KernelTime, Profile
from taxpr._profile.roof import Roof, roof_of
from taxpr._profile.runs import ProfiledRun, runs_of
from taxpr._profile.trace_file import TraceEvent
from taxpr._profile.work import Work
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as
from taxpr._transforms.question import question

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
_ROOF = (
    "`roof` is the minimum time that the device needs for the operations and bytes of a row, as "
    "a share of the time that it took. Measured here: {flops} in a matmul, {bytes} in a "
    "copy of a large array."
)
_NOTHING = (
    "profile: the profiler has recorded no kernel of {name} on {platform}, so that it cannot say "
    "what took the {wall}. taxpr.compiled tells which kernels there are."
)
# Graphs of kernels are started as one, and what they run has no names.
_ON_GPU = {"xla_gpu_enable_command_buffer": ""}
_GPU_NOTE = "Command buffers of the GPU are switched off, so that each kernel has a time."


@question
def profile(fun: Any, *, runs: int = 10, progress: Tells = None) -> Callable[..., Profile]:
    """Measure how long each statement of a call takes.

    The program is compiled as `jax.jit` does it, and run under JAX's profiler. The time of a kernel
    belongs to the statements that XLA has put into it. Kernels that run at the same time share it
    equally. Time that the profiler cannot attribute is never divided among the rest: see
    `Profile.coverage`.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        runs: How often it is run, after a run that is not measured.
        progress: Called with the number of runs done and the total; False says nothing. None writes
            to stderr after one second.

    Returns:
        A function of the arguments of ``fun`` that returns a `Profile`, with a `ProfileRow` for
        each statement, the longest first. Objects that the function changes are left unchanged, and
        donated arguments are copied. If it is stopped, the finished runs are told.

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
    if not isinstance(fun, Program):
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
    named = told.seconds(k.instruction.name for k in every if any(k.told[:2]))
    coverage = named / told.wall
    idle = told.wall - busy
    roof, work = None, Work(call, every)
    if every and busy < SHORT:
        notes = (_TOO_SHORT.format(time=time_text(busy), wall=time_text(told.wall)), *notes)
    elif coverage < _LOW:
        notes = (_REST.format(idle=idle / told.wall, added=(busy - named) / told.wall), *notes)
    elif len(devices := call.executable.runtime_executable().local_devices()) == 1:
        roof = roof_of(devices[0], tuple(work.dtypes))
    times = [_kernel_time(one, told, work, roof) for one in every]
    rows = by_statement(every, times, runs, told)
    if any(row.shared > 1 for row in rows):
        notes = (*notes, _SHARED)
    if roof:
        peak = max(roof.flops.values())
        notes = (
            *notes,
            _ROOF.format(
                flops=quantity(peak, "FLOP/s"), bytes=quantity(min(roof.bytes.values()), "B/s")
            ),
        )
    walls = tuple(run.wall for run in runs)
    spread = f"{time_text(min(walls))} to {time_text(max(walls))} in {count_of(len(walls), 'run')}"
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
        peak_flops=max(roof.flops.values()) if roof else None,
        peak_bytes=min(roof.bytes.values()) if roof else None,
        kernels=times,
        by_function=by_function(call.program.name, every, times, told.wall),
        _events=_events(call.program.name, every, runs),
    )


def _kernel_time(kernel: Kernel, told: ProfiledRun, work: Work, roof: Roof | None) -> KernelTime:
    each, runs = work.of(kernel), _iterations(kernel, told)
    functions = dict.fromkeys(function_name(one.function) for one in kernel.statements)
    return KernelTime(
        kernel.instruction.name,
        told.kernels.get(kernel.instruction.name, 0.0),
        runs,
        runs * sum(each.flops.values()) if each.known else None,
        runs * each.bytes,
        runs * roof.least(each.flops, each.bytes) if roof and each.known else None,
        tuple(filter(None, functions)),
        kernel.equations,
    )


def _events(
    name: str, every: Sequence[Kernel], runs: Sequence[ProfiledRun]
) -> Sequence[TraceEvent]:
    """When each run and each kernel ran, by the names of statements."""
    kernels = {one.instruction.name: one for one in every}
    found: list[TraceEvent] = []
    for number, run in enumerate(runs):
        begin, end = run.begin, run.begin + run.wall * 1e9
        found.append(TraceEvent(f"{name}, run {number + 1}", "runs", begin, end, {}))
        for one in run.spans:
            variable, line, code = kernels[one.kernel].told if one.kernel in kernels else ("",) * 3
            args = {"line": line, "variable": variable, "kernel": one.kernel}
            found.append(TraceEvent(code or one.kernel, one.thread, one.begin, one.end, args))
    return found


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
    """The kernels of a call; collectives are described by their kind."""
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


def _iterations(kernel: Kernel, run: ProfiledRun) -> int:
    """How often a kernel ran: in a branch less often than the loops around it."""
    seen = run.counts.get(kernel.instruction.name, 0)
    return seen if kernel.times is None else min(seen, kernel.times)


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
