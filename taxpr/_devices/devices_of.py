"""`devices_of`: the devices that a program runs on, and `mesh_of`: their mesh."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import Mesh

from taxpr import _compat
from taxpr._compat import StoredJaxpr
from taxpr._errors import ArgumentError
from taxpr._sites.walk import iter_eqns


def devices_of(jaxpr: StoredJaxpr, arrays: Iterable[object]) -> frozenset[Any]:
    """The devices of a program's arguments and of the meshes in it; at most one is on one device.

    An array that JAX may move, as it was not put anywhere, counts only if nothing else does.

    Args:
        jaxpr: The program.
        arrays: Its arguments and constants.
    """
    placed = [x for x in arrays if isinstance(x, jax.Array)]
    every = frozenset(device for x in placed for device in x.devices())
    if jax.device_count() == 1:
        return every
    bound = frozenset(d for x in placed if getattr(x, "committed", True) for d in x.devices())
    eqns = (eqn for _, eqn in iter_eqns(jaxpr))
    in_it = frozenset(device for eqn in eqns for device in _of_params(eqn.params.values()))
    return bound | in_it or every


def mesh_of(jaxpr: StoredJaxpr, arrays: Iterable[object]) -> Mesh | None:
    """The mesh of several devices that a program runs on; None if it is not known, or one of many.

    JAX allows several meshes of automatic axes in a program, which the partitioner of `by_parts`
    does not.

    Args:
        jaxpr: The program.
        arrays: Its arguments and constants.
    """
    if jax.device_count() == 1:
        return None
    placed = [x.sharding for x in arrays if isinstance(x, jax.Array)]
    eqns = (eqn for _, eqn in iter_eqns(jaxpr))
    in_it = (one for eqn in eqns for one in _shardings(eqn.params.values()))
    meshes: list[Any] = [getattr(one, "mesh", one) for one in itertools.chain(placed, in_it)]
    meshes.append(_compat.mesh_here())
    found = [one for one in meshes if isinstance(one, Mesh) and one.size > 1]
    several = [one for one in meshes if hasattr(one, "axis_names") and one.size > 1]
    axes = {(one.axis_names, tuple(one.shape.values())) for one in several}
    return found[0] if len(set(found)) == 1 == len(axes) else None


@contextlib.contextmanager
def told_apart(
    name: str, names: Sequence[str], given: Sequence[Any]
) -> Generator[None, None, None]:
    """A context for a program that names its arguments if it cannot run on their devices.

    Args:
        name: The program's name.
        names: The names of its arguments.
        given: The arguments, or their types with shardings.
    """
    try:
        yield
    except ValueError as error:
        first: dict[Any, str] = {}
        for of, x in zip(names, given, strict=True):
            sharding = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
            if isinstance(sharding, jax.sharding.Sharding):
                first.setdefault(frozenset(sharding.device_set), of)
        if len(first) < 2:
            raise
        each = (f"{of} on {_said(devices)}" for devices, of in first.items())
        raise ArgumentError(_APART.format(name=name, each=", ".join(each))) from error


_APART = (
    "{name}: its arguments are on different devices: {each}. It runs here as one program, as under "
    "jax.jit, which has all of them on the same devices; plain Python runs each operation where "
    "its operands are. Put them on the same by jax.device_put, or ask of the functions in {name} "
    "whose arguments are."
)


def _said(devices: Iterable[Any]) -> str:
    ids = sorted((one.platform, one.id) for one in devices)
    return ", ".join(f"{platform}:{k}" for platform, k in ids)


def processes_of(devices: Iterable[Any]) -> frozenset[int]:
    """The numbers of the processes that some devices belong to."""
    return frozenset(device.process_index for device in devices)


def _of_params(params: Iterable[Any]) -> Iterator[Any]:
    for one in _shardings(params):
        mesh = one.mesh if isinstance(one, jax.sharding.NamedSharding) else one
        if isinstance(mesh, jax.sharding.AbstractMesh):
            yield from () if mesh.empty else _compat.devices_here()
        elif isinstance(mesh, Mesh):
            yield from () if mesh.empty else mesh.devices.flat
        else:
            yield from one.device_set


def _shardings(params: Iterable[Any]) -> Iterator[Any]:
    """The shardings and meshes among the parameters of an equation."""
    for one in params:
        if _compat.is_sequence(one):
            yield from _shardings(one)
        elif isinstance(one, (jax.sharding.Sharding, jax.sharding.AbstractMesh, Mesh)):
            yield one
