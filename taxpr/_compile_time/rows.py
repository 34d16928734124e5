"""`CompileTime` and its rows."""

import dataclasses
from collections.abc import Mapping, Sequence

from taxpr._answers.answer import Answer


@dataclasses.dataclass(frozen=True)
class CompileTimeRow:
    """A function or a statement in `CompileTime`.

    Attributes:
        function: The user's function, without the user's functions that it calls; "" for equations
            whose source is not known.
        line: The line of the statement; for a function, its statement with most equations.
        code: That statement.
        seconds: How long all stages took: tracing, and its equations lowered and compiled alone.
        stage: The stage that took longest: ``"trace"``, ``"lower"`` or ``"compile"``.
        equations: How many equations it made; each in a loop or branch counts once.
        trace: The seconds of tracing; 0 for a statement, since they are not known.
        lower: The seconds of lowering.
        compile: The seconds of XLA.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def wave(x):
        ...     for k in range(200):
        ...         x = jnp.sin(x * k)
        ...     return x
        >>> rows = taxpr.compile_time(lambda x: wave(x) + 1)(1.0).rows
        >>> rows[0].function, rows[0].code, rows[0].equations
        ('wave', 'x = jnp.sin(x * k)', 400)
    """

    function: str
    line: str
    code: str
    seconds: float
    stage: str
    equations: int
    trace: float
    lower: float
    compile: float


@dataclasses.dataclass(frozen=True)
class UnrolledRow:
    """A Python loop in `CompileTime`; the program holds all of its iterations.

    Attributes:
        function: Its function.
        line: Its line.
        code: Its head.
        iterations: The number of iterations; a loop within others counts all its runs together.
        within: Whether it is within another loop.
        equations: How many equations that made.
        seconds: Their share of lowering and compiling the whole, by their times alone.
        as_scan: How long a `jax.lax.scan` in its place takes; None if the iterations are not alike.
            In a gradient this is ``seconds`` less what the whole saves with the scan; None if a
            `Program` is given, which cannot be changed.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     for _ in range(50):
        ...         x = jnp.sin(x) * 2
        ...     return x
        >>> [loop] = taxpr.compile_time(f)(1.0).loops
        >>> loop.iterations, loop.code, loop.as_scan is None
        (50, 'for _ in range(50)', False)
    """

    function: str
    line: str
    code: str
    iterations: int
    within: bool
    equations: int
    seconds: float
    as_scan: float | None


@dataclasses.dataclass(frozen=True)
class ConstantRow:
    """A large constant in `CompileTime`, an array that the function closes over.

    Attributes:
        variable: The variable that holds it; "" if unknown.
        bytes: Its size.
        seconds: The time to lower and compile a program that holds only this constant.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> table = jnp.ones((512, 1024))
        >>> [row] = taxpr.compile_time(lambda x: x * table)(1.0).constants
        >>> row.variable, row.bytes
        ('table', 2097152)
    """

    variable: str
    bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CompileTime(Answer):
    """The time that a function takes to compile, by part; `compile_time` makes it.

    Attributes:
        stages: The seconds of the whole, by stage.
        loops: The Python loops that were unrolled, the slowest first.
        constants: The large constants.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> found = taxpr.compile_time(lambda x: jnp.sin(x) + 1)(1.0)
        >>> list(found.stages), found.rows[0].equations
        (['trace', 'lower', 'compile'], 2)
    """

    stages: Mapping[str, float] = dataclasses.field(default_factory=dict[str, float])
    loops: Sequence[UnrolledRow] = ()
    constants: Sequence[ConstantRow] = ()

    _columns = "function", "seconds", "stage", "equations", "line", "code"
