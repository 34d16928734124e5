"""Compare two arrays, and summarize an array in one line.

Everything is computed on the host in float64 (integers exactly), so that it works for every dtype
of JAX: integers, booleans, bfloat16 and smaller floats, complex numbers, PRNG keys, float0.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr_jupyter._text.short import aval_text

_SHOWN = 6  # elements of an array in a short text
_COPIED = 2**16  # the most bytes of an array that `glance` copies to the host
NOT_FINITE = ("nan", "+inf", "-inf", "nonfinite")  # counted by `stats`; the last one is the sum


@dataclasses.dataclass(frozen=True)
class Difference:
    """How one output differs between the untouched run and the run with injectors.

    Attributes:
        name: The output's name, such as ``out['loss']``.
        aval: Its dtype and shape.
        max: Largest absolute difference; None if dtype or size have none. For booleans 1 if any
            element differs.
        mean: Mean absolute difference; for booleans the fraction that differs.
        equal: Whether all elements are equal (NaN equals NaN).
        note: Elements that max and mean leave out, such as NaN on one side only; may be empty.
        before: Short text of the untouched value.
        after: Short text of the value with injectors.
        compared: Whether all elements were compared. If not, ``equal`` compares the short texts.
    """

    name: str
    aval: str
    max: float | None
    mean: float | None
    equal: bool
    note: str
    before: str
    after: str
    compared: bool = True

    @property
    def scalar(self) -> bool:
        """Whether the output is a single number."""
        return self.aval.endswith("[]")


def glance(name: str, before: Any, after: Any) -> Difference:
    """Like `compare` for a single number; of a larger array only the first elements count."""
    if getattr(after, "size", 1) == 1:
        return compare(name, before, after)
    texts = [_first_elements(value) for value in (before, after)]
    return Difference(
        name=name,
        aval=aval_text(jax.typeof(after)),
        max=None,
        mean=None,
        equal=texts[0] == texts[1],
        note="only glanced at",
        before=texts[0],
        after=texts[1],
        compared=False,
    )


def _first_elements(value: Any) -> str:
    """The short text of an array; "…" if it is too large to copy from an accelerator."""
    large = getattr(value, "nbytes", 0) > _COPIED and isinstance(value, jax.Array)
    on_host = not large or all(device.platform == "cpu" for device in value.devices())
    return value_text(value) if on_host else "…"


def compare(name: str, before: Any, after: Any) -> Difference:
    """The difference of two arrays of one shape and dtype."""
    a, b = _host(before), _host(after)
    largest, mean, note = _keys_differ(a, b) if is_key(after) else _distance(a, b)
    return Difference(
        name=name,
        aval=aval_text(jax.typeof(after)),
        max=largest,
        mean=mean,
        equal=_equal(a, b),
        note=note,
        before=value_text(before),
        after=value_text(after),
    )


def stats(value: Any) -> dict[str, float]:
    """Mean, std, min, max and norm of the finite elements, and counts of the others.

    Counts as `taxpr.check_finite` does. Empty if the value holds no numbers (PRNG keys, float0, no
    elements).
    """
    if is_key(value):
        return {}
    array = _wide(_host(value))
    if array is None or not array.size:
        return {}
    finite, nan = array[np.isfinite(array)], np.isnan(array)
    below = ((np.real(array) == -np.inf) | (np.imag(array) == -np.inf)) & ~nan
    others = array.size - finite.size
    counts = (nan.sum(), others - nan.sum() - below.sum(), below.sum(), others)
    found: dict[str, float] = dict(zip(NOT_FINITE, map(float, counts), strict=True))
    if finite.size:
        real = np.abs(finite) if np.iscomplexobj(finite) else finite
        found = {
            "mean": float(real.mean()),
            "std": float(real.std()),
            "min": float(real.min()),
            "max": float(real.max()),
            "norm": float(np.linalg.norm(finite)),
            **found,
        }
    return found


def value_text(value: Any) -> str:
    """An array in at most about 60 characters: its first elements."""
    array = _host(value)
    if array.dtype == jax.dtypes.float0 or not array.size:
        return aval_text(jax.typeof(value))
    flat = array.reshape(-1)
    shown = ", ".join(_number(element) for element in flat[:_SHOWN])
    if array.ndim == 0:
        return shown
    return f"[{shown}{', …' if flat.size > _SHOWN else ''}]"


def is_key(value: Any) -> bool:
    """Whether the value is an array of PRNG keys."""
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _host(value: Any) -> np.ndarray:
    """The value as a NumPy array; a key as its bits."""
    return np.asarray(jax.random.key_data(value) if is_key(value) else value)


def _wide(array: np.ndarray) -> np.ndarray | None:
    """The array as float64 or complex128; None if it holds no numbers."""
    if array.dtype == jax.dtypes.float0:
        return None
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    wide_a, wide_b = _wide(a), _wide(b)
    if wide_a is None or wide_b is None:
        return True
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    return bool(np.array_equal(wide_a, wide_b, equal_nan=True))


def _keys_differ(a: np.ndarray, b: np.ndarray) -> tuple[None, None, str]:
    """The number of keys that differ (the bits of a key are on the last axis), as a note."""
    differs = (a != b).any(axis=-1)
    return None, None, f"{differs.sum()} of {differs.size} keys differ" if differs.any() else ""


def _distance(a: np.ndarray, b: np.ndarray) -> tuple[float | None, float | None, str]:
    """Largest and mean absolute difference, and a note about elements that they leave out."""
    wide_a, wide_b = _wide(a), _wide(b)
    if wide_a is None or wide_b is None or not a.size:
        return None, None, "" if a.size else "no elements"
    if a.dtype.kind in "iu":  # exact also where float64 is not
        bits_a, bits_b = (x.view(f"u{x.dtype.itemsize}") for x in (a, b))
        gap = np.where(a > b, bits_a - bits_b, bits_b - bits_a)
        return float(gap.max()), float(gap.astype(np.float64).mean()), ""
    nan_a, nan_b = np.isnan(wide_a), np.isnan(wide_b)
    same = (wide_a == wide_b) | (nan_a & nan_b)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(same, 0.0, np.abs(wide_b - wide_a))
    known = gap[~np.isnan(gap)]
    notes = [
        f"NaN in {count} of {a.size} places only {where}"
        for count, where in (
            (int((nan_b & ~nan_a).sum()), "with injectors"),
            (int((nan_a & ~nan_b).sum()), "without injectors"),
        )
        if count
    ]
    if not known.size:
        return None, None, "; ".join(notes)
    return float(known.max()), float(known.mean()), "; ".join(notes)


def _number(element: Any) -> str:
    if isinstance(element, np.bool_):
        return str(bool(element))
    if isinstance(element, np.integer):
        return str(int(element))
    if isinstance(element, np.complexfloating):
        return f"{complex(element):.6g}"
    return f"{float(element):.6g}"
