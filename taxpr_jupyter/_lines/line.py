"""A program as a sequence of `ProgramLine`, folded as its picture is, for all texts."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.sizes import Size
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._model.model import UNMARKED, Marked, count_of
from taxpr_jupyter._text import short
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.fold import Fold
from taxpr_jupyter._tree.grow import Tree
from taxpr_jupyter._tree.tree import Block, BlockEnd, Item

LineKind = Literal[
    "eqn",  # an equation without nested jaxprs
    "hop",  # one with nested jaxprs
    "tag",
    "injected",  # a tag with an injector
    "group",  # equations that belong together
    "jaxpr",  # the head of a nested jaxpr
    "input",
    "output",
    "const",
]


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """One line of a program. The content of an open line follows with greater depth.

    Attributes:
        address: The address of the element.
        depth: The nesting depth; 0 for the equations of the program itself.
        kind: One of `LineKind`.
        text: The title: `mul`, `scan ×5`, the title of a group, or the name or role of an input
            or output.
        name: The primitive of an equation, or the param of a nested jaxpr.
        params: The params that fit into a line, such as `axes=(0,)`.
        made: The results, or the value itself, such as `h:f32[3]`.
        used: The operands: letters, and literals such as `2.0:f32[]`.
        types: The types of the results, shortened.
        note: A short note, such as the number of equations inside.
        held: The variables of the source that held the results of an equation, or "". For an
            equation that failed: its operands, its place, and the error.
        marks: Flags for the style: "added" (a tag that was added interactively), "many" (several
            inputs or outputs), "state" (they belong to a state), "backward" (part of the backward
            pass).
        fold: The address to fold or unfold, if possible.
        open: Whether its content follows.
        hidden: The number of other equations and tags folded into it.
    """

    address: str
    depth: int
    kind: LineKind
    text: str
    name: str = ""
    params: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    types: str = ""
    note: str = ""
    marks: tuple[str, ...] = ()
    fold: str | None = None
    open: bool = False
    hidden: int = 0
    held: str = ""


class ProgramLines:
    """Turns a program into lines.

    Args:
        names: The letters of values.
        fold: Counts equations. Without it, lines have no counts.
        marked: The tags that look different.
    """

    def __init__(
        self,
        names: short.Tooltips,
        fold: Fold | None = None,
        marked: Marked = UNMARKED,
    ) -> None:
        self._fold = fold
        self._names = names
        self._marked = marked

    def folded(self, root: Block, program: taxpr.Program) -> Iterator[ProgramLine]:
        """The lines of the tree of a program, as it is folded."""
        return self._block(root, program.consts, 0)

    def all(self, program: taxpr.Program, limit: int | None = None) -> Iterator[ProgramLine]:
        """Every equation of a program, without groups; at most `limit` lines."""
        tree = Tree(None, Keys(), limit=limit)
        return itertools.islice(self.folded(tree.open(tree.root(program)), program), limit)

    # --- jaxprs -----------------------------------------------------------------------------------

    def _nested(
        self, block: Block, nested: introspect.Nested, fold: str, depth: int
    ) -> Iterator[ProgramLine]:
        title, *facts = labels.block_lines(nested)
        facts += [labels.content(self._fold.sizes.of_jaxpr(nested.jaxpr))] if self._fold else []
        param = nested.param or (nested.label,)
        yield ProgramLine(
            block.address,
            depth,
            "jaxpr",
            title,
            name=str(param[0]) + "".join(f"[{part}]" for part in param[1:]),
            note=" · ".join(facts),
            fold=fold,
            open=True,
        )
        yield from self._block(block, nested.consts, depth + 1)

    def _block(self, block: Block, consts: Sequence[Any], depth: int) -> Iterator[ProgramLine]:
        # Some equations have operands for their constvars. Then the values are unknown.
        known = dict(zip(block.jaxpr.constvars, consts, strict=False))
        variables = block.jaxpr.constvars
        held = [
            " ".join(filter(None, ("const", name, short.scalar_text(known.get(var)))))
            for name, var in zip(block.const_names, variables, strict=True)
        ]
        for end in block.consts:
            yield from self._end(block, end, "const", held, variables, depth)
        for end in block.ins:
            yield from self._end(block, end, "input", block.names.ins, block.jaxpr.invars, depth)
        yield from self._items(block, block.items, depth)
        for end in block.outs:
            yield from self._end(block, end, "output", block.names.outs, block.jaxpr.outvars, depth)

    def _end(
        self,
        block: Block,
        end: BlockEnd,
        kind: Literal["input", "output", "const"],
        names: Sequence[str],
        atoms: Sequence[Any],
        depth: int,
    ) -> Iterator[ProgramLine]:
        """An input or output; several folded into one line; or a head line and each of them."""
        if not end.children:
            k = end.indices[0]
            name = short.visible(names[k])
            yield _of_state(self._end_line(end.address, depth, kind, name, atoms[k]), end)
            return
        several = [atoms[k] for k in end.indices]
        line = ProgramLine(
            end.address,
            depth,
            kind,
            short.visible(end.title),
            made=tuple(self._names.typed(a) for a in several) if kind != "output" else (),
            used=tuple(self._names.operand(a) for a in several) if kind == "output" else (),
            note=count_of(len(several), "array"),
            types=short.types_text(several, self._names.type),
            marks=("many",),
            # The final value of a state folds together with the state.
            fold=None if end.state and kind == "output" else end.address,
            open=end.open,
        )
        yield _of_state(line, end)
        if end.open:
            for child in end.children:
                yield from self._end(block, child, kind, names, atoms, depth + 1)

    def _end_line(
        self, address: str, depth: int, kind: Literal["input", "output", "const"], text: str, a: Any
    ) -> ProgramLine:
        made = () if kind == "output" else (self._names.typed(a),)
        used = (self._names.operand(a),) if kind == "output" else ()
        types = self._names.type(a)
        return ProgramLine(address, depth, kind, text, made=made, used=used, types=types)

    # --- equations --------------------------------------------------------------------------------

    def _items(self, block: Block, items: Sequence[Item], depth: int) -> Iterator[ProgramLine]:
        for item in items:
            if item.is_group:
                yield from self._group(block, item, depth)
                continue
            yield self._eqn(item, depth)
            if item.open:
                for inner, nested in item.blocks:
                    yield from self._nested(inner, nested, item.address, depth + 1)

    def _group(self, block: Block, item: Item, depth: int) -> Iterator[ProgramLine]:
        size = self._fold.of_item(item) if self._fold else Size()
        ends = block.flow.ends(item.eqns, item.stop, [tag.eqn for tag in item.tags])
        own = {var for tag in item.tags for var in tag.eqn.outvars}  # shown in later lines
        yield ProgramLine(
            item.address,
            depth,
            "group",
            labels.group_title(item),
            made=tuple(self._names.typed(var) for _, var in ends.outs),
            used=tuple(self._names.operand(var) for var in ends.ins if var not in own),
            types=short.types_text(ends.results, self._names.type),
            note=labels.content(size),
            marks=_marks(item),
            fold=item.address,
            open=item.open,
            hidden=0 if item.open else size.total,
        )
        if item.open:
            yield from self._items(block, item.children, depth + 1)
        else:
            yield from self._items(block, item.tags, depth)

    def _eqn(self, item: Item, depth: int) -> ProgramLine:
        address, eqn = item.address, item.eqn
        name = short.visible(eqn.primitive.name)
        kind: LineKind = "eqn"
        text, note, marks, fold, hidden = name, "", _marks(item), None, 0
        params, held = labels.param_texts(eqn), self._names.results(address, eqn)
        if failure := introspect.failure_of(eqn):
            name = text = labels.failure_lines(failure)[0]
            params, held, marks = [], self._names.failed(failure), (*marks, "failed")
        if introspect.is_tag(eqn):
            kind = "injected" if address in self._marked.injected else "tag"
            marks += ("added",) if address in self._marked.added else ()
            text, name = labels.tag_lines(eqn)[0], "tag"
        elif introspect.is_hop(eqn):
            kind, fold, text = "hop", address, name if failure else labels.hop_title(eqn)
            if self._fold:
                inside = self._fold.sizes.inside(eqn)
                note, hidden = labels.content(inside), 0 if item.open else inside.total
        return ProgramLine(
            address,
            depth,
            kind,
            text,
            name=name,
            params=tuple(params),
            made=tuple(self._names.typed(var) for var in eqn.outvars),
            used=tuple(self._names.operand(atom) for atom in eqn.invars),
            types=short.types_text(eqn.outvars, self._names.type),
            note=note,
            marks=marks,
            fold=fold,
            open=item.open,
            hidden=hidden,
            held=held,
        )


def _marks(item: Item) -> tuple[str, ...]:
    return ("backward",) if item.is_backward else ()


def _of_state(line: ProgramLine, end: BlockEnd) -> ProgramLine:
    """The line of an input or output, with a mark if it is the value of a state or part of it."""
    if not end.state:
        return line
    whole = len(end.indices) == len(end.state.ins)
    text = short.visible(labels.state_title(end, ())) if whole else line.text
    return replace(line, text=text, marks=(*line.marks, "state"))
