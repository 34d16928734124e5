"""Values of states that were handed out, and whether somebody changed them in place.

A state is set as a whole. What `State.value` returns may hold a dict or a list, and the state does
not see what is put into these: such an update would be lost, and so it is an error.
"""

from __future__ import annotations

from typing import Any

import jax

from taxpr._errors import StateError


class Handed:
    """A value that was handed out.

    Args:
        value: The value, a PyTree.
    """

    def __init__(self, value: Any):
        self.value = value
        self._before: Any = self._now()
        if self.changed:  # a node that makes its children anew each time: nothing to compare
            self._before = None

    def _now(self) -> tuple[list[Any], Any]:
        return jax.tree.flatten(self.value)

    @property
    def changed(self) -> bool:
        """Whether it was changed in place, and not written since."""
        if self._before is None:
            return False
        (before, old), (leaves, new) = self._before, self._now()
        return new != old or any(a is not b for a, b in zip(leaves, before, strict=True))

    def written(self, value: Any) -> None:
        """Take note of a write, of this value or of another that has what was changed."""
        if value is self.value or self.changed:
            self._before = None


def lost(what: str) -> StateError:
    """The error for a value that was changed in place; ``what`` says which."""
    return StateError(
        f"{what}: the dict or list that .value returned was changed in place, which the state does "
        "not see. Assign .value as a whole, as in state.value = {**state.value, 'n': 1}, or "
        "change a copy."
    )
