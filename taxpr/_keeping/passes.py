"""Run a program that keeps values, once or in several passes that keep some each."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh

from taxpr import _compat
from taxpr._answers.progress import Progress
from taxpr._answers.tables import size_text
from taxpr._compat import Array, ClosedJaxpr
from taxpr._devices.fetched import fetched, fetched_together, is_shared, on_all_devices
from taxpr._engine.memo import made_of
from taxpr._engine.wanted_tree import Summary
from taxpr._errors import ArgumentError
from taxpr._hops.past_errors import Raised
from taxpr._hops.protocol import Emission
from taxpr._hops.rebuild import Slots, slotted
from taxpr._hops.silent import silent
from taxpr._keeping.budget import PASSES, divided
from taxpr._keeping.extent import (
    axes_of,
    bytes_of,
    few_calls,
    in_whiles,
    times_kept,
    type_of,
    whiles,
)
from taxpr._keeping.handing import Handing
from taxpr._recordings.part import KeptValue
from taxpr._recordings.summary import Reduction, beside, by_host, of_each, on_device
from taxpr._sites.skipped import Refusal
from taxpr._sites.values import Value
from taxpr._untyped import np

_AT_ONCE = 1 << 18  # numbers of which NumPy makes statistics
SMALL = 1 << 26  # bytes of statistics, whatever the memory, and of iterations that may not be
STATS_ONLY = "Statistics only, of"  # begins the note of a run that kept no values
_KEPT = "The values were kept in {passes}, on the host."
_NO_ROOM = "the values have {size}, more than they may take. "
_WHY = {
    True: "It is more than half of the host's free memory. Select fewer by where=.",
    False: "The program has effects, and cannot run in several passes. Give more by memory=.",
}


@dataclasses.dataclass(eq=False)
class PassResult:
    """One pass's part of a value: all of it or its summaries."""

    emission: Emission
    is_summary: bool
    sharding: Any = None  # that the value had before the host took it

    def on_host(self) -> PassResult:
        """The same, in the memory of the host."""
        was = getattr(_leaf(self.emission), "sharding", None)
        return PassResult(jax.tree.map(_on_host, self.emission), self.is_summary, was)


def _on_host(x: Array) -> Any:
    return x if _compat.is_extended(x.dtype) else fetched(x)


def _mask(found: PassResult) -> Any:
    """For each iteration and device whether it was computed; None for all."""
    if slotted(found.emission):
        slots: Slots = found.emission.value[0]
        return slots.fired
    return found.emission.fired


