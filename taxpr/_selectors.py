"""Selectors: which tags are meant."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

from taxpr._errors import SelectorError
from taxpr._walk import Site


def select(sites: Sequence[Site], where: Any) -> list[Site]:
    """The sites that a selector means, in program order.

    Args:
        sites: All the sites of a program.
        where: None for all; a name, or where no tag has it the address of a tag or of the
            value that it marks, or else a glob of names such as ``"block_*"``; a `Site`, of
            this program or one that it was made from; a dict of params that must be equal; a
            predicate on sites; or a list of these, each of which must find something.

    Raises:
        SelectorError: If nothing is found; it names what is near.
    """
    if isinstance(where, (list, tuple)):
        wanted = {site.address for one in where for site in select(sites, one)}
        found = [site for site in sites if site.address in wanted]
    else:
        fits = _test_of(sites, where)
        found = [site for site in sites if fits(site)]
    if not found:
        raise SelectorError(_nothing_found(sites, where))
    return found


def _test_of(sites: Sequence[Site], where: Any) -> Callable[[Site], bool]:
    if where is None:
        return lambda site: True
    if isinstance(where, str):
        return _test_of_text(sites, where)
    if isinstance(where, Site):
        # Tags that came or went may have moved its address; its variables stay. In a program
        # traced anew, the address must do.
        if any(where.is_same(site) for site in sites):
            return where.is_same
        return lambda site: (site.address, site.params) == (where.address, where.params)
    if isinstance(where, dict):
        return lambda site: all(
            key in site.params and site.params[key] == value for key, value in where.items()
        )
    if callable(where):
        return lambda site: bool(where(site))
    raise SelectorError(
        f"where={where!r} is a {type(where).__name__}. A selector is a name, a glob, an "
        "address, a Site, a dict of params, a predicate on sites, or a list of these."
    )


def _test_of_text(sites: Sequence[Site], where: str) -> Callable[[Site], bool]:
    if any(site.name == where for site in sites):
        return lambda site: site.name == where
    if any(where in (site.address, site.value_address) for site in sites):
        return lambda site: where in (site.address, site.value_address)
    return lambda site: isinstance(site.name, str) and fnmatch.fnmatchcase(site.name, where)


def _nothing_found(sites: Sequence[Site], where: Any) -> str:
    if not sites:
        return f"where={where!r}: the program has no tags. Put one with tag() or tag_at()."
    known = list(dict.fromkeys(str(site.name) for site in sites if site.name is not None))
    known += [site.address for site in sites]
    near = difflib.get_close_matches(str(where), known, n=5, cutoff=0.5)
    shown = near or known[:10]
    label = "Nearest" if near else "There are"
    return f"where={where!r} matches none of the {len(sites)} tags. {label}: {', '.join(shown)}."
