"""How the elements of a result depend on the elements of an operand, for one equation.

Arrays have leading axes, of loops and devices, of their length or 1, and then the axes of the
value, or 1 for each where only all of it is known. An operand is either copied, element by element,
as by a slice, or each of its axes is aligned with one of the result's or mixed.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from jax import lax

from taxpr import _compat
from taxpr._compat import JaxprEqn
from taxpr._questions.copies import Copied, shape_of
from taxpr._untyped import np


def named(names: str) -> frozenset[Any]:
    """Primitives of `jax.lax`, as far as this version has them."""
    return frozenset(getattr(lax, f"{name}_p", None) for name in names.split()) - {None}


# Element by element.
EACH = named(
    "abs acos acosh add asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp complex "
    "conj convert_element_type copy cos cosh digamma div erf erf_inv erfc exp exp2 expm1 floor "
    "igamma igamma_grad_a igammac imag integer_pow lgamma log log1p logistic max min mul neg "
    "nextafter one_minus_square polygamma pow real reduce_precision regularized_incomplete_beta "
    "rem round rsqrt sharding_constraint sign sin sinh sqrt square sub tan tanh zeta and eq ge gt "
    "is_finite le lt ne not or xor log2"
) | {_compat.add_any_p, _compat.stop_gradient_p}
# Each result is made of the operand of its number.
_PAIRED = named("device_put") | {*_compat.side_by_side}
REDUCES = named("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or")
_RUNS = named("cumsum cumprod cummax cummin cumlogsumexp")
_SCATTERS = named("scatter_add scatter_sub scatter_mul scatter_min scatter_max")
_LINALG = frozenset(
    getattr(lax.linalg, f"{name}_p", None)
    for name in [
        "cholesky",
        "eig",
        "eigh",
        "householder_product",
        "lu",
        "qr",
        "schur",
        "svd",
        "triangular_solve",
    ]
) - {None}


class Depends:
    """How the elements of an equation's results depend on the elements of its operands.

    Args:
        eqn: The equation, which holds no others that are looked into.
        lead: The names of the leading axes.
        value: The value of an operand by its number, as an array with leading axes; None if it is
            not known.
        fine: Whether the arrays tell elements apart.

    Attributes:
        exact: Whether all dependencies so far are known, and not guessed.
    """

    def __init__(
        self, eqn: JaxprEqn, lead: Sequence[str], value: Callable[[int], Any], fine: bool
    ) -> None:
        self._eqn, self._n, self._fine = eqn, len(lead), fine
        self._shapes = [shape_of(atom) for atom in eqn.invars]
        names = [f"mesh {name}" for name in _compat.waits_for(eqn)]
        self._across = tuple(k for k, name in enumerate(lead) if name in names)
        self.exact = True
        self._copied = Copied(eqn, self._n, value) if fine else None

    def onward(self, operand: int, out: int, bits: Any) -> Any:
        """For each element of a result the bits of those elements of an operand that it has."""
        if self._across:  # a collective
            bits = np.bitwise_or.reduce(bits, self._across, keepdims=True)
        if self._copied and (source := self._copied.source(out)) is not None:
            first = self._copied.first(operand)
            bits = self._flat(bits, self._shapes[operand])
            here = (source >= first) & (source < first + bits.shape[-1])
            lead = np.broadcast_shapes(bits.shape[:-1], source.shape[: self._n])
            bits = np.broadcast_to(bits, (*lead, bits.shape[-1]))
            at = np.where(here, source - first, 0)
            at = np.broadcast_to(at, (*lead, *at.shape[self._n :]))
            found = np.take_along_axis(bits, at.reshape((*lead, -1)), -1).reshape(at.shape)
            return np.where(here, found, 0).astype(bits.dtype)
        aligned, n = self.aligned(operand, out), self._n
        if aligned is None:
            return np.zeros((1,) * (n + len(self._shape_of(out))), bits.dtype)
        mixed = tuple(n + k for k, to in enumerate(aligned) if to is None)
        bits = np.bitwise_or.reduce(bits, mixed)
        to = [one for one in aligned if one is not None]
        bits = bits.transpose((*range(n), *(n + int(k) for k in np.argsort(to))))
        wide = [1] * len(self._shape_of(out))
        for size, k in zip(bits.shape[n:], sorted(to), strict=True):
            wide[k] = size
        return bits.reshape((*bits.shape[:n], *wide))

    def back(self, operand: int, out: int, mark: Any) -> Any:
        """The elements of an operand that marked elements of a result depend on."""
        n, shape = self._n, self._shapes[operand]
        if self._across:
            mark = mark.any(self._across, keepdims=True)
        if self._copied and (source := self._copied.source(out)) is not None:
            first, size = self._copied.first(operand), math.prod(shape)
            mark, source = np.broadcast_arrays(mark, source)
            lead = mark.shape[:n]
            rows = math.prod(lead)
            mark = (mark & (source >= first) & (source < first + size)).reshape(rows, -1)
            into = np.zeros((rows, size), bool)
            into[np.nonzero(mark)[0], source.reshape(rows, -1)[mark] - first] = True
            return into.reshape((*lead, *shape))
        aligned = self.aligned(operand, out)
        if aligned is None:
            return np.zeros((1,) * (n + len(shape)), bool)
        to = [one for one in aligned if one is not None]
        gone = tuple(n + k for k in range(mark.ndim - n) if k not in to)
        mark = mark.any(gone)
        order = np.argsort(np.argsort(to))
        mark = mark.transpose((*range(n), *(n + int(k) for k in order)))
        sizes = iter(mark.shape[n:])
        return mark.reshape((*mark.shape[:n], *(1 if k is None else next(sizes) for k in aligned)))

    def decided(self, bits: Any) -> Any:
        """For each element of the result of a selection the bits of its predicate."""
        wide = len(self._shape_of(0)) - len(self._shapes[0])  # one for all has no axes
        return bits.reshape(bits.shape + (1,) * wide)

    def deciding(self, mark: Any) -> Any:
        """The elements of the predicate that selected the marked elements."""
        own = len(self._shapes[0])
        return mark if own else mark.any(tuple(range(self._n, mark.ndim)))

    def _shape_of(self, out: int) -> tuple[int, ...]:
        return shape_of(self._eqn.outvars[out])

    def _flat(self, x: Any, shape: tuple[int, ...]) -> Any:
        lead = x.shape[: self._n]
        return np.broadcast_to(x, (*lead, *shape)).reshape((*lead, math.prod(shape)))

    def aligned(self, operand: int, out: int) -> tuple[int | None, ...] | None:
        """For each axis of an operand the result's axis; None if elements along it mix.

        None in all if the result does not depend on the operand.
        """
        kind, params = self._eqn.primitive, self._eqn.params
        own, other = len(self._shapes[operand]), len(self._shape_of(out))
        every = tuple(range(own))
        mixed = (None,) * own
        if kind in _PAIRED or kind in (lax.sort_p, lax.top_k_p):
            if operand != out:
                return None
            if kind in _PAIRED:
                same = self._shapes[operand] == self._shape_of(out)
                return every if self._fine and same else mixed
            self.exact = False
            axis = params["dimension"] if kind is lax.sort_p else own - 1
            return _without(every, [axis]) if self._fine else mixed
        if not self._fine:
            return mixed
        if kind in EACH:
            return every
        if kind in REDUCES:
            kept = [k for k in every if k not in params["axes"]]
            return tuple(kept.index(k) if k in kept else None for k in every)
        if kind is lax.transpose_p:
            return tuple(params["permutation"].index(k) for k in every)
        if kind is lax.broadcast_in_dim_p and operand == 0:
            shape, wide = self._shapes[0], self._shape_of(out)
            to = params["broadcast_dimensions"]
            return tuple(k if n == wide[k] else None for k, n in zip(to, shape, strict=True))
        if kind is lax.dot_general_p:
            contracting, batch = params["dimension_numbers"]
            return _of_dot(contracting, batch, operand, own, other)
        if kind in _RUNS:
            self.exact = False
            return _without(every, [params["axis"]])
        if kind in _LINALG:
            return tuple(k if k < min(own - 2, other) else None for k in every)
        if kind is lax.fft_p:
            return _without(every, every[own - len(params["fft_lengths"]) :])
        if kind in _SCATTERS and operand == 0:
            return every
        if kind is lax.conv_general_dilated_p:
            self.exact = False
            numbers = params["dimension_numbers"]
            mine = (numbers.lhs_spec, numbers.rhs_spec)[operand][0]
            return tuple(numbers.out_spec[operand] if k == mine else None for k in every)
        elements = math.prod(self._shapes[operand]), math.prod(self._shape_of(out))
        self.exact = self.exact and 1 in elements
        return mixed


def _without(every: Sequence[int], axes: Sequence[int]) -> tuple[int | None, ...]:
    return tuple(None if k in axes else k for k in every)


def _of_dot(
    contracting: Any, batch: Any, operand: int, own: int, other: int
) -> tuple[int | None, ...]:
    """The axes of an operand of a matrix product in the result: batch, left, then right axes."""
    free = [k for k in range(own) if k not in contracting[operand] and k not in batch[operand]]
    first = len(batch[operand]) if operand == 0 else other - len(free)
    to = {k: n for n, k in enumerate(batch[operand])}
    to |= {k: first + n for n, k in enumerate(free)}
    return tuple(to.get(k) for k in range(own))
