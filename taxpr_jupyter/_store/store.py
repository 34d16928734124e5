"""`Store`: a program with its edits, changed by one thread at a time."""

import contextlib
import dataclasses
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import taxpr
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edited import Edited
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._edits.steps import EditStep, Steps
from taxpr_jupyter._errors import LOG, PanelError, one_line
from taxpr_jupyter._model.model import count_of


@dataclasses.dataclass
class ChangeStep:
    """A change that is being made.

    Attributes:
        text: The name of the step to undo; empty to name it by the change.
        what: The change, see `Session.on_change`.
    """

    text: str
    what: str


class Store:
    """A program with its edits, which any thread may change, and its listeners.

    Args:
        program: The program as traced, without changes of its source.
        call: The call in Python.
        namespace: Where functions to inject are looked up.
        notes: Remarks for the user.

    Attributes:
        untouched: The program as traced at first.
        moved: The keys of tags before the source was changed last, and since then; None for tags
            that are gone.
        lock: Held while the edits change.
        edition: How often other edits came that compute or record something else.
        steps: The edits that were made, to undo them.
        folding: Gives the open addresses for a program that is to take the place of this one.
        error: The message of the last mistake; None after something that worked.
        closed: Whether the views were taken away.
    """

    def __init__(
        self,
        program: taxpr.Program,
        call: str,
        namespace: Mapping[str, Any],
        notes: tuple[str, ...],
    ) -> None:
        self.untouched = program
        self.call = call
        self.namespace = namespace
        self.notes = notes
        self.lock = threading.RLock()
        self.edition = 0
        self.steps = Steps()
        self.folding: Callable[[Edited], dict[str, Any]] = lambda after: {}
        self.moved: Mapping[str, str | None] = {}
        self._followed: list[list[str]] = []
        self.error: str | None = None
        self.closed = False
        self._edited = Edited(program, Edits())
        self._callbacks: list[Callable[[str], None]] = []

    @property
    def edited(self) -> Edited:
        """The program with its edits, as they are now."""
        return self._edited

    @edited.setter
    def edited(self, edited: Edited) -> None:
        self.edition += not edited.edits.runs_as(self.edits)
        self._edited = edited

    @property
    def program(self) -> taxpr.Program:
        """The program as traced with the changes of its source, without tags."""
        return self._edited.base

    @property
    def edits(self) -> Edits:
        """The edits, as they are now."""
        return self._edited.edits

    def put(self, **changed: Any) -> None:
        """Puts other edits in place, all or none."""
        self.edited = self._edited.changed(**changed)

    def place(self, attached: Attached) -> Attached:
        """Puts an injector in place, and returns it."""
        self.put(attached={**self.edits.attached, attached.key: attached})
        return attached

    def go(self, step: EditStep) -> str:
        """Puts the program and the edits of a step in place; open nodes stay open.

        Returns:
            The step, in words.
        """
        before, after = self._edited, Edited(step.program, step.edits)
        self.edited = after.changed(**self.folding(after))
        there = _keys_by_name(self.edited.sites)
        self.move({key: there.get(name) for name, key in _keys_by_name(before.sites).items()})
        return step.text

    def move(self, keys: Mapping[str, str | None]) -> None:
        """Notes the keys of tags before a change of the source and after it, see `moved`."""
        self.moved = keys
        for followed in self._followed:
            followed[:] = [keys.get(key, key) or "" for key in followed]

    @contextlib.contextmanager
    def following(self, keys: Iterable[str]) -> Iterator[list[str]]:
        """Yields the keys of tags, which stay the keys of these tags when they move.

        That of a tag that is gone becomes empty.
        """
        followed = list(keys)
        with self.lock:
            self._followed.append(followed)
        try:
            yield followed
        finally:
            with self.lock:
                self._followed = [one for one in self._followed if one is not followed]

    def on_change(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Calls ``callback(what)`` after each change, in the thread that made it.

        ``what`` is ``"tags"``, ``"injectors"``, ``"tried"`` (see `settle`), ``"values"``,
        ``"program"`` where its source was changed, ``"folding"``, ``"views"``, ``"view"``,
        ``"run"``, ``"recorded"`` where other recorded values are shown, ``"expressions"``,
        ``"live"``, ``"named"`` where a run has another name, ``"divided"`` where a run has shown
        how results are divided among devices, ``"states"``, ``"error"`` or ``"closed"``.

        Args:
            callback: The function to call.

        Returns:
            A function that ends this.
        """
        lock, callbacks = self.lock, self._callbacks
        with lock:
            callbacks.append(callback)

        def unsubscribe() -> None:  # which does not keep the session
            with lock, contextlib.suppress(ValueError):
                callbacks.remove(callback)

        return unsubscribe

    @contextlib.contextmanager
    def change(self, what: str, step: str | None = "") -> Iterator[ChangeStep]:
        """Around a change: one thread at a time; tells views about the change, or the error.

        Args:
            what: See `on_change`.
            step: The name of the step to undo; empty to name it by the change, None if it is no
                step.

        Yields:
            The change, whose name and kind can be set.
        """
        with self.mistakes(), self.lock:
            program, before, made = self.program, self._edited, ChangeStep(step or "", what)
            try:
                yield made
            except BaseException:
                self.edited = before
                raise
            if step is not None:
                self.steps.note(before, self._edited, text=made.text)
            self.error = None
            if self.program is not program:
                made.what = "program"
        self.tell(made.what)

    @contextlib.contextmanager
    def mistakes(self) -> Iterator[None]:
        """Tells views what is wrong."""
        try:
            yield
        except taxpr.TaxprError as error:
            self.error = one_line(error)
            self.tell("error")
            if isinstance(error, PanelError):
                raise
            raise PanelError(self.error) from None

    def tell(self, what: str) -> None:
        """Tells views what happened."""
        for callback in list(self._callbacks):
            try:
                callback(what)
            except Exception as error:
                LOG.warning("A view of %r failed", self, exc_info=True)
                warnings.warn(f"A view of {self!r} failed: {one_line(error)}", stacklevel=2)

    def close(self) -> None:
        """Takes the views away; the session itself stays usable."""
        with self.change("closed"):
            self.closed = True

    def summary(self, runs: int = 0) -> str:
        """The session in a line."""
        with self.lock:
            sites = len(self.edited.sites)
            eqns = sum(1 for _ in self.edited.index.eqns())
            parts = [count_of(eqns - sites, "equation")]
            parts += [count_of(sites, "tag"), count_of(len(self.edits.attached), "injector")]
        parts += [count_of(runs, "run")] if runs else []
        return f"<taxpr session {self.call}: {', '.join(parts)}>"

    def __repr__(self) -> str:
        return self.summary()


def without(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The mapping without some of its keys."""
    return {other: value for other, value in mapping.items() if other not in keys}


def _keys_by_name(sites: Iterable[SiteRow]) -> dict[tuple[str | None, int], str]:
    """The keys of tags, by name and number: several tags of the source can share a name."""
    seen = Counter[str | None]()
    found: dict[tuple[str | None, int], str] = {}
    for site in sites:
        found[site.name, seen[site.name]] = site.key
        seen[site.name] += 1
    return found
