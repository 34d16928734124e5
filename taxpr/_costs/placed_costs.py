"""The equations of a program with their costs, and how often the jaxprs that have them run."""

from collections.abc import Iterator
from typing import NamedTuple

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Jaxpr, JaxprEqn, StoredJaxpr
from taxpr._costs.costs import Cost, Costs, parts_of
from taxpr._hops.places import numbered
from taxpr._primitives.tag_equation import is_tag


class PlacedEqn(NamedTuple):
    """An equation in its place.

    Attributes:
        address: Its address.
        eqn: The equation.
        cost: The cost of one run; None if the equations in its jaxprs have it.
    """

    address: Address
    eqn: JaxprEqn
    cost: Cost | None


class PlacedJaxpr(NamedTuple):
    """A jaxpr that a program runs.

    Attributes:
        home: Its address.
        jaxpr: The jaxpr.
        times: How often it runs, on all devices; a while loop counts as one iteration.
        endless: Whether a while loop around it has an unknown number of iterations.
        counted: Whether the cost of the whole has it: of a cond, only the dearest branch counts.
        eqns: Its equations, without tags.
    """

    home: Address
    jaxpr: Jaxpr
    times: int
    endless: bool
    counted: bool
    eqns: list[PlacedEqn]


def placed(jaxpr: StoredJaxpr) -> Iterator[PlacedJaxpr]:
    """The jaxprs that a program runs, each before those in it.

    Those that only a derivative would run are left out. The costs that count, each times its runs,
    add up to `Costs.of_jaxpr`.

    Example:
        >>> import jax
        >>> from taxpr import trace
        >>> program = trace(lambda x: jax.lax.map(jax.numpy.sin, x))(jax.numpy.ones(3))
        >>> [(one.home, one.times, len(one.eqns)) for one in placed(program.jaxpr)]
        [('', 1, 1), ('0:scan/body', 3, 1)]
    """
    outermost = PlacedJaxpr(Address(), _compat.open_jaxpr(jaxpr), 1, False, True, [])
    return _placed(outermost, Costs())


def _placed(here: PlacedJaxpr, costs: Costs) -> Iterator[PlacedJaxpr]:
    below: list[PlacedJaxpr] = []
    for local, eqn in numbered(here.jaxpr):
        if is_tag(eqn):
            continue
        address, parts = here.home / local, parts_of(eqn)
        here.eqns.append(PlacedEqn(address, eqn, None if parts else costs.of_eqn(eqn)))
        each = [costs.of_jaxpr(part.jaxpr) for part, _ in parts]
        most = max(((one.flops, one.bytes) for one in each), default=(0, 0))
        is_cond, taken = eqn.primitive is _compat.cond_p, False
        for (part, trips), cost in zip(parts, each, strict=True):
            counts = not is_cond or (not taken and (cost.flops, cost.bytes) == most)
            taken = taken or counts
            inside = PlacedJaxpr(
                address / part.label,
                part.jaxpr,
                here.times * trips,
                here.endless or eqn.primitive is _compat.while_p,
                here.counted and counts,
                [],
            )
            below.append(inside)
    yield here
    for one in below:
        yield from _placed(one, costs)
