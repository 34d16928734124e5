"""Places that a selector skips because they cannot be injected, and the reasons."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taxpr._sites.criteria import Selectable
from taxpr._sites.site import Step


@dataclasses.dataclass(frozen=True)
class Skipped:
    """Places that were skipped for one reason, see `taxpr.Program.skipped`.

    Attributes:
        reason: Why they cannot be injected.
        primitive: The name of the primitive around them.
        addresses: The addresses of the tags, or of the values.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     return jnp.sin(jax.lax.reduce(x, 0.0, lambda a, b: jnp.sin(a) + b, (0,)))
        >>> program = taxpr.trace(f)(jnp.ones(3)).tag_at(jax.lax.sin_p, name="s")
        >>> [site.address for site in program.tags()], program.skipped[0].addresses
        (['t0'], ('0:reduce/jaxpr/0:sin.0',))
        >>> print(program.skipped[0])
        1 place in reduce: its jaxpr combines pairs of elements, and XLA chooses their order \
and number
    """

    reason: str
    primitive: str
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        n = len(self.addresses)
        return f"{n} {'place' if n == 1 else 'places'} in {self.primitive}: {self.reason}"


class Refusal(NamedTuple):
    """Why a place cannot be injected.

    Attributes:
        step: The step into the equation that is the reason.
        reason: The reason, as a text about this equation.
    """

    step: Step
    reason: str


def refusal_of(place: Selectable) -> Refusal | None:
    """Why a tag at a place cannot be injected; None if it can."""
    return next((Refusal(step, step.refusal) for step in place.steps if step.refusal), None)


def skipped(places: Iterable[tuple[Selectable, Refusal]]) -> tuple[Skipped, ...]:
    """Group skipped places by reason."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for place, refusal in places:
        key = refusal.reason, refusal.step.eqn.primitive.name
        found.setdefault(key, {})[place.address] = None
    return tuple(Skipped(*key, tuple(addresses)) for key, addresses in found.items())


def merged(*parts: Sequence[Skipped]) -> tuple[Skipped, ...]:
    """Join the skipped places of several steps."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for one in (one for part in parts for one in part):
        found.setdefault((one.reason, one.primitive), {}).update(dict.fromkeys(one.addresses))
    return tuple(Skipped(*key, tuple(addresses)) for key, addresses in found.items())
