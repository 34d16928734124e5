"""What is known of a function that uses states."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taxpr


@dataclasses.dataclass(frozen=True)
class PureCode:
    """Python that makes a pure function, for `Session.code`.

    Attributes:
        body: Lines that make ``pure``, ``states``, a dict, and ``rest``, the arguments behind the
            states as a tuple and a dict, of ``fn``, ``args`` and ``kwargs``; in a function, so that
            its names are none of the notebook's. The name ``jax`` is there. Empty where
            `taxpr.uncurry` makes it.
        modules: What the lines need besides, by name: ``{"hk": "haiku"}``.
        n_bound: How many of the arguments are bound to the user's function.
    """

    body: str = ""
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    n_bound: int = 0


@dataclasses.dataclass(frozen=True)
class Unbound:
    """A function as another one, of more arguments.

    Attributes:
        fn: The function that takes all of them.
        args: What stands before the arguments of the call.
        text: Python for ``fn``, and
        texts: for ``args``, with ``{fn}`` for the user's function.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    text: str = "{fn}"
    texts: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class PureCall:
    """A call of a function that uses states, as a call of a pure one.

    Attributes:
        fn: ``(states, *args, **kwargs) -> (out, states)``; its ``__name__`` is that of the user's
            function, and its signature that with the states before it, see `like`.
        states: The values that the states have now, PyTrees by name, none of them traced.
        written: The names of those that the function writes; the others are only read.
        args: The positional arguments. They stand where they stood in the user's call: what an
            adaptor takes out, since it holds states, it replaces by None.
        kwargs: The keyword arguments, likewise.
        library: Whose states they are: "taxpr", "brainstate", "flax.nnx", "haiku", "equinox".
        code: Gives Python for the pure one.
        write: Sets the states of the user's objects to values by name; None where there is no
            object that holds them.
        bound: Where the function is bound to objects that hold states: ``code`` is of it,
            with these arguments before the others.
        note: What the user should know of the states; may be empty.
        tag_writes: Traces ``fn(states, *args, **kwargs)`` again, with a tag of the params
            ``name``, that of the leaf, ``state``, that of its state, and ``op="write"`` on each
            leaf that is written; None where that is not known.
    """

    fn: Callable[..., Any]
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


def like(fn: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for ``(states, *args, **kwargs)``: the name and the arguments of ``fn``.

    Args:
        fn: The user's function, of ``*args, **kwargs``.

    Example:
        >>> pure = like(lambda x, n: x)(lambda states, *args: (args[0], states))
        >>> import inspect
        >>> print(inspect.signature(pure))
        (states, /, x, n)
    """

    def decorate(pure: Callable[..., Any]) -> Callable[..., Any]:
        def named(*args: Any, **kwargs: Any) -> Any:
            return pure(*args, **kwargs)

        named.__name__ = named.__qualname__ = getattr(fn, "__name__", type(fn).__name__)
        try:
            own = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):  # some builtins have none
            return named
        taken = {parameter.name for parameter in own}
        name = next(word for word in ("states", "states_", "_states_") if word not in taken)
        first = inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY)
        named.__signature__ = inspect.Signature([first, *own])  # pyright: ignore[reportFunctionMemberAccess]
        return named

    return decorate
