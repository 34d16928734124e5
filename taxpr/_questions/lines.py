"""The line and the statement that describe a value, such that both belong together."""

import linecache
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._places import place_text
from taxpr._sites.made_by import PROGRAM, Within, made_by
from taxpr._sites.values import Value
from taxpr._source.parsed import Position
from taxpr._source.statements import Statement
from taxpr._variables.variable import Variable

# How the text of a statement with a body begins; it is told by its first line alone.
_HEADS = ("class ", "def ", "for ", "if ", "match ", "try", "while ", "with ")


_PICKED = re.compile(r"\s*[\[.]")  # what follows an expression of which a part is taken
_STARRED = re.compile(r"[(\[,]\s*\*\s*$")  # what is before one that is unpacked


class ValueLine(NamedTuple):
    """A line of the source, for a value.

    Attributes:
        place: The line, such as ``"model.py:12"``; for a variable the line that bound it.
        code: The statement in that line that made the value; "" if none there did, as for a
            parameter.
        made_by: The statement that made it, with its line, if that is another one, as in a helper.
    """

    place: str
    code: str
    made_by: str = ""


def line_of(
    value: Value, variable: Variable | None, edits: Mapping[tuple[str, int], Variable] | None = None
) -> ValueLine:
    """The line that bound a variable, and its statement; without a variable what made the value.

    Args:
        value: The value.
        variable: The variable.
        edits: Variables of lines with an edit, by the file and the line.
    """
    made = [one for one in _statements(value) if one.text]
    edits = edits or {}
    if variable is None:
        if made:
            at, text = (made[0].file, made[0].line), made[0].text
            return ValueLine(place_text(*at), edits[at].quoted(text) if at in edits else text)
        source = next(filter(None, map(_compat.source_of, _makers(value))), None)
        return ValueLine(place_text(source.file, source.line) if source else "", "")
    bound = next((one for one in made if _binds(one, variable)), None)
    inner = made[0] if made else None
    if inner is None or inner is bound:
        return ValueLine(variable.place, variable.quoted(bound.text) if bound else "")
    made_by = f"`{inner.text}` ({place_text(inner.file, inner.line)})"
    return ValueLine(variable.place, variable.quoted(bound.text) if bound else "", made_by)


def operand_text(operand: Value, of: Value) -> str:
    """The expression of the source whose value an operand is.

    "" unless that is sure: it is a part, in one line, of the expression that made the other value.

    Args:
        operand: The operand.
        of: The value that was computed with it.
    """
    inner, outer = (next(iter(_statements(one)), None) for one in (operand, of))
    if inner is None or outer is None or not (inner.text and inner.part and outer.part):
        return ""
    here, around = Position(*inner.part), Position(*outer.part)
    same = (inner.file, inner.place) == (outer.file, outer.place)
    if not same or here == around or not around.holds(here) or here.line != here.end_line:
        return ""
    line = linecache.getline(inner.file, here.line).encode()
    left, text, right = (
        part.decode()
        for part in (
            line[: here.column],
            line[here.column : here.end_column],
            line[here.end_column :],
        )
    )
    # Of several results one may be meant.
    one = operand.eqn is not None and len(operand.eqn.outvars) == 1
    return text if one and not _PICKED.match(right) and not _STARRED.search(left) else ""


def _binds(one: Statement, variable: Variable) -> bool:
    """Whether a variable was bound by this statement."""
    if (one.file, one.function) != (variable.file, variable.function):
        return False
    has_body = one.text.startswith(_HEADS)
    return one.line <= variable.line <= (one.line if has_body else one.place[2])


def _statements(value: Value) -> Sequence[Statement]:
    """The statements that made a value, innermost first.

    What JAX has jitted was traced for its first call: only the equation around it says for whom.
    """
    within = PROGRAM
    for step in value.steps:
        function = _compat.function_of(step.nested.jaxpr)
        within = Within(function=function, statements=made_by(step.eqn, within)[1])
    return within.statements if value.eqn is None else made_by(value.eqn, within)[1]


def _makers(value: Value) -> list[JaxprEqn]:
    """The equation that makes a value, and those around it, innermost first."""
    around = [step.eqn for step in reversed(value.steps)]
    return [value.eqn, *around] if value.eqn else around
