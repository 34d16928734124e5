"""Find the mesh axes along which a collective moves values."""

import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import StoredJaxpr
from taxpr._compiled.compile_call import CompiledCall
from taxpr._hops.table import nested_jaxprs
from taxpr._programs.program import Program
from taxpr._questions.depends import EACH
from taxpr._untyped import np

# The groups are written as lists, as a reshaped and transposed range, or as axes of a mesh.
_LISTED = re.compile(r"replica_groups=\{((?:\{[\d, ]*\},? ?)+)\}")
_RANGE = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXES = re.compile(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{[\d, ]*\},? ?)+)\}")
_PART = re.compile(r"'?([^':,]+)'?(?::\((\d+)\)(\d+))?")

_PARAMS = operator.attrgetter("params")

Groups = tuple[tuple[int, ...], ...]


def groups_of(attributes: str) -> Groups:
    """The groups of devices that a collective joins, by their positions; empty if not known.

    For a permutation these are pairs of a sender and its receiver.

    Args:
        attributes: The text behind the operands of the instruction.

    Example:
        >>> groups_of("replica_groups=[2,4]<=[4,2]T(1,0)")
        ((0, 2, 4, 6), (1, 3, 5, 7))
        >>> groups_of("replica_groups=mesh['data'=4,'model'=2] {'model'}")
        ((0, 1), (2, 3), (4, 5), (6, 7))
    """
    if found := _LISTED.search(attributes) or _PAIRS.search(attributes):
        return tuple(_ints(one) for one in re.findall(r"\{([\d, ]*)\}", found[1]))
    if found := _RANGE.search(attributes):
        shape, sizes, order = (_ints(one) for one in found.groups(""))
        devices = np.arange(np.prod(sizes)).reshape(sizes)
        devices = devices.transpose(order) if order else devices
        return _tuples(devices.reshape(shape))
    if found := _AXES.search(attributes):
        return _tuples(_along(found[1], found[2]))
    return ()


def _along(mesh: str, axes: str) -> Any:
    """The devices of a mesh, of shape (groups, size of a group)."""
    sizes: dict[str, int] = {}
    for one in mesh.split(","):
        name, _, size = one.rpartition("=")
        sizes[name.strip(" '")] = int(size)
    devices = np.arange(np.prod([*sizes.values()])).reshape([*sizes.values()])
    chosen: list[str] = []
    names = [*sizes]
    for name, before, size in _PART.findall(axes):
        if not size:
            chosen.append(name)
            continue
        # A part of an axis: the axis becomes three, of which it is the middle one.
        at = names.index(name)
        devices = devices.reshape(
            *devices.shape[:at], int(before), int(size), -1, *devices.shape[at + 1 :]
        )
        names[at : at + 1] = f"{name}:before", f"{name}:part", name
        chosen.append(f"{name}:part")
    inner = [names.index(name) for name in chosen]
    outer = [k for k in range(devices.ndim) if k not in inner]
    size = int(np.prod([devices.shape[k] for k in inner]))
    return devices.transpose(*outer, *inner).reshape(-1, size)


def axes_of(groups: Groups, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """The axes of a mesh along which the devices of a group differ.

    Args:
        groups: The groups, see `groups_of`.
        mesh: The sizes of the axes of the mesh by their names.

    Example:
        >>> axes_of(((0, 2, 4, 6), (1, 3, 5, 7)), {"data": 4, "model": 2})
        ('data',)
    """
    places = [np.array(np.unravel_index(one, tuple(mesh.values()))) for one in groups]
    differ = [(one != one[:, :1]).any(axis=1) for one in places]
    return tuple(name for k, name in enumerate(mesh) if any(one[k] for one in differ))


def mesh_of(call: CompiledCall) -> dict[str, int] | None:
    """The sizes of the axes of the mesh that a call runs on; None without a single mesh."""
    executable = call.executable
    shardings = jax.tree.leaves((executable.input_shardings, executable.output_shardings))
    known = {tuple(one.items()) for one in meshes_in(call.program, shardings) if len(one)}
    return dict(known.pop()) if len(known) == 1 else None


def meshes_in(program: Program, shardings: Iterable[Any]) -> Iterator[Mapping[str, int]]:
    """The sizes of the axes of all meshes in a program, and in shardings of its arguments.

    Args:
        program: The program.
        shardings: Shardings; what has no mesh is left out.
    """
    for one in itertools.chain(shardings, _settings(program.jaxpr)):
        mesh = getattr(one, "mesh", one)
        if isinstance(mesh, jax.sharding.Mesh | jax.sharding.AbstractMesh):
            yield mesh.shape


def _settings(jaxpr: StoredJaxpr) -> Iterator[Any]:
    """The params of all equations, and the shardings of jitted functions.

    Addresses, which `iter_eqns` makes, would take most of the time.
    """
    waiting = [_compat.open_jaxpr(jaxpr)]
    for inner in waiting:
        for eqn in filter(_PARAMS, inner.eqns):
            yield from eqn.params.values()
            if eqn.primitive not in EACH:
                yield from eqn.params.get("in_shardings", ())
                waiting += (one.jaxpr for one in nested_jaxprs(eqn))


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one.strip())


def _tuples(groups: Any) -> Groups:
    return tuple(tuple(one) for one in groups.tolist())
