"""The rows of `memory`: which variables hold bytes."""

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from taxpr._address import Address
from taxpr._answers.tables import alike, of_any_index, of_each, size_text
from taxpr._buffers.contents_of import Content
from taxpr._compiled.attribution import Attributions
from taxpr._estimates.residuals import Residual, origin_of, size_of
from taxpr._hops.places import numbered
from taxpr._programs.program import Program
from taxpr._sites.values import Value, values_of

XLAS_OWN = "XLA's own"
_COPY = "XLA's own copy"
_CLOSED_OVER = "closed over"
_MOST = 2  # statements that are named in a reason


@dataclasses.dataclass(frozen=True)
class MemoryRow:
    """An array, or several of one variable, in memory; a row of `MemoryUse`.

    Attributes:
        bytes: How much.
        share: Its share of the total; for a residual, of all residuals.
        variable: The variable, or the name of an argument; "" if unknown.
        line: The line, such as ``"model.py:12"``.
        code: The statement in that line; after ``∂`` the differentiated statement.
        arrays: How many arrays these are.
        iterations: How often a loop keeps each of them: once for each of its iterations.
        why: Why it is there: ``"argument"``, ``"result"``, ``"kept for the derivative of …"``, a
            loop's ``"carry"``, ``"closed over"``, ``"temporary"``, or ``"XLA's own"``.
        address: The equation that made the largest of them, or the argument.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda x: x * 2)(jnp.ones(1000))
        >>> [(row.variable, row.bytes, row.why) for row in use.rows]
        [('x', 4000, 'argument'), ('out', 4000, 'result')]
    """

    bytes: int
    share: float
    variable: str
    line: str
    code: str
    arrays: int
    iterations: int
    why: str
    address: str


class Holding(NamedTuple):
    """Bytes, and the values in them.

    Attributes:
        bytes: How many.
        made: The equations that made the values.
        why: Why they are there, if known.
        name: Their name, if known.
        place: The address of an argument; else "".
        readers: The equations that read them last.
    """

    bytes: int
    made: Content
    why: str = ""
    name: str = ""
    place: str = ""
    readers: tuple[Address, ...] = ()


class RowMaker:
    """Makes rows of bytes and addresses.

    Args:
        program: The program.
        words: Its variables and statements.
        kept: The residuals of its gradients.
        devices: How many devices it uses.
    """

    def __init__(
        self, program: Program, words: Attributions, kept: Sequence[Residual], devices: int
    ) -> None:
        self._words, self._devices = words, devices
        self._kept: dict[Address, Residual] = {}
        for one in kept:
            self._kept.setdefault(one.address, one)
            self._kept.setdefault(one.address.eqn, one)
        self._program = program

    def each(self, held: Iterable[Holding]) -> list[MemoryRow]:
        """A row for each array."""
        return [self._row(one) for one in held if one.bytes > 0]

    def residuals(self, kept: Sequence[Residual]) -> list[MemoryRow]:
        """A row for each array that is kept."""
        return self.each(
            Holding(one.bytes, Content(one.address, one.iterations > 1), self.reason(one))
            for one in kept
        )

    def reason(self, kept: Residual) -> str:
        """Which statements read a residual."""
        return self._kept_for(kept.readers)

    def _kept_for(self, readers: Iterable[Address]) -> str:
        told = dict.fromkeys(self._words.of(one).code.removeprefix("∂ ") for one in readers)
        named = [f"`{code}`" for code in told if code]
        more = f" and {len(named) - _MOST} more" if len(named) > _MOST else ""
        return f"kept for the derivative of {', '.join(named[:_MOST])}{more}" if named else "kept"

    def _row(self, one: Holding) -> MemoryRow:
        made = one.made
        if made.address is None:
            why = one.why or XLAS_OWN
            return MemoryRow(one.bytes, 0.0, one.name, "", "", 1, 1, why, one.place)
        address = self._as_kept(made)
        told = self._words.of(address)
        if one.name and (not told.variable or told.code.startswith("∂ ")):
            # A derivative is not what the variable of its statement holds.
            told = told._replace(variable=one.name)
        if made.alike:
            every = [told, *map(self._words.of, made.alike)]
            groups = alike((x.variable for x in every if x.variable), of_any_index)
            told = next((x for x in every if x.line), told)
            told = told._replace(variable=", ".join(map(of_each, groups)))
        residual = self._kept.get(address) if not one.why else None
        why = one.why or (self.reason(residual) if residual else "")
        if address.kind == "const" and not why:
            why = _CLOSED_OVER
        if not why and not self._words.is_backward(address) and not made.copied:
            # What XLA keeps in the place of a residual, from which it computes that again.
            back = [x for x in one.readers if self._words.is_backward(x)]
            why = self._kept_for(back) if back else ""
        if made.copied and not residual:
            why = why or _COPY
        why = why or ("carry" if made.carried else "temporary")
        if not told.known:
            why = one.why or XLAS_OWN
        times = self._iterations(address, one.bytes) if made.stacked else 1
        return MemoryRow(
            one.bytes, 0.0, told.variable, told.line, told.code, 1, times, why, address
        )

    def _as_kept(self, made: Content) -> Address:
        """The address where the value is kept: a loop's carry is kept as its body's argument."""
        address = made.address
        assert address is not None
        if address in self._kept or not (made.carried and made.stacked):
            return address
        return next((x for x in self._enters.get(address, ()) if x in self._kept), address)

    @functools.cached_property
    def _enters(self) -> dict[Address, list[Address]]:
        return _enters(values_of(self._program.jaxpr))

    def _iterations(self, address: Address, size: int) -> int:
        """How often a value of an address is in so many bytes."""
        at = address.value(0) if address.kind == "eqn" and address.result is None else address
        value, kept = self._words.places.value(at), self._kept.get(address)
        each = size_of(value.aval) if value is not None else 0
        if self._devices > 1:  # each may have a part of it
            times = kept.iterations if kept else 1
            return times if size * self._devices >= each * times else 1
        return size // each if each and not size % each else 1


