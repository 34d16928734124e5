"""Choose tags by a selector."""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from taxpr import _compat
from taxpr._compat import Primitive
from taxpr._errors import SelectorError
from taxpr._sites.criteria import (
    Holding,
    Line,
    Scope,
    Selector,
    answer,
    is_params,
    nearest,
    nearest_lines,
    nearest_scopes,
    united,
)
from taxpr._sites.site import Site
from taxpr._sites.skipped import Refusal, Skipped, parted, refusal_of, skipped


class Selected(NamedTuple):
    """The sites to inject, and the places that were skipped."""

    sites: list[Site]
    skipped: tuple[Skipped, ...]


def select(sites: Sequence[Site], where: Selector) -> list[Site]:
    """The sites that a selector chooses, in program order; see `taxpr.find_tags`.

    Tags that stand for variables are chosen by these alone.

    Raises:
        SelectorError: If nothing matches and that was not allowed; it names similar tags.
    """
    return _selected(sites, where, lambda where, found, may_be_empty: found)


def select_to_inject(sites: Sequence[Site], where: Selector) -> Selected:
    """The chosen sites that can be injected.

    A tag that never fires is skipped unless its address is given, or nothing else is chosen. A tag
    that is refused for another reason is skipped if the selector only describes tags and does not
    name them.

    Raises:
        SelectorError: As for `select`.
    """
    over: list[tuple[Site, Refusal]] = []
    own = [site for site in sites if site.variable is None]

    def left(where: Selector, found: list[Site], may_be_empty: bool) -> list[Site]:
        if isinstance(where, Site) or _is_address(own, where):
            return found
        # A variable names its tags; a function that JAX also traced for derivatives binds it there.
        named = isinstance(where, (dict, Holding)) or any(site.name == where for site in own)

        def refusal(site: Site) -> Refusal | None:
            return refusal_of(site) if site.idle or not named else None

        kept, gone = parted(found, may_be_empty, refusal)
        over.extend(gone)
        return kept

    chosen = _selected(sites, where, left)
    taken = {site.address for site in chosen}
    return Selected(chosen, skipped(pair for pair in over if pair[0].address not in taken))


def _selected(
    sites: Sequence[Site], where: Selector, left: Callable[[Selector, list[Site], bool], list[Site]]
) -> list[Site]:
    """Evaluate a selector; ``left(where, found, may_be_empty)`` filters each selection."""
    own = [site for site in sites if site.variable is None]

    def one(where: Selector, may_be_empty: bool) -> list[Site]:
        of, fits = sites if isinstance(where, Holding) else own, _test_of(own, where)
        found = [site for site in of if fits(site)]
        if not found and not may_be_empty:
            raise SelectorError(_nothing_found(own, where))
        return left(where, found, may_be_empty)

    try:
        return united(sites, where, one)
    except SelectorError as error:
        if isinstance(where, tuple) and any(site.name == where for site in sites):
            raise SelectorError(
                f"where={where!r} is a list of selectors, as every tuple, and one of them fails: "
                f"{error} The tag whose name is the tuple is selected by {{'name': {where!r}}}."
            ) from None
        raise


def _test_of(sites: Sequence[Site], where: Selector) -> Callable[[Site], bool]:
    if where is None:
        return lambda site: True
    if isinstance(where, str):
        return _test_of_text(sites, where)
    if isinstance(where, Site):
        return same_site(sites, where)
    if is_params(where):
        return _test_of_params(where)
    if isinstance(where, (Scope, Line, Holding)):
        return where.fits
    if isinstance(where, _compat.Primitive):
        return lambda site: any(maker and maker.primitive is where for maker in site.makers)
    if callable(where):
        return lambda site: answer(where, site)
    raise SelectorError(
        f"where={where!r} is a {type(where).__name__}. A selector is a name, a glob, an "
        "address, a Site, a dict of params, a primitive, a scope(), a line(), a predicate on "
        "sites, a maybe(), or a list of these; of a Program also a var()."
    )


def same_site(sites: Sequence[Site], where: Site) -> Callable[[Site], bool]:
    """A test for the tag of a `Site`, which may be from before an edit of the program."""
    # An edit may have changed its address, but not its variables. In a program traced again,
    # compare addresses.
    if any(where.is_same(site) for site in sites):
        return where.is_same

    def place(site: Site) -> tuple[object, ...]:
        return site.address, site.params, site.value_address, site.source

    return lambda site: place(site) == place(where)


def _is_address(sites: Sequence[Site], where: Selector) -> bool:
    """Whether it is the address of a tag or of a tagged value, and not a name."""
    if not isinstance(where, str) or any(site.name == where for site in sites):
        return False
    return any(where in (site.address, site.value_address) for site in sites)


def _test_of_text(sites: Sequence[Site], where: str) -> Callable[[Site], bool]:
    if any(site.name == where for site in sites):
        return lambda site: site.name == where
    if _is_address(sites, where):
        return lambda site: where in (site.address, site.value_address)
    # Addresses of equations contain a colon, so a glob with a colon is one of addresses.
    by_name = [s for s in sites if isinstance(s.name, str) and fnmatch.fnmatchcase(s.name, where)]
    if by_name or ":" not in where:
        return lambda site: site in by_name
    return lambda site: fnmatch.fnmatchcase(site.address, where)


def _test_of_params(where: dict[str, Any]) -> Callable[[Site], bool]:
    for key, value in where.items():
        try:
            hash(value)
        except TypeError:
            raise SelectorError(
                f"where={where!r}: {key!r} is a {type(value).__name__}, which is not hashable. "
                "Params are hashable Python values, so that no tag has it."
            ) from None
    return lambda site: all(
        key in site.params and bool(site.params[key] == value) for key, value in where.items()
    )


def _nothing_found(sites: Sequence[Site], where: Selector) -> str:
    if not sites:
        return (
            f"where={where!r}: the program has no tags. Put one with tag() or tag_at(); or give a "
            'variable of a function: taxpr.var("name").'
        )
    said = f"where={where!r} matches none of the {len(sites)} tags."
    if isinstance(where, Scope):
        return said + nearest_scopes(sites, where)
    if isinstance(where, Line):
        return said + nearest_lines(sites, where)
    if isinstance(where, _compat.Primitive):
        return said + _other_makers(sites, where)
    known = [str(site.name) for site in sites if site.name is not None]
    known += [site.address for site in sites]
    if isinstance(where, Site):
        said = (
            f"where: this program has no {where}, and matches none of the {len(sites)} tags: the "
            "site is stale, of another program or of a tag that was taken out."
        )
    return said + nearest(where.address if isinstance(where, Site) else str(where), known)


def _other_makers(sites: Sequence[Site], where: Primitive) -> str:
    makers = {maker.primitive.name for site in sites for maker in site.makers if maker}
    inside = sum(any(step.eqn.primitive is where for step in site.steps) for site in sites)
    said = f" It selects tags on what {where.name} returns;"
    if inside:
        return said + f" {inside} are inside of a {where.name}: select these by '*:{where.name}/*'."
    shown = ", ".join(sorted(makers)) or "no equation"
    return said + f" the tagged values are made by {shown}."
