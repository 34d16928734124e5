"""Run a program so that it keeps values, in as many passes as memory asks for."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy

from taxpr import _compat
from taxpr._answers.progress import Progress
from taxpr._answers.tables import size_text
from taxpr._compat import Array, ClosedJaxpr
from taxpr._engine.memo import made_of
from taxpr._errors import ArgumentError
from taxpr._hops.past_errors import Raised
from taxpr._hops.protocol import Emission
from taxpr._hops.rebuild import Slots, slotted
from taxpr._hops.silent import silent
from taxpr._programs.program import Program
from taxpr._recordings.budget import PASSES, budget, divided, free_on
from taxpr._recordings.handing import Handing
from taxpr._recordings.summary import STATS, Reduction, beside, on_device, summary
from taxpr._sites.site import around
from taxpr._sites.skipped import Refusal, Skipped, skipped
from taxpr._sites.values import Value

np: Any = numpy  # which leaves types of arrays unknown
_jax: Any = jax

_STEPS = 512, 128, 32  # of a while loop, at first
_MOST_STEPS = 1 << 16
_AT_ONCE = 1 << 16  # numbers of which NumPy makes statistics
# Elements of a value, over all iterations, which an equation that XLA does not optimize makes in
# the milliseconds that it then compiles faster.
_FEW = 1 << 17
_SMALL = 1 << 26  # bytes of statistics, whatever the memory, and of iterations that may not be


@dataclasses.dataclass(eq=False)
class KeptValue:
    """One value as a run kept it.

    Attributes:
        axes: The loops and mesh axes that are the leading axes of what was kept.
        shape: The shape of the value each time.
        dtype: Its dtype.
        value: All of it; None where only statistics were kept.
        table: The summaries, with the leading axes, and with those of lanes where it has each lane
            apart; None where they are made when asked for.
        fired: For each iteration and device whether the value was computed; None for all.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: Any
    value: Any = None
    table: Any = None
    fired: Any = None

    def summaries(self) -> Any:
        """The summaries of each iteration and device."""
        if self.table is None:
            self.table = summary(np.asarray(self.value), len(self.axes), np)
        return self.table


@dataclasses.dataclass(eq=False)
class Ran:
    """The values that a run kept, and its results.

    Attributes:
        out: The results of the program, flat.
        kept: What was kept, by the addresses of the values.
        notes: How it was kept, in sentences.
        skipped: What was not looked into.
        closed: The addresses of the equations that this is in.
        complete: Whether it was not interrupted.
        raised: Whether a callback raised an error. Then what comes after it is not the program's.
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
    memory: int | None,
    reduction: Reduction = STATS,
    *,
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
        keep: ``"auto"``, ``"values"`` or ``"stats"``.
        memory: As for `watch`.
        reduction: What is kept of a value if not all of it.
        of_some: In place of this, by the addresses of values.
        partly: Whether what is done is returned where the run is interrupted after a pass.
        past: Whether an error that a callback raises does not end the run, see `Ran.raised`.
        quickly: Whether XLA optimizes nothing on a CPU if the values are small: the last bits of
            results may differ from those of the function itself.

    Raises:
        ArgumentError: If memory does not suffice for the values that must be kept.
        KeyboardInterrupt: If it is interrupted.
    """
    device = device_of(flat)
    room = budget(memory, device)
    given = {"in": flat, "const": program.consts}
    kept: dict[str, KeptValue] = {}
    for one in values:
        if not one.steps and one.place.kind in given:
            x = given[one.place.kind][one.place.number]
            dtype = _type(one).dtype
            x = x if getattr(x, "dtype", None) == dtype else np.asarray(x, dtype)  # of Python
            kept[one.address] = KeptValue((), x.shape, dtype, x)
    rest = [one for one in values if one.address not in kept]
    reductions: dict[str, Reduction]
    reductions = {one.address: of_some.get(one.address, reduction) for one in rest}
    looped, notes = [one for one in rest if _whiles(one)], list[str]()
    sizes = ((n, sum(_bytes(one, n) for one in looped)) for n in _STEPS)
    steps = next((n for n, size in sizes if size <= min(room, _SMALL)), _STEPS[-1])
    quickly &= device.platform == "cpu" and _are_small(rest, steps)
    runner = _Runner(program.jaxpr, flat, device, room, keep, reductions, past, quickly)
    out, found = runner.run(rest, steps)
    looped = [one for one in looped if one.address not in runner.closed]
    while not runner.stopped:
        full = [one for one in looped if _is_full(one, found[one.address])]
        if not full:
            break
        more = max(_steps_wanted(one, found[one.address], steps) for one in full)
        if not runner.repeatable or more > _MOST_STEPS or runner.too_many(looped, more):
            notes.append(f"Of while loops only the first {steps} iterations were kept.")
            break
        found |= runner.run(looped, more)[1]
        if runner.stopped:
            notes.append(f"Stopped: of some while loops only {steps} iterations are here.")
        steps = more
    if runner.stopped and not partly:
        raise KeyboardInterrupt
    for one in rest:
        if one.address in found:
            kept[one.address] = runner.kept(one, found[one.address])
    if not runner.on_host:
        of_rest = (kept[address] for address in found)
        held = [one for one in of_rest if isinstance(one.value, np.ndarray)]
        placed = _jax.device_put([one.value for one in held], device)
        for one, value in zip(held, placed, strict=True):
            one.value = value
    over = list(runner.closed.values())
    closed = (at for one, why in over for at, step in around(one.steps) if step is why.step)
    told = *runner.notes, *notes
    over, within = skipped(over), frozenset(closed)
    return Ran(out, kept, told, over, within, not runner.stopped, runner.raised)


