"""Draws where values enter and leave a jaxpr: inputs, constants, outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import taxpr
from taxpr_jupyter._picture import _labels, _text
from taxpr_jupyter._picture._canvas import Canvas, Origin, Scope
from taxpr_jupyter._picture._fold import Block
from taxpr_jupyter._picture._model import Node, NodeKind


class Borders:
    """Draws the borders of jaxprs.

    Args:
        canvas: Where to draw.
        tooltips: Writes tooltips.
    """

    def __init__(self, canvas: Canvas, tooltips: _text.Tooltips):
        self._canvas = canvas
        self._tips = tooltips

    def consts(
        self, scope: Scope, block: Block, values: Sequence[Any], cluster: str | None
    ) -> None:
        """Draws the constants."""
        # Operands of some equations enter as constvars; then there are no values.
        known = dict(zip(block.jaxpr.constvars, values, strict=False))
        for i, var in enumerate(block.jaxpr.constvars):
            address, shown = f"{block.prefix}const{i}", self._tips.value(var)
            label = f"const {_text.scalar_text(known.get(var)) or _text.aval_text(var.aval)}"
            tip = _text.tooltip([address, f"{shown}, a constant"])
            node = self._canvas.add(Node(address, address, "const", (label,), tip, cluster))
            scope.define(var, Origin(address, address, shown, stub=node))

    def inputs(
        self, scope: Scope, block: Block, names: Sequence[str], cluster: str | None
    ) -> list[str]:
        """Draws the inputs; returns for each the id of its node."""
        ids: list[str] = []
        for bundle in block.ins:
            node = self._end("input", block, bundle, names, cluster)
            for i in bundle:
                var, value = block.jaxpr.invars[i], f"{block.prefix}in{i}"
                stub = node
                if len(bundle) > 1:
                    lines, tip = (_text.shortened(names[i], _text.LINE),), f"{value}\n{names[i]}"
                    stub = Node(value, value, "input", lines, tip, cluster)
                scope.define(var, Origin(node.id, value, self._tips.value(var), stub=stub))
                ids.append(node.id)
        return ids

    def outputs(
        self,
        scope: Scope,
        block: Block,
        names: Sequence[str],
        own: Sequence[bool],
        cluster: str | None,
    ) -> list[Origin]:
        """Draws the outputs that are to have a node of their own; returns where each comes from."""
        atoms = block.jaxpr.outvars
        origins: dict[int, Origin] = {}
        for bundle in block.outs:
            indices = [j for j in bundle if own[j]]
            if not indices:
                continue
            node = self._end("output", block, indices, names, cluster)
            for j in indices:
                scope.use(atoms[j], node.id, node.id, cluster)
                origins[j] = Origin(node.id, "", self._tips.value(atoms[j]))
        for j, atom in enumerate(atoms):
            if own[j]:
                continue
            if taxpr.is_literal(atom):
                address, text = f"{block.prefix}out{j}", _text.literal_text(atom)
                tip = _text.tooltip([address, f"{text}:{_text.aval_text(atom.aval)}"])
                self._canvas.add(Node(address, address, "literal", (text,), tip, cluster))
                origins[j] = Origin(address, "", text)
            else:
                origins[j] = scope.origins[atom]
        return [origins[j] for j in range(len(atoms))]

    def _end(
        self,
        kind: NodeKind,
        block: Block,
        indices: Sequence[int],
        names: Sequence[str],
        cluster: str | None,
    ) -> Node:
        """Adds the node of an input or output, or of several that share one."""
        nested, jaxpr = block.nested, block.jaxpr
        if kind == "input":
            word, atoms, roles = "in", jaxpr.invars, nested.in_roles if nested else None
        else:
            word, atoms, roles = "out", jaxpr.outvars, nested.out_roles if nested else None
        first, last = indices[0], indices[-1]
        values = [f"{names[i]} = {self._tips.value(atoms[i])}" for i in indices]
        if first != last:
            address = f"{block.prefix}group:{word}{first}-{last}"
            lines, marks = _labels.bundle_lines([names[i] for i in indices]), ("many",)
        else:
            address, role = f"{block.prefix}{word}{first}", roles[first] if roles else None
            lines = _labels.end_lines(names[first], role, atoms[first].aval)
            marks = ("choice",) if role == "predicate" else ()
        tip = _text.tooltip([address, *values])
        node = Node(address, address, kind, tuple(lines), tip, cluster, marks)
        return self._canvas.add(node, merging=first != last)
