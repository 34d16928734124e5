"""The equation that notes which variable holds a value, while a function is traced.

A mark reads values and has no result, so what is traced computes the same with and without it. It
has an effect, so that JAX carries it along where it rewrites what it traced: a mark survives
`jax.vmap`, which gives its values axes, derivatives, where it marks the primal, jit and loops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax.interpreters import ad, batching, mlir

from taxpr import _compat

# Params of the equation:
#   binding   a `Binding`
#   mapped    for each value the axes that `jax.vmap` has put into it
mark_p = _compat.Primitive("variables")
mark_p.multiple_results = True


@dataclasses.dataclass(frozen=True, eq=False)
class Binding:
    """What one line of a function bound.

    Attributes:
        names: For each value its variable, and the path in what the variable holds, such as
            ``("params", "['w']")``.
        function: The qualified name of the function.
        file: The file of the function.
        first: The line at which the function begins, from 1.
        line: The line that bound the values.
    """

    names: tuple[tuple[str, str], ...]
    function: str
    file: str
    first: int
    line: int

    def __repr__(self) -> str:
        return f"{', '.join(map(''.join, self.names))} in line {self.line}"


def with_axis(mapped: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The mapped axes of a value after another `jax.vmap`, which inserts ``axis``."""
    if axis is None:
        return mapped
    return (*(one + (one >= axis) for one in mapped), axis)


@mark_p.def_impl
def _impl(*values: Any, **_: Any) -> list[Any]:
    del values
    return []


@mark_p.def_effectful_abstract_eval
def _abstract_eval(*avals: Any, **_: Any) -> tuple[list[Any], set[Any]]:
    del avals
    return [], {_compat.tag_effect}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    del tangents
    return mark_p.bind(*primals, **params), []


def _transpose(cotangents: Sequence[Any], *values: Any, **_: Any) -> Sequence[Any]:
    del cotangents
    return [None] * len(values)


def _batch(values: Sequence[Any], axes: Sequence[Any], *, mapped: Any, **params: Any) -> Any:
    return mark_p.bind(*values, mapped=tuple(map(with_axis, mapped, axes)), **params), []


ad.primitive_jvps[mark_p] = _jvp
ad.primitive_transposes[mark_p] = _transpose
batching.primitive_batchers[mark_p] = _batch
_compat.jet_rules[mark_p] = _jvp
mlir.register_lowering(mark_p, lambda ctx, *values, **_: [])
