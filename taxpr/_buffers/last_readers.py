"""Find the equations that read a value last."""

from taxpr._address import Address
from taxpr._buffers.live import Interval
from taxpr._compiled.attribution import Attributions
from taxpr._compiled.compile_call import CompiledCall


class LastReaders:
    """The equations that read the values of a compiled call last.

    Args:
        call: The call.
        words: The variables and statements of its program.
    """

    def __init__(self, call: CompiledCall, words: Attributions) -> None:
        self._call, self._words = call, words
        self._known: dict[str, dict[str, int]] = {}

    def of(self, value: Interval) -> tuple[Address, ...]:
        """The equations of the instruction that reads a value last.

        A fusion may compute once more what the forward pass has computed: behind that, its first
        equations of a backward pass count.
        """
        hlo = self._call.hlo
        reader = hlo.instructions.get(value.reader)
        if reader is None:
            return ()
        if not reader.is_fusion:
            return self._call.equations(reader)
        inner = hlo.computations[reader.calls()[0]]
        reached = 0
        for number, name in enumerate(reader.operands):
            if hlo.unmoved(name) == value.defined[0]:
                reached |= self._reached(inner.name)[inner.parameters[number].name]
        found = (
            hlo.stamp(one) for k, one in enumerate(inner.instructions.values()) if reached >> k & 1
        )
        return tuple(dict.fromkeys(self._call.addresses[k] for k in found if k is not None))

    def _reached(self, computation: str) -> dict[str, int]:
        """For each instruction of a computation the first ones of a backward pass that need it.

        A set of instructions is an integer with a bit for each.
        """
        if computation not in self._known:
            hlo = self._call.hlo
            known = self._known[computation] = {}
            every = hlo.computations[computation].instructions
            numbers = {name: k for k, name in enumerate(every)}
            for name in reversed(every):
                known[name] = 0
                for user in hlo.users.get(name, ()):
                    stamp = hlo.stamp(user)
                    is_last = stamp is not None and self._words.is_backward(
                        self._call.addresses[stamp]
                    )
                    known[name] |= 1 << numbers[user.name] if is_last else known[user.name]
        return self._known[computation]
