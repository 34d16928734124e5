"""Detect in-place changes of a value that `State.value` returned.

A state is set as a whole. If its value is a dict or list, the state does not see updates inside it,
and these would be lost. So they raise an error.
"""

from typing import Any

import jax

from taxpr._compat import PyTree, TreeDef
from taxpr._errors import StateError


class StateValue:
    """A value that `State.value` returned, with a snapshot of its leaves and structure."""

    def __init__(self, value: PyTree):
        self.value = value
        self._before: tuple[list[Any], TreeDef] | None = self._now()
        if self.changed:  # a PyTree node that creates new leaves each time: cannot be compared
            self._before = None

    def _now(self) -> tuple[list[Any], TreeDef]:
        return jax.tree.flatten(self.value)

    @property
    def changed(self) -> bool:
        """Whether the value was changed in place and not written to the state since."""
        if self._before is None:
            return False
        (before, old), (leaves, new) = self._before, self._now()
        return new != old or any(a is not b for a, b in zip(leaves, before, strict=True))

    def written(self, value: PyTree) -> None:
        """Record a write to the state. It covers earlier in-place changes of this value."""
        if value is self.value or self.changed:
            self._before = None


def lost(what: str) -> StateError:
    """The error for a value that was changed in place; ``what`` names the read."""
    return StateError(
        f"{what}: the dict or list that .value returned was changed in place, which the state does "
        "not see. Assign .value as a whole, as in state.value = {**state.value, 'n': 1}, or "
        "change a copy."
    )
