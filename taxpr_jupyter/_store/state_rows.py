"""Describe the states of a session for people: names, types, values."""

import dataclasses
from typing import Any

import jax

from taxpr import Address
from taxpr_jupyter._analysis.stateful import StateEnds
from taxpr_jupyter._store.state_values import is_editable, text_of
from taxpr_jupyter._text.elements import ElementRow
from taxpr_jupyter._text.short import aval_text, shortened

_LONGEST = 60  # characters of a value in a line; what is edited has all of them


@dataclasses.dataclass(frozen=True)
class LeafRow:
    """One array of a state.

    Attributes:
        name: The name that `Session.set_state` takes: `total`, `norm['mean']`.
        aval: Its type.
        text: Its initial value; all of it where that can be edited as text.
        editable: Whether it can.
        edited: Whether it is another one than when the call was traced.
    """

    name: str
    aval: str
    text: str
    editable: bool
    edited: bool


@dataclasses.dataclass(frozen=True)
class StateRow:
    """One state of the function.

    Attributes:
        name: Its name.
        address: Its address in the picture; "" without any array.
        written: Whether the function writes it, or only reads it.
        leaves: The arrays of its value.
        watched: The keys of the tags at values written to it, if that was asked for.
    """

    name: str
    address: str
    written: bool
    leaves: tuple[LeafRow, ...]
    watched: tuple[str, ...] = ()

    def __str__(self) -> str:
        use = "read and written" if self.written else "only read"
        values = ", ".join(
            f"{leaf.name}: {leaf.aval} = {shortened(leaf.text, _LONGEST)}" for leaf in self.leaves
        )
        return f"{self.name} ({use}): {values}"


def _address(ends: StateEnds) -> str:
    first, last = ends.ins.start, ends.ins.stop - 1
    if first >= last:
        return f"in{first}" if first == last else ""
    return ElementRow(Address(), "group", "in", first, last).address


def state_row(ends: StateEnds, value: Any, before: Any, watched: tuple[str, ...]) -> StateRow:
    """One state.

    Args:
        ends: Its inputs and outputs in the program.
        value: Its initial value.
        before: Its value when the call was traced.
        watched: The keys of the tags at values written to it.
    """
    leaves = zip(ends.leaves, jax.tree.leaves(value), jax.tree.leaves(before), strict=True)
    rows = tuple(
        LeafRow(
            name=name,
            aval=aval_text(jax.typeof(leaf)),
            text=text_of(leaf),
            editable=is_editable(leaf),
            edited=leaf is not was,
        )
        for name, leaf, was in leaves
    )
    return StateRow(ends.name, _address(ends), ends.written, rows, watched)
