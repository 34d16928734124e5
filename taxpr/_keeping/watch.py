"""`watch`: run a function once and keep the values of its variables."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from taxpr._answers.count_of import count_of
from taxpr._compat import Array, PyTree
from taxpr._devices.fetched import is_shared
from taxpr._errors import ArgumentError, RefusedError, refuse_no_function
from taxpr._given import refuse_no_flag
from taxpr._keeping.cotangents import loss_of, with_gradient
from taxpr._keeping.run import Ran, run
from taxpr._keeping.wanted import EVERY_VARIABLE, NOTHING, Wanted, wanted
from taxpr._programs.program import Program
from taxpr._programs.trace import called_as, trace
from taxpr._recordings.axes import UNTOLD, batch_axes_of, conditions, shape_of, with_batch_axes
from taxpr._recordings.part import KeptValue, Part
from taxpr._recordings.recording import Recording, few
from taxpr._recordings.summary import WHOLE, by_batch, has_stats
from taxpr._sites.criteria import Selector
from taxpr._sites.skipped import merged
from taxpr._sites.values import value_at
from taxpr._transforms.question import question
from taxpr._where.meaning import names_for

_KEEP = "auto", "values", "stats"


@question
def watch(
    fun: Any,
    where: Selector = EVERY_VARIABLE,
    *,
    keep: str = "auto",
    memory: float | None = None,
    grads: bool | str = False,
) -> Callable[..., Recording]:
    """Run a function once, compiled, and keep the values of its variables.

    The function needs no preparation: the values are further results of the compiled program, for
    every iteration of its loops, every branch and every device. If a while loop under `jax.vmap`
    continues for some examples, finished examples do not count. XLA may compile the function a
    little differently with these results, so its own result may differ from `jax.jit` in the last
    bits.

    Args:
        fun: A function of PyTrees of arrays; or a `Program`, which knows its variables if it was
            traced with ``names=True``.
        where: The values to keep: a variable or a tag by its name, an address, a primitive, or any
            other selector, see `find_values`. By default all variables; ``"*"`` and None mean the
            results of all equations.
        keep: ``"values"`` keeps all values, ``"stats"`` only their statistics (`Stats`).
            ``"auto"`` keeps the values if memory allows, else the statistics.
        memory: The bytes that the values may take at a time on a device. None means a quarter of
            the free memory. If the values take more, only their statistics are kept. On a CPU NumPy
            computes them while the program runs. Other devices take up to 8 runs for them.
            `Recording.notes` says so.
        grads: Whether to keep the gradient of the result of ``fun``, a loss, with respect to each
            value, too: ``rec["∂ scores"]``. The result may be a tuple that begins with the loss; a
            name selects another result: ``grads="out[1]['loss']"``. This runs the gradient, too.

    Returns:
        A function of the arguments of ``fun`` that returns a `Recording`. If it takes several
        passes, a `KeyboardInterrupt` after the first one keeps the values so far; `Recording.notes`
        names the rest.

    Raises:
        SelectorError: If nothing is selected.
        RefusedError: If no selected value can be read. Single values that cannot be read, as in a
            kernel, are listed in `Recording.skipped`.
        ArgumentError: If memory does not suffice for ``keep="values"``; if there is no scalar to
            differentiate; if the call is within `jax.jit`, `jax.grad` or the like.

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
        variable,function,line,axes,shape,dtype,ran,mean,std,min,max,norm,zeros,nonfinite,address,path,size
    """
    if keep not in _KEEP:
        raise ArgumentError(f"watch: keep={keep!r} is not one of {', '.join(map(repr, _KEEP))}.")
    if not isinstance(grads, str):
        refuse_no_flag("watch", grads=grads)
    if isinstance(fun, Program):
        return watching(lambda *args, **kwargs: fun, where, keep, memory, grads)
    refuse_no_function("watch", fun)
    program_of = trace(fun, names=names_for(where) or True)
    return called_as(fun)(watching(program_of, where, keep, memory, grads))


def watching(
    program_of: Callable[..., Program],
    where: Selector,
    keep: str,
    memory: float | None,
    grads: bool | str = False,
) -> Callable[..., Recording]:
    """As `watch`, with the programs that another function traces; ``keep`` is as for `run`."""

    def watched(*args: PyTree, **kwargs: PyTree) -> Recording:
        program = program_of(*args, **kwargs)
        flat = program.flat(args, kwargs)
        chosen, skipped = wanted(program, where)
        loss = loss_of(program, grads) if grads else 0  # before anything runs
        ran, parts, left = _kept(program, flat, chosen, keep, memory)
        skipped = merged(skipped, ran.skipped)
        if not parts and not left:
            raise RefusedError(NOTHING.format("; ".join(map(str, skipped))))
        out, notes, complete = program.result(ran.out), ran.notes, ran.complete
        states = program.states_after(ran.out)
        if grads:
            left.append("any cotangent")
        if grads and complete:
            complete = False
            with contextlib.suppress(KeyboardInterrupt):
                gradient, back = with_gradient(program, chosen, loss)
                ran, more, left = _kept(gradient, flat, back, keep, memory)
                parts += more
                notes = tuple(dict.fromkeys((*notes, *ran.notes)))
                if len(back) < len(chosen):
                    without = count_of(len(chosen) - len(back), "value")
                    notes += (f"Without a cotangent: {without}.",)
                complete = ran.complete
        if left:
            notes += (f"Stopped before it kept {few(left)}.",)
        return Recording(program.name, out, parts, skipped, notes, complete, states)

    return watched


def _kept(
    program: Program,
    flat: Sequence[Array],
    chosen: Sequence[Wanted],
    keep: str,
    memory: float | None,
) -> tuple[Ran, list[Part], list[str]]:
    """The chosen values that a run kept, and the names of values it never reached."""
    reads = {one.read.address: one.read for one in chosen}
    batched = conditions(reads.values())
    # Only with all values of a condition it is known which batch elements of its loop had ended.
    ending = {loop: value_at(program.jaxpr, address) for loop, address in batched.items()}
    reads |= {one.address: one for one in ending.values()}
    outers = {one.read.address: batch_axes_of(one.read, _mapped(one), ending) for one in chosen}
    of_some = {at: by_batch(axes, shape_of(reads[at])) for at, axes in outers.items() if axes}
    of_some |= dict.fromkeys(batched.values(), WHOLE)
    ran = run(program, flat, list(reads.values()), keep, memory, of_some=of_some, partly=True)
    closed = {address for one in ran.skipped for address in one.addresses}
    unknown = set(batched.values()).difference(ran.kept)
    ends = {
        loop: (address, ran.kept[address])
        for loop, address in batched.items()
        if address in ran.kept
    }
    parts: list[Part] = []
    left: list[str] = []
    untold: list[str] = []
    for one in chosen:
        kept, mapped, outer = ran.kept.get(one.read.address), _mapped(one), outers[one.read.address]
        if kept is None:
            left += [] if one.read.address in closed else [one.name]
            continue
        if outer and unknown:
            if kept.value is not None and closed.issuperset(unknown):
                outer = None
            else:
                left.append(one.name)
                continue
        untold += [one.name] if outer is None else []
        if outer:
            kept, mapped = with_batch_axes(kept, one.read, outer, ends), ()
        parts.append(_part(one, kept, mapped or ()))
    for part in parts:  # now that all processes are here: later one alone may show a table
        if keep != "host" and is_shared(part.kept.value) and has_stats(part.kept.dtype):
            part.kept.summaries()
    if untold:
        names = few(list(dict.fromkeys(untold)))
        ran = dataclasses.replace(ran, notes=(*ran.notes, UNTOLD.format(names=names)))
    return ran, parts, left


def _mapped(one: Wanted) -> tuple[int, ...] | None:
    """The axes that `jax.vmap` has put into a value; None if no variable tells."""
    return one.variable.mapped if one.variable else None


def _part(one: Wanted, kept: KeptValue, mapped: tuple[int, ...]) -> Part:
    held, source = one.variable, one.value.source
    if held is not None:
        at = held.file, held.line, held.function.replace(".<locals>", "")
    else:
        at = (source.file, source.line, source.function) if source else (None, None, "")
    address = one.of or one.value.address
    return Part(one.name, one.path, address, *at, held, mapped, kept, one.cotangent)
