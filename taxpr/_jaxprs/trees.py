"""Trees as messages and programs name their leaves."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from taxpr._compat import PyTree
from taxpr._errors import InjectorError, a_type
from taxpr._given import is_no_array
from taxpr._untyped import tree_util as _keys


def named_leaves(
    root: str, tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[str, Any]]:
    """The leaves with their names, such as ``"ctx['w']"`` for the root ``"ctx"``."""
    return [
        (f"{root}{_keys.keystr(path)}", leaf)
        for path, leaf in _keys.tree_flatten_with_path(tree, is_leaf)[0]
    ]


def as_arrays(said: str, tree: PyTree, error: type[Exception]) -> PyTree:
    """The tree with arrays as leaves.

    Args:
        said: Its kind and value, for the message.
        tree: The user's value.
        error: Raised if a leaf is no array.
    """
    # First, since some versions of NumPy take a letter for a dtype, and warn of it.
    refuse_no_arrays(said, tree, error)
    try:
        return jax.tree.map(jnp.asarray, tree)
    except (TypeError, ValueError):
        raise error(f"{said}{_NO_ARRAYS}") from None


def refuse_no_arrays(said: str, tree: PyTree, error: type[Exception] = InjectorError) -> None:
    """Raise where a leaf is a text, or an object that is no array."""
    for leaf in jax.tree.leaves(tree):
        if is_no_array(leaf):
            raise error(f"{said}{_NO_ARRAYS}")


def to_array(value: Any) -> Any:
    """The value as an array, by `jax.numpy.asarray`; a `TypeError` of a text, or one with texts."""
    if isinstance(value, jax.Array):
        return value
    # Before NumPy sees it: some versions take a letter for a dtype, and warn of it.
    if any(map(is_no_array, jax.tree.leaves(value))):
        raise TypeError(f"{a_type(value)} is no array")
    return jnp.asarray(value)


_NO_ARRAYS = " is no number or array, nor a tree of these."
