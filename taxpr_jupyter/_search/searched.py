"""The searchable texts of every place of a program, computed on demand."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from taxpr import introspect
from taxpr_jupyter._analysis.index import ElementPlace, Index
from taxpr_jupyter._text import short
from taxpr_jupyter._text.short import Where, visible
from taxpr_jupyter._tree import labels


class Searched:
    """The rows of one program: its equations, inputs, constants and outputs, in program order.

    Each fact about them is a list with an item for each row, computed once.
    """

    def __init__(self, index: Index, where: Where) -> None:
        self._index = index
        self._program = index.program
        self._where = where

    @functools.cached_property
    def rows(self) -> Sequence[ElementPlace]:
        """The places, without the outputs of nested jaxprs, whose values other rows make."""
        return [
            place
            for place in self._index.places
            if place.made or place.eqn is not None or not place.home.steps
        ]

    @functools.cached_property
    def at(self) -> dict[str, int]:
        """The number of each row, by its address."""
        return {row.address: k for k, row in enumerate(self.rows)}

    @functools.cached_property
    def letters(self) -> dict[Any, str]:
        """The letters of variables, as `print(jaxpr)` shows them."""
        return introspect.var_names(self._program.jaxpr)

    @functools.cached_property
    def _avals(self) -> dict[int, tuple[Any, str]]:
        """Avals with their texts, by id: their hash takes long, and many share an object."""
        avals = {id(var.aval): var.aval for row in self.rows for var in row.made}
        texts: dict[Any, str] = {}
        for aval in avals.values():
            if aval not in texts:
                texts[aval] = short.aval_text(aval)
        return {number: (aval, texts[aval]) for number, aval in avals.items()}

    @functools.cached_property
    def types(self) -> Sequence[Sequence[str]]:
        """The types that each row makes."""
        known = self._avals
        return [[known[id(var.aval)][1] for var in row.made] for row in self.rows]

    @functools.cached_property
    def scopes(self) -> Sequence[str]:
        """The whole scope of each equation: its own, after the outer equations' scopes."""
        around = {
            id(home): "/".join(_scope_of(step.eqn) for step in home.steps)
            for home in self._index.homes.values()
        }

        def scope(row: ElementPlace) -> str:
            if row.eqn is None:
                return ""
            return "/".join(filter(None, (around[id(row.home)], _scope_of(row.eqn))))

        return [scope(row) for row in self.rows]

    @functools.cached_property
    def sources(self) -> Sequence[introspect.Source | None]:
        """The source line that made each equation."""
        return [introspect.source_of(row.eqn) if row.eqn else None for row in self.rows]

    def _variables(self) -> Sequence[str]:
        """The variables of the source that held the values of each row."""
        held: dict[str, dict[str, None]] = {}
        for one in self._program.variables():
            held.setdefault(one.address.eqn, {})[one.short] = None
        return [visible(", ".join(held.get(row.address, ()))) for row in self.rows]

    @functools.cached_property
    def columns(self) -> dict[str, Callable[[], Sequence[str]]]:
        """The kinds of text, each with a function that gives the text of each row, or ""."""

        def texts(things: Iterable[Any], text: Callable[[Any], str]) -> Sequence[str]:
            return [visible(text(thing)) if thing else "" for thing in things]

        def of_eqns(text: Callable[[Any], str]) -> Callable[[], Sequence[str]]:
            return functools.cache(lambda: texts((row.eqn for row in self.rows), text))

        def of_sources(text: Callable[[introspect.Source], str]) -> Callable[[], Sequence[str]]:
            return functools.cache(lambda: texts(self.sources, text))

        # The roles of the inputs of a nested jaxpr, such as "carry", are no names.
        ends = ("in", self._program.in_names), ("out", self._program.out_names)
        names = {f"{word}{k}": name for word, own in ends for k, name in enumerate(own)}
        return {
            "primitive": of_eqns(lambda eqn: "" if introspect.is_tag(eqn) else eqn.primitive.name),
            "tag": of_eqns(_tag_name),
            "label": of_eqns(_label),
            "scope": lambda: self.scopes,
            "function": of_sources(short.function_name),
            "source": of_sources(self._where),
            "path": of_sources(lambda source: f"{source.file}:{source.line}"),
            "variable": functools.cache(self._variables),
            "name": functools.cache(
                lambda: texts((names.get(row.address) for row in self.rows), str)
            ),
        }


def _scope_of(eqn: introspect.JaxprEqn) -> str:
    return visible(introspect.scope_of(eqn))


def _tag_name(eqn: introspect.JaxprEqn) -> str:
    name = introspect.tag_params(eqn).get("name") if introspect.is_tag(eqn) else None
    return "" if name is None else str(name)


def _label(eqn: introspect.JaxprEqn) -> str:
    """The label of an equation's node without types; for a tag, all its params."""
    if introspect.is_tag(eqn):
        params = introspect.tag_params(eqn).items()
        return " ".join(["tag", *(f"{k}={short.param_text(v)}" for k, v in params if k != "name")])
    return (
        labels.hop_title(eqn) if introspect.is_hop(eqn) else " ".join(labels.operation_lines(eqn))
    )
