"""`Door`: make a call a call of arrays, and put its results together again."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taxpr._calls.libraries import is_object, libraries, named_by_user, opened
from taxpr._calls.model import Held, Opened, States, Taken
from taxpr._calls.static import marked, plain, run
from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, RefusedError
from taxpr._jaxprs.trees import named_leaves


@dataclasses.dataclass(frozen=True)
class Door:
    """A user's call, as a call of a function whose arguments are arrays.

    Attributes:
        fun: The function that is traced. With states it returns ``(out, after)``, see `Opened`.
        first: Its arguments.
        states: The opened call if the function uses states; else None.
        keeps_numbers: Whether Python scalars are static.
        contexts: The number of contexts that injections have added in front of the arguments.
    """

    fun: Callable[..., Any]
    first: Taken
    states: Opened | None
    keeps_numbers: bool
    contexts: int = 0

    def with_ctx(self) -> Door:
        """The door after an injection, which adds a context in front."""
        return dataclasses.replace(self, contexts=self.contexts + 1)

    def take(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Taken:
        """The arguments of a later call as arguments of `fun`, behind contexts."""
        n = self.contexts
        taken = _taken(self.states, args[n:], kwargs, self.keeps_numbers)
        return dataclasses.replace(taken, args=(*args[:n], *taken.args))

    def given(self, taken: Taken) -> tuple[Any, ...]:
        """The positional arguments of a call of the user that was taken apart."""
        n = self.contexts
        return taken.args if self.states is None else (*taken.args[:n], *taken.args[n + 1 :])

    def refuse_others(self, name: str, taken: Taken) -> None:
        """Raise if a later call has objects of another kind.

        Raises:
            ArgumentError: If a later call has objects of another kind.
        """
        if taken.static != self.first.static:
            labels = ", ".join(filter(None, self.first.states())) or "the states"
            raise ArgumentError(
                f"{name} was traced with other objects than it was called with: {labels} differ in "
                "more than the values of their arrays. Trace it again."
            )

    def named(self, names: Sequence[str | None], shapes: PyTree) -> Any:
        """The names of inputs and outputs; a state is named after its object.

        Args:
            names: JAX's names of the inputs.
            shapes: The types of the results of `fun`.
        """
        hidden = [
            name
            for held in self.first.args[0]
            for label, values in held.named().items()
            for name, _ in named_leaves(label, values)
        ]
        names = *hidden, *names[len(hidden) :]
        if shapes == ():  # until an error
            return names, ()
        out = [name for name, _ in named_leaves("out", shapes[0])]
        after = [
            name
            for label, own in sorted(shapes[1].items())
            for key, value in Held(label, dict(sorted(own.items()))).named().items()
            for name, _ in named_leaves(key, value)
        ]
        return names, (*out, *after)

    def result(self, out: PyTree) -> PyTree:
        """The result of the user's function, out of the result of `fun`."""
        return plain(out if self.states is None else out[0])

    def after(self, out: PyTree) -> States:
        """The changed states of objects, out of the result of `fun`."""
        return {} if self.states is None else out[1]

    def put(self, name: str, taken: Taken, after: States) -> None:
        """Change the objects of a call as the function changed them.

        Raises:
            RefusedError: If it changed them in a way that cannot be repeated from outside.
        """
        if self.states is None:
            return
        if self.states.lost or (after and taken.put is None):
            labels = ", ".join(filter(None, after)) or ", ".join(after.get("", ()))
            what = " and ".join(self.states.lost) or f"changes {labels}"
            raise RefusedError(
                f"{name} {what}, which cannot be handed back to {self.states.library} after the "
                "call. Make it before, or let the function return it."
            )
        if after and taken.put is not None:
            taken.put(after)


def door_of(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    always: bool = False,
    pictures: bool = False,
    unseen: bool = True,
) -> Door | None:
    """The door of a call; None if its arguments are arrays alone, and no library has states in it.

    Args:
        fun: The function, without arguments that were asked to be static.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        always: Also make one for arrays alone, since a result may be no array.
        pictures: Also take apart states that the function takes and returns.
        unseen: Also ask libraries that must run the function to know, see `opened`.
    """
    if getattr(fun, "is_pure", False):
        return None
    fun, loaded = named_by_user(fun), [*libraries()]
    keeps = any(library.takes_numbers(fun) for library in loaded)
    given = tuple(args), dict(kwargs)
    own, words = kept = _marked(given, keeps)
    states = opened(fun, own, words, pictures, unseen)
    if states is not None:
        return Door(states.fun, states.first, states, keeps)
    if kept is given and not always:
        return None

    @functools.wraps(fun)
    def of_arrays(*args: Any, **kwargs: Any) -> PyTree:
        return run(fun, args, kwargs)

    return Door(of_arrays, Taken(own, words), None, keeps)


def _taken(
    states: Opened | None, args: tuple[Any, ...], kwargs: Mapping[str, Any], keeps: bool
) -> Taken:
    own, words = _marked((tuple(args), dict(kwargs)), keeps)
    return Taken(own, words) if states is None else states.take(own, words)


def _marked(given: Any, keeps: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    loaded = [*libraries()]

    def is_model(x: Any) -> bool:
        return any(library.keeps_numbers(x) for library in loaded)

    return marked(given, is_object, is_model, keeps)
