"""Rules on types: floats that become wider unasked, and weak types that trace again."""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from taxpr._answers.charts import number as number_text
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level, Op

# An expression that says which type it wants.
_ASKED = re.compile(
    r"astype|float|dtype|convert_element_type|promote|prefer|asarray|\barray\(|view\("
)


def promotion(program: Examined) -> Iterator[Suspicion]:
    """A float becomes wider, since it meets a wider one, and the result stays wide."""
    for level in program.levels:
        if not level.users:
            continue
        units: dict[object, list[Op]] = {}
        for op in level.ops:
            if op.statements:
                units.setdefault(op.expression, []).append(op)
        for ops in units.values():
            if not _ASKED.search(ops[0].statements[0].expression):
                yield from _widened(program, level, ops)


def _widened(program: Examined, level: Level, ops: list[Op]) -> Iterator[Suspicion]:
    """The values that an expression widens, joins with wide ones, and hands on as wide."""
    own = {number for op in ops for number in op.outs}
    for op in ops:
        if op.backward:
            continue
        if op.eqn.primitive is jax.lax.dot_general_p:
            yield from _mixed(program, level, op)
        if not _widens(op):
            continue
        wide = _dtype(level, op.outs[0])
        made = set(op.outs)
        partner: int | None = None
        for other in ops:
            if other.backward or made.isdisjoint(other.ins):
                continue
            made.update(n for n in other.outs if _dtype(level, n) == wide)
            beside = (n for n in other.ins if n not in own and _is_strong(level, n, wide))
            partner = next(beside, partner)
        if partner is None or not any(_leaves(level, number, ops) for number in made):
            continue
        if _is_cast_back(level, made, ops):
            continue
        yield _said(program, level, op, op.ins[0], partner)


def _mixed(program: Examined, level: Level, op: Op) -> Iterator[Suspicion]:
    """A matmul of two dtypes, which newer JAX does not convert before."""
    narrow, wide = sorted(op.ins, key=lambda n: level.avals[n].dtype.itemsize)
    types = [level.avals[n].dtype for n in (narrow, wide)]
    floats = all(jnp.issubdtype(one, jnp.floating) for one in types)
    wider = floats and types[0] != types[1] == _dtype(level, op.outs[0])
    if wider and not _is_cast_back(level, set(op.outs), [op]):
        yield _said(program, level, op, narrow, wide)


def _said(program: Examined, level: Level, op: Op, narrow: int, wide: int) -> Suspicion:
    name = program.name(level, narrow)
    return Suspicion(
        f"{_text(level, narrow, name)} becomes {_dtype(level, wide).name}, as "
        f"{_text(level, wide, program.name(level, wide))} is.",
        op.statements,
        op.address,
        name,
    )


def _widens(op: Op) -> bool:
    if op.eqn.primitive is not jax.lax.convert_element_type_p:
        return False
    before, after = op.eqn.invars[0].aval, op.eqn.outvars[0].aval
    floats = all(jnp.issubdtype(one.dtype, jnp.floating) for one in (before, after))
    if not floats or before.weak_type or after.weak_type:
        return False
    return before.dtype.itemsize < after.dtype.itemsize


def _is_strong(level: Level, number: int, dtype: Any) -> bool:
    aval = level.avals[number]
    return _dtype(level, number) == dtype and not aval.weak_type


def _dtype(level: Level, number: int) -> Any:
    return getattr(level.avals[number], "dtype", None)


def _leaves(level: Level, number: int, ops: list[Op]) -> bool:
    """Whether other expressions have a value, too."""
    readers = level.readers.get(number, ())
    return number in level.outs or any(op not in ops for op in readers)


def _is_cast_back(level: Level, wide: set[int], ops: list[Op]) -> bool:
    """Whether the statement, or the next equation after it, makes wide values narrow again."""
    place = ops[0].statements[0].place
    waiting, seen = list(wide), set(wide)
    narrowed = False
    while waiting:
        number = waiting.pop()
        if number in level.outs:
            return False
        for op in level.readers.get(number, ()):
            if op in ops or op.backward:
                continue
            if _narrows(op):
                narrowed = True
                continue
            if op.statement is None or op.statement.place != place:
                return False
            new = {n for n in op.outs if _dtype(level, n) == _dtype(level, number)} - seen
            seen |= new
            waiting += new
    return narrowed


def _narrows(op: Op) -> bool:
    if op.eqn.primitive is not jax.lax.convert_element_type_p:
        return False
    before, after = op.eqn.invars[0].aval.dtype, op.eqn.outvars[0].aval.dtype
    return jnp.issubdtype(after, jnp.floating) and after.itemsize < before.itemsize


def _text(level: Level, number: int, name: str) -> str:
    aval: Any = level.avals[number]
    text = aval.str_short(short_dtypes=True)
    if name:
        return f"{name} ({text})"
    if number in level.literals:
        return f"the number {number_text(level.literals[number])} ({text})"
    return f"a value ({text})"
