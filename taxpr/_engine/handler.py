"""`Handler`: the replacement of a tag, and its properties that the engine needs."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from taxpr._compat import Array, Atom, JaxprEqn, PyTree

# The result of a handler: the leaves of ctx and token, and the leaves of an emitted value or None.
Handled = tuple[Sequence[Array], Sequence[Array], Sequence[PyTree] | None]
Rewired = tuple[Sequence[Atom], Sequence[Atom]]


@dataclasses.dataclass(frozen=True, eq=False)
class Handler:
    """The replacement of a tag.

    Attributes:
        run: Called while tracing with the address and the equation of the tag, and the leaves of
            ctx and token.
        uses: The indices of the context leaves that it gets and returns; None for all. Only these
            are threaded into the equations around the tag.
        rewire: A shortcut without new equations: from the equation and the variables of ctx and
            token to the new variables; returns None if ``run`` must do it.
        injects: The user's function, for an injector. JAX names it if a tracer leaks from it. A
            handler with it also warns if it changes a value whose derivative was taken before.
        observes: Whether it returns the token unchanged.
        seen: The indices of leaves that no token depends on, because only observing injectors use
            them.
        emits: Whether it returns a value beside token and context.
    """

    run: Callable[[str, JaxprEqn, list[Array], list[Array]], Handled]
    uses: tuple[int, ...] | None = None
    rewire: Callable[[JaxprEqn, list[Atom], list[Atom]], Rewired | None] | None = None
    injects: Callable[..., Any] | None = None
    observes: bool = False
    seen: tuple[int, ...] = ()
    emits: bool = False


def _as_they_came(_: JaxprEqn, ctx: list[Atom], token: list[Atom]) -> Rewired:
    return ctx, token


# Removes a tag and does nothing.
NOTHING = Handler(
    lambda address, eqn, ctx, token: (ctx, token, None), uses=(), rewire=_as_they_came
)
