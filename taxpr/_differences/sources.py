"""Which values each value of a program was computed from."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr, Var
from taxpr._hops.interpreter import Forwards
from taxpr._untyped import lax as _lax

# What only says where numbers stand.
_PLACES: frozenset[Any] = frozenset(
    [
        *(_lax.reshape_p, _lax.squeeze_p, _lax.rev_p, _lax.slice_p, _lax.transpose_p),
        *(_lax.broadcast_in_dim_p, _lax.gather_p, _lax.dynamic_slice_p, _lax.concatenate_p),
        _lax.copy_p,
    ]
)


class MadeFrom(NamedTuple):
    """A value that another one was made of.

    Attributes:
        address: The address of a value.
        loop: The loop whose iteration before is meant; None where it is the same one.
    """

    address: Address
    loop: Address | None = None


class HowMade(NamedTuple):
    """How a value was made.

    Attributes:
        of: The nearest sources among the values in question.
        computed: Whether it has new numbers; else the sources' numbers are only moved.
    """

    of: frozenset[MadeFrom] = frozenset()
    computed: bool = False


_NOTHING = HowMade()


def sources(jaxpr: StoredJaxpr, asked: Collection[str]) -> tuple[dict[str, HowMade], list[HowMade]]:
    """For each of some values, by address, what it was made of; and for each result."""
    flow, inputs = _Sources(asked), len(_compat.open_jaxpr(jaxpr).invars)
    results = flow.run(jaxpr, [None] * inputs, Address())
    return flow.found, [one or _NOTHING for one in results]


class _Sources(Forwards[HowMade | None]):
    nothing = None

    def __init__(self, asked: Collection[str]) -> None:
        super().__init__()
        self._asked = asked
        self.found: dict[str, HowMade] = {}

    def join(self, each: Sequence[HowMade | None]) -> HowMade | None:
        known = [one for one in each if one is not None]
        computed = any(one.computed for one in known)
        return HowMade(frozenset[MadeFrom]().union(*(one.of for one in known)), computed)

    def made(self, eqn: JaxprEqn, operands: Sequence[HowMade | None]) -> list[HowMade | None]:
        of = self.join(operands) or _NOTHING
        made = of._replace(computed=of.computed or eqn.primitive not in _PLACES)
        return [made] * len(eqn.outvars)

    def held(self, var: Var, of: HowMade | None, address: Address | None) -> HowMade | None:
        if address is None or address not in self._asked:
            return of
        self.found[address] = of or _NOTHING
        return HowMade(frozenset([MadeFrom(address)]))

    def handed_on(self, of: HowMade | None, loop: Address | None) -> HowMade | None:
        return of and of._replace(of=frozenset(MadeFrom(one.address, loop) for one in of.of))
