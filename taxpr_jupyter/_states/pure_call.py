"""`PureCall`: a call that uses states, described as a call of a pure function."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import taxpr
from taxpr.libraries import PureCode, Unbound


@dataclasses.dataclass(frozen=True)
class PureCall:
    """A call of a function that uses states, as a call of a pure one.

    Attributes:
        fun: ``(states, *args, **kwargs) -> (out, states)``; it has the ``__name__`` of the user's
            function, and its signature with the states before it.
        states: The current values of the states, PyTrees by name, without tracers.
        args: The positional arguments, at the positions of the user's call. An argument that holds
            states is replaced by None.
        kwargs: The keyword arguments, likewise.
        library: The library of the states: "taxpr", "brainstate", "flax.nnx", "haiku", "equinox".
        code: Returns Python that makes the pure function.
        written: The names of the states that the function writes; the others are only read. Known
            when it was traced.
        write: Sets the states of the user's objects to values by name; None if no object holds
            them.
        bound: The unbound function, if ``fun`` is bound to objects that hold states. Then ``code``
            is for that function, with these arguments before the others.
        note: A remark about the states for the user, after it was traced; may be empty.
        tag_writes: Traces ``fun(states, *args, **kwargs)`` again with a tag on each leaf that is
            written. Its params are the ``name`` of the leaf, the ``state`` and ``op="write"``. None
            if the library cannot do this.
    """

    fun: Callable[..., Any]
    states: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    library: str
    code: Callable[[], PureCode]
    written: frozenset[str] = frozenset()
    write: Callable[[Mapping[str, Any]], None] | None = None
    bound: Unbound | None = None
    note: Callable[[], str] = str
    tag_writes: Callable[[], taxpr.Program] | None = None
