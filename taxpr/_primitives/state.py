"""`State`: a value that functions read and write, and that `uncurry` makes explicit."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, Aval, DType, PyTree, TreeDef
from taxpr._errors import StateError, a_type
from taxpr._jaxprs.trees import to_array
from taxpr._primitives.access import WRAP
from taxpr._primitives.handed_out import StateValue, lost
from taxpr._primitives.state_access import bind_read, bind_write
from taxpr._primitives.uncurrying import is_eager, is_uncurrying, trace_number

T = TypeVar("T")


class State(Generic[T]):
    """A value that functions may read and write.

    In plain Python it is an object whose value ``state.value = ...`` sets. `uncurry` makes a
    function that uses states pure, also if it uses them inside `jax.jit`, `jax.lax.scan`,
    `jax.lax.while_loop` or `jax.lax.cond`.

    The value keeps its structure, shapes and dtypes; weak types become strong. Set it as a whole,
    as in ``state.value = {**state.value, "n": 1}``. Changing the dict or list that ``.value``
    returned raises an error at the next use or at the end of `uncurry`.

    Args:
        value: A PyTree of arrays, numbers and PRNG keys.
        name: Its name in the states of `uncurry`.

    Attributes:
        value: The value, to be read and set.

    Raises:
        StateError: If a leaf is no array or is traced; later, if a value does not fit or was
            changed in place.

    Example:
        >>> from taxpr import State
        >>> count = State(0, name="count")
        >>> count.value += 2
        >>> count
        State(int32[]=2, name='count')
    """

    __slots__ = ("__weakref__", "_avals", "_handed", "_leaves", "_made_in", "_name", "_tree")

    def __init__(self, value: T, name: str | None = None):
        if not (name is None or isinstance(name, str)):
            raise StateError(f"State: a name is a string, not {name!r}.")
        self._name = name
        leaves, self._tree = jax.tree.flatten(value)
        shown = f"State(name={name!r})" if name else "State"
        arrays = [_as_array(leaf, f"{shown}: the value") for leaf in leaves]
        if any(map(_compat.is_tracer, arrays)):
            raise StateError(
                f"{shown}: the value is traced, and would outlive its trace. Make states outside "
                "of functions that are transformed."
            )
        self._leaves = tuple(_compat.with_weak_type(array, False) for array in arrays)
        self._avals = tuple(map(jax.typeof, self._leaves))
        self._handed: StateValue | None = None
        self._made_in = trace_number()

    @property
    def name(self) -> str | None:
        """The name, or None."""
        return self._name

    @property
    def value(self) -> T:
        """The current value. Setting it is a write."""
        if not is_eager():
            return bind_read(self, self._tree, self._avals)
        if self._handed is None or self._handed.changed or self._is_gone:
            self._handed = StateValue(self.stored)
        return self._handed.value

    @value.setter
    def value(self, value: T) -> None:
        leaves = self.fitted(value, f"write of {self.shown}{_here()}: the value")
        if not is_eager():
            bind_write(self, self._tree, value, leaves)
            return
        if any(map(_compat.is_tracer, leaves)):
            raise StateError(
                f"write of {self.shown}{_here()}: the value is traced, by jax.grad, jax.vmap or "
                f"the like, and would outlive its trace. {WRAP}."
            )
        self._leaves, self._handed = tuple(leaves), None

    @property
    def shown(self) -> str:
        """The name of the state in messages."""
        return f"the state {self._name!r}" if self._name else f"an unnamed {self._types()}"

    @property
    def avals(self) -> tuple[Aval, ...]:
        """The types of the leaves of the value."""
        return self._avals

    @property
    def made_in(self) -> int | None:
        """The `trace_number` at its creation."""
        return self._made_in

    @property
    def tree(self) -> TreeDef:
        """The treedef of the value."""
        return self._tree

    @property
    def stored(self) -> T:
        """The value outside of any trace."""
        handed, self._handed = self._handed, None
        if handed is not None and handed.changed:
            raise lost(self.shown)
        if self._is_gone:
            raise StateError(
                f"{self.shown}: its value was donated to a jit, as by donate_argnums, and is "
                "gone. Set it to the new states: pure.write(states), or to a value of your own; "
                "or give a copy of the states to be donated."
            )
        self._handed = handed
        return jax.tree.unflatten(self._tree, self._leaves)

    @property
    def _is_gone(self) -> bool:
        return any(leaf.is_deleted() for leaf in self._leaves)

    def current(self) -> T:
        """The value here: a traced read inside `uncurry`, otherwise the stored value."""
        return self.value if is_uncurrying() else self.stored

    def fitted(self, value: PyTree, what: str) -> list[Array]:
        """Convert a value to the types of this state; ``what`` names the value in errors."""
        leaves, tree = jax.tree.flatten(value)
        if tree != self._tree:
            raise StateError(
                f"{what} has the structure {tree}, and {self.shown} has {self._tree}. A state "
                "keeps its structure; make another State for another."
            )
        arrays = [_as_array(leaf, what) for leaf in leaves]
        fitted = [as_type(x, aval) for x, aval in zip(arrays, self._avals, strict=True)]
        if list(map(_compat.type_text, fitted)) != list(map(_compat.type_text, self._avals)):
            raise StateError(
                f"{what} is {_types(tree, arrays)}, and {self.shown} is "
                f"{_types(tree, self._avals)}. A state keeps its shapes and dtypes: convert the "
                "value, or begin with a state of its type."
            )
        return fitted

    def _types(self) -> str:
        return f"State({_types(self._tree, self._avals)})"

    def __repr__(self) -> str:
        shown = [_with_value(leaf) for leaf in self._leaves]
        value = _tree_of_texts(self._tree, shown)
        return f"State({value}, name={self._name!r})" if self._name else f"State({value})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied or unpickled state is a new state with the same value.
        return State, (self.stored, self._name)


class _StateText(str):
    __slots__ = ()
    __repr__ = str.__str__


def _tree_of_texts(tree: TreeDef, texts: Sequence[str]) -> str:
    return str(jax.tree.unflatten(tree, map(_StateText, texts)))


def _types(tree: TreeDef, leaves: Sequence[Array | Aval]) -> str:
    return _tree_of_texts(tree, [_compat.type_text(leaf) for leaf in leaves])


def _with_value(leaf: Array) -> str:
    plain = leaf.ndim == 0 and not _compat.is_extended(leaf.dtype)
    return f"{_compat.type_text(leaf)}={leaf}" if plain else _compat.type_text(leaf)


def _here() -> str:
    return _compat.source_note(_compat.source_here())


def _as_array(leaf: Any, what: str) -> Array:
    try:
        return to_array(leaf)
    except TypeError:
        raise StateError(
            f"{what} holds {a_type(leaf)}, {leaf!r}. A state is a PyTree of arrays, "
            "numbers and PRNG keys."
        ) from None


def as_type(array: Array, aval: Array | Aval) -> Array:
    """The array with a strong type. A weak one, such as a Python number, becomes ``aval.dtype``."""
    if jax.typeof(array).weak_type and _order(array.dtype) <= _order(aval.dtype):
        return array.astype(aval.dtype)
    return _compat.with_weak_type(array, False)


def _order(dtype: DType) -> float:
    """The rank of a dtype in promotion: integer, float, complex; NaN, as not comparable, else."""
    kinds = (jnp.integer, jnp.floating, jnp.complexfloating)
    return next((k for k, kind in enumerate(kinds) if jnp.issubdtype(dtype, kind)), float("nan"))
