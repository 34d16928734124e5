"""The part of a session that says whether each new value runs the program at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._store.store import Store

QUICK = 0.2  # seconds of a run that may follow each new value without being asked for


class Following:
    """Decides whether runs follow new values.

    Args:
        store: The present edits.
        runs: Gives the runs whose compiled programs are kept, oldest first.

    Attributes:
        choice: The user's choice; None without one.
    """

    def __init__(self, store: Store, runs: Callable[[], Sequence[Run]]) -> None:
        self._store = store
        self._runs = runs
        self.choice: bool | None = None

    @property
    def live(self) -> bool:
        """Whether a panel runs the program again with each new value of an injector or a state.

        Set it to True or False to choose; None leaves it to the session again, as at first. Then it
        is True after a run of less than 0.2 seconds, as long as that compiled program can run with
        the new values: a run that you did not ask for never compiles. It is False before the first
        run, after one that was cancelled, and for programs that print, call the host or change
        arrays in place: you would see that happen with each step of a slider.

        Raises:
            PanelError: It is set to something else.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> session = Session(lambda x: jnp.sin(x) + 1, (0.5,))
            >>> attached = session.attach("0:sin", "scale", factor=0.5)
            >>> before, run = session.live, session.run()
            >>> before, session.live
            (False, True)
            >>> session.live = False
            >>> session.live
            False
        """
        if self.choice is not None:
            return self.choice
        return self._measured is not None and not self.why_not_live

    @live.setter
    def live(self, choice: bool | None) -> None:
        with self._store.change("live"):
            if not (choice is None or isinstance(choice, bool)):
                raise PanelError(f"live is True, False, or None: not {choice!r}")
            self.choice = choice

    @property
    def why_not_live(self) -> str:
        """Why `live` is not True by itself although the program ran as it is; may be empty."""
        run = self._measured
        if run is None or self.choice is not None:
            return ""
        if run.calls_out:
            return "the program prints, calls the host or changes arrays in place"
        return f"the last run took {run.own:.2g} s" if run.own >= QUICK else ""

    @property
    def _measured(self) -> Run | None:
        """The last run of the compiled program that would run now."""
        runs = self._runs()
        if not runs or runs[-1].cancelled:
            return None
        run = next((run for run in reversed(runs) if run.ok), None)
        edits = self._store.edits
        alike = run is not None and (
            run.program is self._store.program
            and run.edits.tags == edits.tags
            and run.edits.watched == edits.watched
            and run.edits.written == edits.written
            and _compiled(run.edits.attached) == _compiled(edits.attached)
        )
        return run if alike else None


def _compiled(attached: Mapping[str, Attached]) -> Any:
    """The injectors without their numbers, which are arguments of the compiled program."""
    return {
        key: [(id(part.source), part.name, part.off, _types(part)) for part in (one, *one.each)]
        for key, one in attached.items()
        if not one.idle
    }


def _types(one: Attached) -> list[Any]:
    """The types of the ctx that the user gave."""
    return [jax.typeof(leaf) for leaf in jax.tree.leaves(one.ctx)] if one.asks_ctx else []
