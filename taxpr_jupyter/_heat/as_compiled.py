"""A program as XLA has compiled it, by places: shared kernels, removed equations, collectives."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import taxpr
from taxpr import introspect
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import count_of

_SIGNED = 3  # kernels that a label has
_TOLD = 4  # kernels, and collectives, that a tooltip tells
_REMOVED = (
    "XLA removed it: it is computed beforehand, merged with others, not needed, or only a change "
    "of shape"
)


class PlaceAsCompiled(NamedTuple):
    """The equations of a node as XLA has compiled them.

    Attributes:
        kernels: The kernels that compute some of them together with equations elsewhere, by their
            numbers: the rows of the answer, counted from 1.
        tint: The number of the colour of one of these; None without any.
        removed: Whether no kernel computes any of them.
        moved: The collectives that they need, in some words; "" for none.
        words: All of this in sentences.
    """

    kernels: tuple[int, ...]
    tint: int | None
    removed: bool
    moved: str
    words: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of a node."""
        tint = "alone" if self.tint is None else f"kernel-{self.tint}"
        made = "removed" if self.removed else tint
        return (made, "moved") if self.moved else (made,)

    @property
    def signs(self) -> tuple[str, ...]:
        """The signs behind a title."""
        shown = [f"k{number}" for number in self.kernels[:_SIGNED]]
        more = ["…"] * (len(self.kernels) > _SIGNED)
        return (" ".join(shown + more),) if shown else ()


@dataclasses.dataclass(frozen=True, eq=False)
class AsCompiled:
    """The equations of a program as XLA has compiled them.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     unused = jnp.cos(x)
        ...     y = jnp.sin(x)
        ...     return y * 2
        >>> program = taxpr.trace(f, names=True)(jnp.ones(50))
        >>> found = AsCompiled(program, taxpr.compiled(program)())
        >>> found.at("0:cos").removed, found.at("1:sin").kernels, found.at("2:mul").signs
        (True, (1,), ('k1',))
    """

    program: taxpr.Program
    answer: taxpr.questions.Compiled
    kind: Literal["compiled"] = "compiled"

    def at(self, *addresses: str) -> PlaceAsCompiled:
        """These equations or nested jaxprs, with all that is in them, as XLA has compiled them."""
        inside = collections.Counter[int]()
        for one in addresses:
            inside.update(self._kernels.get(one, {}))
        gone = sum(self._removed[one] for one in addresses)
        every = sum(self._leaves[one] for one in addresses)
        moved = [row for one in addresses for row in self._moved.get(one, ())]
        shared = tuple(k for k in sorted(inside) if inside[k] < len(self._rows[k].equations))
        is_removed = bool(gone) and gone == every
        words = [self._told(k) for k in shared[:_TOLD]]
        if len(inside) > max(len(shared), 1):
            words.insert(0, f"{len(inside)} kernels compute it")
        words += [_REMOVED] if is_removed else []
        if gone and not is_removed:
            words.append(f"{gone} of {count_of(every, 'equation')} are in no kernel")
        words += [_in_words(row) for row in moved[:_TOLD]]
        return PlaceAsCompiled(
            shared,
            self._tints[shared[0]] if shared else None,
            is_removed,
            _briefly(moved),
            tuple(words),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """How much there is of all, in some sentences."""
        made, several = len(self.answer.rows), len(self.answer.fusions.rows)
        gone = sum(len(row.equations) for row in self.answer.removed.rows)
        found = f"{count_of(made, 'kernel')}, {several} of several statements"
        note = f"{found}; {count_of(gone, 'equation')} gone" if gone else found
        rows = self.answer.collectives.rows
        return (note, f"⇄ between devices: {_briefly(rows)}") if rows else (note,)

    def _told(self, number: int) -> str:
        row = self._rows[number]
        code = f": {row.code} ({row.line})" if row.line else f": {row.code}" if row.code else ""
        of = count_of(len(row.equations), "equation")
        return f"kernel {number}, {row.instruction}, of {of}{code}"

    @functools.cached_property
    def _rows(self) -> dict[int, taxpr.questions.KernelRow]:
        """The kernels that compute something; a collective only moves it."""
        moving = {row.instruction for row in self.answer.collectives.rows}
        rows = enumerate(self.answer.rows, 1)
        return {k: row for k, row in rows if row.equations and row.instruction not in moving}

    @functools.cached_property
    def _tints(self) -> dict[int, int]:
        several = [k for k, row in self._rows.items() if len(row.equations) > 1]
        return {k: at % len(theme.KERNELS) for at, k in enumerate(several)}

    @functools.cached_property
    def _kernels(self) -> Mapping[str, Mapping[int, int]]:
        """How many equations each kernel computes in each place."""
        found = collections.defaultdict[str, collections.Counter[int]](collections.Counter)
        for number, row in self._rows.items():
            for equation in row.equations:
                for at in outward(equation):
                    found[at][number] += 1
        return found

    @functools.cached_property
    def _removed(self) -> Mapping[str, int]:
        rows = self.answer.removed.rows
        return _counted(one for row in rows for one in row.equations)

    @functools.cached_property
    def _leaves(self) -> Mapping[str, int]:
        """How many equations each place has that hold no others."""
        every = introspect.iter_eqns(self.program)
        found = [taxpr.Address(at) for at, eqn in every if not introspect.is_tag(eqn)]
        holding = {one.home.home for one in found}
        return _counted(one for one in found if one not in holding)

    @functools.cached_property
    def _moved(self) -> Mapping[str, Sequence[taxpr.questions.CollectiveRow]]:
        found = collections.defaultdict[str, list[taxpr.questions.CollectiveRow]](list)
        for row in self.answer.collectives.rows:
            for at in outward(row.address):
                found[at].append(row)
        return found


def outward(address: str) -> Iterator[str]:
    """An equation, and the jaxprs and equations around it."""
    at = taxpr.Address(address).eqn
    while at:
        yield at
        at = at.home


def _counted(addresses: Iterator[str]) -> collections.Counter[str]:
    return collections.Counter(at for one in addresses for at in outward(one))


def _briefly(rows: Sequence[taxpr.questions.CollectiveRow]) -> str:
    """Collectives in a few words."""
    if not rows:
        return ""
    size = introspect.quantity(sum(row.bytes for row in rows), "B")
    if len(rows) > 1:
        return f"{len(rows)} collectives {size}"
    [row] = rows
    return f"{row.kind} {size}" + (f" over {', '.join(row.axes)}" if row.axes else "")


def _in_words(row: taxpr.questions.CollectiveRow) -> str:
    of = f" of {row.moves}" if row.moves else ""
    over = f" over {', '.join(row.axes)}" if row.axes else ""
    times = f", {row.times} times" if row.times and row.times > 1 else ""
    return f"{row.kind}{of}{over}: {introspect.quantity(row.bytes, 'B')}{times}"
