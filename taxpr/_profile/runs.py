"""Run a compiled call under JAX's profiler, and see when its kernels ran."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from taxpr import _compat
from taxpr._answers.progress import Progress
from taxpr._compat import Array
from taxpr._compiled.compile_call import CompiledCall
from taxpr._compiled.exhausted import saying_what_is_exhausted
from taxpr._profile.timeline import Span, shares, spans
from taxpr._untyped import jax as _jax

_RUN = "taxpr.profile"  # the event around a run


@dataclasses.dataclass(frozen=True)
class ProfiledRun:
    """A run that was measured.

    Attributes:
        wall: How long it took, in seconds, until all results were there.
        kernels: The seconds of each kernel, by the name of its instruction.
        counts: How often each kernel ran.
        begin: When it began, in nanoseconds.
        spans: The times of kernels.
    """

    wall: float
    kernels: Mapping[str, float]
    counts: Mapping[str, int]
    begin: float
    spans: Sequence[Span]

    def seconds(self, names: Iterable[str]) -> float:
        """How long some kernels took, by their names."""
        return sum(self.kernels.get(name, 0.0) for name in names)


def runs_of(
    call: CompiledCall, flat: Sequence[Array], steps: Progress, runs: int
) -> list[ProfiledRun]:
    """Run a compiled call several times under the profiler, after a run that is not measured.

    Args:
        call: The call.
        flat: Its flat inputs. Each run gets a copy of donated ones.
        steps: Counts the runs, and may stop them.
        runs: How often it is run.

    Raises:
        RefusedError: If there is no profiler, or another profile is running.
    """
    with saying_what_is_exhausted(call.program.name, "running"):
        _jax.block_until_ready(call.executable(*_own(call, flat)))
    with _compat.profiling() as events, steps:
        for _ in steps.over(range(runs)):
            given = _jax.block_until_ready(_own(call, flat))
            with _compat.marked(_RUN):
                _jax.block_until_ready(call.executable(*given))
    every = events()
    module = call.text.partition(",")[0].removeprefix("HloModule ").strip()
    found = spans(call.hlo, [one for one in every if one.module in (module, "")])
    return [_run(found, one.begin, one.end) for one in every if one.name == _RUN]


def _own(call: CompiledCall, flat: Sequence[Array]) -> list[Array]:
    return [_jax.numpy.copy(x) if k in call.donated else x for k, x in enumerate(flat)]


def _run(found: Sequence[Span], begin: float, end: float) -> ProfiledRun:
    within = [one for one in found if begin <= one.begin < end]
    kernels = {name: time * 1e-9 for name, time in shares(within, begin, end).items()}
    counts = collections.Counter(one.kernel for one in within)
    return ProfiledRun((end - begin) * 1e-9, kernels, counts, begin, within)
