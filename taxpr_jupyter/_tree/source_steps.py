"""The steps of the user's source on the way from the traced function to an equation."""

import ast
import itertools
import linecache
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from taxpr import introspect
from taxpr_jupyter._text.short import BLANK
from taxpr_jupyter._tree.tree import GroupKind

_STAND_IN = "_operand_"  # for a blank in what Python parses


class SourceStep(NamedTuple):
    """A step on the way from the traced function to an equation.

    Attributes:
        kind: ``"loop"``, ``"statement"``, ``"expression"``; ``"callback"``: a call by a library; or
            ``"function"``: a call in code without a known source.
        key: Tells it from others.
        title: The source; the name of the function.
        note: From where a function was called; may be empty.
        function: The user's function that it is in; "" of the one that was traced.
    """

    kind: GroupKind
    key: tuple[Any, ...]
    title: str
    note: str = ""
    function: str = ""

    @property
    def place(self) -> tuple[Any, ...]:
        """The key without whether it is a derivative."""
        return self.key[:-1]

    @property
    def text(self) -> str:
        """An expression with all operands, as its file has it; "" if that is not known."""
        file, _, (line, column, end_line, end_column) = self.place
        shown = self.title.removeprefix("∂ ")
        if BLANK not in shown:
            return shown
        lines = [one.encode() for one in linecache.getlines(file)[line - 1 : end_line]]
        if len(lines) <= end_line - line:
            return ""
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][column:]
        try:
            text = ast.unparse(ast.parse(f"({b''.join(lines).decode()})", mode="eval"))
        except (SyntaxError, ValueError):
            return ""
        known = ast.unparse(ast.parse(shown.replace(BLANK, _STAND_IN), mode="eval"))
        pattern = re.escape(known).replace(_STAND_IN, ".+")
        return text if re.fullmatch(pattern, text, re.DOTALL) else ""


def steps_of(stack: Sequence[introspect.Statement], derived: bool) -> Iterator[SourceStep]:
    """The steps of a call stack, which is given from the inside out.

    Only the last frame of a library that the user called counts.
    """
    library = list(itertools.takewhile(_of_library, stack))
    own = [frame for frame in stack[len(library) :] if not _of_library(frame)]
    # Of functions that a library calls, from where: two calls in a row are of two lines.
    called = {
        id(frame): tuple((by.file, by.line) for by in itertools.takewhile(_of_library, stack[k:]))
        for k, (frame, by) in enumerate(itertools.pairwise(stack), 1)
        if not _of_library(frame) and _of_library(by)
        # Between two functions of the user's, what only runs another one is no caller.
        if frame is own[-1] or not _runs_another(by, False)
    }
    caller: introspect.Statement | None = None
    last: Any = None
    handed = False
    for frame in reversed([*library, *own]):
        where = (caller.file, caller.line) if caller and not caller.text else ()
        note = _place(*where) if where else ""
        if _of_library(frame) and _runs_another(frame, handed):
            if caller and where and not handed:  # and what it runs is a part of this function
                yield SourceStep(
                    "function", (caller.function, *where, derived), _name(caller), note
                )
            handed = True
            continue
        handed = False
        if id(frame) in called:
            key = frame.file, frame.function, called[id(frame)], derived
            yield SourceStep("callback", key, derivative_title(_called(frame), derived))
        if frame.text:
            place = frame.file, frame.place
            if place != last:  # not of a comprehension, which is a function for Python
                for text, around in frame.loops:
                    key = frame.file, around, derived
                    yield SourceStep("loop", key, derivative_title(text, derived))
                text = derivative_title(frame.text, derived)
                named = frame is not own[-1] and not frame.function.endswith("<lambda>")
                function = _called(frame) if named else ""
                yield SourceStep("statement", (*place, derived), text, function=function)
            if frame.expression:
                part = (*place, frame.part, derived)
                yield SourceStep("expression", part, derivative_title(frame.expression, derived))
            last = place
        else:
            yield SourceStep("function", (frame.function, *where, derived), _name(frame), note)
            last = None
        caller = frame


def _name(frame: introspect.Statement) -> str:
    return frame.function.rpartition("<locals>.")[2]


def _called(frame: introspect.Statement) -> str:
    """The name of a function; of a module its class, of a lambda what it computes."""
    around, _, name = _name(frame).rpartition(".")
    if name == "__call__" and around:
        return around
    return frame.text if name == "<lambda>" and frame.text else name


