"""The part of a session that knows the states of its function."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import jax

import taxpr
from taxpr_jupyter._analysis.stateful import StateEnds, states_of
from taxpr_jupyter._edits.drawn import Drawn
from taxpr_jupyter._errors import PanelError, one_line
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.released import Released
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._session.editor import Editor
from taxpr_jupyter._session.finding import Finding
from taxpr_jupyter._session.state_rows import StateRow, state_row
from taxpr_jupyter._session.state_values import (
    fitted,
    fitted_leaf,
    parsed,
)
from taxpr_jupyter._states.model import PureCall
from taxpr_jupyter._states.writes import writes_of


class WithStates(Finding):
    """A program with states, or without.

    Args:
        program: The program as traced.
        namespace: Where functions to inject are looked up.
        drawn: Draws the program.
        pure: The pure call that was traced, of a function that uses states.
    """

    def __init__(
        self,
        program: taxpr.Program,
        namespace: Mapping[str, Any],
        drawn: Drawn,
        pure: PureCall | None,
    ) -> None:
        super().__init__(program, namespace, drawn)
        self._pure = pure

    @property
    def last(self) -> Run | None:
        """The last run, or None."""
        raise NotImplementedError

    @property
    def initial_states(self) -> dict[str, Any]:
        """The values that a run begins with, PyTrees by the names of the states.

        They are those that the states had when the call was traced, and what `set_state` made of
        them.
        """
        with self._lock:
            values = dict(self._pure.states) if self._pure else {}
            return values | dict(self._edited.edits.states)

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
        with self._lock:
            keys = {site.key for site in self._edited.sites}
            watched = {
                name: tuple(key for _, key in found if key in keys)
                for name, found in self._edited.edits.watched.items()
            }
            return tuple(
                state_row(ends, value, before, watched.get(ends.name, ()))
                for ends, value, before in self._ends()
            )

    def set_state(self, name: str, value: Any) -> None:
        """Sets what a run begins with. The user's own state stays as it is.

        Args:
            name: Of the state, or of one array of its value, such as ``norm['mean']``.
            value: Of its structure, shape and dtype. Numbers, nested lists of numbers, and text of
                these become of its dtype where that keeps them.

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
        with self._change("states"):
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
        """Lets runs begin with the value again that a state had when the call was traced.

        Args:
            name: Of the state.

        Raises:
            PanelError: If there is no such state.
        """
        with self._change("states"):
            edited = dict(self._edited.edits.states)
            edited.pop(self._ends_of(name).name, None)
            self._set(states=edited)

    def watch_state(self, name: str) -> tuple[str, ...]:
        """Tags what is written to a state, so that a run shows its value after each write.

        In a loop these are the values after each iteration.

        Args:
            name: Of the state.

        Returns:
            The keys of the tags; `Run.records` has what was seen there. A constant that is written
            has none.

        Raises:
            PanelError: If there is no such state, it is only read, or is one of another library.

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
        with self._change("tags"):
            ends = self._ends_of(name)
            if not ends.written:
                raise PanelError(f"The state {name} is only read: it keeps its value")
            assert self._pure is not None
            edited, found = self._edited, []
            for leaf, address in writes_of(self._pure, self.program, name):
                site = edited.site(address)
                if site is None:
                    key = edited.index.one_value(address)
                    tags = {**edited.edits.tags, key: {"name": _free_name(leaf, edited.sites)}}
                    edited = edited.changed(tags=tags)
                    site = edited.the_site(key)
                found.append((leaf, site.key))
            if not found:
                raise PanelError(f"Only constants are written to the state {name}")
            self._edited = edited.changed(watched={**edited.edits.watched, name: tuple(found)})
            return tuple(dict.fromkeys(key for _, key in found))

    def unwatch_state(self, name: str) -> None:
        """Takes the tags of `watch_state` away again, except those in the source.

        Args:
            name: Of the state.

        Raises:
            PanelError: If there is no such state.
        """
        with self._change("tags"):
            edits = self._edited.edits
            watched = {k: keys for k, keys in edits.watched.items() if k != name}
            still = {key for _, key in itertools.chain(*watched.values())} | set(edits.attached)
            gone = {key for _, key in edits.watched.get(self._ends_of(name).name, ())} - still
            tags = {key: params for key, params in edits.tags.items() if key not in gone}
            self._set(tags=tags, watched=watched)

    def write_states(self) -> dict[str, Any]:
        """Sets the user's own states to what the last run ended with, injectors and all.

        A run itself never changes them.

        Returns:
            The values, by name.

        Raises:
            PanelError: If there is no run that came to its end, or nothing that holds the states.
        """
        with self._change("states"):
            last = self.last
            if last is None or not last.ok or not last.states:
                raise PanelError("There is no run with states whose values could be written")
            assert self._pure is not None
            if self._pure.write is None:
                raise PanelError(
                    f"States of {self._pure.library} are in no object that could be written to: "
                    "use `session.last.final_states`"
                )
            values = dict(last.final_states)
            if any(isinstance(leaf, Released) for leaf in jax.tree.leaves(values)):
                raise PanelError("The last values of the states were released: run again first")
            self._pure.write(values)
            return values

    # ---- within ------------------------------------------------------------------

    def _take_states(self, old: Editor) -> list[str]:
        edits, kept = old._edited.edits, []
        names = {ends.name for ends, *_ in self._ends()}
        self._set(
            watched={name: self._seen_writes(name) for name in edits.watched if name in names}
        )
        for ends, now, _ in self._ends():
            if ends.name in edits.states:
                try:
                    self._set_one(ends.name, fitted(ends.name, edits.states[ends.name], now))
                    kept.append(ends.name)
                except PanelError:
                    self.notes += (f"Dropped: the initial value of {ends.name}.",)
        return kept

    def _seen_writes(self, name: str) -> tuple[tuple[str, str], ...]:
        """What is written to a state at a tag that is there: the array, and the tag's key.

        The tags of an older program can be at other values now, so the writes are looked up.
        """
        assert self._pure is not None
        try:
            writes = writes_of(self._pure, self.program, name)
        except taxpr.TaxprError as error:
            self.notes += (f"The state {name} is watched no longer: {one_line(error)}",)
            return ()
        sites = [(write.leaf, self._edited.site(write.address)) for write in writes]
        found = tuple((leaf, site.key) for leaf, site in sites if site is not None)
        if len(found) < len(writes):
            self.notes += (
                f"Of the {count_of(len(writes), 'value')} written to the state {name}, "
                f"{len(found)} are watched: session.watch_state({name!r}) watches all.",
            )
        return found

    def _ends(self) -> Iterator[tuple[StateEnds, Any, Any]]:
        """The states, with the initial values as they are, and as they were."""
        values = self.initial_states
        for ends in states_of(self.program):
            assert self._pure is not None
            yield ends, values[ends.name], self._pure.states[ends.name]

    def _ends_of(self, name: str) -> StateEnds:
        for ends, *_ in self._ends():
            if ends.name == name:
                return ends
        raise PanelError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        known = ", ".join(ends.name for ends, *_ in self._ends()) or "none"
        return f"There is no state {name!r}. The states of {self.program.name}: {known}"

    def _set_one(self, name: str, value: Any) -> None:
        self._set(states={**self._edited.edits.states, name: value})


def _free_name(leaf: str, sites: Any) -> str:
    taken = {site.name for site in sites}
    names = itertools.chain([leaf], (f"{leaf} {number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)
