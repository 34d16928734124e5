"""Try injectors out by tracing them, which may take long because it runs the user's code."""

import contextlib
import contextvars
import dataclasses
import functools
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._edits.attach import make, refreshed
from taxpr_jupyter._edits.attached import Attached, Trial
from taxpr_jupyter._edits.edited import Place
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._stoppable import POLL, CancelledError, stoppable
from taxpr_jupyter._store.store import Store, without
from taxpr_jupyter._store.tracer import Tracer

_Var: Any = type(taxpr.var("x"))
_LATER = contextvars.ContextVar("later", default=False)


class Trials:
    """Puts injectors in place, and tries them out.

    An injector is put in place first, with a `Trial`, and traced with no lock held; then what came
    of it is put in place, unless another one is there by then.
    """

    def __init__(self, store: Store, tracer: Tracer) -> None:
        self._store = store
        self._tracer = tracer
        self._settling = threading.RLock()

    @property
    def untried(self) -> tuple[Attached, ...]:
        """The injectors that were not tried out yet."""
        return tuple(one for one in self._store.edits.attached.values() if one.trial)

    def later(self) -> contextlib.AbstractContextManager[None]:
        """A context in which `attach` returns at once; `settle` or `run` tries the injectors out.

        For views, which handle messages while an injector is traced.
        """
        return _later()

    def settle(
        self,
        cancel: threading.Event | None = None,
        on_trial: Callable[[Attached], None] | None = None,
    ) -> None:
        """Tries out the injectors attached within `later`, or waits for a thread that does.

        Args:
            cancel: Set it from another thread to stop waiting. Injectors that were not tried out by
                then stay in place and untried; `give_up` removes them.
            on_trial: Called with each injector before it is traced.

        Raises:
            PanelError: An injector cannot work where it was attached, and was removed again.
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
                one, program = untried[0], self._store.program
                if on_trial is not None:
                    on_trial(one)
                try:
                    with self._store.mistakes():
                        self._try(one, cancel)
                except CancelledError:
                    raise
                except BaseException as error:
                    self._store.tell("injectors")  # it was taken away
                    if not isinstance(error, PanelError):
                        raise
                    failed = failed or error
                else:
                    self._store.tell("tried" if self._store.program is program else "program")
        finally:
            self._settling.release()
        if failed:
            raise failed

    def try_rest(self) -> None:
        """Tries out what is still untried, unless that is for later."""
        if not _LATER.get():
            self.settle()

    def give_up(self) -> None:
        """Removes attached injectors that were not tried out, and restores those before them."""
        taken = [one for one in self.untried if self._take_back(one)]
        if taken:
            self._store.tell("injectors")

    def attach_at(self, address: Place, place: Callable[[Place], Attached]) -> Any:
        """Puts an injector in place at a value, or at all values of a list, and gives its warnings.

        Args:
            address: The value, or the list.
            place: Puts it in place at one value, see `put`.

        Returns:
            The injector, or a list of them.
        """
        if isinstance(address, list):
            every = self.attach_all(
                lambda: [place(one) for one in self._store.edited.each_of(address).values()]
            )
        else:
            every = [self.attach("injectors", lambda: place(address))]
        for one in every:
            for warning in one.warned:
                warnings.warn(warning, stacklevel=4)  # the caller of the session
        return every if isinstance(address, list) else every[0]

    def put(self, address: Place, injector: Any, ctx: Any, values: Mapping[str, Any]) -> Attached:
        """Puts an injector in place, to be tried out; a value without a tag is tagged first."""
        edited, tag = self._store.edited, None
        meant, site = edited.meant(address), edited.site(address, or_list=True)
        if site is None:
            key = edited.untagged_value(address)
            tag = {"name": edited.new_name(None, key)}
            edited = edited.changed(tags={**edited.edits.tags, key: tag})
            site = edited.the_site(key)
        made = make(site.key, injector, ctx, values, self._store.namespace)
        named = isinstance(meant, _Var) and meant.inside is None
        made = self.pending(dataclasses.replace(made, variable=meant if named else None), tag)
        self._store.edited = edited.changed(attached={**edited.edits.attached, site.key: made})
        return made

    def attach(self, what: str, place: Callable[[], Attached], kind: Hashable = None) -> Attached:
        """Puts an injector in place by ``place``, and tries it out, at once or later.

        Args:
            what: See `Store.on_change`.
            place: Puts it in place.
            kind: The kind of the step to undo, see `Steps.note`.
        """
        with self._store.mistakes():
            with self._store.lock:
                before = self._store.edited
                made = place()
                self._store.steps.note(before, self._store.edited, kind)
                self._store.error = None
            if not _LATER.get() and made.trial:
                program = self._store.program
                made = self._try(made)
                what = what if self._store.program is program else "program"
        self._store.tell(what)
        return made

    def attach_all(self, place: Callable[[], list[Attached]]) -> list[Attached]:
        """Puts several injectors in place, as one step, and tries them out, at once or later.

        Args:
            place: Puts them in place.

        Returns:
            The injectors as they are then.

        Raises:
            PanelError: Some of them cannot work where they were attached. The others stay.
        """
        with self._store.change("injectors") as step:
            made = place()
            names = {made[0].name} if made else set[str]()
            step.text = f"{', '.join(names)} at {count_of(len(made), 'value')}"
        keys = [one.key for one in made]
        with self._store.following(keys) as now:  # where the program is traced anew
            if not _LATER.get():
                self.settle()
            with self._store.lock:
                attached = self._store.edits.attached
                return [attached[key] for key in now if key in attached]

    def pending(self, attached: Attached, tag: Mapping[str, Any] | None = None) -> Attached:
        """The injector, to be tried out.

        Args:
            attached: The injector.
            tag: The params of the tag that comes with it; None if the tag exists.
        """
        before = self._store.edits.attached.get(attached.key)
        trial = Trial(before, tag)
        if before is not None and before.trial is not None:
            trial = Trial(before.trial.before, before.trial.tag)
        return dataclasses.replace(attached, error=None, note="", warned=(), trial=trial)

    def _try(self, one: Attached, cancel: threading.Event | None = None) -> Attached:
        """Tries out what is attached; it is taken away again where that raises."""

        def stopped() -> bool:
            return (cancel is not None and cancel.is_set()) or self._awaited(one) is None

        while True:
            with self._store.lock:
                edited, before = self._store.edited, self._awaited(one)
                if before is None:
                    return one
            try:
                work = functools.partial(self._tracer.tried, before, edited)
                new, found = stoppable(work, stopped if cancel else None)
            except CancelledError:
                if cancel is not None and cancel.is_set():
                    raise
                return one  # another one is there now, or none
            except BaseException:
                self._take_back(one)
                raise
            with self._store.lock:
                now = self._awaited(one)
                if now is None:
                    return new
                again = found.edited.base is not edited.base
                if again and not self._store.edits.runs_as(edited.edits):
                    continue  # what was traced anew has no place for what came meanwhile
                if now is before or not new.error:
                    if now.unread:
                        now = now.with_ctx(new.ctx)
                    taken = ("key", "error", "note", "warned", "asks_ctx", "variable", "edits")
                    known = {name: getattr(new, name) for name in taken}
                    new = dataclasses.replace(now, **known, trial=None)
                    if again:
                        self._tracer.place(found)
                    return self._store.place(new)
            # What was changed meanwhile may have mended it.

    def _awaited(self, one: Attached) -> Attached | None:
        """The present form of this injector while its trial is pending; else None."""
        now = self._store.edits.attached.get(one.key)
        return now if now is not None and now.trial is one.trial else None

    def _take_back(self, one: Attached) -> bool:
        """Puts back what was there before an injector; returns whether that was still awaited."""
        with self._store.lock:
            if self._awaited(one) is None or one.trial is None:
                return False
            edits, trial = self._store.edits, one.trial
            attached, tags = without(edits.attached, one.key), edits.tags
            if trial.before is not None:
                attached[one.key] = dataclasses.replace(trial.before, key=one.key)
            elif trial.tag is not None and tags.get(one.key) == trial.tag:
                tags = without(tags, one.key)
            self._store.put(attached=attached, tags=tags)
            self._store.steps.forget(self._store.edited)
            return True

    @property
    def settled(self) -> bool:
        """Whether everything was tried out, and nothing has to be tried again."""
        with self._store.lock:
            return not (self.untried or self._outdated())

    def refresh(self) -> None:
        """Takes up functions that were defined anew, and globals that fix an injector.

        Marks them as untried; `settle` tries them.
        """
        with self._store.lock:
            for one in self._outdated():
                self._store.place(self.pending(one))

    def _outdated(self) -> list[Attached]:
        """The injectors to try again, made anew from their names."""
        found = []
        for one in self._store.edits.attached.values():
            new = refreshed(one, self._store.namespace)
            if new is not None or one.error or (one.edits and self._tracer.outdated):
                found.append(new or one)
        return found


@contextlib.contextmanager
def _later() -> Iterator[None]:
    before = _LATER.set(True)
    try:
        yield
    finally:
        _LATER.reset(before)
