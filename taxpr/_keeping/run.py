"""Run a program so that it keeps values, in as many passes as memory asks for."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax

from taxpr import _compat
from taxpr._answers.count_of import count_of
from taxpr._answers.progress import stage
from taxpr._compat import Array
from taxpr._devices.agreed import agreed
from taxpr._devices.devices_of import devices_of, mesh_of, processes_of, told_apart
from taxpr._devices.fetched import fetched, refuse_closed_over
from taxpr._errors import ArgumentError
from taxpr._hops.past_errors import Raised
from taxpr._keeping.budget import budget, free_on
from taxpr._keeping.extent import are_small, bytes_of, type_of, whiles
from taxpr._keeping.passes import SMALL, Passes, is_full, reduced_by, steps_wanted
from taxpr._programs.program import Program
from taxpr._recordings.part import KeptValue
from taxpr._recordings.summary import STATS, Reduction
from taxpr._sites.site import around
from taxpr._sites.skipped import Skipped, skipped
from taxpr._sites.values import Value
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_STEPS = 512, 128, 32  # of a while loop, at first
_MOST_STEPS = 1 << 16


@dataclasses.dataclass(eq=False)
class Ran:
    """The values that a run kept, and its results.

    Attributes:
        out: The results of the program, flat.
        kept: The kept values, by their addresses.
        notes: How it was kept, in sentences.
        skipped: The equations that were not looked into.
        closed: The addresses of these equations.
        complete: Whether it was not interrupted.
        raised: Whether a callback raised an error. Then later values are not the program's.
    """

    out: list[Array]
    kept: dict[str, KeptValue]
    notes: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()
    closed: frozenset[str] = frozenset()
    complete: bool = True
    raised: Raised = dataclasses.field(default_factory=Raised)


def run(
    program: Program,
    flat: Sequence[Array],
    values: Sequence[Value],
    keep: str,
    memory: float | None,
    reduction: Reduction = STATS,
    *,
    also: Sequence[Value] = (),
    of_some: Mapping[str, Reduction] = MappingProxyType({}),
    partly: bool = False,
    past: bool = False,
    quickly: bool = False,
) -> Ran:
    """Run a program and keep values.

    Args:
        program: The program.
        flat: Its flat arguments.
        values: The values, each once.
        keep: ``"auto"``, ``"values"`` or ``"stats"``; or ``"host"``, which keeps the values
            whatever the memory: in at most `PASSES` passes, whose values the host keeps.
        memory: As for `watch`.
        reduction: The reduction that is kept if a value is not.
        also: Values that are kept, too, if not all of the others have room.
        of_some: In place of this, by the addresses of values.
        partly: Whether an interrupt after a pass returns the values so far.
        past: Whether an error that a callback raises does not end the run, see `Ran.raised`.
        quickly: Whether XLA optimizes nothing on a CPU if the values are small: the last bits of
            results may differ from the function's own.

    Raises:
        ArgumentError: If memory does not suffice for the values that must be kept.
        KeyboardInterrupt: If it is interrupted.
    """
    refuse_closed_over(program.name, program.consts)
    stage(f"compiling and running with {count_of(len(values) + len(also), 'value')}")
    device = device_of(flat)
    devices = devices_of(program.jaxpr, (*flat, *program.consts))
    room = budget(memory, device)
    if len(processes := processes_of(devices)) > 1:
        # Each process may have another number of bytes free, and all go on in one way.
        asked = f"to run {program.name} with {len(values)} values, of digest {_digest(values)}"
        room = agreed(processes, asked, room)
    free = free_on(jax.devices("cpu")[0]) if keep in ("host", "values") else 0
    if free and len(processes) > 1:
        free = agreed(processes, "how much the hosts have free", free)
    if also and sum(bytes_of(one, _STEPS[-1]) for one in values) > room:
        values = [*values, *also]
    given = {"in": flat, "const": program.consts}
    kept: dict[str, KeptValue] = {}
    for one in values:
        if not one.steps and one.place.kind in given:
            x = given[one.place.kind][one.place.number]
            dtype = type_of(one).dtype
            x = x if getattr(x, "dtype", None) == dtype else np.asarray(x, dtype)  # of Python
            kept[one.address] = KeptValue((), x.shape, dtype, x)
    rest = [one for one in values if one.address not in kept]
    reductions: dict[str, Reduction]
    reductions = {one.address: of_some.get(one.address, reduction) for one in rest}
    looped, notes = [one for one in rest if whiles(one)], list[str]()
    sizes = ((n, sum(bytes_of(one, n) for one in looped)) for n in _STEPS)
    steps = next((n for n, size in sizes if size <= min(room, SMALL)), _STEPS[-1])
    quickly &= device.platform == "cpu" and are_small(rest, steps)
    how = past, quickly, len(devices) < 2
    mesh = mesh_of(program.jaxpr, (*flat, *program.consts))
    passes = Passes(program.jaxpr, flat, device, room, keep, reductions, how, mesh, free)
    with told_apart(program.name, program.in_names, flat):
        out, found = passes.run(rest, steps)
    looped = [one for one in looped if one.address not in passes.closed]
    while not passes.stopped:
        full = [one for one in looped if is_full(one, found[one.address])]
        if not full:
            break
        more = max(steps_wanted(one, found[one.address], steps) for one in full)
        if not passes.repeatable or more > _MOST_STEPS or passes.too_many(looped, more):
            notes.append(f"Only the first {steps} iterations of while loops were kept.")
            break
        found |= passes.run(looped, more)[1]
        if passes.stopped:
            notes.append(f"Stopped: of some while loops only {steps} iterations are here.")
        steps = more
    if passes.stopped and not partly:
        raise KeyboardInterrupt
    found = passes.fetched(found)
    for one in rest:
        if one.address in found:
            kept[one.address] = passes.kept(one, found[one.address])
    if not passes.on_host:
        of_rest = (kept[address] for address in found)
        held = [one for one in of_rest if isinstance(one.value, np.ndarray)]
        placed = _jax.device_put([one.value for one in held], device)
        for one, value in zip(held, placed, strict=True):
            one.value = value
    over = list(passes.closed.values())
    closed = (at for one, why in over for at, step in around(one.steps) if step is why.step)
    told = *passes.notes, *notes
    over, within = skipped(over), frozenset(closed)
    return Ran(out, kept, told, over, within, not passes.stopped, passes.raised)


def reduced(ran: Ran, reduction: Reduction) -> dict[str, Any]:
    """The reduction of each value, on the host, also of those that were kept."""
    tables: dict[str, Any] = {}
    groups: dict[Any, list[tuple[str, Any]]] = {}
    for address, kept in ran.kept.items():
        if kept.value is None:
            tables[address] = kept.table
        else:
            key = kept.value.shape, kept.dtype, len(kept.axes)
            groups.setdefault(key, []).append((address, kept.value))
    for (_, _, axes), members in groups.items():
        found = reduced_by(reduction, [x for _, x in members], axes)
        tables.update((address, fetched(x)) for (address, _), x in zip(members, found, strict=True))
    return tables


def device_of(flat: Sequence[Any]) -> Any:
    """The device of a program with these arguments; of several, the first of this process.

    Raises:
        ArgumentError: If they are being traced.
    """
    if any(map(_compat.is_tracer, flat)):
        raise ArgumentError(
            "watch: it runs a program, and was called within jax.jit, jax.grad or the like, with "
            "values that are being traced. Call it outside: watch(jax.grad(f))(x)."
        )
    placed = (x for x in flat if isinstance(x, jax.Array))
    here: Any = (x.sharding.addressable_devices for x in placed)
    device = next((min(one, key=lambda one: one.id) for one in here if one), None)
    return device or jax.local_devices()[0]


def _digest(values: Sequence[Value]) -> str:
    """A text that is another one for other values."""
    text = "\n".join(f"{one.address} {type_of(one)}" for one in values)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
