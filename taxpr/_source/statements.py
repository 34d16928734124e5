"""The statements and expressions of the user's source that made an equation."""

import ast
import functools
import itertools
import re
import weakref
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._given import of_equation
from taxpr._places import is_generated
from taxpr._source.files import of_library, own_of
from taxpr._source.own_modules import OwnModules
from taxpr._source.parsed import Parsed, Position, parsed_of, position_of

_BLANK = "•"  # for what an expression takes from other expressions


class Statement(NamedTuple):
    """A statement of the user's source that was running when an equation was made.

    Attributes:
        file: The name of the file, or Python's name for a notebook cell.
        function: The qualified name of the function.
        line: The statement's first line, counted from 1.
        text: The statement in one line, without a body; "" if the source is not known for sure.
            Then `line` is the line that was running.
        expression: The part of the statement that made the equation, with a blank for each operand
            that is computed; "" if unknown.
        place: The unique place of the statement.
        part: The place of the expression.
        loops: The heads of the loops around the statement, outermost first, each with its place.
        begins: The first line of the function, from 1.
        of_library: Whether the function is an installed library's.

    Example:
        >>> from taxpr import Statement
        >>> Statement("model.py", "loss", 4, "y = jnp.sin(x @ w)", "jnp.sin(•)").text
        'y = jnp.sin(x @ w)'
    """

    file: str
    function: str
    line: int
    text: str = ""
    expression: str = ""
    place: tuple[int, ...] = ()
    part: tuple[int, ...] = ()
    loops: tuple[tuple[str, tuple[int, ...]], ...] = ()
    begins: int = 0
    of_library: bool = False


@of_equation
def statements_of(
    eqn: Any, libraries: bool = False, *, rules: bool = True
) -> tuple[Statement, ...]:
    """The statements of the user's source that made an equation, innermost first.

    One for each of the user's functions that was running. It has a text only if the file still has
    the code that Python ran.

    Args:
        eqn: An equation of a jaxpr; None, as in `Site.makers` for an input, has no source.
        libraries: Whether to include functions of installed libraries, without a text.
        rules: Whether to include the functions of a derivative rule, such as the ``bwd`` of a
            `jax.custom_vjp`; the call comes next. They are known if `trace` traced the program.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import statements_of, trace
        >>> def f(x):
        ...     y = jnp.sin(x) * 2
        ...     return y
        >>> [sine, double] = trace(f)(1.0).eqns
        >>> statements_of(sine)[0].text, statements_of(sine)[0].expression
        ('y = jnp.sin(x) * 2', 'jnp.sin(x)')
        >>> statements_of(double)[0].expression
        '• * 2'
    """
    return statements_in(*_compat.frames_of(eqn, rules), libraries, own_of(eqn))


def parsed_at(eqn: Any, statement: Statement) -> Parsed | None:
    """The text that a statement of an equation was read from, with its syntax tree.

    After an edit it is the edited one. None if it is not known for sure.

    Args:
        eqn: An equation of a jaxpr.
        statement: One of its `statements_of`.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import statements_of, trace
        >>> from taxpr.introspect import parsed_at
        >>> def f(x):
        ...     return jnp.sin(x)
        >>> [sine] = trace(f)(1.0).eqns
        >>> parsed = parsed_at(sine, statements_of(sine)[0])
        >>> parsed.text_of(parsed.tree.body[0].body[0])
        'return jnp.sin(x)'
    """
    by_code = _known.get(own_of(eqn), {})
    place = statement.file, statement.function, statement.begins
    found = {
        one.parsed
        for code in _compat.frames_of(eqn)[0]
        if (code.co_filename, code.co_qualname, code.co_firstlineno) == place
        and isinstance(one := by_code.get(id(code)), _Statements)
    }
    return found.pop() if len(found) == 1 else None


@of_equation
def associative_scan_of(eqn: Any) -> Statement | None:
    """The user's statement that calls the `jax.lax.associative_scan` which made an equation.

    None if no such call made it, or if a library makes the call.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr.introspect import associative_scan_of
        >>> def sums(x):
        ...     total = jax.lax.associative_scan(jnp.add, x)
        ...     return total * 2
        >>> eqns = trace(sums)(jnp.arange(4)).eqns
        >>> associative_scan_of(eqns[0]).text
        'total = jax.lax.associative_scan(jnp.add, x)'
        >>> associative_scan_of(eqns[-1])
    """
    codes, instructions = _compat.frames_of(eqn)
    k = _compat.associative_scan_in(codes)
    if k is None:
        return None
    around = statements_in(codes[k + 1 :], instructions[k + 1 :], own=own_of(eqn))
    return around[0] if around and "associative_scan(" in around[0].text else None


def statements_in(
    codes: Sequence[CodeType],
    instructions: Sequence[int],
    libraries: bool = False,
    own: OwnModules | None = None,
) -> tuple[Statement, ...]:
    """The statements of the user's source among some frames; see `statements_of`.

    Args:
        codes: The functions.
        instructions: The instruction that ran in each.
        libraries: Whether to include functions of libraries.
        own: Libraries whose functions count as the user's.
    """
    # There may be a hundred frames, most of them of JAX: no step of Python for each.
    by_code = _known.setdefault(own, {})
    known = list(map(by_code.get, map(id, codes), itertools.repeat(_NEW)))
    if _NEW in known:
        for code in codes:
            _statements_in(code, own)
        known = [by_code[id(code)] for code in codes]
    places = itertools.compress(zip(known, codes, instructions, strict=True), known)
    return tuple(
        one.found.get(instruction) or one.at(code, instruction)
        for one, code, instruction in places
        if isinstance(one, _Statements) and (one.of_user or libraries)
    )


