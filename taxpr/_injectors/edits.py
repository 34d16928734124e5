"""Ready injectors that change the token."""

import math
import zlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, DType, PyTree
from taxpr._errors import InjectorError, a_type
from taxpr._injectors.declare import injector
from taxpr._injectors.kind import Param
from taxpr._jaxprs.prng import one_key
from taxpr._jaxprs.zeros import zeros
from taxpr._sites.site import Site


def _each(name: str, token: PyTree, fun: Callable[[Array], Array]) -> PyTree:
    def one(x: Array) -> Array:
        if _compat.is_extended(x.dtype) or x.dtype == bool:
            raise InjectorError(f"{name}: the token is a {x.dtype}, which has no arithmetic.")
        return fun(x)

    return jax.tree.map(one, token)


def _fitted(name: str, parameter: str, value: ArrayLike, x: Array) -> Array:
    """A parameter in the token's dtype; an error if that could change its value.

    An integer that the token cannot hold was refused when it was given; one that came into
    the context later is brought into the token's range.
    """
    try:
        value = jnp.asarray(value)
    except (TypeError, ValueError):
        raise InjectorError(
            f"{name}: {parameter} is {a_type(value)}, where the token has an array. Give "
            "a number or an array."
        ) from None
    if _rank(value.dtype) > max(_rank(x.dtype), 1):
        raise InjectorError(
            f"{name}: {parameter} is {value.dtype} and the token is {x.dtype}. Converting would "
            f"change its value: give {parameter} in a dtype that the token can hold."
        )
    if jnp.issubdtype(value.dtype, jnp.integer) and jnp.issubdtype(x.dtype, jnp.integer):
        held, given = jnp.iinfo(x.dtype), jnp.iinfo(value.dtype)
        low, high = max(held.min, given.min), min(held.max, given.max)
        value = jnp.clip(value, jnp.asarray(low, value.dtype), jnp.asarray(high, value.dtype))
    sizes = zip(value.shape[::-1], x.shape[::-1], strict=False)
    if value.ndim > x.ndim or any(own not in (1, size) for own, size in sizes):
        raise InjectorError(
            f"{name}: the {parameter} has shape {value.shape} and the token {x.shape}. Give one "
            "number for all of it, or an array that broadcasts to the token's shape."
        )
    return value.astype(x.dtype)


def _rank(dtype: DType) -> int:
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return next(i for i, kind in enumerate(kinds) if jnp.issubdtype(dtype, kind))


_COMPLEX = _rank(jnp.dtype(jnp.complex64))


@injector(value=Param(0.0, -10.0, 10.0, "The value that replaces the token."))
def replace(token: PyTree, value: PyTree) -> PyTree:
    """Put a value in the token's place: a scalar, or a tree of the token's structure.

    Example:
        >>> from taxpr import replace, tag, trace
        >>> replaced = trace(lambda x: tag(x, name="x") * 2)(0.0).inject(replace(5.0))
        >>> print(replaced(replaced.ctx, 1.0)[0])
        10.0
    """
    single = jax.tree.structure(value) == jax.tree.structure(0)
    values = _compat.map_leaves(lambda _: value, token) if single else value
    expected, found = map(jax.tree.structure, (token, values))
    if found != expected and not jax.tree_util.treedef_is_leaf(expected):
        raise InjectorError(
            f"replace: the value has the structure {found} and the token {expected}. Give a value "
            "of the token's structure, or one number for all of it."
        )

    def one(x: Array, new: Array) -> Array:
        if _compat.is_extended(x.dtype):
            return jnp.broadcast_to(new, x.shape)
        return jnp.broadcast_to(_fitted("replace", "value", new, x), x.shape)

    return jax.tree.map(one, token, values)


@injector(factor=Param(0.5, -2.0, 2.0, "The factor of the token."))
def scale(token: PyTree, factor: ArrayLike) -> PyTree:
    """Multiply the token.

    Example:
        >>> from taxpr import scale, tag, trace
        >>> scaled = trace(lambda x: tag(x, name="x") + 1)(0.0).inject(scale(3.0))
        >>> print(scaled(scaled.ctx, 2.0)[0])
        7.0
    """
    return _each("scale", token, lambda x: x * _fitted("scale", "factor", factor, x))


