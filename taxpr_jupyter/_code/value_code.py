"""Write values as Python: numbers, arrays, PRNG keys, dtypes, functions, and trees of these."""

import enum
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr_jupyter._code.code_names import CodeNames
from taxpr_jupyter._code.imports import import_line
from taxpr_jupyter._edits.python_line import text_of
from taxpr_jupyter._runs.outputs.distances import is_key

_LARGEST = 64  # elements of an array that is written out

Need = Callable[[Any], str]


class _UnwrittenError(Exception):
    """The value cannot be written out, or is too large."""


def written(value: Any, names: CodeNames) -> str | None:
    """Like `value_code`, but None if it needs a new name."""

    def refuse(value: Any) -> str:
        raise _UnwrittenError

    try:
        return value_code(value, names, refuse)
    except _UnwrittenError:
        return None


def value_code(value: Any, names: CodeNames, need: Need) -> str:
    """Python for a number, an array, a PRNG key, a dtype, a function, or a tree of these.

    ``need`` gives a name to a value that cannot be written out.
    """
    inner = functools.partial(value_code, names=names, need=need)
    if type(value) is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if type(value) is complex:  # `repr` loses signs of zeros, and writes nan
        return f"complex({inner(value.real)}, {inner(value.imag)})"
    if (text := names.expression(value)) is not None:
        return text
    if isinstance(value, tuple) and (fields := getattr(value, "_fields", None)):
        made = keywords(dict(zip(fields, value, strict=True)), inner)
        return f"{inner(type(value))}({made})"
    if type(value) is tuple:
        items = ", ".join(map(inner, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if type(value) is list:
        return f"[{', '.join(map(inner, value))}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{inner(k)}: {inner(v)}" for k, v in value.items()) + "}"
    if isinstance(value, enum.Enum):
        one = str(value.name).isidentifier()  # not a combination of flags
        kind = inner(type(value))
        return f"{kind}.{value.name}" if one else f"{kind}({inner(value.value)})"
    if value is ...:
        return "..."
    if isinstance(value, (slice, range)):
        parts = value.start, value.stop, value.step
        return f"{type(value).__name__}({', '.join(map(inner, parts))})"
    if type(value) is frozenset:
        items = ", ".join(sorted(map(inner, value)))  # sorted, to be equal in every process
        return f"frozenset({{{items}}})" if value else "frozenset()"
    if type(value) is functools.partial:
        words = [inner(value.func), *map(inner, value.args)]
        words += [keywords(value.keywords, inner)] if value.keywords else []
        return f"{names.module('functools')}.partial({', '.join(words)})"
    if text := _dtype(value, names) or text_of(value):
        return text
    own = getattr(value, "__name__", None)
    if isinstance(own, str) and import_line(own, value):
        return names.named(value, own, "")
    if is_key(value):
        return _key(value, names) or need(value)
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return _array(value, names) or need(value)
    return need(value)


def keywords(params: Mapping[str, Any], code: Callable[[Any], str]) -> str:
    """``name='h', layer=3``; a dict to unpack if a name is no identifier."""
    texts = {key: code(value) for key, value in params.items()}
    if all(key.isidentifier() for key in texts):
        return ", ".join(f"{key}={text}" for key, text in texts.items())
    return "**{" + ", ".join(f"{key!r}: {text}" for key, text in texts.items()) + "}"


def _array(value: Any, names: CodeNames) -> str | None:
    if np.size(value) > _LARGEST or not getattr(value, "is_fully_addressable", True):
        return None
    array = np.asarray(value)
    if not (jnp.issubdtype(array.dtype, np.number) or array.dtype == np.bool_):
        return None
    items = value_code(array.tolist(), names, str)
    if getattr(value, "weak_type", False):
        made = f"{names.module('jax')}.numpy.asarray({items})"
        same = array.ndim == 0 and jnp.asarray(array.item()).dtype == array.dtype
        return made if same else None
    if type(value).__module__ == "numpy" and array.ndim == 0 and isinstance(value, np.generic):
        return f"{names.module('numpy', 'np')}.{type(value).__name__}({items})"
    if not array.size:  # a nested list loses the axes after one of length 0
        return f"{names.module('numpy', 'np')}.zeros({array.shape}, dtype={str(array.dtype)!r})"
    return f"{names.module('numpy', 'np')}.array({items}, dtype={str(array.dtype)!r})"


def _key(key: Any, names: CodeNames) -> str | None:
    """A key by the seed that gives it, or by its bits."""
    impl, bits = jax.random.key_impl(key), np.asarray(jax.random.key_data(key))
    if not isinstance(impl, str) or bits.size > _LARGEST:
        return None
    of_jax = f"{names.module('jax')}.random"
    if key.ndim == 0:
        seed, given = int(bits[-1]), ""
        if jax.random.key(0).dtype != key.dtype:
            given = f", impl={impl!r}"
        made = jax.random.key_data(jax.random.key(seed, impl=impl))
        if np.array_equal(made, bits):
            return f"{of_jax}.key({seed}{given})"
    return f"{of_jax}.wrap_key_data({_array(bits, names)}, impl={impl!r})"


def _dtype(dtype: Any, names: CodeNames) -> str | None:
    """Python for a dtype, such as ``jnp.bfloat16``."""
    if any(dtype is one for one in (bool, int, float, complex)):
        return dtype.__name__
    of_numpy = isinstance(dtype, type) and issubclass(dtype, np.generic)
    if not (of_numpy or isinstance(dtype, (np.dtype, type(jnp.float32)))):
        return None
    found = np.dtype(dtype)
    scalar = getattr(jnp, found.name, None)
    if scalar is None or jnp.dtype(scalar) != found:
        return None
    return names.expression(scalar) or f"{names.module('jax')}.numpy.{found.name}"
