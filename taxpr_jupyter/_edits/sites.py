"""`SiteRow`: the tags of a program, from the source and added interactively."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jax

import taxpr
from taxpr_jupyter._analysis.index import Home, Index
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._text.short import aval_text
from taxpr_jupyter._tracing.sources import source_text

# A leaf of the context of injectors: the address of the tag, and a parameter, or a part of a state.
_VALUE = re.compile(r"ctx\['([^']+)'\]\['values'\]\['([^']+)'\](.*)")
_STATE = re.compile(r"ctx\['([^']+)'\]\['state'\](.*)")
_OF_SEVERAL = re.compile(r"\['[^']+'\]\['([^']+)'\](.*)")


@dataclasses.dataclass(frozen=True)
class SiteRow:
    """One tag.

    Attributes:
        address: Its address in the picture; it can move when tags are added before it.
        key: The stable key in the session: the address of the value that it marks, or else
            ``tag:`` and its address in the program as traced. No address looks like the latter.
        name: Its name, or None.
        params: All of its params.
        avals: The type of its token.
        added: Whether it was added interactively.
        injector: The injector attached to it, or None.
        trips: The most times that it fires in a run; None if only the run can tell.
        where: The nested jaxprs around it, in words.
        source: The user's source line that made it, or the value.
        refused: Why no injector can be attached to it; None if one can.
        site: The site in the program.
    """

    address: str
    key: str
    name: str | None
    params: Mapping[str, Any]
    avals: str
    added: bool
    injector: Attached | None
    trips: int | None
    where: str
    source: str
    refused: str | None
    site: taxpr.program.Site = dataclasses.field(repr=False, compare=False)

    @property
    def title(self) -> str:
        """Its name, its line and its address, for messages."""
        return str(self.site).removeprefix("tag ")


def site_rows(
    program: taxpr.Program,
    index: Index,
    added: Mapping[str, Any],
) -> tuple[SiteRow, ...]:
    """The tags of a program in program order, without their injectors."""
    rows = []
    for site, key, is_added in _keyed(program, added):
        home = index.home_of(site.address)
        rows.append(
            SiteRow(
                address=site.address,
                key=key,
                name=None if site.name is None else str(site.name),
                params=dict(site.params),
                avals=", ".join(aval_text(aval) for aval in jax.tree.leaves(site.avals)),
                added=is_added,
                injector=None,
                trips=site.trips,
                where=_where(home),
                source=source_text(site.source),
                refused=home.refused if home else None,
                site=site,
            )
        )
    return tuple(rows)


def _keyed(
    program: taxpr.Program, added: Mapping[str, Any]
) -> Iterator[tuple[taxpr.program.Site, str, bool]]:
    """Each site, its key, and whether it was added interactively."""
    seen: set[str] = set()
    of_source: dict[str, int] = {}  # the number of tags of the source so far in each jaxpr
    for site in program.tags():
        home, leaf = site.address.home, site.address.local
        value = site.value_address
        # `t0.0` is the result of another tag, and moves with that tag.
        if value is not None and value.kind == "tag":
            value = None
        is_added = value in added and value not in seen
        if not is_added:
            number = of_source.get(home, 0)
            of_source[home] = number + 1
            leaf = f"t{number}"
        key = value
        if key is None or key in seen:
            key = f"tag:{home / leaf}"
        seen.add(key)
        yield site, key, is_added


def _where(home: Home | None) -> str:
    """``scan body (3:scan) › true branch (4:cond)``."""
    words: list[str] = []
    while home is not None and home.steps:
        words.append(f"{home.title} ({home.steps[-1].local})")
        home = home.steps[-1].home
    return " › ".join(reversed(words))


def name_in_words(name: str, acting: Mapping[str, SiteRow]) -> str:
    """A leaf of the context as a person says it; other names stay as they are.

    Args:
        name: Its name, such as `ctx['t0']['values']['factor']`.
        acting: The tags with injectors, by their addresses.
    """
    found = _VALUE.fullmatch(name) or _STATE.fullmatch(name)
    site = acting.get(found[1]) if found else None
    if found is None or site is None or site.injector is None:
        return name
    *_, path = found.groups()
    label, what = site.injector.name, "ctx"
    if found.re is _VALUE:
        *several, what = found[2].rsplit(".", 1) if site.injector.parts else [found[2]]
        label = several[0] if several else label
    elif site.injector.parts and (part := _OF_SEVERAL.fullmatch(path)):
        label, path = part.groups()
    return f"{what}{path} of {label} at {site.name or site.key}"
