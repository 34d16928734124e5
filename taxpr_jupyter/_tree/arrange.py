"""Arrange items side by side: put together what repeats itself, and cut long rows into runs."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import taxpr
from taxpr import introspect
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._text import short as _text
from taxpr_jupyter._text.elements import ElementRow
from taxpr_jupyter._tree.call_stacks import Units
from taxpr_jupyter._tree.repeats import Repeat, repeat_in
from taxpr_jupyter._tree.tree import SOURCE, GroupKind, Item

MANY = 8  # of one place are put together, though their shapes differ
_LOOP = re.compile(r"for .+ in |while ")  # the head of a loop of Python
_TAGS = 40  # with more tags than this in a jaxpr, those of a folded group are folded, too


class Arranger:
    """Makes groups of the units of one jaxpr."""

    def __init__(
        self, items: Sequence[Item], units: Units, home: taxpr.Address, few: int, keys: Keys
    ) -> None:
        self._items = items
        self._units = units
        self._home = home
        self._few = few
        self._keys = keys
        self._show_tags = len(items) - len(units) <= _TAGS
        self._pairs = [item.eqns[0] for item in items]
        # How many units an item has.
        self._sizes: introspect.ByIdentity[int] = introspect.ByIdentity()

    def arranged(self, items: list[Item], start: int) -> list[Item]:
        """Groups repetitions, and items that are too many for one level."""
        heads, bounds = self._heads(items, start)
        keys = [self._item_key(items[i], *bounds[i]) for i in heads]
        repeat, of_place = repeat_in(keys), False
        if repeat is None or not any(items[i].is_group for i in heads[repeat.start : repeat.stop]):
            repeat, of_place = self._of_one_place([(items[i], *bounds[i]) for i in heads]), True
        if repeat is None:
            return self.few_of(items, start)
        heads.append(len(items))
        parts, spans = [], []
        for k in range(repeat.start, repeat.stop, repeat.period):
            a, b = heads[k], heads[k + repeat.period]
            parts.append(items[a:b])
            spans.append((bounds[a][0], bounds[b - 1][1]))
        before, after = items[: heads[repeat.start]], items[heads[repeat.stop] :]
        return [
            *self.few_of(before, start),
            self.repeat(parts, spans, of_place=of_place),
            *self.few_of(after, spans[-1][1]),
        ]

    def _heads(self, items: Sequence[Item], start: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The items that are no tags; and for each item its range of units."""
        sizes = [self._sizes.of(item, _units_in) for item in items]
        bounds = list(itertools.pairwise(itertools.accumulate(sizes, initial=start)))
        return [i for i, size in enumerate(sizes) if size], bounds

    def _item_key(self, item: Item, start: int, stop: int) -> int:
        if not item.is_group:
            return self._units.key(start)
        same = tuple(self._units.keys(start, stop))
        return self._keys.number((item.kind, re.sub(r"\d+", "#", item.title), same))

    def _of_one_place(self, items: Sequence[tuple[Item, int, int]]) -> Repeat | None:
        """A repetition except for shapes, as `jax.tree.map` makes, if it is long."""
        if len(items) < MANY:
            return None
        codes = self._units.codes
        repeat = repeat_in([self._keys.number(tuple(codes[a:b])) for _, a, b in items])
        if repeat is None or 2 * (repeat.stop - repeat.start) <= len(items):
            return None
        named = any(self.has_name(item) for item, _, _ in items[repeat.start : repeat.stop])
        much = len(items) > 2 * self._few and (named or repeat.period > 1)
        return repeat if much or (named and repeat.times >= MANY) else None

    def few_of(self, items: list[Item], start: int) -> list[Item]:
        """Cuts items that are too many for one level into runs.

        First only equations without nested jaxprs, between what has a name of its own.
        """
        heads, bounds = self._heads(items, start)
        if len(heads) <= 2 * self._few:
            return items
        heads.append(len(items))

        def of(cuts: Sequence[int]) -> list[Item]:
            made = items[: heads[0]]
            for a, b in itertools.pairwise(cuts):
                inside = items[heads[a] : heads[b]]
                span = bounds[heads[a]][0], bounds[heads[b] - 1][1]
                made += [self.run(*span, inside)] if b - a > 1 else inside
            return made

        named = [i for i, at in enumerate(heads[:-1]) if self.has_name(items[at])]
        if 0 < len(named) <= self._few:
            return of(sorted({0, len(heads) - 1, *named, *(i + 1 for i in named)}))
        keys = [self._units.place(bounds[at][0]) for at in heads[:-1]]
        return of(_cuts(len(heads) - 1, self._few, keys.__getitem__))

    @staticmethod
    def has_name(item: Item) -> bool:
        """Whether it is a group, or an equation that holds several."""
        if item.is_group:
            return True
        return any(len(nested.jaxpr.eqns) > 1 for nested in introspect.nested_jaxprs(item.eqn))

    # --- making groups ----------------------------------------------------------------------------

    def run(self, start: int, stop: int, children: list[Item]) -> Item:
        children = self.few_of(children, start)
        title = self._units.function(start, stop)
        sources = self._units.sources(start, stop)
        own = [source.line for source in sources if _text.function_name(source) == title]
        first, last = min(own, default=0), max(own, default=0)
        note = f"lines {first}–{last}" if first < last else f"line {first}" if own else ""
        return self.group("run", title, start, stop, children, note)

    def repeat(
        self,
        parts: list[list[Item]],
        spans: list[tuple[int, int]],
        function: str = "",
        of_place: bool = False,
    ) -> Item:
        """A group of repetitions: the first time, and a group of the other times.

        It is called like the function that is given, or like what it consists of; ``of_place`` says
        that one place in the source made all, of any shapes, and it is called like that.
        """
        start, stop = spans[0][0], spans[-1][1]
        alike = "times" if of_place else "alike"
        function = self._units.made_by(start, stop) if of_place else function
        times: list[list[Item]] = []
        names: list[str] = []
        source = any(item.kind in SOURCE for item in parts[0])
        for k, (part, (a, b)) in enumerate(zip(parts, spans, strict=True)):
            titles = [item.title for item in part if item.is_group]
            name = function or (_from_to(titles[0], titles[-1]) if titles else "")
            if len(self._heads(part, a)[0]) > 1:
                name = name or ("" if source else self._units.function(a, b))
                note = f"{k + 1} of {len(parts)}"
                part = [self.group("once", "" if source else name, a, b, part, note)]
            times.append(part)
            names.append(name)
        others = self.few_of([item for part in times[1:] for item in part], spans[1][0])
        of_others = "" if source else _from_to(names[1], names[-1])
        if not (source or of_others):
            of_others = self._units.function(start, stop)
        note = f"{len(parts) - 1} more {alike}"
        more = self.group("more", of_others, spans[1][0], stop, others, note)
        title = _from_to(names[0], names[-1]) or self._units.function(start, stop)
        return self.group("repeat", title, start, stop, [*times[0], more], f"{len(parts)} {alike}")

    def group(
        self,
        kind: GroupKind,
        title: str,
        start: int,
        stop: int,
        children: Sequence[Item],
        note: str = "",
    ) -> Item:
        if len(children) == 1 and children[0].is_group:  # the same equations twice
            only = children[0]
            more = only.kind != "once" and kind not in (*SOURCE, "callback")
            inner = only.title.removeprefix("∂ ") if title.startswith("∂ ") else only.title
            names = [title, *([inner] if more else [])]
            if kind == "pass" or only.kind == "repeat":
                is_loop = only.kind == "repeat" and bool(_LOOP.match(inner)) and inner not in title
                kind = kind if only.kind != "repeat" else "repeat"
                note = f"{inner} · {only.note}" if is_loop else only.note
            title, children = "/".join(dict.fromkeys(names)), only.children
            note = note or only.note
        a, b = self._units.starts[start], self._units.starts[stop]
        tags, eqns = [], self._pairs[a:b]
        if self._show_tags and b - a > stop - start:
            tags = [item for item in self._items[a:b] if introspect.is_tag(item.eqn)]
            eqns = [pair for pair in eqns if not introspect.is_tag(pair[1])]
        address = ElementRow(self._home, "group", "", start, stop - 1).address
        within = children[0].within_backward
        return Item(
            address, eqns, kind, title, note, children, tags, stop=b, within_backward=within
        )


def _units_in(item: Item) -> int:
    return sum(not introspect.is_tag(eqn) for _, eqn in item.eqns)


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first} … {last}"


def _cuts(length: int, few: int, key_of: Callable[[int], tuple[Any, ...]]) -> list[int]:
    """Where to cut into at most `few` pieces; where the source changes, if possible."""
    pieces = min(few, -(-length // few))
    step = length / pieces

    def score(cut: int, ideal: float) -> tuple[int, float]:
        pairs = zip(key_of(cut), key_of(cut - 1), strict=True)
        return ([*(a != b for a, b in pairs), True].index(True), abs(cut - ideal))

    cuts = [0]
    for k in range(1, pieces):
        ideal = k * step
        window = range(int(ideal - step / 3), int(ideal + step / 3) + 1)
        cuts.append(min(window, key=lambda cut: score(cut, ideal)))
    return [*cuts, length]
