"""How XLA divides the variables of a call among devices."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy

from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.hlo import Instruction, hlo_module
from taxpr._kernels.kernels import Kernels
from taxpr._kernels.mesh_axes import axes_of, mesh_of
from taxpr._sites.values import values_of

np: Any = numpy  # which leaves types of arrays unknown

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
        code: The statement; in a gradient ``∂`` and the one that it differentiates.
        type: The type of the whole, such as ``"f32[64,32]"``.
        local: The type of the part that one device has.
        spec: The axes of the mesh along which it is divided, as a `PartitionSpec` is written; ""
            where they are not known.
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
    address: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Shardings(Answer):
    """How variables are divided among devices, in order; `Compiled.shardings` has it.

    Attributes:
        rows: A `ShardingRow` for each variable; none on one device.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> taxpr.compiled(jnp.sin)(1.0).shardings
        shardings of sin: 0 variables
    """

    _columns = "variable", "line", "code", "type", "local", "spec"


class _Divided(NamedTuple):
    """Among how many devices each axis of an array is divided, and along which axes of the mesh."""

    parts: Sequence[int]
    axes: Sequence[tuple[str, ...]] | None  # None where they are not known, or divided themselves


def shardings(kernels: Kernels) -> list[ShardingRow]:
    """How the variables of a call are divided; nothing on one device.

    A variable with several shardings has a row for each. Arrays in a `jax.shard_map` are left out:
    they have the types of their parts.
    """
    call, words = kernels.call, kernels.words
    if not call.whole:
        return []
    mesh, found = mesh_of(call) or {}, dict[tuple[Address, tuple[int, ...]], str]()
    for one in hlo_module(call.whole).instructions.values():
        address = _address(call, one)
        if address is not None and len(one.shapes) == 1:
            # The last of an equation is its result.
            found[address, one.shapes[0].dims] = one.attributes
    rows: dict[tuple[str, ...], ShardingRow] = {}
    for value in values_of(call.program.jaxpr):
        aval: Any = value.aval
        told = words.of(value.address)
        attributes = found.get((value.address, aval.shape))
        if attributes is None or not told.variable:
            continue
        divided = _divided(attributes, aval.ndim, mesh)
        if divided is None:
            continue
        local = [-(-n // k) for n, k in zip(aval.shape, divided.parts, strict=True)]
        whole = aval.str_short(short_dtypes=True)
        part = aval.update(shape=tuple(local)).str_short(short_dtypes=True)
        said = *told[:3], _short(whole), _short(part), _spec(divided)
        rows.setdefault(said, ShardingRow(*said, value.address))
    return list(rows.values())


def _short(text: str) -> str:
    """A type without the axes of an explicit mesh."""
    return re.sub(r"@[^,\]]+", "", text)


def _address(call: CompiledCall, one: Instruction) -> Address | None:
    """The value that an instruction is: of an equation, or an input."""
    if one.stamps:
        return call.addresses[one.stamps[-1]].value(0)
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