def reduced(ran: Ran, reduction: Reduction) -> dict[str, Any]:
    """The reduction of each value, on the host, also of those that were kept."""
    tables: dict[str, Any] = {}
    groups: dict[Any, list[tuple[str, Any]]] = {}
    for address, kept in ran.kept.items():
        if kept.value is None:
            tables[address] = np.asarray(kept.table)
        else:
            key = kept.value.shape, kept.dtype, len(kept.axes)
            groups.setdefault(key, []).append((address, kept.value))
    for (_, _, axes), members in groups.items():
        found = _reduced(reduction, [x for _, x in members], axes)
        tables.update(
            (address, np.asarray(x)) for (address, _), x in zip(members, found, strict=True)
        )
    return tables


def _reduced(reduction: Reduction, arrays: list[Any], axes: int) -> list[Any]:
    """A reduction of arrays of one shape: by NumPy where they are in its memory."""
    devices = arrays[0].devices() if isinstance(arrays[0], jax.Array) else ()
    if any(device.platform != "cpu" for device in devices):
        return on_device(reduction.of, axes)(arrays)
    # Each call of NumPy takes as long as a few thousand numbers: small arrays are done at once.
    some = max(_AT_ONCE // max(math.prod(arrays[0].shape), 1), 1)
    parts = [arrays[k : k + some] for k in range(0, len(arrays), some)]
    tables = (reduction.of(np.stack([np.asarray(x) for x in part]), axes + 1, np) for part in parts)
    return [row for table in tables for row in table]


def device_of(flat: Sequence[Any]) -> Any:
    """Where a program with these arguments runs; of several devices the first.

    Raises:
        ArgumentError: If they are being traced.
    """
    if any(map(_compat.is_tracer, flat)):
        raise ArgumentError(
            "watch: it runs a program, and was called within jax.jit, jax.grad or the like, with "
            "values that are being traced. Call it outside: watch(jax.grad(f))(x)."
        )
    placed = (x for x in flat if isinstance(x, jax.Array))
    device = next((min(x.devices(), key=lambda one: one.id) for x in placed), None)
    return device or jax.devices()[0]


def _type(value: Value) -> Any:
    """The aval of a value, which is an array."""
    return value.aval


def _whiles(value: Value) -> int:
    return sum(step.is_while for step in value.steps)


def _axes(value: Value, mesh: Sequence[str]) -> tuple[str, ...]:
    """The loops around a value, by their addresses, and the mesh axes over which it differs."""
    axes: list[str] = []
    home = ""
    for step in value.steps:
        address = f"{home}{step.local}"
        axes += [address] if step.is_loop else []
        if step.eqn.primitive is _compat.shard_map_p:
            axes += [f"mesh {name}" for name in _compat.manual_sizes(step.eqn) if name in mesh]
        home = f"{address}/{step.nested.label}/"
    return tuple(axes)


def _times(value: Value, steps: int) -> int:
    """How often a value is kept, at most."""
    times = 1
    for step in value.steps:
        if step.is_loop:
            trips = step.nested.trips
            times *= trips if isinstance(trips, int) else steps
        if step.eqn.primitive is _compat.shard_map_p:
            times *= math.prod(_compat.manual_sizes(step.eqn).values())
    return times


def _bytes(value: Value, steps: int) -> int:
    itemsize = 8 if _compat.is_extended(_type(value).dtype) else _type(value).dtype.itemsize
    return _times(value, steps) * math.prod(_type(value).shape) * itemsize


def _are_small(values: Sequence[Value], steps: int) -> bool:
    """Whether XLA saves more time by optimizing nothing than the run takes longer by it."""
    elements = (_times(one, steps) * math.prod(_type(one).shape) for one in values)
    return sum(elements) <= _FEW * len(values)


def _is_full(value: Value, found: _PassResult) -> bool:
    """Whether the last place of a while loop is taken, so that there may have been more."""
    mask = np.asarray(_mask(found))
    loops = [step.is_while for step in value.steps if step.is_loop]
    names = _axes(value, list(found.emission.mesh or ()))
    at = [k for k, name in enumerate(names) if not name.startswith("mesh ")]
    ends = [mask.take(-1, axis=k) for k, is_while in zip(at, loops, strict=True) if is_while]
    return any(bool(end.any()) for end in ends)


def _steps_wanted(value: Value, found: _PassResult, steps: int) -> int:
    """How many iterations are to be kept so that all are."""
    if _whiles(value) == 1 and found.emission.fired is not None:
        return int(np.asarray(found.emission.fired).max()) + 1
    return 4 * steps


@dataclasses.dataclass(eq=False)
class _PassResult:
    """One pass's part of a value: all of it or its summaries."""

    emission: Emission
    is_summary: bool

    def on_host(self) -> _PassResult:
        """The same, in the memory of the host."""
        return _PassResult(jax.tree.map(_on_host, self.emission), self.is_summary)


def _on_host(x: Array) -> Any:
    return x if _compat.is_extended(x.dtype) else np.asarray(x)


def _mask(found: _PassResult) -> Any:
    """For each iteration and device whether it was computed; None for all."""
    if slotted(found.emission):
        slots: Slots = found.emission.value[0]
        return slots.fired
    return found.emission.fired


class _Runner:
    """Runs one program with its arguments, to keep values."""

    def __init__(
        self,
        jaxpr: ClosedJaxpr,
        flat: Sequence[Array],
        device: Any,
        room: int,
        keep: str,
        reductions: Mapping[str, Reduction],
        past: bool,
        quickly: bool,
    ) -> None:
        self._jaxpr, self._flat, self._reductions = jaxpr, flat, reductions
        self._past, self._quickly = past, quickly
        self.raised = Raised()
        self._device, self._room, self._keep = device, room, keep
        self._again = silent(jaxpr)
        self._ran = False
        # Whether a second run has no effects that are seen, such as those of a callback.
        self.repeatable = not _compat.open_jaxpr(self._again).effects
        self.notes: tuple[str, ...] = ()
        self.on_host = False  # whether what is kept is to stay in the memory of the host
        self.stopped = False
        self.closed: dict[str, tuple[Value, Refusal]] = {}  # what a rule refuses to hand out

    def too_many(self, values: Sequence[Value], steps: int) -> bool:
        """Whether so many iterations of while loops have no room, as what is kept of them."""
        if self._keep == "values":
            return sum(_bytes(one, steps) for one in values) > self._room
        sizes = (4 * math.prod(self._reductions[one.address].shape) for one in values)
        times = (_times(one, steps) for one in values)
        return sum(map(operator.mul, sizes, times)) > max(self._room, _SMALL)

    def _takes(self, value: Value) -> bool:
        return self._reductions[value.address].takes(_type(value).dtype)

    def run(
        self, values: Sequence[Value], steps: int
    ) -> tuple[list[Array], dict[str, _PassResult]]:
        """The results of the program, and what it kept of each value.

        After the first pass of all, an interruption ends it and sets `stopped`.
        """
        groups, summed, whole = self._passes(values, steps)
        groups = groups or [[]]
        out: list[Array] = []
        found: dict[str, _PassResult] = {}
        begun = self._ran
        with Progress("watch", len(groups)) as progress:
            for group in progress.over(groups):
                now, of_pass = self._pass(group, {one.address for one in summed}, steps)
                out = now or out
                if not whole:
                    of_pass = self._summed(group, of_pass)
                elif len(groups) > 1:
                    self.on_host = True
                    of_pass = {key: one.on_host() for key, one in of_pass.items()}
                found |= of_pass
        self.stopped = progress.stopped
        if self.stopped and not (begun or progress.done):
            raise KeyboardInterrupt
        return out, found

    def _passes(
        self, values: Sequence[Value], steps: int
    ) -> tuple[list[list[Value]], list[Value], bool]:
        """The values of each pass, those of which only summaries leave it, and what is kept."""
        size = {one.address: _bytes(one, steps) for one in values}
        total = sum(size.values())
        if self._keep != "stats" and total <= self._room:
            return [list(values)], [], True
        if self._keep == "values":
            fits = max(size.values()) <= self._room and self.repeatable
            if self._device.platform == "cpu" or not fits or total > free_on(jax.devices("cpu")[0]):
                raise ArgumentError(
                    f"watch: the values have {size_text(total)}, more than the "
                    f"{size_text(self._room)} that they may take. Select fewer by where=, give "
                    'more by memory=, or keep="stats".'
                )
            groups = divided(values, lambda one: size[one.address], self._room)
            self.notes = (f"The values were kept in {len(groups)} passes, on the host.",)
            return groups, [], True
        left = sorted(
            filter(self._takes, values),
            key=lambda one: size[one.address],
        )
        room = self._room * (PASSES if self.repeatable else 1)
        summed: list[Value] = []
        while left and (total > room or size[left[-1].address] > self._room):
            summed.append(left.pop())
            total -= size[summed[-1].address]
        beside = {id(one) for one in summed}
        rest = [one for one in values if id(one) not in beside]
        groups = divided(rest, lambda one: size[one.address], self._room) or [[]]
        groups[0] += summed
        many = f"{len(groups)} passes" if len(groups) > 1 else "one pass"
        self.notes = (
            f"Statistics only, of {size_text(sum(size.values()))} of values, in {many} with "
            f"{size_text(self._room)} of memory.",
        )
        return groups, summed, False

    def _pass(
        self, values: Sequence[Value], summed: set[str], steps: int
    ) -> tuple[list[Array], dict[str, _PassResult]]:
        jaxpr = self._again if self._ran else self._jaxpr
        first = len(_compat.open_jaxpr(jaxpr).outvars) if self._ran else 0
        inner = summed.intersection(one.address for one in values)
        how = self._past, self._quickly
        key = "recording", tuple(one.address for one in values), frozenset(inner), steps, first
        summaries = {one: beside(self._reductions[one].of) for one in inner}
        handing = made_of(
            jaxpr,
            (),
            (*key, tuple(self._reductions[one.address] for one in values), *how),
            lambda: Handing.made(jaxpr, values, summaries, steps, first, *how),
        )
        flat, became = handing(self._flat)
        self.raised = became if self.raised.error is None else self.raised
        nothing: list[Any] = [None] * first
        out, emits = handing.handed.unpack([*nothing, *flat])
        found: dict[str, _PassResult] = {}
        for one in values:
            if (why := handing.handed.refusal(one)) is not None:
                self.closed[one.address] = one, why
            else:
                found[one.address] = _PassResult(emits[one.address], one.address in summed)
        out = [] if self._ran else out
        self._ran = True
        return out, found

    def _summed(
        self, values: Sequence[Value], found: dict[str, _PassResult]
    ) -> dict[str, _PassResult]:
        """The summaries of values in their place, by one program for all of one shape and dtype."""
        groups: dict[Any, list[tuple[str, Array]]] = {}
        out = dict(found)
        for one in values:
            of_one = found.get(one.address)
            if of_one is None or of_one.is_summary or not self._takes(one):
                continue
            x, reduction = _leaf(of_one.emission), self._reductions[one.address]
            axes = x.ndim - _type(one).ndim
            groups.setdefault((x.shape, x.dtype, axes, reduction), []).append((one.address, x))
        for (_, _, axes, reduction), members in groups.items():
            tables = _reduced(reduction, [x for _, x in members], axes)
            for (address, _), table in zip(members, tables, strict=True):
                out[address] = _PassResult(_with_leaf(found[address].emission, table), True)
        return out

    def kept(self, value: Value, found: _PassResult) -> KeptValue:
        """A kept value without the places of iterations that a while loop did not have."""
        emission = found.emission
        leaf, fired = _leaf(emission), _mask(found)
        axes = _axes(value, list(emission.mesh or ()))
        if fired is not None:
            fired = np.asarray(fired) > 0
            fired = fired.reshape((*fired.shape, *(1,) * (len(axes) - fired.ndim)))
            fired = np.broadcast_to(fired, leaf.shape[: len(axes)])
            if slotted(emission):
                used = tuple(
                    slice(0, int(np.max(np.nonzero(fired)[k], initial=-1)) + 1)
                    if step_is_while
                    else slice(None)
                    for k, step_is_while in enumerate(_is_while(value, axes))
                )
                if self._device.platform == "cpu" and not _compat.is_extended(leaf.dtype):
                    leaf = np.asarray(leaf)  # of which a part compiles nothing
                leaf, fired = leaf[used], fired[used]
            fired = None if fired.all() and fired.size else fired
        kept = KeptValue(axes, tuple(_type(value).shape), _type(value).dtype, fired=fired)
        if found.is_summary:
            kept.table = np.asarray(leaf)
        else:
            kept.value = leaf
        return kept


def _is_while(value: Value, axes: Sequence[str]) -> list[bool]:
    loops = iter([step.is_while for step in value.steps if step.is_loop])
    return [not name.startswith("mesh ") and next(loops) for name in axes]


def _leaf(emission: Emission) -> Any:
    [value] = emission.value
    return value.leaves[0] if isinstance(value, Slots) else value


def _with_leaf(emission: Emission, leaf: Any) -> Emission:
    [value] = emission.value
    new = dataclasses.replace(value, leaves=[leaf]) if isinstance(value, Slots) else leaf
    return emission._replace(value=[new])
