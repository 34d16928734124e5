"""`Edited`, a program with edits: what follows from them is computed when it is asked."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.index import Index
from taxpr_jupyter._analysis.stateful import injected_program
from taxpr_jupyter._edits import outline
from taxpr_jupyter._edits.attach import noted_already
from taxpr_jupyter._edits.carried import line_text
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._edits.inspect import Inspector
from taxpr_jupyter._edits.sites import SiteRow, name_in_words
from taxpr_jupyter._edits.tagged import Tagged
from taxpr_jupyter._errors import PanelError, nearest
from taxpr_jupyter._lines.line import ProgramLine, ProgramLines
from taxpr_jupyter._model.model import Marked
from taxpr_jupyter._text.short import Tooltips

# An address, the key or name of a tag, a variable, or a selector of one value, as `taxpr.var`.
Place: TypeAlias = Any
Several: TypeAlias = list[Place]

_SHOWN = 12  # values in a message
_LONGEST = 40  # characters of a change in a title


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
        self._inspector: Inspector | None = None
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
    def acting(self) -> tuple[SiteRow, ...]:
        """All tags, without the injectors that are switched off."""
        return tuple(
            dataclasses.replace(site, injector=None)
            if site.injector and site.injector.idle
            else site
            for site in self.sites
        )

    @functools.cached_property
    def passed_over(self) -> str:
        """The tags that a run skips and why, in words; empty without any."""
        refused = Counter(site.refused for site in self.sites if site.refused)
        if not refused:
            return ""
        of = "; ".join(f"{n} in {reason}" for reason, n in refused.items())
        n = refused.total()
        what = "1 tag that cannot" if n == 1 else f"{n} tags that cannot"
        return f"A run passes over {what} be injected, {of}."

    def inspector(self, divided: introspect.Divisions) -> Inspector:
        """Looks at the places of the program, whose values are so divided among devices."""
        kept = self._inspector
        if kept is None or kept.divided is not divided:
            kept = self._inspector = Inspector(self.tagged, self.sites, divided)
        return kept

    def injected(self) -> taxpr.Program:
        """The program with its tags and injectors.

        Raises:
            PanelError: If an injector cannot work.
        """
        attached = {
            site.site: site.injector
            for site in self.acting
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

    def injected_in_words(self) -> taxpr.Program:
        """The same, with names for people: `factor of scale at h` for a value of an injector.

        Raises:
            PanelError: If an injector cannot work.
        """
        injected = self.injected()
        acting = {site.address: site for site in self.acting if site.injector}
        made = [f"{one.injector} at {one.name or one.key}" for one in acting.values()]
        made += [one.line for one in self.edits.written]
        few = len(made) <= 2 and all(len(text) <= _LONGEST for text in made)
        said = f"with {' and '.join(made)}" if made and few else "with its changes"
        return dataclasses.replace(
            injected,
            name=f"{self.base.name} {said}",
            in_names=tuple(name_in_words(name, acting) for name in injected.in_names),
            out_names=tuple(name_in_words(name, acting) for name in injected.out_names),
        )

    @property
    def marked(self) -> Marked:
        """The tags that look different in pictures."""
        return Marked(
            frozenset(site.address for site in self.acting if site.injector),
            frozenset(site.address for site in self.sites if site.added),
        )

    def lines(
        self, limit: int | None = None, divided: introspect.Divisions | None = None
    ) -> list[ProgramLine]:
        """Every equation as a line, regardless of folding; at most `limit` lines."""
        divided = divided or self.tagged.divided()
        names = Tooltips(self.tagged.letters, held=self.tagged.held.name, divided=divided)
        return list(ProgramLines(names, marked=self.marked).all(self.program, limit))

    def rows(
        self, call: str, limit: int | None, divided: introspect.Divisions, color: bool = False
    ) -> list[tuple[str, str]]:
        """The first lines of the program as text, each with its address."""
        lines = self.lines(limit, divided)
        size = self.tagged.size
        more = size.total + size.others - len(lines)
        return outline.rows(lines, self.sites, call=call, color=color, eqns=size.eqns, more=more)

    def meant(self, place: Place) -> Place:
        """The place itself; for a variable, such as ``"f.x"`` or ``"x#1"``, a `taxpr.var`.

        An address or a tag of that name is meant rather than the variable.
        """
        if not isinstance(place, str) or self.index.values(place):
            return place
        if any(place in (site.key, site.name, site.address) for site in self.sites):
            return place
        name, _, number = place.rpartition("#")
        one = (
            taxpr.var(name, occurrence=int(number))
            if name and number.isdecimal()
            else taxpr.var(place)
        )
        return one if taxpr.find_values(self.program, taxpr.maybe(one)) else place

    def address_of(self, place: Place, *, or_list: bool = False) -> str:
        """The address of the one value that is meant; other texts stay as they are.

        Args:
            place: The place, or a selector of one value.
            or_list: Whether a list of places can be given, too.

        Raises:
            taxpr.errors.SelectorError: If it means no value.
            PanelError: If it means several.
        """
        given, place = place, self.meant(place)
        if isinstance(place, str):
            return place
        found = taxpr.find_values(self.program, place)
        if len(found) > 1:
            named = ", ".join(self._one_of(given, value.address) for value in found[:_SHOWN])
            rest = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            all_of_them = f" A list means all of them: [{given!r}]." if or_list else ""
            raise PanelError(
                f"{given!r} means {len(found)} values. Say which: {named}{rest}.{all_of_them}"
            )
        return found[0].address

    def each_of(self, places: Iterable[Place]) -> dict[str, Place]:
        """All values that are meant: for each its address, and a place that means only this one.

        Where one value of a variable has a tag of its name, the name means all its values.

        Raises:
            taxpr.errors.TaxprError: One of the places means no value.
        """
        found: dict[str, Place] = {}
        for place in places:
            meant = self.meant(place)
            if isinstance(meant, str):
                found |= {key: key for key in self._keys(meant)}
                continue
            values = taxpr.find_values(self.program, meant)
            found |= {one.address: meant if len(values) == 1 else one.address for one in values}
        return found

    def _keys(self, place: str) -> list[str]:
        """The values at an address, of a tag, or of a variable with the name of this tag."""
        if values := self.index.values(place):
            return [value for value, _ in values]
        site = self.the_site(place)
        if site.name == place:
            held = taxpr.find_values(self.program, taxpr.maybe(taxpr.var(place)))
            if site.key in (every := [str(value.address) for value in held]):
                return every
        return [site.key]

    def _one_of(self, given: Place, address: str) -> str:
        """How to mean one of the values that ``given`` means: ``h#1 (model.py:3)``."""
        held = [one for one in self.program.variables() if one.address == address]
        where = f" ({held[0].place})" if held else ""
        numbered = [f"{given}#{one.occurrence}" for one in held if isinstance(given, str)]
        name = next((name for name in numbered if self._means(name, address)), None)
        return f"{name or self.program.var_of(address) or address}{where}"

    def _means(self, name: str, address: str) -> bool:
        meant = self.meant(name)
        if isinstance(meant, str):
            return meant == address
        return [one.address for one in taxpr.find_values(self.program, meant)] == [address]

    def site(self, address: Place, *, or_list: bool = False) -> SiteRow | None:
        """The tag with this key, address or name, or None.

        An address of the program is not looked up as a name.

        Args:
            address: The key, address or name, or a selector of one value.
            or_list: See `address_of`.

        Raises:
            PanelError: If several tags have this name.
        """
        address = self.address_of(address, or_list=or_list)
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

    def the_site(self, address: Place, *, or_list: bool = False) -> SiteRow:
        """The tag with this key, address or name.

        Args:
            address: The key, address or name, or a selector of one value.
            or_list: See `address_of`.

        Raises:
            PanelError: If there is no such tag.
        """
        site = self.site(address, or_list=or_list)
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
            names = None if taxpr.Address(address).kind else self._names()
            return self.index.one_value(address, self._near(address), names)
        whose = "" if site.added else ", in the source"
        raise PanelError(
            f"{address} is tagged already, as {site.title}{whose}: attach an injector to that tag"
        )

    def _near(self, address: str) -> str:
        """A list of the tags and variables for messages, those with similar names first."""
        titles = {site.title: site.name or site.address for site in self.sites}
        said = f"Tags: {nearest(address, titles) or 'none'}"
        if not taxpr.Address(address).kind:
            said += f". Variables: {nearest(address, self._names()) or 'none'}"
        return said

    def _names(self) -> list[str]:
        return list(dict.fromkeys(one.text for one in self.program.variables()))

    def new_name(self, name: str | None, address: str = "", *, numbered: bool = False) -> str:
        """``name``, or a free one: the variable that held the value, or ``tag1``, ``tag2``, ….

        Args:
            name: The wanted name, or None.
            address: The address of the value.
            numbered: Whether a name that is taken gets a number.

        Raises:
            PanelError: If the name is taken.
        """
        taken = {site.name: site for site in self.sites}
        if name in taken and name is not None and not numbered:
            raise PanelError(f"The name {name!r} is taken by the tag {taken[name].title}")
        if name is not None and not numbered:
            return name
        held = name or self.tagged.held.name(address)
        free = (f"{held or 'tag'}{k}" for k in itertools.count(2 if held else 1))
        return held if held and held not in taken else next(n for n in free if n not in taken)
