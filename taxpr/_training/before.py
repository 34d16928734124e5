"""The arguments of a step as they were before it, though it donates or changes them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax

from taxpr._calls.door import Door, door_of
from taxpr._calls.libraries import is_object
from taxpr._calls.model import States
from taxpr._untyped import jnp


@dataclasses.dataclass(frozen=True)
class Before:
    """The arguments of a call before it.

    Attributes:
        args: The positional arguments.
        kwargs: The keyword arguments.
        states: The arrays that its objects had, by the labels of the objects and their own names.
        put: Sets the arrays of its objects.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    states: States
    put: Callable[[States], object] | None

    def put_back(self) -> None:
        """Give the objects the arrays that they had."""
        if self.put is not None:
            self.put(self.states)


class Keeper:
    """Keeps the arguments of calls of a function.

    What a call donates is copied before it. The first call of each structure shows what that is,
    and so all of its arrays are copied.

    Args:
        fun: The function.
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        self._doors: list[Door | None] = []
        self._donated: dict[Any, frozenset[int]] = {}
        self._given: list[Any] = []  # the arrays of the last call
        self._structure: Any = None

    def before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Before:
        """The arguments of a call that comes now."""
        states, put = self._states(args, kwargs)
        self._given, self._structure = jax.tree.flatten((args, kwargs, states), is_leaf=is_object)
        donated = self._donated.get(self._structure)
        kept = [
            jnp.copy(x) if isinstance(x, jax.Array) and (donated is None or k in donated) else x
            for k, x in enumerate(self._given)
        ]
        args, kwargs, states = jax.tree.unflatten(self._structure, kept)
        return Before(args, kwargs, states, put)

    def after(self) -> None:
        """Notice what the call has donated."""
        if self._structure not in self._donated:
            gone = (k for k, x in enumerate(self._given) if _is_gone(x))
            self._donated[self._structure] = frozenset(gone)
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
