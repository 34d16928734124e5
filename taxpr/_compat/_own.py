"""taxpr's own primitives. JAX declares no types for their rules, nor for binding them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax.custom_derivatives
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import ad, batching, mlir

from taxpr._compat._primitives import jet_rules
from taxpr._compat._private import private
from taxpr._compat._types import Array, ArrayLike, Primitive

_ad: Any = ad
_mlir: Any = mlir
_rules_of: Any = jax.custom_derivatives
_callback = private("callback")

# What `jax.jvp` and the like pass along: a symbolic zero where there is nothing to compute.
Tangent = Array | ad.Zero
# The same for a rule of `jax.custom_jvp` with ``symbolic_zeros``.
Dot = Array | SymbolicZero
# The terms of `jax.experimental.jet`, which has no symbolic zeros.
Series = Sequence[Array]
# For each value the axis that a vmap maps over; None where it maps over none.
Dims = Sequence[int | None]


class OneResult(Primitive):
    """A primitive with one result."""

    if TYPE_CHECKING:

        def bind(self, *args: ArrayLike, **params: Any) -> Array: ...


class ManyResults(Primitive):
    """A primitive with a list of results."""

    multiple_results = True

    if TYPE_CHECKING:

        def bind(self, *args: ArrayLike, **params: Any) -> list[Array]: ...


def has_jvp(primitive: Primitive) -> bool:
    """Whether a primitive has a rule for derivatives."""
    return primitive in _ad.primitive_jvps


def define(
    primitive: Primitive,
    *,
    impl: Callable[..., object],
    forwards: Callable[..., object] | None = None,
    types: Callable[..., object] | None = None,
    effectful_types: Callable[..., tuple[object, object]] | None = None,
    jvp: Callable[..., tuple[object, object]] | None = None,
    jet: Callable[..., tuple[object, object]] | None = None,
    transpose: Callable[..., Sequence[Tangent | None]] | None = None,
    batch: Callable[..., tuple[object, object]] | None = None,
) -> None:
    """Give a primitive its rules, each as JAX calls it.

    Args:
        primitive: The primitive.
        impl: The results, from the operands.
        forwards: If the results are operands: which operands, whatever their representation. If it
            is None, JAX compiles ``impl``.
        types: The types of the results, from the operands' types; ``impl`` by default.
        effectful_types: In place of ``types``: these, and the effects.
        jvp: From ``(primals, tangents)`` to the same of the results.
        jet: From ``(primals, series)`` to the same of the results.
        transpose: The cotangents of the operands, from the results' cotangents and the operands.
        batch: From ``(values, dims)`` to the same of the results.
    """
    untyped: Any = primitive
    many = primitive.multiple_results
    untyped.def_impl(impl)
    if effectful_types is not None:
        untyped.def_effectful_abstract_eval(effectful_types)
    else:
        untyped.def_abstract_eval(types or impl)
    for table, rule in (
        (_ad.primitive_jvps, jvp),
        (_ad.primitive_transposes, transpose),
        (batching.primitive_batchers, batch),
        (jet_rules, jet),
    ):
        if rule is not None:
            table[primitive] = rule

    def passing(_: object, *values: object, **params: Any) -> Any:
        results = (forwards or impl)(*values, **params)
        return results if many else [results]

    lowering = passing if forwards else _mlir.lower_fun(impl, multiple_results=many)
    # Without a platform, so for all of them.
    _mlir.register_lowering(primitive, lowering)


def run_by_host(primitive: Primitive, call: Callable[..., object]) -> None:
    """Let programs of a CPU call a function of NumPy for a primitive with one result.

    `jax.pure_callback` makes arrays of JAX of the operands while the program runs, and may then
    wait for ever.

    Args:
        primitive: The primitive.
        call: The result, from the operands as arrays of NumPy, and the params.
    """

    def lowering(context: Any, *operands: object, **params: Any) -> Any:
        def of_host(*arrays: object) -> tuple[object]:
            return (call(*arrays, **params),)

        types = context.avals_in, context.avals_out
        given = context, of_host, None, operands, *types
        return _callback.emit_python_callback(*given, has_side_effect=False)[0]

    _mlir.register_lowering(primitive, lowering, platform="cpu")


def instantiated(tangent: Tangent) -> Array:
    """The tangent, with zeros in place of a symbolic zero."""
    return _ad.instantiate_zeros(tangent)


def symbolic_zero(x: Array) -> SymbolicZero:
    """The zero tangent of a value."""
    return _rules_of.zero_from_primal(x, symbolic_zeros=True)


def is_linear(operand: object) -> bool:
    """Whether a transpose rule is asked for the cotangent of an operand."""
    return _ad.is_undefined_primal(operand)
