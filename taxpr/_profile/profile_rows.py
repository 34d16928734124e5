"""`Profile` and its rows."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.portions import Portion
from taxpr._answers.tables import size_text
from taxpr._costs.quantities import quantity
from taxpr._profile.trace_file import TraceEvent, write_trace


@dataclasses.dataclass(frozen=True)
class ProfileRow:
    """A statement in `Profile`, or several that share a kernel.

    Attributes:
        seconds: How long its kernels took in the run that is told.
        share: Their share of the whole.
        variable: The variables that it bound; for a kernel that XLA has added, the variable that it
            copies, or makes room for.
        line: Its line.
        code: The statement; after ``∂`` the differentiated statement.
        iterations: How often its kernels ran: the iterations of the loops around it.
        shared: How many statements these kernels compute; 0 if XLA has added them, such as
            collectives between devices.
        least: The minimum over all runs.
        most: The maximum over all runs.
        flops: The operations of its equations, as often as they ran; None if some have an unknown
            number.
        bytes: The bytes that its kernels read and wrote.
        roof: The minimum time that the device needs for that, as a share of the measured time: 1 is
            the fastest possible. None if the measurement does not tell.
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
    flops: int | None
    bytes: int
    roof: float | None
    address: str
    equations: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class FunctionTimeRow:
    """A function in `Profile.by_function`, without the functions that it calls.

    Attributes:
        function: The function; several if a kernel computes statements of several; ``"XLA's own"``
            for kernels that XLA has added.
        seconds: How long its kernels took.
        share: Their share of the whole.
        flops: The operations of its equations; None if some have an unknown number.
        bytes: The bytes that its kernels read and wrote.
        roof: As in `ProfileRow`.
        statements: How many of its statements have kernels.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def square(x):
        ...     return x @ x
        >>> def f(x):
        ...     return jnp.sort(square(x))
        >>> found = taxpr.profile(f, runs=3)(jnp.ones((300, 300)))
        >>> sorted(row.function for row in found.by_function.rows if row.statements)
        ['f', 'square']
    """

    function: str
    seconds: float
    share: float
    flops: int | None
    bytes: int
    roof: float | None
    statements: int


@dataclasses.dataclass(frozen=True)
class KernelTime:
    """A kernel in `Profile.kernels`.

    Attributes:
        name: The name of its instruction.
        seconds: How long it took in the run that is told.
        runs: How often it ran.
        flops: The operations of its equations; None if some have an unknown number.
        bytes: The bytes that it read and wrote.
        least_seconds: The minimum time that the device needs for that; None if it is not known.
        functions: The functions of its statements.
        equations: The addresses of its equations.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> found = taxpr.profile(lambda x: x @ x, runs=1)(jnp.ones((300, 300)))
        >>> sum(kernel.flops for kernel in found.kernels)
        54000000
    """

    name: str
    seconds: float
    runs: int
    flops: int | None
    bytes: int
    least_seconds: float | None
    functions: tuple[str, ...]
    equations: tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ProfileByFunction(Answer):
    """The time of a profile by function; `Profile.by_function` has it.

    Attributes:
        wall: The seconds of the run that is told.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> taxpr.profile(lambda x: x @ x, runs=1)(jnp.ones((300, 300))).by_function.headline
        'time of <lambda> by function'
    """

    wall: float = 0.0

    def _shown(self) -> list[dict[str, Any]]:
        return [shown_work(row) for row in super()._shown()]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Profile(Answer):
    """How long each statement of a call takes; `profile` makes it.

    It shows the run with the median wall time. The seconds of all rows and ``idle`` add up to it.

    Attributes:
        wall: The seconds of that run, until all results were there.
        walls: The wall times of all runs, in order.
        coverage: The share of the wall time that has a statement or a variable.
        idle: The seconds without a kernel that the profiler knows.
        portions: The seconds of each kernel, in equal parts for its equations. With ``idle`` they
            add up to the wall time.
        peak_flops: The operations each second that the device can do, measured by a product of
            matrices of the program's type; None if the measurement does not tell.
        peak_bytes: The bytes each second that it can read and write, measured by a copy of a large
            array; `ProfileRow.roof` uses an array of about the size that a kernel reads.
        kernels: The kernels, in the order of the program.
        by_function: The same time by function.

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
    peak_flops: float | None = None
    peak_bytes: float | None = None
    kernels: Sequence[KernelTime] = ()
    by_function: ProfileByFunction = ProfileByFunction("time by function", [])
    _events: Sequence[TraceEvent] = dataclasses.field(default=(), repr=False)

    _columns = (
        *("seconds", "share", "variable", "line", "code", "iterations", "shared", "flops"),
        *("bytes", "roof"),
    )

    def save_trace(self, path: str | pathlib.Path) -> None:
        """Write when each kernel ran in all runs, by your statements, for Perfetto.

        Args:
            path: The file, such as ``"profile.json"`` or ``"profile.json.gz"``. Open it at
                https://ui.perfetto.dev.
        """
        write_trace(self._events, path)

    def _shown(self) -> list[dict[str, Any]]:
        return [shown_work(row) for row in super()._shown()]


def shown_work(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is shown; operations are left out if their number is 0 or unknown."""
    flops, roof = row["flops"], row["roof"]
    return {
        **row,
        "share": f"{row['share']:.1%}",
        "flops": quantity(flops, "FLOP") if flops else "",
        "bytes": size_text(row["bytes"]),
        "roof": "" if roof is None else f"{min(roof, 1):.0%}",
    }
