"""Selectors: which tags are meant."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from typing import Any

from taxpr._errors import SelectorError
from taxpr._walk import Site


def select(sites: Sequence[Site], where: Any, *, allow_empty: bool = False) -> list[Site]:
    """The sites that a selector means, in program order.

    Args:
        sites: All the sites of a program.
        where: None for all; a name; a glob of names such as ``"block_*"``; the address of
            a tag, or of the value that it marks; a `Site`; a dict of params that must be
            equal; a predicate on sites; or a list of these, of which one must fit.
        allow_empty: Whether nothing may be found.

    Raises:
        SelectorError: If nothing is found; it names what is near.
    """
    found = [site for site in sites if _fits(site, where)]
    if not found and not allow_empty:
        raise SelectorError(_nothing_found(sites, where))
    if isinstance(where, (list, tuple)) and not allow_empty:
        for one in where:
            select(sites, one)
    return found


def _fits(site: Site, where: Any) -> bool:
    if where is None:
        return True
    if isinstance(where, str):
        name = site.name
        return where in (site.address, site.value_address, name) or (
            isinstance(name, str) and fnmatch.fnmatchcase(name, where)
        )
    if isinstance(where, Site):
        return site.address == where.address
    if isinstance(where, dict):
        return all(key in site.params and site.params[key] == value for key, value in where.items())
    if isinstance(where, (list, tuple)):
        return any(_fits(site, one) for one in where)
    if callable(where):
        return bool(where(site))
    raise SelectorError(
        f"where={where!r} is a {type(where).__name__}. A selector is a name, a glob, an "
        "address, a Site, a dict of params, a predicate on sites, or a list of these."
    )


def _nothing_found(sites: Sequence[Site], where: Any) -> str:
    if not sites:
        return f"where={where!r}: the program has no tags. Put one with tag() or tag_at()."
    known = list(dict.fromkeys(str(site.name) for site in sites if site.name is not None))
    known += [site.address for site in sites]
    near = difflib.get_close_matches(str(where), known, n=5, cutoff=0.5)
    shown = near or known[:10]
    label = "Nearest" if near else "There are"
    return f"where={where!r} matches none of the {len(sites)} tags. {label}: {', '.join(shown)}."
