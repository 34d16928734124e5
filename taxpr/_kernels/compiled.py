"""`compiled`: the program that XLA makes for a call, in the user's words."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Callable, Mapping
from typing import Any

import jax

from taxpr._address import Address
from taxpr._compat import PyTree
from taxpr._compiled.compile_call import CompiledCall, compile_call
from taxpr._errors import ArgumentError, a_type, refuse_no_function
from taxpr._kernels.collectives import CollectiveRow, collectives
from taxpr._kernels.compiled_answer import (
    Compiled,
    CompiledParts,
    KernelRow,
    RemovedRow,
    compiled_of,
)
from taxpr._kernels.kernels import Kernel, Kernels
from taxpr._kernels.shardings import shardings
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as
from taxpr._transforms.question import question


@question
def compiled(fun: Any, *, options: Mapping[str, Any] | None = None) -> Callable[..., Compiled]:
    """Show the kernels, copies and collectives that XLA compiles, each with your statements.

    The program is compiled as `jax.jit` does it, and not run. XLA puts several statements into one
    kernel, adds copies, computes constants beforehand, and on several devices moves values between
    them. The answer tells this by variable and line.

    Args:
        fun: A function as you call it, also a jitted one or a method of a model; or a `Program`.
        options: Options for XLA, as for ``jax.jit(...).lower(...).compile(options)``.

    Returns:
        A function of the arguments of ``fun`` that returns a `Compiled`. Arguments may be
        `jax.ShapeDtypeStruct`, with a sharding if it matters. `Compiled.compare` compares two
        answers.

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
            f"compiled: options={options!r} is {a_type(options)}. Give a dict with "
            'names, such as {"xla_cpu_enable_fast_math": True}.'
        )

    def asked(*args: PyTree, **kwargs: PyTree) -> Compiled:
        try:
            call = compile_call(fun, args, kwargs, options, sharded=True)
        except Exception as error:
            if options and "option" in str(error):
                raise ArgumentError(
                    f"compiled: options={dict(options)}: XLA says {error}"
                ) from error
            raise
        return _answer(call)

    return called_as(fun)(asked)


def _answer(call: CompiledCall) -> Compiled:
    kernels = Kernels(call)
    moved = collectives(kernels)
    divided = shardings(kernels)
    device = call.executable.runtime_executable().local_devices()[0]
    return compiled_of(
        CompiledParts(
            name=call.program.name,
            platform=device.platform,
            version=jax.__version__,
            rows=[_row(one, moved.get(one.instruction.name)) for one in kernels.every],
            removed=_removed(kernels),
            collectives=[*moved.values()],
            shardings=divided.rows,
            shardings_notes=divided.notes,
            text=call.text,
        ),
        call.executable,
        divided.values,
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
    """The equations that no kernel computes; for a loop, the equations inside."""
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
