"""Rules on needless things: large constants, unused values, donations, callbacks in loops."""

import ast
import dis
import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level, Op
from taxpr._sites.walk import iter_eqns
from taxpr._source.files import is_library_file
from taxpr._source.statements import Statement
from taxpr._source.uses import asks_for_type, uses

LARGE = 1 << 20  # bytes of a constant


class _Holder(NamedTuple):
    """A variable that holds a value.

    Attributes:
        file: The file of its function.
        function: The qualified name of the function.
        name: The variable.
        line: The line that bound it.
    """

    file: str
    function: str
    name: str
    line: int


def large_constant(program: Examined) -> Iterator[Suspicion]:
    """An array that is closed over becomes a part of the program."""
    seen: set[int] = set()
    for level in program.levels:
        for number, const in level.consts.items():
            size = getattr(const, "nbytes", 0)
            if size < LARGE or id(const) in seen:
                continue
            seen.add(id(const))
            readers = level.readers.get(number, ())
            name = _held_as(program.fun, const)
            of = f"{name} ({_type(const)})" if name else f"An array ({_type(const)})"
            yield Suspicion(
                f"{of} of {size / (1 << 20):,.1f} MiB is closed over.",
                next((op.statements for op in readers if op.statements), ()),
                level.addresses[number][0],
                name,
            )


def _type(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _held_as(fun: Any, const: Any) -> str:
    """The variable around a function that holds an array."""
    try:
        around = inspect.getclosurevars(inspect.unwrap(fun))
    except (TypeError, ValueError):
        return ""
    held = {**around.globals, **around.nonlocals}
    trees: Any = jax.tree_util
    for name, value in held.items():
        if value is const:
            return name
        if isinstance(value, (dict, list, tuple)):
            for path, leaf in trees.tree_flatten_with_path(value)[0]:
                if leaf is const:
                    return f"{name}{trees.keystr(path)}"
    return ""


def unused(program: Examined) -> Iterator[Suspicion]:
    """An argument that nothing reads, or a statement whose result nothing reads."""
    yield from _unused_arguments(program)
    for level in program.levels:
        if level.users:
            yield from _unused_results(program, level)


def _unused_arguments(program: Examined) -> Iterator[Suspicion]:
    traced, level = program.program, program.levels[0]
    if any(op.derivative for one in program.levels for op in one.ops):
        return  # a derivative may not need what it is taken of
    whole: dict[str, list[bool]] = {}
    used = [n in level.readers or n in level.outs or n in level.tagged for n in level.ins]
    for name, one in zip(traced.in_names, used, strict=True):
        whole.setdefault(_argument(name), []).append(one)
    for argument, leaves in whole.items():
        if not any(leaves) and not argument.startswith("_"):
            of = [k for k, name in enumerate(traced.in_names) if _argument(name) == argument]
            if not _are_asked_of(_holders(program, of, argument, whole=True)):
                said = f"The argument {argument} is not used."
                yield Suspicion(said, (), f"in{of[0]}", argument)
    first = next(iter(whole), "")
    holders = Counter(
        name.rpartition("[")[0] for name, one in zip(traced.in_names, used, strict=True) if one
    )
    for k, (name, one) in enumerate(zip(traced.in_names, used, strict=True)):
        is_float = jnp.issubdtype(getattr(traced.in_avals[k], "dtype", int), jnp.floating)
        beside = holders[name.rpartition("[")[0]] if "[" in name else 0
        # Others of a dict of parameters are used; a batch may have more than a function needs.
        if one or not is_float or not beside or _argument(name) != first:
            continue
        if not _are_asked_of(_holders(program, [k], name, whole=False)):
            yield Suspicion(f"{name} is not used, and others beside it are.", (), f"in{k}", name)


def _argument(name: str) -> str:
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def _holders(program: Examined, at: list[int], name: str, whole: bool) -> Iterator[_Holder]:
    """The variables that hold some arguments, or the PyTree that they are of."""
    if function := _compat.function_of(program.program.jaxpr):
        file, line = function
        yield _Holder(file, program.program.name, name, line)
    level = program.levels[0]
    for k in at:
        for one in program.held(level, level.ins[k]):
            yield _Holder(one.file, one.function, one.name if whole else one.text, one.line)


def _unused_results(program: Examined, level: Level) -> Iterator[Suspicion]:
    """The statements without a used value, at their last place."""
    live = {*level.outs, *level.tagged}
    dead: set[Op] = set()
    for op in reversed(level.ops):
        if live.isdisjoint(op.outs) and not _has_effect(op):
            dead.add(op)
        else:
            live.update(op.ins)
    alive = {op.statements[0].place for op in level.ops if op.statements and op not in dead}
    for op in level.ops:
        if op not in dead or op.derivative or any(n in level.readers for n in op.outs):
            continue
        statement = op.statement
        if statement is None or statement.place in alive or not op.outs:
            continue
        names = _bound(statement)
        if not names or _is_for_effect(op, names) or _is_asked_of(program, level, op, names):
            continue
        yield Suspicion(
            f"The result of `{statement.text}` is not used.",
            op.statements,
            op.address,
            ", ".join(names),
        )


def _has_effect(op: Op) -> bool:
    """Whether an equation does something besides its results, or marks a value for a library."""
    return bool(op.eqn.effects) or not _compat.is_of_jax(op.eqn.primitive)


def _is_for_effect(op: Op, names: list[str]) -> bool:
    """Whether a statement calls a function for its effect on Python objects."""
    statement = op.statements[0]
    if names != [statement.text]:
        return False
    # What `losses.append(jnp.sum(x))` computes goes into the call.
    return statement.part != statement.place or _calls_for_nothing(op)


def _calls_for_nothing(op: Op) -> bool:
    """Whether the user's statement called a function that returns None."""
    called: CodeType | None = None
    for code in _compat.frames_of(op.eqn)[0]:
        if not is_library_file(code.co_filename, op.eqn):
            break
        called = code
    if called is None or called.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return False
    steps = list(dis.get_instructions(called))
    returned = [
        # From 3.12 on, `RETURN_CONST` does both.
        one if one.opname == "RETURN_CONST" else before
        for before, one in itertools.pairwise(steps)
        if one.opname in ("RETURN_VALUE", "RETURN_CONST")
    ]
    return all("CONST" in one.opname and one.argval is None for one in returned)


def _is_asked_of(program: Examined, level: Level, op: Op, names: list[str]) -> bool:
    statement = op.statements[0]
    if asks_for_type(statement.file, statement.part):
        return True
    of = [_Holder(statement.file, statement.function, name, statement.line) for name in names]
    every = (one for number in op.outs for one in program.held(level, number))
    return _are_asked_of(
        [*of, *(_Holder(one.file, one.function, one.name, one.line) for one in every)]
    )


def _bound(statement: Statement) -> list[str]:
    """The variables that a statement sets; its text if it only computes something.

    Empty if it has another purpose: it returns, or changes a Python object.
    """
    try:
        [node] = ast.parse(statement.text).body
    except (SyntaxError, ValueError):
        return []
    if isinstance(node, ast.Expr):
        return [statement.text]
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return []
    every = [one for target in targets if target for one in _parts(target)]
    names = [one.id for one in every if isinstance(one, ast.Name)]
    meant = any(name.startswith("_") for name in names)
    return [] if meant or len(names) < len(every) else names


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for one in target.elts for part in _parts(one)]
    return [target.value if isinstance(target, ast.Starred) else target]


