"""Find the operands that the branches of a choice share."""

from collections.abc import Iterator, Sequence

from taxpr import introspect
from taxpr_jupyter._tree.tree import Block, End


def shared_operands(blocks: Sequence[tuple[Block, introspect.Nested]]) -> list[list[int]]:
    """The numbers of the operands of all branches: those together that share a node in one."""
    groups: list[list[int]] = []
    for block, nested in blocks:
        for end in _closed(block.ins):
            found = {k for i in end.indices if (k := nested.operands[i]) is not None}
            touched = [group for group in groups if not found.isdisjoint(group)]
            if found:
                groups = [group for group in groups if group not in touched]
                groups.append(sorted(found.union(*touched)))
    return sorted(groups)


def _closed(ends: Sequence[End]) -> Iterator[End]:
    """Inputs that have a node each."""
    for end in ends:
        if end.open:
            yield from _closed(end.children)
        else:
            yield end
