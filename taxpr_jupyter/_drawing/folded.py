"""What a closed group or bundle of inputs shows, written once for all drawings of a program."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from taxpr_jupyter._analysis.by_identity import ByIdentity
from taxpr_jupyter._analysis.liveness import Ends
from taxpr_jupyter._analysis.sizes import Size
from taxpr_jupyter._drawing.scope import Origin
from taxpr_jupyter._model.model import Node, NodeKind
from taxpr_jupyter._text import short
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.tree import Block, End, Item


class Group(NamedTuple):
    """A closed group.

    Attributes:
        lines: Its label.
        tooltip: Its tooltip.
        outs: The origins of what leaves it, by the variable.
    """

    lines: tuple[str, ...]
    tooltip: str
    outs: Mapping[Any, Origin]


class Folded:
    """Writes closed groups and bundles, which may have thousands of values, once.

    Args:
        tips: Writes tooltips.
    """

    def __init__(self, tips: short.Tooltips) -> None:
        self.tips = tips
        self._groups: ByIdentity[Group] = ByIdentity()
        self._inputs: ByIdentity[Sequence[Origin]] = ByIdentity()

    def group(self, item: Item, size: Size, ends: Ends) -> Group:
        """A closed group that holds so much, with what goes into and out of it."""

        def written(item: Item) -> Group:
            if item.kind == "rest":
                lines = [f"… {labels.content(size)}", item.title]
            else:
                lines = labels.group_lines(item, size, ends.results)
            outs = {
                var: Origin(item.address, value, self.tips.value(var)) for value, var in ends.outs
            }
            return Group(tuple(lines), short.tooltip([item.address, *lines]), outs)

        return self._groups.of(item, written)

    def inputs(self, block: Block, end: End, node: Node) -> Sequence[Origin]:
        """The origins of inputs that share a node, or of one."""
        if not end.children:
            return self._written(block, end, node)
        return self._inputs.of(end, lambda end: self._written(block, end, node))

    def _written(self, block: Block, end: End, node: Node) -> Sequence[Origin]:
        names, kind = block.names.ins, node.kind
        return [
            self._origin(block, i, names[i], kind, node, bool(end.children)) for i in end.indices
        ]

    def _origin(
        self, block: Block, i: int, name: str, kind: NodeKind, node: Node, shared: bool
    ) -> Origin:
        value = block.address / f"in{i}"
        if shared:
            stub = Node(value, value, kind, (labels.short_path(name),), f"{value}\n{name}", None)
        else:
            stub = node
        shown = f"{name} = {self.tips.value(block.jaxpr.invars[i])}"
        return Origin(node.id, value, shown, stub=stub, name=name)
