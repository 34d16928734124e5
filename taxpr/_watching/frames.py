"""For the time of a trace: watch the user's variables, or change them."""

import contextlib
import types
from collections.abc import Callable, Generator, Mapping

from taxpr import _compat
from taxpr._primitives.tag import telling
from taxpr._source.own_modules import OwnModules
from taxpr._watching.events import TOLD_OF_CALLS, listening
from taxpr._watching.jax_functions import JaxFunctions
from taxpr._watching.listener import Listener, now
from taxpr._watching.watch import Watch

# JAX keeps what it traced under these settings apart, so that no mark and no change gets into other
# programs, and functions that were traced before are traced again.
_named = _compat.user_context()
_changed = _compat.user_context()


@contextlib.contextmanager
def watching(
    cotangents: bool = False, own: OwnModules | None = None
) -> Generator[Watch, None, None]:
    """While something is traced in this context, bindings of the user's variables leave marks.

    Args:
        cotangents: Whether the cotangents of the values are to be found, too.
        own: Libraries whose functions count as the user's.
    """
    before = now.watch
    watch = Watch(TOLD_OF_CALLS, cotangents, _said, own)
    with contextlib.ExitStack() as stack:
        if stack.enter_context(listening(watch, anew=own is not None)):
            kind = "cotangents" if cotangents else "watched"
            stack.enter_context(_named(kind if own is None else (kind, own)))
            stack.callback(lambda: now.set(before, now.changing))
            now.set(watch, now.changing)
            stack.callback(setattr, telling, "tagged", getattr(telling, "tagged", None))
            telling.tagged = watch.tagged if cotangents else None
        yield watch


def _said(frame: types.FrameType) -> Mapping[str, str]:
    """The changes that were made to the variables of a frame."""
    found: dict[str, str] = {}
    for one in now.changing:
        for name, text in one.said(frame).items():
            found[name] = f"{found[name]}; {text}" if name in found else text
    return found


@contextlib.contextmanager
def unwatched() -> Generator[None, None, None]:
    """A context for tracing another program, maybe within one that is watched."""
    before, tagged = now.watch, getattr(telling, "tagged", None)
    with contextlib.ExitStack() as stack:
        if before is not None:
            stack.enter_context(_named(None))
            stack.callback(lambda: now.set(before, now.changing))
            stack.callback(setattr, telling, "tagged", tagged)
            now.set(None, now.changing)
            telling.tagged = None
        yield


@contextlib.contextmanager
def changing(listener: Listener, key: object, in_jax: bool = False) -> Generator[bool, None, None]:
    """A context that lets a listener change variables; gives whether it is told of anything.

    Args:
        listener: The listener.
        key: What JAX traces meanwhile is kept for further calls with an equal one.
        in_jax: Whether it may change variables of JAX's own functions.
    """
    before = now.changing
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(listening(listener, anew=True))
        if told:
            stack.callback(setattr, now, "keys", now.keys)
            now.keys = (*now.keys, key)
            stack.enter_context(_changed(now.keys))
            stack.callback(lambda: now.set(now.watch, before))
            stack.enter_context(within_jax(now.in_jax or in_jax))
            new: tuple[Listener, ...] = (listener,)
            if not before:
                new = (listener, JaxFunctions(lambda: _changed(None)))
                stack.enter_context(listening(new[1], anew=True))
            now.set(now.watch, (*new, *before))
        yield told


@contextlib.contextmanager
def within_jax(changed: bool) -> Generator[None, None, None]:
    """A context that allows changes of JAX's own functions, or forbids them."""
    before, now.in_jax = now.in_jax, changed
    try:
        yield
    finally:
        now.in_jax = before


@contextlib.contextmanager
def keyed(
    *more: object, without: Callable[[object], bool] | None = None
) -> Generator[None, None, None]:
    """While something is traced in this context, JAX keeps it apart by further keys.

    Args:
        *more: The keys.
        without: Which of the keys until now are left out.
    """
    before = now.keys
    now.keys = (*(one for one in before if without is None or not without(one)), *more)
    try:
        with _changed(now.keys or None):
            yield
    finally:
        now.keys = before


def changers() -> tuple[Listener, ...]:
    """Those that change variables in this thread, the innermost first."""
    return now.changing


def marks_left() -> int:
    """How many times marks were left in this thread's trace so far."""
    return now.watch.marks if now.watch is not None else 0
