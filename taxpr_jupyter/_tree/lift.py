"""Find the user's functions that a call of a library runs in its loops."""

import collections
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from taxpr import introspect
from taxpr_jupyter._analysis.names import is_of_jax
from taxpr_jupyter._analysis.sizes import Sizes, is_loop
from taxpr_jupyter._text.elements import ElementRow
from taxpr_jupyter._tree.grow import Tree
from taxpr_jupyter._tree.tree import SOURCE, Item, Level, Lift, Lifted

_CALLS = frozenset({"statement", "expression", "function"})  # kinds of groups that may be calls
_REST = 12  # equations: a library that does no more around the user's functions is no frame


class Lifts:
    """Finds the functions to lift out of the calls of libraries, for each call once.

    Args:
        tree: Makes what is in a nested jaxpr.
        sizes: Counts equations.
    """

    def __init__(self, tree: Tree, sizes: Sizes) -> None:
        self._tree = tree
        self._sizes = sizes
        self._runs: introspect.ByIdentity[bool] = introspect.ByIdentity()
        self._known: introspect.ByIdentity[Lift | None] = introspect.ByIdentity()

    def of(self, item: Item) -> Lift | None:
        """The functions to lift out of an item; None if it is no call of a library."""
        item.lift = self._known.of(item, self._lift)
        return item.lift

    def _lift(self, item: Item) -> Lift | None:
        if item.kind and item.kind not in _CALLS:
            return None
        # Most items end here, at the first equation.
        if not all(not one.called and self._is_of_library(one) for one in _loose(item)):
            return None
        every = [call for one in _loose(item) for call in self._calls(one, ())]
        if not any(is_loop(level.item.eqn) for call in every for level in call.way):
            return None
        places: dict[Any, list[Lifted]] = collections.defaultdict(list)
        for call in every:
            file, name, _, derived = call.item.function
            places[file, name, derived].append(call)
        names = collections.Counter(found[0].item.called for found in places.values())
        calls = [self._once(found, names[found[0].item.called] > 1) for found in places.values()]
        if self._size(item) - sum(self._size(call.item) for call in calls) <= _REST:
            return None
        first, last = (item.eqns[k][0].short for k in (0, -1))
        address = ElementRow(item.address.home, "lift", "", first, last).address
        title = item.title if item.kind in SOURCE or not item.kind else ""
        title = title or _statement(item) or item.title
        return Lift(address, calls, title, _rest_of(every[0].way[0], title))

    def _size(self, item: Item) -> int:
        return self._sizes.of_eqns(eqn for _, eqn in item.eqns).total

    def _once(self, parts: Sequence[Lifted], qualified: bool) -> Lifted:
        """One of the calls of a function, with a note on where it runs.

        Its name is with the class or function around it where another one has the same name.
        """
        calls = _joined(parts)
        call = max(calls, key=lambda call: (_depth(call), self._size(call.item)))
        beside = sum(one.block is call.block for one in calls)
        note = "in " + " › ".join(_loops(call))
        note = f"{note}, 1 of {beside}" if beside > 1 else note
        item = call.item
        if qualified:
            _, name, _, derived = item.function
            around = name.replace("<locals>.", "").split(".")[-2:]
            full = ("∂ " if derived else "") + ".".join(around)
            item.title = full if item.title == item.called else item.title
            item.note = full if item.note == item.called else item.note
        item.note = ", ".join(filter(None, (item.note, note)))
        return call

    def _calls(self, item: Item, way: tuple[Level, ...]) -> Iterator[Lifted]:
        """All calls of functions of the user's in an item of a library's code."""
        if not introspect.is_hop(item.eqn) or not self.runs_users(item.eqn):
            return
        for block, nested in self._tree.inside(item):
            if nested.idle:
                continue
            here = (*way, Level(item, block, nested))
            for one in (part for part in block.items for part in _loose(part)):
                if one.called:
                    yield Lifted(one, here)
                else:
                    yield from self._calls(one, here)

    def runs_users(self, eqn: introspect.JaxprEqn) -> bool:
        """Whether a function of the user's made something inside of an equation."""
        return any(
            self._runs.of(nested.jaxpr, self._has_users) for nested in introspect.nested_jaxprs(eqn)
        )

    def _has_users(self, jaxpr: Any) -> bool:
        return any(
            bool(introspect.statements_of(eqn)) or self.runs_users(eqn) for eqn in jaxpr.eqns
        )

    @staticmethod
    def _is_of_library(item: Item) -> bool:
        """Whether an equation is no loop or call that the user made."""
        nested = introspect.nested_jaxprs(item.eqn)
        if not nested or all(map(is_of_jax, nested)):
            return True
        stack = introspect.statements_of(item.eqn, libraries=True)
        # Nothing called the whole program, which a `jit` around the user's function is.
        return bool(stack) and stack[0].of_library


