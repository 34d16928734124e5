"""How XLA divides the variables of a call among devices."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.hlo import Instruction, hlo_module
from taxpr._kernels.kernels import Kernels
from taxpr._kernels.mesh_axes import axes_of, mesh_of
from taxpr._programs.divided import Division, division, short_type
from taxpr._sites.values import Value, values_of
from taxpr._untyped import np

_INPUT = re.compile(r"flat\[(\d+)\]")  # as JAX names a parameter
_NAMED = re.compile(r"mesh\[([^\]]*)\], \[(.*?)\](?:, (?:replicated|unreduced|manual)=.*)?\}")
_TILED = re.compile(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")
_AXIS = re.compile(r"'([^']+)'(?::\(\d+\)(\d+))?")


@dataclasses.dataclass(frozen=True)
class ShardingRow:
    """How a variable is divided among devices; `Compiled.shardings` has them.

    Attributes:
        variable: The variable, or the name of an argument.
        line: The line that bound it.
        code: The statement; in a gradient ``∂`` and the differentiated statement.
        type: The type of the whole, such as ``"f32[64,32]"``.
        local: The type of the part that one device has.
        spec: The axes of the mesh along which it is divided, as a `PartitionSpec` is written; "" if
            they are not known.
        bytes: The size of the part.
        address: The value.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> taxpr.compiled(jnp.sin)(1.0).shardings.rows  # on one device
        []
    """

    variable: str
    line: str
    code: str
    type: str
    local: str
    spec: str
    bytes: int
    address: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Shardings(Answer):
    """How variables are divided among devices, in order; `Compiled.shardings` has it.

    Attributes:
        rows: A `ShardingRow` for each variable; none on one device.
        values: How each value is divided, by its address, also values without a variable; {} if
            `questions.load_compiled` has read it.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> taxpr.compiled(jnp.sin)(1.0).shardings
        shardings of sin: 0 variables
    """

    values: Mapping[str, Division] = dataclasses.field(default_factory=dict[str, Division])

    _columns = "variable", "line", "code", "type", "local", "spec", "bytes"


# By the equation or input, the shape, and whether there is a tuple of several: for each instruction
# the shardings of its arrays of this shape.
_Made = dict[tuple[Address, tuple[int, ...], bool], list[list[str]]]

_PARTS = "Not told, as in a jax.shard_map types describe the parts"
_UNKNOWN = "Not told, as the loop holds several arrays of this shape that are not divided alike"


class _Divided(NamedTuple):
    """For each axis of an array, the number of devices that divide it, and the axes of the mesh."""

    parts: Sequence[int]
    axes: Sequence[tuple[str, ...]] | None  # None where they are not known, or divided themselves


class FoundShardings(NamedTuple):
    """How the values of a call are divided.

    Attributes:
        rows: The values that a variable held.
        notes: Notes on values that have no row.
        values: All, by their addresses.
    """

    rows: list[ShardingRow]
    notes: list[str]
    values: dict[str, Division]


def shardings(kernels: Kernels) -> FoundShardings:
    """How the values of a call are divided.

    On one device there are no rows. A variable with several shardings has a row for each. Arrays in
    a `jax.shard_map` are left out: they have the types of their parts.
    """
    call, words = kernels.call, kernels.words
    if not call.whole:
        return FoundShardings([], [], {})
    mesh, made = mesh_of(call) or {}, _made(call)
    rows: dict[tuple[str, ...], ShardingRow] = {}
    values: dict[str, Division] = {}
    left_out: dict[str, dict[str, None]] = {}
    for value in values_of(call.program.jaxpr):
        aval: Any = value.aval
        told, found = words.of(value.address), _of(value, made)
        if not found:
            continue
        divided = _divided(f"sharding={found[0]}", aval.ndim, mesh) if len(found) == 1 else None
        if divided is None:
            why = _UNKNOWN if len(found) > 1 else _PARTS if "manual" in found[0] else ""
            left_out.setdefault(why, {})[told.variable] = None
            continue
        one = values[value.address] = division(aval, divided.parts, divided.axes, mesh)
        said = *told[:3], short_type(aval), one.local, _spec(divided)
        if told.variable:
            rows.setdefault(said, ShardingRow(*said, one.bytes, value.address))
    told_out = ((why, [*filter(None, names)]) for why, names in left_out.items() if why)
    notes = [f"{why}: {', '.join(names)}." for why, names in told_out if names]
    return FoundShardings(list(rows.values()), notes, values)


def _made(call: CompiledCall) -> _Made:
    found: _Made = {}
    for one in hlo_module(call.whole).instructions.values():
        address = _address(call, one)
        if address is None or one.opcode == "get-tuple-element":
            continue
        # The last of an equation is its result; of several the last tuple, or each of them.
        by_shape: dict[tuple[int, ...], list[str]] = {}
        for shape, sharding in zip(one.shapes, one.shardings, strict=False):
            by_shape.setdefault(shape.dims, []).append(sharding)
        is_tuple = len(one.shapes) > 1
        for dims, each in by_shape.items():
            found.setdefault((address, dims, is_tuple), []).append(each)
    return found


def _of(value: Value, made: _Made) -> list[str]:
    """The sharding of a value, as XLA writes it; several if it may have each of them."""
    aval: Any = value.aval
    results = [] if value.eqn is None else value.eqn.outvars
    alike = [
        k
        for k, one in enumerate(results)
        if getattr(_compat.aval_of(one), "shape", None) == aval.shape
    ]
    tuples, single = (made.get((value.address.eqn, aval.shape, kind), []) for kind in (True, False))
    if len(results) < 2:
        last = single[-1:] or tuples[-1:]
        return sorted(set(last[0])) if last else []
    if tuples and len(tuples[-1]) == len(alike):
        return [tuples[-1][alike.index(value.address.result or 0)]]
    every = tuples[-1] if tuples else [x for each in single for x in each]
    return sorted(set(every))


def _address(call: CompiledCall, one: Instruction) -> Address | None:
    """The address of an instruction's equation, or of an input."""
    if one.stamps:
        return call.addresses[one.stamps[-1]]
    match = _INPUT.fullmatch(one.op_name) if one.opcode == "parameter" else None
    return Address(f"in{match[1]}") if match else None


