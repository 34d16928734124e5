"""`compiled`: what XLA made of a call, in the user's words."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._answers.tables import size_text
from taxpr._compat import PyTree
from taxpr._compiled.compile_call import CompiledCall, compile_call
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._kernels.changes import CompiledChanges, changes
from taxpr._kernels.collectives import CollectiveRow, Collectives, collectives
from taxpr._kernels.kernels import Kernel, Kernels
from taxpr._programs.functions import called_as
from taxpr._programs.program import Program
from taxpr._programs.question import question

_MOVED = "What moves between devices, along which axes and for which statement: .collectives"
_REMOVED = (
    "XLA has computed them beforehand, made one equation of them and others, or left them out; or "
    "they only give a value another shape."
)


@dataclasses.dataclass(frozen=True)
class KernelRow:
    """A kernel in `Compiled`: an instruction that XLA runs, with all that it has put into it.

    Attributes:
        kind: What XLA calls it, such as ``"fusion"``, ``"dot"`` or ``"copy"``.
        variable: The variables that its statements bound; of a copy of XLA's own what is copied.
        line: Their lines.
        code: The statements; "" of what XLA has added, or what it copies.
        shared: How many statements it computes: 0 of what XLA has added.
        times: How often it runs in a call; None where a loop goes on until a condition is false.
        bytes: The size of what it writes, in all these times.
        address: The first of its equations.
        equations: The addresses of all.
        instruction: XLA's name of it.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> [row] = taxpr.compiled(f)(jnp.ones(50)).rows
        >>> row.shared, row.equations, row.bytes
        (2, ('0:sin', '1:mul'), 200)
    """

    kind: str
    variable: str
    line: str
    code: str
    shared: int
    times: int | None
    bytes: int
    address: str
    equations: tuple[str, ...]
    instruction: str


@dataclasses.dataclass(frozen=True)
class RemovedRow:
    """A statement some of whose equations no kernel computes; `Compiled.removed` has them.

    Attributes:
        variable: The variable that the statement bound.
        line: Its line.
        code: The statement.
        address: The first of these equations.
        equations: The addresses of all.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     unused = jnp.sin(x)
        ...     return x * 2
        >>> [row] = taxpr.compiled(f)(jnp.ones(50)).removed.rows
        >>> row.variable, row.equations
        ('unused', ('0:sin',))
    """

    variable: str
    line: str
    code: str
    address: str
    equations: tuple[str, ...]


_NONE, _NO_COLLECTIVES = Answer("", []), Collectives("", [])


class _Removed(Answer):
    _columns = "variable", "line", "code", "equations"


class _Kernels(Answer):
    _columns = "kind", "variable", "line", "code", "shared", "times", "bytes"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Compiled(_Kernels):
    """What XLA made of a call; `compiled` makes it. Its rows are the kernels, in order.

    Attributes:
        fusions: The kernels that compute more than one statement.
        added: What XLA has added, such as copies: kernels of no equation, most bytes first.
        removed: The equations that no kernel computes.
        collectives: What moves between devices, and for which statement.
        text: The optimized program, as XLA writes it.
        executable: What JAX compiled, with ``memory_analysis()`` and the like.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = jnp.sin(x)
        ...     return y @ y
        >>> made = taxpr.compiled(f)(jnp.ones((50, 50)))
        >>> [row.variable for row in made.rows], made.fusions.rows, made.added.rows
        (['y', ''], [], [])
    """

    fusions: Answer = _NONE
    added: Answer = _NONE
    removed: Answer = _NONE
    collectives: Collectives = _NO_COLLECTIVES
    text: str = ""
    executable: Any = None

    def compare(self, other: Compiled) -> CompiledChanges:
        """What another compilation has more and less of, largest change first.

        Args:
            other: Another answer of `compiled`: of an edited function, or with other options.

        Example:
            >>> import jax.numpy as jnp, taxpr
            >>> def f(x):
            ...     y = jnp.sin(x)
            ...     return y @ y
            >>> x = jnp.ones((50, 50))
            >>> shorter = taxpr.edit(f, taxpr.var("y"), lambda y: y[:25, :25])
            >>> found = taxpr.compiled(f)(x).compare(taxpr.compiled(shorter)(x))
            >>> [(row.before, row.after) for row in found.rows if row.code == "return y @ y"]
            [(10000, 2500)]
        """
        if not isinstance(other, Compiled):
            raise ArgumentError(
                f"compare: other is a {type(other).__name__}. Give what taxpr.compiled(fun)(*args) "
                "returned."
            )
        return changes(self, other)


@question
def compiled(fun: Any, *, options: Mapping[str, Any] | None = None) -> Callable[..., Compiled]:
    """What XLA made of a call: kernels, copies and collectives, each with your statements.

    The program is compiled as `jax.jit` does it, and not run. XLA puts several statements into one
    kernel, adds copies, leaves out what it can compute beforehand, and on several devices moves
    values between them. All this is told by variable and line.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        options: Options for XLA, as for ``jax.jit(...).lower(...).compile(options)``.

    Returns:
        A function of the arguments of ``fun`` that returns a `Compiled`. Arguments may be
        `jax.ShapeDtypeStruct`, with a sharding where it matters. Two of them are compared by
        `Compiled.compare`.

    Raises:
        ArgumentError: If XLA does not know an option.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(w, x):
        ...     h = x @ w
        ...     act = jnp.tanh(h) * 2
        ...     return act.sum()
        >>> made = taxpr.compiled(jax.grad(loss))(jnp.ones((64, 64)), jnp.ones((8, 64)))
        >>> [row.variable for row in made.fusions.rows][-1]
        'act'
    """
    if not isinstance(fun, Program):
        refuse_no_function("compiled", fun)
    are_options = isinstance(options, Mapping) and all(isinstance(name, str) for name in options)
    if options is not None and not are_options:
        raise ArgumentError(
            f"compiled: options={options!r} is a {type(options).__name__}. Give a dict with "
            'names, such as {"xla_cpu_enable_fast_math": True}.'
        )

    def asked(*args: PyTree, **kwargs: PyTree) -> Compiled:
        try:
            call = compile_call(fun, args, kwargs, options)
        except Exception as error:
            if options and "option" in str(error):
                raise ArgumentError(
                    f"compiled: options={dict(options)}: XLA says {error}"
                ) from error
            raise
        return _answer(call)

    return called_as(fun)(asked)


def _answer(call: CompiledCall) -> Compiled:
    kernels, name = Kernels(call), call.program.name
    moved = collectives(kernels)
    rows = [_row(one, moved.get(one.instruction.name)) for one in kernels.every]
    fusions = [row for row in rows if row.shared > 1]
    added = sorted((row for row in rows if not row.shared), key=lambda row: -row.bytes)
    removed = _removed(kernels)
    equations = sum(len(row.equations) for row in removed)
    size = sum(row.bytes for row in moved.values())
    among = f"{counted(len(moved), 'collective')} of {size_text(size)}" if moved else "none"
    platform = call.executable.runtime_executable().local_devices()[0].platform
    headline = (
        f"compiled {name} for {platform}: {counted(len(rows), 'kernel')}, {len(fusions)} of "
        f"several statements, {len(added)} of XLA's own; {counted(equations, 'equation')} without "
        "a kernel"
    )
    return Compiled(
        f"{headline}; {among}" if moved else headline,
        rows,
        (_MOVED,) if moved else (),
        fusions=_Kernels(f"kernels of several statements in {name}: {len(fusions)}", fusions),
        added=_Kernels(f"what XLA added to {name}: {counted(len(added), 'kernel')}", added),
        removed=_Removed(
            f"equations of {name} without a kernel: {equations}",
            removed,
            (_REMOVED,) if removed else (),
        ),
        collectives=Collectives(f"collectives of {name}: {among}", [*moved.values()], bytes=size),
        text=call.text,
        executable=call.executable,
    )


def _row(kernel: Kernel, moved: CollectiveRow | None) -> KernelRow:
    one, equations = kernel.instruction, kernel.equations
    variable, line, code = kernel.told
    if moved is not None:
        variable, line, code = moved.variable, moved.line, moved.code
        equations = tuple(filter(None, [moved.address]))
    return KernelRow(
        one.opcode,
        variable,
        line,
        code,
        1 if moved else len(kernel.statements),
        kernel.times,
        kernel.bytes,
        equations[0] if equations else "",
        equations,
        one.name,
    )


def _removed(kernels: Kernels) -> list[RemovedRow]:
    """The equations that no kernel computes; of what holds others, such as a loop, these."""
    call = kernels.call
    computed = {address for one in kernels.every for address in call.equations(one.instruction)}
    computed |= {address for one in kernels.every for address in one.equations}
    holding = {one.home.home for one in call.addresses}
    found: dict[tuple[str, str, str], list[Address]] = {}
    for address in call.addresses:
        if address not in computed and address not in holding:
            one = kernels.words.of(address)
            found.setdefault((one.variable, one.line, one.code), []).append(address)
    return [RemovedRow(*said, address=at[0], equations=tuple(at)) for said, at in found.items()]


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
