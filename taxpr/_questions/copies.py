"""Which element of an operand an element of a result copies, for one equation.

Some copy as their params say, as a slice, some by the values of operands, as a selection, and some
by the order of values, as a sort.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp, np
from taxpr._untyped import lax as _lax

# How NumPy does what the primitive does, ``(arrays, eqn, number of the result, n)``: arrays have n
# axes before their own.
Copy = Callable[[Sequence[Any], JaxprEqn, int, int], Any]
COPIES: dict[Any, Copy] = {
    lax.reshape_p: lambda given, eqn, out, n: _reshaped(given[0], eqn, n),
    lax.squeeze_p: lambda given, eqn, out, n: _reshaped(given[0], eqn, n),
    lax.rev_p: lambda given, eqn, out, n: np.flip(
        given[0], [n + k for k in eqn.params["dimensions"]]
    ),
    lax.slice_p: lambda given, eqn, out, n: given[0][(slice(None),) * n + _slices(eqn.params)],
    lax.split_p: lambda given, eqn, out, n: _piece(given[0], eqn.params, out, n),
    lax.concatenate_p: lambda given, eqn, out, n: np.concatenate(
        given, n + eqn.params["dimension"]
    ),
}
# How many operands are copied, after how many others; the rest says from where. A scatter has the
# indices between them.
_PLACED: dict[Any, tuple[int, int]] = {
    lax.select_n_p: (1, 99),
    lax.gather_p: (0, 1),
    lax.dynamic_slice_p: (0, 1),
    lax.dynamic_update_slice_p: (0, 2),
    lax.pad_p: (0, 2),
    lax.scatter_p: (0, 3),
}
# What puts elements in order, of which operands' values say where each one goes.
_ORDERS = {lax.sort_p, lax.top_k_p}


def deciding(eqn: JaxprEqn) -> list[int]:
    """The operands that say which elements an equation copies, such as a predicate."""
    if eqn.primitive in _ORDERS:
        return list(range(eqn.params.get("num_keys", 1)))
    if eqn.primitive not in _PLACED:
        return []
    skipped, copied = _PLACED[eqn.primitive]
    between = eqn.primitive is lax.scatter_p
    ends = skipped, skipped + copied
    return [k for k in range(len(eqn.invars)) if not ends[0] <= k < ends[1] or (between and k == 1)]


class Copied:
    """For equations that only copy elements: which element of an operand each result has.

    Arrays have leading axes, as in `Depends`, and then the axes of the value.

    Args:
        eqn: The equation.
        lead: The number of leading axes.
        value: The value of an operand by its number, with leading axes; None if it is not known.
    """

    def __init__(self, eqn: JaxprEqn, lead: int, value: Callable[[int], Any]) -> None:
        self._eqn, self._n, self._value = eqn, lead, value
        self._shapes = [shape_of(atom) for atom in eqn.invars]
        self._sources: dict[int, Any] = {}

    def first(self, operand: int) -> int:
        """The number of an operand's first element, among the elements of all copied operands."""
        sizes = [math.prod(shape) for shape in self._shapes]
        skipped = _PLACED.get(self._eqn.primitive, (0, 0))[0]
        if operand in deciding(self._eqn) and self._eqn.primitive not in _ORDERS:
            return sum(sizes) + 1
        return sum(sizes[skipped:operand])

    def source(self, out: int) -> Any:
        """For each element of a result the number of the element that it copies; negative: none.

        None if that is not known, or if the equation computes.
        """
        if out not in self._sources:
            self._sources[out] = self._found(out)
        return self._sources[out]

    def _found(self, out: int) -> Any:
        eqn, shape = self._eqn, shape_of(self._eqn.outvars[out])
        kind = eqn.primitive
        if kind in _ORDERS:
            return self._ordered(out)
        if not (kind in COPIES or kind in _PLACED):
            return None
        deciders = deciding(eqn)
        numbers = {
            k: self.first(k) + np.arange(math.prod(own), dtype=np.int32).reshape(own)
            for k, own in enumerate(self._shapes)
            if k not in deciders
        }
        if kind in COPIES:
            found = COPIES[kind](list(numbers.values()), eqn, out, 0)
            return found.reshape((1,) * self._n + found.shape)
        given = {k: self._value(k) for k in deciders}
        if any(one is None for one in given.values()):
            return None
        if kind is lax.select_n_p:
            which = given[0].astype(np.int32)
            which = which.reshape(which.shape + (1,) * (self._n + len(shape) - which.ndim))
            return which * math.prod(shape) + numbers[1]
        lead = np.broadcast_shapes(
            *(one.shape[: self._n] for one in given.values()), (1,) * self._n
        )
        own = [one.shape[self._n :] for one in given.values()]
        rows = [
            np.broadcast_to(one, lead + of).reshape(math.prod(lead), *of)
            for one, of in zip(given.values(), own, strict=True)
        ]
        params = dict(eqn.params)
        if "fill_value" in params:
            params["fill_value"] = -1
        if kind is lax.scatter_p:  # whose own jaxpr is one of floats
            names = "dimension_numbers", "indices_are_sorted", "unique_indices", "mode"
            params = {name: params[name] for name in names}
        if kind is lax.dynamic_slice_p:
            found = _sliced(numbers[0], rows, params["slice_sizes"])
        elif kind is lax.dynamic_update_slice_p:
            found = _updated(numbers[0], numbers[1], rows)
        else:
            run = _copying(kind, tuple(params.items()), tuple(given), tuple(numbers))
            found = run(rows, list(numbers.values()))
        return np.asarray(found).reshape(lead + shape)

    def _ordered(self, out: int) -> Any:
        """The same for an equation that sorts: it is repeated with the elements' numbers."""
        eqn, shape = self._eqn, self._shapes[0]
        keys = [self._value(k) for k in deciding(eqn)]
        if any(one is None for one in keys) or (eqn.primitive is lax.top_k_p and out == 1):
            return None
        lead = np.broadcast_shapes(*(one.shape[: self._n] for one in keys))
        rows = [np.broadcast_to(one, lead + shape).reshape(math.prod(lead), *shape) for one in keys]
        numbers = self.first(out) + np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        found = _ordering(eqn.primitive, tuple(eqn.params.items()))(rows, numbers)
        return np.asarray(found).reshape(lead + shape_of(self._eqn.outvars[out]))


