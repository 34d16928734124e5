"""Number equations by their operands and their users, as value numbering of compilers."""

from collections.abc import Sequence

from taxpr_jupyter._analysis.def_use import INPUT, LITERAL, Source
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._diff.pairing import Pairs
from taxpr_jupyter._diff.seen import HashedGraph


def ups(
    flow: HashedGraph, own: Sequence[int], ends: tuple[Pairs, Pairs], after: bool, keys: Keys
) -> list[int]:
    """The "up" number of each equation: it and everything that feeds it.

    The equations themselves have ``own`` numbers; ``ends`` are pairs of inputs, and of constants.
    """
    # Partners on both sides share the index of the one before.
    partners = [{(b if after else a): a for a, b in pairs.items()} for pairs in ends]
    found: list[int] = []

    def of(source: Source) -> tuple[object, ...]:
        kind, k = source
        if kind >= 0:
            return found[kind], k
        if kind == LITERAL:
            return source
        shared = partners[kind != INPUT].get(k)
        return (kind, shared) if shared is not None else (kind, after, k)

    for i, sources in enumerate(flow.operands):
        found.append(keys.number(("up", own[i], tuple(map(of, sources)))))
    return found


def downs(flow: HashedGraph, own: Sequence[int], outs: Pairs, keys: Keys) -> list[int]:
    """The "down" number of each equation: it and everything that it feeds.

    ``outs`` has a number that both sides share for each output with a partner.
    """
    found = [0] * len(flow.eqns)
    for i in range(len(flow.eqns) - 1, -1, -1):
        if flow.skip[i]:
            continue
        users = []
        for k in range(flow.results(i)):
            # Include the operand position, so that `a - b` differs from `b - a`.
            uses = sorted((found[j], p) for j, p in flow.uses.get((i, k), ()))
            ends = sorted(outs.get(o, -2 - o) for o in flow.ends.get((i, k), ()))
            users.append((tuple(uses), tuple(ends)))
        found[i] = keys.number(("down", own[i], tuple(users)))
    return found
