"""The part of a session that says whether each new value runs the program at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._store.store import Store

QUICK = 0.2  # seconds of a run that may follow each new value without being asked for


class Following:
    """Decides whether runs follow new values.

    Args:
        store: The present edits.
        runs: Gives the runs that are kept, oldest first.
        compiled: Gives the key of the program that a live run would run; None if it would compile
            anything.

    Attributes:
        choice: The user's choice; None without one.
    """

    def __init__(
        self, store: Store, runs: Callable[[], Sequence[Run]], compiled: Callable[[], Any]
    ) -> None:
        self._store = store
        self._runs = runs
        self._compiled = compiled
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
        return self.choice if self.choice is not None else not self.why_not_live

    @live.setter
    def live(self, choice: bool | None) -> None:
        with self._store.change("live"):
            if not (choice is None or isinstance(choice, bool)):
                raise PanelError(f"live is True, False, or None: not {choice!r}")
            self.choice = choice

    @property
    def why_not_live(self) -> str:
        """Why `live` is False, in words; empty if it is True.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> Session(jnp.sin, (0.5,)).why_not_live
            'the program has not run yet'
        """
        if self.choice is not None:
            return "" if self.choice else "it was switched off"
        runs = self._runs()
        if not runs:
            return "the program has not run yet"
        if runs[-1].cancelled:
            return "the last run was cancelled"
        key = self._compiled()
        run = next((run for run in reversed(runs) if run.ok and run.key == key), None)
        if key is None or run is None:
            return "the program with its changes has to be compiled first: run it once"
        if run.calls_out:
            return "the program prints, calls the host or changes arrays in place"
        return f"the last run took {run.own:.2g} s" if run.own >= QUICK else ""