class _Statements:
    """The statements of a code object, without a reference to the code itself.

    Attributes:
        of_user: Whether the code is the user's.
        parsed: The text of its file; None if the file does not have the code for sure.
        found: The statements of instructions that were asked for.
    """

    def __init__(self, code: CodeType, own: OwnModules | None) -> None:
        self.of_user = not of_library(code.co_filename, own)
        self.parsed = parsed_of(code) if self.of_user else None
        self.found: dict[int, Statement] = {}

    def at(self, code: CodeType, instruction: int) -> Statement:
        """The statement of an instruction of the code."""
        return self.found.setdefault(instruction, self._statement(code, instruction))

    def _statement(self, code: CodeType, instruction: int) -> Statement:
        line, end_line, column, end_column = next(
            itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4
        )
        file, function = code.co_filename, code.co_qualname
        begins = code.co_firstlineno
        bare = Statement(file, function, line or begins, begins=begins, of_library=not self.of_user)
        if not (self.parsed and line and end_line) or column is None or end_column is None:
            return bare  # Python can be told to forget columns
        chain = self.parsed.around(Position(line, column, end_line, end_column))
        inner = max((i for i, n in enumerate(chain) if isinstance(n, ast.stmt)), default=None)
        if inner is None:
            return bare
        if code.co_name == "<lambda>":  # its body is all that it says
            lambdas = (i for i, node in enumerate(chain) if isinstance(node, ast.Lambda))
            inner = min(max(lambdas, default=inner) + 1, len(chain) - 1)
        node = chain[inner]
        # The body of a lambda is a statement and an expression.
        parts = [part for part in chain[inner:] if isinstance(part, ast.expr)]
        place = position_of(node)
        assert place is not None
        # Those of the functions around are over, or running in another frame.
        start = max((i for i, one in enumerate(chain[:inner]) if _is_scope(one)), default=-1) + 1
        loops = [
            (_head(one, self.parsed), position_of(one) or ())
            for one in chain[start:inner]
            if isinstance(one, ast.For | ast.AsyncFor | ast.While)
        ]
        return Statement(
            file,
            function,
            place.line,
            _head(node, self.parsed),
            _with_blanks(parts[-1], self.parsed) if parts else "",
            place,
            position_of(parts[-1]) or () if parts else (),
            tuple(loops),
            begins,
        )


# For each choice of libraries that count as the user's, by the id of the code, as its hash is slow;
# None for code of JAX and taxpr. An entry goes when the code does.
_known: dict[OwnModules | None, dict[int, _Statements | None]] = {}
_NEW = object()  # of code that is not among them yet
_alive: dict[int, weakref.ref[CodeType]] = {}


def _statements_in(code: CodeType, own: OwnModules | None) -> None:
    number, known = id(code), _known[own]
    if number not in _alive:
        _alive[number] = weakref.ref(code, functools.partial(_forget, number, _known, _alive))
    if number not in known:
        file = code.co_filename
        told = not of_library(file, own) or _compat.is_outside_jax(file)
        told = told and not is_generated(file, code.co_qualname)
        known[number] = _Statements(code, own) if told else None


def _forget(
    number: int,
    known: dict[OwnModules | None, dict[int, _Statements | None]],
    alive: dict[int, weakref.ref[CodeType]],
    _: weakref.ref[CodeType],
) -> None:
    # Given both, since at the end of Python the names of modules are gone before their code is.
    for by_code in list(known.values()):
        by_code.pop(number, None)
    alive.pop(number, None)


def _is_scope(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)


def _head(node: ast.AST, parsed: Parsed) -> str:
    """A statement in one line; if it has a body, only the part before the colon."""
    text = parsed.text_of
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"def {node.name}"
        case ast.ClassDef():
            return f"class {node.name}"
        case ast.For() | ast.AsyncFor():
            return f"for {text(node.target)} in {text(node.iter)}"
        case ast.While():
            return f"while {text(node.test)}"
        case ast.If():
            return f"if {text(node.test)}"
        case ast.With() | ast.AsyncWith():
            return f"with {', '.join(map(ast.unparse, node.items))}"
        case ast.Match():
            return f"match {text(node.subject)}"
        case ast.Try() | ast.TryStar():
            return "try"
        case _:
            return text(node)


def _with_blanks(expression: ast.expr, parsed: Parsed) -> str:
    """An expression with a blank for each operand that is itself computed."""
    text = parsed.text_of(expression)
    if expression.lineno != expression.end_lineno:
        expression = ast.parse(text, mode="eval").body
    source = text.encode()
    for operand in sorted(_computed(expression), key=lambda node: -node.col_offset):
        inside = isinstance(operand, ast.GeneratorExp)  # to which parentheses belong
        begin = operand.col_offset - expression.col_offset + inside
        end = (operand.end_col_offset or 0) - expression.col_offset - inside
        source = source[:begin] + _BLANK.encode() + source[end:]
    # Parentheses around an operand, other than those of a call.
    return re.sub(rf"(?<![\w\])])\(({_BLANK})\)", r"\1", source.decode())


def _computed(node: ast.AST) -> Iterator[ast.expr]:
    """The operands of an expression that are more than a name, a constant or a part of these."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call(func=ast.Name() | ast.Attribute()) if _is_called(child, node):
                pass  # such as `nn.Dense(4)`, which is then called
            case ast.Attribute() if _is_called(child, node):
                yield from _computed(child)
            case ast.keyword() | ast.Starred() | ast.Slice() | ast.Tuple() | ast.List():
                yield from _computed(child)
            case ast.Attribute() | ast.Subscript() if not any(_computed(child)):
                pass
            case ast.expr() if any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(child)):
                if not isinstance(child, ast.Name):
                    yield child
            case _:
                pass


def _is_called(node: ast.expr, by: ast.AST) -> bool:
    return isinstance(by, ast.Call) and node is by.func
