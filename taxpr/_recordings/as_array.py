"""Make an object with a value usable as an array: operators, indexing, conversions."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from taxpr._compat import is_sequence
from taxpr._devices.fetched import fetched
from taxpr._untyped import np

_op: Any = operator  # and this one those of its functions


Two = Callable[["AsArray", Any], Any]


def _plain(x: Any) -> Any:
    """An operand or an index as the array that it is."""
    return x.array if isinstance(x, AsArray) else x


def index_of(index: Any) -> Any:
    """An index with arrays in place of the objects that are used as such."""
    return tuple(map(_plain, index)) if is_sequence(index) else _plain(index)


def _of_one(of: Callable[[Any], Any]) -> Callable[[AsArray], Any]:
    return lambda self: of(self.array)


def _of_two(of: Callable[[Any, Any], Any]) -> Two:
    return lambda self, other: of(self.array, _plain(other))


def _both_ways(of: Callable[[Any, Any], Any]) -> tuple[Two, Two]:
    return _of_two(of), lambda self, other: of(_plain(other), self.array)


class AsArray(abc.ABC):
    """Indexing, arithmetic, comparison and conversion, as of the array `array`."""

    @property
    @abc.abstractmethod
    def array(self) -> Any:
        """The one array that it is.

        Raises:
            ArgumentError: If it is several.
        """

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        found = np.asarray(fetched(self.array), dtype)
        return found.copy() if copy else found

    def __jax_array__(self) -> Any:
        return jnp.asarray(self.array)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index_of(index)]

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)

    def __bool__(self) -> bool:
        return bool(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __float__(self) -> float:
        return float(self.array)

    def __complex__(self) -> complex:
        return complex(self.array)

    def __index__(self) -> int:
        return operator.index(self.array)

    def __format__(self, spec: str) -> str:
        return format(self.array, spec) if spec else str(self)

    def __getattr__(self, name: str) -> Any:
        # Methods of arrays, such as `mean`. Names with _ are asked for by those that copy it, too.
        # `tolist` is one that `jax.Array` does not declare.
        if name.startswith("_") or not (hasattr(jax.Array, name) or name == "tolist"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(jnp.asarray(self.array), name)

    __neg__, __pos__ = _of_one(_op.neg), _of_one(_op.pos)
    __abs__, __invert__ = _of_one(_op.abs), _of_one(_op.invert)
    __add__, __radd__ = _both_ways(_op.add)
    __sub__, __rsub__ = _both_ways(_op.sub)
    __mul__, __rmul__ = _both_ways(_op.mul)
    __truediv__, __rtruediv__ = _both_ways(_op.truediv)
    __floordiv__, __rfloordiv__ = _both_ways(_op.floordiv)
    __mod__, __rmod__ = _both_ways(_op.mod)
    __pow__, __rpow__ = _both_ways(_op.pow)
    __matmul__, __rmatmul__ = _both_ways(_op.matmul)
    __and__, __rand__ = _both_ways(_op.and_)
    __or__, __ror__ = _both_ways(_op.or_)
    __xor__, __rxor__ = _both_ways(_op.xor)
    __lt__, __le__ = _of_two(_op.lt), _of_two(_op.le)
    __gt__, __ge__ = _of_two(_op.gt), _of_two(_op.ge)
    # Compared by its elements, as an array is; and a key of a dict may be one, as before.
    __eq__, __ne__ = _of_two(_op.eq), _of_two(_op.ne)
    __hash__ = object.__hash__
