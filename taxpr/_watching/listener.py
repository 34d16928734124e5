"""The listeners of a thread, which hear of the functions that run in it."""

import threading
import types
from collections.abc import Mapping
from typing import Any, Protocol

from taxpr._watching.watch import Watch


class Listener(Protocol):
    """Is told what functions do.

    Attributes:
        of_calls: Whether it is to be told what functions call.
    """

    of_calls: bool

    def wants(self, code: types.CodeType) -> bool:
        """Whether it is to be told of a function."""
        ...

    def offsets(self, code: types.CodeType) -> frozenset[int]:
        """The instructions of such a function that it is told of before they run."""
        ...

    def started(self, frame: types.FrameType) -> None:
        """A function begins."""
        ...

    def line(self, frame: types.FrameType, line: int) -> None:
        """A line is about to run."""
        ...

    def instruction(self, frame: types.FrameType, offset: int) -> None:
        """An instruction of `offsets` is about to run."""
        ...

    def called(self, function: object, first: Any) -> None:
        """A function is about to call another one, with this first argument."""
        ...

    def returned(self, frame: types.FrameType) -> None:
        """A function returns."""
        ...

    def yielded(self, frame: types.FrameType) -> None:
        """A function yields."""
        ...

    def raised(self, frame: types.FrameType) -> None:
        """A function ends by an error."""
        ...

    def said(self, frame: types.FrameType) -> Mapping[str, str]:
        """The changes of a frame's variables since it was asked last, by their names."""
        ...


class _Told(threading.local):
    """The listeners of a thread.

    Attributes:
        watch: Leaves marks.
        changing: The listeners that change variables, the innermost first.
        listeners: All of them, in the order that they are told: marks are of changed values.
        keys: The keys that tell JAX's caches which ones change variables.
        in_jax: Whether any of them changes JAX's own functions.
    """

    keys: tuple[object, ...] = ()
    in_jax: bool = False
    watch: Watch | None = None
    changing: tuple[Listener, ...] = ()
    listeners: tuple[Listener, ...] = ()

    def set(self, watch: Watch | None, changing: tuple[Listener, ...]) -> None:
        self.watch, self.changing = watch, changing
        self.listeners = (*changing, watch) if watch is not None else changing


now = _Told()
