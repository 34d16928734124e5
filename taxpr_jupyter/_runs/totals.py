"""XLA's own cost and memory estimates for a compiled program."""

import dataclasses
from typing import Any

from taxpr import introspect


@dataclasses.dataclass(frozen=True)
class Compiled:
    """XLA's totals for one compiled program on one device; None if XLA does not give a number.

    XLA counts the operations that are left after fusion and dead code elimination. On CPU it counts
    a loop body once, even if the trip count is known.

    Attributes:
        flops: The number of operations, without transcendental ones.
        transcendentals: The number of functions such as `exp`.
        bytes_accessed: The bytes that fused operations read and write.
        peak_bytes: The peak memory: arguments, results and temporary values.
    """

    flops: float | None = None
    transcendentals: float | None = None
    bytes_accessed: float | None = None
    peak_bytes: float | None = None

    def __str__(self) -> str:
        words = [] if self.flops is None else [introspect.quantity(self.flops, "FLOP")]
        if self.transcendentals:
            words.append(f"{introspect.quantity(self.transcendentals, '')} transcendental")
        if self.bytes_accessed is not None:
            words.append(f"{introspect.quantity(self.bytes_accessed, 'B')} accessed")
        if self.peak_bytes is not None:
            words.append(f"peak {introspect.quantity(self.peak_bytes, 'B')}")
        return ", ".join(words) or "nothing is known"


def compiled_totals(compiled: Any) -> Compiled | None:
    """XLA's totals for a `jax.stages.Compiled`; None if the backend gives none."""
    costs, memory = _asked(compiled.cost_analysis), _asked(compiled.memory_analysis)
    costs = costs if isinstance(costs, dict) else {}

    def number(name: str) -> float | None:
        value = costs.get(name)
        return value if value is not None and value >= 0 else None  # -1 means unknown

    found = Compiled(
        flops=number("flops"),
        transcendentals=number("transcendentals"),
        bytes_accessed=number("bytes accessed"),
        peak_bytes=_peak(memory),
    )
    return None if found == Compiled() else found


def _asked(question: Any) -> Any:
    try:
        return question()
    except Exception:  # a backend without an answer may raise anything
        return None


def _peak(memory: Any) -> float | None:
    if memory is None:
        return None
    stated = getattr(memory, "peak_memory_in_bytes", 0)  # missing in some versions and backends
    parts = ("argument", "output", "temp")
    held = sum(getattr(memory, f"{part}_size_in_bytes", 0) for part in parts)
    held -= getattr(memory, "alias_size_in_bytes", 0)
    return float(stated or held)
