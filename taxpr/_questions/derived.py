"""Which values of a program are of a derivative, and not of the function that was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import StoredJaxpr
from taxpr._hops.protocol import Nested
from taxpr._hops.table import nested_jaxprs
from taxpr._primitives.tag import is_tag
from taxpr._sites.walk import numbered

_PROGRAM = Address()


def derived(jaxpr: StoredJaxpr) -> set[str]:
    """The addresses of what a backward pass computes, and of what a forward pass does for it alone.

    The latter is, of a square root, one half divided by it.
    """
    found: set[str] = set()
    _walk(jaxpr, _PROGRAM, [True] * len(_compat.open_jaxpr(jaxpr).outvars), _Within(), found)
    return found


class _Within(NamedTuple):
    """What is around a jaxpr: a backward pass, and a function that is differentiated."""

    backward: bool = False
    differentiated: bool = False


def _walk(
    stored: StoredJaxpr, home: Address, wanted: list[bool], within: _Within, found: set[str]
) -> list[bool]:
    """Note what a jaxpr computes for a derivative; returns which inputs it also needs otherwise.

    ``wanted`` says which of its results are for more than a derivative.
    """
    inner = _compat.open_jaxpr(stored)
    used = {id(atom) for eqn in inner.eqns for atom in eqn.invars} | set(map(id, inner.outvars))
    plain = {id(atom) for atom, one in zip(inner.outvars, wanted, strict=True) if one}
    for local, eqn in reversed(numbered(inner)):
        here, made_by = home / local, _compat.transformations_of(eqn)
        again = _compat.is_recomputed(eqn)
        backward = (within.backward or "transpose" in made_by) and not again
        now = _Within(backward, within.differentiated or "jvp" in made_by)
        # What nobody uses is the function's own result, which its gradient drops.
        outs = [id(var) in plain or id(var) not in used for var in eqn.outvars]
        needed = not backward and (not now.differentiated or any(outs))
        operands = [needed] * len(eqn.invars)
        if nested := nested_jaxprs(eqn):
            operands = [False] * len(eqn.invars)
            for one in nested:
                for k, for_more in enumerate(_inside(one, here / one.label, outs, now, found)):
                    operand = one.operands[k]
                    for number in range(len(operands)) if operand is None else (operand,):
                        operands[number] |= for_more and needed
        own = _compat.is_of_rule(eqn) if backward else is_tag(eqn)
        if (backward or now.differentiated) and not own:
            of_it = (k for k, one in enumerate(outs) if backward or not one)
            found.update(here.value(k) for k in of_it)
        plain |= {id(atom) for atom, one in zip(eqn.invars, operands, strict=True) if one}
    return [id(var) in plain for var in inner.invars]


def _inside(
    nested: Nested, home: Address, outs: Sequence[bool], within: _Within, found: set[str]
) -> list[bool]:
    """The same of a nested jaxpr, whose next iteration may need what this one hands on."""
    wanted = [to is None or outs[to] for to in nested.results]
    while True:
        of_it: set[str] = set()
        ins = _walk(nested.stored, home, wanted, within, of_it)
        back = {out for out, k in nested.back if ins[k]}
        more = [one or k in back for k, one in enumerate(wanted)]
        if more == wanted:
            found |= of_it
            return ins
        wanted = more
