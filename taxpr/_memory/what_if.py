"""`MemoryUse.what_if`: how much memory a change of the source saves, tried by `edit`."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._calls.libraries import users_name_of
from taxpr._compile_time.alone import spent_alone
from taxpr._compile_time.parts import PieceOfPart
from taxpr._errors import ArgumentError, RefusedError, TaxprError, name_of, told_as
from taxpr._given import refuse_no_flag
from taxpr._memory.tried_changes import (
    Asked,
    Needs,
    Trial,
    argument_names,
    checkpointed,
    donated,
    halved,
    scanned,
    with_loops,
)
from taxpr._memory.what_if_rows import WhatIf, WhatIfRow

_ENOUGH = 0.05  # the share of the total that advice is worth
_FEWER = 0.5  # of the equations, which makes compiling worth telling


def what_if(
    asked: Asked,
    *,
    checkpoint: Any = None,
    policy: Any = None,
    scan: Any = None,
    bfloat16: Any = None,
    donate: str | int | None = None,
    measure: bool = False,
) -> WhatIf:
    """The memory that one change would save; see `MemoryUse.what_if`."""
    refuse_no_flag("what_if", measure=measure)
    given = [x is not None for x in (checkpoint, scan, bfloat16, donate)]
    if sum(given) != 1:
        raise ArgumentError(
            f"what_if: {sum(given)} changes are given. Give one: checkpoint=, scan=, "
            "bfloat16= or donate=."
        )
    if policy is not None and checkpoint is None:
        raise ArgumentError("what_if: policy= goes with checkpoint=, a function.")
    if hasattr(asked.fun, "jaxpr"):
        raise ArgumentError(
            "what_if: memory was asked of a Program, which is traced and has no source to edit. "
            "Ask it of the function."
        )
    _refuse_shards(asked, "what_if", measure)
    with told_as("edit", "what_if"):
        if checkpoint is not None:
            change = checkpointed(asked.fun, checkpoint, policy)
        elif scan is not None:
            change = scanned(asked.fun, scan)
        elif bfloat16 is not None:
            change = halved(asked.fun, bfloat16)
        else:
            change = donated(asked, donate)
        try:
            row, notes = _row(asked, change, measure)
        except TaxprError:
            raise
        except Exception as error:
            said = (str(error).splitlines() or [""])[0]
            raise RefusedError(
                f"what_if: where {change.what}, the function raises {type(error).__name__}: {said}"
            ) from error
    return WhatIf(f"what if {row.change}", [row], (*_notes([row]), *notes))


def advice(asked: Asked, *, measure: bool) -> WhatIf:
    """Try the changes that may pay; see `MemoryUse.advice`."""
    refuse_no_flag("advice", measure=measure)
    if hasattr(asked.fun, "jaxpr"):
        raise ArgumentError("advice: memory was asked of a Program. Ask it of the function.")
    _refuse_shards(asked, "advice", False)
    makes: list[Callable[[], Trial]] = []
    for name, _ in asked.parts:
        makes += [
            functools.partial(checkpointed, asked.fun, name, policy)
            for policy in (None, jax.checkpoint_policies.dots_saveable)
        ]
    makes += [functools.partial(scanned, asked.fun, name) for name in with_loops(asked)]
    makes += [functools.partial(donated, asked, name) for name in argument_names(asked)]
    tried: list[tuple[WhatIfRow, tuple[str, ...], Trial]] = []
    notes: dict[str, None] = {}
    for make in makes:
        try:
            change = make()
            with told_as("edit", "advice"):
                tried.append((*_row(asked, change, False), change))
        except (TaxprError, TypeError, ValueError) as error:
            said = str(error).splitlines()[0].removeprefix("what_if: ")
            notes[f"Not tried: {said}"] = None
    few = asked.now.equations * _FEWER
    pay = [
        (*_row(asked, change, True), change) if measure else (row, more, change)
        for row, more, change in tried
        if row.saved > _ENOUGH or (row.saved > -_ENOUGH and row.equations < few)
    ]
    rows = [row for row, _, _ in pay]
    notes.update((note, None) for _, more, _ in pay for note in more)
    rows.sort(key=lambda row: -row.saved)
    pays = "1 change of {} pays" if len(rows) == 1 else f"{len(rows)} changes of {{}} pay"
    headline = f"advice for {users_name_of(asked.fun)}: {pays.format(len(tried))}"
    return WhatIf(headline, rows, (*_notes(rows), *notes))


def _refuse_shards(asked: Asked, name: str, measure: bool) -> None:
    """Refuse to predict what one of several devices needs: the model knows no shardings."""
    if asked.compiled and not measure and asked.devices > 1:
        raise RefusedError(
            f"{name}: {name_of(asked.fun)} uses {asked.devices} devices, and a prediction knows no "
            "shardings. Give what_if a change with measure=True, which compiles it."
        )


def _notes(rows: Sequence[WhatIfRow]) -> tuple[str, ...]:
    if not rows or all(row.measured for row in rows):
        return ()
    return ("Predicted from the program; measure=True compiles the changed function.",)


def _row(asked: Asked, change: Trial, measure: bool) -> tuple[WhatIfRow, tuple[str, ...]]:
    """The row of a change, and notes on its operations."""
    now = asked.now
    with warnings.catch_warnings():  # of a donation that saves nothing, which the row says
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        found = asked.needs(change.fun, measure)
    if not measure and asked.compiled:
        found = _corrected(found, now, asked.needs(asked.fun, False))
    saved = 1 - found.total / now.total if now.total else 0.0
    cost = found.cost
    flops = cost.flops - now.cost.flops
    size = found.equations
    row = WhatIfRow(change.what, found.total, saved, flops, size, change.code(), measure)
    notes = [f"Operations {note}." for note in cost.lines()[1:]] if flops else []
    if size < now.equations * _FEWER:
        times = [f"{_seconds(one):.2f} s" for one in (found, now)] if measure else []
        takes = f": lowering and compiling takes {times[0]}, and {times[1]} now" if times else ""
        few = f"{size} equations to compile where {change.what}, and {now.equations} now"
        notes.append(f"There are {few}{takes}.")
    return row, (*notes, *change.notes())


def _seconds(needs: Needs) -> float:
    """How long it takes to lower and compile a program."""
    jaxpr = _compat.open_jaxpr(needs.jaxpr)
    return spent_alone(PieceOfPart(jaxpr, list(jaxpr.eqns))).total


def _corrected(found: Needs, now: Needs, guess: Needs) -> Needs:
    """An estimate, corrected by the error of the estimate for the present program.

    Bytes that are gone are corrected by their share; bytes that are new stay as they are.
    """
    share = min(found.temporaries / guess.temporaries, 1.0) if guess.temporaries else 1.0
    temporaries = round(now.temporaries * share)
    temporaries += max(found.temporaries - guess.temporaries, 0)
    return Needs(found.ends + now.ends - guess.ends, temporaries, found.jaxpr)
