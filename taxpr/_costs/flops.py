"""Count the operations and bytes of first-order primitives, with a table of rules.

The numbers follow from shapes alone, and are defined as in XLA's cost analysis: one operation for
each element of a result, whatever its dtype; two for each multiply-add of a contraction; functions
such as `exp`, which take many instructions, have a count of their own. Optimizations of the
compiler (fusion, sharing, dead code) are not taken into account.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from taxpr import _compat
from taxpr._costs.quantities import n_bytes, size
from taxpr._untyped import lax as _lax
from taxpr._untyped import np

Operations = tuple[int, int]  # plain, transcendental
Rule = Callable[[Any], Operations]

# For two words: 20 rounds of add, rotate (three operations) and xor; the key is added 5 times.
_THREEFRY = 60  # operations for a word of 32 bits
_EXACT_POSITIONS = 1_000_000  # for more positions of a window, the padding is counted too


def operations(eqn: Any) -> Operations | None:
    """The operations of an equation; None if its primitive is not in the table."""
    rule = _rule(eqn)
    return rule(eqn) if rule else None


def is_known(eqn: Any) -> bool:
    """Whether the primitive of an equation is in the table."""
    return _rule(eqn) is not None


def _rule(eqn: Any) -> Rule | None:
    return RULES.get(eqn.primitive) or _NAMED.get(eqn.primitive.name)


def moved(eqn: Any) -> int:
    """The bytes of operands and results of an equation.

    If an array is sliced or updated, only the part that is read or written counts.
    """
    ins, outs = [atom.aval for atom in eqn.invars], [var.aval for var in eqn.outvars]
    if eqn.primitive in _TAKES_PART:
        return 2 * sum(map(n_bytes, outs)) + sum(map(n_bytes, ins[1:]))
    if eqn.primitive in _CHANGES_PART:
        update = 2 if eqn.primitive in _SCATTERS else 1
        rest = [aval for k, aval in enumerate(ins) if k not in (0, update)]
        return 2 * n_bytes(ins[update]) + sum(map(n_bytes, rest))
    return sum(map(n_bytes, ins)) + sum(map(n_bytes, outs))


# --- rules ----------------------------------------------------------------------------------------


def _nothing(eqn: Any) -> Operations:
    return 0, 0


def _out(eqn: Any) -> int:
    return size(eqn.outvars[0].aval)


def _in(eqn: Any) -> int:
    return size(eqn.invars[0].aval)


def _window(eqn: Any) -> int:
    return math.prod(eqn.params["window_dimensions"])


def _each(eqn: Any) -> Operations:
    return _out(eqn), 0


def _integer_pow(eqn: Any) -> Operations:
    power = eqn.params["y"]
    squares = max(abs(power).bit_length() - 1, 0)
    products = max(abs(power).bit_count() - 1, 0)
    return _out(eqn) * (squares + products + (power < 0)), 0


def _reduce(eqn: Any) -> Operations:
    return _in(eqn) - _out(eqn), 0


def _cumulative(eqn: Any) -> Operations:
    axis = eqn.invars[0].aval.shape[eqn.params["axis"]]
    return (_in(eqn) - _in(eqn) // axis if axis else 0), 0


def _cumlogsumexp(eqn: Any) -> Operations:
    steps, _ = _cumulative(eqn)
    return 2 * steps, 2 * steps


def _sort(eqn: Any) -> Operations:
    length = eqn.invars[0].aval.shape[eqn.params["dimension"]]
    return _in(eqn) * max(length - 1, 0).bit_length(), 0


def _dot_general(eqn: Any) -> Operations:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    return 2 * _out(eqn) * math.prod(shape[d] for d in contracted), 0


def _ragged_dot(eqn: Any) -> Operations:
    """Each element of the left operand is multiplied with one row of its group's matrix."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    not_free = {*contracted, *batch, *numbers.rhs_group_dimensions}
    shape = eqn.invars[1].aval.shape
    return 2 * _in(eqn) * math.prod(n for d, n in enumerate(shape) if d not in not_free), 0


def _conv(eqn: Any) -> Operations:
    """Two for each product of an element of the input and one of the kernel, without padding."""
    lhs, rhs, out = eqn.invars[0].aval, eqn.invars[1].aval, eqn.outvars[0].aval
    params, numbers = eqn.params, eqn.params["dimension_numbers"]
    products = out.shape[numbers.out_spec[1]] * rhs.shape[numbers.rhs_spec[1]]
    products *= lhs.shape[numbers.lhs_spec[0]] // params["batch_group_count"]
    dims = zip(numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:], strict=True)
    for k, (of_lhs, of_rhs, of_out) in enumerate(dims):
        products *= _positions(
            lhs.shape[of_lhs],
            rhs.shape[of_rhs],
            out.shape[of_out],
            params["window_strides"][k],
            params["padding"][k][0],
            params["lhs_dilation"][k],
            params["rhs_dilation"][k],
        )
    return 2 * products, 0


def _positions(
    length: int, kernel: int, out: int, stride: int, pad: int, lhs_dilation: int, rhs_dilation: int
) -> int:
    """The number of products of elements of kernel and input along one dimension."""
    if kernel * out > _EXACT_POSITIONS:
        return kernel * out
    at = np.arange(out)[:, None] * stride + np.arange(kernel) * rhs_dilation - pad
    inside = (at >= 0) & (at < length * lhs_dilation) & (at % lhs_dilation == 0)
    return int(inside.sum())


