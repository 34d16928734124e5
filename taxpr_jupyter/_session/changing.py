"""How a session is changed: one thread at a time, told to its views, injectors tried out."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._edits.attach import Attached, Trial, tried
from taxpr_jupyter._edits.edits import Edited, Edits
from taxpr_jupyter._errors import LOG, PanelError, one_line
from taxpr_jupyter._stoppable import POLL, CancelledError, stoppable

_LATER = contextvars.ContextVar("later", default=False)


class Changing:
    """A program with edits, which any thread may change.

    To try an injector out is to trace it, for as long as the user's code likes to take. So it is
    put in place first, with a `Trial`, and traced with no lock held; then what came of it is put
    in place, unless another one is there by then.

    Args:
        program: The program as traced.
    """

    def __init__(self, program: taxpr.Program) -> None:
        self._lock = threading.RLock()
        self._settling = threading.RLock()
        self._now = Edited(program, Edits())
        self._edition = 0  # how often another one came that computes or records something else
        self._error: str | None = None
        self._closed = False
        self._callbacks: list[Callable[[str], None]] = []

    @property
    def _edited(self) -> Edited:
        """The program with what was added to it."""
        return self._now

    @_edited.setter
    def _edited(self, edited: Edited) -> None:
        self._edition += not edited.edits.runs_as(self._now.edits)
        self._now = edited

    @property
    def error(self) -> str | None:
        """The message of the last mistake; None after something that worked."""
        return self._error

    def on_change(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Calls ``callback(what)`` after each change, in the thread that made it.

        ``what`` is ``"tags"``, ``"injectors"``, ``"tried"`` (see `settle`), ``"values"``,
        ``"folding"``, ``"run"``, ``"states"``, ``"error"`` or ``"closed"``.

        Args:
            callback: The function to call.

        Returns:
            A function that ends this.
        """
        lock, callbacks = self._lock, self._callbacks
        with lock:
            callbacks.append(callback)

        def unsubscribe() -> None:  # which does not keep the session
            with lock, contextlib.suppress(ValueError):
                callbacks.remove(callback)

        return unsubscribe

    # ---- trying out --------------------------------------------------------------

    @property
    def untried(self) -> tuple[Attached, ...]:
        """The injectors that were not tried out yet."""
        return tuple(one for one in self._edited.edits.attached.values() if one.trial)

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """Within this nothing waits until an injector is tried out: `settle` does that, or `run`.

        For views, whose messages are to be handled while an injector is traced.
        """
        before = _LATER.set(True)
        try:
            yield
        finally:
            _LATER.reset(before)

    def settle(
        self,
        cancel: threading.Event | None = None,
        on_trial: Callable[[Attached], None] | None = None,
    ) -> None:
        """Tries out what was attached within `later`, or waits until another thread has done so.

        Args:
            cancel: Set it from another thread to stop waiting. What was not tried out by then stays
                in place and untried; `give_up` takes it away.
            on_trial: Called with each injector before it is traced.

        Raises:
            PanelError: An injector cannot work where it was attached, and was taken away again.
            CancelledError: ``cancel`` was set.
        """
        while not self._settling.acquire(timeout=POLL):
            if cancel is not None and cancel.is_set():
                raise CancelledError
        failed: PanelError | None = None
        try:
            while untried := self.untried:
                if cancel is not None and cancel.is_set():
                    raise CancelledError
                one = untried[0]
                if on_trial is not None:
                    on_trial(one)
                try:
                    with self._mistakes():
                        self._try(one, cancel)
                except CancelledError:
                    raise
                except BaseException as error:
                    self._tell("injectors")  # it was taken away
                    if not isinstance(error, PanelError):
                        raise
                    failed = failed or error
                else:
                    self._tell("tried")
        finally:
            self._settling.release()
        if failed:
            raise failed

    def give_up(self) -> None:
        """Takes away what was attached and not tried out, and puts back what was there before."""
        taken = [one for one in self.untried if self._take_back(one)]
        if taken:
            self._tell("injectors")

    def _attach_tried(self, what: str, place: Callable[[], Attached]) -> Attached:
        """Puts an injector in place by ``place``, and tries it out, at once or later."""
        with self._mistakes():
            with self._lock:
                made = place()
                self._error = None
            if not _LATER.get() and made.trial:
                made = self._try(made)
        self._tell(what)
        return made

    def _untried(self, attached: Attached, tag: Mapping[str, Any] | None = None) -> Attached:
        """The injector, to be tried out.

        Args:
            attached: The injector.
            tag: The params of the tag that comes with it; None where there is one.
        """
        before = self._edited.edits.attached.get(attached.key)
        trial = Trial(before, tag)
        if before is not None and before.trial is not None:
            trial = Trial(before.trial.before, before.trial.tag)
        return dataclasses.replace(attached, error=None, note="", warned=(), trial=trial)

    def _try(self, one: Attached, cancel: threading.Event | None = None) -> Attached:
        """Tries out what is attached; it is taken away again where that raises."""

        def stopped() -> bool:
            return (cancel is not None and cancel.is_set()) or self._awaited(one) is None

        while True:
            with self._lock:
                edited, before = self._edited, self._awaited(one)
                if before is None:
                    return one
            try:
                site = edited.the_site(one.key).site
                work = functools.partial(tried, before, edited.program, site)
                new = stoppable(work, stopped if cancel else None)
            except CancelledError:
                if cancel is not None and cancel.is_set():
                    raise
                return one  # another one is there now, or none
            except BaseException:
                self._take_back(one)
                raise
            with self._lock:
                now = self._awaited(one)
                if now is None:
                    return new
                if now is before or not new.error:
                    found = ("error", "note", "warned", "asks_ctx")
                    known = {name: getattr(new, name) for name in found}
                    new = dataclasses.replace(now, **known, trial=None)
                    self._set(attached={**self._edited.edits.attached, one.key: new})
                    return new
            # What was changed meanwhile may have mended it.

    def _awaited(self, one: Attached) -> Attached | None:
        """What this injector is now, as long as its trial is awaited; else None."""
        now = self._edited.edits.attached.get(one.key)
        return now if now is not None and now.trial is one.trial else None

    def _take_back(self, one: Attached) -> bool:
        """Puts back what was there before an injector; returns whether that was still awaited."""
        with self._lock:
            if self._awaited(one) is None or one.trial is None:
                return False
            edits, trial = self._edited.edits, one.trial
            attached, tags = without(edits.attached, one.key), edits.tags
            if trial.before is not None:
                attached[one.key] = trial.before
            elif trial.tag is not None and tags.get(one.key) == trial.tag:
                tags = without(tags, one.key)
            self._set(attached=attached, tags=tags)
            return True

    # ---- within ------------------------------------------------------------------

    @contextlib.contextmanager
    def _change(self, what: str) -> Iterator[None]:
        """Around a change: one thread at a time; tells views what happened, or what is wrong."""
        with self._mistakes(), self._lock:
            yield
            self._error = None
        self._tell(what)

    @contextlib.contextmanager
    def _mistakes(self) -> Iterator[None]:
        """Tells views what is wrong."""
        try:
            yield
        except taxpr.TaxprError as error:
            self._error = one_line(error)
            self._tell("error")
            if isinstance(error, PanelError):
                raise
            raise PanelError(self._error) from None

    def _tell(self, what: str) -> None:
        for callback in list(self._callbacks):
            try:
                callback(what)
            except Exception as error:
                LOG.warning("A view of %r failed", self, exc_info=True)
                warnings.warn(f"A view of {self!r} failed: {one_line(error)}", stacklevel=2)

    def _set(self, **changed: Any) -> None:
        """Puts other edits in place, all or none."""
        self._edited = self._edited.changed(**changed)


def without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The mapping without one of its keys."""
    return {other: value for other, value in mapping.items() if other != key}
