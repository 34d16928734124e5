"""Find the values that choose the branches of a program."""

from collections.abc import Iterable, Iterator, Mapping

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Atom, JaxprEqn, StoredJaxpr
from taxpr._hops.places import addresses_of, numbered
from taxpr._hops.table import nested_jaxprs

_PROGRAM = Address()
_PASSED = {jax.lax.convert_element_type_p: 0, jax.lax.clamp_p: 1}


def choices(stored: StoredJaxpr, home: Address = _PROGRAM) -> dict[str, str]:
    """For each equation with branches its address, and the address of the value that chooses one.

    It is the value that the program computes, before JAX converts it to an index and clamps it. A
    literal has no address, and is left out.
    """
    at, made = addresses_of(stored, home), dict[int, JaxprEqn]()
    found: dict[str, str] = {}
    for local, eqn in numbered(_compat.open_jaxpr(stored)):
        nested = nested_jaxprs(eqn)
        for one in nested:
            found |= choices(one.stored, home / local / one.label)
        made |= {id(var): eqn for var in eqn.outvars}
        if not any(one.conditional for one in nested):
            continue
        fed = {k for one in nested for k in one.operands}
        chosen = [atom for k, atom in enumerate(eqn.invars) if k not in fed]
        if len(chosen) == 1 and (value := _before(chosen[0], made, at)):
            found[home / local] = value
    return found


def _before(atom: Atom, made: Mapping[int, JaxprEqn], at: Mapping[int, Address]) -> str:
    while (eqn := made.get(id(atom))) is not None and eqn.primitive in _PASSED:
        atom = eqn.invars[_PASSED[eqn.primitive]]
    return at.get(id(atom), "")


def around(address: str, known: Iterable[str]) -> Iterator[str]:
    """The equations of these, by address, that a value is in, or is a result of."""
    parts = Address(address).parts
    for k in range(1, len(parts) + 1):
        eqn = Address("/".join(parts[:k])).eqn
        if eqn in known:
            yield eqn
