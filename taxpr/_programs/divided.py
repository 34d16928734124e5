"""How the values of a program are divided among devices, as far as it is known without XLA."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Atom, JaxprEqn, StoredJaxpr
from taxpr._costs.quantities import n_bytes, quantity
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.inputs import is_on_mesh, placed_sharding

_Axes = Sequence[tuple[str, ...]]  # of the mesh, for each axis of an array


class Division(NamedTuple):
    """How a value is divided among devices.

    Attributes:
        type: The type of the whole, with the axes of the mesh: ``"f32[64@data,32]"``.
        whole: The same without the axes: ``"f32[64,32]"``.
        local: The type of the part that one device has.
        bytes: The size of that part.
        mesh: The sizes of the axes of the mesh by their names.

    Example:
        >>> import jax
        >>> from jax.sharding import AxisType
        >>> mesh = jax.sharding.AbstractMesh((4, 2), ("data", "model"), (AxisType.Auto,) * 2)
        >>> aval = jax.core.ShapedArray((64, 32), "float32")
        >>> spec = jax.sharding.PartitionSpec("data")
        >>> found = division_of(aval, jax.sharding.NamedSharding(mesh, spec))
        >>> found.type, found.words
        ('f32[64@data,32]', 'on each of 8 devices (data 4, model 2): f32[16,32], 2.05 kB')
    """

    type: str
    whole: str
    local: str
    bytes: int
    mesh: tuple[tuple[str, int], ...]

    @property
    def words(self) -> str:
        """The part of each device."""
        devices = math.prod(size for _, size in self.mesh)
        axes = ", ".join(f"{name} {size}" for name, size in self.mesh)
        where = f"on each of {devices} devices ({axes})" if devices > 1 else "on each device"
        size = quantity(self.bytes, "B")
        return f"whole {where}" if self.type == self.local else f"{where}: {self.local}, {size}"


class Divisions:
    """How values are divided, by their addresses and variables.

    A jaxpr that is called in several places has the same variables in each. A variable that is
    divided differently there has no division by variable.

    Attributes:
        by_address: The divisions that are known, by the addresses of values.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> found = divisions(taxpr.trace(jnp.sin)(1.0))
        >>> found.at("in0"), found.typed("in0", jnp.ones(3).aval)  # on one device
        (None, 'f32[3]')
    """

    def __init__(self) -> None:
        self.by_address: dict[str, Division] = {}
        self._of: dict[Any, Division | None] = {}

    def at(self, address: str) -> Division | None:
        """How the value at an address is divided; None if that is not known, or on one device."""
        return self.by_address.get(address)

    def of(self, atom: Atom) -> Division | None:
        """How the value of a variable is divided."""
        return None if _compat.is_literal(atom) else self._of.get(atom)

    def typed(self, address: str, aval: Any) -> str:
        """The type of the value at an address, with the axes of the mesh that divide it."""
        found = self.at(address)
        return found.type if found else aval.str_short(short_dtypes=True)

    def note(self, address: str, var: Any, found: Division | None) -> None:
        """Note how a value is divided."""
        if found is not None:
            self.by_address[address] = found
        self._of[var] = found if self._of.setdefault(var, found) == found else None


def division(
    aval: Any, parts: Sequence[int], axes: _Axes | None, mesh: Mapping[str, int]
) -> Division:
    """The division of an array.

    Args:
        aval: The type of the whole.
        parts: Among how many devices each of its axes is divided.
        axes: The axes of the mesh that divide each; None if that is not known.
        mesh: The sizes of the axes of the mesh.
    """
    whole = short_type(aval)
    head, _, tail = whole.partition("]")
    dtype = head.partition("[")[0]
    local = [-(-n // k) for n, k in zip(aval.shape, parts, strict=True)]
    each = zip(aval.shape, axes or [()] * len(parts), strict=True)
    shape = ",".join(str(n) + _at_axes(names) for n, names in each)
    element = n_bytes(aval) // math.prod(aval.shape) if math.prod(aval.shape) else 0
    part = f"{dtype}[{','.join(map(str, local))}]"
    size = math.prod(local) * element
    return Division(f"{dtype}[{shape}]{tail}", whole, part, size, tuple(mesh.items()))


def short_type(aval: Any) -> str:
    """A type without the axes of an explicit mesh: ``"f32[64,32]"``."""
    written = aval.str_short(short_dtypes=True)
    head, bracket, tail = written.partition("]")
    return f"{head.partition('[')[0]}[{','.join(map(str, aval.shape))}{bracket}{tail}"


def _at_axes(names: Sequence[str]) -> str:
    """As JAX writes it in the types of explicit meshes."""
    return f"@({','.join(names)})" if len(names) > 1 else f"@{names[0]}" if names else ""


def division_of(aval: Any, sharding: Any) -> Division | None:
    """The division of an array; None on one device, and if the sharding leaves an axis open.

    Args:
        aval: The type of the whole.
        sharding: A `jax.sharding.NamedSharding`; other shardings return None.

    Example:
        >>> import jax
        >>> from jax.sharding import AxisType
        >>> mesh = jax.sharding.AbstractMesh((8,), ("data",), (AxisType.Auto,))
        >>> sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        >>> division_of(jax.core.ShapedArray((64, 32), "float32"), sharding).local
        'f32[8,32]'
    """
    if not is_on_mesh(sharding):
        return None
    if not isinstance(aval, _compat.ShapedArray) or _compat.is_ref(aval):
        return None
    mesh = dict(sharding.mesh.shape)
    axes = _compat.spec_axes(sharding.spec, aval.ndim)
    if axes is None:
        return None
    parts = [math.prod(mesh[name] for name in names) for names in axes]
    return division(aval, parts, axes, mesh)


def divisions(program: Any, known: Mapping[str, Division] | None = None) -> Divisions:
    """How the values of a program are divided among devices.

    Arguments and constants say it, and so do `jax.lax.with_sharding_constraint`, shardings of a
    jitted function, and types on an explicit mesh. XLA chooses the others.

    Args:
        program: The program.
        known: Divisions by XLA, by the addresses of values, as `taxpr.compiled` answers, or of
            results, such as ``"out0"``.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> print(divisions(taxpr.trace(jnp.sin)(1.0)).at("in0"))
        None
    """
    found, shardings = Divisions(), program.shardings or [None] * len(program.in_avals)
    given = [division_of(*one) for one in zip(program.in_avals, shardings, strict=True)]
    if known or any(given) or _names_a_mesh(program.jaxpr, set()):
        made = _made_results(program, known or {})
        _DivisionWalk(found, made | dict(known or {})).over(program.jaxpr, Address(), given)
    return found


def _made_results(program: Any, known: Mapping[str, Division]) -> dict[str, Division]:
    """The divisions of results, by the addresses where these are made."""
    at = addresses_of(program.jaxpr, Address())
    results = ((known.get(f"out{k}"), at.get(id(atom))) for k, atom in enumerate(program.outvars))
    return {address: one for one, address in results if one and address}


def _names_a_mesh(stored: StoredJaxpr, seen: set[int]) -> bool:
    """Whether a constant, a type or an equation may say how a value is divided.

    Most programs run on one device and name no mesh: they need no addresses. A jaxpr that is
    called in several places is read once.
    """
    inner = _compat.open_jaxpr(stored)
    if id(inner) in seen:
        return False
    seen.add(id(inner))
    variables = [*inner.constvars, *inner.invars, *(v for eqn in inner.eqns for v in eqn.outvars)]
    said = [
        *map(placed_sharding, _compat.consts_of(stored)),
        *(getattr(_compat.aval_of(var), "sharding", None) for var in variables),
        *(eqn.params.get("sharding") for eqn in inner.eqns),
        *(one for eqn in inner.eqns for one in eqn.params.get("in_shardings", ())),
        *(one for eqn in inner.eqns for one in eqn.params.get("out_shardings", ())),
    ]
    return any(map(is_on_mesh, said)) or any(
        _names_a_mesh(nested.stored, seen) for eqn in inner.eqns for nested in nested_jaxprs(eqn)
    )


class _DivisionWalk:
    """Goes through a program, and notes how its values are divided."""

    def __init__(self, found: Divisions, known: Mapping[str, Division]) -> None:
        self._found, self._known = found, known

    def over(
        self, stored: StoredJaxpr, home: Address, given: Sequence[Division | None]
    ) -> list[Division | None]:
        """Notes the values of a jaxpr, and returns how its results are divided."""
        inner, here = _compat.open_jaxpr(stored), dict[Any, Division | None]()

        def note(address: Address, var: Any, said: Division | None) -> None:
            one = self._known.get(address) or said or _explicit(_compat.aval_of(var))
            here[var] = one
            self._found.note(address, var, one)

        def of(atom: Any) -> Division | None:
            return None if _compat.is_literal(atom) else here.get(atom)

        values = dict(zip(inner.constvars, _compat.consts_of(stored), strict=False))
        for k, var in enumerate(inner.constvars):
            sharding = placed_sharding(values.get(var))
            note(home / f"const{k}", var, division_of(_compat.aval_of(var), sharding))
        for k, (var, one) in enumerate(zip(inner.invars, given, strict=True)):
            note(home / f"in{k}", var, one)
        for local, eqn in numbered(inner):
            address, operands = home / local, list(map(of, eqn.invars))
            results = operands if is_tag(eqn) else self._results(eqn, address, operands)
            for k, (var, one) in enumerate(zip(eqn.outvars, results, strict=True)):
                note(address.value(k), var, one)
        return list(map(of, inner.outvars))

    def _results(
        self, eqn: JaxprEqn, address: Address, operands: Sequence[Division | None]
    ) -> list[Division | None]:
        results: list[Division | None] = [None] * len(eqn.outvars)
        every = nested_jaxprs(eqn)
        for nested in every:
            given = list(_entering(eqn, nested, operands))
            outs = self.over(nested.stored, address / nested.label, given)
            if len(every) == 1 and _is_whole(eqn):
                for j, k in enumerate(nested.results):
                    if k is not None and nested.out_roles[j] == "out":
                        results[k] = outs[j]
        asked: Any = eqn.params.get("out_shardings", (eqn.params.get("sharding"),))
        for k, (var, sharding) in enumerate(zip(eqn.outvars, asked, strict=False)):
            results[k] = division_of(_compat.aval_of(var), sharding) or results[k]
        return results


def _entering(
    eqn: JaxprEqn, nested: Nested, operands: Sequence[Division | None]
) -> Iterator[Division | None]:
    """How the inputs of a nested jaxpr are divided: as the equation asks, else as its operands."""
    asked: Any = eqn.params.get("in_shardings", ())
    for k, var, role in zip(nested.operands, nested.jaxpr.invars, nested.in_roles, strict=True):
        one = division_of(_compat.aval_of(var), asked[k]) if k is not None and asked else None
        is_same = k is not None and role in ("arg", "const") and _is_whole(eqn)
        yield one or (operands[k] if k is not None and is_same else None)


def _is_whole(eqn: JaxprEqn) -> bool:
    """Whether a nested jaxpr gets whole operands: in a `jax.shard_map` it gets parts."""
    return eqn.primitive is not _compat.shard_map_p


def _explicit(aval: Any) -> Division | None:
    """How the type of a value divides it, on a mesh with explicit axes alone."""
    sharding: Any = getattr(aval, "sharding", None)
    kinds = set(getattr(getattr(sharding, "mesh", None), "axis_types", None) or ())
    return division_of(aval, sharding) if kinds == {jax.sharding.AxisType.Explicit} else None
