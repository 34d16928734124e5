"""Which values of a program are of a derivative, and not of the function that was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._hops.interpreter import Backwards
from taxpr._hops.protocol import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag import is_tag

_PROGRAM = Address()


def derived(jaxpr: StoredJaxpr) -> set[str]:
    """The addresses of what a backward pass computes, and of what a forward pass does for it alone.

    The latter is, of a square root, one half divided by it.
    """
    known = _Derived()
    known.run(jaxpr, [True] * len(_compat.open_jaxpr(jaxpr).outvars), _PROGRAM)
    return {address for address, one in known.found.items() if one}


class _PassesAround(NamedTuple):
    """Whether a jaxpr is within a backward pass, and within a function that is differentiated."""

    backward: bool = False
    differentiated: bool = False


class _Derived(Backwards[bool]):
    """Whether a value is for more than a derivative."""

    nothing = False
    unused = True  # what nobody uses is the function's own result, which its gradient drops

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}
        self._within = {_PROGRAM: _PassesAround()}

    def join(self, each: Sequence[bool]) -> bool:
        return any(each)

    def entered(self, eqn: JaxprEqn, here: Address) -> Sequence[Nested]:
        nested = nested_jaxprs(eqn)
        self._within.update((here / one.label, self._around(eqn, here)) for one in nested)
        return nested

    def _around(self, eqn: JaxprEqn, here: Address) -> _PassesAround:
        within, made_by = self._within[here.home], _compat.transformations_of(eqn)
        backward = within.backward or "transpose" in made_by
        again = _compat.is_recomputed(eqn)
        return _PassesAround(backward and not again, within.differentiated or "jvp" in made_by)

    def needed(
        self, eqn: JaxprEqn, outs: Sequence[bool], inside: Sequence[bool] | None, here: Address
    ) -> Sequence[bool]:
        backward, differentiated = self._around(eqn, here)
        needed = not backward and (not differentiated or any(outs))
        own = _compat.is_of_rule(eqn) if backward else is_tag(eqn)
        of_it = (backward or differentiated) and not own
        for k, one in enumerate(outs):
            self.found[here.value(k)] = of_it and (backward or not one)
        return [needed and one for one in inside or [True] * len(eqn.invars)]
