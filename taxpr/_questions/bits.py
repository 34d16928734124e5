"""The values of a program that are not finite, as bits, with the loops and calls around them."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._devices.fetched import fetched
from taxpr._hops.nested import Nested
from taxpr._hops.places import addresses_of, numbered
from taxpr._hops.table import in_loop, injectable, is_loop, nested_jaxprs
from taxpr._questions.copies import deciding
from taxpr._questions.depends import Depends
from taxpr._questions.inside_out import Call, Devices, Loop
from taxpr._recordings.axes import Level, batched_condition, placed
from taxpr._untyped import jnp, np

NAN, POSINF, NEGINF = 1, 2, 4
INF = POSINF | NEGINF
KINDS = {NAN: "NaN", POSINF: "+inf", NEGINF: "-inf"}
# Whose infinities have the sign of an infinity that they were given, or are their own.
_KEEPS_SIGN = {
    *(lax.exp_p, lax.exp2_p, lax.expm1_p, lax.log_p, lax.log1p_p, lax.sinh_p),
    *(lax.add_p, lax.reduce_sum_p, lax.cumsum_p, lax.convert_element_type_p),
}
_PROGRAM = Address()
MOST_ITERATIONS = 1000  # how often a loop is walked through at most, until nothing changes


def kinds(x: Any, axes: int, of: Any) -> Any:
    """The bits of a value, with as many leading axes; ``of`` is NumPy or `jax.numpy`."""
    own = tuple(range(axes, x.ndim))
    if not takes(x.dtype):
        return of.zeros(x.shape[:axes], of.uint8)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return kinds(x.real, axes, of) | kinds(x.imag, axes, of)
    found = {NAN: of.isnan(x), POSINF: x == of.inf, NEGINF: x == -of.inf}
    bits = [of.any(one, own).astype(of.uint8) * of.uint8(bit) for bit, one in found.items()]
    return bits[0] | bits[1] | bits[2]


def takes(dtype: Any) -> bool:
    """Whether values of a dtype may be not finite."""
    return not _compat.is_extended(dtype) and jnp.issubdtype(dtype, jnp.inexact)


def dtype_of(atom: Any) -> Any:
    """The dtype of a variable or literal; bool if it is no array."""
    return getattr(atom.aval, "dtype", np.bool_)


class Seen(NamedTuple):
    """The bits of a value, as they were recorded.

    Attributes:
        axes: Its leading axes, of loops and mesh axes.
        table: The bits of each iteration and device.
        ndim: The number of its own axes.
        value: The value itself; None where it was not kept.
        ran: Whether it was computed, for each iteration and device; None for all.
    """

    axes: tuple[str, ...]
    table: Any
    ndim: int
    value: Any = None
    ran: Any = None


class Values:
    """The recorded bits of all values of a program, and how arrays move between levels of it.

    Args:
        seen: By the addresses of values.
        fine: Whether to tell elements apart.
        closed: The addresses of equations whose inside was not seen.

    Attributes:
        fine: Whether the elements of values are told apart, if they were kept.
        guessed: The names of primitives whose dependencies of elements were guessed.
    """

    def __init__(self, seen: Mapping[str, Seen], fine: bool, closed: Container[str]) -> None:
        self._seen, self.fine, self._closed = seen, fine, closed
        self._bits: dict[str, Any] = {}  # with the leading axes of their level
        self._whole: dict[str | None, Any] = {}
        self._loops: dict[str, Loop] = {}
        self.guessed: set[str] = set()
        self._lengths: dict[str, int] = {}
        for address, one in seen.items():
            for axis, n in zip(one.axes, one.table.shape, strict=True):
                jaxpr_of_it = address[: address.find("/", len(axis) + 1)]
                self._lengths[jaxpr_of_it] = max(n, self._lengths.get(jaxpr_of_it, 0))

    def times(self, address: str) -> int:
        """How often a value was computed, in loops and on devices."""
        one = self._seen[address]
        return int(one.table.size if one.ran is None else one.ran.sum())

    def axes(self, address: str) -> tuple[str, ...]:
        """The loops and mesh axes along which a value differs."""
        return self._seen[address].axes

    def of(self, address: str | None, level: Level) -> Any:
        """The bits of a value, None if all of it is finite."""
        one = self._seen.get(address or "")
        if address is None or one is None or not one.table.any():
            return None
        if address not in self._bits:
            if one.value is None or not self.fine:
                bits = one.table.reshape(one.table.shape + (1,) * one.ndim)
            else:
                value = self._fetched(address)
                bits = kinds(value, value.ndim, np)
            self._bits[address] = placed(bits, one.axes, level)
        return self._bits[address]

    def _value(self, atom: Any, address: str | None, level: Level) -> Any:
        if atom is not None and _compat.is_literal(atom):
            return np.asarray(atom.val).reshape((1,) * (len(level) + np.ndim(atom.val)))
        one = self._seen.get(address or "")
        if one is None or one.value is None:
            return None
        return placed(self._fetched(address), one.axes, level)

    def _fetched(self, address: str | None) -> Any:
        """A value as an array of NumPy; of one that other processes have parts of only once."""
        if address not in self._whole:
            self._whole[address] = fetched(self._seen[address or ""].value)
        return self._whole[address]

    def depends(self, eqn: JaxprEqn, ins: Sequence[str | None], level: Level) -> Depends:
        def value(k: int) -> Any:
            return self._value(eqn.invars[k], ins[k], level)

        return Depends(eqn, [name for name, _ in level], value, self.fine)

    def entered(self, eqn: JaxprEqn, here: Address) -> list[Nested]:
        """The jaxprs of an equation that the recording read."""
        if here in self._closed:
            return []
        return [one for one in nested_jaxprs(eqn) if injectable(eqn, one) is None]

    def call(self, eqn: JaxprEqn, nested: Nested, here: Address, level: Level) -> Call:
        if eqn.primitive is _compat.shard_map_p:
            return Devices(eqn, level)
        if not in_loop(eqn, nested):
            return Call(level)
        home = here / nested.label
        if home not in self._loops:
            roles = {"in": nested.in_roles, "out": nested.out_roles}
            ran = self._ran(eqn, nested, here, level)
            self._loops[home] = Loop(here, ran, level, roles, nested.reverse)
        return self._loops[home]

    def in_batch(self, bits: Any, level: Level, mapped: Sequence[int]) -> Any:
        """The bits of a value without batch elements of loops that had ended.

        Args:
            bits: The bits.
            level: The loops and mesh axes around the value.
            mapped: The axes of the value that `jax.vmap` has put into it, the outermost last.
        """
        if self.fine:
            for loop in self._loops.values():
                if loop.level == level[: len(loop.level)]:
                    bits = loop.in_batch(bits, len(level), mapped)
        return bits

    def _ran(self, eqn: JaxprEqn, nested: Nested, here: Address, level: Level) -> Any:
        """Which iterations of a loop ran, and which batch elements of its condition in them."""
        home, lead = here / nested.label, (1,) * len(level)
        if isinstance(nested.trips, int):
            return np.ones((*lead, nested.trips), bool)
        length = self._lengths.get(home, 0)
        inner: Level = (*level, (here, length))
        ran = np.ones((*lead, length), bool)
        for k in range(len(nested.in_roles)):
            one = self._seen.get(home / f"in{k}")
            if nested.in_roles[k] == "carry" and one is not None and here in one.axes:
                fired = np.ones(one.table.shape, bool) if one.ran is None else one.ran
                ran = placed(fired, one.axes, inner)
                break
        if (condition := batched_condition(eqn, here)) is not None:
            batch = self._value(None, condition, inner)
            if batch is None:
                self.guessed.add(eqn.primitive.name)
            elif self.fine:
                return ran.reshape(ran.shape + (1,) * (batch.ndim - ran.ndim)) & batch
        return ran


def deciders(stored: StoredJaxpr, home: Address = _PROGRAM) -> set[str]:
    """The addresses of values to record besides floats: predicates and indices."""
    inner, addresses = _compat.open_jaxpr(stored), addresses_of(stored, home)
    found: set[str] = set()
    for local, eqn in numbered(inner):
        if is_loop(eqn) and (condition := batched_condition(eqn, home / local)):
            found.add(condition)
        for nested in nested_jaxprs(eqn):
            found |= deciders(nested.stored, home / local / nested.label)
        if any(takes(dtype_of(var)) for var in eqn.outvars):
            atoms = (eqn.invars[k] for k in deciding(eqn))
            found |= {addresses[key_of(atom)] for atom in atoms if key_of(atom) in addresses}
    return found


def either(one: Any, other: Any) -> Any:
    return other if one is None else one | other


def key_of(atom: Any) -> int:
    return id(atom)


def of_literal(atom: Any, level: Level) -> Any:
    if not _compat.is_literal(atom):
        return None
    value = np.asarray(atom.val)
    bits = kinds(value, value.ndim, np)
    return bits.reshape((1,) * (len(level) + value.ndim)) if bits.any() else None


def given_on(eqn: JaxprEqn, operand: int, bits: Any) -> Any:
    """Which infinities a result may get from an operand's."""
    bits = bits & INF
    turned = ((bits & POSINF) << 1) | ((bits & NEGINF) >> 1)
    if eqn.primitive is lax.neg_p or (eqn.primitive is lax.sub_p and operand == 1):
        return turned
    others = [atom for k, atom in enumerate(eqn.invars) if k != operand]
    scales = eqn.primitive is lax.mul_p or (eqn.primitive is lax.div_p and operand == 0)
    if scales and all(_compat.is_literal(atom) and np.all(atom.val > 0) for atom in others):
        return bits
    keeps = eqn.primitive in _KEEPS_SIGN or eqn.primitive is lax.sub_p
    return bits if keeps else bits | turned
