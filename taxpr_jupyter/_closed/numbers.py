"""The numbers that statements name: constants of their module, as the source has them.

The module may have had another one when the program was traced, and the program its old trace: so
equations of the statement must have the number.
"""

import ast
import functools
import itertools
import linecache
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from taxpr import introspect
from taxpr_jupyter._closed.running import READ, parsed

_MOST = 4  # numbers of a tuple
_TRACED = 2 * READ  # numbers of equations


def numbers_in(
    statement: introspect.Statement, eqns: Iterable[introspect.JaxprEqn]
) -> tuple[str, ...]:
    """`CLIP = 0.2`: the numbers of the module that a statement names.

    Only those that the module binds in one place, which is all that its file binds by that name,
    that the module still has, and that an equation has. So a function with an argument of that
    name has none.

    Args:
        statement: The statement.
        eqns: The equations that it made.
    """
    node = parsed(statement.text)
    if node is None or statement.file.startswith("<"):
        return ()
    found = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
    found.sort(key=lambda one: (one.lineno, one.col_offset))
    names = dict.fromkeys(one.id for one in found)
    if not names or (module := _module_of(statement.file)) is None:
        return ()
    known = _bound_once("".join(linecache.getlines(statement.file)))
    own = [
        name for name in names if name in known and _is_same(vars(module).get(name), known[name][1])
    ]
    traced = [*dict.fromkeys(itertools.islice(_numbers_of(eqns), _TRACED))] if own else []
    return tuple(f"{name} = {known[name][0]}" for name in own if _all_in(traced, known[name][1]))


def _numbers_of(eqns: Iterable[introspect.JaxprEqn]) -> Iterator[tuple[Any, Any]]:
    """The numbers that equations were traced with, each with its dtype.

    These are literals, the lengths of loops, and sizes of results that no operand has. Other sizes
    come from the arguments.
    """
    for eqn in eqns:
        sizes = {size for atom in eqn.invars for size in getattr(atom.aval, "shape", ())}
        for atom in eqn.invars:
            dtype = getattr(atom.aval, "dtype", None)  # none of NumPy's for a key
            if introspect.is_literal(atom) and isinstance(dtype, np.dtype):
                yield np.asarray(atom.val).item(), dtype
        for var in eqn.outvars:
            for size in getattr(var.aval, "shape", ()):
                if isinstance(size, int) and size not in sizes:
                    yield size, np.dtype(int)
        for nested in introspect.nested_jaxprs(eqn):
            if nested.trips and nested.trips > 1:
                yield nested.trips, np.dtype(int)
            yield from _numbers_of(nested.jaxpr.eqns[:READ])


def _all_in(traced: Iterable[tuple[Any, Any]], value: Any) -> bool:
    every = value if isinstance(value, tuple) else (value,)
    return all(any(_is_traced(one, *other) for other in traced) for one in every)


def _is_traced(number: float, other: Any, dtype: Any) -> bool:
    """Whether a number, or its negative, is another one in the precision of that."""
    if dtype.kind in "iu":
        return abs(int(other)) == abs(number)
    with np.errstate(all="ignore"):  # a number may be too large or too small for the dtype
        one, two = np.abs(np.asarray([number, other]).astype(dtype)).astype(float).tolist()
    is_lost = not math.isfinite(one) or bool(one) != bool(number)
    return dtype.kind not in "bc" and one == two and not is_lost


_modules: dict[str, str] = {}  # by the file, the name of the module


def _module_of(file: str) -> ModuleType | None:
    """The module that was made from a file."""
    name = _modules.get(file, "")
    if (module := _at(name)) is not None and vars(module).get("__file__") == file:
        return module
    for name in [*sys.modules]:
        if (module := _at(name)) is not None and vars(module).get("__file__") == file:
            _modules[file] = name
            return module
    return None


def _at(name: str) -> ModuleType | None:
    module = sys.modules.get(name)
    return module if isinstance(module, ModuleType) else None


def _is_same(value: Any, literal: Any) -> bool:
    if isinstance(value, tuple) and isinstance(literal, tuple):
        pairs = zip(value, literal, strict=False)
        return len(value) == len(literal) and all(_is_same(a, b) for a, b in pairs)
    return type(value) is type(literal) and bool(value == literal)


@functools.lru_cache(maxsize=64)
def _bound_once(text: str) -> Mapping[str, tuple[str, Any]]:
    """The numbers that a module binds at its top, each with its source and value."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    times = Counter(_bound(tree))
    if times["*"]:  # an import of everything may bind any name
        return {}
    return {
        name: (source, value)
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
        for name, node in _assigned(statement)
        if times[name] == 1
        and (source := ast.get_source_segment(text, node) or "")
        and "\n" not in source
        and (value := _number(node)) is not None
    }


def _assigned(statement: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.expr]]:
    """The variables that a statement assigns, each with its expression."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    value = statement.value
    assert value is not None
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=False)
            if len(target.elts) == len(value.elts):
                yield from ((one.id, node) for one, node in pairs if isinstance(one, ast.Name))


def _number(node: ast.expr) -> Any:
    """The value of a number or of a short tuple of numbers; None of anything else."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    every = value if isinstance(value, tuple) else (value,)
    is_short = 0 < len(every) <= _MOST
    return value if is_short and all(type(one) in (int, float) for one in every) else None


def _bound(tree: ast.AST) -> Iterator[str]:
    """Each name once for each place that binds it, anywhere in a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                yield node.id
            case ast.arg():
                yield node.arg
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]
            case ast.Global() | ast.Nonlocal():
                yield from node.names
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name:
                yield node.name
            case ast.MatchMapping() if node.rest:
                yield node.rest
            case _:
                pass
