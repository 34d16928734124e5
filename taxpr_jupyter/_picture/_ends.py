"""Which inputs, and which outputs, of a jaxpr share a node: those of one argument, or one role."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from taxpr_jupyter._picture._labels import path_parts, shared_title
from taxpr_jupyter._picture._tree import End

_FEW = 12  # so many are drawn one by one
_SMALL = 4  # and always those of an argument that has no more
MANY = 40  # side by side, at most


def ends_of(names: Sequence[str], word: str, prefix: str) -> list[End]:
    """The ends of a jaxpr, in order.

    Args:
        names: The names of all inputs, such as `params['w'][0]`, or in a nested jaxpr their roles.
        word: "in" or "out".
        prefix: What stands before the addresses.
    """
    paths = [path_parts(name) for name in names]

    def one(i: int) -> End:
        return End(f"{prefix}{word}{i}", range(i, i + 1))

    def several(indices: range, children: Sequence[End]) -> End:
        address = f"{prefix}group:{word}{indices[0]}-{indices[-1]}"
        return End(address, indices, shared_title([names[i] for i in indices]), children)

    def split(indices: range, depth: int) -> list[End]:
        """By what stands at this depth of the names."""
        if depth >= max(len(paths[i]) for i in indices):
            return chunks([one(i) for i in indices])
        made = []
        for _, found in itertools.groupby(indices, lambda i: paths[i][: depth + 1]):
            same = list(found)
            part = range(same[0], same[-1] + 1)
            if len(part) <= _SMALL:
                made += map(one, part)
                continue
            children = split(part, depth + 1)
            while len(children) == 1 and children[0].children:
                children = list(children[0].children)
            made.append(several(part, children))
        return chunks(made)

    def chunks(ends: list[End]) -> list[End]:
        """Not too many side by side."""
        if len(ends) <= MANY:
            return ends
        size = -(-len(ends) // MANY)
        parts = [ends[i : i + size] for i in range(0, len(ends), size)]
        return [
            several(range(part[0].indices[0], part[-1].indices[-1] + 1), part)
            if len(part) > 1
            else part[0]
            for part in parts
        ]

    if len(names) <= _FEW:
        return [one(i) for i in range(len(names))]
    made = split(range(len(names)), 0)
    # The only argument: its parts, unless they are many.
    while len(made) == 1 and 0 < len(made[0].children) <= _FEW:
        made = list(made[0].children)
    return made
