"""`Edits`, the user's changes as plain data, and `Edited`, a program with them.

`Edited` computes what follows from the changes when it is asked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import taxpr
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.stateful import injected_program
from taxpr_jupyter._edits import outline
from taxpr_jupyter._edits.attach import Attached, noted_already, refreshed, tried
from taxpr_jupyter._edits.carried import carried, line_text
from taxpr_jupyter._edits.inspect import Inspector
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._edits.tagged import Tagged
from taxpr_jupyter._errors import PanelError, nearest
from taxpr_jupyter._lines.assignments import Assignment, assignments
from taxpr_jupyter._lines.line import Line, Lines
from taxpr_jupyter._model.model import Marked
from taxpr_jupyter._text.short import Tooltips
from taxpr_jupyter._tracing.changed import Change
from taxpr_jupyter._tree.focus import Only

# An address, the key or name of a tag, or a selector of one value such as a `taxpr.var`.
Place: TypeAlias = Any
_SHOWN = 12  # values in a message


@dataclasses.dataclass(frozen=True)
class Written:
    """A line of the source that was typed over.

    Attributes:
        place: The line it was typed over, with its file.
        text: The new right-hand side.
    """

    place: Assignment
    text: str

    @property
    def where(self) -> Any:
        """The variable that the line binds."""
        return taxpr.var(self.place.variable, line=self.place.line)

    @property
    def elsewhere(self) -> Any:
        """The same for code that may run where lines are others: without the line, if it can be."""
        return taxpr.var(self.place.variable) if self.place.alone else self.where

    @property
    def line(self) -> str:
        """The new line."""
        return f"{self.place.head}{self.text}"

    def among(self, files: Iterable[str]) -> Written | None:
        """The same line in files that may have changed; None if it is not there, or twice."""
        old = self.place.variable, self.place.text
        every = [one for file in files for one in assignments(file).values()]
        found = [one for one in every if (one.variable, one.text) == old]
        return Written(found[0], self.text) if len(found) == 1 else None


@dataclasses.dataclass(frozen=True)
class Edits:
    """The changes. Addresses are those of the program as traced.

    Attributes:
        tags: The params of the added tags, by value address.
        attached: The injectors, by the key of their site.
        unfolded: The addresses drawn open; None if the picture chooses.
        by_hand: Those of them that the user unfolded.
        only: The part that is drawn; None for all.
        note: A remark for the user about the last change of the picture.
        states: The initial values that were set, by the name of the state.
        lines: The source line that makes a tagged value, by the key of its tag, to find the value
            again after the user has edited the source.
        watched: For each state the places that write to it: the array of its value, such as
            `norm['mean']`, and the key of the tag there.
        written: The lines of the source that were typed over.
    """

    tags: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    attached: Mapping[str, Attached] = dataclasses.field(default_factory=dict)
    unfolded: frozenset[str] | None = None
    by_hand: frozenset[str] = frozenset()
    only: Only | None = None
    note: str = ""
    states: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    watched: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(default_factory=dict)
    written: tuple[Written, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of the source with which the program is traced."""
        typed = (Change(one.where, one.line) for one in self.written)
        edits = (one for one in self.attached.values() if one.edits)
        return (*typed, *(Change(one.variable, one.injector) for one in edits))

    def runs_as(self, other: Edits) -> bool:
        """Whether a run gives the same results with other edits, which may differ in folding."""
        return (
            self.tags is other.tags
            and self.states is other.states
            and self.watched == other.watched
            and self.written == other.written
            and self._injectors() == other._injectors()
        )

    def _injectors(self) -> dict[str, int]:
        return {key: id(one.injector) for key, one in self.attached.items()}


