"""Put the values that a nested jaxpr hands out into few results.

XLA's time to compile a loop grows faster than the carry. So values that are computed in the same
runs share an emission, with a count and a mask, and in loops small values of a dtype share an
array.
"""

import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Atom, Aval, ClosedJaxpr
from taxpr._hops.protocol import Emission, Emits
from taxpr._hops.rebuild import Slots
from taxpr._jaxprs.splice import Splice

_SMALL = 1 << 12  # elements of a value that is copied into an array with others
_AT_ONCE = 64  # arrays; what XLA makes of one concatenation grows faster than its operands


class Member(NamedTuple):
    """Where in a pack a leaf is.

    Attributes:
        leaf: The number of the leaf of the pack.
        at: Where in the last axis of this it begins; None where it is this.
        shape: The shape that it has in one run of the jaxpr.
    """

    leaf: int
    at: int | None
    shape: tuple[int, ...]


# By the key of a pack what is in it, by keys of emissions, which may be packs themselves.
Packs = dict[str, dict[str, list[Member]]]


def packed(emits: Emits, splice: Splice, home: Address, join: bool) -> tuple[Emits, Packs]:
    """The same in few emissions; values that are computed in the same runs share one.

    Args:
        emits: The emissions of a jaxpr, of atoms.
        splice: Builds the jaxpr.
        home: The beginning of the keys.
        join: Whether small leaves become one array.
    """
    together: dict[Hashable, list[str]] = {}
    for key, one in emits.items():
        together.setdefault(_runs_of(one), []).append(key)
    out: Emits = {}
    packs: Packs = {}
    for number, keys in enumerate(together.values()):
        every = [leaf for key in keys for leaf in _leaves(emits[key])]
        leaves, members = _joined(every, splice, join)
        key, rest = home / f"pack{number}", iter(members)
        out[key] = _with(emits[keys[0]], leaves)
        packs[key] = {name: [next(rest) for _ in _leaves(emits[name])] for name in keys}
    return out, packs


def unpacked(emits: Emits, packs: Packs) -> Emits:
    """The emissions of single values, with the leading axes that their packs have got.

    A value that shared an array is taken apart in the memory of the host, which compiles nothing.
    """
    out: Emits = {}
    for key, one in emits.items():
        if key not in packs:
            out[key] = one
            continue
        leaves = _leaves(one)
        held = {
            name: _with(one, [_part(leaves[member.leaf], member) for member in members])
            for name, members in packs[key].items()
        }
        out |= unpacked(held, packs)
    return out


def _runs_of(one: Emission) -> Hashable:
    """A key that is equal for values computed in the same runs."""
    value = one.value[0]
    slots = (id(value.fired), value.size) if isinstance(value, Slots) else None
    mesh = None if one.mesh is None else tuple(one.mesh)
    return slots, None if one.fired is None else id(one.fired), mesh


def _leaves(one: Emission) -> list[Any]:
    value = one.value[0]
    return value.leaves if isinstance(value, Slots) else one.value


def _with(one: Emission, leaves: list[Any]) -> Emission:
    value = one.value[0]
    if isinstance(value, Slots):
        leaves = [Slots(leaves, value.fired, value.size)]
    return one._replace(value=leaves)


def _joined(atoms: Sequence[Atom], splice: Splice, join: bool) -> tuple[list[Atom], list[Member]]:
    """The leaves of a pack, and where each of these is."""
    alike: dict[Hashable, list[int]] = {}
    for k, atom in enumerate(atoms):
        aval: Any = atom.aval
        small = join and not _compat.is_extended(aval.dtype) and math.prod(aval.shape) <= _SMALL
        alike.setdefault((aval.dtype, aval.weak_type) if small else k, []).append(k)
    leaves: list[Atom] = []
    found: dict[int, Member] = {}
    for group in alike.values():
        avals = [_compat.aval_of(atoms[k]) for k in group]
        sizes = [math.prod(aval.shape) for aval in avals]
        for k, aval, end in zip(group, avals, itertools.accumulate(sizes), strict=True):
            at = end - math.prod(aval.shape) if len(group) > 1 else None
            found[k] = Member(len(leaves), at, tuple(aval.shape))
        held = [atoms[k] for k in group]
        leaves += held if len(group) == 1 else splice.inline(_flat(tuple(avals)), held, again=True)
    return leaves, [found[k] for k in range(len(atoms))]


@functools.lru_cache(maxsize=256)
def _flat(avals: Iterable[Aval]) -> ClosedJaxpr:
    def run(*values: Array) -> Array:
        parts = [lax.reshape(x, (x.size,)) for x in values]
        while len(parts) > 1:
            some = (parts[k : k + _AT_ONCE] for k in range(0, len(parts), _AT_ONCE))
            parts = [_compat.optimization_barrier(lax.concatenate(each, 0)) for each in some]
        return parts[0]

    return _compat.make_jaxpr(run)(*avals)


def _part(leaf: Any, member: Member) -> Any:
    if member.at is None:
        return leaf
    whole, end = np.asarray(leaf), member.at + math.prod(member.shape)
    return whole[..., member.at : end].reshape((*whole.shape[:-1], *member.shape))
