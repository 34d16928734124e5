"""The part of a session that traces the call again with changes of its source."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax

import taxpr
from taxpr import introspect
from taxpr_jupyter._edits.adopted import Adopted, adopted
from taxpr_jupyter._edits.attach import tried
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.edits import Edits, Written
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._stoppable import STOPPING
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tracing.changed import (
    SourceChange,
    changed,
    ignoring,
    numbers_of,
    traced_changed,
)
from taxpr_jupyter._tracing.mistakes import mistake
from taxpr_jupyter._tracing.trace import Names, TracedCall

_KEPT = 8  # programs, the untouched one besides
EDITED = (
    "The source is edited here (taxpr.edit) before it is differentiated, so derivatives are of the "
    "changed function."
)
STAYS = "It stays an injection, since {why}"

_Warnings: TypeAlias = Mapping[Any, tuple[Warning, ...]]


class Tracer:
    """Keeps the program as the changes of the source want it.

    Args:
        names: Which variables are noted, as for `Session`.
    """

    def __init__(self, store: Store, start: TracedCall, names: Names) -> None:
        self._store = store
        self._start = start
        self._names = names
        # Programs by their changes, each with the warnings of its changes by their keys.
        self._programs: collections.OrderedDict[Any, tuple[taxpr.Program, _Warnings]]
        self._programs = collections.OrderedDict()

    @property
    def fun(self) -> Any:
        """The function with the changes, of states, arguments and the numbers of the changes."""
        return changed(self._start.fun, self._store.edits.changes)

    @property
    def untouched_fun(self) -> Any:
        """The function without the changes, of the same arguments."""
        return ignoring(self._start.fun, numbers_of(self._store.edits.changes))

    @property
    def outdated(self) -> bool:
        """Whether variables that a function among the changes reads have other values now."""
        changes = self._store.edits.changes
        program, _ = self._programs.get(tuple(one.key for one in changes), (None, {}))
        return bool(changes) and program is not self._store.program

    def synced(self, edited: Edited) -> Adopted:
        """The program traced with the changes that the edits name, and the edits at its places.

        Raises:
            PanelError: It cannot be traced with them.
        """
        program = self._traced(edited.edits.changes)
        if program is edited.base:
            return Adopted(edited, [], [], {})
        kept = {"states": edited.edits.states, "written": edited.edits.written}
        new = Edited(program, Edits(**kept))
        found = adopted(new, edited, self._store.namespace, same_source=True)
        if len(found.edited.edits.changes) < len(edited.edits.changes):  # some have no place there
            again = self.synced(found.edited)
            keys = {key: again.keys.get(there) for key, there in found.keys.items() if there}
            return again._replace(dropped=found.dropped + again.dropped, keys=keys)
        watched = {
            state: tuple((leaf, now) for leaf, key in pairs if (now := found.keys.get(key)))
            for state, pairs in edited.edits.watched.items()
        }
        return found._replace(edited=found.edited.changed(watched=watched))

    def put(self, **changes: Any) -> dict[str, str | None]:
        """Puts other edits in place, and the program as they want it; within `Store.change`.

        Returns:
            The keys of tags before, and now.
        """
        found = self.synced(self._store.edited.changed(**changes))
        self.place(found)
        return found.keys

    def place(self, found: Adopted) -> None:
        """Puts a program with its edits in place, and notes what of them was lost."""
        self._store.edited = found.edited.changed(**self._store.folding(found.edited))
        self._store.move(found.keys)
        if found.dropped:
            lost = f"Dropped, since the program has changed: {', '.join(found.dropped)}."
            self._store.notes += (lost,)

    def tried(self, attached: Attached, edited: Edited) -> tuple[Attached, Adopted]:
        """Tries out an injector where it is in place, as an edit if that is needed and possible.

        Returns:
            The injector as it is to be placed, and the program for it.

        Raises:
            PanelError: No injector can work there, or its ctx cannot be computed.
        """
        now = self.synced(edited)
        site = now.edited.the_site(now.keys.get(attached.key) or attached.key)
        attached = dataclasses.replace(attached, key=site.key)
        if attached.edits:
            return self._edit(attached), now
        new = tried(attached, now.edited.program, site.site)
        stale = any(isinstance(one, taxpr.errors.StaleDerivativeWarning) for one in new.warned)
        if new.error or not stale or not site.added:  # a tag of the source is no variable
            return new, now
        try:
            edit, again = self._by_edit(new, now.edited, site)
        except STOPPING:
            raise
        except Exception as error:
            why = STAYS.format(why=one_line(error).removeprefix("edit: "))
            return dataclasses.replace(new, note=f"{new.note} {why}"), now
        keys = {key: there and again.keys.get(there, there) for key, there in now.keys.items()}
        return edit, again._replace(keys={**again.keys, **keys})

    def take_over(self, old: Edited) -> tuple[Edited, list[str]]:
        """The program with the changes of an older session, and those that do not fit it."""
        written: list[Written] = []
        lost: list[str] = []
        parts = self._store.program.listing().parts if old.edits.written else ()
        files = dict.fromkeys(part.file for part in parts)
        for one in old.edits.written:
            now = one.among(files)
            if now is None or not self._can((*written, now), ()):
                lost.append(f"the edit of {one.place.place} to {one.line!r}")
            else:
                written.append(now)
        edits: list[Attached] = []
        for attached in old.edits.attached.values():
            if attached.edits and self._can(written, (*edits, attached)):
                edits.append(attached)
        program = self._traced(_changes(written, edits))
        return Edited(program, Edits(written=tuple(written))), lost

    # ---- within ------------------------------------------------------------------

    def _can(self, written: Sequence[Written], attached: Sequence[Attached]) -> bool:
        try:
            self._traced(_changes(written, attached))
        except PanelError:
            return False
        return True

    def _traced(self, changes: Sequence[SourceChange]) -> taxpr.Program:
        if not changes:
            return self._store.untouched
        key = tuple(one.key for one in changes)
        if key not in self._programs:
            seen: list[Warning] = []
            try:
                with introspect.warnings_to(seen.append):
                    program = traced_changed(self._start, changes, self._names)
            except STOPPING:
                raise
            except BaseException as error:
                lines = {one.where.line for one in changes}
                raise PanelError(mistake(error, lines)) from error
            same = [one for one in seen if isinstance(one, taxpr.errors.SameNoiseWarning)]
            warned = {
                change.key: tuple(one for one in same if one.variable == change.where.text)
                for change in changes
            }
            self._programs[key] = program, warned
            while len(self._programs) > _KEPT:
                self._programs.popitem(last=False)
        self._programs.move_to_end(key)
        return self._programs[key][0]

    def _by_edit(
        self, attached: Attached, edited: Edited, site: SiteRow
    ) -> tuple[Attached, Adopted]:
        """The injector as an edit of its variable.

        Raises:
            Exception: Why it can be none.
        """
        if jax.tree.leaves(attached.ctx):
            raise PanelError("a function of yours is called with a context, and a line has none.")
        held = HeldVariables(edited.base)
        where = attached.variable or _variable(edited.base, held, site.key)
        edit = dataclasses.replace(attached, variable=where, edits=True)
        edit = dataclasses.replace(edit, error=None, trial=None)
        before = edited.changed(attached={**edited.edits.attached, site.key: edit})
        found = self.synced(before)
        key = found.keys.get(site.key)
        if key is None:
            raise PanelError(f"what {where!r} holds then is no value of the program")
        names = [
            {(v.owner, v.text) for v in one.at(at)}
            for one, at in ((held, site.key), (HeldVariables(found.edited.base), key))
        ]
        if attached.variable is None and not names[0] <= names[1]:
            others = ", ".join(sorted({v.short for v in held.at(site.key)}))
            raise PanelError(
                f"several variables hold the value ({others}), and the line binds only one of "
                "them: say which by session.attach(taxpr.var(...), ...)"
            )
        return self._edit(dataclasses.replace(edit, key=key)), found

    def _edit(self, attached: Attached) -> Attached:
        """The same, which works as an edit of the source."""
        key = SourceChange(attached.variable, attached.injector).key
        latest = (warned for _, warned in reversed(self._programs.values()) if key in warned)
        warned = next(latest, {}).get(key, ())
        note = " ".join([EDITED, *map(str, warned)])
        return dataclasses.replace(attached, error=None, note=note, warned=warned, trial=None)


def _changes(written: Sequence[Written], attached: Sequence[Attached]) -> tuple[SourceChange, ...]:
    edits = Edits(attached={one.key: one for one in attached}, written=tuple(written))
    return edits.changes


def _variable(program: taxpr.Program, held: HeldVariables, key: str) -> Any:
    """The first variable that held a value.

    Raises:
        PanelError: If no variable held it.
    """
    variables = held.at(key)
    if not variables:
        raise PanelError("no variable held the value: give it a name in the source")
    names = {(one.owner, one.text) for one in variables}
    if len(names) == 1:
        return program.var_of(key)
    first = variables[0]
    where = taxpr.var(first.short)
    if len(taxpr.find_values(program, where)) > 1:
        where = taxpr.var(first.short, occurrence=first.occurrence)
    return where
