"""Marks of runs at the lines of the source: values that were kept, changed, or are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from taxpr_jupyter._analysis.makers import made_at
from taxpr_jupyter._messages.source_tab import LineMark, LineMarkKind
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._runs.outputs.array_diff import ArrayDifference, stats
from taxpr_jupyter._runs.released import Released
from taxpr_jupyter._runs.run import Run
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._text.short import visible

T = TypeVar("T")


def line_marks(
    session: Session, recorded: Iterable[str], nonfinite: Mapping[str, int]
) -> dict[int, list[LineMark]]:
    """The marks of lines by their numbers, the most urgent of a line first.

    Args:
        session: Its tags and its last run are told.
        recorded: The addresses whose values were recorded besides.
        nonfinite: How many elements of these are not finite; without those that all are.
    """
    run = session.last
    done = run if run is not None and run.ok and not run.live else None
    wrong, changed = dict(nonfinite), dict[str, ArrayDifference]()
    if done is not None:
        wrong |= _at_tags(session, done)
        outputs = _outputs(session, done)
        for address, (_, number) in outputs.items():
            if number:
                wrong.setdefault(address, number)
        changed = {address: row for address, (row, _) in outputs.items()}
    found: dict[int, list[LineMark]] = {}
    for line, numbers in _by_line(session, wrong).items():
        found[line] = [{"kind": "bad", "text": f"not finite: {count_of(max(numbers), 'element')}"}]
    for line, rows in _by_line(session, changed).items():
        if words := _changed(rows):
            found.setdefault(line, []).append({"kind": "changed", "text": words})
    for kind, words in _kept(session, done, recorded).items():
        for line, texts in _by_line(session, words).items():
            text = "; ".join(dict.fromkeys(texts))
            found.setdefault(line, []).append({"kind": kind, "text": text})
    return found


def _by_line(session: Session, of: Mapping[str, T]) -> dict[int, list[T]]:
    """The marks of addresses, by the numbers of their lines."""
    found: dict[int, list[T]] = {}
    for address, numbers in session.lines_of(of).items():
        for line in numbers:
            found.setdefault(line, []).append(of[address])
    return found


def _kept(
    session: Session, run: Run | None, recorded: Iterable[str]
) -> dict[LineMarkKind, dict[str, str]]:
    """At which values a run recorded, or will record, something."""
    there = run.records if run is not None else {}
    kept: dict[str, str] = dict.fromkeys(recorded, "recorded")
    watched: dict[str, str] = {}
    for site in session.sites():
        address, name = site.site.value_address or site.address, visible(site.name or site.address)
        if site.key in there and there[site.key].value is not None:
            kept[address] = f"recorded at the tag {name}"
        elif not site.refused:
            watched[address] = f"has the tag {name}: a run records it"
    return {"recorded": kept, "watched": watched}


def _at_tags(session: Session, run: Run) -> dict[str, int]:
    """How many elements at tags are not finite, by the address of the value."""
    sites = {site.key: site.site for site in session.sites()}
    return {
        sites[key].value_address or sites[key].address: int(number)
        for key, record in run.records.items()
        if (number := record.stats.get("nonfinite")) and key in sites
    }


def _changed(rows: Sequence[ArrayDifference]) -> str:
    """How results of one line changed, in words; empty if none did."""
    changed = [row for row in rows if not row.equal]
    if not changed:
        return ""
    sizes = [row.max if row.max and not math.isnan(row.max) else 0.0 for row in changed]
    by = f" by {max(sizes):.3g} at most" if any(sizes) else ""
    if len(rows) == 1:
        return f"changed{by}"
    if by:
        by = f",{by} ({visible(changed[sizes.index(max(sizes))].name)})"
    return f"{len(changed)} of {count_of(len(rows), 'array')} changed{by}"


def _outputs(session: Session, run: Run) -> dict[str, tuple[ArrayDifference, int]]:
    """How outputs changed, and how many elements are not finite; by address."""
    found: dict[int, tuple[ArrayDifference, int]] = {}
    arrays: Any = (jax.Array, np.ndarray, Released)  # beside what is none
    leaves = [one for one in jax.tree.leaves(run.outputs) if isinstance(one, arrays)]
    for k, (row, leaf) in enumerate(zip(run.differences, leaves, strict=True)):
        # Of a result that was let go of there are no elements to count.
        there = bool(row.not_finite) and isinstance(leaf, jax.Array | np.ndarray)
        number = int(stats(leaf).get("nonfinite", 0)) if there else 0
        found[k] = (row, number)
    places = made_at(session.program, found)
    return {address: found[k] for k, address in places.items()}
