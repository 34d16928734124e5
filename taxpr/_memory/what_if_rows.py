"""`WhatIf`, the answer of `MemoryUse.what_if`, and its rows."""

import dataclasses
from typing import Any

from taxpr._answers.answer import Answer
from taxpr._answers.tables import size_text
from taxpr._costs.quantities import quantity


@dataclasses.dataclass(frozen=True)
class WhatIfRow:
    """A change of the source, and the memory that it saves; a row of `WhatIf`.

    Attributes:
        change: The change.
        total: The bytes that the call would need in all.
        saved: The saved share of the memory that it needs now; negative if it needs more.
        flops: The additional operations in all loops, such as a checkpoint computes again; negative
            if there are fewer. Evaluations of `exp` and the like are not in it. XLA may find some
            of them twice, and compute them once.
        equations: How many equations XLA compiles; an equation in a loop counts once.
        code: The code to write.
        measured: Whether XLA compiled the changed function; else it is predicted.

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
