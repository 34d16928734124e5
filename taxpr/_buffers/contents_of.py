"""Find the equation whose value is in a buffer, by following instructions back."""

from typing import NamedTuple

from taxpr._address import Address
from taxpr._buffers.assignment import Defined
from taxpr._buffers.filled import Filled
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.hlo import Instruction
from taxpr._hops.table import nested_jaxprs

# What moves a value and computes none. Where no equation of the user's has asked for it, what is in
# the buffer is what was moved.
_MOVES = ("copy", "bitcast", "reshape", "transpose", "convert", "slice", "dynamic-slice", "pad")
# What holds others and makes nothing itself.
_HOLDERS = ("scan", "while", "cond")


class Content(NamedTuple):
    """The content of a buffer.

    Attributes:
        address: The equation that made it, or the input; None if it is XLA's own.
        stacked: Whether a loop keeps it once for each iteration.
        copied: Whether XLA made a copy of it.
        carried: Whether a loop hands it from one iteration to the next.
        alike: Other places of closed-over arrays with this value, which XLA makes only once.
    """

    address: Address | None
    stacked: bool = False
    copied: bool = False
    carried: bool = False
    alike: tuple[Address, ...] = ()

    @property
    def exact(self) -> int:
        """How much is known: values that a loop writes say more than its initial values."""
        return 0 if self.address is None else 2 if self.stacked else 1


UNKNOWN = Content(None)
_NOTHING = frozenset[Defined]()


class Contents:
    """The contents of the buffers of a compiled call.

    Args:
        call: The call.
        words: The variables and statements of its program.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr._compiled.compile_call import compile_call
        >>> def f(xs):
        ...     return jax.lax.scan(lambda c, x: (c + 1, jnp.sin(x) * c), 0.0, xs)[1]
        >>> call = compile_call(f, (jnp.ones(50),), {})
        >>> contents = Contents(call, Attributions(call.program))
        >>> content = contents.of((call.hlo.entry.root.name, ()))
        >>> content.address, content.stacked, content.carried
        ('0:scan/body/3:mul', True, False)
    """

    def __init__(self, call: CompiledCall, words: Attributions) -> None:
        self._call, self._hlo, self._words = call, call.hlo, words
        self._known: dict[Defined, Content] = {}
        self._filled = Filled(call.program.jaxpr, call.hlo)

    def of(self, defined: Defined) -> Content:
        """The content of a part of an instruction's result."""
        if defined not in self._known:
            self._known[defined] = self._of(defined, _NOTHING)
        return self._known[defined]

    def _of(self, defined: Defined, seen: frozenset[Defined]) -> Content:
        name, path = defined
        if defined in seen:
            return UNKNOWN
        seen = seen | {defined}
        one = self._hlo.instructions[name]
        match one.opcode:
            case "tuple":
                return self._of((one.operands[path[0]], path[1:]), seen) if path else UNKNOWN
            case "get-tuple-element":
                return self._of((one.operands[0], (one.number or 0, *path)), seen)
            case "parameter":
                return self._parameter(one, path, seen)
            case "while":
                root = self._root(one.calls("body")[0])
                found = self._of((root.name, path), seen)
                return found if found.exact else self._of((one.operands[0], path), seen)
            case "fusion-done":
                return self._of((one.operands[0], (1, *path)), seen)
            case "fusion" | "fusion-start" | "call":
                root = self._root(one.calls()[0])
                path = path[1:] if one.opcode == "fusion-start" else path
                found = self._of((root.name, path), seen)
                return found if found.exact else self._agreed(one)
            case "conditional":
                roots = (self._root(name).name for name in one.calls())
                every = (self._of((root, path), seen) for root in roots)
                return next((found for found in every if found.exact), UNKNOWN)
            case _:
                return self._plain(one, path, seen)

    def _plain(self, one: Instruction, path: tuple[int, ...], seen: frozenset[Defined]) -> Content:
        stamp = self._hlo.stamp(one)
        address = None if stamp is None else self._call.addresses[stamp]
        of_holder = address is None or address.primitive in _HOLDERS
        if one.opcode == "dynamic-update-slice" and of_holder:
            found = self._of((one.operands[1], ()), seen)
            if found.exact:
                return found._replace(stacked=True, copied=False)
            return self._of((one.operands[0], ()), seen)
        if one.opcode in _MOVES and of_holder:
            found = self._of((one.operands[0], path), seen)
            return found._replace(copied=found.copied or one.opcode == "copy")
        closed = self._filled.of(one) if one.opcode == "broadcast" and self._fills(address) else ()
        if closed:
            return Content(closed[0], alike=closed[1:])
        return Content(None if of_holder else address)

    def _fills(self, address: Address | None) -> bool:
        """Whether an array that is filled there is of no equation, but of the program around it."""
        eqn = None if address is None else self._words.places.eqn(address)
        return eqn is None or bool(nested_jaxprs(eqn))

    def _parameter(
        self, one: Instruction, path: tuple[int, ...], seen: frozenset[Defined]
    ) -> Content:
        if one.computation == self._hlo.entry.name:
            number = self._call.inputs.get(one.name)
            return UNKNOWN if number is None else Content(Address(f"in{number}"))
        caller = self._hlo.callers.get(one.computation)
        if caller is None:
            return UNKNOWN
        if caller.opcode == "while":  # what the loop carries
            found = self._of((caller.name, path), seen)
            return found if found.stacked else found._replace(carried=True)
        if caller.opcode == "conditional":
            number = 1 + caller.calls().index(one.computation)
            return self._of((caller.operands[number], path), seen)
        return self._of((caller.operands[one.number or 0], path), seen)

    def _agreed(self, one: Instruction) -> Content:
        """The equation nearest to the result of a fusion, if it computes a single statement.

        XLA's simplifications leave instructions without a name.
        """
        every = self._call.equations(one)
        if not every or any(address.primitive in _HOLDERS for address in every):
            return UNKNOWN
        told = {self._words.of(address)[1:3] for address in every}
        return Content(every[-1]) if len(told) == 1 else UNKNOWN

    def _root(self, computation: str) -> Instruction:
        return self._hlo.computations[computation].root
