"""Find the equations of two jaxprs that have no partners yet, between those that have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


def gaps(
    partner: Sequence[int], back: Sequence[int], skip: Sequence[bool], skip_after: Sequence[bool]
) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of unpaired equations, each with the run between the partners of its neighbours.

    The caller may pair equations of a run between two steps.

    Args:
        partner: For each equation before the index of its partner, or -1.
        back: The same for those after.
        skip: Which equations before take no part.
        skip_after: The same for those after.
    """
    here, there = _runs(partner, skip), _runs(back, skip_after)
    after_it = {run.left: run for run in there}
    before_it = {run.right: run for run in there}
    for run in here:
        left = -1 if run.left < 0 else partner[run.left]
        right = len(back) if run.right >= len(partner) else partner[run.right]
        follows, precedes = after_it.get(left), before_it.get(right)
        if follows is not None:
            yield run.eqns, follows.eqns
        if precedes is not None and precedes is not follows:
            # The caller has paired some equations of the first yield.
            ours = [i for i in run.eqns if partner[i] < 0]
            yield ours, [j for j in precedes.eqns if back[j] < 0]


@dataclass
class _GapRun:
    """Adjacent equations without partners, and the paired neighbours on the left and right."""

    left: int
    right: int = -1
    eqns: list[int] = field(default_factory=list)


def _runs(partner: Sequence[int], skip: Sequence[bool]) -> list[_GapRun]:
    runs = [_GapRun(-1)]
    for i, other in enumerate(partner):
        if skip[i]:
            continue
        if other < 0:
            runs[-1].eqns.append(i)
            continue
        runs[-1].right = i
        runs.append(_GapRun(i))
    runs[-1].right = len(partner)
    return runs
