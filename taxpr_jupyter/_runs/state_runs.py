"""The states of a function in a run: initial and final values, and writes."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

import taxpr
from taxpr_jupyter._analysis.stateful import states_of
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._runs.outputs.array_diff import ArrayDifference, compare, value_text


@dataclasses.dataclass(frozen=True)
class LeafRun:
    """One array of a state in a run.

    Attributes:
        initial: A short text of the initial value.
        final: The last values of the untouched run and of the one with injectors, compared.
    """

    initial: str
    final: ArrayDifference

    def __str__(self) -> str:
        final, name = self.final, f"state {self.final.name} {self.final.aval}"
        after = final.after if final.equal else f"{final.before}, with the changes {final.after}"
        return f"{name}: {self.initial} → {after}"


@dataclasses.dataclass(frozen=True)
class WriteRun:
    """The values written to a state at one place.

    Attributes:
        leaf: The array of the state's value: `norm['mean']`.
        key: The key of the tag there, and of its record.
        address: The address of the tag.
        values: The values in order, stacked on a leading axis if the place can be reached more than
            once. None without values.
        stacked: Whether the values are stacked.
        note: The number of values, or why they are missing.
    """

    leaf: str
    key: str
    address: str
    values: Any
    stacked: bool
    note: str

    def lines(self, most: int = 100) -> list[str]:
        """Short texts of the first values, one for each write."""
        if self.values is None:
            return []
        several = self.values if self.stacked else [self.values]
        return [value_text(value) for value in several[:most]]


@dataclasses.dataclass(frozen=True)
class StateRun:
    """One state in a run.

    Attributes:
        name: Its name.
        written: Whether it is written, or only read.
        leaves: The arrays of its value.
        writes: The values written to it, for watched places.
    """

    name: str
    written: bool
    leaves: tuple[LeafRun, ...]
    writes: tuple[WriteRun, ...] = ()


def parts(program: taxpr.Program, outputs: Any) -> tuple[Any, dict[str, Any]]:
    """The result of the user's function, and the last values of its states, by name."""
    if states_of(program):
        out, states = outputs
        return out, dict(states)
    return outputs, {}


def written(
    watched: Mapping[str, Sequence[tuple[str, str]]],
    sites: Sequence[SiteRow],
    records: Mapping[str, Any],
) -> dict[str, tuple[WriteRun, ...]]:
    """The values written to states, by name; ``watched`` has pairs of an array and a tag's key."""
    by_key = {site.key: site for site in sites}
    return {
        name: tuple(
            WriteRun(
                leaf=leaf,
                key=key,
                address=by_key[key].address,
                values=records[key].value,
                stacked=by_key[key].trips != 1,
                note=records[key].note,
            )
            for leaf, key in pairs
            if key in by_key
        )
        for name, pairs in watched.items()
    }


def state_runs(
    program: taxpr.Program,
    values: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]],
    writes: Mapping[str, tuple[WriteRun, ...]],
    compared: Callable[[str, Any, Any], ArrayDifference] = compare,
) -> tuple[StateRun, ...]:
    """The values of all states: initial, after the untouched run, and after the injected run."""
    found = []
    for ends in states_of(program):
        leaves = (jax.tree.leaves(of_all[ends.name]) for of_all in values)
        rows = tuple(
            LeafRun(value_text(first), compared(name, untouched, injected))
            for name, first, untouched, injected in zip(ends.leaves, *leaves, strict=True)
        )
        found.append(StateRun(ends.name, ends.written, rows, writes.get(ends.name, ())))
    return tuple(found)
