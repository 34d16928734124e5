"""`watch`: run a function once and keep the values of its variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, refuse_no_function
from taxpr._programs.functions import called_as, trace
from taxpr._programs.program import Program
from taxpr._recordings.recorded import Part
from taxpr._recordings.recording import Recording
from taxpr._recordings.run import Kept, run
from taxpr._recordings.wanted import Wanted, wanted
from taxpr._sites.criteria import Selector

_KEEP = "auto", "values", "stats"


def watch(
    f: Any, where: Selector = None, *, keep: str = "auto", memory: int | None = None
) -> Callable[..., Recording]:
    """Run a function once, compiled, and keep the values of its variables.

    Nothing need be prepared: the values are further results of the compiled program, for every
    iteration of its loops, every branch and every device. XLA may compile the function itself a
    little differently beside them, so that its result differs in the last bits from that of
    `jax.jit`.

    Args:
        f: A function of PyTrees of arrays; or a `Program`, which knows its variables if it was
            traced with ``names=True``.
        where: What to keep: a variable by its name or as `var`, the name of a tag, an address, a
            primitive, or any other selector of values, see `find_values`; a list of these; None
            means all variables, and ``"*"`` what every equation makes.
        keep: ``"values"`` keeps all values, ``"stats"`` only their statistics (`Stats`).
            ``"auto"`` keeps the values if memory allows, else the statistics.
        memory: The bytes that the values may take at a time on a device. None means a quarter of
            what is free. Statistics of more are made in several passes, and of what is too large
            within the program; `Recording.notes` says so.

    Returns:
        A function of the arguments of ``f`` that returns a `Recording`.

    Raises:
        SelectorError: If nothing is selected.
        RefusedError: If nothing that is selected can be read. Else what cannot be read, as in a
            kernel, is listed in `Recording.skipped`.
        ArgumentError: If memory does not suffice for ``keep="values"``, or the call is within
            `jax.jit`, `jax.grad` or the like.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def attention(x):
        ...     scores = x @ x.T
        ...     weights = jax.nn.softmax(scores)
        ...     return weights @ x
        >>> rec = taxpr.watch(attention)(jnp.eye(3))
        >>> rec["scores"].value[0], round(rec["weights"].stats().min, 2)
        (Array([1., 0., 0.], dtype=float32), 0.21)
        >>> print(rec.table().to_csv().splitlines()[0])
        variable,function,line,axes,shape,dtype,ran,mean,std,min,max,norm,zeros,nonfinite,address
    """
    if keep not in _KEEP:
        raise ArgumentError(f"watch: keep={keep!r} is none of {', '.join(map(repr, _KEEP))}.")
    if isinstance(f, Program):
        return _watching(lambda *args, **kwargs: f, where, keep, memory)
    refuse_no_function("watch", f)
    return called_as(f)(_watching(trace(f, names=True), where, keep, memory))


def _watching(
    program_of: Callable[..., Program], where: Selector, keep: str, memory: int | None
) -> Callable[..., Recording]:
    def watched(*args: PyTree, **kwargs: PyTree) -> Recording:
        program = program_of(*args, **kwargs)
        chosen, skipped = wanted(program, where)
        reads = {one.read.address: one.read for one in chosen}
        ran = run(program, program.flat(args, kwargs), list(reads.values()), keep, memory)
        out = program.result(ran.out)
        parts = [_part(one, ran.kept[one.read.address]) for one in chosen]
        return Recording(program.name, out, parts, skipped, ran.notes)

    return watched


def _part(one: Wanted, kept: Kept) -> Part:
    held, source = one.variable, one.value.source
    if held is not None:
        at = held.file, held.line, held.function.replace(".<locals>", "")
    else:
        at = (source.file, source.line, source.function) if source else (None, None, "")
    mapped = held.mapped if held else ()
    return Part(one.name, one.path, one.value.address, *at, held, mapped, kept)