class Passes:
    """Runs one program with its arguments, to keep values."""

    def __init__(
        self,
        jaxpr: ClosedJaxpr,
        flat: Sequence[Array],
        device: Any,
        room: int,
        keep: str,
        reductions: Mapping[str, Reduction],
        how: tuple[bool, bool, bool],
        mesh: Mesh | None,
        free: int,
    ) -> None:
        self._jaxpr, self._flat, self._reductions, self._mesh = jaxpr, flat, reductions, mesh
        self._how = how  # the last arguments of `Handing.made`
        *_, self._is_alone = how
        self.raised = Raised()
        self._device, self._room, self._keep, self._free = device, room, keep, free
        self._again = silent(jaxpr)
        self._ran = False
        # Whether a second run has no effects that are seen, such as those of a callback.
        self.repeatable = not _compat.open_jaxpr(self._again).effects
        # What all values may have that are kept on the host, a pass at a time.
        is_beyond = keep == "host" and self.repeatable
        self._beyond = free // 2 if is_beyond else 0
        self.notes: tuple[str, ...] = ()
        self.on_host = False  # whether what is kept is to stay in the memory of the host
        self.stopped = False
        self.closed: dict[str, tuple[Value, Refusal]] = {}  # what a rule refuses to hand out

    def too_many(self, values: Sequence[Value], steps: int) -> bool:
        """Whether the kept values of so many iterations of while loops have no room."""
        if self._keep in ("values", "host"):
            return sum(bytes_of(one, steps) for one in values) > max(self._room, self._beyond)
        sizes = (4 * math.prod(self._reductions[one.address].shape) for one in values)
        times = (times_kept(one, steps) for one in values)
        return sum(map(operator.mul, sizes, times)) > max(self._room, SMALL)

    def _takes(self, value: Value) -> bool:
        return self._reductions[value.address].takes(type_of(value).dtype)

    @property
    def _calls_numpy(self) -> bool:
        """Whether NumPy makes statistics while the program runs."""
        return self._is_alone and self._device.platform == "cpu"

    def _summary(self, value: Value) -> Summary:
        """The function that makes the statistics of a value in the program."""
        reduction = self._reductions[value.address]
        by_numpy = self._calls_numpy and few_calls(value)
        return by_host(reduction) if by_numpy else beside(reduction, self._mesh)

    def run(self, values: Sequence[Value], steps: int) -> tuple[list[Array], dict[str, PassResult]]:
        """The results of the program, and the kept part of each value.

        After the first pass of all, an interruption ends it and sets `stopped`.
        """
        groups, summed, whole = self._passes(values, steps)
        groups = groups or [[]]
        out: list[Array] = []
        found: dict[str, PassResult] = {}
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
        """The values of each pass, values that leave only summaries, and whether all is kept."""
        size = {one.address: bytes_of(one, steps) for one in values}
        total = sum(size.values())
        if self._keep != "stats" and total <= self._room:
            return [list(values)], [], True
        if self._keep == "host":
            if total > self._beyond:
                raise ArgumentError(_NO_ROOM.format(size=size_text(total)) + _WHY[self.repeatable])
            # A CPU shares the memory of the host: several passes would fill it as one does.
            room = total if self._device.platform == "cpu" else self._room
            groups = divided(values, lambda one: size[one.address], room, PASSES)
            self.notes = (_KEPT.format(passes=_passes(groups)),)
            return groups, [], True
        if self._keep == "values":
            fits = max(size.values()) <= self._room and self.repeatable
            if self._device.platform == "cpu" or not fits or total > self._free:
                raise ArgumentError(
                    f"watch: the values have {size_text(total)}, more than the "
                    f"{size_text(self._room)} that they may take. Select fewer by where=, give "
                    'more by memory=, or keep="stats".'
                )
            groups = divided(values, lambda one: size[one.address], self._room)
            self.notes = (_KEPT.format(passes=_passes(groups)),)
            return groups, [], True
        left = sorted(
            filter(self._takes, values),
            key=lambda one: size[one.address],
        )
        # Where NumPy makes statistics within the program, one pass costs less than several.
        room = self._room * (PASSES if self.repeatable and not self._calls_numpy else 1)
        summed: list[Value] = []
        while left and (total > room or size[left[-1].address] > self._room):
            summed.append(left.pop())
            total -= size[summed[-1].address]
        beside = {id(one) for one in summed}
        rest = [one for one in values if id(one) not in beside]
        groups = divided(rest, lambda one: size[one.address], self._room) or [[]]
        groups[0] += summed
        self.notes = (
            f"{STATS_ONLY} {size_text(sum(size.values()))} of values, in {_passes(groups)} with "
            f"{size_text(self._room)} of memory.",
        )
        return groups, summed, False

    def _pass(
        self, values: Sequence[Value], summed: set[str], steps: int
    ) -> tuple[list[Array], dict[str, PassResult]]:
        jaxpr = self._again if self._ran else self._jaxpr
        first = len(_compat.open_jaxpr(jaxpr).outvars) if self._ran else 0
        inner = summed.intersection(one.address for one in values)
        key = "recording", tuple(one.address for one in values), frozenset(inner), steps, first
        key = *key, self._mesh if inner else None
        summaries: dict[str, Summary] = {
            one.address: self._summary(one) for one in values if one.address in inner
        }
        handing = made_of(
            jaxpr,
            (),
            (*key, tuple(self._reductions[one.address] for one in values), self._how),
            lambda: Handing.made(jaxpr, values, summaries, steps, first, *self._how),
        )
        flat, became = handing(self._flat)
        self.raised = became if self.raised.error is None else self.raised
        nothing: list[Any] = [None] * first
        out, emits = handing.handed.unpack([*nothing, *flat])
        found: dict[str, PassResult] = {}
        for one in values:
            if (why := handing.handed.refusal(one)) is not None:
                self.closed[one.address] = one, why
            else:
                found[one.address] = PassResult(emits[one.address], one.address in summed)
        out = [] if self._ran else out
        self._ran = True
        return out, found

    def _summed(
        self, values: Sequence[Value], found: dict[str, PassResult]
    ) -> dict[str, PassResult]:
        """The summaries of values in their place, by one program for all of one shape and dtype."""
        groups: dict[Any, list[tuple[str, Array]]] = {}
        out = dict(found)
        for one in values:
            of_one = found.get(one.address)
            if of_one is None or of_one.is_summary or not self._takes(one):
                continue
            x, reduction = _leaf(of_one.emission), self._reductions[one.address]
            axes = x.ndim - type_of(one).ndim
            groups.setdefault((x.shape, x.dtype, axes, reduction), []).append((one.address, x))
        for (_, _, axes, reduction), members in groups.items():
            tables = reduced_by(reduction, [x for _, x in members], axes)
            for (address, _), table in zip(members, tables, strict=True):
                out[address] = PassResult(_with_leaf(found[address].emission, table), True)
        return out

    def fetched(self, found: Mapping[str, PassResult]) -> dict[str, PassResult]:
        """The same with the summaries on the host."""
        summed = {address: one.emission for address, one in found.items() if one.is_summary}
        tables = zip(summed, fetched_together(list(map(_leaf, summed.values()))), strict=True)
        of_host = {at: PassResult(_with_leaf(summed[at], table), True) for at, table in tables}
        return {**found, **of_host}

    def kept(self, value: Value, found: PassResult) -> KeptValue:
        """A kept value without the places of iterations that a while loop did not have."""
        emission = found.emission
        leaf, fired = _leaf(emission), _mask(found)
        axes = axes_of(value, list(emission.mesh or ()))
        if fired is not None:
            fired = fetched(fired) > 0
            fired = fired.reshape((*fired.shape, *(1,) * (len(axes) - fired.ndim)))
            fired = np.broadcast_to(fired, leaf.shape[: len(axes)])
            if slotted(emission):
                used = tuple(
                    slice(0, int(np.max(np.nonzero(fired)[k], initial=-1)) + 1)
                    if step_is_while
                    else slice(None)
                    for k, step_is_while in enumerate(in_whiles(value, axes))
                )
                if self._calls_numpy and not _compat.is_extended(leaf.dtype):
                    leaf = np.asarray(leaf)  # of which a part compiles nothing
                leaf, fired = leaf[used], fired[used]
            fired = None if fired.all() and fired.size else fired
        kept = KeptValue(axes, tuple(type_of(value).shape), type_of(value).dtype, fired=fired)
        if found.is_summary:
            kept.table = leaf
            reduction = self._reductions[value.address]
            if reduction.joined is not None and leaf.ndim > len(axes) + len(reduction.shape):
                kept.table = reduction.joined(kept.table)
        else:
            kept.value, kept.sharding = leaf, found.sharding
        return kept


