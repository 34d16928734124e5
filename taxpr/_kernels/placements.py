"""Find the statements that place values on devices, such as `with_sharding_constraint`."""

import functools
from collections.abc import Collection

from jax import lax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn
from taxpr._programs.program import Program
from taxpr._questions.depends import EACH
from taxpr._sites.walk import iter_eqns

_PLACING = (_compat.sharding_constraint_p, _compat.reshard_p)
# Before or behind these a value may be moved as well.
_PASSED = EACH | {lax.transpose_p, lax.reshape_p, lax.squeeze_p, lax.broadcast_in_dim_p, lax.rev_p}


class Placements:
    """The equations of a program that place values: `jax.lax.with_sharding_constraint` and others.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def asking(self, equation: Address, makers: Collection[Address]) -> Address | None:
        """The placement that moves an operand of an equation, or None.

        XLA moves it where that is cheapest: before what is computed element by element, or only
        where the result of the placement is used.

        Args:
            equation: The equation that reads the value.
            makers: The equations that made the value; none of an input.
        """
        eqns = self._eqns.get(equation.home, {})
        if equation not in eqns:
            return None
        makes = {id(var): address for address, eqn in eqns.items() for var in eqn.outvars}
        before = [makes.get(id(atom)) for atom in eqns[equation].invars]
        for address in filter(None, before):
            of = makes.get(id(eqns[address].invars[0]))
            if _places(eqns[address]) and (of in makers if of else not makers):
                return address
        open_addresses, seen = [equation], set[Address]()
        while open_addresses:
            address = open_addresses.pop()
            if _places(eqns[address]):
                return address
            if address in seen or eqns[address].primitive not in _PASSED:
                continue
            seen.add(address)
            results = {id(var) for var in eqns[address].outvars}
            open_addresses += [
                other
                for other, eqn in eqns.items()
                if any(id(atom) in results for atom in eqn.invars)
            ]
        return None

    @functools.cached_property
    def _eqns(self) -> dict[Address, dict[Address, JaxprEqn]]:
        """The equations of each jaxpr that has placements."""
        homes = {address.home for address, eqn in iter_eqns(self._program) if _places(eqn)}
        found: dict[Address, dict[Address, JaxprEqn]] = {home: {} for home in homes}
        for address, eqn in iter_eqns(self._program):
            if address.home in homes:
                found[address.home][address] = eqn
        return found


def _places(eqn: JaxprEqn) -> bool:
    return eqn.primitive in _PLACING
