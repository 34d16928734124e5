"""`Scope`: where the values of one drawn jaxpr come from, and where they are used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taxpr import introspect
from taxpr_jupyter._drawing.roles import Role
from taxpr_jupyter._model.model import Node
from taxpr_jupyter._text import paths, short
from taxpr_jupyter._tree import labels
from taxpr_jupyter._tree.tree import Item

# Long edges make a layout slow and a picture confusing. So an input or constant is drawn again, as
# a stub, next to a use that is more than this many steps below its first use.
_FAR = 6
_FAR_OUT = 3  # the same for outputs that share a node
_LONGEST = 28  # characters: the longest name at an end of a line
_PART = ("", ".", "[", " ")  # with which a part of a name begins
_MOST_NAMED = 256  # values along one line, whose names are compared


class Origin(NamedTuple):
    """The origin of a value.

    Attributes:
        node: The id of the node that it comes from.
        value: The address of the value.
        tooltip: The value for people.
        tail: Which result of the node it is; None if that has only one.
        stub: The node to draw again next to a far use; None if it is not drawn again.
        name: The name of an input; "" for other values.
        made: The address that a tagged value has without its tags; "" of others.
        by: The equation or group that makes it; "" for inputs and constants.
        inside: Gives its name in the open equation that makes it, or "".
    """

    node: str
    value: str
    tooltip: str
    tail: Role | None = None
    stub: Node | None = None
    name: str = ""
    made: str = ""
    by: str = ""
    inside: Callable[[], str] = lambda: ""


class ValueUse(NamedTuple):
    """A use of a value.

    Attributes:
        atom: The variable or literal.
        node: The id of the node that uses it.
        item: The address of the equation, group or output that uses it.
        cluster: The id of the cluster for the node of a literal, or for a stub.
        head: Which operand of the node it is; None if the order means nothing.
        name: The name of an output; "" for other uses.
    """

    atom: introspect.Atom
    node: str
    item: str
    cluster: str | None
    head: Role | None = None
    name: str = ""


@dataclass
class Scope:
    """The values of one drawn jaxpr.

    Attributes:
        origins: The origin of each variable.
        uses: All uses of variables, in program order.
        literals: All uses of literals, in program order.
        turn: The ids of the nodes where a forward pass ends and its backward pass begins.
        repeated: The ids of nodes that have a stub at each use, as they are not drawn themselves.
        groups: The open groups, by the ids of their clusters.
        words: Gives a name for a value that is used far from where it is made, or "", as it is
            called in a cluster.
        held: Gives the variable, or the part of one, that holds a value in a cluster, or "".
        typed: Gives the type of a value as a label has it.
        bundled: The names of all inputs or constants that share a node, by its id.
    """

    origins: dict[Any, Origin] = field(default_factory=dict)
    uses: list[ValueUse] = field(default_factory=list)
    literals: list[ValueUse] = field(default_factory=list)
    turn: list[str] = field(default_factory=list)
    repeated: set[str] = field(default_factory=set)
    groups: dict[str | None, Item] = field(default_factory=dict)
    words: Callable[[Any, str | None], str] = lambda var, cluster: ""
    held: Callable[[Any, str | None], str] = lambda var, cluster: ""
    typed: Callable[[introspect.Atom], str] = lambda atom: ""
    bundled: dict[str, Sequence[str]] = field(default_factory=dict)

    def wants(self, var: introspect.Atom) -> bool:
        """Whether a variable is part of the drawing; all are, except in `PartScope`."""
        del var
        return True

    def held_of(self, atom: introspect.Atom, cluster: str | None) -> str:
        """The variable that holds a value here or in the open equation that makes it, or ""."""
        if introspect.is_literal(atom) or atom not in self.origins:
            return ""
        return self.held(atom, cluster) or self.origins[atom].inside()

    def called(self, atom: introspect.Atom, item: str, cluster: str | None) -> str:
        """The name of a value where an item in a cluster takes it, or ""."""
        if introspect.is_literal(atom) or atom not in self.origins:
            return ""
        use = ValueUse(atom, item, item, cluster)
        return name_of(self, CarriedValue(self.origins[atom], use), (cluster,))

    def called_inside(self, var: introspect.Var, cluster: str | None) -> Origin:
        """The origin of a result of a jaxpr, which outside has the name that it has in here."""
        origin = self.origins[var]

        def name() -> str:
            return self.held(var, cluster) or self.words(var, cluster) or origin.inside()

        return origin._replace(inside=name)

    def define(self, var: introspect.Var, origin: Origin, item: str = "") -> None:
        """Register the origin of a variable, and the equation or group that makes it, if any."""
        if origin.node and self.wants(var):
            self.origins[var] = origin if origin.by == item else origin._replace(by=item)

    def tagged(self, tag: Any) -> list[Origin]:
        """The origins of a tag's operands; empty if one is a literal, or is not drawn."""
        known = [None if introspect.is_literal(a) else self.origins.get(a) for a in tag.invars]
        origins = [origin for origin in known if origin]
        return origins if len(origins) == len(known) else []

    def use(
        self,
        atom: introspect.Atom,
        node: str,
        item: str,
        cluster: str | None,
        head: Role | None = None,
        name: str = "",
    ) -> None:
        """Register a use of a value."""
        is_literal = introspect.is_literal(atom)
        if is_literal or self.wants(atom):
            uses = self.literals if is_literal else self.uses
            uses.append(ValueUse(atom, node, item, cluster, head, name))

    def use_all(self, uses: Sequence[ValueUse]) -> None:
        """Register several uses of variables."""
        self.uses += uses

    def define_all(self, origins: Mapping[Any, Origin]) -> None:
        """Register the origins of several variables."""
        self.origins.update(origins)

    def beside(self, node: str, title: str) -> list[str]:
        """The names of all values of a bundle that begin with a title, in whole parts."""
        named = self.bundled.get(node, ())
        return [one for one in named if one.startswith(title) and one[len(title) :][:1] in _PART]

    @functools.cached_property
    def sources(self) -> Sequence[Origin]:
        """The origin of each used variable, once all uses are there."""
        origins = self.origins
        return [origins[use.atom] for use in self.uses]

    @functools.cached_property
    def bundles(self) -> Mapping[tuple[str, str, str, str], list[int]]:
        """The uses with the same ends, as indices into `uses`.

        By `Origin.node`, `ValueUse.node`, `Origin.by` and `ValueUse.item`: groups may use thousands
        of values of one node.
        """
        found: dict[tuple[str, str, str, str], list[int]] = {}
        for index, (use, origin) in enumerate(zip(self.uses, self.sources, strict=True)):
            ends = origin.node, use.node, origin.by, use.item
            found.setdefault(ends, []).append(index)
        return found

    def far_uses(self) -> set[int]:
        """The uses of inputs and constants that get a stub, as indices into `uses`."""
        steps = self._steps
        by_node: dict[str, list[tuple[int, list[int]]]] = {}  # each with its step
        for (node, _, _, item), uses in self.bundles.items():
            if self.sources[uses[0]].stub is not None:
                by_node.setdefault(node, []).append((steps[item], uses))
        far: set[int] = set()
        for node, bundles in by_node.items():
            first = -_FAR if node in self.repeated else min(step for step, _ in bundles)
            far.update(*(uses for step, uses in bundles if step > first + _FAR))
        return far

    def early_outs(self, bundles: Collection[str]) -> set[int]:
        """The uses by bundles of outputs that get a stub: of values made long before the last."""
        found: dict[str, list[tuple[int, list[int]]]] = {}
        for (_, node, maker, _), uses in self.bundles.items():
            if node in bundles and maker:
                found.setdefault(node, []).append((self._steps.get(maker, 0), uses))
        early: set[int] = set()
        for made in found.values():
            last = max(step for step, _ in made)
            early.update(*(uses for step, uses in made if step < last - _FAR_OUT))
        return early

    @functools.cached_property
    def _steps(self) -> dict[str, int]:
        """The latest possible step of each item, counted from the inputs.

        The latest, as Graphviz puts an equation that only prepares an operand next to its use.
        """
        earliest = {use.item: 1 for use in self.literals}
        # In program order: a maker is known.
        pairs = list(dict.fromkeys((item, maker) for _, _, maker, item in self.bundles))
        for item, maker in pairs:
            step = 1 + earliest.get(maker, 0) if maker else 1
            earliest[item] = max(step, earliest.get(item, 0))
        latest = dict.fromkeys(earliest, max(earliest.values(), default=0))
        for item, maker in reversed(pairs):
            if maker in latest:
                latest[maker] = min(latest[maker], latest[item] - 1)
        return latest


