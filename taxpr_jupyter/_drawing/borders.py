"""Draw the inputs, constants and outputs of a jaxpr."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from taxpr import introspect
from taxpr_jupyter._drawing import state_nodes
from taxpr_jupyter._drawing.canvas import Canvas
from taxpr_jupyter._drawing.folded import Folded
from taxpr_jupyter._drawing.scope import Origin, Scope
from taxpr_jupyter._model.kinds import NodeKind
from taxpr_jupyter._model.model import Cluster, CodeLine, Node, count_of
from taxpr_jupyter._text import paths, short, titles
from taxpr_jupyter._text.paths import path_parts
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.tree import Block, BlockEnd


@dataclass(frozen=True)
class DrawnEnds:
    """The ends of a drawn jaxpr.

    Attributes:
        first: The id of some node in it.
        ins: The id of each input's node; "" of those that are not drawn.
        outs: The origin of each output.
    """

    first: str
    ins: Sequence[str]
    outs: Sequence[Origin]


@dataclass(frozen=True)
class DrawnInputs:
    """How the inputs of a nested jaxpr are drawn.

    Attributes:
        without: The inputs that are not drawn.
        given: The origins of these, if something uses them.
        again: The names of the others, if another node shows the same already.
    """

    without: Set[int] = frozenset()
    given: Mapping[int, Origin] = field(default_factory=dict[int, Origin])
    again: Mapping[int, str] = field(default_factory=dict[int, str])


SEEN = DrawnInputs()
# Draws what stands below the inputs of a jaxpr; gets its values and the ids of its inputs.
Then = Callable[[Scope, Sequence[str]], None]


class Borders:
    """Draws the inputs, constants and outputs of jaxprs.

    Attributes:
        unfolded: Addresses of open bundles of inputs, outputs or constants.
        foldable: Addresses of all bundles, open or not.
        hidden: The addresses of the ends that share a node, by its address.
    """

    def __init__(self, canvas: Canvas, folded: Folded):
        self._canvas = canvas
        self._folded = folded
        self._tips = folded.tips
        self.unfolded: set[str] = set()
        self.foldable: set[str] = set()
        self.hidden: dict[str, tuple[str, ...]] = {}

    def consts(
        self, scope: Scope, block: Block, values: Sequence[Any], cluster: str | None
    ) -> None:
        """Draw the constants."""
        # Some equations have operands for their constvars. Then the values are unknown.
        variables, names = block.jaxpr.constvars, block.const_names
        known = dict(zip(variables, values, strict=False))
        for end, around in self._shown(block.consts, "const", cluster, {*range(len(variables))}):
            node = self._end("const", block, end, list(end.indices), names, around)
            if not end.children:
                var = variables[end.indices[0]]
                value = short.scalar_text(known.get(var)) or self._tips.label_type(var)
                words = "const", labels.short_path(names[end.indices[0]]), value
                told = short.value_lines(known.get(var)) if names[end.indices[0]] else []
                lines = (" ".join(filter(None, words)), *map(CodeLine, told))
                node = replace(node, lines=lines)
            self._canvas.add(node, merging=bool(end.children))
            if not any(names[i] for i in end.indices):
                self._canvas.nameless(node)
            scope.bundled[node.id] = [names[i] for i in end.indices]
            for i, origin in zip(end.indices, self._folded.inputs(block, end, node), strict=True):
                scope.define(variables[i], origin)

    def inputs(
        self, scope: Scope, block: Block, cluster: str | None, seen: DrawnInputs
    ) -> list[str]:
        """Draw the inputs, states outside of the cluster.

        Returns:
            The id of each one's node; "" of those that are not drawn.
        """
        without = seen.without
        names = [seen.again.get(i, name) for i, name in enumerate(block.names.ins)]
        ids = [""] * len(block.jaxpr.invars)
        wanted = {*range(len(ids))} - without
        for end, around in self._shown(block.ins, "input", cluster, wanted):
            kind: NodeKind = "state" if end.state else "input"
            node = self._end(kind, block, end, list(end.indices), names, around)
            if seen.again:
                node = replace(node, marks=(*node.marks, "again"))
            node = _unused(block, end, node) if not seen.again else node
            drawn = not (seen.again and end.children) or _is_handed_on(block, end)
            if drawn:
                self._canvas.add(node, merging=bool(end.children))
            else:  # all uses have a stub
                self._canvas.bundle(node)
                scope.repeated.add(node.id)
                del self.hidden[end.address]
            scope.bundled[node.id] = [block.names.ins[i] for i in end.indices]
            for i, origin in zip(end.indices, self._folded.inputs(block, end, node), strict=True):
                ids[i] = node.id if drawn else ""
                scope.define(block.jaxpr.invars[i], origin)
        for i, origin in seen.given.items():
            scope.define(block.jaxpr.invars[i], origin)
        return ids

    def outputs(
        self,
        scope: Scope,
        block: Block,
        own: Sequence[bool],
        cluster: str | None,
    ) -> list[Origin]:
        """Draw the outputs with a node of their own (`own`). Returns the origin of each output."""
        atoms, names = block.jaxpr.outvars, block.names.outs
        origins: dict[int, Origin] = {}
        wanted = {j for j, is_own in enumerate(own) if is_own}
        for end, around in self._shown(block.outs, "output", cluster, wanted):
            indices = [j for j in end.indices if own[j]]
            node = self._end("output", block, end, indices, names, around)
            if block.nested is None and not end.rest:
                held = self._returned(scope, atoms, indices, around)
                lines = labels.returned_lines(node.lines, [names[j] for j in indices], held)
                parts = _parts(held) if end.children else ()
                node = replace(node, lines=(*lines, *parts))
            self._canvas.add(node, merging=bool(end.children))
            for j in indices:
                scope.use(atoms[j], node.id, node.id, around, name=names[j])
                origins[j] = Origin(node.id, "", self._tips.value(atoms[j]))
        for j, atom in enumerate(atoms):
            if not own[j] and introspect.is_literal(atom):
                origins[j] = self._canvas.output_literal(block.address / f"out{j}", atom, cluster)
            elif not own[j]:
                origins[j] = scope.called_inside(atom, cluster)
        return [origins[j] for j in sorted(origins)]

    @staticmethod
    def _returned(
        scope: Scope, atoms: Sequence[Any], indices: Sequence[int], cluster: str | None
    ) -> list[str]:
        """The variables of some outputs; "" if another output has the same.

        Then the variable has another value at the end, as in ``b = a; a = jnp.cos(a)``.
        """
        values = {atom for atom in atoms if not introspect.is_literal(atom)}
        times = Counter(scope.held_of(atom, cluster) for atom in values)
        held = (scope.held_of(atoms[j], cluster) for j in indices)
        return [name if times[name] == 1 else "" for name in held]

    def _shown(
        self, ends: Sequence[BlockEnd], kind: NodeKind, cluster: str | None, wanted: Set[int]
    ) -> Iterator[tuple[BlockEnd, str | None]]:
        """The inputs or outputs with a node, and the cluster around it. Draws these clusters.

        Only inputs or outputs with wanted parts.
        """
        for end in ends:
            if wanted.isdisjoint(end.indices):
                continue
            if end.state and kind == "output":  # it has no node: see `state_nodes`
                continue
            around = None if end.state and cluster == state_nodes.FUNCTION else cluster
            if end.children:
                self.foldable.add(end.address)
            if not end.open:
                yield end, around
                continue
            self.unfolded.add(end.address)
            title = labels.state_title(end, ()) if end.state else end.title
            title = short.shortened(title, 2 * short.LINE)
            tip = short.tooltip([end.address, f"{title}: {count_of(len(end.indices), kind)}"])
            self._canvas.clusters.append(
                Cluster(end.address, "group", (title,), tip, around, end.address)
            )
            yield from self._shown(end.children, kind, end.address, wanted)

    def _end(
        self,
        kind: NodeKind,
        block: Block,
        end: BlockEnd,
        indices: Sequence[int],
        names: Sequence[str],
        cluster: str | None,
    ) -> Node:
        """The node of an input or output, or of several that share one."""
        nested, jaxpr = block.nested, block.jaxpr
        roles: Sequence[str] | None = None
        if kind == "const":
            atoms = jaxpr.constvars
        elif kind == "output":
            atoms, roles = jaxpr.outvars, nested.out_roles if nested else None
        else:
            atoms, roles = jaxpr.invars, nested.in_roles if nested else None
        if end.children:
            lines, marks = labels.bundle_lines(end.title, [names[i] for i in indices]), ("many",)
            if end.rest:
                lines, marks = [f"… {lines[1]}", lines[0]], ("many", "rest")
            shown = {*indices}
            every = zip(end.indices, end.addresses, strict=True)
            self.hidden[end.address] = tuple(address for i, address in every if i in shown)
        else:
            role = roles[end.indices[0]] if roles else None
            name = names[end.indices[0]]
            # Each device has a part, or types were not yet compared with those outside.
            own = nested is not None and not {"in_specs", "unfinished"}.isdisjoint(nested.facts)
            lines = labels.end_lines(name, role, self._tips.label_type(atoms[end.indices[0]]), own)
            marks = ("choice",) if role == "predicate" else ()
        if kind == "input" and (only := _hands_on(block, end, names)):
            lines = [only]
        about: list[str] = [end.address]
        if end.state:
            lines = state_nodes.lines_of(end, block, names, self._tips.label_type)
            marks = (*marks, *state_nodes.marks_of(end))
            about.append(state_nodes.use_of(end))
            finals = self.hidden.get(end.address, ()), end.finals
            self.hidden[end.address] = tuple(itertools.chain(*finals))

        def line(one: str | int) -> str:
            if isinstance(one, str):
                return one
            shown = " = ".join(filter(None, (names[one], self._tips.value(atoms[one]))))
            return f"{shown}, a constant" if kind == "const" else shown

        tip = short.tooltip([*about, *indices], line)
        fold = end.address if end.children else None
        return Node(end.address, end.address, kind, tuple(lines), tip, cluster, marks, fold)


def _parts(held: Sequence[str]) -> Sequence[str]:
    """The variables whose parts share a node, each with its number of arrays: `params 8, loss`.

    Args:
        held: The variable, or the part of one, that holds each array; "" if it is unknown.
    """
    roots = Counter(path_parts(name)[0] for name in held) if all(held) else {}
    if len(roots) < 2:
        return ()
    texts = [f"{name} {count}" if count > 1 else name for name, count in roots.items()]
    return titles.list_lines(", ".join(texts))


def _hands_on(block: Block, end: BlockEnd, names: Sequence[str]) -> str:
    """The text for a branch that only returns some of its inputs, or ""."""
    if block.nested is None or not block.nested.label.startswith("branch"):
        return ""
    graph, ins = block.flow.graph, block.jaxpr.invars
    if any(not introspect.is_tag(eqn) for eqn in graph.eqns):
        return ""
    used = [names[i] for i in end.indices if graph.taken.get(ins[i])]
    return labels.short_path(f"hands {paths.shared_title(used)} on") if used else ""


def _unused(block: Block, end: BlockEnd, node: Node) -> Node:
    """The node of arguments, which says how many of them lead only to unused results."""
    used, roles = _needed(block), block.nested.in_roles if block.nested else None
    unused = [
        i
        for i in end.indices
        if block.jaxpr.invars[i] not in used and (roles is None or roles[i] == "arg")
    ]
    if not unused or end.state:
        return node
    if len(unused) == len(end.indices):
        lines = titles.signed(node.lines, 1, ["unused"])
        return replace(node, lines=lines, marks=(*node.marks, "unused"))
    some = labels.short_path(block.names.ins[unused[0]]) if len(unused) == 1 else len(unused)
    return replace(node, lines=(*node.lines, f"{some} unused"))


def _needed(block: Block) -> Set[Any]:
    """The values of a jaxpr that used results depend on."""
    needed = block.flow.graph.needed
    for inner, nested in block.items[0].blocks if len(block.items) == 1 else ():
        if inner.all_of_it:  # which has no inputs of its own to say it
            eqn, graph = block.items[0].eqn, inner.flow.graph
            ends = zip(inner.jaxpr.invars, nested.operands, strict=True)
            taken = [eqn.invars[k] for var, k in ends if k is not None and var in graph.needed]
            atoms = [*taken, *block.jaxpr.outvars]
            return {atom for atom in atoms if not introspect.is_literal(atom)}
    return needed


def _is_handed_on(block: Block, end: BlockEnd) -> bool:
    """Whether some of these inputs are tagged or returned as they are."""
    graph = block.flow.graph
    used = {at for i in end.indices for at in graph.used.get(block.jaxpr.invars[i], ())}
    return any(at == len(graph.eqns) or introspect.is_tag(graph.eqns[at]) for at in used)
