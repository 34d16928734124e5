"""Collection: hand the values of tags out of a program."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from taxpr import _compat
from taxpr._rules import Emission
from taxpr._thread import Handled, Handler
from taxpr._walk import Site


class Masked(NamedTuple):
    """The value of a tag in a branch.

    Attributes:
        value: The token; zeros where the branch was not taken.
        mask: Bool, whether the tag fired; it has the leading axes of scans.
    """

    value: Any
    mask: Any


class Last(NamedTuple):
    """The value of a tag in a while loop.

    In a loop that was mapped by `jax.vmap` inside the traced function, lanes that have ended
    go on being computed while others run, and their values count here, too.

    Attributes:
        value: The token when it fired last; zeros where it never fired.
        count: int32, how often it fired; it has the leading axes of scans.
    """

    value: Any
    count: Any


def _hand_out(address: str, eqn: _compat.JaxprEqn, ctx: list[Any], token: list[Any]) -> Handled:
    del address, eqn
    return ctx, token, [_compat.with_weak_type(leaf, False) for leaf in token]


# Hands out the token and changes nothing.
collector = Handler(_hand_out, uses=())


def collected(site: Site, emission: Emission) -> Any:
    """What `collect` returns for a site."""
    value = jax.tree.unflatten(jax.tree.structure(site.avals), emission.value)
    if emission.fired is None:
        return value
    if site.trips is None:
        return Last(value, emission.fired)
    return Masked(value, emission.fired > 0)