@injector(value=Param(0.0, -10.0, 10.0, "The value to add to the token."))
def add(token: PyTree, value: ArrayLike) -> PyTree:
    """Add to the token.

    Example:
        >>> from taxpr import add, tag, trace
        >>> more = trace(lambda x: tag(x, name="x") * 2)(0.0).inject(add(1.0))
        >>> print(more(more.ctx, 2.0)[0])
        6.0
    """
    return _each("add", token, lambda x: x + _fitted("add", "value", value, x))


@injector()
def zero(token: PyTree) -> PyTree:
    """Replace the token by zeros.

    Example:
        >>> from taxpr import tag, trace, zero
        >>> without = trace(lambda x: tag(x * 2, name="head") + x)(0.0).inject(zero(), where="head")
        >>> print(without(without.ctx, 2.0)[0])
        2.0
    """
    return _compat.map_leaves(lambda x: zeros(x.shape, x.dtype), token)


# ---- clip --------------------------------------------------------------------


def _in_order(low: ArrayLike, high: ArrayLike) -> None:
    try:
        swapped = bool(np.asarray(np.asarray(low) > np.asarray(high)).any())
    except (TypeError, ValueError):  # no numbers, which is said where they are converted
        return
    if swapped:
        raise InjectorError(
            f"clip: low={low} is above high={high}. Nothing is between them: give the smaller "
            "bound as low."
        )


def _bound(name: str, value: ArrayLike | None, x: Array) -> Array:
    """A bound in the token's dtype. An infinite one is beyond all values of the token."""
    if value is None:
        raise InjectorError(f"clip: {name} is None. Leave it out for an open bound.")
    given = jnp.asarray(value)
    if not jnp.issubdtype(given.dtype, jnp.floating):
        return _fitted("clip", name, value, x)
    if jnp.issubdtype(x.dtype, jnp.integer):
        # The outermost integer within the bound. Beyond the dtype a conversion has no meaning.
        held, inner = jnp.iinfo(x.dtype), jnp.ceil(given) if name == "low" else jnp.floor(given)
        low, high = jnp.asarray(held.min, x.dtype), jnp.asarray(held.max, x.dtype)
        fits = jnp.where(inner >= float(held.max), high, inner.astype(x.dtype))
        return jnp.where(inner <= float(held.min), low, fits)
    if not np.isinf(np.asarray(np.inf, x.dtype)):  # some dtypes of 8 bits have no infinity
        given = jnp.clip(given, *_compat.finite_range(x.dtype))
    return _fitted("clip", name, given, x)


@injector(
    low=Param(-math.inf, -10.0, 10.0, "The smallest value let through; -inf: no bound."),
    high=Param(math.inf, -10.0, 10.0, "The largest value let through; inf: no bound."),
    check=_in_order,
)
def clip(token: PyTree, low: ArrayLike, high: ArrayLike) -> PyTree:
    """Clip the token to bounds; a missing bound is open.

    Example:
        >>> from taxpr import clip, tag, trace
        >>> clipped = trace(lambda x: tag(x, name="x") * 2)(0.0).inject(clip(high=3.0))
        >>> print(clipped(clipped.ctx, 5.0)[0], clipped(clipped.ctx, -9.0)[0])
        6.0 -18.0
    """

    def one(x: Array) -> Array:
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise InjectorError("clip: the token is complex, and complex numbers have no order.")
        return jnp.clip(x, _bound("low", low, x), _bound("high", high, x))

    return _each("clip", token, one)


# ---- noise -------------------------------------------------------------------


def _stream(site: Site) -> dict[str, Array]:
    # The same in every process, which `hash` of a string is not.
    return {"fired": jnp.int32(0), "site": jnp.uint32(zlib.crc32(site.address.encode()))}


