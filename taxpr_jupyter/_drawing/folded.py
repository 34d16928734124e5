"""The texts of closed groups and bundles of inputs, written once for all drawings of a program."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taxpr import Address, introspect
from taxpr_jupyter._analysis.liveness import InsAndOuts
from taxpr_jupyter._analysis.sizes import Size
from taxpr_jupyter._closed.casts import Casts
from taxpr_jupyter._closed.derivatives import FEW, gone_back
from taxpr_jupyter._closed.optimizers import MadeBy, update_lines
from taxpr_jupyter._closed.statements_inside import statements_in, statements_inside
from taxpr_jupyter._drawing.scope import Origin, ValueUse
from taxpr_jupyter._drawing.value_words import ValueWords
from taxpr_jupyter._model.model import CodeLine, Node
from taxpr_jupyter._text import short
from taxpr_jupyter._text.source_frames import SourceFrame, frames_around
from taxpr_jupyter._text.variables_at import HeldVariables
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.source_steps import updates_of
from taxpr_jupyter._tree.tree import Block, BlockEnd, Item

_REPEATED = 3  # lines of code that are not told twice
_NUMBER = re.compile(r"(?!1 )\d+ of \d+")


class Group(NamedTuple):
    """A closed group.

    Attributes:
        lines: Its label.
        tooltip: Its tooltip.
        outs: The origins of its results, by the variable.
    """

    lines: tuple[str, ...]
    tooltip: str
    outs: Mapping[Any, Origin]


class Lists:
    """The code in the labels of one drawing: what another one has told is not in sight."""

    def __init__(self) -> None:
        self._firsts: dict[object, Item] = {}  # by the frame and the lines the first item with them

    def once(self, item: Item, lines: Sequence[str], cluster: str | None) -> Sequence[str]:
        """A label with its code, or `as in layer_0` if an item before it in its frame has that."""
        code = tuple(line for line in lines if isinstance(line, CodeLine))
        if len(code) < _REPEATED:
            return lines
        first = self._firsts.setdefault((cluster, code), item)
        if first is item:
            return lines
        name = first.title.partition(" = ")[0]
        if not name or name == item.title.partition(" = ")[0] or len(name) > short.LINE:
            name = "the first of these"
        k = next(k for k, line in enumerate(lines) if isinstance(line, CodeLine))
        head = f"{code[0]} " if code[0].startswith("in ") else ""  # of a function
        return [*lines[:k], CodeLine(f"{head}as in {name}"), *lines[k + len(code) :]]


class Folded:
    """Writes closed groups and bundles, which may have thousands of values, once."""

    def __init__(self, tips: short.Tooltips, held: HeldVariables) -> None:
        self.tips, self._held = tips, held
        self._insides: introspect.ByIdentity[labels.Inside] = introspect.ByIdentity()
        self._casts = Casts()
        self._frames: introspect.ByIdentity[SourceFrame | None] = introspect.ByIdentity()
        self._groups: introspect.ByIdentity[Group] = introspect.ByIdentity()
        self._uses: dict[str | None, introspect.ByIdentity[Sequence[ValueUse]]] = {}
        self._inputs: introspect.ByIdentity[Sequence[Origin]] = introspect.ByIdentity()
        self._words: introspect.ByIdentity[ValueWords] = introspect.ByIdentity()
        self._places: introspect.ByIdentity[set[object]] = introspect.ByIdentity()

    def words(self, block: Block) -> ValueWords:
        """The words for the values of a jaxpr."""
        return self._words.of(
            block,
            lambda block: ValueWords(
                block.flow.graph,
                block.address,
                block.names.known,
                self._held,
                block.flow.within_backward,
            ),
        )

    def frame(self, item: Item) -> SourceFrame | None:
        """The call of the user's function that made all of an item."""

        def innermost(item: Item) -> SourceFrame | None:
            frames = frames_around(eqn for _, eqn in item.eqns)
            return frames[-1] if frames else None

        return self._frames.of(item, innermost)

    def inside(self, block: Block, item: Item) -> labels.Inside:
        """The variables that a closed item goes back to, or its statements."""

        def written(item: Item) -> labels.Inside:
            back = _gone_back(block, item)
            eqns = (eqn for _, eqn in item.eqns)
            within = item.within_backward
            said = (
                statements_in(eqns, within)
                if item.is_group
                else statements_inside(item.eqn, within)
            )
            return labels.Inside(back, () if back else said, self.casts(item))

        return self._insides.of(item, written)

    def _differentiated(self, block: Block) -> set[object]:
        """The places of the statements that a backward pass of a jaxpr goes back through."""
        return self._places.of(
            block,
            lambda block: {
                (one.file, one.place)
                for eqn in block.jaxpr.eqns
                if "transpose" in introspect.transformations_of(eqn)
                for one in introspect.statements_of(eqn)[:1]
            },
        )

    def casts(self, item: Item) -> str:
        """The conversions of floats in the nested jaxprs of a closed item: `f32 ↔ bf16`."""
        return self._casts.words(eqn for _, eqn in item.eqns)

    def group(self, block: Block, item: Item, size: Size, ends: InsAndOuts) -> Group:
        """A closed group of a given size, with its inputs and outputs."""

        def written(item: Item) -> Group:
            if item.kind == "rest":
                lines = [f"… {labels.content(size)}", item.title]
            else:
                held = self.tips.held
                unused = dict.fromkeys(
                    _unused(block, item.children, self._differentiated(block), held)
                )
                unused |= dict.fromkeys(_unused_keys(block, item, held))
                results = {var: self.tips.held(value) for value, var in ends.outs}
                typed, names = self.tips.label_type, [*results.values()]
                names = names if all(names) else ()
                few = size.total <= FEW
                # Of several parts alike the first says what is in them.
                again = item.kind == "more" or _NUMBER.fullmatch(item.note)
                if few or again:
                    inside = labels.Inside(casts=self.casts(item))
                else:
                    inside = self.inside(block, item)
                updates: Sequence[str] = ()
                if item.parts:
                    made_by = [MadeBy(updates_of(eqn), eqn) for _, eqn in item.eqns]
                    updates = update_lines(item.parts, made_by, block.names.known, results)
                lines = labels.group_lines(
                    item, size, ends.results, typed, [*unused], names, inside, updates
                )
            outs = {
                var: Origin(item.address, value, self.tips.value(var), by=item.address)
                for value, var in ends.outs
            }
            return Group(tuple(lines), short.tooltip([item.address, *lines]), outs)

        return self._groups.of(item, written)

    def uses(
        self, item: Item, ins: Iterable[Any], outs: Container[Any], cluster: str | None
    ) -> Sequence[ValueUse]:
        """The uses by a closed group that takes and gives these variables, in this cluster."""

        def written(item: Item) -> Sequence[ValueUse]:
            tagged = {
                var: atom
                for tag in item.tags
                for atom, var in zip(tag.eqn.invars, tag.eqn.outvars, strict=True)
            }
            used: list[ValueUse] = []
            for atom in ins:
                before = atom
                while before in tagged and not introspect.is_literal(tagged[before]):
                    before = tagged[before]
                if before not in outs:
                    used.append(ValueUse(atom, item.address, item.address, cluster))
            return used

        return self._uses.setdefault(cluster, introspect.ByIdentity()).of(item, written)

    def inputs(self, block: Block, end: BlockEnd, node: Node) -> Sequence[Origin]:
        """The origins of inputs or constants that share a node, or of one."""
        if not end.children:
            return self._written(block, end, node)
        return self._inputs.of(end, lambda end: self._written(block, end, node))

    def _written(self, block: Block, end: BlockEnd, node: Node) -> Sequence[Origin]:
        if end.word == "const":
            variables, names = block.jaxpr.constvars, block.const_names
        else:
            variables, names = block.jaxpr.invars, block.names.ins
        return [
            self._origin(block.address / f"{end.word}{i}", variables[i], names[i], end, node)
            for i in end.indices
        ]

    def _origin(
        self, value: Address, var: introspect.Var, name: str, end: BlockEnd, node: Node
    ) -> Origin:
        stub, shown = node, " = ".join(filter(None, (name, self.tips.value(var))))
        if end.children:
            called = labels.short_path(name) if name else self.tips.label_type(var) or end.word
            stub = Node(value, value, node.kind, (called,), f"{value}\n{shown}", None)
        return Origin(node.id, value, shown, stub=stub, name=name)


