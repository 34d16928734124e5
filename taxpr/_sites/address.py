"""Addresses: stable names of the places in a program.

An address names a place. All but those of tags stay the same when tags come and go:

===========================  ====================================================
``3:scan``                   the equation numbered 3, a scan; equations that are
                             tags are not counted
``t0``                       the first tag; tags are counted apart, so that only their
                             own addresses move
``3:scan/body/4:sin``        an equation of the scan's body
``3:scan/body/4:sin.0``      the value that it returns first
``in2``, ``3:scan/body/in2`` an input of the program, of the scan's body
``const0``                   a closed-over value
``out0``                     an output: the value that it is, by another name
===========================  ====================================================
"""

from __future__ import annotations

import difflib
import re
from typing import Any, NamedTuple

import jax

from taxpr import _compat
from taxpr._errors import AddressError
from taxpr._hops.table import nested_jaxprs
from taxpr._sites.site import Step
from taxpr._sites.walk import iter_eqns, numbered

_OUTPUT = re.compile(r"out\d+")
_LOCAL = re.compile(r"(t|in|const|out)\d+")


def is_local(name: str) -> bool:
    """Whether a name could be the address of a tag, an input, a constant or an output."""
    return _LOCAL.fullmatch(name) is not None


class Place(NamedTuple):
    """What an address names.

    ``kind`` is ``"eqn"``, ``"in"`` or ``"const"``; ``number`` counts inputs or
    constants, or is the position of an equation; ``out`` the result, or None.
    """

    steps: tuple[Step, ...]
    jaxpr: Any
    kind: str
    number: int
    out: int | None


def locate(jaxpr: Any, address: str) -> Place:
    """Find what an address names.

    Raises:
        AddressError: If there is no such place; it says how far the address leads, and which
            addresses are near.
    """
    if not isinstance(address, str):
        raise AddressError(
            f"{address!r} is a {type(address).__name__}. An address is a string such as "
            "'3:scan/body/4:sin.0'."
        )
    *way, leaf = address.split("/")
    try:
        if len(way) % 2 == 0:
            return _located(jaxpr, address, way, leaf)
        _followed(jaxpr, address, [*way, leaf])
    except AddressError as error:
        near = ", ".join(_nearest(jaxpr, address))
        said = f"{error} Nearest: {near}." if near else str(error)
        raise AddressError(said + _primitive_hint(jaxpr, address)) from None
    raise AddressError(
        f"{address!r} ends at a nested jaxpr. Add what is meant in it, such as "
        f"{address + '/in0'!r} for its first input."
    )


def _primitive_hint(jaxpr: Any, text: str) -> str:
    """Where the text is the name of a primitive: how all of its equations are selected."""
    primitive = getattr(jax.lax, f"{text}_p", None)
    if primitive is None or all(eqn.primitive is not primitive for _, eqn in iter_eqns(jaxpr)):
        return ""
    return f" All that {text} makes is selected by the primitive: jax.lax.{text}_p, no string."


def _nearest(jaxpr: Any, address: str) -> list[str]:
    """Addresses of equations like it, those of the same primitive first."""
    known = [known for known, _ in iter_eqns(jaxpr)]
    wanted = _primitive_of(address)
    same = [one for one in known if _primitive_of(one) == wanted]
    near = difflib.get_close_matches(address, same, n=5, cutoff=0.0)
    near += difflib.get_close_matches(address, known, n=5, cutoff=0.5)
    return list(dict.fromkeys(near))[:5]


def _primitive_of(address: str) -> str:
    return address.rpartition("/")[2].partition(".")[0].rpartition(":")[2]


def _followed(jaxpr: Any, address: str, way: list[str]) -> tuple[str, list[Step], Any]:
    """The way down: the address so far, the steps, and the nested jaxpr that it leads to."""
    here, steps, stored = "", [], jaxpr
    for local, label in zip(way[::2], way[1::2], strict=True):
        position, eqn = _find_eqn(stored, local, here, address)
        nested = {n.label: n for n in nested_jaxprs(eqn)}
        if label not in nested:
            has = ", ".join(nested) or "no nested jaxpr"
            raise AddressError(f"{address!r}: {here}{local} has {has}, not {label!r}.")
        steps.append(Step(position, eqn, local, nested[label], stored))
        stored = nested[label].stored
        here += f"{local}/{label}/"
    return here, steps, stored


def _located(jaxpr: Any, address: str, way: list[str], leaf: str) -> Place:
    here, steps, stored = _followed(jaxpr, address, way)
    inner = _compat.open_jaxpr(stored)
    if _OUTPUT.fullmatch(leaf):
        leaf = _local_of_output(inner, address, here, int(leaf.removeprefix("out")))
    for kind, variables in (("in", inner.invars), ("const", inner.constvars)):
        number = leaf.removeprefix(kind)
        if leaf.startswith(kind) and number.isdigit():
            if int(number) >= len(variables):
                raise AddressError(
                    f"{address!r}: {here or 'the program'} has {len(variables)} "
                    f"{'inputs' if kind == 'in' else 'constants'}."
                )
            return Place(tuple(steps), stored, kind, int(number), None)
    local, _, out = leaf.partition(".")
    if out and not out.isdigit():
        raise AddressError(f"{address!r}: {out!r} is no number of a result.")
    position, eqn = _find_eqn(stored, local, here, address)
    if out and int(out) >= len(eqn.outvars):
        raise AddressError(f"{address!r}: {here}{local} has {len(eqn.outvars)} results.")
    return Place(tuple(steps), stored, "eqn", position, int(out) if out else None)


def _local_of_output(inner: Any, address: str, here: str, number: int) -> str:
    """The local address of the value that a jaxpr returns."""
    if number >= len(inner.outvars):
        raise AddressError(
            f"{address!r}: {here or 'the program'} has {len(inner.outvars)} outputs."
        )
    var = inner.outvars[number]
    for kind, variables in (("in", inner.invars), ("const", inner.constvars)):
        for k, one in enumerate(variables):
            if one is var:
                return f"{kind}{k}"
    for local, eqn in numbered(inner):
        for k, one in enumerate(eqn.outvars):
            if one is var:
                return f"{local}.{k}"
    raise AddressError(f"{address!r} is the literal {var.val}, which no equation makes.")


def _find_eqn(stored: Any, local: str, here: str, address: str) -> tuple[int, Any]:
    eqns = numbered(_compat.open_jaxpr(stored))
    for position, (name, eqn) in enumerate(eqns):
        if name == local:
            return position, eqn
    number = local.split(":")[0]
    same = [name for name, _ in eqns if name.split(":")[0] == number]
    where = here.rstrip("/") or "the program"
    if same:
        hint = f"there it is {same[0]!r}, so the address may be of another program"
    elif eqns:
        hint = f"it has {len(eqns)} equations, {eqns[0][0]!r} to {eqns[-1][0]!r}"
        if len(eqns) == 1:
            hint = f"it has one equation, {eqns[0][0]!r}"
    else:
        hint = "it has no equations"
    raise AddressError(f"{address!r}: there is no equation {local!r} in {where}; {hint}.")
