"""`MemoryUse`, the answer of `memory`."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.portions import Portion
from taxpr._answers.tables import size_text
from taxpr._errors import ArgumentError
from taxpr._given import told_how
from taxpr._memory.held import XLAS_OWN, MemoryRow, as_one, merged, shown
from taxpr._memory.tried_changes import Asked
from taxpr._memory.what_if import advice, what_if
from taxpr._memory.what_if_rows import WhatIf
from taxpr._untyped import np


class _Rows(Answer):
    _columns = "bytes", "share", "variable", "line", "code", "arrays", "iterations", "why"

    def listed(self) -> list[MemoryRow]:
        """The rows, with one for the same variable of each layer."""
        return as_one(self.rows)

    def _shown(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in shown(row).items() if v != 1} for row in super()._shown()]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Residuals(_Rows):
    """The values that a gradient keeps of its forward pass; `MemoryUse.residuals` has it.

    Attributes:
        total: The bytes of all values.
        portions: The bytes of each array, which are the total.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(w, x):
        ...     act = jnp.tanh(x @ w)
        ...     return act.sum()
        >>> use = taxpr.memory(jax.grad(loss))(jnp.ones((8, 8)), jnp.ones((1000, 8)))
        >>> [(row.variable, row.bytes, row.why) for row in use.residuals.rows]
        [('act', 32000, 'kept for the derivative of `act = jnp.tanh(x @ w)`')]
    """

    total: int = 0
    portions: Sequence[Portion] = ()


class MemoryStep(NamedTuple):
    """A step of a compiled program; `MemoryUse.steps` has them.

    Attributes:
        line: The line of its last statement.
        code: The statements, in order.
        equations: The addresses of its equations; empty if XLA has added the step.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda x: (x @ x) @ x)(jnp.ones((100, 100)))
        >>> [step.equations for step in use.steps if step.equations]
        [('0:dot_general',), ('1:dot_general',)]
    """

    line: str = ""
    code: str = ""
    equations: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MemoryUse(_Rows):
    """The memory that a call needs, by variable; `memory` makes it.

    Attributes:
        total: The bytes that it needs in all: arguments + results - alias + temporaries.
        arguments: The bytes of its arguments.
        results: The bytes of its results.
        alias: The bytes of results that take the place of a donated argument.
        temporaries: The bytes of all other arrays.
        residuals: The values that a gradient in it keeps for its backward pass, whole.
        portions: The bytes of each array at the peak; their sum is the total.
        line: The bytes that are taken after each step of the program.
        steps: The statements of each of these steps; the first entry is before all of them. Empty
            for an estimate.
        lives: Each array with the first and the last step after which it is in memory. Empty for an
            estimate.
        devices: How many devices the call uses. XLA's numbers are for each device; an estimate, and
            ``residuals``, are for all together.
        loops: For each loop where it begins and ends on the line, and its statement.
        estimated: Whether it is an estimate, without XLA.
        asked: The call, for `what_if`.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda x: (x @ x) @ x)(jnp.ones((100, 100)))
        >>> use.total, use.arguments, use.results, use.temporaries
        (120000, 40000, 40000, 40000)
    """

    total: int = 0
    arguments: int = 0
    results: int = 0
    alias: int = 0
    temporaries: int = 0
    residuals: Residuals = Residuals("residuals", [])
    portions: Sequence[Portion] = ()
    line: Any = None
    steps: Sequence[MemoryStep] = ()
    lives: Sequence[tuple[int, int, MemoryRow]] = ()
    loops: Sequence[tuple[int, int, str]] = ()
    devices: int = 1
    estimated: bool = False
    asked: Asked | None = dataclasses.field(default=None, repr=False)

    @told_how("Give it the number of a step.")
    def at(self, step: int) -> Answer:
        """The arrays in memory after a step of the program.

        Args:
            step: The position on `line`.

        Returns:
            An `Answer` with a `MemoryRow` for each variable, largest first.

        Raises:
            ArgumentError: If there is no such step, or nothing is known of it, as in an estimate.

        Example:
            >>> import jax.numpy as jnp, taxpr
            >>> use = taxpr.memory(lambda x: (x @ x) @ x)(jnp.ones((100, 100)))
            >>> [row.why for row in use.at(0).rows]
            ['argument', 'result']
        """
        if not self.lives:
            why = "it is an estimate" if self.estimated else "XLA says their sum alone"
            raise ArgumentError(f"at: nothing is known of its steps: {why}.")
        if not _is_whole(step) or not 0 <= step < len(self.line):
            raise ArgumentError(f"at: there is no step {step!r}, but 0 to {len(self.line) - 1}.")
        size = int(self.line[step])
        rows = [row for begin, end, row in self.lives if begin <= step <= end]
        if left := size - sum(row.bytes for row in rows):
            rows.append(MemoryRow(left, 0.0, "", "", "", 1, 1, XLAS_OWN, ""))
        code = self.steps[step].code
        headline = f"{size_text(size)} after step {step} of {len(self.line) - 1}"
        return _Rows(f"{headline}, {code}" if code else headline, merged(rows, size))

    @told_how("Give it one change by its keyword: checkpoint, scan, bfloat16 or donate.")
    def what_if(
        self,
        *,
        checkpoint: Any = None,
        policy: Any = None,
        scan: Any = None,
        bfloat16: Any = None,
        donate: str | int | None = None,
        measure: bool = False,
    ) -> WhatIf:
        """Try one change of the source by `taxpr.edit`, and tell the memory that it saves.

        Args:
            checkpoint: A function, or its name as for `edit`, such as ``"block"``: its values are
                computed again in the backward pass, and not kept.
            policy: The values to keep nevertheless, as for `jax.checkpoint`.
            scan: A function with a Python loop, or its name: if the iterations are alike, they
                become a `jax.lax.scan` of one, over the values that differ between them.
            bfloat16: A variable, as for `edit`: it is cast where it is bound.
            donate: An argument, by its name or position: its memory is given to the results.
            measure: Whether to compile the changed function instead of predicting.

        Raises:
            ArgumentError: If no change, or more than one, is given, or if a `Program` was called.
            SelectorError: If there is no such function or variable.

        Example:
            >>> import jax, jax.numpy as jnp, taxpr
            >>> def layer(x, w):
            ...     return jnp.sin(jnp.sin(jnp.sin(x @ w)))
            >>> def loss(ws, x):
            ...     return jax.lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0].sum()
            >>> args = jnp.ones((50, 16, 16)), jnp.ones((512, 16))
            >>> use = taxpr.memory(jax.grad(loss))(*args)
            >>> [row] = use.what_if(checkpoint="layer").rows
            >>> row.code, row.saved > 0.5
            ('layer = jax.checkpoint(layer)', True)
        """
        return what_if(
            self._asked(),
            checkpoint=checkpoint,
            policy=policy,
            scan=scan,
            bfloat16=bfloat16,
            donate=donate,
            measure=measure,
        )

    @told_how("Give it nothing, or measure=True.")
    def advice(self, *, measure: bool = False) -> WhatIf:
        """Try the changes that may save memory, and tell which do, the best first.

        These are `jax.checkpoint` around each function of yours that makes many of the residuals, a
        scan in place of a Python loop, and arguments that could be donated. A scan also counts if
        it leaves less than half of the equations to compile.

        Args:
            measure: Whether to compile the best changes, and not only to predict.
        """
        return advice(self._asked(), measure=measure)

    def _asked(self) -> Asked:
        if self.asked is None:
            raise ArgumentError("what_if: this table has no call. Ask taxpr.memory(fun)(*args).")
        return self.asked

    def chart(self) -> Chart | None:
        """The bytes that are taken, in the order of the program; loops are bands."""
        if self.line is None or len(self.line) < 2:
            return None
        return Lines({"bytes": self.line}, xlabel="instructions in order", bands=self.loops)


def _is_whole(step: Any) -> bool:
    return isinstance(step, int | np.integer) and not isinstance(step, bool)
