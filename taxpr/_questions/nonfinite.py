"""Which values of a program were not finite, where that began, and what of it the results have.

What is known of a value is a number of bits for each iteration and device: whether it had a NaN,
+inf, -inf. An equation is an origin where its result is not finite and its operands are. Infinities
that come from constants or arguments, as those of a mask, are no origin, but a NaN made of them is,
and an infinity of a sign that they cannot give. A NaN that is written in the source begins where it
meets what is computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy
import numpy
from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.protocol import Nested
from taxpr._hops.table import injectable, is_loop, nested_jaxprs
from taxpr._primitives.tag import is_tag
from taxpr._sites.walk import numbered

np: Any = numpy  # which leaves types of arrays unknown
jnp: Any = jax.numpy

NAN, POSINF, NEGINF = 1, 2, 4
INF = POSINF | NEGINF
# Whose infinities have the sign of an infinity that they were given, or are their own.
_KEEPS_SIGN = {
    *(lax.exp_p, lax.exp2_p, lax.expm1_p, lax.log_p, lax.log1p_p, lax.sinh_p),
    *(lax.add_p, lax.reduce_sum_p, lax.cumsum_p, lax.convert_element_type_p),
}
KINDS = {NAN: "NaN", POSINF: "+inf", NEGINF: "-inf"}


def kinds(x: Any, axes: int, of: Any) -> Any:
    """The bits of a value, with as many leading axes; ``of`` is NumPy or `jax.numpy`."""
    own = tuple(range(axes, x.ndim))
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return kinds(x.real, axes, of) | kinds(x.imag, axes, of)
    found = {NAN: of.isnan(x), POSINF: x == of.inf, NEGINF: x == -of.inf}
    bits = [of.any(one, own).astype(of.uint8) * of.uint8(bit) for bit, one in found.items()]
    return bits[0] | bits[1] | bits[2]


def takes(dtype: Any) -> bool:
    """Whether values of a dtype may be not finite."""
    return not _compat.is_extended(dtype) and jnp.issubdtype(dtype, jnp.inexact)


class Bits(NamedTuple):
    """The bits of a value, with an axis for each loop and mesh axis."""

    axes: tuple[str, ...]
    table: Any

    def over(self, axes: Sequence[str], shape: Sequence[int]) -> Any:
        """The bits with other axes, in the order of its own, which are some of these."""
        lengths = dict(zip(axes, shape, strict=True))
        own = tuple(k for k, name in enumerate(self.axes) if name not in lengths)
        table = np.bitwise_or.reduce(self.table, own)  # as before a psum, over devices
        names = [name for name in self.axes if name in lengths]
        # A loop's condition runs once more than its body.
        sizes = zip(names, table.shape, strict=True)
        pads = [(0, max(lengths[name] - n, 0)) for name, n in sizes]
        table = np.pad(table, pads) if pads else table
        table = table[tuple(slice(lengths[name]) for name in names)]
        wide = [lengths[name] if name in names else 1 for name in axes]
        return np.broadcast_to(table.reshape(wide), tuple(shape))


@dataclasses.dataclass(eq=False)
class Origin:
    """A value that is not finite while nothing that it is made of is.

    Attributes:
        address: The value.
        eqn: What makes it; None for an argument or a constant.
        index: The iterations and devices, by the names of the axes.
        bits: What is not finite.
        operands: The addresses of the operands; None for a literal, which stands beside.
    """

    address: str
    eqn: JaxprEqn | None
    index: dict[str, int]
    bits: int
    operands: tuple[tuple[str | None, Any], ...] = ()


# What is around a value: positions of equations, loops and labels, outermost first. A loop is its
# axis, and its length if it goes backwards.
_Order = tuple[int | tuple[str, int | None], ...]


class Nonfinite:
    """What is not finite in a program.

    Attributes:
        origins: Where it begins, in the order of execution.
        marked: The addresses of values that are not finite and of which a result is made that is
            not finite either.
    """

    def __init__(self, jaxpr: StoredJaxpr, bits: Mapping[str, Bits]) -> None:
        self._bits = {address: one for address, one in bits.items() if np.any(one.table)}
        self._bad: set[str] = set()  # with a NaN, or infinities that are not those of a mask
        self._constant: set[str] = set()  # made of literals alone
        self._found: dict[str, tuple[tuple[int, ...], Origin]] = {}
        self.marked: set[str] = set()
        size = -1
        while size < len(self._bad):  # what a loop hands on, it gets in its next iteration
            size = len(self._bad)
            self._forward(jaxpr, Address(), ())
        inner = _compat.open_jaxpr(jaxpr)
        addresses = _addresses(jaxpr, Address())
        self._mark(addresses.get(_key(atom)) for atom in inner.outvars)
        size = -1
        while size < len(self.marked):
            size = len(self.marked)
            self._backward(jaxpr, Address())
        ordered = sorted(self._found.values(), key=lambda pair: pair[0])
        self.origins = [origin for _, origin in ordered]

    def _mark(self, addresses: Iterable[str | None]) -> None:
        self.marked.update(one for one in addresses if one is not None and one in self._bad)

    def _forward(self, stored: StoredJaxpr, home: Address, order: _Order) -> None:
        """Find what is bad in a jaxpr, and where that begins."""
        inner = _compat.open_jaxpr(stored)
        addresses = _addresses(stored, home)
        if not home:
            for var in (*inner.constvars, *inner.invars):
                self._given(addresses[_key(var)])
        for position, (local, eqn) in enumerate(numbered(inner)):
            if is_tag(eqn):
                continue
            here = home / local
            outs = [here.value(k) for k in range(len(eqn.outvars))]
            ins = [addresses.get(_key(atom)) for atom in eqn.invars]
            entered = _entered(eqn)
            for number, nested in enumerate(entered):
                below = _addresses(nested.stored, here / nested.label)
                given = [below[_key(var)] for var in nested.jaxpr.invars]
                back = {k: below.get(_key(nested.jaxpr.outvars[out])) for out, k in nested.back}
                for k, operand in enumerate(nested.operands):
                    sources = {ins[operand] if operand is not None else None, back.get(k)}
                    if operand is None or not sources.isdisjoint(self._bad):
                        self._add(given[k])
                    if operand is not None and k not in back and self._is_constant(ins[operand]):
                        self._constant.add(given[k])
                loop = ((here, nested.trips if nested.reverse else None),) if is_loop(eqn) else ()
                within = (*order, position, *loop, number)
                self._forward(nested.stored, here / nested.label, within)
                for k, result in enumerate(nested.results):
                    atom = below.get(_key(nested.jaxpr.outvars[k]))
                    if result is None or atom in self._bad:
                        self._add(*(outs if result is None else [outs[result]]))
                    if result is not None and len(entered) == 1 and atom in self._constant:
                        self._constant.add(outs[result])
            if not entered:
                self._made(eqn, outs, ins, (*order, position))

    def _add(self, *addresses: str | None) -> None:
        self._bad.update(one for one in addresses if one is not None and one in self._bits)

    def _given(self, address: str) -> None:
        """A NaN in an argument or a constant begins there; infinities are as those of a mask."""
        found = self._bits.get(address)
        if found is not None and np.any(found.table & NAN):
            self._add(address)
            self._found[address] = (-1,), Origin(address, None, {}, NAN)

    def _made(
        self, eqn: JaxprEqn, outs: Sequence[str], ins: Sequence[str | None], order: _Order
    ) -> None:
        """What is bad of the results of an equation that holds no others."""
        is_constant = all(map(self._is_constant, ins))
        for address in outs:
            out = self._bits.get(address)
            if is_constant:
                self._constant.add(address)
            if out is None:
                continue
            shape = out.table.shape
            nan = bad = mask = np.zeros(shape, np.uint8)
            for k, (one, atom) in enumerate(zip(ins, eqn.invars, strict=True)):
                bits = self._of(one, atom, out.axes, shape)
                if is_constant or not self._is_constant(one):
                    nan = nan | (bits & NAN)
                if one in self._bad and one not in self._constant:
                    bad = bad | (bits & INF)
                else:
                    mask = mask | _given_on(eqn, k, bits & INF)
            handed = (nan | bad) > 0
            made = np.where(handed, 0, out.table) & ~(np.uint8(INF) if is_constant else mask)
            from_bad = np.where(handed, out.table, 0)
            if np.any(from_bad & NAN) or np.any(from_bad & INF & ~mask) or np.any(made):
                self._add(address)
            if np.any(made):
                places = [tuple(map(int, one)) for one in np.argwhere(made)]
                keys = [_execution(order, dict(zip(out.axes, at, strict=True))) for at in places]
                key, at = min(zip(keys, places, strict=True))
                index = dict(zip(out.axes, at, strict=True))
                literals = [a.val if _compat.is_literal(a) else None for a in eqn.invars]
                operands = tuple(zip(ins, literals, strict=True))
                self._found[address] = key, Origin(address, eqn, index, int(made[at]), operands)
            else:
                self._found.pop(address, None)

    def _is_constant(self, address: str | None) -> bool:
        return address is None or address in self._constant

    def _of(self, address: str | None, atom: Any, axes: Sequence[str], shape: Any) -> Any:
        if _compat.is_literal(atom):
            value = np.asarray(atom.val)
            return kinds(value, value.ndim, np) if takes(value.dtype) else np.uint8(0)
        known = self._bits.get(address or "")
        return np.uint8(0) if known is None else known.over(axes, shape)

    def _backward(self, stored: StoredJaxpr, home: Address) -> None:
        """Mark what marked values of a jaxpr are made of."""
        inner = _compat.open_jaxpr(stored)
        addresses = _addresses(stored, home)
        for local, eqn in reversed(numbered(inner)):
            here = home / local
            marked = [here.value(k) in self.marked for k in range(len(eqn.outvars))]
            if is_tag(eqn) or not any(marked):
                continue
            ins = [addresses.get(_key(atom)) for atom in eqn.invars]
            entered = _entered(eqn)
            for nested in entered:
                below = _addresses(nested.stored, here / nested.label)
                results = zip(nested.results, nested.jaxpr.outvars, strict=True)
                self._mark(
                    below.get(_key(atom))
                    for result, atom in results
                    if result is None or marked[result]
                )
                self._backward(nested.stored, here / nested.label)
                given = [below[_key(var)] for var in nested.jaxpr.invars]
                for k, operand in enumerate(nested.operands):
                    if given[k] in self.marked:
                        self._mark(ins if operand is None else [ins[operand]])
                for out, k in nested.back:
                    if given[k] in self.marked:
                        self._mark([below.get(_key(nested.jaxpr.outvars[out]))])
            if not entered:
                self._mark(ins)


def _key(atom: Any) -> int:
    return id(atom)


def _given_on(eqn: JaxprEqn, operand: int, bits: Any) -> Any:
    """Which infinities a result may have of those of an operand."""
    turned = ((bits & POSINF) << 1) | ((bits & NEGINF) >> 1)
    if eqn.primitive is lax.neg_p or (eqn.primitive is lax.sub_p and operand == 1):
        return turned
    others = [atom for k, atom in enumerate(eqn.invars) if k != operand]
    scales = eqn.primitive is lax.mul_p or (eqn.primitive is lax.div_p and operand == 0)
    if scales and all(_compat.is_literal(atom) and np.all(atom.val > 0) for atom in others):
        return bits
    keeps = eqn.primitive in _KEEPS_SIGN or eqn.primitive is lax.sub_p
    return bits if keeps else bits | turned


def _entered(eqn: JaxprEqn) -> list[Nested]:
    """The jaxprs of an equation that a recording reads."""
    return [one for one in nested_jaxprs(eqn) if injectable(eqn, one) is None]


def _addresses(stored: StoredJaxpr, home: Address) -> dict[int, Address]:
    """The address of what each variable of a jaxpr holds."""
    inner = _compat.open_jaxpr(stored)
    at: dict[int, Address] = {}
    for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
        at.update((_key(var), home / f"{kind}{k}") for k, var in enumerate(variables))
    for local, eqn in numbered(inner):
        if is_tag(eqn):
            pairs = zip(eqn.invars, eqn.outvars, strict=True)
            at.update((_key(new), at[_key(old)]) for old, new in pairs if _key(old) in at)
        else:
            at.update((_key(var), (home / local).value(k)) for k, var in enumerate(eqn.outvars))
    return at


def _execution(order: _Order, index: Mapping[str, int]) -> tuple[int, ...]:
    """When a value is made: a number for each step down, and for each iteration."""
    key: list[int] = []
    for one in order:
        if isinstance(one, int):
            key.append(one)
        else:
            axis, backwards = one
            at = index.get(axis, 0)
            key.append(at if backwards is None else backwards - 1 - at)
    return tuple(key)
