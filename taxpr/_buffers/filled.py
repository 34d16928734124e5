"""Find the closed-over arrays of equal elements, which XLA makes from one of them at each call."""

import functools
import json
from typing import Any

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr
from taxpr._compiled.hlo import HloModule, Instruction
from taxpr._devices.fetched import fetched
from taxpr._sites.values import values_of

_INLINE = ("fusion", "fusion-start", "call")


class Filled:
    """The closed-over arrays of a compiled program, by the instructions that fill them.

    XLA stores an array of equal elements as one of them, and fills an array with it where the
    program reads it. Its instruction has no equation, so dtype, shape and element tell it. Zeros
    are not told: XLA also makes them for itself, such as where a loop writes.

    Args:
        jaxpr: The jaxpr that was compiled.
        hlo: The optimized program.
    """

    def __init__(self, jaxpr: StoredJaxpr, hlo: HloModule) -> None:
        self._jaxpr, self._hlo = jaxpr, hlo

    def of(self, one: Instruction) -> tuple[Address, ...]:
        """The closed-over arrays whose value a ``broadcast`` has."""
        shape = one.shapes[0]
        element = self._element(one.operands[0])
        if not element or not shape.dims:
            return ()
        known = self._closed.get((shape.dtype, shape.dims), ())
        return tuple(address for address, array in known if _is_filled(array, element))

    def _element(self, name: str) -> Any:
        """The number that an instruction is; None if it is no constant."""
        one = self._hlo.instructions[self._hlo.unmoved(name)]
        caller = self._hlo.callers.get(one.computation)
        if one.opcode == "parameter" and caller and caller.opcode in _INLINE:
            return self._element(caller.operands[one.number or 0])
        try:
            return json.loads(one.literal)
        except ValueError:  # an array, or a complex number
            return None

    @functools.cached_property
    def _closed(self) -> dict[tuple[str, tuple[int, ...]], list[tuple[Address, Any]]]:
        found: dict[tuple[str, tuple[int, ...]], list[tuple[Address, Any]]] = {}
        for value in values_of(self._jaxpr):
            if value.address.kind == "const":
                array: Any = _compat.consts_of(value.place.jaxpr)[value.address.number]
                kind = _dtype_text(array.dtype), tuple(array.shape)
                found.setdefault(kind, []).append((value.address, array))
        return found


def _dtype_text(dtype: Any) -> str:
    """XLA's name of a dtype, such as ``"s32"``."""
    text = str(dtype)
    for name, short in (("float", "f"), ("uint", "u"), ("int", "s"), ("bool", "pred"), ("_", "")):
        text = text.replace(name, short)
    return text


def _is_filled(array: Any, element: Any) -> bool:
    host = fetched(array)
    return bool((host == host.dtype.type(element)).all())
