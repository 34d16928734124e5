"""What a run makes of states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

import taxpr
from taxpr_jupyter._picture._stateful import states_of
from taxpr_jupyter._session._compare import Difference, compare, value_text


@dataclasses.dataclass(frozen=True)
class LeafRun:
    """One array of a state in a run.

    Attributes:
        initial: A short text of the value that the run began with.
        final: The last value, of the untouched run and of the one with injectors.
    """

    initial: str
    final: Difference

    def __str__(self) -> str:
        final, name = self.final, f"state {self.final.name} {self.final.aval}"
        after = final.after if final.equal else f"{final.before}, with injectors {final.after}"
        return f"{name}: {self.initial} → {after}"


@dataclasses.dataclass(frozen=True)
class StateRun:
    """One state in a run.

    Attributes:
        name: Its name.
        written: Whether it is written, or only read.
        leaves: The arrays of its value.
        watched: The keys of the records of what was written to it, where that was asked for.
    """

    name: str
    written: bool
    leaves: tuple[LeafRun, ...]
    watched: tuple[str, ...] = ()


def parts(program: taxpr.Program, outputs: Any) -> tuple[Any, dict[str, Any]]:
    """The result of the user's function, and the last values of its states, by name."""
    if states_of(program):
        out, states = outputs
        return out, dict(states)
    return outputs, {}


def state_runs(
    program: taxpr.Program,
    initial: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    watched: Mapping[str, tuple[str, ...]],
) -> tuple[StateRun, ...]:
    """What became of the states.

    Args:
        program: The program.
        initial: Their values at first, by name.
        before: Those after the untouched run.
        after: Those after the run with injectors.
        watched: The keys of the tags at what is written to them.
    """
    found = []
    for ends in states_of(program):
        leaves = (jax.tree.leaves(values[ends.name]) for values in (initial, before, after))
        rows = tuple(
            LeafRun(value_text(first), compare(name, untouched, injected))
            for name, first, untouched, injected in zip(ends.leaves, *leaves, strict=True)
        )
        found.append(StateRun(ends.name, ends.written, rows, watched.get(ends.name, ())))
    return tuple(found)
