"""The traces of `uncurry` that are in progress in this thread."""

import contextlib
import itertools
import threading
import weakref
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._compat import Aval
from taxpr._primitives.handed_out import StateValue, lost


class _Here(threading.local):
    """The uncurry traces in progress in this thread; in each list the innermost is last."""

    def __init__(self) -> None:
        self.roots: list[Any] = []
        self.avals: list[Mapping[Any, Sequence[Aval]]] = []
        self.handed: list[list[tuple[Any, StateValue]]] = []  # each with its `Access`
        self.numbers: list[int] = []  # a unique number for each trace
        self.key: tuple[int, int] = (next(_threads), 0)
        # The number of traces in progress when a backward rule began to run.
        self.barred: int | None = None


_threads = itertools.count()
_trace_numbers = itertools.count()
here = _Here()
_made_anew: weakref.WeakSet[Any] = weakref.WeakSet()
# JAX includes this value in the keys of its tracing caches.
_cache_key = _compat.user_context()


@contextlib.contextmanager
def tracing(avals: Mapping[Any, Sequence[Aval]]) -> Generator[None, None, None]:
    """The context that `uncurry` traces a function in.

    JAX must not reuse a cached trace that has an access: whether the access is allowed depends on
    its surroundings, and its types on the current ``avals``. So the context changes the cache key.

    Args:
        avals: The types of the leaves of a state, if they differ from the state's own.

    Raises:
        StateError: If a value that was read has been changed in place.
    """
    here.roots.append(_compat.current_trace())
    here.avals.append(avals)
    here.handed.append([])
    here.numbers.append(next(_trace_numbers))
    try:
        with _cache_key(here.key):
            yield
        for access, handed in here.handed[-1]:
            if handed.changed:
                raise lost(str(access))
    finally:
        here.roots.pop()
        here.avals.pop()
        here.handed.pop()
        here.numbers.pop()
        if here.roots:
            _cache_key(here.key).__enter__()


@contextlib.contextmanager
def in_backward_rule() -> Generator[None, None, None]:
    """The context for a backward rule of an uncurried function."""
    before, here.barred = here.barred, len(here.roots)
    try:
        yield
    finally:
        here.barred = before


def is_uncurrying() -> bool:
    """Whether `uncurry` is tracing a function in this thread."""
    return bool(here.roots)


def trace_number() -> int | None:
    """The number of the current trace of `uncurry`; None outside of one."""
    return here.numbers[-1] if here.numbers else None


def is_eager() -> bool:
    """Whether plain Python uses the state: no jaxpr is being traced."""
    if here.roots or here.barred is not None:
        return False
    return all(layer.kind in ("ad", "batch") for layer in layers_here())


def layers_here() -> list[_compat.Layer]:
    """The active transformations, innermost first; inside `tracing` only those begun since."""
    return _compat.layers(here.roots[-1] if here.roots else None)


def trace_again(maker: Any) -> None:
    """Make JAX trace a nested function again at every use: its cached trace has the old key.

    The outer `tracing` context restores the key.

    Args:
        maker: The trace of the function's jaxpr.
    """
    if here.roots and maker not in _made_anew:
        _made_anew.add(maker)
        here.key = here.key[0], here.key[1] + 1
        _cache_key(here.key).__enter__()
