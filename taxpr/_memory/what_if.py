"""`MemoryUse.what_if`: how much memory a change of the source saves, tried by `edit`."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy

from taxpr._answers.answer import Answer
from taxpr._answers.tables import size_text
from taxpr._calls.libraries import is_object
from taxpr._calls.static import is_traced
from taxpr._compat import PyTree, map_leaves
from taxpr._editing.edited import edit
from taxpr._errors import ArgumentError, RefusedError, TaxprError, name_of, signature_of

_jax: Any = jax  # which declares no types for what is read of it here
_ENOUGH = 0.05  # the share of the total that advice is worth


@dataclasses.dataclass(frozen=True)
class WhatIfRow:
    """A change of the source, and what it saves; a row of `WhatIf`.

    Attributes:
        change: What is changed.
        total: The bytes that the call would need in all.
        saved: Its share of what it needs now; negative where it needs more.
        code: What to write.
        measured: Whether XLA says so of the changed function, and it is not predicted.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda w, x: w - 0.1 * x)(jnp.ones(1000), jnp.ones(1000))
        >>> [row] = use.what_if(donate="w", measure=True).rows
        >>> row.change, row.total, use.total
        ('w is donated', 8000, 12000)
    """

    change: str
    total: int
    saved: float
    code: str
    measured: bool


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class WhatIf(Answer):
    """The memory that changes of the source would save; `MemoryUse.what_if` makes it.

    Attributes:
        headline: A sentence that says which changes these are.
        rows: A `WhatIfRow` for each change, the best first.
        notes: Whether the numbers are measured or predicted.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda w, x: w - 0.1 * x)(jnp.ones(1000), jnp.ones(1000))
        >>> use.what_if(donate="w", measure=True)
        what if w is donated
        change        total  saved  code                            measured
        w is donated  8 kB   33%    jax.jit(..., donate_argnums=0)  True
    """

    def _shown(self) -> list[dict[str, Any]]:
        return [
            {**row, "total": size_text(row["total"]), "saved": f"{row['saved']:.0%}"}
            for row in super()._shown()
        ]


class Asked(NamedTuple):
    """A call of which memory was asked.

    Attributes:
        fun: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        totals: Of a function, and whether to compile it: the bytes of arguments, results without
            those that lie in donated arguments, and temporaries.
        parts: The user's functions that make residuals, by their names, and how many bytes.
    """

    fun: Any
    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]
    totals: Callable[[Any, bool], tuple[int, int]]
    parts: Sequence[tuple[str, int]]


class _Trial(NamedTuple):
    """A function with a change, and how it is told."""

    fun: Any
    what: str
    code: str


def what_if(
    asked: Asked,
    now: tuple[int, int],
    measured_now: bool,
    *,
    checkpoint: Any = None,
    policy: Any = None,
    bfloat16: Any = None,
    donate: str | int | None = None,
    measure: bool = False,
) -> WhatIf:
    """What one change would save; see `MemoryUse.what_if`."""
    given = [x is not None for x in (checkpoint, bfloat16, donate)]
    if sum(given) != 1:
        raise ArgumentError(
            f"what_if: {sum(given)} changes are given. Give one: checkpoint=, bfloat16= or donate=."
        )
    if policy is not None and checkpoint is None:
        raise ArgumentError("what_if: policy= goes with checkpoint=, a function.")
    if hasattr(asked.fun, "jaxpr"):
        raise ArgumentError(
            "what_if: memory was asked of a Program, which is traced and has no source to edit. "
            "Ask it of the function."
        )
    if checkpoint is not None:
        change = _checkpointed(asked.fun, checkpoint, policy)
    elif bfloat16 is not None:
        change = _halved(asked.fun, bfloat16)
    else:
        change = _donated(asked, donate)
    row = _row(asked, now, measured_now, change, measure)
    return WhatIf(f"what if {row.change}", [row], _notes([row]))


def advice(asked: Asked, now: tuple[int, int], measured_now: bool, *, measure: bool) -> WhatIf:
    """Try the changes that may pay; see `MemoryUse.advice`."""
    if hasattr(asked.fun, "jaxpr"):
        raise ArgumentError("advice: memory was asked of a Program. Ask it of the function.")
    makes: list[Callable[[], _Trial]] = []
    for name, _ in asked.parts:
        makes += [
            functools.partial(_checkpointed, asked.fun, name, policy)
            for policy in (None, jax.checkpoint_policies.dots_saveable)
        ]
    makes += [functools.partial(_donated, asked, name) for name in _names(asked)]
    tried: list[tuple[WhatIfRow, _Trial]] = []
    notes: dict[str, None] = {}
    for make in makes:
        try:
            change = make()
            tried.append((_row(asked, now, measured_now, change, False), change))
        except (TaxprError, TypeError, ValueError) as error:
            notes[f"Not tried: {str(error).splitlines()[0]}"] = None
    pay = [pair for pair in tried if pair[0].saved > _ENOUGH]
    rows = [_row(asked, now, measured_now, x, True) if measure else row for row, x in pay]
    rows.sort(key=lambda row: -row.saved)
    headline = f"advice for {name_of(asked.fun)}: {len(rows)} changes of {len(tried)} pay"
    return WhatIf(headline, rows, (*_notes(rows), *notes))


def _notes(rows: Sequence[WhatIfRow]) -> tuple[str, ...]:
    if not rows or all(row.measured for row in rows):
        return ()
    return ("Predicted from the program; measure=True compiles the changed function.",)


def _row(
    asked: Asked, now: tuple[int, int], measured_now: bool, change: _Trial, measure: bool
) -> WhatIfRow:
    with warnings.catch_warnings():  # of a donation that saves nothing, which the row says
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        ends, temporaries = asked.totals(change.fun, measure)
    before = sum(now)
    if not measure and measured_now:
        # What the model gets wrong of the program as it is, it gets wrong of the changed one, too:
        # what is there no more by its share, what is new as it is.
        guess = asked.totals(asked.fun, False)
        ends += now[0] - guess[0]
        share = min(temporaries / guess[1], 1.0) if guess[1] else 1.0
        temporaries = round(now[1] * share) + max(temporaries - guess[1], 0)
    total = ends + temporaries
    saved = 1 - total / before if before else 0.0
    return WhatIfRow(change.what, total, saved, change.code, measure)


def _checkpointed(fun: Any, where: Any, policy: Any) -> _Trial:
    if policy is not None and not callable(policy):
        raise ArgumentError(
            f"what_if: policy={policy!r} is no function such as "
            "jax.checkpoint_policies.dots_saveable."
        )
    told = where if isinstance(where, str) else name_of(where)
    short = told.rpartition(".")[2]
    code = f"{short} = jax.checkpoint({short})"
    if policy is not None:
        name = getattr(policy, "__name__", "policy")
        code = f"{short} = jax.checkpoint({short}, policy=jax.checkpoint_policies.{name})"

    def wrap(one: Any) -> Any:
        if not callable(one):
            raise ArgumentError(
                f"what_if: checkpoint={told!r} is a variable and no function. Give the name of the "
                "function that computes it."
            )
        return _jax.checkpoint(one, policy=policy)

    with_policy = "" if policy is None else f" with {getattr(policy, '__name__', 'a policy')}"
    return _Trial(
        edit(fun, where, wrap), f"{told} is computed again in the backward pass{with_policy}", code
    )


def _halved(fun: Any, where: Any) -> _Trial:
    bfloat16: Any = jax.numpy.bfloat16
    told = str(where)

    def cast(x: Any) -> Any:
        dtypes = {str(leaf.dtype): leaf.dtype for leaf in jax.tree.leaves(x)}
        if not any(jax.numpy.issubdtype(one, jax.numpy.floating) for one in dtypes.values()):
            raise ArgumentError(
                f"what_if: bfloat16={told!r} holds {', '.join(dtypes)} and no floats, so there is "
                "nothing to cast."
            )

        def one(leaf: Any) -> Any:
            is_float = jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
            return leaf.astype(bfloat16) if is_float else leaf

        return map_leaves(one, x)

    short = told.rpartition(".")[2]
    code = f"{short} = {short}.astype(jnp.bfloat16)"
    return _Trial(edit(fun, where, cast), f"{told} is kept in bfloat16", code)


def _names(asked: Asked) -> list[str]:
    signature = signature_of(asked.fun)
    if signature is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [one.name for one in signature.parameters.values() if one.kind in kinds]
    return given[: len(asked.args)]


def _donated(asked: Asked, which: Any) -> _Trial:
    names = _names(asked)
    number = names.index(which) if which in names else which
    if not isinstance(number, int) or not 0 <= number < len(asked.args):
        raise ArgumentError(
            f"what_if: donate={which!r} is no argument of {name_of(asked.fun)} that was given by "
            f"position. There are {', '.join(names) or len(asked.args)}."
        )
    told = names[number] if number < len(names) else f"argument {number}"
    leaves = jax.tree.leaves((asked.args, asked.kwargs), is_leaf=is_object)
    if other := [one for one in leaves if is_object(one) or not is_traced(one)]:
        raise RefusedError(
            f"what_if: donate={which!r} is tried by jax.jit, which does not take a "
            f"{type(other[0]).__name__} as {name_of(asked.fun)} does. Donate by the jit of its "
            "library, and ask memory of that."
        )
    return _Trial(
        _jax.jit(asked.fun, donate_argnums=number),
        f"{told} is donated",
        f"jax.jit(..., donate_argnums={number})",
    )
