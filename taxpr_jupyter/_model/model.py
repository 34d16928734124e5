"""`Picture`: nodes, clusters and edges as plain frozen data, without JAX and IPython.

`_drawing` makes a `Picture` from a program, `_layout` writes it as DOT, `_svg` adds the layout.

Each element has the address of its place in the program, and an `id`. The id is the address, unless
several elements show the same place: a stub, which repeats a far-away value next to its user, has
the value's address and its own id.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from taxpr import Address
from taxpr_jupyter._model.kinds import ClusterKind, EdgeKind, HeatKind, NodeKind
from taxpr_jupyter._text.elements import row_of


class CodeLine(str):
    """A line of a label that is code of the user's: small, and from the left.

    Attributes:
        indent: How many characters it is indented, which the text is without.
    """

    indent: int

    def __new__(cls, text: str, indent: int = 0) -> "CodeLine":
        line = super().__new__(cls, text)
        line.indent = indent
        return line


@dataclass(frozen=True, slots=True)
class Node:
    """One thing in a picture.

    Attributes:
        id: Unique in the picture.
        address: The place that it shows.
        kind: One of `NodeKind`.
        lines: Its label, with a `CodeLine` for each line of the user's code.
        tooltip: More about it, in several lines.
        cluster: The id of the cluster around it, or None.
        marks: More about its looks: "stub", "added" (a tag that was added interactively),
            "choice" (it decides what runs), "bar" (an operand of several branches, above them),
            "again" (the same operand inside of a branch),
            "many" (it shows several inputs or outputs), "backward" (it is part of the backward pass
            of a derivative), "kept" (it is forward, and the backward pass uses it: see
            `Edge.also`), "loss" (it makes the loss, where the backward pass begins), "unused"
            (nothing uses its results), "rest" (it replaces parts that the reader left out),
            "plumbing" (it only arranges values), "failed" (an error ended the tracing there),
            "batched", "donated", "effect", "precision", "sharded" (what its equation or value is),
            "written" (a state that is). As XLA has compiled it "removed", "alone" (it is in no
            kernel with others), "kernel-0" to "kernel-5" (the colour of its kernel), "moved" (it
            needs values of other devices). In a comparison also "same", "inside", "follows",
            "changed", "new", "gone".
        fold: The address to unfold, if that is possible.
        forward: For a group of the backward pass, the address of its forward pass.
        pair: In a comparison the address of its partner in the other picture.
        cost: Its cost, in words; () if it computes nothing.
        heat: From 0 to 1, if the picture is coloured by cost; None without a cost.
        on: For a tag, the id of the node whose value it tags. It is a badge on that node, and no
            line leads to it, as it hands the value on. "" for other nodes, and for the tag of a
            literal.
        titled: How many of the lines are its title.
        kernels: In a picture of kernels, the numbers of those that compute it and others.
    """

    id: str
    address: str
    kind: NodeKind
    lines: tuple[str, ...]
    tooltip: str
    cluster: str | None = None
    marks: tuple[str, ...] = ()
    fold: str | None = None
    forward: str = ""
    pair: str = ""
    cost: tuple[str, ...] = ()
    heat: float | None = None
    on: str = ""
    titled: int = 1
    kernels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A line between two nodes.

    Attributes:
        id: Unique in the picture.
        source: The id of the node where it starts.
        target: The id of the node where it ends.
        kind: One of `EdgeKind`.
        value: The address of the value that goes along it, "" for several or no values.
        tooltip: Its letter and type; of inputs and outputs also their names.
        tail: Which output of the source it is, "" if there is only one.
        head: Which operand of the target it is, "" if the order means nothing.
        into: The id of the cluster whose border is its end, or None.
        out_of: The id of the cluster whose border is its begin, or None.
        also: The ids of further nodes in `out_of` whose values go along it.
        name: The name of its value, if that comes from an input; else "".
        made: The address of a tagged value without its tags; else "".
    """

    id: str
    source: str
    target: str
    kind: EdgeKind = "value"
    value: str = ""
    tooltip: str = ""
    tail: str = ""
    head: str = ""
    into: str | None = None
    out_of: str | None = None
    also: tuple[str, ...] = ()
    name: str = ""
    made: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A box around nodes and other clusters.

    Attributes:
        id: Unique in the picture; the address.
        kind: One of `ClusterKind`.
        lines: Its label.
        tooltip: More about it, in several lines.
        parent: The id of the cluster around it, or None.
        fold: The address to fold, so that this becomes a node; "" if it cannot be folded.
        marks: As of a `Node`; "unfinished" if an error ended the tracing inside.
        forward: As of a `Node`.
        pair: As of a `Node`.
        cost: Its cost, in words.
        titled: As of a `Node`.
    """

    id: str
    kind: ClusterKind
    lines: tuple[str, ...]
    tooltip: str
    parent: str | None
    fold: str
    marks: tuple[str, ...] = ()
    forward: str = ""
    pair: str = ""
    cost: tuple[str, ...] = ()
    titled: int = 1

    @property
    def address(self) -> str:
        """The address of its place; "" for a function as a whole."""
        return "" if self.kind == "function" else self.id


def count_of(number: int, what: str) -> str:
    """`1 equation`, `2 equations`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Marked(NamedTuple):
    """The tags that look different.

    Attributes:
        injected: Addresses of those that have an injector.
        added: Addresses of those that were added interactively.
    """

    injected: Collection[str] = frozenset()
    added: Collection[str] = frozenset()


