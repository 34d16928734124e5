"""Make the edits of an older session to a new one, and say what became of them."""

from collections.abc import Sequence

from taxpr_jupyter._edits.adopted import adopted
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._store.states import States
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._store.tracer import Tracer
from taxpr_jupyter._text.short import visible

KEPT = "what was kept from the last run of this cell"


def hand_over(old: Store, store: Store, states: States, tracer: Tracer) -> None:
    """Makes the edits of an older session in a new one, and notes moved and lost ones.

    Args:
        old: The older program with its edits.
        store: The new one.
        states: Its states.
        tracer: Traces it with the changes of the older one.
    """
    edited, dropped = tracer.take_over(old.edited)
    found = adopted(edited, old.edited, store.namespace)
    found = tracer.synced(found.edited)._replace(moved=found.moved, dropped=found.dropped)
    store.edited, moved = found.edited, found.moved
    dropped = [*dropped, *found.dropped]
    kept, ways = _kept(store.edited, states.take_over(old.edits))
    if kept:
        store.notes += (
            f"Kept from the last run of this cell: {'; '.join(kept)}. "
            f"{_listed(ways)}, or the panel, {'drops' if len(ways) == 1 else 'drop'} them.",
        )
    if moved:
        store.notes += (f"Moved, since the program has changed: {', '.join(moved)}.",)
    if dropped:
        store.notes += (f"Dropped, since the program has changed: {', '.join(dropped)}.",)


def _kept(edited: Edited, states: Sequence[str]) -> tuple[list[str], list[str]]:
    """A note on everything taken over from an older session, and the calls that drop it."""
    sites = edited.sites
    added = [_called(site) for site in sites if site.added]
    attached = [f"{s.injector.name} at {_called(s)}" for s in sites if s.injector]
    kept, ways = [], []
    if added:
        kept.append(f"{count_of(len(added), 'added tag')} ({_few(added)})")
        ways.append("`session.untag(name)`")
    if attached:
        kept.append(f"{count_of(len(attached), 'injector')} ({_few(attached)})")
        ways.append("`session.detach(name)`")
    if written := [one.place.place for one in edited.edits.written]:
        kept.append(f"{count_of(len(written), 'edited line')} ({_few(written)})")
        ways.append("`session.unedit(line)`")
    if states:
        kept.append(f"{count_of(len(states), 'initial value')} ({_few(states)})")
        ways.append("`session.reset_state(name)`")
    return kept, ways


def _called(site: SiteRow) -> str:
    return visible(site.name or site.address)


def _few(names: Sequence[str], most: int = 4) -> str:
    """Some names: `h, loss, 3 more`."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
