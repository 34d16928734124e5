"""The runs of a session: to be compared, named, restored, and written as a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from taxpr_jupyter._edits.steps import EditStep
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._runs.compared_runs import ComparedRuns, compared_runs
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._runs.run_table import as_csv, run_rows
from taxpr_jupyter._store.store import Store

# A run itself, its name such as "run 3", or its place among the runs.
Which: TypeAlias = Run | str | int


class KeptRuns(tuple[Run, ...]):
    """The runs that a session keeps, oldest first.

    A run is called by the name that it was given, by ``"run 3"``, or by its place as in a tuple.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr_jupyter import Session
        >>> session = Session(lambda x: jnp.sin(x) + 1, (0.0,))
        >>> attached = session.attach("0:sin", "add", value=2.0)
        >>> run = session.run()
        >>> session.set_value("0:sin", "value", 3.0)
        >>> run = session.run()
        >>> session.runs.rename("run 2", "more")
        >>> print(session.runs.compare("run 1", "more").headline)
        out f32[]: 3 → 4 (max |Δ| 1, mean |Δ| 1)
        >>> session.runs.restore("run 1")
        >>> session.injectors["0:sin.0"].values
        {'value': 2.0}
    """

    _store: Store
    _rename: Callable[[Run, str], None]

    def __new__(
        cls, runs: Iterable[Run], store: Store, rename: Callable[[Run, str], None]
    ) -> KeptRuns:
        made = super().__new__(cls, runs)
        made._store, made._rename = store, rename
        return made

    def __getitem__(self, which: Any) -> Any:
        """The run of this name or place.

        Raises:
            PanelError: There is no run of this name.
            IndexError: The place is beyond the runs.
        """
        if isinstance(which, Run):
            which = f"run {which.number}"
        if not isinstance(which, str):
            return super().__getitem__(which)
        found = [run for run in self if which in (run.name, f"run {run.number}")]
        if not found:
            names = ", ".join(run.title for run in self) or "none yet"
            raise PanelError(f"There is no run {which!r}. There are {names}")
        return found[0]

    def restore(self, which: Which) -> None:
        """Gives the session again what it had in this run, as one step to undo.

        These are the tags, the injectors with their values, the lines that were typed over, and the
        initial values of states. The arguments of a session never change.

        Args:
            which: The run.

        Raises:
            PanelError: There is no such run.
        """
        run = self[which]
        with self._store.change("tags", step=f"{run.title} again"):
            self._store.go(EditStep(run.program, run.edits, run.title))

    @property
    def current(self) -> tuple[Run, ...]:
        """The runs that had what the session has now."""
        program, edits = self._store.program, self._store.edits
        return tuple(run for run in self if run.program is program and run.edits.runs_as(edits))

    def rename(self, which: Which, name: str) -> None:
        """Gives a run a name. A run with a name is kept until the session ends.

        Args:
            which: The run.
            name: The name; empty to call it by its number again.

        Raises:
            PanelError: There is no such run, or another one has the name.
        """
        run, name = self[which], name.strip()
        taken = {one.name for one in self if one.number != run.number}
        if name and (name in taken or re.fullmatch(r"run \d+", name)):
            raise PanelError(f"A run cannot be called {name!r}: that is the name of another one")
        self._rename(run, name)

    def compare(self, before: Which, after: Which) -> ComparedRuns:
        """The difference of the results of two runs, and of what both recorded at tags.

        Arrays that were released are compared by their first elements; see `Session.kept_bytes`.

        Args:
            before: One run.
            after: The other run.

        Raises:
            PanelError: There is no such run, or it has no results.
        """
        return compared_runs(self[before], self[after])

    def table(self) -> list[dict[str, Any]]:
        """A row for each run, oldest first; all have the same columns.

        These are its name, the device, how it ended, each injector with its numbers, each line and
        initial value that was changed, each output that is a single number, and the seconds.
        ``pandas.DataFrame(session.runs.table())`` takes it as it is.
        """
        return run_rows(self)

    def csv(self) -> str:
        """The table in the format of a spreadsheet."""
        return as_csv(self.table())

    def __repr__(self) -> str:
        return f"<{len(self)} runs: {', '.join(run.title for run in self)}>" if self else "()"
