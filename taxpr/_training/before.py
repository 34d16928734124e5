"""The arguments of a step as they were before it, though it donates or changes them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr._calls.door import Door, door_of
from taxpr._calls.libraries import is_object
from taxpr._calls.model import States
from taxpr._training.finite import grouped
from taxpr._untyped import jax as _jax
from taxpr._untyped import jnp


@dataclasses.dataclass(frozen=True)
class Before:
    """The arguments of a call before it.

    Attributes:
        leaves: Their leaves, and the arrays that their objects had.
        structure: Their structure.
        put: Sets the arrays of their objects.
    """

    leaves: Sequence[Any]
    structure: Any
    put: Callable[[States], object] | None

    def taken(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The positional and the keyword arguments; their objects have again what they had."""
        args, kwargs, states = jax.tree.unflatten(self.structure, self.leaves)
        if self.put is not None:
            self.put(states)
        return args, kwargs


class Keeper:
    """Keeps the arguments of calls of a function.

    Donated arguments are copied before a call. The first call of each structure shows which these
    are, so all of its arrays are copied.

    Args:
        fun: The function.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        self._doors: list[Door | None] = []
        self._donated: dict[Any, list[int]] = {}
        self._given: list[Any] = []  # the arrays of the last call
        self._structure: Any = None

    def before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Before:
        """The arguments of a call that comes now."""
        states, put = self._states(args, kwargs)
        is_leaf = is_object if states or put else None  # which takes long
        self._given, self._structure = jax.tree.flatten((args, kwargs, states), is_leaf=is_leaf)
        donated = self._donated.get(self._structure)
        if donated is None:
            donated = [k for k, x in enumerate(self._given) if isinstance(x, jax.Array)]
        kept = list(self._given)
        for group in grouped(kept, donated):
            copies = _copied([kept[k] for k in group])
            for k, copy in zip(group, copies, strict=True):
                kept[k] = copy
        return Before(kept, self._structure, put)

    def after(self) -> None:
        """Notice what the call has donated."""
        if self._structure not in self._donated:
            gone = [k for k, x in enumerate(self._given) if _is_gone(x)]
            self._donated[self._structure] = gone
        self._given = []

    def states(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> States:
        """The arrays that the objects of a call have now."""
        return self._states(args, kwargs)[0]

    def _states(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[States, Callable[[States], object] | None]:
        if not self._doors:
            self._doors.append(door_of(self._fun, args, kwargs, unseen=False))
        [door] = self._doors
        if door is None or door.states is None:
            return {}, None
        taken = door.take(args, kwargs)
        return taken.states(), taken.put


def _is_gone(x: Any) -> bool:
    return isinstance(x, jax.Array) and x.is_deleted()


@_jax.jit
def _copied(xs: Sequence[Any]) -> list[Any]:
    """Copies by one program: it starts sooner than one for each array."""
    return [jnp.copy(x) for x in xs]
