"""Values that must not be differentiated, and values that are not.

A rule that keeps a derivative of its own (of `jax.custom_jvp`, of
`jax.lax.custom_linear_solve`) knows nothing of a context. Where one goes through such a
rule, it enters `guarded` and leaves `ended`: a derivative with respect to it is an error,
and never a silent zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from taxpr import _compat
from taxpr._errors import RefusedError

guard_p = _compat.Primitive("guard")


def guarded(leaves: Sequence[Any], message: str) -> list[Any]:
    """The same values; a derivative with respect to one of them is refused.

    Costs nothing in a compiled program. A tangent that is a symbolic zero passes, so
    derivatives with respect to anything else are left alone.

    Args:
        leaves: Arrays of any shapes and dtypes, tracers included.
        message: The text of the error: what was found, where, and the way out.

    Returns:
        The leaves, with their dtypes and weak types.

    Raises:
        RefusedError: Later, when a derivative with respect to a leaf is taken.

    Example:
        >>> import jax, taxpr
        >>> from taxpr._guard import guarded
        >>> def f(x, s):
        ...     [s] = guarded([s], "no derivative with respect to s")
        ...     return x * s
        >>> print(jax.grad(f)(2.0, 3.0))
        3.0
        >>> try:
        ...     jax.grad(f, argnums=1)(2.0, 3.0)
        ... except taxpr.RefusedError as error:
        ...     print(error)
        no derivative with respect to s
    """
    return [guard_p.bind(x, message=message) if _is_inexact(x) else x for x in leaves]


def ended(leaves: Sequence[Any]) -> list[Any]:
    """The same values, with zero tangents.

    Args:
        leaves: Arrays of any shapes and dtypes, tracers included.

    Returns:
        The leaves, with their dtypes and weak types.

    Example:
        >>> import jax
        >>> from taxpr._guard import ended
        >>> print(jax.grad(lambda x: x * ended([x])[0])(3.0))
        3.0
    """
    return [jax.lax.stop_gradient(x) if _is_inexact(x) else x for x in leaves]


def _is_inexact(x: Any) -> bool:
    # Only these have tangents; PRNG keys, integers and Booleans have none.
    return jnp.issubdtype(jax.typeof(x).dtype, jnp.inexact)


@guard_p.def_impl
def _impl(x: Any, *, message: str) -> Any:
    del message
    return x


@guard_p.def_abstract_eval
def _abstract_eval(aval: Any, *, message: str) -> Any:
    # Its weak type, its sharding and the mesh axes over which it varies are those of x.
    del message
    return aval


def _refuse(*_: Any, message: str) -> NoReturn:
    raise RefusedError(message)


def _batch(args: Sequence[Any], dims: Sequence[Any], *, message: str) -> Any:
    return guard_p.bind(*args, message=message), dims[0]


# JAX asks for a tangent only where one is not a symbolic zero.
ad.primitive_jvps[guard_p] = _refuse
ad.primitive_transposes[guard_p] = _refuse
batching.primitive_batchers[guard_p] = _batch
# Without a platform: the rule of every platform.
mlir.register_lowering(guard_p, lambda ctx, x, *, message: [x])
