"""Rules on what is not needed: large constants, unused values, donations, callbacks in loops."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level, Op
from taxpr._sites.walk import iter_eqns

LARGE = 1 << 20  # bytes of a constant


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
            name = _held_as(program.fn, const)
            of = f"{name} ({_type(const)})" if name else f"An array ({_type(const)})"
            yield Suspicion(
                f"{of} of {size / (1 << 20):,.1f} MiB is closed over.",
                next((op.statements for op in readers if op.statements), ()),
                level.addresses[number][0],
                name,
            )


def _type(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _held_as(fn: Any, const: Any) -> str:
    """The variable around a function that holds an array."""
    try:
        around = inspect.getclosurevars(inspect.unwrap(fn))
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
            yield from _unused_results(level)


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
            k = next(k for k, name in enumerate(traced.in_names) if _argument(name) == argument)
            yield Suspicion(f"The argument {argument} is not used.", (), f"in{k}", argument)
    first = next(iter(whole), "")
    holders = Counter(
        name.rpartition("[")[0] for name, one in zip(traced.in_names, used, strict=True) if one
    )
    for k, (name, one) in enumerate(zip(traced.in_names, used, strict=True)):
        is_float = jnp.issubdtype(getattr(traced.in_avals[k], "dtype", int), jnp.floating)
        beside = holders[name.rpartition("[")[0]] if "[" in name else 0
        # Others of a dict of parameters are used; a batch may have more than a function needs.
        if not one and is_float and beside and _argument(name) == first:
            yield Suspicion(f"{name} is not used, and others beside it are.", (), f"in{k}", name)


def _argument(name: str) -> str:
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def _unused_results(level: Level) -> Iterator[Suspicion]:
    """The statements of which no value is used, in the last place."""
    live = {*level.outs, *level.tagged}
    dead: set[Op] = set()
    for op in reversed(level.ops):
        if live.isdisjoint(op.outs) and not op.eqn.effects:
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
        alive.add(statement.place)  # said once
        if names := _bound(statement.text):
            yield Suspicion(
                f"The result of `{statement.text}` is not used.",
                op.statements,
                op.address,
                ", ".join(names),
            )


def _bound(text: str) -> list[str]:
    """The variables that a statement sets; its text where it only computes something."""
    try:
        [statement] = ast.parse(text).body
    except (SyntaxError, ValueError):
        return []
    if isinstance(statement, ast.Expr):
        return [text]
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return []
    every = [ast.unparse(one) for target in targets if target for one in _parts(target)]
    return [] if any(name.startswith("_") for name in every) else every


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for one in target.elts for part in _parts(one)]
    return [target]


def donation(program: Examined) -> Iterator[Suspicion]:
    """A donated argument for which there is no result of its type."""
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
