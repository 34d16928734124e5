"""`Opened`: a call that a library's adaptor has made pure."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr._compat import PyTree

States = Mapping[str, Mapping[str, PyTree]]


@dataclasses.dataclass(frozen=True)
class PureCode:
    """Python source that makes a pure function, for `Session.code`.

    Attributes:
        body: Lines that turn ``fun``, ``args`` and ``kwargs`` into ``pure``, a dict ``states``, and
            ``rest``, a tuple and a dict of the arguments after the states. They go into a function,
            so that their names do not clash with the notebook's. The name ``jax`` is defined. Empty
            if `taxpr.uncurry` makes the pure function.
        modules: Further imports by name: ``{"hk": "haiku"}``.
        n_bound: The number of arguments that are bound to the user's function.
    """

    body: str = ""
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    n_bound: int = 0


@dataclasses.dataclass(frozen=True)
class Unbound:
    """A bound function as a function of more arguments, such as a method with its object.

    Attributes:
        fun: The function of all arguments.
        args: The arguments before the call's own.
        text: Python for ``fun``, with ``{fun}`` for the user's function.
        texts: Python for each of ``args``, likewise.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...] = ()
    text: str = "{fun}"
    texts: Sequence[str] = ()


class _Name:
    """A key in the path of a leaf: the name of an array in its object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f".{self.name}" if self.name else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Name) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@jax.tree_util.register_pytree_with_keys_class
class Held:
    """The arrays of an object, in its place among the arguments.

    Attributes:
        label: The name of the object; "" for states without an object.
        values: The arrays, or trees of these, by name.
    """

    def __init__(self, label: str, values: Mapping[str, PyTree]) -> None:
        self.label = label
        self.values = dict(values)

    def named(self) -> dict[str, PyTree]:
        """The values by name, with the object's name before it."""
        return {".".join(filter(None, (self.label, name))): x for name, x in self.values.items()}

    def tree_flatten_with_keys(self) -> Any:
        """For JAX."""
        return [(_Name(k), x) for k, x in self.values.items()], (self.label, tuple(self.values))

    @classmethod
    def tree_unflatten(cls, names: Any, values: Any) -> "Held":
        """For JAX."""
        return cls(names[0], dict(zip(names[1], values, strict=True)))


def is_held(x: Any) -> bool:
    """Whether a value is a `Held`."""
    return isinstance(x, Held)


@dataclasses.dataclass(frozen=True)
class Taken:
    """The arguments of one call, taken apart.

    Attributes:
        args: For `Opened.fun`: a tuple of `Held` for states that are no arguments, and the
            positional arguments of the call with a `Held` in the place of each object.
        kwargs: The keyword arguments, likewise.
        static: The rest of the arguments. A call with another one needs another program.
        put: Sets arrays of the objects of this call, by the labels of the objects and their own
            names; None if there is nothing to set.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    static: Any = None
    put: Callable[[States], object] | None = None

    def states(self) -> dict[str, dict[str, PyTree]]:
        """The arrays of each object by its label."""
        leaves: list[Any] = jax.tree.leaves((self.args, self.kwargs), is_leaf=is_held)
        return {x.label: x.values for x in leaves if is_held(x)}


@dataclasses.dataclass(frozen=True)
class Opened:
    """A call of a function that uses states, as a call of a pure function.

    Attributes:
        fun: Takes the arguments of `Taken`, and returns ``(out, after)``: the result, and the new
            arrays of states, by label and name; arrays that are left out stay unchanged.
        take: Takes the arguments of a call apart.
        first: The arguments of this call.
        library: The library of the states.
        lost: Changes of objects in the last trace of `fun` that cannot be handed back, such as
            ``"makes model.h"``.
        grows: The states, by label and name, that grow with each call, so that their types change.
        bound: The unbound function, if the function is bound to objects that hold states. Then
            ``code`` is for that function, with these arguments before the others.
        code: Returns Python that makes the pure function.
        note: A remark about the states, after `fun` was traced; may be empty.
        of_pictures: Whether only pictures take the states apart, as the function takes and returns
            them.
    """

    fun: Callable[..., tuple[Any, States]]
    take: Callable[[tuple[Any, ...], Mapping[str, Any]], Taken]
    first: Taken
    library: str
    lost: list[str] = dataclasses.field(default_factory=list[str])
    grows: frozenset[tuple[str, str]] = frozenset()
    bound: Unbound | None = None
    code: Callable[[], PureCode] = PureCode
    note: Callable[[], str] = str
    of_pictures: bool = False


def pure(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of functions that use no states, so that no library need be asked."""
    vars(fun)["is_pure"] = True
    return fun


def like(
    fun: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives ``(states, *args, **kwargs)`` the name and signature of ``fun``.

    The result is `pure`; ``fun`` may be another such function.

    Example:
        >>> pure = like(lambda x, n: x)(lambda states, *args: (args[0], states))
        >>> import inspect
        >>> print(inspect.signature(pure))
        (states, /, x, n)
    """

    def decorate(pure: Callable[..., Any]) -> Callable[..., Any]:
        def named(*args: Any, **kwargs: Any) -> Any:
            return pure(*args, **kwargs)

        named.__name__ = named.__qualname__ = getattr(fun, "__name__", type(fun).__name__)
        vars(named).update(__wrapped__=fun, is_pure=True)
        try:
            own = list(inspect.signature(fun).parameters.values())[hasattr(fun, "is_pure") :]
        except (TypeError, ValueError):  # some builtins have no signature
            own = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
        taken = {parameter.name for parameter in own}
        name = next(word for word in ("states", "states_", "_states_") if word not in taken)
        before = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
        named.__signature__ = inspect.Signature([before, *own])  # pyright: ignore[reportFunctionMemberAccess]
        return named

    return decorate
