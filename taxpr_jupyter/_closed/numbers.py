"""The numbers that statements name: constants of their module, as the source has them.

The module may have had another one when the program was traced, and the program its old trace. So
a number is told only of an expression whose equations cannot have another one, but for less than
one in a hundred that the precision of their dtype does not tell apart.
"""

import ast
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np

from taxpr import introspect
from taxpr_jupyter._closed.without_equations import parsed_of

# Two values of a name never have the same sum.
_SUM = (ast.Constant, ast.Name, ast.Load, ast.UnaryOp, ast.USub, ast.BinOp, ast.Add, ast.Sub)

_Place = tuple[int | None, ...]  # of an expression in its file


def numbers_in(
    statement: introspect.Statement, eqns: Iterable[introspect.JaxprEqn]
) -> tuple[str, ...]:
    """`CLIP = 0.2`: the numbers of the module that a statement computes with.

    Only those that the module still has, and that its file binds in one place. So a function with
    an argument of that name has none. Each is an operand, `x * CLIP`, or an argument of a function
    of JAX, `jnp.minimum(x, 1 - CLIP)`. JAX has traced these numbers: the equations of the
    expression have literals, and each one is among its operands. Two operands with
    names may have been exchanged, but for those that `jnp.clip` is given by position.

    Args:
        statement: The statement.
        eqns: The equations that it made.
    """
    if not statement.text or (module := _module_of(statement.file)) is None:
        return ()
    made = ((eqn, frame) for eqn in eqns for frame in introspect.statements_of(eqn)[:1])
    ran = [(eqn, frame) for eqn, frame in made if frame.place == statement.place]
    if (parsed := parsed_of(ran)) is None:
        return ()
    numbers, nodes = _read(parsed)
    known = {
        name: value
        for name, (_, value) in numbers.items()
        if type(own := vars(module).get(name)) is type(value) and own == value
    }
    literals: dict[_Place, list[list[Any]]] = {}  # of each equation
    for eqn, frame in ran if known else ():
        own = [atom for atom in eqn.invars if introspect.is_literal(atom)]
        # A derivative has numbers of its own.
        if own and "transpose" not in introspect.transformations_of(eqn):
            literals.setdefault(frame.part, []).append(own)
    names = dict.fromkeys(
        name
        for part in sorted(literals)
        for name in _traced(nodes.get(part), literals[part], known, module)
    )
    return tuple(f"{name} = {numbers[name][0]}" for name in names)


def _traced(
    node: ast.expr | None,
    literals: Sequence[Sequence[Any]],
    known: Mapping[str, float],
    module: ModuleType,
) -> Iterator[str]:
    """The names in the operands of an expression which literals of its equations are."""
    function = _called(node.func, module) if isinstance(node, ast.Call) else None
    match node:
        case ast.BinOp():
            operands = [node.left, node.right]
        case ast.Compare():
            operands = [node.left, *node.comparators]
        case ast.Call() if str(getattr(function, "__module__", "")).partition(".")[0] == "jax":
            operands = [*node.args, *(one.value for one in node.keywords)]
        case _:
            return
    values = {one: value for one in operands if (value := _value(one, known)) is not None}
    every = [*itertools.chain.from_iterable(literals)]
    if not all(any(_is(atom, value) for value in values.values()) for atom in every):
        return
    named = {one: [*_names(one)] for one in values}
    if sum(map(bool, named.values())) > 1:
        # They may have been exchanged, as by another sign of `1 - CLIP, 1 + CLIP`. `jnp.clip` hands
        # on what it is given by position in this order; `jnp.where` makes a `select_n` of another.
        if function is not jnp.clip or getattr(node, "keywords", ()):
            return
        ordered = [*values.values()]
        if not all(len(own) == len(ordered) and all(map(_is, own, ordered)) for own in literals):
            return
    for one, value in values.items():
        # An integer that a function is given may be an axis, which is no literal.
        is_operand = isinstance(value, float) or not isinstance(node, ast.Call)
        changed = ({name: known[name] * by for name in named[one]} for by in (0.99, 1.01))
        near = [found for other in changed if (found := _value(one, other)) is not None]
        kept = [atom for atom in every if _is(atom, value)]
        # The dtype may lose the number: `1 - 1e-9` is 1 in float32. (A zero has no near ones.)
        if is_operand and kept and not any(_is(atom, other) for atom in kept for other in near):
            yield from named[one]


def _names(node: ast.expr) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _value(node: ast.expr, known: Mapping[str, float]) -> float | None:
    """The value of `-CLIP`, `1 - CLIP` or `0.5`; None if it has other or several names."""
    names = [*_names(node)]
    is_known = len(names) <= 1 and known.keys() >= {*names}
    if not (is_known and all(isinstance(part, _SUM) for part in ast.walk(node))):
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


def _called(func: ast.expr, module: ModuleType) -> object:
    """The function that a module calls, such as `jnp.clip`; None if it is not the module's."""
    root, *path = ast.unparse(func).split(".")
    return functools.reduce(lambda at, name: getattr(at, name, None), path, vars(module).get(root))


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
def _read(
    parsed: introspect.Parsed,
) -> tuple[Mapping[str, tuple[str, float]], Mapping[_Place, ast.expr]]:
    """The numbers that a module binds, each with its text, and its expressions by their places."""
    tree = parsed.tree
    times = Counter(_bound(tree))
    numbers = {
        name: (parsed.text_of(node), value)
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