def _runs_another(frame: introspect.Statement, handed: bool) -> bool:
    """Whether it is a library's wrapper of a function, as `_VmapWrapper.__call__` of equinox.

    Or, handed to such a one, a lambda of the library.
    """
    *_, name = names = frame.function.split(".")
    wraps = (one[0] == "_" and two == "__call__" for one, two in itertools.pairwise(names))
    return any(wraps) or (handed and name == "<lambda>")


def _of_library(frame: introspect.Statement) -> bool:
    return frame.of_library


def common(one: Sequence[SourceStep], other: Sequence[SourceStep]) -> int:
    """How many steps two paths have in common."""
    same = (a is b for a, b in zip(one, other, strict=False))
    return sum(itertools.takewhile(bool, same))


def derivative_title(text: str, derived: bool) -> str:
    """The title of the derivative of a statement or expression."""
    return f"∂ {text}" if derived else text


def places_of(steps: Sequence[SourceStep]) -> tuple[Any, ...]:
    """The places of some steps: a function may have been called from several."""
    return tuple(step.place for step in steps)


def without_expressions(steps: Sequence[SourceStep]) -> Sequence[SourceStep]:
    """The steps up to the last one that is no expression."""
    stop = len(steps)
    while stop and steps[stop - 1].kind == "expression":
        stop -= 1
    return steps[:stop]


def call_around(steps: Sequence[SourceStep]) -> Sequence[SourceStep]:
    """The steps up to the user's call of the function that the last one is in; () without one."""
    around = list(without_expressions(steps)[:-1])
    while around and around[-1].kind == "loop":
        around.pop()
    return around if around and around[-1].kind in ("statement", "expression") else ()


def part_title(
    whole: Sequence[SourceStep],
    parts: Sequence[SourceStep | None],
    elsewhere: Collection[tuple[Any, ...]],
) -> str:
    """The title of equations that JAX moved away from others of the same statement.

    A statement keeps its title if all of it is here. Else the title is the expressions that are
    here as a whole: `jnp.sin(w), jnp.cos(u)`. If they did not make all equations, it is `part of`
    the statement.

    Args:
        whole: The steps that the equations have in common, outermost first.
        parts: The next step of each equation; None of one that has none.
        elsewhere: The places of the steps that lead to the other equations, also of the outer steps
            alone, see `places_of`.
    """
    last, here = whole[-1], places_of(whole)
    is_derived = last.title.startswith("∂ ")
    if here not in elsewhere:
        text = last.text if last.kind == "expression" else ""
        return derivative_title(text, is_derived) if text else last.title
    found = [*dict.fromkeys(parts)]
    texts = {
        one.place: one.text
        for one in found
        if one is not None and one.kind == "expression" and (*here, one.place) not in elsewhere
    }
    if not all(texts.values()) or len(texts) < len(found):
        return derivative_title(f"part of {last.title.removeprefix('∂ ')}", is_derived)
    outer = (
        text
        for (file, _, part), text in texts.items()
        if not any(file == other[0] and _is_within(part, other[2]) for other in texts)
    )
    return derivative_title(", ".join(dict.fromkeys(outer)), is_derived)


def _is_within(part: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether an expression is a part of another one."""
    return part != other and other[:2] <= part[:2] and part[2:] <= other[2:]


def _place(file: str, line: int) -> str:
    """`from layers.py:14`, or `called in line 14` of a cell of a notebook.

    The name of a cell is a new one in each kernel.
    """
    name = PurePath(file).name
    told = name.endswith(".py") and "ipykernel_" not in file
    return f"from {name}:{line}" if told else f"called in line {line}"


def update_by(step: SourceStep) -> str:
    """The maker of a part of an optimizer, `scale_by_adam.<locals>.update_fn`; else ""."""
    if step.kind == "function":
        match str(step.key[0]).split("."):
            case [*_, maker, "<locals>", name] if name.startswith("update"):
                return maker
            case _:
                pass
    return ""


def updates_of(eqn: introspect.JaxprEqn) -> tuple[str, ...]:
    """The makers of the parts of an optimizer that made an equation, outermost first."""
    stack = introspect.statements_of(eqn, libraries=True, rules=False)
    return tuple(maker for step in steps_of(stack, derived=False) if (maker := update_by(step)))
