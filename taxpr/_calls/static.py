"""`Static`: arguments and results that are no arrays, as parts of the tree and no leaves."""

import enum
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from taxpr._compat import PyTree
from taxpr._given import is_no_array
from taxpr._untyped import jax as _jax


class _Value:
    """A value that is compared as `jax.jit` compares static arguments, and may have no hash."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value):
            return False
        if self.value is other.value:
            return True
        try:
            return type(self.value) is type(other.value) and bool(self.value == other.value)
        except Exception:  # of a comparison of the user's
            return False

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return 0

    def __repr__(self) -> str:
        return repr(self.value)


@jax.tree_util.register_pytree_node_class
class Static:
    """The place of a value that is no array.

    Example:
        >>> import jax
        >>> tree = marked([1.0, "relu"])
        >>> jax.tree.leaves(tree), plain(tree)
        ([1.0], [1.0, 'relu'])
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[()], _Value]:
        """For JAX."""
        return (), _Value(self.value)

    @classmethod
    def tree_unflatten(cls, value: _Value, children: Any) -> "Static":
        """For JAX."""
        return cls(value.value)


def is_static(x: Any) -> bool:
    """Whether something is the place of a static value."""
    return isinstance(x, Static)


def is_traced(leaf: Any) -> bool:
    """Whether JAX traces a leaf. It raises by itself for an array that it cannot trace."""
    return hasattr(leaf, "dtype") or not is_no_array(leaf)


def _never(_: Any) -> bool:
    return False


def marked(
    tree: PyTree,
    is_object: Callable[[Any], bool] = _never,
    is_model: Callable[[Any], bool] = _never,
    keeps_numbers: bool = False,
) -> PyTree:
    """The tree with `Static` in place of values that are no arrays.

    Args:
        tree: The tree.
        is_object: Whether a subtree stays unchanged.
        is_model: Whether Python scalars in a subtree are static, too.
        keeps_numbers: Whether all other Python scalars are static.
    """
    outer, structure = jax.tree.flatten(tree, is_leaf=lambda x: is_object(x) or is_model(x))
    kept = [_marked(x, is_object, is_model, keeps_numbers) for x in outer]
    same = all(a is b for a, b in zip(outer, kept, strict=True))
    return tree if same else jax.tree.unflatten(structure, kept)


def _marked(x: Any, is_object: Any, is_model: Any, keeps_numbers: bool) -> Any:
    if is_object(x):
        return x
    if is_model(x):
        leaves, structure = jax.tree.flatten(x, is_leaf=is_object)
        kept = [_marked(leaf, is_object, _never, True) for leaf in leaves]
        same = all(a is b for a, b in zip(leaves, kept, strict=True))
        return x if same else jax.tree.unflatten(structure, kept)
    is_number = isinstance(x, (bool, int, float, complex)) and not hasattr(x, "dtype")
    return x if is_traced(x) and not (is_number and keeps_numbers) else Static(x)


def plain(tree: PyTree) -> PyTree:
    """A tree with the values themselves in place of each `Static`."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=is_static)
    if not any(map(is_static, leaves)):
        return tree
    return jax.tree.unflatten(structure, (x.value if is_static(x) else x for x in leaves))


def run(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> PyTree:
    """Call a function of plain arguments; a result that is no array becomes `Static`.

    An object that the function makes stays a leaf, which JAX refuses: it may hold tracers.
    """
    leaves: list[Any] = jax.tree.leaves((tuple(args), dict(kwargs)), is_leaf=is_static)
    given = {id(x.value) for x in leaves if is_static(x)}
    args, kwargs = plain((tuple(args), dict(kwargs)))
    out, tree = jax.tree.flatten(fun(*args, **kwargs))
    kept = [id(x) in given or (isinstance(x, _ATOMS) and not is_traced(x)) for x in out]
    pairs = zip(out, kept, strict=True)
    return jax.tree.unflatten(tree, [Static(x) if one else x for x, one in pairs])


# What holds no tracer. Those of JAX are functions that it made, such as `jax.nn.relu`.
_atoms: list[Any] = [
    *(str, bytes, type, enum.Enum, np.dtype, types.FunctionType, types.BuiltinFunctionType),
    *(type(_jax.jit(len)), _jax.custom_jvp, _jax.custom_vjp, _jax.numpy.ufunc),
]
_ATOMS = tuple(_atoms)
