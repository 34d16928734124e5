"""The user's statements that were running when equations were made."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from taxpr import introspect

READ = 2000  # equations: after so many comes little that is new

# Methods that run where a class or module is called.
_OF_CLASS = frozenset({"__call__", "__init__", "__post_init__", "__new__"})

Stack = Sequence[introspect.Statement]  # outermost first


class Read(NamedTuple):
    """An equation with the statements that were running.

    Attributes:
        eqn: The equation.
        stack: The statements, without the user's derivative rules.
        rule: The name of the outermost function of a rule that made it; "" without one.
    """

    eqn: introspect.JaxprEqn
    stack: Stack
    rule: str


def read(eqn: introspect.JaxprEqn) -> Read:
    """An equation with the statements that were running."""
    every = introspect.statements_of(eqn)[::-1]
    stack = introspect.statements_of(eqn, rules=False)[::-1]
    rule = name_of(every[len(stack)]) if len(every) > len(stack) else ""
    return Read(eqn, stack, rule)


def in_root(every: Sequence[Read]) -> list[Read]:
    """The equations of a jaxpr that are from the function that most of them are from.

    JAX moves equations into a loop from outside, and sums have no place of their own.
    """
    sourced = [one for one in every if one.stack]
    functions = Counter(_function(one.stack[0]) for one in sourced)
    root = functions.most_common(1)[0][0] if functions else None
    return [one for one in sourced if _function(one.stack[0]) == root]


def shared(stacks: Sequence[Stack]) -> int:
    """How many statements all stacks begin with."""
    if not stacks:
        return 0
    level = 0
    while all(len(stack) > level for stack in stacks) and (
        len({(stack[level].file, stack[level].place) for stack in stacks}) == 1
    ):
        level += 1
    return level


def _function(frame: introspect.Statement) -> tuple[str, int, str]:
    return frame.file, frame.begins, frame.function


def name_of(frame: introspect.Statement) -> str:
    """The name of a function, of a module its class; "" of a lambda or a comprehension."""
    around, _, name = frame.function.rpartition("<locals>.")[2].rpartition(".")
    if name in _OF_CLASS:
        return around if around.isidentifier() else ""
    return name if name.isidentifier() and not name.startswith("__") else ""


@functools.lru_cache(maxsize=1 << 12)
def parsed(text: str) -> ast.stmt | None:
    """The tree of a statement; None for a head, such as `for k in range(3)`."""
    try:
        [node] = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    return node


def targets_in(text: str) -> tuple[str, ...]:
    """The variables that a statement assigns, but for `_`; none of another statement."""
    node = parsed(text)
    match node:
        case ast.Assign():
            found = [name for target in node.targets[-1:] for name in _names(target)]
        case ast.AugAssign() | ast.AnnAssign():
            found = _names(node.target)
        case _:
            found = []
    return tuple(name for name in found if name != "_")


def words_given(text: str) -> frozenset[str] | None:
    """The words in the arguments of the call that an assignment consists of: `f(a.b, g(c))`.

    None if it is no call.
    """
    node = parsed(text)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if not (isinstance(value, ast.Call) and _is_named(value.func)):
        return None
    given = [ast.unparse(one) for one in (*value.args, *value.keywords)]
    return frozenset(re.findall(r"\w+", " ".join(given)))


def _is_named(func: ast.expr) -> bool:
    """Whether `f`, `layer.norm` or `jax.vmap(f)`, and not `x.at[f(y)].set` or `f(x).sum`."""
    if isinstance(func, ast.Call):
        given = (*func.args, *(one.value for one in func.keywords))
        return _is_named(func.func) and not any(
            isinstance(inner, ast.Lambda) for one in given for inner in ast.walk(one)
        )
    while isinstance(func, ast.Attribute):
        func = func.value
    return isinstance(func, ast.Name)


def returned_call(text: str) -> str:
    """The function whose results a statement or lambda returns as they are, or ""."""
    call = _returned(text)
    return call.func.id if call and isinstance(call.func, ast.Name) else ""


def names_handed(text: str) -> frozenset[str] | None:
    """The variables that a call is given whose results are returned: `return f(x, key=key)`.

    None if it is given something else, such as `x + 1`.
    """
    if (call := _returned(text)) is None:
        return None
    given = (*call.args, *(one.value for one in call.keywords))
    names = [one.id for one in given if isinstance(one, ast.Name)]
    return frozenset(names) if len(names) == len(given) else None


def _returned(text: str) -> ast.Call | None:
    """The call whose results a statement or lambda returns as they are."""
    node = parsed(text)
    value = node.value if isinstance(node, ast.Return | ast.Expr) else None
    value = value.body if isinstance(value, ast.Lambda) else value
    return value if isinstance(value, ast.Call) else None


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Tuple | ast.List):
        return [name for one in target.elts for name in _names(one)]
    return [ast.unparse(target.value if isinstance(target, ast.Starred) else target)]
