"""Find the place in a program that an address names."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import difflib
from collections.abc import Sequence
from typing import NamedTuple

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._answers.count_of import count_of
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr
from taxpr._errors import AddressError, a_type
from taxpr._hops.places import numbered
from taxpr._hops.table import nested_jaxprs
from taxpr._sites.site import Step, around, described, home_of
from taxpr._sites.walk import iter_eqns


class Located(NamedTuple):
    """The place that an address names.

    ``kind`` is ``"eqn"``, ``"in"`` or ``"const"``. ``number`` is the index of an input or constant,
    or the position of an equation. ``out`` is the index of a result, or None.
    """

    steps: tuple[Step, ...]
    jaxpr: StoredJaxpr
    kind: str
    number: int
    out: int | None

    @property
    def home(self) -> Address:
        """The address of the jaxpr that holds it."""
        return home_of(self.steps)


def locate(jaxpr: StoredJaxpr, address: str) -> Located:
    """Find the place that an address names.

    Raises:
        AddressError: If there is no such place. The message says how far the address leads, and
            lists similar addresses.
    """
    if not isinstance(address, str):
        raise AddressError(
            f"{address!r} is {a_type(address)}. An address is a string such as "
            "'3:scan/body/4:sin.0'."
        )
    whole = Address(address)
    try:
        if len(whole.parts) % 2:
            return _located(jaxpr, whole)
        _followed(jaxpr, whole, whole)
    except AddressError as error:
        near = ", ".join(described(*one) for one in _nearest(jaxpr, whole))
        said = f"{error} Nearest: {near}." if near else str(error)
        raise AddressError(said + _primitive_hint(jaxpr, address)) from None
    raise AddressError(
        f"{address!r} ends at a nested jaxpr. Add what is meant in it, such as "
        f"{whole / 'in0'!r} for its first input."
    )


def _primitive_hint(jaxpr: StoredJaxpr, text: str) -> str:
    """A hint for a text that is the name of a primitive: how to select all of its equations."""
    primitive = getattr(jax.lax, f"{text}_p", None)
    if primitive is None or all(eqn.primitive is not primitive for _, eqn in iter_eqns(jaxpr)):
        return ""
    return f" All that {text} makes is selected by the primitive: jax.lax.{text}_p, no string."


def _nearest(jaxpr: StoredJaxpr, address: Address) -> list[tuple[str, JaxprEqn]]:
    """Equations with similar addresses, the same primitive first."""
    eqns = dict(iter_eqns(jaxpr))
    known = list(eqns)
    wanted = address.primitive or address.local  # a bare name may be that of a primitive
    same = [one for one in known if one.primitive == wanted]
    near = difflib.get_close_matches(address, same, n=5, cutoff=0.0)
    near += difflib.get_close_matches(address, known, n=5, cutoff=0.5)
    return [(one, eqns[Address(one)]) for one in dict.fromkeys(near)][:5]


def _followed(
    jaxpr: StoredJaxpr, address: Address, home: Address
) -> tuple[list[Step], StoredJaxpr]:
    """The steps down to a nested jaxpr, and the jaxpr."""
    stored, steps = jaxpr, list[Step]()
    way = home.parts if home else []
    for local, label in zip(way[::2], way[1::2], strict=True):
        position, eqn = _find_eqn(stored, local, steps, address)
        nested = {n.label: n for n in nested_jaxprs(eqn)}
        if label not in nested:
            has = ", ".join(nested) or "no nested jaxpr"
            place = described(home_of(steps) / local, eqn)
            raise AddressError(f"{address!r}: {place} has {has}, not {label!r}.")
        steps.append(Step(position, eqn, local, nested[label], stored))
        stored = nested[label].stored
    return steps, stored


def _located(jaxpr: StoredJaxpr, address: Address) -> Located:
    here = address.home
    steps, stored = _followed(jaxpr, address, here)
    inner, leaf = _compat.open_jaxpr(stored), Address(address.local)
    if leaf.kind == "out":
        leaf = _local_of_output(inner, steps, address)
    for kind, variables in (("in", inner.invars), ("const", inner.constvars)):
        if leaf.kind == kind:
            if leaf.number >= len(variables):
                raise AddressError(
                    f"{address!r}: {_inside(steps)} has "
                    f"{count_of(len(variables), 'input' if kind == 'in' else 'constant')}."
                )
            return Located(tuple(steps), stored, kind, leaf.number, None)
    position, eqn = _find_eqn(stored, leaf.eqn, steps, address)
    if leaf.result is not None and leaf.result >= len(eqn.outvars):
        place = described(here / leaf.eqn, eqn)
        raise AddressError(
            f"{address!r}: {place} has {count_of(len(eqn.outvars), 'result')}, from 0."
        )
    return Located(tuple(steps), stored, "eqn", position, leaf.result)


def _inside(steps: Sequence[Step]) -> str:
    """The jaxpr that steps lead to, for messages."""
    if not steps:
        return "the program"
    address, step = around(steps)[-1]
    return f"the {step.nested.label} of {described(address, step.eqn)}"


def _local_of_output(inner: Jaxpr, steps: Sequence[Step], address: Address) -> Address:
    """The local address of the value that a jaxpr returns."""
    number = address.number
    if number >= len(inner.outvars):
        raise AddressError(
            f"{address!r}: {_inside(steps)} has {count_of(len(inner.outvars), 'output')}."
        )
    var = inner.outvars[number]
    for kind, variables in (("in", inner.invars), ("const", inner.constvars)):
        for k, one in enumerate(variables):
            if one is var:
                return Address(f"{kind}{k}")
    for local, eqn in numbered(inner):
        for k, one in enumerate(eqn.outvars):
            if one is var:
                return Address(local).value(k)
    assert isinstance(var, _compat.Literal), "all else is made somewhere"
    raise AddressError(f"{address!r} is the literal {var.val}, which no equation makes.")


def _find_eqn(
    stored: StoredJaxpr, local: str, steps: Sequence[Step], address: Address
) -> tuple[int, JaxprEqn]:
    eqns = numbered(_compat.open_jaxpr(stored))
    for position, (name, eqn) in enumerate(eqns):
        if name == local:
            return position, eqn
    for name, _ in eqns:
        if local.startswith(f"{name}."):
            number = local.removeprefix(f"{name}.")
            raise AddressError(f"{address!r}: {number!r} is no number of a result.")
    short = Address(local).short
    same = [name for name, _ in eqns if Address(name).short == short]
    if same:
        hint = f"there it is {same[0]!r}, so the address may be of another program"
    elif eqns:
        hint = f"it has {len(eqns)} equations, {eqns[0][0]!r} to {eqns[-1][0]!r}"
        if len(eqns) == 1:
            hint = f"it has one equation, {eqns[0][0]!r}"
    else:
        hint = "it has no equations"
    where = _inside(steps)
    raise AddressError(f"{address!r}: there is no equation {local!r} in {where}; {hint}.")