def _windows(shape: Sequence[int], sizes: Sequence[int], starts: Sequence[Any]) -> tuple[Any, ...]:
    """For each axis the indices of a window, which does not go beyond an array, in each row."""
    n, found = len(sizes), list[Any]()
    for k, (whole, size, start) in enumerate(zip(shape, sizes, starts, strict=True)):
        at = np.clip(start.astype(np.int64), 0, whole - size)[:, None] + np.arange(size)
        found.append(at.reshape(-1, *(size if axis == k else 1 for axis in range(n))))
    return tuple(found)


def _sliced(numbers: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    return numbers[_windows(numbers.shape, sizes, starts)] if starts else numbers


def _updated(numbers: Any, new: Any, starts: Sequence[Any]) -> Any:
    if not starts:
        return new
    rows = np.arange(len(starts[0])).reshape(-1, *(1,) * new.ndim)
    out = np.repeat(numbers[None], len(rows), 0)
    out[(rows, *_windows(numbers.shape, new.shape, starts))] = new
    return out


@functools.lru_cache(maxsize=256)
def _copying(
    kind: Any,
    params: tuple[tuple[str, Any], ...],
    deciders: tuple[int, ...],
    others: tuple[int, ...],
) -> Any:
    """A primitive as a compiled function of numbers of elements in the place of its operands."""

    def run(places: Sequence[Any], numbers: Sequence[Any]) -> Any:
        at = dict(zip(deciders, places, strict=True)) | dict(zip(others, numbers, strict=True))
        operands = [jnp.asarray(at[k]) for k in range(len(at))]
        if kind is lax.scatter_p:
            return lax.scatter(*operands, **dict(params))
        [out] = _compat.bind(kind, operands, dict(params))
        return out

    return _jax.jit(_jax.vmap(run, (0, None)) if deciders else run)


@functools.lru_cache(maxsize=256)
def _ordering(kind: Any, params: tuple[tuple[str, Any], ...]) -> Any:
    """The numbers of elements, in the order into which a primitive puts these, compiled."""
    options = dict(params)

    def run(keys: Sequence[Any], numbers: Any) -> Any:
        if kind is lax.sort_p:
            return _lax.sort(
                (*keys, numbers), options["dimension"], options["is_stable"], len(keys)
            )[-1]
        # The last axis, unless `axis`, new in 0.8, says another one.
        axis = options.get("axis", numbers.ndim - 1)
        [_, at] = _compat.bind(kind, list(keys), options)
        return jnp.take_along_axis(numbers, at, axis)

    return _jax.jit(_jax.vmap(run, (0, None)))


def _reshaped(array: Any, eqn: JaxprEqn, n: int) -> Any:
    return array.reshape(array.shape[:n] + shape_of(eqn.outvars[0]))


def _piece(whole: Any, params: Any, number: int, n: int) -> Any:
    """One of the pieces into which an array is split."""
    ends = np.cumsum(params["sizes"])
    return np.split(whole, ends[:-1], n + params["axis"])[number]


def _slices(params: Any) -> tuple[slice, ...]:
    starts, limits = params["start_indices"], params["limit_indices"]
    strides = params["strides"] or (1,) * len(starts)
    return tuple(map(slice, starts, limits, strides))


def shape_of(atom: Any) -> tuple[int, ...]:
    """The shape of a variable or literal; empty if it is no array."""
    return tuple(getattr(atom.aval, "shape", ()))
