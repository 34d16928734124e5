"""`Run`: the result of a run. Outputs with and without injectors, records, times."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.edits import Edits
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.outputs.array_diff import (
    GONE,
    NOT_FINITE,
    ArrayDifference,
    Differing,
    stats,
    value_text,
)
from taxpr_jupyter._runs.outputs.distances import is_key
from taxpr_jupyter._runs.outputs.divided_values import DividedValue
from taxpr_jupyter._runs.outputs.output_charts import OutputChart
from taxpr_jupyter._runs.state_runs import StateRun
from taxpr_jupyter._runs.totals import Compiled

__all__ = ["PHASES", "ArrayDifference", "Phase", "Record", "Run", "record_of"]

PHASES: tuple[str, ...] = ("trace", "lower", "compile", "run")
# Says that work goes on although a phase was cancelled.
_XLA = "{} goes on until it ends, since XLA cannot be stopped; what it gives is thrown away."
_PYTHON = "{} goes on until it comes back to Python; what it gives is thrown away."
LEFT: Mapping[str, str] = {
    "trace": _PYTHON.format("What is traced"),
    "lower": _PYTHON.format("What is lowered"),
    "compile": _XLA.format("The compilation"),
    "run": _XLA.format("The program on the device"),
    "look": _PYTHON.format("The comparison"),
}
_COPIED = 2**20  # the most bytes of an array that are copied where a view would do
HOW_AGAIN = (
    "`print(run.code)` shows Python that makes it again, and `session.kept_bytes` is how much the "
    "runs before the last one keep"
)


@dataclasses.dataclass(frozen=True)
class Phase:
    """A phase of a run, reported before it begins.

    Attributes:
        program: ``"untouched"``, ``"injected"``, or ``"gradient"`` for the gradients of both.
        name: One of `PHASES`.
        step: The number of the phase, from 1.
        steps: The number of phases.
    """

    program: str
    name: str
    step: int
    steps: int


@dataclasses.dataclass(frozen=True)
class Record:
    """The recorded value of one tag, in the run with injectors.

    Attributes:
        key: The key of the site.
        name: The tag's name, or its address.
        value: The token after the injector. If the tag can fire more than once, all firings are
            stacked on a leading axis. None if there is no value.
        stats: Mean, std, min, max and norm, and the numbers of elements that are nan, +inf, -inf,
            and any of these.
        text: The first elements.
        note: The number of firings, or the reason why there is no value.
        report: The report of the injector itself, such as the count of ``count``.
    """

    key: str
    name: str
    value: Any = None
    stats: Mapping[str, float] = dataclasses.field(default_factory=dict)
    text: str = ""
    note: str = ""
    report: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The statistics and the arrays of the injector's report, as names and short texts."""
        hidden = {k for k in NOT_FINITE if not self.stats.get(k)} | {"nonfinite"}
        shown = [(k, f"{v:.6g}") for k, v in self.stats.items() if k not in hidden]
        said = [(k, value_text(v)) for k, v in self.report.items() if hasattr(v, "shape")]
        return shown + [fact for fact in said if fact not in shown]

    def __str__(self) -> str:
        facts = ", ".join(f"{name} {text}" for name, text in self.facts)
        return f"{self.name}: {'; '.join(part for part in (self.text, facts, self.note) if part)}"


