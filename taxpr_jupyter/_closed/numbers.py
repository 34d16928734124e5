"""The numbers that statements name: constants of their module, as the source has them.

The module may have had another one when the program was traced, and the program its old trace. So
a number is told only of an expression whose equations cannot have another one.
"""

import ast
import functools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from taxpr import introspect
from taxpr_jupyter._closed.without_equations import source_of, tree_of

# Two values of a name never have the same sum.
_SUM = (ast.Constant, ast.Name, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp, ast.Add, ast.Sub)

_Place = tuple[int | None, ...]  # of an expression in its file


def numbers_in(
    statement: introspect.Statement, eqns: Iterable[introspect.JaxprEqn]
) -> tuple[str, ...]:
    """`CLIP = 0.2`: the numbers of the module that a statement computes with.

    Only those that the module still has, and that its file binds in one place. So a function with
    an argument of that name has none. Each is an operand, `x * CLIP`, or an argument of a function
    of JAX, `jnp.clip(x, 1 - CLIP, 1 + CLIP)`. JAX has traced these numbers: the equations of the
    expression have literals, and each one is among its operands.

    Args:
        statement: The statement.
        eqns: The equations that it made.
    """
    if not statement.text or (module := _module_of(statement.file)) is None:
        return ()
    numbers, nodes = _read(source_of(statement.file))
    known = {
        name: value
        for name, (_, value) in numbers.items()
        if type(own := vars(module).get(name)) is type(value) and own == value
    }
    literals: dict[_Place, list[Any]] = {}
    for eqn in eqns if known else ():
        frame = next(iter(introspect.statements_of(eqn)), statement)
        # A derivative has numbers of its own.
        if frame.place == statement.place and "transpose" not in introspect.transformations_of(eqn):
            own = literals.setdefault(frame.part, [])
            own += [atom for atom in eqn.invars if introspect.is_literal(atom)]
    names = dict.fromkeys(
        name
        for part in sorted(literals)
        for name in _traced(nodes.get(part), literals[part], known, module)
    )
    return tuple(f"{name} = {numbers[name][0]}" for name in names)


def _traced(
    node: ast.expr | None, literals: Iterable[Any], known: Mapping[str, float], module: ModuleType
) -> Iterator[str]:
    """The names in the operands of an expression which literals of its equations are."""
    match node:
        case ast.BinOp():
            operands = [node.left, node.right]
        case ast.Compare():
            operands = [node.left, *node.comparators]
        case ast.Call() if _is_of_jax(node.func, module):
            operands = [*node.args, *(one.value for one in node.keywords)]
        case _:
            return
    values = {one: value for one in operands if (value := _value(one, known)) is not None}
    if not all(any(_is(atom, value) for value in values.values()) for atom in literals):
        return
    for one, value in values.items():
        # An integer that a function is given may be an axis, which is no literal.
        is_operand = isinstance(value, float) or not isinstance(node, ast.Call)
        if is_operand and any(_is(atom, value) for atom in literals):
            yield from (part.id for part in ast.walk(one) if isinstance(part, ast.Name))


def _value(node: ast.expr, known: Mapping[str, float]) -> float | None:
    """The value of `-CLIP`, `1 - CLIP` or `0.5`; None if it has other or several names."""
    parts = [*ast.walk(node)]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    is_known = len(names) <= 1 and known.keys() >= {*names}
    if not (is_known and all(isinstance(part, _SUM) for part in parts)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, {**known})
    return value if type(value) in (int, float) else None


def _is(atom: Any, value: float) -> bool:
    """Whether a literal is a number in the precision of its dtype."""
    dtype = atom.aval.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind in "bc":  # such as a key
        return False
    if dtype.kind in "iu":
        return int(atom.val) == value
    with np.errstate(all="ignore"):  # the value may be too large or too small for the dtype
        return bool(np.asarray(atom.val).astype(dtype) == np.asarray(float(value)).astype(dtype))


def _is_of_jax(func: ast.expr, module: ModuleType) -> bool:
    """Whether a function that a module calls, such as `jnp.clip`, is JAX's."""
    root, *path = ast.unparse(func).split(".")
    found = functools.reduce(lambda at, name: getattr(at, name, None), path, vars(module).get(root))
    return str(getattr(found, "__module__", "")).partition(".")[0] == "jax"


_modules: dict[str, ModuleType] = {}  # by their files


def _module_of(file: str) -> ModuleType | None:
    """The module that was made from a file."""
    for module in [_modules.get(file), *sys.modules.values()]:
        is_it = isinstance(module, ModuleType) and vars(module).get("__file__") == file
        if is_it and sys.modules.get(module.__name__) is module:
            _modules[file] = module
            return module
    return None


@functools.lru_cache(maxsize=64)
def _read(text: str) -> tuple[Mapping[str, tuple[str, float]], Mapping[_Place, ast.expr]]:
    """The numbers that a module binds, each with its text, and its expressions by their places."""
    tree = tree_of(text)
    times = Counter(_bound(tree))
    numbers = {
        name: (ast.get_source_segment(text, node) or "", value)
        for statement in tree.body
        for name, node in _assigned(statement)
        if times[name] == 1 and (value := _value(node, {})) is not None
    }
    nodes = {
        (one.lineno, one.col_offset, one.end_lineno, one.end_col_offset): one
        for one in ast.walk(tree)
        if isinstance(one, ast.BinOp | ast.Compare | ast.Call)
    }
    # An import of everything may bind any name.
    return {} if times["*"] else numbers, nodes


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The variables that a statement assigns, each with its expression."""
    match statement:
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
            pass
        case _:
            return
    match target, value:
        case ast.Name(), ast.expr():
            yield target.id, value
        case ast.Tuple(), ast.Tuple() if len(target.elts) == len(value.elts):
            pairs = zip(target.elts, value.elts, strict=True)
            yield from ((one.id, node) for one, node in pairs if isinstance(one, ast.Name))
        case _:
            pass


def _bound(tree: ast.AST) -> Iterator[str]:
    """Each name once for each place that binds it, anywhere in a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Load()) | ast.Attribute() | ast.keyword() | ast.Constant():
                continue
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]
            case _:  # the names that a node has besides its parts are bound
                fields = (value for _, value in ast.iter_fields(node))
                lists = (value if isinstance(value, list) else [value] for value in fields)
                yield from (name for names in lists for name in names if isinstance(name, str))
