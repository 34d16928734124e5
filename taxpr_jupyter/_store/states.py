"""The part of a session that knows the states of its function, and their initial values."""

import itertools
from collections.abc import Iterator
from typing import Any

import jax

import taxpr
from taxpr_jupyter._analysis.stateful import StateEnds, states_of
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._states.pure_call import PureCall
from taxpr_jupyter._states.writes import writes_of
from taxpr_jupyter._store.state_rows import StateRow, state_row
from taxpr_jupyter._store.state_values import fitted, fitted_leaf, parsed
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._tracing.call_names import fresh


class States:
    """The states of the function, if it has any.

    Args:
        pure: The pure call that was traced, of a function that uses states.
    """

    def __init__(self, store: Store, pure: PureCall | None) -> None:
        self._store = store
        self.pure = pure

    @property
    def initial_states(self) -> dict[str, Any]:
        """The values that a run begins with, PyTrees by the names of the states.

        The states had them when the call was traced, or `set_state` has set them.
        """
        with self._store.lock:
            values = dict(self.pure.states) if self.pure else {}
            return values | dict(self._store.edits.states)

    def states(self) -> tuple[StateRow, ...]:
        """The states of the function, in the order of their names.

        Example:
            >>> import taxpr
            >>> from taxpr_jupyter import Session
            >>> total = taxpr.State(1.0, name="total")
            >>> def add(x):
            ...     total.value += x
            >>> print(*Session(add, (2.0,)).states())
            total (read and written): total: f32[] = 1.0
        """
        with self._store.lock:
            keys = {site.key for site in self._store.edited.sites}
            watched = {
                name: tuple(key for _, key in found if key in keys)
                for name, found in self._store.edits.watched.items()
            }
            return tuple(
                state_row(ends, value, before, watched.get(ends.name, ()))
                for ends, value, before in self._ends()
            )

    def set_state(self, name: str, value: Any) -> None:
        """Sets the initial value of a state for runs. The user's own state stays unchanged.

        Args:
            name: The name of the state, or of one array of its value, such as ``norm['mean']``.
            value: A value of its structure, shape and dtype. Numbers, nested lists of numbers, and
                text of these are converted if its dtype can hold them.

        Raises:
            PanelError: If there is no such state, or the value does not fit it.

        Example:
            >>> import taxpr
            >>> from taxpr_jupyter import Session
            >>> total = taxpr.State(0.0, name="total")
            >>> def add(x):
            ...     total.value += x
            ...     return total.value
            >>> session = Session(add, (2.0,))
            >>> session.set_state("total", 40)
            >>> print(session.run().outputs, total)
            42.0 State(float32[]=0.0, name='total')
        """
        with self._store.change("states"):
            if isinstance(value, str):
                value = parsed(value)
            for ends, now, _ in self._ends():
                if name == ends.name:
                    self._set_one(name, fitted(name, value, now))
                    return
                if name in ends.leaves:
                    leaves, tree = jax.tree.flatten(now)
                    at = ends.leaves.index(name)
                    leaves[at] = fitted_leaf(name, value, leaves[at])
                    self._set_one(ends.name, jax.tree.unflatten(tree, leaves))
                    return
            raise PanelError(self._unknown(name))

    def reset_state(self, name: str) -> None:
        """Resets the initial value of a state to its value when the call was traced.

        Args:
            name: The name of the state.

        Raises:
            PanelError: If there is no such state.
        """
        with self._store.change("states"):
            edited = dict(self._store.edits.states)
            edited.pop(self._ends_of(name).name, None)
            self._store.put(states=edited)

    def watch_state(self, name: str) -> tuple[str, ...]:
        """Tags the values written to a state, so that a run shows its value after each write.

        In a loop these are the values after each iteration.

        Args:
            name: The name of the state.

        Returns:
            The keys of the tags; `Run.records` has what was seen there. A constant that is written
            has none.

        Raises:
            PanelError: If there is no such state, it is only read, or belongs to another library.

        Example:
            >>> import jax, jax.numpy as jnp, taxpr
            >>> from taxpr_jupyter import Session
            >>> total = taxpr.State(0.0, name="total")
            >>> def add(x):
            ...     total.value += x
            ...     return x
            >>> session = Session(lambda xs: jax.lax.map(add, xs), (jnp.ones(3),))
            >>> [key] = session.watch_state("total")
            >>> print(session.run().records[key].value)
            [1. 2. 3.]
        """
        with self._store.change("tags"):
            ends = self._ends_of(name)
            if not ends.written:
                raise PanelError(f"The state {name} is only read: it keeps its value")
            assert self.pure is not None
            edited, found = self._store.edited, []
            for leaf, address in writes_of(self.pure, self._store.program, name):
                site = edited.site(address)
                if site is None:
                    key = edited.index.one_value(address)
                    tags = {**edited.edits.tags, key: {"name": _free_name(leaf, edited.sites)}}
                    edited = edited.changed(tags=tags)
                    site = edited.the_site(key)
                found.append((leaf, site.key))
            if not found:
                raise PanelError(f"Only constants are written to the state {name}")
            self._store.edited = edited.changed(
                watched={**edited.edits.watched, name: tuple(found)}
            )
            return tuple(dict.fromkeys(key for _, key in found))

    def unwatch_state(self, name: str) -> None:
        """Takes the tags of `watch_state` away again, except those in the source.

        Args:
            name: The name of the state.

        Raises:
            PanelError: If there is no such state.
        """
        with self._store.change("tags"):
            edits = self._store.edits
            watched = {k: keys for k, keys in edits.watched.items() if k != name}
            still = {key for _, key in itertools.chain(*watched.values())} | set(edits.attached)
            gone = {key for _, key in edits.watched.get(self._ends_of(name).name, ())} - still
            tags = {key: params for key, params in edits.tags.items() if key not in gone}
            self._store.put(tags=tags, watched=watched)

    def take_over(self, edits: Edits) -> list[str]:
        """Takes over what was set of states in an older session; returns their names."""
        kept = []
        names = {ends.name for ends, *_ in self._ends()}
        self._store.put(
            watched={name: self._seen_writes(name) for name in edits.watched if name in names}
        )
        for ends, now, _ in self._ends():
            if ends.name in edits.states:
                try:
                    self._set_one(ends.name, fitted(ends.name, edits.states[ends.name], now))
                    kept.append(ends.name)
                except PanelError:
                    self._store.notes += (f"Dropped: the initial value of {ends.name}.",)
        return kept

    # ---- within ------------------------------------------------------------------

    def _seen_writes(self, name: str) -> tuple[tuple[str, str], ...]:
        """The write to a state at an existing tag: the array, and the tag's key.

        A tag of an older program may now mark another value, so the writes are looked up again.
        """
        assert self.pure is not None
        try:
            writes = writes_of(self.pure, self._store.program, name)
        except taxpr.TaxprError as error:
            self._store.notes += (f"The state {name} is watched no longer: {one_line(error)}",)
            return ()
        sites = [(write.leaf, self._store.edited.site(write.address)) for write in writes]
        found = tuple((leaf, site.key) for leaf, site in sites if site is not None)
        if len(found) < len(writes):
            self._store.notes += (
                f"{len(found)} of the {count_of(len(writes), 'value')} written to the state {name} "
                f"are watched: session.watch_state({name!r}) watches all.",
            )
        return found

    def _ends(self) -> Iterator[tuple[StateEnds, Any, Any]]:
        """The states, with the initial values as they are, and as they were."""
        values = self.initial_states
        for ends in states_of(self._store.program):
            assert self.pure is not None
            yield ends, values[ends.name], self.pure.states[ends.name]

    def _ends_of(self, name: str) -> StateEnds:
        for ends, *_ in self._ends():
            if ends.name == name:
                return ends
        raise PanelError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        known = ", ".join(ends.name for ends, *_ in self._ends()) or "none"
        return f"There is no state {name!r}. The states of {self._store.program.name}: {known}"

    def _set_one(self, name: str, value: Any) -> None:
        self._store.put(states={**self._store.edits.states, name: value})


def _free_name(leaf: str, sites: Any) -> str:
    taken = {site.name for site in sites}
    return fresh(leaf, lambda name: name not in taken, " ")
