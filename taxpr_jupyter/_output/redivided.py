"""Which values two compared programs divide among devices in other ways."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taxpr import introspect
from taxpr_jupyter._diff.diff import Diff
from taxpr_jupyter._text.variables_at import HeldVariables


class Redivided(NamedTuple):
    """A value that both programs have, and divide among devices in other ways.

    Attributes:
        name: The variable that held it after the change, or its address.
        address: Its address after the change.
        before: How it was divided.
        after: How it is divided.
    """

    name: str
    address: str
    before: introspect.Division
    after: introspect.Division

    def __str__(self) -> str:
        sizes = (introspect.quantity(one.bytes, "B") for one in (self.before, self.after))
        types = f"{self.before.type} → {self.after.type}"
        return f"{self.name} is divided otherwise: {types}; on each device {' → '.join(sizes)}"


def redivided(diff: Diff, divided: Sequence[introspect.Divisions]) -> Iterator[Redivided]:
    """The values of one shape and dtype that are divided otherwise, in order.

    Args:
        diff: The difference of two programs.
        divided: How the values of each are divided.
    """
    before, after = divided
    held = HeldVariables(diff.programs[1])
    for address, now in after.by_address.items():
        partner = diff.partner(1, address)
        then = before.at(partner) if partner is not None else None
        if then and then.whole == now.whole and then.type != now.type:
            yield Redivided(held.name(address) or address, address, then, now)
