"""Apply the edits of an older program to another one, as far as their values are found again."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._edits.attach import refreshed, tried
from taxpr_jupyter._edits.carried import carried
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError


class Adopted(NamedTuple):
    """The result of applying edits to another program.

    Attributes:
        edited: The program with the edits that could be applied.
        moved: Edits whose address changed, in words.
        dropped: Edits that could not be applied, in words.
        keys: The keys of tags in the older program, with their keys here; None for tags that are
            gone.
    """

    edited: Edited
    moved: list[str]
    dropped: list[str]
    keys: dict[str, str | None]


def adopted(
    edited: Edited, old: Edited, namespace: Mapping[str, Any], *, same_source: bool = False
) -> Adopted:
    """Apply the edits of an older program to this one, as far as their values are found again.

    Args:
        edited: This program, traced with the changes of the source that are among its edits.
        old: The older one.
        namespace: Where injectors are looked up again.
        same_source: Whether the program has the same source, so that variables identify values.
    """
    moved, dropped = [], []
    keys: dict[str, str | None] = {}
    for key, params in old.edits.tags.items():
        there = _there(edited, old, key, same_source)
        keys[key] = there
        if there is None:
            dropped.append(f"the tag {params['name']!r} at {key}")
            continue
        if there != key:
            moved.append(f"the tag {params['name']!r} from {key} to {there}")
        if edited.site(there) is not None:
            continue  # the source has a tag there now
        taken = {site.name for site in edited.sites}
        name = edited.new_name(None if params["name"] in taken else params["name"])
        try:
            edited = edited.changed(tags={**edited.edits.tags, there: {**params, "name": name}})
        except taxpr.TaxprError:
            dropped.append(f"the tag {params['name']!r} at {key}")
    for key, attached in old.edits.attached.items():
        site = _same_tag(edited, old, key, keys, same_source)
        try:
            if site is None:
                raise PanelError(f"There is no tag at {key}")
            keys[key] = site.key
            new = attached
            waits = same_source and attached.trial is not None  # to be tried out in its turn
            if not attached.edits and not waits:
                new = refreshed(attached, namespace) or attached
                new = tried(dataclasses.replace(new, key=site.key), edited.program, site.site)
            new = dataclasses.replace(new, key=site.key)
            edited = edited.changed(attached={**edited.edits.attached, site.key: new})
        except PanelError:
            dropped.append(f"the injector {attached.name} at {key}")
    names = "unfolded", "by_hand", "only", "expressions"
    same = {name: getattr(old.edits, name) for name in names}
    return Adopted(edited.changed(**same), moved, dropped, keys)


def _there(edited: Edited, old: Edited, key: str, same_source: bool) -> str | None:
    attached = old.edits.attached.get(key)
    where = attached.variable if attached and attached.edits else None
    if where is None and same_source:
        where = old.base.var_of(key) if old.index.variable(key) is not None else None
    if where is not None:
        with contextlib.suppress(taxpr.TaxprError):
            found = taxpr.find_values(edited.base, where)
            return found[0].address if len(found) == 1 else None
        return None
    return carried(old.index, edited.index, key, old.edits.lines.get(key, ""))


def _same_tag(
    edited: Edited,
    old: Edited,
    key: str,
    keys: Mapping[str, str | None],
    same_source: bool,
) -> SiteRow | None:
    """The tag for an injector of the older program; source tags match by name."""
    before = next((site for site in old.sites if site.key == key), None)
    if before is not None and not before.added and before.name is not None:
        named = [site for site in edited.sites if site.name == before.name and not site.added]
        if len(named) == 1:
            return named[0]
    there = keys[key] if key in keys else _there(edited, old, key, same_source) or key
    return next((site for site in edited.sites if site.key == there), None)
