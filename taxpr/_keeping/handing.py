"""`Handing`: a compiled program that hands values out, past the error of a callback if wanted."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import Array, ClosedJaxpr
from taxpr._engine.hand_out import HandedOut, hand_out
from taxpr._engine.wanted_tree import Summary
from taxpr._hops.past_errors import Raised, past_errors
from taxpr._sites.values import Value
from taxpr._untyped import jax as _jax


@dataclasses.dataclass(frozen=True, eq=False)
class Handing:
    """A jaxpr that hands values out, and a compiled function of it, without its first results.

    Attributes:
        handed: The jaxpr, and where the values are among its results.
        run: The compiled function.
        raised: The notes of the callbacks while it runs.
    """

    handed: HandedOut
    run: Callable[..., list[Any]]
    raised: Raised
    _alone: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self.handed.jaxpr

    @classmethod
    def made(
        cls,
        jaxpr: ClosedJaxpr,
        values: Sequence[Value],
        summaries: Mapping[str, Summary],
        steps: int,
        first: int,
        past: bool,
        quickly: bool,
        alone: bool,
    ) -> Handing:
        """Make the program; `made_of` keeps its compiled function.

        Args:
            jaxpr: The program.
            values: The values to hand out.
            summaries: In place of a value, by its address.
            steps: How many iterations of while loops it keeps.
            first: How many of the program's own results it leaves out.
            past: Whether an error that a callback raises does not end the run.
            quickly: Whether XLA compiles it fast, and does not optimize it.
            alone: Whether it runs on one device.
        """
        raised = Raised()
        handed = hand_out(jaxpr, values, max_steps=steps, summaries=summaries, join=alone)
        whole = past_errors(handed.jaxpr, raised) if past else handed.jaxpr
        run = _compat.jaxpr_as_fun(whole)

        def results(*flat: Array) -> list[Array]:
            return run(*flat)[first:]

        options = _compat.quick_compile() if quickly else None
        return cls(handed, _compat.jitted(results, handed.jaxpr, options, first), raised)

    def __call__(self, flat: Sequence[Array]) -> tuple[list[Any], Raised]:
        """The results, and the errors of callbacks. One thread runs it at a time."""
        with self._alone, jax.debug_nans(False), jax.debug_infs(False):
            found = self.run(*flat)
            _jax.block_until_ready(found)  # an error of a callback comes with the results
            became = dataclasses.replace(self.raised)
            self.raised.error, self.raised.callbacks = None, {}
        return found, became
