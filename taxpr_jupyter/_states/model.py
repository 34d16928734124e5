"""`PureCall`: a call that uses states, described as a call of a pure function."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr


@dataclasses.dataclass(frozen=True)
class PureCode:
    """Python that makes a pure function, for `Session.code`.

    Attributes:
        body: Lines that turn ``fun``, ``args`` and ``kwargs`` into ``pure``, a dict ``states``, and
            ``rest``, a tuple and a dict of the arguments after the states. They go into a function,
            so that their names do not clash with the notebook's. The name ``jax`` is defined. Empty
            if `taxpr.uncurry` makes the pure function.
        modules: Further imports by name: ``{"hk": "haiku"}``.
        n_bound: The number of arguments that are bound to the user's function.
    """

    body: str = ""
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    n_bound: int = 0


@dataclasses.dataclass(frozen=True)
class Unbound:
    """A bound function as a function of more arguments, such as a method with its object.

    Attributes:
        fun: The function of all arguments.
        args: The arguments before those of the call.
        text: Python for ``fun``, with ``{fun}`` for the user's function.
        texts: Python for each of ``args``, likewise.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...] = ()
    text: str = "{fun}"
    texts: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class PureCall:
    """A call of a function that uses states, as a call of a pure one.

    Attributes:
        fun: ``(states, *args, **kwargs) -> (out, states)``; its ``__name__`` is that of the user's
            function, and its signature that with the states before it, see `like`.
        states: The current values of the states, PyTrees by name, without tracers.
        written: The names of the states that the function writes; the others are only read.
        args: The positional arguments, at the positions of the user's call. An argument that holds
            states is replaced by None.
        kwargs: The keyword arguments, likewise.
        library: The library of the states: "taxpr", "brainstate", "flax.nnx", "haiku", "equinox".
        code: Returns Python that makes the pure function.
        write: Sets the states of the user's objects to values by name; None if no object holds
            them.
        bound: The unbound function, if ``fun`` is bound to objects that hold states. Then ``code``
            is for that function, with these arguments before the others.
        note: A remark about the states for the user; may be empty.
        tag_writes: Traces ``fun(states, *args, **kwargs)`` again with a tag on each leaf that is
            written. Its params are the ``name`` of the leaf, the ``state`` and ``op="write"``. None
            if the library cannot do this.
    """

    fun: Callable[..., Any]
    states: Mapping[str, Any]
    written: frozenset[str]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    library: str
    code: Callable[[], PureCode]
    write: Callable[[Mapping[str, Any]], None] | None = None
    bound: Unbound | None = None
    note: str = ""
    tag_writes: Callable[[], taxpr.Program] | None = None


def like(fun: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives ``(states, *args, **kwargs)`` the name and signature of ``fun``.

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
        try:
            own = list(inspect.signature(fun).parameters.values())
        except (TypeError, ValueError):  # some builtins have no signature
            return named
        taken = {parameter.name for parameter in own}
        name = next(word for word in ("states", "states_", "_states_") if word not in taken)
        first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
        named.__signature__ = inspect.Signature([first, *own])  # pyright: ignore[reportFunctionMemberAccess]
        return named

    return decorate
