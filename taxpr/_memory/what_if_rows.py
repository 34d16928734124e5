"""`WhatIf`, the answer of `MemoryUse.what_if`, and its rows."""

import dataclasses
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.tables import size_text
from taxpr._costs.quantities import quantity


@dataclasses.dataclass(frozen=True)
class WhatIfRow:
    """A change of the source, and what it saves; a row of `WhatIf`.

    Attributes:
        change: What is changed.
        total: The bytes that the call would need in all.
        saved: Its share of what it needs now; negative where it needs more.
        flops: The operations that it computes more, such as those that a checkpoint computes again,
            in all loops; negative where they are fewer. Evaluations of `exp` and the like are not
            in it. XLA may find some of them twice, and compute them once.
        equations: How many equations there are for XLA to compile, those in a loop once.
        code: What to write.
        measured: Whether XLA says so of the changed function, and it is not predicted.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda w, x: w - 0.1 * x)(jnp.ones(1000), jnp.ones(1000))
        >>> [row] = use.what_if(donate="w", measure=True).rows
        >>> row.change, row.total, use.total, row.flops
        ('w is donated', 8000, 12000, 0)
    """

    change: str
    total: int
    saved: float
    flops: int
    equations: int
    code: str
    measured: bool


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class WhatIf(Answer):
    """The memory that changes of the source would save; `MemoryUse.what_if` makes it.

    Attributes:
        headline: A sentence that says which changes these are.
        rows: A `WhatIfRow` for each change, the best first.
        notes: Whether the numbers are measured or predicted.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda w, x: w - 0.1 * x)(jnp.ones(1000), jnp.ones(1000))
        >>> use.what_if(donate="w", measure=True)
        what if w is donated
        change        total  saved  flops   code                            measured
        w is donated  8 kB   33%    0 FLOP  jax.jit(..., donate_argnums=0)  True
    """

    _columns = "change", "total", "saved", "flops", "code", "measured"

    def _shown(self) -> list[dict[str, Any]]:
        return [
            {
                **row,
                "total": size_text(row["total"]),
                "saved": f"{row['saved']:.0%}",
                "flops": _more(row["flops"]),
            }
            for row in super()._shown()
        ]


def _more(flops: int) -> str:
    sign = "-" if flops < 0 else "+" if flops else ""
    return f"{sign}{quantity(abs(flops), 'FLOP')}"
