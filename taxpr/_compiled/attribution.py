"""Name the values of a program by the user's variables and statements."""

import ast
import functools
from typing import NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._hops.places import numbered
from taxpr._places import names_apart, place_text
from taxpr._primitives.tag_equation import is_tag
from taxpr._programs.program import Program
from taxpr._questions.lines import line_of
from taxpr._sites.made_by import PROGRAM, PlacedEquation, Within, files_of, inside, placed
from taxpr._sites.values import ByAddress, Value
from taxpr._source.statements import Statement
from taxpr._variables.variable import Variable

_Made = tuple[PlacedEquation, tuple[Statement, ...]]


class Attribution(NamedTuple):
    """A place of a program in the user's words.

    Attributes:
        variable: The variable that held the value, or that its statement bound, such as ``"h"``;
            several if the statement bound several; the name of an input; else "".
        line: The line, such as ``"model.py:12"``, unique in the program; "" if the source is not
            known.
        code: The statement in that line; after ``∂`` the differentiated statement.
        address: The address of the place.
        function: The qualified name of the function with the line.
    """

    variable: str
    line: str
    code: str
    address: Address
    function: str = ""

    @property
    def known(self) -> bool:
        """Whether a variable or a line is known."""
        return bool(self.variable or self.line)


class Attributions:
    """The variables and statements of a program, by address.

    Args:
        program: A program that was traced with the names of its variables.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> def f(x):
        ...     y = jnp.sin(x) * 2
        ...     return y
        >>> found = Attributions(trace(f, names=True)(1.0)).of("0:sin")
        >>> found.variable, found.code
        ('y', 'y = jnp.sin(x) * 2')
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[str, Attribution] = {}
        self._made: dict[Address, _Made | None] = {}
        self._bound: dict[Statement, str] = {}

    @functools.cached_property
    def places(self) -> ByAddress:
        """Its equations and values."""
        return ByAddress(self._program.jaxpr)

    def of(self, address: str) -> Attribution:
        """The attribution of the equation or value at an address.

        Args:
            address: An equation, ``"3:sin"``; a result, ``"3:sin.0"``; or an input.
        """
        if address not in self._known:
            self._known[address] = self._of(Address(address))
        return self._known[address]

    def functions(self, address: Address) -> list[str]:
        """The qualified names of the user's functions that make a value, the innermost first."""
        return [one.function for one in self._statements(address)]

    def is_backward(self, address: Address) -> bool:
        """Whether an equation is of a backward pass, also one that is computed once more there."""
        at = address.eqn
        while at:
            eqn = self.places.eqn(at)
            if eqn is not None and _compat.is_backward(eqn):
                return True
            at = at.home.home
        return False

    def place(self, file: str, line: int) -> str:
        """A line such as ``"one/layer.py:2"``, with enough of the path to know its file."""
        name = self._files.get(file)
        return place_text(file, line) if name is None else f"{name}:{line}"

    def _of(self, address: Address) -> Attribution:
        at = address if address.kind != "eqn" or address.result is not None else address.value(0)
        variable, value = self._held.get(at), self.places.value(at)
        statements = self._statements(address)
        statement = next((one for one in statements if one.text), None)
        if variable is not None and value is not None:
            line = line_of(value, variable)
            if not line.code and statement:  # a parameter holds what a function before has made
                return self._made_by(statement, address, variable.text)
            place = self.place(variable.file, variable.line)
            return Attribution(variable.text, place, line.code, address, variable.function)
        if address.is_argument:
            return Attribution(self._program.in_names[address.number], "", "", address)
        if address.kind == "const":
            return self._closed_over(address, value) if value else Attribution("", "", "", address)
        if address.kind == "in":  # of a loop or a call, which its equation says
            return self.of(address.home.home)._replace(address=address)
        if statement is None:
            source = value and value.eqn and _compat.source_of(value.eqn)
            line = self.place(source.file, source.line) if source else ""
            return Attribution("", line, "", address, source.function if source else "")
        return self._made_by(statement, address)

    def _closed_over(self, address: Address, value: Value) -> Attribution:
        """The name of a closed-over array, and the first statement that reads it."""
        stored, k = value.place.jaxpr, address.number
        name = self._program.const_name(_compat.consts_of(stored)[k])
        inner = _compat.open_jaxpr(stored)
        for local, eqn in numbered(inner):
            if not is_tag(eqn) and any(x is inner.constvars[k] for x in eqn.invars):
                read = self._of(address.home / local)
                code = read.code.removeprefix("∂ ")
                return read._replace(variable=name, code=code, address=address)
        return Attribution(name, "", "", address)

    def _made_by(self, statement: Statement, address: Address, variable: str = "") -> Attribution:
        return Attribution(
            variable or self.bound_by(statement),
            self.place(statement.file, statement.line),
            f"∂ {statement.text}" if self._is_derivative(address.eqn) else statement.text,
            address,
            statement.function,
        )

    def _is_derivative(self, eqn: Address) -> bool:
        made = self._equation(eqn)
        return made is not None and made[0].derivative

    def bound_by(self, statement: Statement) -> str:
        """The variables that a statement bound."""
        if statement not in self._bound:
            self._bound[statement] = self._bound_by(statement)
        return self._bound[statement]

    def _bound_by(self, statement: Statement) -> str:
        first, last = statement.line, statement.place[2] if statement.place else statement.line
        held = self._by_function.get((statement.file, statement.function), ())
        if statement.text.startswith(
            ("return ", "return", "for ", "if ", "while ", "with ", "def ")
        ):
            return ""
        # Another statement may be in the same lines, or the parameter of a lambda.
        names = {name for name in _stored(statement.text) if name.strip("_")}
        bound: dict[str, set[str]] = {}
        for one in held:
            if first <= one.line <= last and one.name in names:
                bound.setdefault(one.name, set()).add(one.text)
        # Of a tree, which of its leaves it is is not known.
        return ", ".join(x.pop() if len(x) == 1 else name for name, x in bound.items())

    @functools.cached_property
    def _held(self) -> dict[Address, Variable]:
        """The variable of each value: the first that is no part of a tree."""
        held: dict[Address, Variable] = {}
        for one in sorted(self._program.variables(), key=lambda one: bool(one.path)):
            held.setdefault(one.address, one)
        return held

    @functools.cached_property
    def _by_function(self) -> dict[tuple[str, str], list[Variable]]:
        found: dict[tuple[str, str], list[Variable]] = {}
        for one in self._program.variables():
            found.setdefault((one.file, one.function), []).append(one)
        return found

    @functools.cached_property
    def _files(self) -> dict[str, str]:
        """The names of the files of its lines."""
        files = dict.fromkeys(one.file for one in self._program.variables())
        return names_apart(filter(None, files | dict.fromkeys(files_of(self._program.jaxpr))))

    def _equation(self, address: Address) -> _Made | None:
        """An equation, and the statements that made it, the innermost first."""
        if address not in self._made:
            eqn = self.places.eqn(address)
            within = PROGRAM if eqn is None else self._within(address.home)
            self._made[address] = placed(eqn, address.local, within) if eqn else None
        return self._made[address]

    def _within(self, home: Address) -> Within:
        """The calls and loops around the equations of a jaxpr."""
        made = self._equation(home.home) if home else None
        return inside(*made, self.places.step(home).nested) if made else PROGRAM

    def _statements(self, address: Address) -> tuple[Statement, ...]:
        made = self._equation(address.eqn)
        return made[1] if made else ()


@functools.lru_cache(maxsize=4096)
def _stored(text: str) -> frozenset[str]:
    """The variables, as ``"x"`` or ``"self.h"``, that a statement binds to its results."""
    try:
        [statement] = ast.parse(text).body
    except (SyntaxError, ValueError):  # the head of one with a body
        return frozenset()
    return frozenset(
        ast.unparse(one)
        for one in ast.walk(statement)
        if isinstance(one, ast.Name | ast.Attribute | ast.Subscript)
        and isinstance(one.ctx, ast.Store)
    )
