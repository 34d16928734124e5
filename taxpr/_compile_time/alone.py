"""Compile a part of a program for itself, and see how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._compile_time.parts import PieceOfPart
from taxpr._jaxprs.subset import subset
from taxpr._untyped import jax as _jax


class Spent(NamedTuple):
    """Seconds of the stages after tracing.

    Attributes:
        lower: To write the program for XLA.
        compile: For XLA to compile it.
    """

    lower: float
    compile: float

    @property
    def total(self) -> float:
        """The seconds of both."""
        return self.lower + self.compile

    def without(self, least: Spent) -> Spent:
        """The time less the time of an empty program."""
        return Spent(max(self.lower - least.lower, 0.0), max(self.compile - least.compile, 0.0))


def spent(fun: Callable[..., Any], structs: Sequence[Any]) -> Spent:
    """How long it takes to lower and compile a function of flat arguments."""

    def anew(*args: Any) -> Any:  # which no cache has
        return fun(*args)

    traced = _jax.jit(anew).trace(*structs)
    begun = time.perf_counter()
    lowered = traced.lower()
    lowered_at = time.perf_counter()
    lowered.compile()
    return Spent(lowered_at - begun, time.perf_counter() - lowered_at)


def spent_alone(piece: PieceOfPart) -> Spent:
    """How long it takes to lower and compile equations without those around them."""
    jaxpr = subset(piece.jaxpr, piece.eqns)
    structs = [_struct(_compat.aval_of(var)) for var in jaxpr.invars]
    return spent(_compat.jaxpr_as_fun(_compat.closed(jaxpr)), structs)


def of_nothing() -> Spent:
    """How long an empty program takes: the minimum of three."""
    each = [spent(_jax.lax.neg, [_jax.ShapeDtypeStruct((), "float32")]) for _ in range(3)]
    return Spent(min(one.lower for one in each), min(one.compile for one in each))


def _struct(aval: Any) -> Any:
    weak = getattr(aval, "weak_type", False)
    return _jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak)
