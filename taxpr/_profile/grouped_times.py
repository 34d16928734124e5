"""The time of kernels by statement, and by function."""

from collections.abc import Sequence

from taxpr._address import Address
from taxpr._compile_time.parts import function_name
from taxpr._kernels.kernels import Kernel
from taxpr._profile.profile_rows import FunctionTimeRow, KernelTime, ProfileByFunction, ProfileRow
from taxpr._profile.runs import ProfiledRun

_OWN = "XLA's own"


def by_function(
    name: str, every: Sequence[Kernel], times: Sequence[KernelTime], wall: float
) -> ProfileByFunction:
    """The time by function; kernels of several functions have a row for all together."""
    owners = [_owners(one) for one in every]
    files: dict[str, set[str]] = {}
    for function, file in set[tuple[str, str]]().union(*owners):
        files.setdefault(function, set()).add(file)
    groups: dict[str, list[int]] = {}
    for k, one in enumerate(times):
        names = [
            f"{function} ({file})" if len(files[function]) > 1 else function
            for function, file in sorted(owners[k])
        ]
        if one.seconds:
            groups.setdefault(", ".join(names) or _OWN, []).append(k)
    rows: list[FunctionTimeRow] = []
    for function, numbers in groups.items():
        lines = {one.line for k in numbers for one in every[k].statements}
        flops, moved, seconds, roof = _together([times[k] for k in numbers])
        rows.append(
            FunctionTimeRow(function, seconds, seconds / wall, flops, moved, roof, len(lines))
        )
    rows.sort(key=lambda row: -row.seconds)
    return ProfileByFunction(f"time of {name} by function", rows, wall=wall)


def _owners(kernel: Kernel) -> set[tuple[str, str]]:
    """The functions of the statements of a kernel, with their files."""
    return {
        (function_name(one.function), one.line.rpartition(":")[0])
        for one in kernel.statements
        if one.function
    }


def _together(times: Sequence[KernelTime]) -> tuple[int | None, int, float, float | None]:
    """The operations, bytes and seconds of kernels, and how near they are to the roof."""
    flops = None if any(one.flops is None for one in times) else sum(x.flops or 0 for x in times)
    seconds = sum(one.seconds for one in times)
    least = [one.least_seconds for one in times]
    known = [one for one in least if one is not None]
    roof = sum(known) / seconds if seconds and len(known) == len(least) else None
    return flops, sum(one.bytes for one in times), seconds, roof


def by_statement(
    every: Sequence[Kernel],
    times: Sequence[KernelTime],
    runs: Sequence[ProfiledRun],
    told: ProfiledRun,
) -> list[ProfileRow]:
    """The statements with the seconds of the run that is told, the longest first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for k, kernel in enumerate(every):
        variable, line, code = kernel.told
        groups.setdefault((line, code or variable or _own_name(kernel)), []).append(k)
    rows = [
        _row([every[k] for k in numbers], [times[k] for k in numbers], runs, told)
        for numbers in groups.values()
    ]
    return sorted((row for row in rows if row.seconds), key=lambda row: -row.seconds)


def _row(
    kernels: Sequence[Kernel],
    own: Sequence[KernelTime],
    runs: Sequence[ProfiledRun],
    told: ProfiledRun,
) -> ProfileRow:
    flops, moved, seconds, roof = _together(own)
    names = [one.instruction.name for one in kernels]
    times = [run.seconds(names) for run in runs]
    _, line, code = kernels[0].told
    variables = [name for one in kernels for name in one.told[0].split(", ")]
    equations = dict.fromkeys(address for one in kernels for address in one.equations)
    return ProfileRow(
        seconds,
        seconds / told.wall,
        ", ".join(dict.fromkeys(filter(None, variables))),
        line,
        code or _own_name(kernels[0]),
        max(one.runs for one in own),
        len(kernels[0].statements),
        min(times),
        max(times),
        flops,
        moved,
        roof,
        next(iter(equations), Address()),
        tuple(equations),
    )


def _own_name(kernel: Kernel) -> str:
    """XLA's name for a kernel that it has added without a known purpose."""
    return "" if kernel.statements else f"{_OWN} {kernel.instruction.opcode}"
