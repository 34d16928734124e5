"""`every`: a training step that logs statistics of its variables every n steps."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax

from taxpr._errors import ArgumentError, NonfiniteError, is_whole, name_of, refuse_no_function
from taxpr._given import refuse_no_flag
from taxpr._keeping.wanted import EVERY_VARIABLE
from taxpr._keeping.watch import watch
from taxpr._recordings.recording import Recording
from taxpr._sites.criteria import Selector
from taxpr._training.before import Before, Keeper
from taxpr._training.finite import Finite
from taxpr._training.loggers import logger

_STATS = "mean", "std", "min", "max", "norm", "zeros", "nonfinite"
_NAMED = 3  # results that a message names


def every(
    n: int,
    step: Callable[..., Any],
    log: Any,
    where: Selector = EVERY_VARIABLE,
    *,
    stats: Iterable[str] = ("mean", "std", "norm", "nonfinite"),
    finite: bool | Callable[[Any], Any] = True,
    memory: float | None = None,
    everywhere: bool = False,
) -> EveryStep:
    """Wrap a training step so that it logs statistics of its variables every n calls.

    Each call runs ``step`` itself, the same compiled program: results and states are bit for bit
    the same as without `every`. In calls 0, n, 2n and so on `watch` runs it once more before, for
    the statistics; a callback in it, such as `jax.debug.print`, then runs twice.

    A small program beside it computes whether the results are finite. The loop does not wait for
    it: the answer for a step is read in the call after the next one begins. Arguments that the step
    donates are copied for this before each call, so that up to two copies of them are in memory;
    the first call copies all. With ``finite=False`` the calls between cost nothing.

    Args:
        n: The number of calls from one watched call to the next.
        step: The function, jitted or not, of optax, flax nnx, equinox or plain JAX.
        log: Takes the numbers, by names such as ``"loss.h/mean"``: a function of a dict, with the
            number of the call as ``"step"``; the path of a CSV file; an object with ``log(dict)``,
            as wandb has, or with ``add_scalar(tag, value, step)``, as the ``SummaryWriter`` of
            TensorBoard.
        where: The values to watch, as for `watch`.
        stats: The statistics to log: names of `Stats`, and ``"nonfinite"``, the non-finite share.
        finite: Whether to stop at the first step with a non-finite result, or a non-finite array in
            an object that it changes; or a function that picks the results to check, such as
            ``lambda out: out[2]`` for the loss alone.
        memory: As for `watch`.
        everywhere: If there are several processes, whether each logs; by default only process 0
            does. All compute the numbers, and all stop at the same step.

    Returns:
        A function of the arguments of ``step``, an `EveryStep`. In a ``with`` statement, or by its
        method ``close``, the last steps are looked at, too.

    Raises:
        NonfiniteError: If a step makes a non-finite result. One more step may have begun. Objects
            of libraries, such as flax nnx, are reset to before that step.
        ArgumentError: If ``n`` is no positive integer, there is no such statistic, or ``log``
            cannot take the numbers.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> @jax.jit
        ... def step(w, x):
        ...     error = jnp.log(w * x)
        ...     return w - error.mean()
        >>> told, w = [], jnp.float32(1.0)
        >>> try:
        ...     with taxpr.every(2, step, told.append, "error", stats=["mean"]) as stepping:
        ...         for x in (1.0, 2.0, 9.0, -1.0, 5.0):
        ...             w = stepping(w, jnp.full(3, x))
        ... except taxpr.NonfiniteError as error:
        ...     print(error.step, taxpr.find_nan(step)(*error.kept).rows[0].variable)
        4 error
        >>> [(one["step"], round(one["error/mean"], 2)) for one in told]
        [(0, 0.0), (2, 1.02), (4, nan)]
    """
    if not is_whole(n) or n < 1:
        raise ArgumentError(f"every: n={n!r} is no whole number from 1 on.")
    refuse_no_function("every", step)
    chosen = [stats] if isinstance(stats, str) else list(stats)
    for name in chosen:
        if name not in _STATS:
            raise ArgumentError(f"every: stats={name!r} is not one of {', '.join(_STATS)}.")
    watching = watch(step, where, keep="stats", memory=memory)
    refuse_no_flag("every", everywhere=everywhere)
    tells = everywhere or jax.process_index() == 0
    makes_file = isinstance(log, str | pathlib.Path)
    hand_on = logger(log) if tells or not makes_file else None  # it checks the others, too
    return EveryStep(n, step, hand_on if tells else None, watching, chosen, finite)


class _Step(NamedTuple):
    """A step that is not yet known to be finite."""

    number: int
    finite: Finite
    before: Before


class EveryStep:
    """A training step that logs statistics; `every` makes it.

    Attributes:
        calls: How many calls there were.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> stepping = taxpr.every(10, lambda x: x * 2, print, stats=["norm"])
        >>> y = stepping(jnp.ones(4))
        {'step': 0, 'x/norm': 2.0}
        >>> stepping.calls
        1
    """

    def __init__(
        self,
        n: int,
        step: Callable[..., Any],
        log: Callable[[int, dict[str, float]], object] | None,
        watching: Callable[..., Recording],
        stats: list[str],
        finite: bool | Callable[[Any], Any],
    ) -> None:
        self.calls = 0
        self._n, self._step, self._log, self._watching = n, step, log, watching
        self._stats, self._finite = stats, finite
        self._keeper = Keeper(step)
        self._open: list[_Step] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step, and returns its result."""
        if self.calls % self._n == 0:
            self.close()  # statistics wait for what came before anyway
            numbers = self._numbers(self._watching(*args, **kwargs))
            if self._log is not None:
                self._log(self.calls, numbers)
        if self._finite is False:
            self.calls += 1
            return self._step(*args, **kwargs)
        before = self._keeper.before(args, kwargs)
        out = self._step(*args, **kwargs)
        self._keeper.after()
        looked_at = {"out": self._finite(out) if callable(self._finite) else out}
        if self._finite is True:
            looked_at |= self._keeper.states(args, kwargs)
        self._open.append(_Step(self.calls, Finite(looked_at), before))
        self.calls += 1
        if len(self._open) > 1:
            self._settle()
        return out

    def close(self) -> None:
        """Wait for the last steps, and look at them.

        Raises:
            NonfiniteError: If one made a non-finite result.
        """
        while self._open:
            self._settle()

    def __enter__(self) -> EveryStep:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is None:
            self.close()

    def _settle(self) -> None:
        step = self._open.pop(0)
        wrong = step.finite.wrong()
        if not wrong:
            return
        self._open.clear()
        args, kwargs = step.before.taken()
        told = ", ".join(wrong[:_NAMED])
        told += f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        name = name_of(self._step)
        raise NonfiniteError(
            f"every: step {step.number} of {name} is the first whose results are not finite: "
            f"{told}. Ask taxpr.find_nan({name})(*error.kept, **error.keywords) where that comes "
            "from: these are its arguments.",
            step.number,
            args,
            kwargs,
            wrong,
        )

    def _numbers(self, recording: Recording) -> dict[str, float]:
        parts = {part.name + part.path: part for part in recording.parts}
        told: dict[str, float] = {}
        for row in recording.table().each:
            found = parts[row.variable].stats(each=False)
            if found is not None and found.size:
                numbers = ((name, float(getattr(found, name))) for name in self._stats)
                told |= {f"{row.variable}/{name}": number for name, number in numbers}
        return told
