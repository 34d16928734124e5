"""`MemoryUse.what_if`: how much memory a change of the source saves, tried by `edit`."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy

from taxpr import _compat
from taxpr._calls.door import door_of
from taxpr._calls.libraries import checkpoint_of, is_object
from taxpr._calls.static import is_traced
from taxpr._compat import PyTree, StoredJaxpr, map_leaves
from taxpr._costs.costs import Cost, Costs
from taxpr._editing.edited import edit
from taxpr._errors import ArgumentError, RefusedError, TaxprError, name_of, signature_of, told_as
from taxpr._given import refuse_no_flag
from taxpr._memory.what_if_rows import WhatIf, WhatIfRow

_jax: Any = jax  # which declares no types for what is read of it here
_ENOUGH = 0.05  # the share of the total that advice is worth


class Needs(NamedTuple):
    """The needs of a call.

    Attributes:
        ends: The bytes of arguments, and of results without those that lie in donated arguments.
        temporaries: The bytes of all else.
        jaxpr: Its program.
    """

    ends: int
    temporaries: int
    jaxpr: StoredJaxpr

    @property
    def cost(self) -> Cost:
        """Its operations, by the table of costs."""
        return Costs().of_jaxpr(_compat.open_jaxpr(self.jaxpr))

    @property
    def total(self) -> int:
        """The bytes in all."""
        return self.ends + self.temporaries


class Asked(NamedTuple):
    """A call of which memory was asked.

    Attributes:
        fun: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        needs: Of another function with these arguments, and whether to compile it: its needs.
        now: The needs of this function.
        compiled: Whether XLA says so, and they are not estimated.
        parts: The user's functions that make residuals, by their names, and how many bytes.
        devices: How many devices the call uses.
    """

    fun: Any
    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]
    needs: Callable[[Any, bool], Needs]
    now: Needs
    compiled: bool
    parts: Sequence[tuple[str, int]]
    devices: int


class _Trial(NamedTuple):
    """A function with a change, and how it is told."""

    fun: Any
    what: str
    code: Callable[[], str]  # known when it was traced


def what_if(
    asked: Asked,
    *,
    checkpoint: Any = None,
    policy: Any = None,
    bfloat16: Any = None,
    donate: str | int | None = None,
    measure: bool = False,
) -> WhatIf:
    """What one change would save; see `MemoryUse.what_if`."""
    refuse_no_flag("what_if", measure=measure)
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
    _refuse_shards(asked, "what_if", measure)
    with told_as("edit", "what_if"):
        if checkpoint is not None:
            change = _checkpointed(asked.fun, checkpoint, policy)
        elif bfloat16 is not None:
            change = _halved(asked.fun, bfloat16)
        else:
            change = _donated(asked, donate)
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
            with told_as("edit", "advice"):
                row, more = _row(asked, change, False)
            tried.append((row, change))
            notes.update(dict.fromkeys(more))
        except (TaxprError, TypeError, ValueError) as error:
            said = str(error).splitlines()[0].removeprefix("what_if: ")
            notes[f"Not tried: {said}"] = None
    pay = [pair for pair in tried if pair[0].saved > _ENOUGH]
    rows = [_row(asked, x, True)[0] if measure else row for row, x in pay]
    rows.sort(key=lambda row: -row.saved)
    headline = f"advice for {name_of(asked.fun)}: {len(rows)} changes of {len(tried)} pay"
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


def _row(asked: Asked, change: _Trial, measure: bool) -> tuple[WhatIfRow, tuple[str, ...]]:
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
    row = WhatIfRow(change.what, found.total, saved, flops, change.code(), measure)
    notes = cost.lines()[1:] if flops else ()
    return row, tuple(f"Operations {note}." for note in notes)


def _corrected(found: Needs, now: Needs, guess: Needs) -> Needs:
    """A guess, corrected by the error of the guess for the program as it is.

    Bytes that are gone are corrected by their share; bytes that are new stay as they are.
    """
    share = min(found.temporaries / guess.temporaries, 1.0) if guess.temporaries else 1.0
    temporaries = round(now.temporaries * share)
    temporaries += max(found.temporaries - guess.temporaries, 0)
    return Needs(found.ends + now.ends - guess.ends, temporaries, found.jaxpr)


def _checkpointed(fun: Any, where: Any, policy: Any) -> _Trial:
    if policy is not None and not callable(policy):
        raise ArgumentError(
            f"what_if: policy={policy!r} is no function such as "
            "jax.checkpoint_policies.dots_saveable."
        )
    told = where if isinstance(where, str) else name_of(where)
    parts = told.split(".")
    short = ".".join(parts[-2:] if parts[-1].startswith("__") else parts[-1:])
    policies = _jax.checkpoint_policies
    known = [name for name in dir(policies) if getattr(policies, name) is policy]  # and old names
    named = "" if policy is None else max(known, default=getattr(policy, "__name__", "policy"))
    more = f", policy={'jax.checkpoint_policies.' if known else ''}{named}" if named else ""
    code = [f"{short} = jax.checkpoint({short}{more})"]

    def wrap(one: Any) -> Any:
        if not callable(one):
            raise ArgumentError(
                f"what_if: checkpoint={told!r} is a variable and no function. Give the name of the "
                "function that computes it."
            )

        @functools.wraps(one, updated=())
        def run(*args: Any, **kwargs: Any) -> Any:
            name, checkpoint = checkpoint_of(args, kwargs)
            if "static_argnums" not in inspect.signature(checkpoint).parameters:
                code[0] = f"{short} = {name}({short}{more})"
                return checkpoint(one, policy=policy)(*args, **kwargs)
            signature = signature_of(one)
            if checkpoint is not _jax.checkpoint and signature is not None:
                every = signature.bind(*args, **kwargs)  # as flax nnx does
                every.apply_defaults()
                args, kwargs = every.args, every.kwargs
            numbers = tuple(k for k, x in enumerate(args) if _is_fixed(x))
            fixed = {name: x for name, x in kwargs.items() if _is_fixed(x)}
            rest = {name: x for name, x in kwargs.items() if name not in fixed}
            words = "".join(f", {x}=..." for x in fixed)
            bound = f"functools.partial({short}{words})" if fixed else short
            static = f", static_argnums={numbers}" if numbers else ""
            code[0] = f"{short} = {name}({bound}{static}{more})"
            part = functools.partial(one, **fixed) if fixed else one
            made = checkpoint(part, policy=policy, static_argnums=numbers)
            return made(*args, **rest)

        return run

    with_policy = f" with {named}" if named else ""
    return _Trial(
        edit(fun, where, wrap),
        f"{told} is computed again in the backward pass{with_policy}",
        lambda: code[0],
    )


def _is_fixed(x: Any) -> bool:
    """Whether an argument holds what no array can, or a flag."""
    leaves = jax.tree.leaves(x, is_leaf=is_object)
    return any(isinstance(one, bool) or not (is_object(one) or is_traced(one)) for one in leaves)


def _halved(fun: Any, where: Any) -> _Trial:
    bfloat16: Any = jax.numpy.bfloat16
    told = str(where)
    short = told.rpartition(".")[2]
    code = [f"{short} = {short}.astype(jnp.bfloat16)"]

    def is_float(leaf: Any) -> bool:
        return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)

    def cast(x: Any) -> Any:
        leaves = jax.tree.leaves(x)
        if not any(map(is_float, leaves)):
            kinds = dict.fromkeys(str(getattr(x, "dtype", type(x).__name__)) for x in leaves)
            raise ArgumentError(
                f"what_if: bfloat16={told!r} holds {', '.join(kinds)} and no floats, so there is "
                "nothing to cast."
            )
        if len(leaves) != 1 or leaves[0] is not x:
            code[0] = f"{short} = jax.tree.map(lambda x: x.astype(jnp.bfloat16), {short})"
        return map_leaves(lambda leaf: leaf.astype(bfloat16) if is_float(leaf) else leaf, x)

    return _Trial(edit(fun, where, cast), f"{told} is kept in bfloat16", lambda: code[0])


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
            f"what_if: donate= is tried by jax.jit, which takes arrays, and {name_of(asked.fun)} "
            f"also takes a {type(other[0]).__name__}. Donate by the jit of its library, and ask "
            "memory of that."
        )
    if door_of(asked.fun, asked.args, asked.kwargs, unseen=False) is not None:
        raise RefusedError(
            "what_if: donate= is tried by jax.jit, for which numbers of a model are "
            f"arrays, and {name_of(asked.fun)} takes them as they are. Donate by the jit of its "
            'library, such as eqx.filter_jit(..., donate="all"), and ask memory of that.'
        )
    return _Trial(
        _jax.jit(asked.fun, donate_argnums=number),
        f"{told} is donated",
        lambda: f"jax.jit(..., donate_argnums={number})",
    )
