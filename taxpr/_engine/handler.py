"""What takes the place of a tag."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from taxpr._compat import Array, Atom, JaxprEqn, PyTree

# What a handler returns: the leaves of ctx and token, and what is emitted: None, or the
# leaves of a value.
Handled = tuple[Sequence[Array], Sequence[Array], Sequence[PyTree] | None]
Rewired = tuple[Sequence[Atom], Sequence[Atom]]


@dataclasses.dataclass(frozen=True, eq=False)
class Handler:
    """What takes the place of a tag.

    Attributes:
        run: Called while tracing with the address and the equation of the tag and the leaves
            of ctx and token.
        uses: Which leaves of the context it gets and returns, by index; None for all. Only
            these are threaded into the equations around the tag.
        rewire: Where no equation need be made: called with the equation and the variables of
            ctx and token, returns those of the new ctx and token; None where ``run`` must do it.
        injects: Of an injector the function that the user wrote, which JAX names where a tracer
            leaked from it. A change by an injector warns where a derivative does not know of it.
        observes: Whether it returns the token as it came.
        seen: Those of the leaves on which no token depends, since only injectors use them that
            return the token as it came.
        emits: Whether a value is handed out beside token and context.
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


# In the place of a tag at which nothing is to be done.
NOTHING = Handler(
    lambda address, eqn, ctx, token: (ctx, token, None), uses=(), rewire=_as_they_came
)