class CarriedValue(NamedTuple):
    """A value on its way along an edge."""

    origin: Origin
    use: ValueUse


class Carried(NamedTuple):
    """The values that go along an edge, each once."""

    scope: Scope
    parts: Sequence[CarriedValue]

    def called(self, *clusters: str | None) -> str:
        """Their names, as they are called in these clusters or else where they end; or ""."""
        number = f"×{len(self.parts)}"
        if len(self.parts) > _MOST_NAMED:
            return number
        names = [name_of(self.scope, part, (*clusters, part.use.cluster)) for part in self.parts]
        if len(names) == 1:
            return labels.short_path(names[0], _LONGEST) if names[0] else ""
        if not all(names):
            return number
        text, whole = paths.together(names, _LONGEST)
        if not whole and (some := self._some()) and len(some) <= _LONGEST:
            return some
        return text if whole else f"{labels.short_path(text, _LONGEST)} {number}"

    def _some(self) -> str:
        """`params: all but embed`, of inputs that share a node with others; else ""."""
        names = [part.origin.name for part in self.parts]
        if len({part.origin.node for part in self.parts}) > 1 or not all(names):
            return ""
        title = paths.shared_title(names)
        some = paths.some_of(names, self.scope.beside(self.parts[0].origin.node, title))
        return f"{title.rpartition(' ')[2]}: {some}" if some else ""

    @property
    def type(self) -> str:
        """The type of the first of them."""
        return short.shortened(self.scope.typed(self.parts[0].use.atom), _LONGEST)


def name_of(scope: Scope, part: CarriedValue, clusters: Sequence[str | None]) -> str:
    """The name of a value in one of these clusters, or else where it is made; or ""."""
    atom, name = part.use.atom, part.origin.name
    first, *more = paths.path_parts(name) or [""]
    if name and not (more and more[0].strip().isdigit()):  # but a role and its number
        return name.removeprefix(f"{first.rpartition(' ')[0]} ")
    for place in clusters:
        if name := scope.held(atom, place) or scope.words(atom, place):
            return name
    return part.origin.inside()
