"""Rules on types: floats that become wider unasked, and weak types that trace again."""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._answers.charts import number as number_text
from taxpr._check.findings import Suspicion
from taxpr._check.levels import Examined, Level, Op
from taxpr._hops.table import nested_jaxprs
from taxpr._sites.walk import iter_eqns
from taxpr._source.files import is_library_file

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
    """What an expression widens, joins with what is wide already, and hands on as wide."""
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
            if made.isdisjoint(other.ins):
                continue
            made.update(n for n in other.outs if _dtype(level, n) == wide)
            beside = (n for n in other.ins if n not in own and _is_strong(level, n, wide))
            partner = next(beside, partner)
        if partner is None or not any(_leaves(level, number, ops) for number in made):
            continue
        yield _said(program, level, op, op.ins[0], partner)


def _mixed(program: Examined, level: Level, op: Op) -> Iterator[Suspicion]:
    """A product of matrices of two types, which newer JAX does not convert before."""
    narrow, wide = sorted(op.ins, key=lambda n: level.avals[n].dtype.itemsize)
    types = [level.avals[n].dtype for n in (narrow, wide)]
    floats = all(jnp.issubdtype(one, jnp.floating) for one in types)
    if floats and types[0] != types[1] == _dtype(level, op.outs[0]):
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


def _text(level: Level, number: int, name: str) -> str:
    aval: Any = level.avals[number]
    text = aval.str_short(short_dtypes=True)
    if name:
        return f"{name} ({text})"
    if number in level.literals:
        return f"the number {number_text(level.literals[number])} ({text})"
    return f"a value ({text})"


def weak_types(program: Examined) -> Iterator[Suspicion]:
    """A type is weak once and strong at another time, so that JAX traces again."""
    yield from _handed_back(program)
    yield from _traced_twice(program)


def _handed_back(program: Examined) -> Iterator[Suspicion]:
    """Results that have the name of an argument, and not its type."""
    traced, level = program.program, program.levels[0]
    for k, (name, before) in enumerate(zip(traced.in_names, traced.in_avals, strict=True)):
        if not getattr(before, "weak_type", False):
            continue
        for number, after in zip(level.outs, traced.out_avals, strict=True):
            same = before.shape == after.shape and before.dtype == after.dtype
            if same and not after.weak_type and _own_name(program.name(level, number)) == name:
                yield Suspicion(
                    f"{name} comes in as a number of Python ({before.dtype.name}, weakly typed) "
                    "and goes out as an array: called with its result, the function is traced "
                    "and compiled again.",
                    variable=name,
                    address=f"in{k}",
                )
                break


def _own_name(short: str) -> str:
    return short.rpartition(".")[2] if "[" not in short else short


def _traced_twice(program: Examined) -> Iterator[Suspicion]:
    """A function of the user's that was traced for both, within one program."""
    seen: dict[object, list[tuple[bool, ...]]] = {}
    for address, eqn in iter_eqns(program.program):
        if eqn.primitive is not _compat.jit_p:
            continue
        inner: Any = _compat.open_jaxpr(nested_jaxprs(eqn)[0].stored)
        function = _compat.function_of(inner)
        avals = [var.aval for var in inner.invars]
        arrays = all(isinstance(aval, _compat.ShapedArray) for aval in avals)
        if function is None or is_library_file(function[0]) or not arrays:
            continue
        weak = tuple(aval.weak_type for aval in avals)
        others = seen.setdefault((function, tuple((a.shape, a.dtype) for a in avals)), [])
        if others and weak not in others:
            names = inner.debug_info.arg_names or range(len(avals))
            pairs = zip(names, others[0], weak, strict=True)
            differ = " and ".join(str(name) for name, one, other in pairs if one is not other)
            yield Suspicion(
                f"{eqn.params['name']} is traced twice, since {differ} is a number of Python in "
                "one call and an array in another.",
                program.statements(address),
                address,
                differ,
            )
        others.append(weak)