@dataclasses.dataclass(frozen=True)
class Run(Differing):
    """One run of the untouched program and of the program with injectors.

    Attributes:
        number: Counts the runs of a session, from 1.
        device: Where it ran.
        code: Python that does the same without the session; empty for a live run until `whole`, or
            until another run follows.
        injectors: The injectors at the time of the run, by key.
        names: The names of their tags, by key.
        program: The program with the changes of its source.
        edits: The changes that the session had.
        name: The name that it was given; may be empty.
        outputs: The result with injectors, in the structure of the function's result.
        baseline: The result of the untouched program.
        differences: The difference of each flat output.
        charts: The contents of the outputs that changed most, by their names.
        divided: The arguments and results that several devices share.
        gradients: The differences of the gradients of the first result that is a single float, by
            the arguments; empty if they were not asked for, see `Session.run`.
        gradient_note: Why they are missing although they were asked for.
        records: The record of each tag, by key.
        times: Seconds for each phase, for both programs together; 0 if it was not needed.
        own: Seconds of the program with injectors alone, once compiled.
        key: Tells the compiled program that ran from others; None if nothing ran.
        calls_out: The number of its equations that have effects: that print, call the host, or
            change arrays in place.
        reused: Whether both programs had been compiled before.
        error: The reason of a failure, in one sentence, or None.
        states: The states of the function in this run.
        final_states: The last values of the states with injectors, PyTrees by name.
        baseline_states: The last values of the states in the untouched program.
        exception: The exception, for ``raise run.exception``, or None.
        cancelled: Whether the run was stopped.
        left: For a stopped run, a sentence about work that still goes on; may be empty.
        ctx: The contexts of the injectors after the run, by key.
        xla: XLA's totals for the programs ``"untouched"`` and ``"injected"``, if it gives any. A
            program that records values includes that work: the injected one always, the untouched
            one if nothing was attached.
        live: Whether results were only glanced at: no records and no code, and arrays are not
            compared.
        finish: For a live run, the function that `whole` calls.
        write_code: For a live run, the function that writes ``code``.
        edition: The state of the session that it ran, see `Session.stale`.
        released: Bytes of large arrays that were released, see `Session.kept_bytes`.
    """

    number: int
    device: str
    code: str
    injectors: Mapping[str, Attached]
    names: Mapping[str, str]
    program: taxpr.Program = dataclasses.field(repr=False, compare=False)
    edits: Edits = dataclasses.field(repr=False, compare=False)
    name: str = ""
    outputs: Any = None
    baseline: Any = None
    differences: tuple[ArrayDifference, ...] = ()
    charts: Mapping[str, OutputChart] = dataclasses.field(default_factory=dict, repr=False)
    divided: tuple[DividedValue, ...] = ()
    gradients: tuple[ArrayDifference, ...] = ()
    gradient_note: str = ""
    records: Mapping[str, Record] = dataclasses.field(default_factory=dict)
    times: Mapping[str, float] = dataclasses.field(default_factory=dict)
    reused: bool = False
    error: str | None = None
    cancelled: bool = False
    left: str = ""
    ctx: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    xla: Mapping[str, Compiled] = dataclasses.field(default_factory=dict)
    states: tuple[StateRun, ...] = ()
    final_states: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    baseline_states: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    exception: BaseException | None = dataclasses.field(default=None, repr=False, compare=False)
    live: bool = False
    finish: Callable[[], Run] | None = dataclasses.field(default=None, repr=False, compare=False)
    write_code: Callable[[], str] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )
    released: int = 0
    edition: int = dataclasses.field(default=0, repr=False, compare=False)
    own: float = dataclasses.field(default=0.0, repr=False, compare=False)
    calls_out: int = dataclasses.field(default=0, repr=False, compare=False)
    key: Any = dataclasses.field(default=None, repr=False, compare=False)

    def whole(self) -> Run:
        """The same run with all records and differences. Nothing is computed again."""
        if self.finish is None:
            return self
        own = {"number": self.number, "times": self.times, "reused": self.reused}
        return dataclasses.replace(self.finish(), **own)

    @property
    def title(self) -> str:
        """Its name, or its number."""
        return self.name or f"run {self.number}"

    @property
    def setup(self) -> dict[str, str]:
        """The changes of the session in words: injectors, lines and states, by their names."""
        edits = self.edits
        return {
            **{self.names[key]: str(one) for key, one in self.injectors.items()},
            **{one.place.place: one.line for one in edits.written},
            **{
                f"initial {name}": ", ".join(map(value_text, jax.tree.leaves(value)))
                for name, value in edits.states.items()
            },
        }

    def by_name(self) -> dict[str, Any]:
        """The outputs with injectors by their names; without those that were released."""
        names = [row.name for row in self.differences if row.after != GONE]
        leaves = [leaf for leaf in jax.tree.leaves(self.outputs) if hasattr(leaf, "shape")]
        if len(leaves) != len(names):  # a class of the user took no placeholders
            return {}
        pairs = zip(names, leaves, strict=True)
        return {name: leaf for name, leaf in pairs if isinstance(leaf, jax.Array | np.ndarray)}

    @property
    def plain(self) -> bool:
        """Whether there is nothing to compare: nothing was injected, and nothing differs."""
        return not self.injectors and all(row.equal for row in self.differences)

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
        return self.error is None and not self.cancelled

    @property
    def xla_lines(self) -> tuple[str, ...]:
        """XLA's totals for the compiled programs, and how it counts, in lines."""
        lines = [f"XLA, {name}: {compiled}" for name, compiled in self.xla.items()]
        return (*lines, "XLA may count the body of a loop once.") if lines else ()

    def __str__(self) -> str:
        if not self.ok:
            state = "was cancelled" if self.cancelled else f"failed: {self.error}"
            left = f". {self.left}" if self.left else ""
            return f"Run {self.number} on {self.device} {state}{left}"
        seconds = ", ".join(f"{name} {self.times[name]:.3f} s" for name in PHASES)
        lines = [
            f"Run {self.number} {f'({self.name}) ' * bool(self.name)}on {self.device} with "
            f"{count_of(len(self.injectors), 'injector')} ({seconds})"
        ]
        lines += [f"  {line}" for line in self.xla_lines]
        lines += [f"  {difference}" for difference in self.by_interest]
        lines += [f"  {difference}" for difference in self.gradients]
        lines += [f"  No gradients: {self.gradient_note}"] if self.gradient_note else []
        lines += [f"  {leaf}" for state in self.states if state.written for leaf in state.leaves]
        if self.released:
            lines.append(
                f"  {introspect.quantity(self.released, 'B')} of this were released. {HOW_AGAIN}."
            )
        if self.divided:
            lines += ["Divided among devices", *(f"  {one}" for one in self.divided)]
        if self.records:
            lines.append("Values at the tags, after their injectors")
            names = collections.Counter(record.name for record in self.records.values())
            for record in self.records.values():
                where = f"{record.key}, " if names[record.name] > 1 else ""
                lines.append(f"  {where}{record}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def record_of(site: SiteRow, seen: Mapping[str, Any], report: Mapping[str, Any]) -> Record:
    """The record of a site, made from the report of `taxpr.record` there."""
    name = site.name or site.address
    fired = int(seen["count"])
    leaves = jax.tree.leaves(seen["values"])
    kept = len(leaves[0]) if leaves else fired
    value, note = seen["values"], f"{count_of(fired, 'firing')}"
    if fired == 0:
        return Record(site.key, name, note="did not fire", report=report)
    if site.trips == 1:
        value, note = jax.tree.map(_only_row, value), ""
    elif kept < fired:
        note = f"the last {kept} of {note}" if kept > 1 else f"the last of {note}"
    leaves = jax.tree.leaves(value)
    return Record(
        key=site.key,
        name=name,
        value=value,
        stats=stats(leaves[0]) if len(leaves) == 1 else {},
        text=", ".join(value_text(leaf) for leaf in leaves),
        note=note,
        report=report,
    )


def _only_row(rows: Any) -> Any:
    """The only row of an array.

    JAX would copy it, which for 200 MB takes longer than most programs. So on the CPU it is a view
    of the same memory.
    """
    if not isinstance(rows, jax.Array) or is_key(rows) or rows.nbytes < _COPIED:
        return rows[0]
    device, *others = rows.devices()
    if others or device.platform != "cpu":
        return rows[0]
    with jax.default_device(device):
        return jax.device_put(np.asarray(rows)[0], device if rows.committed else None)
