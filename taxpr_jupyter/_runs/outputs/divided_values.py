"""How the arguments and results of a run are divided among devices."""

from typing import Any, NamedTuple

import jax

import taxpr
from taxpr import introspect
from taxpr_jupyter._runs.outputs.array_diff import division_of


class DividedValue(NamedTuple):
    """An argument or a result that several devices share.

    Attributes:
        name: Its name, such as ``x`` or ``out['loss']``.
        address: Its address, such as ``in0`` or ``out0``.
        division: The part that each device has.
    """

    name: str
    address: str
    division: introspect.Division

    def __str__(self) -> str:
        return f"{self.name} {self.division.type}: {self.division.words}"


def divided_values(program: taxpr.Program, given: Any, outputs: Any) -> tuple[DividedValue, ...]:
    """The arguments of a run that several devices share, then the results.

    Args:
        program: The program that ran.
        given: Its arguments.
        outputs: Its results.
    """
    sides = (("in", program.in_names, given), ("out", program.out_names, outputs))
    return tuple(
        DividedValue(name, f"{word}{k}", found)
        for word, names, tree in sides
        for k, (name, leaf) in enumerate(zip(names, jax.tree.leaves(tree), strict=True))
        if (found := division_of(leaf))
    )
