"""Find the axes that `jax.vmap` has put into a program's values.

The mark of a variable says it. A value inside an expression gets the axes of its operands.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag_equation import is_tag
from taxpr._questions.bits import key_of
from taxpr._questions.copies import shape_of
from taxpr._questions.depends import Depends

Axes = tuple[int, ...]

_OF_EACH = ("x", "y")  # the roles of what has an axis for the iterations, outside
# These keep the axes of their operands, though an axis may have another length.
_KEEP = {
    *(lax.rev_p, lax.slice_p, lax.concatenate_p, lax.split_p, lax.select_n_p, lax.pad_p),
    *(lax.dynamic_slice_p, lax.dynamic_update_slice_p),
}


@dataclasses.dataclass(frozen=True)
class MappedVariables:
    """The mapped axes of values that variables hold, by their addresses.

    Attributes:
        named: Those of the variable that a row names.
        held: Those of all its variables: a parameter of a mapped function may hold a value of the
            caller, of which it maps an axis.
    """

    named: Mapping[str, Axes]
    held: Mapping[str, frozenset[Axes]]


def mapped_axes(jaxpr: StoredJaxpr, known: MappedVariables) -> dict[str, Axes]:
    """The mapped axes of values by address, the outermost `jax.vmap` last."""
    found: dict[str, Axes] = {}
    _walk(jaxpr, Address(), [()] * len(_compat.open_jaxpr(jaxpr).invars), 0, known, found)
    return found


def _walk(
    stored: StoredJaxpr,
    home: Address,
    given: Sequence[Axes],
    vmaps: int,
    known: MappedVariables,
    found: dict[str, Axes],
) -> list[Axes]:
    """Find the mapped axes of a jaxpr's values in ``vmaps`` vmaps; returns the results' axes."""
    inner, addresses = _compat.open_jaxpr(stored), addresses_of(stored, home)

    def of(atom: Any, vmaps: int = 0) -> Axes:
        address = addresses.get(key_of(atom), "")
        axes = found.get(address, ())
        inside = [one for one in known.held.get(address, ()) if len(axes) < len(one) <= vmaps]
        most = max(map(len, inside), default=0)
        deepest = [one for one in inside if len(one) == most]
        return deepest[0] if len(deepest) == 1 else axes

    for var, axes in zip(inner.invars, given, strict=True):
        address = addresses[key_of(var)]
        found[address] = known.named.get(address) or axes
    for local, eqn in numbered(inner):
        if is_tag(eqn):
            continue
        inside = vmaps + _compat.transformations_of(eqn).count("vmap")
        here, ins = home / local, [of(atom, inside) for atom in eqn.invars]
        outs = _through(eqn, here, ins, inside, known, found)
        for number in range(len(eqn.outvars)):
            address = here.value(number)
            axes = outs[number] if outs else _computed(eqn, number, ins)
            found[address] = known.named.get(address) or axes
    return [of(atom) for atom in inner.outvars]


def _through(
    eqn: JaxprEqn,
    here: Address,
    ins: Sequence[Axes],
    vmaps: int,
    known: MappedVariables,
    found: dict[str, Axes],
) -> list[Axes]:
    """Those of the results of an equation that holds others; none where it holds none."""
    entered = nested_jaxprs(eqn)
    outs: list[Axes] = [()] * len(eqn.outvars) if entered else []
    for nested in entered:
        given = [() if k is None else ins[k] for k in nested.operands]
        given = [_moved(nested, "in", k, axes) for k, axes in enumerate(given)]
        results = _walk(nested.stored, here / nested.label, given, vmaps, known, found)
        for k, (to, axes) in enumerate(zip(nested.results, results, strict=True)):
            if to is not None:
                outs[to] = outs[to] or _moved(nested, "out", k, axes)
    return outs


def _moved(nested: Nested, kind: str, number: int, axes: Axes) -> Axes:
    """The axes inside of those outside, or the other way round: a loop has one more outside."""
    roles = nested.in_roles if kind == "in" else nested.out_roles
    if not roles or roles[number] not in _OF_EACH:
        return axes
    by = -1 if kind == "in" else 1
    return tuple(k + by for k in axes) if all(k + by >= 0 for k in axes) else ()


def _computed(eqn: JaxprEqn, number: int, ins: Sequence[Axes]) -> Axes:
    """Those of a result that an equation computes; none where they are not known."""
    depends = Depends(eqn, (), lambda k: None, fine=True)
    out, each = shape_of(eqn.outvars[number]), list[Axes]()
    for k, axes in enumerate(ins):
        own = shape_of(eqn.invars[k])
        to = _aligned(eqn, own, out) or depends.aligned(k, number)
        if (to is None or None in to) and own == out:
            to = tuple(range(len(own)))
        moved = [None if to is None else to[axis] for axis in axes]
        now = tuple(axis for axis in moved if axis is not None)
        each += [now] if len(now) == len(axes) else []
    best = max(each, key=len, default=())
    # Of two operands with other axes nobody knows which `jax.vmap` is the outer one.
    return best if all(set(axes) <= set(best) for axes in each) else ()


def _aligned(eqn: JaxprEqn, own: Sequence[int], out: Sequence[int]) -> list[int | None] | None:
    """For each axis of a copied operand the result's axis; None if others know it."""
    kind = eqn.primitive
    if kind in _KEEP and len(own) == len(out):
        return list(range(len(own)))
    if kind not in (lax.reshape_p, lax.squeeze_p):
        return None
    # An axis is the same where as many elements are before it, and as many in it.
    before = {(math.prod(out[:k]), n): k for k, n in enumerate(out)}
    return [before.get((math.prod(own[:k]), n)) for k, n in enumerate(own)]
