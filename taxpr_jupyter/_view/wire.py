"""Convert the session's dataclasses to small plain dicts for `static/panel.js`.

They contain only text, numbers and lists, so that they are JSON. `_messages` declares them.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal

from taxpr_jupyter._edits.inspect import Inspection, ValueRow
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._lines.jaxpr_text import jaxpr_rows
from taxpr_jupyter._lines.line import ProgramLine
from taxpr_jupyter._lines.rows import outline_rows
from taxpr_jupyter._messages import run_results, selected, tabs
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.compared_runs import ComparedRuns
from taxpr_jupyter._runs.outputs.array_diff import ArrayDifference, Differing
from taxpr_jupyter._runs.outputs.output_charts import OutputChart
from taxpr_jupyter._runs.run import Record, Run
from taxpr_jupyter._session.kept_runs import KeptRuns
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._text.short import shortened

LONGEST_TEXT = 2000  # characters of one value or param; the whole is in Python
LIVE_OUTPUTS = 20  # of a live run: each row takes a part of a millisecond
SUMMARY = 40  # characters of an error beside the Run button
MOST_LINES = 2000  # of a program in one view


def inspection_state(address: str, node: Inspection) -> selected.SelectedNode:
    """The inspector's data for the node at this address."""
    toggle = "" if not node.foldable else "fold" if node.unfolded else "unfold"
    return {
        "address": address,
        "title": node.title,
        "kind": node.kind,
        "facts": [(name, _short(text)) for name, text in node.params],
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "values": [_value(row) for row in node.values],
        "source": node.source,
        "line": node.source_line.strip(),
        "valueSource": node.value_source,
        "valueLine": node.value_line.strip(),
        "addedBy": _short(node.added_by),
        "scope": node.scope,
        "tag": tag_state(node.site) if node.site else None,
        "tagParams": [
            (name, _short(repr(value))) for name, value in (node.tag_params or {}).items()
        ],
        "cost": list(node.cost),
        "toggle": toggle,
        "note": node.refused or "",
    }


def tag_state(site: SiteRow) -> selected.Tag:
    """One tag, for the list of all tags and for the inspector."""
    fires = "" if site.trips is None else f"fires {count_of(site.trips, 'time')}"
    fires += " at most" if fires and site.site.conditional else ""
    return {
        "address": site.address,
        "name": site.name or site.address,
        "type": site.avals,
        "where": ", ".join(filter(None, (site.where, fires))),
        "added": site.added,
        "injector": str(site.injector or ""),
    }


def results_state(run: Run) -> run_results.Results:
    """One run: outputs against the untouched run, what was recorded, and the times."""
    rows = run.by_interest
    some = [row for row in rows if not row.quiet][:LIVE_OUTPUTS] if run.live else rows
    return {
        "number": run.number,
        "against": 0,
        "sides": ["untouched", "changed"],
        "title": f"{_capital(run.title)} on {run.device}",
        "headline": headline(run),
        "plain": run.plain,
        "status": "error" if run.error else "cancelled" if run.cancelled else "done",
        "error": run.error or "",
        "cancelled": f"This run was cancelled. {run.left}".strip() if run.cancelled else "",
        "changes": [f"{name}: {words}" for name, words in run.setup.items()],
        "xla": list(run.xla_lines),
        "times": [(phase, seconds) for phase, seconds in run.times.items()],
        "outputs": [_output(row, run.charts.get(row.name)) for row in some],
        "unchanged": _unchanged(run.differences, run.live),
        "more": sum(not row.quiet for row in rows[len(some) :]),
        "divided": [
            {"name": one.name, "type": one.division.type, "devices": one.division.words}
            for one in run.divided
        ],
        "gradients": [_output(row) for row in run.gradients],
        "gradientNote": f"No gradients: {run.gradient_note}." if run.gradient_note else "",
        "records": [_record(record) for record in run.records.values()],
        "recorded": [],
    }


def compared_state(found: ComparedRuns) -> run_results.Results:
    """Two runs, next to each other."""
    before, after = found.before, found.after
    shown = results_state(after)
    records = [row for row in found.records if not row.quiet]
    return {
        **shown,
        "against": before.number,
        "sides": [before.title, after.title],
        "title": f"{_capital(before.title)} → {after.title}",
        "headline": headline(found),
        "plain": False,
        "changes": list(found.changes),
        "xla": [],
        "times": [],
        "outputs": [_output(row, found.charts.get(row.name)) for row in found.by_interest],
        "unchanged": _unchanged(found.differences),
        "more": 0,
        "divided": [],
        "gradients": [],
        "gradientNote": "",
        "records": [],
        "recorded": [_output(row) for row in records],
    }


def runs_state(runs: KeptRuns, table: bool) -> run_results.RunStrip:
    """The runs of a session, newest first, and their table if it is asked for."""
    last, current = runs[-1], {run.number for run in runs.current}
    return {
        "summary": f"{_capital(last.title)}: {summary(last)}",
        "csv": runs.csv() if table else "",
        "runs": [
            {
                "number": run.number,
                "title": run.title,
                "name": run.name,
                "loss": _outcome(run),
                "changes": ", ".join(f"{name}: {words}" for name, words in run.setup.items()),
                "failed": not run.ok,
                "current": run.number in current,
            }
            for run in reversed(runs)
        ],
    }


