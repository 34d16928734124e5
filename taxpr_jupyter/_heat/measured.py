"""Measured seconds or bytes, by the places of a program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import taxpr
from taxpr import introspect
from taxpr_jupyter._heat.as_compiled import AsCompiled, outward
from taxpr_jupyter._heat.given import Given
from taxpr_jupyter._model.kinds import CostKind, MeasuredKind

# The question whose answer has it, what the whole is called, and the unit.
_ANSWERS: Mapping[MeasuredKind, tuple[str, str, str]] = {
    "time": ("profile", "of the run", "s"),
    "peak": ("memory", "of the memory", "B"),
    "kept": ("memory", "of all kept values", "B"),
    "compiled": ("compiled", "", ""),
}


def asked_for(kind: MeasuredKind) -> str:
    """The question whose answer has what is measured."""
    return _ANSWERS[kind][0]


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """Seconds or bytes that were measured of a program.

    Attributes:
        kind: Seconds, bytes where the most is, or bytes that are kept for a gradient.
        whole: All of it, also the rest that has no place.
        portions: Its parts by places, as `taxpr.questions.Profile.portions`.
        program: The program.
        answer: The answer that has it.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> program = taxpr.trace(lambda x: jnp.sum(x * 2))(jnp.ones(1000))
        >>> [peak, kept] = measured_by(taxpr.memory(program)(), program)
        >>> peak.kind, peak.inside("in0")
        ('peak', 4000.0)
    """

    kind: MeasuredKind
    whole: float
    portions: Sequence[taxpr.questions.Portion]
    program: taxpr.Program
    answer: taxpr.questions.Answer

    @functools.cached_property
    def _inside(self) -> dict[str, float]:
        return _sums(self.portions)

    @functools.cached_property
    def _shared(self) -> dict[str, float]:
        return _sums(one for one in self.portions if one.shared)

    @property
    def placed(self) -> float:
        """As much of it as has an address."""
        return sum(one.amount for one in self.portions if one.address)

    def inside(self, *addresses: str) -> float:
        """As much as these equations, nested jaxprs or inputs have, with all that is in them."""
        return sum(self._inside.get(one, 0.0) for one in addresses)

    def words(self, *addresses: str) -> str:
        """The same in words; "" where it is nothing."""
        shared = sum(self._shared.get(one, 0.0) for one in addresses)
        return self.text(self.inside(*addresses), shared)

    def text(self, amount: float, shared: float = 0.0) -> str:
        """An amount in words, and how much of it are equal parts of shared kernels."""
        if not amount:
            return ""
        _, of, unit = _ANSWERS[self.kind]
        text = f"{introspect.quantity(amount, unit)}, {amount / self.whole:.1%} {of}"
        part = (
            f"{introspect.quantity(shared, unit)} of it are parts of kernels of several statements"
        )
        return f"{text}; {part}" if shared else text

    @property
    def note(self) -> str:
        """How much of it has a place, in a sentence."""
        _, _, unit = _ANSWERS[self.kind]
        share = f"{self.placed / self.whole:.0%}" if self.whole else "nothing"
        return f"In the picture: {share} of {introspect.quantity(self.whole, unit)}"

    def by_line(self) -> dict[str, tuple[float, float]]:
        """As much as each line has, and how much of that are equal parts; "" has the rest."""
        found: dict[str, tuple[float, float]] = {}
        for one in self.portions:
            amount, shared = found.get(one.line, (0.0, 0.0))
            found[one.line] = amount + one.amount, shared + one.amount * one.shared
        return found


Found: TypeAlias = Measured | AsCompiled | Given  # in an answer, or from the user
Colours: TypeAlias = CostKind | Found | None  # what nodes are coloured by; None for their kinds


def measured_by(answer: taxpr.questions.Answer, program: taxpr.Program) -> Iterator[Found]:
    """The numbers or kernels in an answer; most questions have none."""
    if isinstance(answer, taxpr.questions.Compiled):
        yield AsCompiled(program, answer)
    if isinstance(answer, taxpr.questions.Profile):
        yield Measured("time", answer.wall, answer.portions, program, answer)
    if isinstance(answer, taxpr.questions.MemoryUse):
        kept = answer.residuals
        yield Measured("peak", answer.total, answer.portions, program, answer)
        yield Measured("kept", kept.total, kept.portions, program, answer)


def _sums(portions: Iterable[taxpr.questions.Portion]) -> dict[str, float]:
    """As much as each equation and nested jaxpr has, with all that is in it."""
    found: dict[str, float] = {}
    for one in portions:
        for at in outward(one.address):
            found[at] = found.get(at, 0.0) + one.amount
    return found