def _gone_back(block: Block, item: Item) -> Sequence[str]:
    """The parts of the user's code that a closed item of a backward pass goes back through."""
    again = (introspect.is_recomputed(eqn) for _, eqn in item.eqns)
    if not item.is_backward or item.within_recomputed or all(again):
        return ()
    looping = bool(block.nested and block.nested.back) and block.flow.within_backward
    return gone_back((eqn for _, eqn in item.eqns), looping)


def _unused_keys(block: Block, item: Item, held: Callable[[str], str]) -> Iterator[str]:
    """The variables that hold random keys of a closed group which nothing uses."""
    if block.flow.is_unused(eqn for _, eqn in item.eqns) or block.flow.graph.is_unfinished:
        return
    for address, eqn in item.eqns:
        for k, var in enumerate(eqn.outvars):
            aval: Any = var.aval
            is_key = jnp.issubdtype(getattr(aval, "dtype", float), jax.dtypes.prng_key)
            if is_key and var not in block.flow.graph.needed and (name := held(address.value(k))):
                yield name


def _unused(
    block: Block, items: Iterable[Item], places: Container[object], held: Callable[[str], str]
) -> Iterator[str]:
    """The names of the statements and modules that make what nothing uses, if not all do.

    Without those at places that a derivative goes back through, such as its loss, and without
    variables that hold another value: numpyro draws a sample, and may put another in its place.
    """
    items = list(items)
    idle = [block.flow.is_unused(eqn for _, eqn in item.eqns) for item in items]
    if all(idle):  # which a sign at what is around them says
        return
    for item, is_idle in zip(items, idle, strict=True):
        if not is_idle:
            yield from _unused(block, item.children, places, held)
        elif any(
            (one.file, one.place) in places
            for _, eqn in item.eqns
            for one in introspect.statements_of(eqn)[:1]
            if "jvp" in introspect.transformations_of(eqn)
        ):
            continue
        elif item.title and not all(labels.is_zeros(eqn) for _, eqn in item.eqns):
            # Zeros that a derivative begins with are made by a statement which is used.
            target, equals, _ = item.title.partition(" = ")
            if not equals:
                if not item.title.startswith("with "):  # what is in its block may be used
                    yield item.title
            elif not target.isidentifier() or target in _held_by(item, held):
                yield target


def _held_by(item: Item, held: Callable[[str], str]) -> set[str]:
    """The variables that hold results of the equations of an item."""
    results = (at.value(k) for at, eqn in item.eqns for k in range(len(eqn.outvars)))
    return {held(result).partition("[")[0].partition(".")[0] for result in results}
