"""Which inputs, and which outputs, of a jaxpr share a node: those of one argument, or one role."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from taxpr_jupyter._picture._labels import path_parts, shared_title
from taxpr_jupyter._picture._stateful import StateEnds
from taxpr_jupyter._picture._tree import End

_FEW = 12  # so many are drawn one by one
_SMALL = 4  # and always those of an argument that has no more
MANY = 40  # side by side, at most


def ends_of(
    names: Sequence[str], word: str, prefix: str, states: Sequence[StateEnds] = ()
) -> list[End]:
    """The ends of a jaxpr, in order.

    Args:
        names: The names of all inputs, such as `params['w'][0]`, or in a nested jaxpr their roles.
        word: "in" or "out".
        prefix: What stands before the addresses.
        states: What enters or leaves as the value of a state: one end for each.
    """
    paths = [path_parts(name) for name in names]
    for state in states:  # its name may look like a path
        for i, leaf in zip(state.ins if word == "in" else state.outs, state.leaves, strict=True):
            paths[i] = [state.name, *path_parts(leaf[len(state.name) :])]

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
            made.append(several(part, inside(part, depth + 1)))
        return chunks(made)

    def inside(indices: range, depth: int) -> list[End]:
        """What an end of these consists of: not of one that is the same."""
        children = split(indices, depth)
        while len(children) == 1 and children[0].children:
            children = list(children[0].children)
        return children

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

    def others(indices: range) -> list[End]:
        if len(indices) <= _FEW:
            return [one(i) for i in indices]
        made = split(indices, 0)
        # The only argument: its parts, unless they are many.
        while len(made) == 1 and 0 < len(made[0].children) <= _FEW:
            made = list(made[0].children)
        return made

    made, at = [], 0
    for state in states:
        indices = state.ins if word == "in" else state.outs
        made += others(range(at, indices.start))
        at = indices.stop
        if len(indices) > 1:
            made.append(several(indices, inside(indices, 1)))
            made[-1].title = state.name
        elif indices:
            made.append(one(indices[0]))
        for end in made[-1:] if indices else ():
            _mark(end, state)
    return made + others(range(at, len(names)))


def _mark(end: End, state: StateEnds) -> None:
    """Says of an end, and of all in it, that it is the value of a state."""
    end.state = state
    for child in end.children:
        _mark(child, state)
