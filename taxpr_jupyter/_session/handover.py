"""Take over tags, injectors and values from an older session, and report it."""

from collections.abc import Sequence

from taxpr_jupyter._edits.edits import adopted
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._session.states import States
from taxpr_jupyter._session.store import Store
from taxpr_jupyter._text.short import visible


def hand_over(old: Store, store: Store, states: States) -> None:
    """Makes the edits of an older session to a new one, and notes what became of them.

    Args:
        old: The older program with its edits.
        store: The new one.
        states: Its states.
    """
    store.edited, moved, dropped = adopted(store.edited, old.edited, store.namespace)
    kept, ways = _kept(store.edited.sites, states.take_over(old.edits))
    if kept:
        store.notes += (
            f"Kept from the last run of this cell: {'; '.join(kept)}. "
            f"{_listed(ways)}, or the panel, {'drops' if len(ways) == 1 else 'drop'} them.",
        )
    if moved:
        store.notes += (f"Moved, since the program has changed: {', '.join(moved)}.",)
    if dropped:
        store.notes += (f"Dropped, since the program has changed: {', '.join(dropped)}.",)


def _kept(sites: Sequence[SiteRow], states: Sequence[str]) -> tuple[list[str], list[str]]:
    """A note on everything taken over from an older session, and the calls that drop it."""
    added = [_called(site) for site in sites if site.added]
    attached = [f"{s.injector.name} at {_called(s)}" for s in sites if s.injector]
    kept, ways = [], []
    if added:
        kept.append(f"{count_of(len(added), 'added tag')} ({_few(added)})")
        ways.append("`session.untag(name)`")
    if attached:
        kept.append(f"{count_of(len(attached), 'injector')} ({_few(attached)})")
        ways.append("`session.detach(name)`")
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
