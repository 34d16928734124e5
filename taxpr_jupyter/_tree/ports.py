"""Ports: inputs, outputs or constants of a jaxpr that share a node, by argument or by role."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from taxpr import Address
from taxpr_jupyter._analysis.stateful import StateEnds
from taxpr_jupyter._text.elements import ElementRow
from taxpr_jupyter._text.paths import path_parts, shared_title
from taxpr_jupyter._tree.tree import BlockEnd

_FEW = 6  # so many are drawn one by one
_SMALL = 4  # and always those of an argument that has no more
_FEW_INSIDE, _SMALL_INSIDE = 6, 2  # the same of a nested jaxpr, whose ends stand twice
_PARTS = 4  # so many parts of a tuple have a node each
MANY = 40  # side by side, at most


def ends_of(
    names: Sequence[str],
    word: str,
    home: Address,
    states: Sequence[StateEnds] = (),
    nested: bool = False,
    grouped: bool = True,
) -> list[BlockEnd]:
    """The ends of a jaxpr, in order.

    Args:
        names: The names of all inputs, such as `params['w'][0]`, or in a nested jaxpr
            `carry params['w'][0]`.
        word: "in" or "out".
        home: The address of the jaxpr.
        states: What enters or leaves as the value of a state: one end for each, or where they are
            many for those whose names begin alike.
        nested: Whether the jaxpr is nested.
        grouped: Whether any may share one.
    """

    def one(i: int) -> BlockEnd:
        return BlockEnd(home / f"{word}{i}", range(i, i + 1))

    places = [(state, state.ins if word == "in" else state.outs) for state in states]
    if not grouped:
        ends = [one(i) for i in range(len(names))]
        for state, indices in places:
            for i in indices:
                ends[i].state = state
        return ends
    most, small = (_FEW_INSIDE, _SMALL_INSIDE) if nested else (_FEW, _SMALL)
    paths = [path_parts(name) for name in names]
    if not states:
        # Constants come in the order of their uses, so those of one object are not side by side.
        order = _by_path(paths)
        if order != sorted(order):
            ends = ends_of([names[k] for k in order], word, home, nested=nested)
            return [_renumbered(end, order, word, home) for end in ends]
    for state, indices in places:  # its name may look like a path
        for i, leaf in zip(indices, state.leaves, strict=True):
            paths[i] = [state.name, *path_parts(leaf[len(state.name) :])]

    def several(indices: range, children: Sequence[BlockEnd]) -> BlockEnd:
        address = ElementRow(home, "group", word, indices[0], indices[-1]).address
        return BlockEnd(address, indices, shared_title([names[i] for i in indices]), children)

    def split(indices: range, depth: int) -> list[BlockEnd]:
        """Split by the part of the names at this depth."""
        if depth >= max(len(paths[i]) for i in indices):
            return chunks([one(i) for i in indices])
        made = []
        for _, found in itertools.groupby(indices, lambda i: paths[i][: depth + 1]):
            same = list(found)
            part = range(same[0], same[-1] + 1)
            if len(part) <= small:
                made += map(one, part)
                continue
            made.append(several(part, inside(part, depth + 1)))
        return chunks(made)

    def inside(indices: range, depth: int) -> list[BlockEnd]:
        """The parts of a port; none if it has only itself."""
        children = split(indices, depth)
        while len(children) == 1 and children[0].children:
            children = list(children[0].children)
        return children

    def chunks(ends: list[BlockEnd]) -> list[BlockEnd]:
        return _chunks(ends, lambda part: several(_indices(part), part))

    def others(indices: range) -> list[BlockEnd]:
        if len(indices) <= most:
            return [one(i) for i in indices]
        made = split(indices, 0)
        # The only argument: its parts, unless they are many.
        while word != "const" and len(made) == 1 and 0 < len(made[0].children) <= _FEW:
            made = list(made[0].children)
        return [part for end in made for part in parts_of(end)] if nested else made

    def parts_of(end: BlockEnd) -> list[BlockEnd]:
        """The parts of a carry that is a tuple, such as the params and the optimizer's state.

        A part of a variable, such as `opt_state[0]`, stays one.
        """
        depth = len(path_parts(end.title))
        if depth > 1:
            return [end]
        inside_tuple = all(
            len(paths[i]) > depth and _IN_TUPLE.fullmatch(paths[i][depth]) for i in end.indices
        )
        # A list of layers is none, whose children are parts of its parts.
        places = {tuple(paths[i][: depth + 1]) for i in end.indices}
        if not (inside_tuple and 1 < len(end.children) == len(places) <= _PARTS):
            return [end]
        return list(end.children)

    of_states: list[BlockEnd] = []
    for state, indices in places:
        if len(indices) > 1:
            of_states.append(several(indices, inside(indices, 1)))
            of_states[-1].title = state.name
        elif indices:
            of_states.append(one(indices[0]))
        for end in of_states[-1:] if indices else ():
            _mark(end, state)
    if not of_states:
        return others(range(len(names)))
    around = _indices(of_states)  # they stand side by side
    if len(of_states) > _FEW:
        of_states = _states_by_path(of_states, 0, home, word)
    return [
        *others(range(around.start)),
        *of_states,
        *others(range(around.stop, len(names))),
    ]


def constants_of(
    names: Sequence[str], home: Address, nested: bool = False, grouped: bool = True
) -> list[BlockEnd]:
    """The constants of a jaxpr, side by side if one object has them; at last all without a name.

    Args:
        names: The name of each, such as `env.sys.gravity`; "" for one without.
        home: The address of the jaxpr.
        nested: Whether the jaxpr is nested.
        grouped: Whether any may share one.
    """
    if not grouped:
        return ends_of(names, "const", home, grouped=False)
    named = [k for k, name in enumerate(names) if name]
    others = [k for k, name in enumerate(names) if not name]
    ends = ends_of([names[k] for k in named], "const", home, nested=nested)
    rest = ends_of(["" for _ in others], "const", home, grouped=False)
    if len(rest) > (_FEW_INSIDE if nested else _FEW):
        children = _chunks(rest, lambda part: BlockEnd(home, _indices(part), "", part))
        rest = [BlockEnd(home, range(len(rest)), "constants", children)]
    pairs = [(end, named) for end in ends] + [(end, others) for end in rest]
    return [_renumbered(end, numbers, "const", home) for end, numbers in pairs]


def _by_path(paths: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of paths, those with a common beginning side by side, else in their order."""
    first: dict[tuple[str, ...], int] = {}
    keys: list[list[int]] = []
    for k, path in enumerate(paths):
        begins = [tuple(path[: depth + 1]) for depth in range(len(path))]
        keys.append([first.setdefault(part, k) for part in begins])
    return sorted(range(len(paths)), key=keys.__getitem__)