def donation(program: Examined) -> Iterator[Suspicion]:
    """A donated argument without a result of its type."""
    for address, eqn in iter_eqns(program.program):
        donated = eqn.params.get("donated_invars") or ()
        if eqn.primitive is not _compat.jit_p or not any(donated):
            continue
        free = Counter(_kind(var.aval) for var in eqn.outvars)
        names = _compat.open_jaxpr(eqn.params["jaxpr"]).debug_info.arg_names
        for k, (given, atom) in enumerate(zip(donated, eqn.invars, strict=True)):
            if not given:
                continue
            if free[_kind(atom.aval)]:
                free[_kind(atom.aval)] -= 1
                continue
            name = str(names[k]) if names and k < len(names) else f"argument {k}"
            yield Suspicion(
                f"{eqn.params['name']} donates {name} ({atom.aval.str_short()}), and no result "
                "of that type is left to take its memory.",
                program.statements(address),
                address,
                name,
            )


def _kind(aval: Any) -> object:
    return getattr(aval, "shape", None), getattr(aval, "dtype", None)


def callback_in_loop(program: Examined) -> Iterator[Suspicion]:
    """A call of Python in each iteration of a loop."""
    for level in program.levels:
        for op in level.ops:
            called = op.eqn.primitive in _compat.callbacks
            if called and level.in_loop and not level.passed_over:
                yield Suspicion(
                    "Each iteration of the loop calls Python, and waits for it.",
                    op.statements,
                    op.address,
                )


def _are_asked_of(held: Iterable[_Holder]) -> bool:
    """Whether the user's functions use a value that no equation reads.

    They ask for its shape, compute in a branch of Python that was not taken, or hand it to a
    function that is not theirs. A function of theirs that gets it is looked at itself.

    Args:
        held: The variables that hold the value, in the order of their bindings.
    """
    order = list(dict.fromkeys(held))
    found = {one: uses(*one) for one in order}
    every = [use for some in found.values() for use in some]
    if any(use.asks or not use.to for use in every):
        return True
    called = {use.to for use in every}
    for k, one in enumerate(order):
        later = {other.function for other in order[k + 1 :] if other.function != one.function}
        names = [function.split(".") for function in later]
        # A library may call the user's functions, as `model.apply` does.
        by_library = any(called.isdisjoint(parts) for parts in names)
        for use in found[one]:
            if not by_library and not any(use.to in parts for parts in names):
                return True
    return False
