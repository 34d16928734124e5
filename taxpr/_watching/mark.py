"""The equation that notes, during tracing, which variable holds a value.

A mark reads values and has no result, so the program computes the same with and without it. It has
an effect, so JAX carries it along when it rewrites the program: a mark survives `jax.vmap`, which
gives its values axes, derivatives, which keep it at the primal, jit and loops.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jax.interpreters import ad

from taxpr import _compat
from taxpr._compat import Array, Dims, Effects, Tangent

# Params of the equation:
#   binding   a `Binding`
#   mapped    for each value the axes that `jax.vmap` has put into it
#   differentiated   for each value whether it was differentiated
#   cotangents   for each value what `Tangents.mark` returned; absent where nobody asks for
#          cotangents
mark_p = _compat.ManyResults("variables")
# For a function and a variable of it the file, the line, and what it holds in place of a tracer.
Untraced = dict[tuple[str, str], tuple[str, int, str]]


@dataclasses.dataclass(frozen=True, eq=False)
class Binding:
    """The variables that one line of a function bound, or the token of a tag.

    Attributes:
        names: For each value its variable, and its path in the variable, such as
            ``("params", "['w']")``; for a tag its name and the path in the token.
        function: The qualified name of the function.
        file: The file of the function.
        first: The first line of the function, from 1.
        line: The line that bound the values.
        within: Whether another watched function was running when it began, in the same jaxpr.
        number: How many times marks were left until then, from 1.
        edited: The edits of variables in that line, by their names, "" for the line itself.
    """

    names: tuple[tuple[Any, str], ...]
    function: str = ""
    file: str = ""
    first: int = 0
    line: int = 0
    within: bool = False
    number: int = 0
    edited: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])

    @property
    def is_tag(self) -> bool:
        """Whether it is of a tag."""
        return not self.function

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}{path}" for name, path in self.names)
        return f"tag {shown}" if self.is_tag else f"{shown} in line {self.line}"


def with_axis(mapped: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The mapped axes of a value after another `jax.vmap`, which inserts ``axis``."""
    if axis is None:
        return mapped
    return (*(one + (one >= axis) for one in mapped), axis)


def _nothing(*_: object, **__: object) -> list[Array]:
    return []


def _types(*_: object, **__: object) -> tuple[list[Array], Effects]:
    return [], {_compat.tag_effect}


def _jvp(
    primals: Sequence[Array], tangents: Sequence[object], **params: Any
) -> tuple[list[Array], list[Tangent]]:
    now = [not isinstance(tangent, ad.Zero) for tangent in tangents]
    before: tuple[bool, ...] = params["differentiated"]
    params["differentiated"] = tuple(a or b for a, b in zip(before, now, strict=True))
    return mark_p.bind(*primals, **params), []


def _jet(
    primals: Sequence[Array], series: Sequence[object], **params: Any
) -> tuple[list[Array], list[Tangent]]:
    del series
    return mark_p.bind(*primals, **{**params, "differentiated": (True,) * len(primals)}), []


def _transpose(cotangents: Sequence[Tangent], *values: object, **_: object) -> list[None]:
    del cotangents
    return [None] * len(values)


def _batch(
    values: Sequence[Array], axes: Dims, *, mapped: Sequence[tuple[int, ...]], **params: Any
) -> tuple[list[Array], Dims]:
    return mark_p.bind(*values, mapped=tuple(map(with_axis, mapped, axes)), **params), []


_compat.define(
    mark_p,
    impl=_nothing,
    forwards=_nothing,
    effectful_types=_types,
    jvp=_jvp,
    jet=_jet,
    transpose=_transpose,
    batch=_batch,
)