def _renumbered(end: BlockEnd, numbers: Sequence[int], word: str, home: Address) -> BlockEnd:
    """The end of those inputs, outputs or constants that have these numbers, in this order."""
    indices = [numbers[k] for k in end.indices]
    children = [_renumbered(child, numbers, word, home) for child in end.children]
    address = home / f"{word}{indices[0]}"
    if children:
        address = ElementRow(home, "group", word, indices[0], indices[-1]).address
    return replace(end, address=address, indices=indices, children=children)


_IN_TUPLE = re.compile(r"\[\d+\]|\.\w+")


def _indices(ends: Sequence[BlockEnd]) -> range:
    return range(ends[0].indices[0], ends[-1].indices[-1] + 1)


def _chunks(ends: list[BlockEnd], together: Callable[[list[BlockEnd]], BlockEnd]) -> list[BlockEnd]:
    """Not too many side by side."""
    if len(ends) <= MANY:
        return ends
    size = -(-len(ends) // MANY)
    parts = [ends[i : i + size] for i in range(0, len(ends), size)]
    return [together(part) if len(part) > 1 else part[0] for part in parts]


def _states_by_path(
    ends: Sequence[BlockEnd], depth: int, home: Address, word: str
) -> list[BlockEnd]:
    """States by the part of their names at this depth: one end for all states of `model`."""

    def together(children: Sequence[BlockEnd]) -> BlockEnd:
        indices = _indices(children)
        states = [end.state for end in children if end.state]
        name = _shared_name([states[0].name, states[-1].name])
        both = StateEnds(
            name,
            range(states[0].ins.start, states[-1].ins.stop),
            range(states[0].outs.start, states[-1].outs.stop),
            tuple(itertools.chain.from_iterable(state.leaves for state in states)),
            any(state.written for state in states),
        )
        number = sum(end.states or 1 for end in children)
        row = ElementRow(home, "group", word, indices[0], indices[-1])
        return BlockEnd(row.address, indices, name, children, state=both, states=number)

    made: list[BlockEnd] = []
    for _, found in itertools.groupby(ends, lambda end: _parts(end)[: depth + 1]):
        same = list(found)
        if len(same) <= _SMALL:
            made += same
            continue
        children = _states_by_path(same, depth + 1, home, word)
        while len(children) == 1 and children[0].states:
            children = list(children[0].children)
        made.append(together(children))
    return _chunks(made, together)


def _parts(end: BlockEnd) -> list[str]:
    return _name_parts(end.state.name) if end.state else []


def _name_parts(name: str) -> list[str]:
    """`model`, `.blocks`, `[0]` for `model.blocks[0]`; `net`, `/norm` for `net/norm`."""
    return re.split(r"(?=[./\[])", name)


def _shared_name(names: Sequence[str]) -> str:
    """The common prefix, in whole parts, of the names of states; or the first and the last name."""
    first, last = map(_name_parts, names)
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(part for part, _ in same) or f"{names[0]} … {names[-1]}"


def _mark(end: BlockEnd, state: StateEnds) -> None:
    """Says of an end, and of all in it, that it is the value of a state."""
    end.state = state
    for child in end.children:
        _mark(child, state)