def _divided(attributes: str, rank: int, mesh: Mapping[str, int]) -> _Divided | None:
    """How an instruction's result is divided; None if it is not known."""
    text = attributes.partition("sharding=")[2] or "{replicated}"  # as XLA takes what has none
    if text.startswith("{replicated}") or re.match(r"\{mesh\[[^\]]*\], replicated\}", text):
        return _Divided((1,) * rank, ((),) * rank)
    if (named := _NAMED.match(text, 1)) is not None:
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", named[1]))
        each = [_AXIS.findall(one) for one in re.findall(r"\{([^{}]*)\}", named[2])]
        if len(each) == rank and "manual" not in named[0]:
            parts = [math.prod(int(n or sizes[x]) for x, n in axes) for axes in each]
            axes = [tuple(x for x, _ in one) for one in each]
            return _Divided(tuple(parts), None if any(n for one in each for _, n in one) else axes)
    elif (tiled := _TILED.match(text, 1)) is not None and "manual" not in text.partition("}")[0]:
        shape = _ints(tiled[1])
        if len(shape) >= rank:
            order = _ints(tiled[4]) if tiled[4] else _range(_ints(tiled[2]), _ints(tiled[3] or ""))
            devices = np.reshape(order, shape)
            axes = [_along(devices, k, mesh) for k in range(rank)]
            parts = [math.prod(mesh.get(x, 0) for x in one) for one in axes]
            return _Divided(shape[:rank], axes if parts == list(shape[:rank]) else None)
    return None


def _along(devices: Any, axis: int, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes of a mesh along which an axis of an array is divided, larger steps first."""
    groups = np.moveaxis(devices, axis, -1).reshape(-1, devices.shape[axis])
    if groups.shape[1] == 1 or devices.size != math.prod(mesh.values()):
        return ()
    places = dict(zip(mesh, np.unravel_index(groups[0], tuple(mesh.values())), strict=True))
    found = axes_of(tuple(map(tuple, groups.tolist())), mesh)
    return tuple(sorted(found, key=lambda x: -np.argmax(places[x] != places[x][0])))


def _range(sizes: Sequence[int], order: Sequence[int]) -> Any:
    devices = np.arange(np.prod(sizes)).reshape(sizes)
    return (devices.transpose(order) if order else devices).reshape(-1)


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one)


def _spec(divided: _Divided) -> str:
    if divided.axes is None:
        return ""
    axes = [one[0] if len(one) == 1 else one or None for one in divided.axes]
    while axes and axes[-1] is None:
        axes.pop()
    return f"P({', '.join(map(repr, axes))})"