def _passes(groups: Sequence[object]) -> str:
    return f"{len(groups)} passes" if len(groups) > 1 else "one pass"


def _leaf(emission: Emission) -> Any:
    [value] = emission.value
    return value.leaves[0] if isinstance(value, Slots) else value


def _with_leaf(emission: Emission, leaf: Any) -> Emission:
    [value] = emission.value
    new = dataclasses.replace(value, leaves=[leaf]) if isinstance(value, Slots) else leaf
    return emission._replace(value=[new])


def is_full(value: Value, found: PassResult) -> bool:
    """Whether the last place of a while loop is taken, so that there may have been more."""
    mask = fetched(_mask(found))
    loops = [step.is_while for step in value.steps if step.is_loop]
    names = axes_of(value, list(found.emission.mesh or ()))
    at = [k for k, name in enumerate(names) if not name.startswith("mesh ")]
    ends = [mask.take(-1, axis=k) for k, is_while in zip(at, loops, strict=True) if is_while]
    return any(bool(end.any()) for end in ends)


def steps_wanted(value: Value, found: PassResult, steps: int) -> int:
    """How many iterations are to be kept so that all are."""
    if whiles(value) == 1 and found.emission.fired is not None:
        return int(fetched(found.emission.fired).max()) + 1
    return 4 * steps


def reduced_by(reduction: Reduction, arrays: list[Any], axes: int) -> list[Any]:
    """A reduction of arrays of one shape: by NumPy where they are in its memory."""
    if shared := [x for x in arrays if is_shared(x)]:
        of_shared = iter(on_all_devices(of_each(reduction.of, axes), shared))
        others = [x for x in arrays if not is_shared(x)]
        of_others = iter(reduced_by(reduction, others, axes) if others else ())
        return [next(of_shared if is_shared(x) else of_others) for x in arrays]
    devices = arrays[0].devices() if isinstance(arrays[0], jax.Array) else ()
    if any(device.platform != "cpu" for device in devices):
        return on_device(reduction.of, axes)(arrays)
    # Each call of NumPy takes as long as a few thousand numbers: small arrays are done at once.
    some = max(_AT_ONCE // max(math.prod(arrays[0].shape), 1), 1)
    parts = [arrays[k : k + some] for k in range(0, len(arrays), some)]
    tables = (reduction.of(np.stack([np.asarray(x) for x in part]), axes + 1, np) for part in parts)
    return [row for table in tables for row in table]
