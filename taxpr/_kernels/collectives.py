"""The collectives of a compiled call: values that move between devices, and why."""

import dataclasses

from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._compiled.attribution import Attribution
from taxpr._compiled.hlo import Instruction
from taxpr._kernels.hlo_dataflow import maker, readers
from taxpr._kernels.kernels import Kernel, Kernels
from taxpr._kernels.mesh_axes import axes_of, groups_of, mesh_of
from taxpr._kernels.placements import Placements

# Each adds up parts that one statement has left on the devices; the others bring a value to where
# the next statement needs it.
_REDUCES = ("all-reduce", "reduce-scatter")
_KINDS = (
    *_REDUCES,
    "all-gather",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)


@dataclasses.dataclass(frozen=True)
class CollectiveRow:
    """A collective in `Collectives`.

    Attributes:
        kind: Its kind, such as ``"all-gather"``.
        bytes: The bytes that a device receives, or sends if that is more, over all runs.
        times: How often it runs in a call; None in a while loop.
        axes: The axes of the mesh along which devices talk; empty if there is not one mesh.
        devices: How many devices talk with each other.
        moves: The variable whose value is moved; "" if it has no name.
        variable: The variable of the statement that causes it.
        line: The line of this statement.
        code: The statement.
        address: The equation.
        instruction: The name of XLA's instruction.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> taxpr.compiled(jnp.sin)(1.0).collectives.rows  # on one device
        []
    """

    kind: str
    bytes: int
    times: int | None
    axes: tuple[str, ...]
    devices: int
    moves: str
    variable: str
    line: str
    code: str
    address: str
    instruction: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Collectives(Answer):
    """The values that move between devices, most bytes first; `Compiled.collectives` has it.

    Attributes:
        bytes: The sum over all rows.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> taxpr.compiled(jnp.sin)(1.0).collectives
        collectives of sin: none
    """

    bytes: int = 0

    _columns = (
        *("kind", "bytes", "times", "axes", "devices"),
        *("moves", "variable", "line", "code"),
    )


def collectives(kernels: Kernels) -> dict[str, CollectiveRow]:
    """The collectives of a call by their instructions, most bytes first."""
    mesh, placements = mesh_of(kernels.call), Placements(kernels.call.program)
    found = [one for one in kernels.every if kind_of(one.instruction)]
    rows = [_row(kernels, one, mesh, placements) for one in found]
    return {row.instruction: row for row in sorted(rows, key=lambda row: -row.bytes)}


def kind_of(instruction: Instruction) -> str:
    """The collective that an instruction runs; "" for other instructions."""
    kind = instruction.opcode.removesuffix("-start")
    return kind if kind in _KINDS else ""


def _row(
    kernels: Kernels, kernel: Kernel, mesh: dict[str, int] | None, placements: Placements
) -> CollectiveRow:
    one, kind = kernel.instruction, kind_of(kernel.instruction)
    groups = groups_of(one.attributes)
    made = maker(kernels.call, one)
    cause, moved = _cause(kernels, kernel, made, placements), kernels.made(made)
    given = sum(kernels.call.hlo.instructions[name].bytes for name in one.operands)
    # A collective that is started returns its operands, too.
    got = one.bytes - given if one.opcode != kind else one.bytes
    return CollectiveRow(
        kind,
        max(given, got) * (1 if kernel.times is None else kernel.times),
        kernel.times,
        axes_of(groups, mesh) if mesh else (),
        max(map(len, groups), default=0),
        moved.variable if moved is not None else "",
        cause.variable,
        cause.line,
        cause.code,
        cause.address,
        one.name,
    )


def _cause(
    kernels: Kernels, kernel: Kernel, made: Instruction | None, placements: Placements
) -> Attribution:
    """The statement that causes a move.

    A sum over devices belongs to the statement that left the parts there. Any other collective
    belongs to the next reader, unless it has an equation of its own: then the user has asked for
    it. Some versions of XLA name it after the maker of the value.
    """
    call, one = kernels.call, kernel.instruction
    equations = list(kernel.equations)
    makes = call.equations(made) if made is not None else ()
    if kind_of(one) in _REDUCES:
        equations = equations or list(makes)
    else:
        if not equations or set(equations) & set(makes):
            reading = readers(call.hlo, (one.name, ()))
            equations = [e for it in reading for e in call.equations(it)][:1] or equations
        asking = placements.asking(equations[-1], makes) if equations else None
        equations = equations if asking is None else [asking]
    if not equations:
        return Attribution("", "", "what the call returns", Address())
    return kernels.statements(equations)[-1]
