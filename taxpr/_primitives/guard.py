"""Identities that control derivatives: `guarded`, `ended` and `underived`.

A derivative rule that taxpr keeps, as in `jax.custom_jvp` or `jax.lax.custom_linear_solve`, has no
derivative for a context. So a context enters such an equation `guarded` and leaves it `ended`:
differentiating with respect to it is an error and never a silent zero. A value that `collect` takes
out of the equation is `underived`: using its derivative is an error, too.
"""

import functools
from collections.abc import Sequence
from typing import NoReturn, TypeVar

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from taxpr import _compat
from taxpr._compat import Array, Aval, Dims, OneResult, Series, Tangent
from taxpr._errors import RefusedError

T = TypeVar("T")

guard_p = OneResult("guard")
underived_p = OneResult("underived")
refused_p = OneResult("refused_tangent")


def guarded(leaves: Sequence[Array], message: str) -> list[Array]:
    """The same values, but differentiating with respect to them raises an error.

    Costs nothing in a compiled program. A symbolic zero tangent passes, so derivatives with
    respect to other values still work.

    Args:
        leaves: Arrays of any shapes and dtypes, tracers included.
        message: The text of the error: what was found, where, and the way out.

    Returns:
        The leaves, with their dtypes and weak types.

    Raises:
        RefusedError: Later, when a derivative with respect to a leaf is taken.

    Example:
        >>> import jax, taxpr
        >>> from taxpr._primitives.guard import guarded
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


def ended(leaves: Sequence[Array]) -> list[Array]:
    """The same values, with zero tangents.

    Args:
        leaves: Arrays of any shapes and dtypes, tracers included.

    Returns:
        The leaves, with their dtypes and weak types.

    Example:
        >>> import jax
        >>> from taxpr._primitives.guard import ended
        >>> print(jax.grad(lambda x: x * ended([x])[0])(3.0))
        3.0
    """
    return [jax.lax.stop_gradient(x) if _is_inexact(x) else x for x in leaves]


def underived(x: Array, sources: Sequence[Array], message: str) -> Array:
    """The same value, marked as having no known derivative with respect to ``sources``.

    For values that leave an equation whose derivative rule does not cover them. Unlike with
    `guarded`, the program may be differentiated as long as it does not use this derivative.

    Args:
        x: An array of any shape and dtype, or a tracer.
        sources: The arrays that it was computed from.
        message: The text of the error: what was found, where, and the way out.

    Returns:
        The value. If a source has a tangent, the tangent of the value is NaN: forward mode
        computes the tangents of all values, used or not, so it cannot raise. Otherwise it is the
        value's own tangent.

    Raises:
        RefusedError: Later, when reverse mode needs the derivative with respect to a source.

    Example:
        >>> import jax, taxpr
        >>> from taxpr._primitives.guard import underived
        >>> def f(x):
        ...     return x * x, underived(x + 1, [x], "no derivative of y")
        >>> print(*jax.value_and_grad(f, has_aux=True)(3.0))
        (Array(9., dtype=float32, weak_type=True), Array(4., dtype=float32, weak_type=True)) 6.0
        >>> try:
        ...     jax.grad(lambda x: f(x)[1])(3.0)
        ... except taxpr.RefusedError as error:
        ...     print(error)
        no derivative of y
    """
    sources = [source for source in sources if _is_inexact(source)]
    return underived_p.bind(x, *sources, message=message) if _is_inexact(x) and sources else x


def _is_inexact(x: Array) -> bool:
    # PRNG keys, integers, Booleans and Refs have no tangents.
    aval = jax.typeof(x)
    return isinstance(aval, _compat.ShapedArray) and jnp.issubdtype(aval.dtype, jnp.inexact)


def _first(x: T, *sources: T, message: str) -> T:
    # The type, too, is that of x, with its weak type, sharding and varying mesh axes.
    del sources, message
    return x


def _refuse(*_: object, message: str) -> NoReturn:
    raise RefusedError(message)


def _batch(
    primitive: OneResult, args: Sequence[Array], dims: Dims, *, message: str
) -> tuple[Array, int | None]:
    # The result is batched as the first operand is.
    return primitive.bind(*args, message=message), dims[0]


_compat.define(
    guard_p,
    impl=_first,
    forwards=_first,
    jvp=_refuse,  # JAX calls it only if a tangent is not a symbolic zero.
    jet=_refuse,
    transpose=_refuse,
    batch=functools.partial(_batch, guard_p),
)


# ---- underived ---------------------------------------------------------------


def _nan(x: Array, *tangents: Array, message: str) -> Array:
    del tangents, message
    return jnp.full_like(x, jnp.nan)


def _tangent_aval(x: Aval, *tangents: Aval, message: str) -> Aval:
    del tangents, message
    return _compat.tangent_aval(x)


def _jvp_of_underived(
    primals: Sequence[Array], tangents: Sequence[Tangent], *, message: str
) -> tuple[Array, Tangent]:
    out = underived_p.bind(*primals, message=message)
    if all(isinstance(t, ad.Zero) for t in tangents[1:]):
        return out, tangents[0]
    # Ignore the value's own tangent: a rule may have ended it.
    return out, _refused(primals[0], tangents[1:], message)


def _jvp_of_refused(
    primals: Sequence[Array], tangents: Sequence[Tangent], *, message: str
) -> tuple[Array, Tangent]:
    out = refused_p.bind(*primals, message=message)
    return out, _refused(primals[0], tangents[1:], message)


def _refused(x: Array, tangents: Sequence[Tangent], message: str) -> Tangent:
    live = [t for t in tangents if not isinstance(t, ad.Zero)]
    if not live:
        return ad.Zero(_compat.tangent_aval(jax.typeof(x)))
    return refused_p.bind(x, *live, message=message)


def _transpose_of_refused(
    ct: Tangent, x: Array, *tangents: object, message: str
) -> list[Array | None]:
    # A cotangent that is an array of zeros is also fine, but only concrete values can be checked.
    if isinstance(ct, ad.Zero) or not (_compat.is_tracer(ct) or jnp.any(ct)):
        return [None] * (1 + len(tangents))
    raise RefusedError(message)


def _jet(
    primitive: OneResult, primals: Sequence[Array], series: Sequence[Series], *, message: str
) -> tuple[Array, Series]:
    # jet has no symbolic zeros, so it is unknown which operands have a derivative.
    out = primitive.bind(*primals, message=message)
    return out, [refused_p.bind(primals[0], term, message=message) for term in series[0]]


_compat.define(
    underived_p,
    impl=_first,
    forwards=_first,
    jvp=_jvp_of_underived,
    jet=functools.partial(_jet, underived_p),
    batch=functools.partial(_batch, underived_p),
)
_compat.define(
    refused_p,
    impl=_nan,
    types=_tangent_aval,
    jvp=_jvp_of_refused,
    jet=functools.partial(_jet, refused_p),
    transpose=_transpose_of_refused,
    batch=functools.partial(_batch, refused_p),
)