def _outcome(run: Run) -> str:
    """The outcome of a run, as short as can be: its loss, if it has one."""
    if not run.ok:
        return "cancelled" if run.cancelled else "failed"
    return run.headline.after if run.headline else summary(run)


def _capital(words: str) -> str:
    return f"R{words[1:]}" if re.fullmatch(r"run \d+", words) else words


def summary(run: Run) -> str:
    """The outcome of a run, in a few words: what is not finite first, for they may be cut."""
    if run.error:
        return f"failed: {shortened(' '.join(run.error.split()), SUMMARY)}"
    if run.cancelled:
        return "cancelled"
    changed = [row for row in run.differences if not row.equal]
    if not run.differences:
        return "done"
    wrong = sum(bool(row.not_finite) for row in run.differences)
    every = count_of(len(run.differences), "output")
    also = ""
    if run.gradients:
        number = sum(not row.equal for row in run.gradients)
        gradients = count_of(len(run.gradients), "gradient")
        also = f"; {number} of {gradients} changed" if number else "; no gradient changed"
    if wrong:
        return f"{wrong} of {every} not finite, {len(changed) or 'none'} changed{also}"
    if not changed:
        return f"no output changed{also}"
    numbers = [row.max for row in changed if row.max and not math.isnan(row.max)]
    by = f", by {max(numbers):.3g} at most" if numbers else ""
    return f"{len(changed)} of {every} changed{by}{also}"


def headline(run: Differing) -> str:
    """The change of the loss, or of the first output that is a float scalar; empty without one."""
    row = run.headline
    if row is None:
        return ""
    if row.equal:
        return f"{row.name} {row.after}"
    change = f"{row.name} {row.before} → {row.after}"
    if row.relative is None or not math.isfinite(row.relative):
        return change
    sign = "+" if float(row.after) > float(row.before) else "−"
    return f"{change} ({sign}{_percent(row.relative)})"


def _unchanged(rows: Iterable[ArrayDifference], live: bool = False) -> str:
    """A note about the folded outputs: those that are unchanged and finite; empty without any."""
    quiet = [row.compared for row in rows if row.quiet]
    if not quiet:
        return ""
    if live:
        seen = count_of(len(quiet), "output")
        return f"{seen} with the same first elements, not compared while Live"
    said = f"{count_of(sum(quiet), 'output')} unchanged"
    if all(quiet):
        return said
    seen = count_of(len(quiet) - sum(quiet), "output")
    return f"{said}, {seen} with the same first elements: the rest is released"


def _value(row: ValueRow) -> selected.NodeValue:
    return {
        "address": row.address,
        "text": row.text,
        "tag": tag_state(row.tag) if row.tag else None,
        "refused": row.refused or "",
    }


def _output(row: ArrayDifference, chart: OutputChart | None = None) -> run_results.Output:
    return {
        "name": row.name,
        "tree": "".join(path_parts(row.name)[:-1][:2]),
        "type": row.aval,
        "chart": _chart(chart) if chart else None,
        "before": _short(row.before),
        "after": _short(row.after),
        "largest": _difference(row.max),
        "mean": _difference(row.mean),
        # Where only what is not finite differs, the distance of the others says nothing.
        "relative": _percent(row.relative if row.relative or row.equal else None),
        "same": row.equal,
        "notFinite": row.not_finite,
        "note": row.note,
    }


def _chart(chart: OutputChart) -> run_results.Drawn:
    ends = f"from {chart.low:.4g} to {chart.high:.4g}"
    words = f"values {ends}" if chart.kind == "line" else f"how many values are where, {ends}"
    return {"kind": chart.kind, "before": chart.before, "after": chart.after, "words": words}


def _percent(share: float | None) -> str:
    """A relative difference; not "19 times", since 80 is 20 times 4."""
    if share is None or math.isnan(share):
        return "–"
    if math.isinf(share):
        return "from 0"
    if share >= 1e4:
        return f"{100 * share:.3g} %"
    return f"{100 * share:,.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _record(record: Record) -> run_results.Recorded:
    return {
        "name": record.name,
        "address": record.key,
        "facts": list(record.facts),
        "values": _short(record.text),
        "note": record.note,
    }


def _difference(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return "0" if value == 0 else f"{value:.4g}"


def _short(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def tags_state(sites: Iterable[SiteRow]) -> list[selected.Tag]:
    """All tags in program order."""
    return [tag_state(site) for site in sites]


def rows_state(
    view: Literal["text", "outline"], lines: Sequence[ProgramLine], note: str
) -> tabs.TextRows:
    """The program as the rows of a view, "text" or "outline".

    Args:
        view: Which view.
        lines: The content of the picture; of very many lines only the first ones are sent.
        note: Why there is no picture; may be empty.
    """
    shown = lines[:MOST_LINES]
    complete = len(shown) == len(lines)
    rows = outline_rows(shown) if view == "outline" else jaxpr_rows(shown, complete)
    return {
        "view": view,
        "note": note,
        "more": len(lines) - len(shown),
        "rows": [
            {
                "address": row.address,
                "depth": row.depth,
                "kind": row.kind,
                "marks": list(row.marks),
                "fold": row.fold or "",
                "open": row.open,
                "spans": list(row.spans),
            }
            for row in rows
        ],
    }