def _enters(values: Iterable[Value]) -> dict[Address, list[Address]]:
    """For each equation that makes a loop's carry, the inputs that take the carry again."""
    found: dict[Address, list[Address]] = {}
    seen = set[Address]()
    for value in values:
        if not value.steps or not value.steps[-1].is_loop:
            continue
        step, home = value.steps[-1], value.address.home
        if home in seen:
            continue
        seen.add(home)
        for result, entry in step.nested.back:
            at = _made_in(step.nested.jaxpr, result, home)
            if at is not None:
                found.setdefault(at.eqn, []).append(home / f"in{entry}")
    return found


def _made_in(inner: Any, result: int, home: Address) -> Address | None:
    """The innermost equation that makes an output of a jaxpr."""
    atom = inner.outvars[result]
    for local, eqn in numbered(inner):
        for k, var in enumerate(eqn.outvars):
            if var is atom:
                return origin_of(eqn, k, home / local)[0]
    return None


def merged(rows: Iterable[MemoryRow], total: int) -> list[MemoryRow]:
    """The rows, largest first: arrays of one variable, kept for one reason, share a row."""
    groups = alike(rows, lambda row: (row.variable, row.line, row.code, row.why, row.iterations))
    found = [_one(group) for group in groups]
    told = (dataclasses.replace(row, share=row.bytes / max(total, 1)) for row in found)
    return sorted(told, key=lambda row: -row.bytes)


def as_one(rows: Sequence[MemoryRow]) -> list[MemoryRow]:
    """Rows whose names differ by an index alone as one, such as a weight of each layer."""

    def any_index(row: MemoryRow) -> Hashable:
        return of_any_index(row.variable), row.line, row.code, row.why, row.iterations

    found = [
        dataclasses.replace(_one(group), variable=of_each(row.variable for row in group))
        for group in alike(rows, any_index)
    ]
    return sorted(found, key=lambda row: -row.bytes)


def _one(group: Sequence[MemoryRow]) -> MemoryRow:
    largest = max(group, key=lambda row: row.bytes)
    size, arrays = sum(row.bytes for row in group), sum(row.arrays for row in group)
    share = sum(row.share for row in group)
    return dataclasses.replace(largest, bytes=size, share=share, arrays=arrays)


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is shown, with a size for people."""
    return {**row, "bytes": size_text(row["bytes"]), "share": f"{row['share']:.1%}"}
