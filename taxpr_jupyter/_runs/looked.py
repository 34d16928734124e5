"""The results of both programs of a run: differences, records, contexts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

import taxpr
from taxpr.libraries import plain
from taxpr_jupyter._edits.attached import Attached
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._runs.devices import device_name, placed_on
from taxpr_jupyter._runs.gradients import Slopes
from taxpr_jupyter._runs.outputs.array_diff import ArrayDifference, alone, compare, glance
from taxpr_jupyter._runs.outputs.divided_values import divided_values
from taxpr_jupyter._runs.outputs.output_charts import output_charts
from taxpr_jupyter._runs.run import Record, Run, record_of
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._runs.state_runs import parts, state_runs, written
from taxpr_jupyter._runs.switches import values_of
from taxpr_jupyter._runs.totals import Compiled


@dataclasses.dataclass(frozen=True)
class Computed:
    """The arguments and results of both programs.

    ``watched`` has the injectors at each tag; ``own`` and ``calls_out`` are as for `Run`.
    """

    given: Any
    baseline: Any
    outputs: Any
    ctx: Mapping[str, Any]
    watched: Mapping[taxpr.program.Site, list[taxpr.injectors.Injector]]
    xla: Mapping[str, Compiled | None]
    slopes: Slopes
    own: float
    calls_out: int


def looked_at(
    plan: Plan,
    run: Run,
    computed: Computed,
    live: bool = False,
    finish: Callable[[], Run] | None = None,
) -> Run:
    """The run with its results, differences and records; ``live`` only glances at them."""
    before, before_states = parts(plan.untouched, computed.baseline)
    after, after_states = parts(plan.program, computed.outputs)
    leaves = jax.tree.leaves(before), jax.tree.leaves(after)
    before, after = plain(before), plain(after)  # with what is no array
    compared = glance if live else compare
    records = {} if live else _records(plan, computed)
    differences, arrays = _differences(plan, compared, *leaves)
    where = ", ".join(sorted(device_name(d) for d in placed_on((computed.outputs, computed.ctx))))
    return dataclasses.replace(
        run,
        device=where or run.device,
        outputs=after,
        baseline=before,
        differences=differences,
        charts={} if live else output_charts(differences, arrays),
        divided=divided_values(plan.program, computed.given, computed.outputs),
        states=state_runs(
            plan.program,
            (plan.states, before_states, after_states),
            {} if live else written(plan.edits.watched, plan.sites, records),
            compared,
        ),
        final_states=after_states,
        baseline_states=before_states,
        records=records,
        ctx={
            site.key: _own(site.injector, computed.ctx[site.address])
            for site in plan.sites
            if site.injector and not site.injector.edits
        },
        xla={name: totals for name, totals in computed.xla.items() if totals is not None},
        gradients=computed.slopes.compared(),
        gradient_note=computed.slopes.note,
        live=live,
        finish=finish,
        own=computed.own,
        calls_out=computed.calls_out,
    )


def _differences(
    plan: Plan, compared: Callable[..., ArrayDifference], before: list[Any], after: list[Any]
) -> tuple[tuple[ArrayDifference, ...], dict[str, tuple[Any, Any]]]:
    """The differences of the outputs, which an edit may change, and both arrays of each."""
    there = dict(zip(plan.untouched.out_names[: len(before)], before, strict=True))
    now = dict(zip(plan.program.out_names[: len(after)], after, strict=True))
    arrays = {name: (there.get(name), now.get(name)) for name in (now | there)}
    differences = tuple(
        compared(name, *pair) if name in there and name in now else alone(name, pair[1], pair[0])
        for name, pair in arrays.items()
    )
    return differences, arrays


def _records(plan: Plan, computed: Computed) -> dict[str, Record]:
    reports: dict[str, list[Any]] = {
        site.address: list(map(_said, row, computed.ctx[site.address]))
        for site, row in computed.watched.items()
    }
    return {site.key: _record(site, reports.get(site.address)) for site in plan.sites}


def _said(injector: taxpr.injectors.Injector, ctx: Any) -> dict[str, Any]:
    """The report of an injector that is at one tag."""
    [report] = injector.report_of(ctx).values()
    return report


def _record(site: SiteRow, reports: Sequence[Mapping[str, Any]] | None) -> Record:
    if reports is None:
        return Record(site.key, site.name or site.address, note=f"not recorded: {site.refused}")
    *own, seen = reports
    return record_of(site, seen, own[0] if own else {})


def _own(attached: Attached, ctx: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The context of the injector alone, without what the run has added."""
    state = ctx[0]["state"]
    if not attached.injector.shared:
        (state,) = state.values()
    return {"values": values_of(attached, ctx[0]), "state": state}
