"""The names of the variables of a program after an injection."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from taxpr._compat import StoredJaxpr
from taxpr._errors import warnings_to
from taxpr._primitives.tag_equation import AtVariable
from taxpr._programs.edit import tag_values
from taxpr._programs.program import Injected, Program
from taxpr._sites.values import Value, results_of
from taxpr._sites.walk import find_sites
from taxpr._variables.select import Var
from taxpr._variables.variable import Variable
from taxpr._where.select import select

_FAR = 1 << 20  # beyond the numbers of tags that selectors put at one value


@dataclasses.dataclass(frozen=True)
class _Known:
    """The variables of a program, in the place of `Variables`.

    Attributes:
        jaxpr: The jaxpr.
        table: The variables.
        differentiated: As of `Variables`.
        untraced: As of `Variables`.
        marks: As of `Variables`.
    """

    jaxpr: StoredJaxpr
    table: Sequence[Variable]
    differentiated: frozenset[str] = frozenset()
    untraced: dict[Any, Any] = dataclasses.field(default_factory=dict[Any, Any])
    marks: Sequence[Any] = ()


def named_after(program: Program) -> Program:
    """An injected program with the variables of the one before, if that has names.

    A variable that was changed has the value that it was changed to. Injecting moves equations, so
    it is done once more, with a tag at each variable: these stay, and tell where it is then.
    """
    if not isinstance(program, Injected) or program.before.named is None:
        return program
    before = program.before
    held: dict[str, list[Variable]] = defaultdict(list)
    for one in before.variables():
        held[one.address].append(one)
    found = select(before, Var("*"), Value, change=True).found if held else []
    # Behind the program's own tags, which may be those that are injected.
    last = {site.value_address: site for site in find_sites(before.jaxpr)}
    numbers: dict[str, int] = {}
    every: list[list[Variable]] = []
    values: list[Value] = []
    for value in found:
        if not all(step.nested.replaceable for step in value.steps):
            continue
        every.append(held[value.address])
        site = last.get(value.address)
        values.append(value if site is None else results_of(before.jaxpr, site)[0])
        numbers[values[-1].address] = len(numbers)

    def tag(address: str) -> AtVariable:
        number = numbers[address]
        one = every[number][0]
        return AtVariable(str(number), one.place, one.occurrence, one.address.local, _FAR)

    tagged = dataclasses.replace(before, jaxpr=tag_values(before.jaxpr, values, tag))
    with warnings_to(lambda _: None):  # they were given when it was injected
        again = program.once_more(tagged)
    table: list[Variable] = []
    for site in find_sites(again.jaxpr):
        if (mark := site.variable) is None or mark.number != _FAR or site.value_address is None:
            continue
        at = site.value_address
        table += (dataclasses.replace(one, address=at) for one in every[int(mark.name)])
    named: Any = _Known(again.jaxpr, table)
    return dataclasses.replace(again, named=named)
