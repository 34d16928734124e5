"""Find the places where a program makes the values that it writes to states."""

from collections.abc import Mapping
from typing import NamedTuple

import taxpr
from taxpr_jupyter._diff.diff import diff
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.pure_call import PureCall


class Write(NamedTuple):
    """A value that is written to a state.

    Attributes:
        leaf: The array of the state: `total`, `norm['mean']`.
        address: The address of the value, or of a tag in the source that marks it.
    """

    leaf: str
    address: str


def writes_of(pure: PureCall, program: taxpr.Program, state: str) -> list[Write]:
    """Where the values are made that are written to a state, in program order.

    Left out are constants, which are no values of the program.

    Raises:
        PanelError: This is not known of such states, or the function has changed since.
    """
    if pure.tag_writes is None:
        raise PanelError(
            f"What is written to states of {pure.library} is not known: tag the value where it is "
            "made, and a run shows what it is in each iteration"
        )
    tagged = pure.tag_writes()
    sites = {site.address: site for site in tagged.tags()}
    own = {k: site for k, site in sites.items() if site.params.get("op") == "write"}
    own = {k: site for k, site in own.items() if {"name", "state", "op"} == set(site.params)}
    others = [k for k in sites if k not in own]
    of_source = dict(zip(others, (site.address for site in program.tags()), strict=False))
    if len(others) != len(program.tags()):
        raise PanelError(_CHANGED)
    without = tagged.dissolve(lambda site: site.address in own)
    same = diff(without, program)
    found = []
    for site in own.values():
        address = _made_at(site, sites, own, of_source) if site.params["state"] == state else None
        if address is None:
            continue
        there = address if address in of_source.values() else same.partner(0, address)
        if there is None or not same.is_same:
            raise PanelError(_CHANGED)
        found.append(Write(str(site.name), there))
    return list(dict.fromkeys(found))


_CHANGED = "The function is another one than when it was traced: run the cell again"


def _made_at(
    site: taxpr.program.Site,
    sites: Mapping[taxpr.Address, taxpr.program.Site],
    own: Mapping[taxpr.Address, taxpr.program.Site],
    of_source: Mapping[taxpr.Address, taxpr.Address],
) -> str | None:
    """The address of the value that a tag of ours marks; None for a constant."""
    address = site.value_address
    while address is not None:
        tag = address.eqn
        if tag in own:
            address = sites[tag].value_address
        else:
            return of_source.get(tag, address)
    return None
