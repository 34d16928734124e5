"""The values of a recording, in short texts beside the variables of the source."""

from typing import Any

import numpy as np

import taxpr

NOT_RUN = "did not run"
_NOT_FINITE = {"nan": "NaN", "posinf": "+inf", "neginf": "-inf"}
_NUMBERS = ("min", "max", "mean", *_NOT_FINITE)


class LineValues:
    """The values that variables held in a run, for all iterations of the loops or for one.

    Attributes:
        steps: How many iterations the longest loop has that is in no other.
        nonfinite: How many elements are not finite, by address; without those that all are.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def f(xs):
        ...     return jax.lax.scan(lambda t, x: (taxpr.tag(t + x, name="t"), t), 0 * xs[0], xs)
        >>> values = LineValues(taxpr.watch(f, {"name": "t"})(jnp.arange(4.0)))
        >>> values.steps, *values.texts().values(), *values.texts(step=2).values()
        (4, '0 … 6, mean 2.5', '3')
    """

    def __init__(self, recording: taxpr.questions.Recording) -> None:
        self._found = {part.address: recording[part.address] for part in recording.parts}
        self.steps = max(map(_iterations, self._found.values()), default=0)
        counts = {address: _nonfinite(one) for address, one in self._found.items()}
        self.nonfinite = {address: number for address, number in counts.items() if number}

    def texts(self, step: int | None = None) -> dict[str, str]:
        """The text of each value, by its address.

        Args:
            step: The iteration of the outermost loops, from 0; None for all together.
        """
        texts = {address: _text(one, step) for address, one in self._found.items()}
        return {address: text for address, text in texts.items() if text}


def _iterations(one: taxpr.questions.Recorded) -> int:
    """How often the outermost loop around a value ran; 0 without a loop."""
    if not one.axes or ":" not in one.axes[0]:
        return 0
    if one.fired is None:
        return one.shape[0]
    fired = np.asarray(one.fired)
    ran = fired.any(tuple(range(1, fired.ndim)))
    return int(ran.nonzero()[0].max(initial=-1)) + 1


def _nonfinite(one: taxpr.questions.Recorded) -> int:
    """How many elements are not finite, in all iterations together."""
    stats = one.stats()
    return round(float(stats.nonfinite) * stats.size) if stats else 0  # None of a PRNG key


def _text(one: taxpr.questions.Recorded, step: int | None) -> str:
    stats, ran = one.stats(each=True), np.asarray(True if one.fired is None else one.fired)
    if stats is None:  # of a PRNG key
        return ""
    numbers = {name: np.asarray(getattr(stats, name)) for name in _NUMBERS}
    if step is not None and (iterations := _iterations(one)):
        if step >= iterations:
            return NOT_RUN
        numbers = {name: each[step] for name, each in numbers.items()}
        ran = ran[step] if ran.ndim else ran
    numbers = {name: each[np.broadcast_to(ran, each.shape)] for name, each in numbers.items()}
    return _said(numbers, stats.size) if numbers["mean"].size else NOT_RUN


def _said(numbers: dict[str, Any], size: int) -> str:
    """Numbers of each iteration and device together."""
    finite = ~np.isnan(numbers["mean"])
    shares = {word: 100 * numbers[name].mean() for name, word in _NOT_FINITE.items()}
    words = [f"{share:.3g}% {word}" for word, share in shares.items() if share]
    if finite.any():
        low, high, means = (numbers[name][finite] for name in ("min", "max", "mean"))
        weights = 1 - sum(numbers[name][finite] for name in _NOT_FINITE)
        mean = np.average(means, weights=weights)
        if size == 1 and len(low) == 1:
            said = [f"{mean:.4g}"]
        elif low.min() == high.max():
            said = [f"all {low[0]:.4g}"]
        else:
            said = [f"{low.min():.4g} … {high.max():.4g}", f"mean {mean:.4g}"]
        words = [*said, *words]
    elif len(words) == 1 and size == 1:
        return words[0].removeprefix("100% ")
    return ", ".join(words)