UNMARKED = Marked()


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of drawn, folded and other equations of a program.

    Equations of nested jaxprs count once for each place, tags are counted too.
    ``drawn + sum(folded.values()) == total``, always.

    Attributes:
        drawn: Equations with a node, or a cluster, of their own.
        folded: Equations hidden in a node, by the node's address.
        total: Equations of the program.
        tags: How many of these are tags.
    """

    drawn: int
    folded: Mapping[str, int]
    total: int
    tags: int

    def __str__(self) -> str:
        words = [count_of(self.total - self.tags, "equation")]
        words += [count_of(self.tags, "tag")] if self.tags else []
        hidden = sum(self.folded.values())
        words += [f"{hidden:,} of them folded"] if hidden else []
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Heat:
    """The scale of the colours of a picture.

    Attributes:
        kind: The quantity.
        top: The number of the hottest node.
        decades: Powers of ten from there to the end of the scale; 0 if it ends at `bottom`.
        notes: How much has a node, in sentences; none for costs.
        bottom: The number of the coldest node, where the scale has no powers of ten.
        title: The title of a user's numbers.
    """

    kind: HeatKind
    top: float = 0
    decades: int = 0
    notes: tuple[str, ...] = ()
    bottom: float = 0
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture of a program.

    Attributes:
        name: The program's name.
        nodes: In program order.
        edges: In program order of their targets.
        clusters: Outer ones first.
        counts: How much is drawn and folded.
        unfolded: Addresses of the open equations and groups.
        foldable: Addresses that can be folded or unfolded in this picture.
        note: One sentence for the user, such as why something stays folded; "" for none.
        heat: The meaning of the colours, if nodes are coloured by cost.
        hidden: The contents of a folded group, of equations or of inputs or outputs, by its
            address.
        narrow: Whether it is laid out as narrow as it can be, for a column of a page.
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    clusters: tuple[Cluster, ...]
    counts: Counts
    unfolded: frozenset[str]
    foldable: frozenset[str]
    note: str = ""
    heat: Heat | None = None
    hidden: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], repr=False
    )
    narrow: bool = field(default=False, repr=False)
    _by_address: dict[str, Node | Cluster] = field(
        default_factory=dict[str, Node | Cluster], init=False, repr=False, compare=False
    )
    _hiders: dict[str, str] = field(
        default_factory=dict[str, str], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        elements = (*self.nodes, *self.clusters)
        self._by_address.update({element.id: element for element in elements})
        for element in elements:
            if "bar" not in element.marks:  # it is a value that is made elsewhere
                self._by_address.setdefault(element.address, element)

    def find(self, address: str) -> Node | Cluster | None:
        """The element that shows an address, before others that have it too, such as stubs."""
        return self._by_address.get(address)

    def element_of(self, address: str) -> Node | Cluster | None:
        """The element that shows an address, or that has it folded inside.

        None if it is nowhere in the program.
        """
        while address:
            found = self.find(address) or self.find(self._hider(address))
            if found is not None:
                return found
            place = Address(address)
            # Of a value the equation that makes it; else the jaxpr, and then its equation.
            address = place.home if place.result is None else place.eqn
        return None

    def _hider(self, address: str) -> str:
        """The element that shows or contains an equation, input, output or group; or ""."""
        if not self._hiders:
            # An open equation with one nested jaxpr has the cluster of that.
            inner_first = [c for c in reversed(self.clusters) if c.kind in ("jaxpr", "hop")]
            self._hiders.update({_numbered(c.fold): c.id for c in inner_first})
            for group, inside in self.hidden.items():
                self._hiders.update(dict.fromkeys(map(_numbered, inside), group))
        return self._hiders.get(_numbered(address), "")


def _numbered(address: str) -> str:
    """The address with the equation's number only; for a group, its first equation's."""
    home, slash, local = address.rpartition("/")
    number, colon, _ = local.partition(":")
    if colon and not number.isdigit() and (row := row_of(address)):
        number = f"{row.word}{row.first}"
    # As `Address.short`, but for whole programs.
    return f"{home}{slash}{number if colon else number.partition('.')[0]}"