def _fft(eqn: Any) -> Operations:
    """The usual 5 n log n, or half of that if input or output is real."""
    points = max(_in(eqn), _out(eqn))
    log = math.log2(max(math.prod(eqn.params["fft_lengths"]), 1))
    real = any(np.dtype(a.aval.dtype).kind != "c" for a in (eqn.invars[0], eqn.outvars[0]))
    return round((2.5 if real else 5) * points * log), 0


def _lu(eqn: Any) -> Operations:
    rows, columns = eqn.invars[0].aval.shape[-2:]
    short, long = min(rows, columns), max(rows, columns)
    batch = _in(eqn) // max(rows * columns, 1)
    return batch * (short * short * long - short**3 // 3), 0


def _random(eqn: Any) -> Operations:
    """Threefry's operations for each word of 32 bits; other generators count as in XLA."""
    avals = [*(atom.aval for atom in eqn.invars), *(var.aval for var in eqn.outvars)]
    words = -(-sum(n_bytes(var.aval) for var in eqn.outvars) // 4)
    keys = [str(aval.dtype) for aval in avals if str(aval.dtype).startswith("key<")]
    if keys and keys[0] != "key<fry>":
        return 0, words
    return _THREEFRY * words, 0


def _of_module(names: Iterable[str]) -> set[Any]:
    """The primitives with these names, as far as this version of JAX has them."""
    homes = _lax, _lax.linalg
    found = (getattr(home, f"{name}_p", None) for name in names for home in homes)
    return {primitive for primitive in found if primitive is not None}


_FREE = """after_all all_gather all_to_all axis_index bitcast_convert_type broadcast_in_dim
    complex concatenate copy create_token device_put dynamic_slice dynamic_update_slice
    gather imag iota pad ppermute ragged_all_to_all real reshape rev scatter
    sharding_constraint slice split squeeze stack stop_gradient tile transpose
    unstack"""
_ELEMENTWISE = """abs add and ceil clamp clz conj convert_element_type div eq eq_to
    floor ge gt is_finite le le_to lt lt_to max min mul mulhi ne neg nextafter not
    one_minus_square or pmax pmin population_count psum reduce_precision rem round
    select_n shift_left shift_right_arithmetic shift_right_logical sign square sub xor"""
_TRANSCENDENTAL = """acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt cos cosh
    digamma erf erf_inv erfc exp exp2 expm1 igamma igamma_grad_a igammac lgamma log log1p log2
    logistic polygamma pow regularized_incomplete_beta rng_uniform rsqrt sin sinh sqrt tan tanh
    zeta"""
_RULES_OF: dict[Rule, str] = {
    _nothing: _FREE,
    _each: _ELEMENTWISE,
    lambda eqn: (0, _out(eqn)): _TRANSCENDENTAL,
    _reduce: """argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum
        reduce_xor""",
    lambda eqn: (_out(eqn) * (_window(eqn) - 1), 0): """reduce_window_max reduce_window_min
        reduce_window_sum select_and_gather_add""",
    lambda eqn: (_in(eqn) * _window(eqn), 0): "select_and_scatter_add",
    _cumulative: "cummax cummin cumprod cumsum",
    _cumlogsumexp: "cumlogsumexp",
    _sort: "sort",
    lambda eqn: (_in(eqn) * max(eqn.params["k"].bit_length(), 1), 0): "approx_top_k top_k",
    lambda eqn: (size(eqn.invars[2].aval), 0): """scatter_add scatter_max scatter_min scatter_mul
        scatter_sub""",
    _integer_pow: "integer_pow",
    _dot_general: "dot_general",
    _conv: "conv_general_dilated",
    _fft: "fft",
    lambda eqn: (_in(eqn) * eqn.invars[0].aval.shape[-1] // 3, 0): "cholesky",
    lambda eqn: (size(eqn.invars[1].aval) * eqn.invars[0].aval.shape[-1], 0): "triangular_solve",
    _lu: "lu",
    _random: "rng_bit_generator",
}
RULES: dict[Any, Rule] = {
    primitive: rule for rule, names in _RULES_OF.items() for primitive in _of_module(names.split())
} | {_compat.add_any_p: _each}
"""The table. A primitive that is missing here, and holds no jaxpr, has an unknown cost."""

# Primitives that are not public in some versions of JAX. If one is renamed, its cost is unknown.
_NAMED_FREE = """all_gather_invariant all_gather_reduced dce_sink debug_callback debug_print
    dimension_size empty empty2 freeze from_edtype get layout_constraint name new_ref
    optimization_barrier pbroadcast pin platform_index preduced pvary random_clone random_unwrap
    random_wrap reduced_vary_cast reshard swap tie to_edtype unpin vary_unreduced_cast
    with_memory_space_constraint zeros_like"""
_NAMED_RANDOM = """random_bits random_fold_in random_seed random_split threefry2x32
    threefry4x32"""
_NAMED: dict[str, Rule] = {
    **dict.fromkeys(_NAMED_FREE.split(), _nothing),
    "addupdate": lambda eqn: (size(eqn.invars[1].aval), 0),
    "psum_invariant": _each,
    "ragged_dot_general": _ragged_dot,
    "reduce_scatter": _reduce,
    **dict.fromkeys(_NAMED_RANDOM.split(), _random),
}

_TAKES_PART = _of_module(["dynamic_slice", "gather", "slice"])
_SCATTERS = _of_module(f"scatter{kind}" for kind in ("", "_add", "_max", "_min", "_mul", "_sub"))
_CHANGES_PART = _SCATTERS | _of_module(["dynamic_update_slice"])
