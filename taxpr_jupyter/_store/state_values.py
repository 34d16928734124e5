"""Parse, check and write the values that a user gives to states."""

import ast
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.outputs.array_diff import value_text
from taxpr_jupyter._runs.outputs.distances import is_key
from taxpr_jupyter._text.short import aval_text, shortened

_LARGEST = 32  # elements of an array that is edited as text
_NUMBERS = (bool, int, float, complex)
_KINDS = "biufc"  # of dtypes; numbers of the ones before become such of the ones behind
_NAMES = {"nan": math.nan, "inf": math.inf}


def is_editable(leaf: Any) -> bool:
    """Whether it can be edited as text: a number, or a small array of numbers."""
    return not is_key(leaf) and np.size(leaf) <= _LARGEST


def text_of(leaf: Any) -> str:
    """An array as text: all of it where it can be edited, which `parsed` reads back."""
    return _nested(np.asarray(leaf)) if is_editable(leaf) else value_text(leaf)


def _nested(array: np.ndarray) -> str:
    # By `str`, which has the digits that the dtype needs and no more.
    return f"[{', '.join(map(_nested, array))}]" if array.ndim else str(array[()])


def parsed(text: str) -> Any:
    """A number or nested lists of numbers, of text such as ``[1, -2.5, nan]``.

    Raises:
        PanelError: It is neither.

    Example:
        >>> parsed("[1, -2.5, [True, inf]]")
        [1, -2.5, [True, inf]]
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        raise PanelError(
            f"`{shortened(text, 60)}` is no number, and no list of numbers such as [1, -2.5, nan]"
        ) from None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | complex() as number):
            return number
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _value(operand)
            if type(number) in _NUMBERS:
                return -number if isinstance(sign, ast.USub) else number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            a, b = _value(left), _value(right)
            if type(a) in _NUMBERS and type(b) is complex:  # 1+2j
                return a + b if isinstance(sign, ast.Add) else a - b
    raise ValueError


def fitted(name: str, value: Any, like: Any) -> Any:
    """A value of the structure and types of another one.

    Args:
        name: The name of the state, for messages.
        value: A PyTree; numbers, and lists of numbers for arrays, become of the right dtype.
        like: A PyTree of arrays.

    Raises:
        PanelError: It has another structure, shape or dtype.
    """
    leaves, tree = jax.tree.flatten(like)
    if len(leaves) == 1 and jax.tree.structure(0) == tree:
        return fitted_leaf(name, value, like)
    given, found = jax.tree.flatten(value)
    if found != tree:
        raise PanelError(
            f"The state {name} has the structure {tree}, and the value has {found}. Give one of "
            "the same structure, or set one array of it, by its own name"
        )
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(like)[0]]
    names = [f"{name}{jax.tree_util.keystr(path)}" for path in paths]
    return jax.tree.unflatten(tree, map(fitted_leaf, names, given, leaves))


def fitted_leaf(name: str, value: Any, like: Any) -> Any:
    """An array of the type of another one; see `fitted`."""
    aval = jax.typeof(like)
    expected = f"{name} is {aval_text(aval)}"
    if is_key(like) or is_key(value):
        if not (is_key(like) and is_key(value)):
            what = "PRNG keys, such as jax.random.key(0)" if is_key(like) else "no PRNG key"
            raise PanelError(f"{expected}: it takes {what}")
        array = value
    else:
        array = _array(expected, value)
        own = getattr(value, "dtype", None)
        if own is not None and np.dtype(own) != aval.dtype:
            raise PanelError(f"{expected}, and the value is of {own}. Convert it")
        array = array if own is not None else _converted(expected, array, aval.dtype)
    if array.shape != aval.shape or array.dtype != aval.dtype:
        raise PanelError(f"{expected}, and the value is {aval_text(jax.typeof(array))}")
    array = jnp.asarray(array)
    return jax.device_put(array, like.sharding) if _is_spread(like) else array


def _array(expected: str, value: Any) -> np.ndarray | Any:
    if isinstance(value, jax.Array):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = None
    if array is None or (array.dtype.kind not in _KINDS and not hasattr(value, "dtype")):
        raise PanelError(
            f"{expected}, and {shortened(repr(value), 60)} is no number, and no array of numbers"
        )
    return array


def _converted(expected: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers without a dtype of their own as numbers of a dtype, if that keeps them."""
    kind = "b" if dtype == np.bool_ else "i" if jnp.issubdtype(dtype, np.integer) else "f"
    kind = "c" if jnp.issubdtype(dtype, np.complexfloating) else kind
    order = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    fits = not array.size or order[array.dtype.kind] <= order[kind]
    with np.errstate(all="ignore"):
        made = array.astype(dtype) if fits else array
    lost = not np.array_equal(made, array) if kind == "i" else _becomes_infinite(made, array)
    if not fits or lost:
        raise PanelError(f"{expected}, and {shortened(_nested(array), 60)} does not fit into it")
    return made


def _becomes_infinite(made: np.ndarray, array: np.ndarray) -> bool:
    return not np.array_equal(np.isfinite(made), np.isfinite(array))


def _is_spread(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1
