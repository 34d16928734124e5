"""`Finding`, `Findings`, `Rule`: what `check` answers."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from taxpr._answers.answer import Answer
from taxpr._check.levels import Examined
from taxpr._source.statements import Statement


@dataclasses.dataclass(frozen=True)
class Finding:
    """A finding of a rule of `check`, as a row of the answer.

    Attributes:
        rule: The name of the rule.
        line: The line, such as ``"model.py:12"``; "" if it is not known.
        variable: The variable that it is about; "" if none is known.
        what: The finding, in words.
        fix: The advice.
        statement: The statement of the line.
        file: The file, as Python names it.
        address: The address of the equation, or of the value.
        times: The number of places of the expression, such as one in each layer.
        addresses: The addresses of all, the first one first.
        variables: The variables of all.
    """

    rule: str
    line: str
    variable: str
    what: str
    fix: str
    statement: str
    file: str
    address: str
    times: int = 1
    addresses: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


class Suspicion(NamedTuple):
    """A place that a rule finds suspicious, and why.

    Attributes:
        what: The finding, in one sentence.
        statements: The statements of the user's source there, innermost first; empty for an
            argument.
        address: The address of the equation, or of the value.
        variable: The variable that it is about.
        fix: The advice, if it is not the rule's.
    """

    what: str
    statements: tuple[Statement, ...] = ()
    address: str = ""
    variable: str = ""
    fix: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of `check`.

    Attributes:
        name: Its name, to switch it off.
        finds: Its findings, in words.
        fix: The advice.
        look: Finds it in a program.
    """

    name: str
    finds: str
    fix: str
    look: Callable[[Examined], Iterator[Suspicion]] = dataclasses.field(repr=False)


class Findings(Answer):
    """The answer of `check`. Its rows are of `Finding`."""

    _columns = ("rule", "times", "line", "variable", "what", "fix")

    def _shown(self) -> list[dict[str, Any]]:
        times = ((row, row["times"]) for row in super()._shown())
        return [{**row, "times": f"×{n}" if n > 1 else ""} for row, n in times]

    def __str__(self) -> str:
        rows: list[Any] = list(self.rows)
        places = [
            f"{row.line or row.address}: {row.rule}{f' ×{row.times}' if row.times > 1 else ''}: "
            f"{row.what} {row.fix}"
            for row in rows
        ]
        return "\n".join([self.headline, *places, *self.notes])