def _loose(item: Item) -> Iterator[Item]:
    """The equations of an item, and the calls of the user's functions in it."""
    todo = [item]
    while todo:
        one = todo.pop()
        if not one.is_group or one.called:
            yield one
        if not one.called:
            todo.extend(reversed(one.children))


def _joined(parts: Sequence[Lifted]) -> list[Lifted]:
    """The calls of a function, each with all of its parts between which others are.

    Parts of one call are from different statements; a statement that comes again is of another.
    """
    calls: list[list[Lifted]] = []
    places: set[tuple[int, ...]] = set()
    for part in parts:
        stacks = (introspect.statements_of(eqn) for _, eqn in part.item.eqns)
        found = {stack[-1].place for stack in stacks if stack}
        same = bool(calls) and calls[-1][0].item.function == part.item.function
        if same and calls[-1][0].block is part.block and places.isdisjoint(found):
            calls[-1].append(part)
            places |= found
        else:
            calls.append([part])
            places = found
    return [call[0]._replace(item=_whole([part.item for part in call])) for call in calls]


def _whole(parts: Sequence[Item]) -> Item:
    """A call of a function with all of its parts."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return replace(first, open=False)
    ends = (item.eqns[k][0].short for item, k in ((first, 0), (last, -1)))
    inside = (
        item.children if item.kind == "callback" else [replace(item, note="", open=False)]
        for item in parts
    )
    return replace(
        first,
        address=ElementRow(first.address.home, "lift", "", *ends).address,
        eqns=[pair for item in parts for pair in item.eqns],
        kind="callback",
        title=first.called,
        note="",
        open=False,
        children=[child for children in inside for child in children],
        tags=[tag for item in parts for tag in item.tags],
    )


def _statement(item: Item) -> str:
    """The statement of the user's that made all of an item; "" where it is not one."""
    first, last = (introspect.statements_of(item.eqns[k][1])[:1] for k in (0, -1))
    return first[0].text if first and last and first[0].place == last[0].place else ""


def _rest_of(level: Level, title: str) -> str:
    """`rest of diffrax`: by the library that has the function which the user called.

    It is the outermost one that the user's statement names; if it names none, it is the library
    that most in the outermost equation is from.
    """
    eqns = (level.item.eqn, *level.block.jaxpr.eqns)
    stacks = [introspect.statements_of(eqn, libraries=True) for eqn in eqns]
    users = (one.text for one in stacks[0] if not one.of_library)
    named = (_named(stacks, text) for text in (title, next(users, "")))
    name = next(filter(None, named), "")
    if not name:
        outermost = (_library(one.file) for stack in stacks for one in stack[:1])
        names = collections.Counter(outermost)
        name = next((name for name, _ in names.most_common() if name), "the library")
    return f"rest of {name}"


def _named(stacks: Sequence[Sequence[introspect.Statement]], text: str) -> str:
    """The library of the outermost function that a text of the user's names, or ""."""
    words = {*re.findall(r"\w+", text)}
    frames = (one for stack in stacks for one in reversed(stack) if one.of_library)
    named = (one for one in frames if one.function.split(".")[-1] in words)
    return next(filter(None, (_library(one.file) for one in named)), "")


def _library(file: str) -> str:
    """The name of the package that a file is from; "" of one that is not installed."""
    parts = PurePath(file).parts
    at = [k for k, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    return PurePath(parts[at[-1] + 1]).stem if at else ""


def _depth(call: Lifted) -> int:
    return sum(is_loop(level.item.eqn) for level in call.way)


def _loops(call: Lifted) -> list[str]:
    """The loops around a call: `scan ×100`, `2 nested while`."""
    named = ((one.item.eqn, one.nested.trips) for one in call.way)
    every = [
        eqn.primitive.name + (f" ×{trips}" if trips is not None else "")
        for eqn, trips in named
        if is_loop(eqn)
    ]
    runs = ((name, len(list(same))) for name, same in itertools.groupby(every))
    return [name if number == 1 else f"{number} nested {name}" for name, number in runs]