class Edited:
    """A program with edits.

    Args:
        program: The program as traced.
        edits: The changes.
        before: The same program with other edits, whose cached results may be reused.
    """

    def __init__(self, program: taxpr.Program, edits: Edits, before: Edited | None = None) -> None:
        self.base = program
        self.edits = edits
        if before is not None and before.edits.tags == edits.tags:
            self.tagged = before.tagged
        else:
            self.tagged = Tagged(program, edits.tags)

    @property
    def program(self) -> taxpr.Program:
        """The program with the added tags."""
        return self.tagged.program

    @property
    def index(self) -> Index:
        """The places of that program."""
        return self.tagged.index

    def changed(self, **changes: Any) -> Edited:
        """The program with other edits. Raises if they are impossible."""
        if (
            keys := {*changes.get("tags", ()), *changes.get("attached", ())}
            - self.edits.lines.keys()
        ):
            lines = {key: line_text(self.index, key) for key in keys}
            changes["lines"] = {**self.edits.lines, **lines}
        new = Edited(self.base, dataclasses.replace(self.edits, **changes), self)
        _ = new.sites
        return new

    @functools.cached_property
    def sites(self) -> tuple[SiteRow, ...]:
        """All tags, in program order."""
        attached = self.edits.attached
        rows = self.tagged.rows
        return tuple(dataclasses.replace(row, injector=attached.get(row.key)) for row in rows)

    @functools.cached_property
    def passed_over(self) -> str:
        """The tags that a run skips and why, in words; empty if there are none."""
        refused = Counter(site.refused for site in self.sites if site.refused)
        if not refused:
            return ""
        of = "; ".join(f"{n} in {reason}" for reason, n in refused.items())
        n = refused.total()
        what = "1 tag that cannot" if n == 1 else f"{n} tags that cannot"
        return f"A run passes over {what} be injected, {of}."

    @functools.cached_property
    def inspector(self) -> Inspector:
        """Looks at the places of the program."""
        return Inspector(self.tagged, self.sites)

    def injected(self) -> taxpr.Program:
        """The program with its tags and injectors.

        Raises:
            PanelError: If an injector cannot work.
        """
        attached = {
            site.site: site.injector
            for site in self.sites
            if site.injector and not site.injector.edits
        }
        for site, injector in attached.items():
            if injector.error:
                raise PanelError(f"The injector at {site} cannot work: {injector.error}")
        if not attached:
            return self.program
        with noted_already():
            injected = self.program.inject({site: one.injector for site, one in attached.items()})
        return injected_program(injected, self.program)

    @property
    def marked(self) -> Marked:
        """The tags that look different in pictures."""
        return Marked(
            frozenset(site.address for site in self.sites if site.injector),
            frozenset(site.address for site in self.sites if site.added),
        )

    def lines(self, limit: int | None = None) -> list[Line]:
        """Every equation as a line, regardless of folding; at most `limit` lines."""
        names = Tooltips(self.tagged.letters, held=self.tagged.held.name)
        return list(Lines(names, marked=self.marked).all(self.program, limit))

    def rows(self, call: str, limit: int | None, color: bool = False) -> list[tuple[str, str]]:
        """The first lines of the program as text, each with its address."""
        lines = self.lines(limit)
        size = self.tagged.size
        more = size.total + size.others - len(lines)
        return outline.rows(lines, self.sites, call=call, color=color, eqns=size.eqns, more=more)

    def address_of(self, place: Place) -> str:
        """The address of the one value that a selector means; a text stays as it is.

        Raises:
            taxpr.errors.SelectorError: If it means no value.
            PanelError: If it means several.
        """
        if isinstance(place, str):
            return place
        found = taxpr.find_values(self.program, place)
        if len(found) > 1:
            shown = [value.address for value in found[:_SHOWN]]
            named = ", ".join(str(self.program.var_of(one) or one) for one in shown)
            each = f" Or do it with each: for one in [{named}]: session.attach(one, ...)."
            more = each if len(found) <= _SHOWN else ""
            raise PanelError(f"{place} means {len(found)} values. Say which: {named}.{more}")
        return found[0].address

    def site(self, address: Place) -> SiteRow | None:
        """The tag with this key, address or name; None if there is none.

        An address of the program is not looked up as a name.

        Raises:
            PanelError: If several tags have this name.
        """
        address = self.address_of(address)
        for site in self.sites:
            if site.key == address:
                return site
        for site in self.sites:
            # `t0.0` is what the tag at `t0` returns.
            if address == site.address or address.startswith(f"{site.address}."):
                return site
        if address not in self.index.homes and (values := self.index.values(address)):
            whole = values[0][0] if len(values) == 1 else None
            return next((site for site in self.sites if site.key == whole), None)
        named = [site for site in self.sites if site.name == address]
        if len(named) > 1:
            places = ", ".join(site.title for site in named)
            raise PanelError(f"Several tags have the name {address!r}: say which, of {places}")
        return named[0] if named else None

    def the_site(self, address: Place) -> SiteRow:
        """The tag with this key, address or name.

        Raises:
            PanelError: If there is none.
        """
        site = self.site(address)
        if site is None:
            near = self._near(self.address_of(address))
            raise PanelError(f"There is no tag at {address!r}. {near}")
        return site

    def untagged_value(self, address: Place) -> str:
        """The address of a value that has no tag yet.

        Raises:
            PanelError: If it has a tag, or there is no such value.
        """
        address = self.address_of(address)
        site = self.site(address)
        if site is None:
            return self.index.one_value(address, self._near(address))
        whose = "" if site.added else ", in the source"
        raise PanelError(
            f"{address} is tagged already, as {site.title}{whose}: attach an injector to that tag"
        )

    def _near(self, address: str) -> str:
        """A list of the tags for messages, those with similar names first."""
        titles = {site.title: site.name or site.address for site in self.sites}
        return f"Tags: {nearest(address, titles) or 'none'}"

    def new_name(self, name: str | None, address: str = "") -> str:
        """``name``, or a free one: the variable that held the value, or ``tag1``, ``tag2``, ….

        Raises:
            PanelError: If the name is taken.
        """
        taken = {site.name: site for site in self.sites}
        if name is None:
            held = self.tagged.held.name(address)
            free = (f"{held or 'tag'}{k}" for k in itertools.count(2 if held else 1))
            return held if held and held not in taken else next(n for n in free if n not in taken)
        if name in taken:
            raise PanelError(f"The name {name!r} is taken by the tag {taken[name].title}")
        return name


class Adopted(NamedTuple):
    """The result of applying edits to another program.

    Attributes:
        edited: The program with the edits that could be applied.
        moved: Edits whose address changed, in words.
        dropped: Edits that could not be applied, in words.
        keys: The keys of tags in the older program, and those here; None for what is gone.
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
        same_source: Whether the program is of the same source, in which variables tell values.
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
            if not attached.edits:
                new = refreshed(attached, namespace) or attached
                new = tried(dataclasses.replace(new, key=site.key), edited.program, site.site)
            new = dataclasses.replace(new, key=site.key)
            edited = edited.changed(attached={**edited.edits.attached, site.key: new})
        except PanelError:
            dropped.append(f"the injector {attached.name} at {key}")
    same = {"unfolded": old.edits.unfolded, "by_hand": old.edits.by_hand, "only": old.edits.only}
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
    """The tag to which an injector of the older program belongs; source tags match by name."""
    before = next((site for site in old.sites if site.key == key), None)
    if before is not None and not before.added and before.name is not None:
        named = [site for site in edited.sites if site.name == before.name and not site.added]
        if len(named) == 1:
            return named[0]
    there = keys[key] if key in keys else _there(edited, old, key, same_source) or key
    return next((site for site in edited.sites if site.key == there), None)