@injector(
    state=_stream,
    key=Param(help="A PRNG key, or an integer for its seed.", is_key=True),
    stddev=Param(0.1, 0.0, 10.0, "The standard deviation."),
)
def noise(token: PyTree, state: PyTree, key: Array, stddev: ArrayLike) -> tuple[PyTree, PyTree]:
    """Add normal noise.

    The key must be given. Each firing draws with a key of its own, made of that key, the
    address of the tag and the number of the firing: the same in every run and process, and
    another in each iteration and at each tag. If `jax.vmap` maps the whole program, or a function
    that is edited (`taxpr.edit`), all batch elements draw the same unless the key is mapped, too;
    within the program `per_example` gives each example a key of its own. In a `jax.shard_map`
    devices draw apart if JAX knows that the token varies, and the same with ``check_vma=False``.

    Example:
        >>> from taxpr import noise, tag, trace
        >>> noisy = trace(lambda x: tag(x, name="x"))(0.0).inject(noise(key=0, stddev=0.01))
        >>> print(noisy(noisy.ctx, 1.0)[0] == noisy(noisy.ctx, 1.0)[0])
        True
    """
    key = jax.random.fold_in(one_key("noise", key), state["site"])
    key = jax.random.fold_in(key, state["fired"])
    leaves, tree = jax.tree.flatten(token)
    keys = jax.tree.unflatten(tree, [jax.random.fold_in(key, k) for k in range(len(leaves))])

    def one(x: Array, key: Array) -> Array:
        if _compat.is_extended(x.dtype) or not jnp.issubdtype(x.dtype, jnp.inexact):
            raise InjectorError(f"noise: the token is {x.dtype}, and noise is a fraction.")
        for axis in sorted(_compat.varying(x)):
            key = jax.random.fold_in(key, jax.lax.axis_index(axis))
        return x + _fitted("noise", "stddev", stddev, x) * jax.random.normal(key, x.shape, x.dtype)

    return jax.tree.map(one, token, keys), {**state, "fired": state["fired"] + 1}


# ---- cast and stop_gradient --------------------------------------------------


def _number_dtype(dtype: DTypeLike | None) -> DType:
    try:
        found = jnp.dtype(dtype)
        if dtype is None or not jnp.issubdtype(found, jnp.number):
            raise TypeError
    except TypeError:
        raise InjectorError(
            f"cast: dtype={dtype!r} is no dtype of numbers. Give one such as 'bfloat16'."
        ) from None
    return jax.dtypes.canonicalize_dtype(found)


@injector(options={"dtype": jnp.bfloat16}, check=_number_dtype)
def cast(token: PyTree, dtype: DTypeLike | None) -> PyTree:
    """Round the token to another dtype's precision.

    It is converted there and back, as by ``astype``: float to integer truncates, and a number that
    is too large overflows as it does in that dtype. A gradient is rounded in the same way.

    Example:
        >>> from taxpr import cast, tag, trace
        >>> rounded = trace(lambda x: tag(x, name="x"))(0.0).inject(cast("bfloat16"))
        >>> print(rounded(rounded.ctx, 1.001)[0])
        1.0
    """
    narrow = _number_dtype(dtype)

    def one(x: Array) -> Array:
        if (_rank(x.dtype) == _COMPLEX) != (_rank(narrow) == _COMPLEX):
            raise InjectorError(
                f"cast: the token is {x.dtype} and dtype is {narrow}. Complex numbers are cast to "
                "complex ones, and real ones to real ones."
            )
        # The compiler may take a plain conversion there and back for none at all.
        return _compat.optimization_barrier(x.astype(narrow)).astype(x.dtype)

    return _each("cast", token, one)


@injector()
def stop_gradient(token: PyTree) -> PyTree:
    """Let no gradient pass, in reverse and in forward mode; the value stays.

    Example:
        >>> import jax
        >>> from taxpr import inject, stop_gradient, tag
        >>> stopped = inject(lambda x: tag(x * x, name="target") + 3 * x, stop_gradient())
        >>> print(jax.grad(lambda x: stopped(stopped.init(x), x)[0])(2.0))
        3.0
    """
    return jax.tree.map(jax.lax.stop_gradient, token)
