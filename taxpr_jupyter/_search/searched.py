"""What a search looks at: every place of a program, with its texts, found when it is needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr import Address
from taxpr_jupyter._search.types import TYPE
from taxpr_jupyter._text import short
from taxpr_jupyter._tree import labels


class Around(NamedTuple):
    """A step on the way to a place, of which selectors look at the equation only."""

    eqn: Any


class Row(NamedTuple):
    """A place; also what selectors of taxpr choose from.

    Attributes:
        address: Its address.
        eqn: The equation; None for an input or a constant.
        steps: The equations around it, outermost first.
        vars: The variables that it makes.
        name: Of an input or output its name.
    """

    address: Address
    eqn: Any
    steps: Any
    vars: Sequence[Any]
    name: str


class Searched:
    """The places of one program: equations, inputs, constants and outputs, in program order.

    What is known of them is in lists of the same order, each found once.

    Args:
        program: The program.
    """

    def __init__(self, program: Any) -> None:
        self._program = program

    @functools.cached_property
    def rows(self) -> Sequence[Row]:
        """The places."""
        rows: list[Row] = []

        def walk(
            home: Address, jaxpr: Any, names: Sequence[str], steps: tuple[Around, ...]
        ) -> None:
            for k, var in enumerate(jaxpr.constvars):
                rows.append(Row(home / f"const{k}", None, steps, (var,), ""))
            for k, (var, name) in enumerate(zip(jaxpr.invars, names, strict=True)):
                # The roles in a nested jaxpr, such as "carry", are no names.
                rows.append(Row(home / f"in{k}", None, steps, (var,), "" if steps else name))
            for local, eqn in taxpr.numbered(jaxpr):
                address = home / local
                rows.append(Row(address, eqn, steps, eqn.outvars, ""))
                for nested in taxpr.nested_jaxprs(eqn):
                    inside = (*steps, Around(eqn))
                    walk(address / nested.label, nested.jaxpr, nested.in_roles, inside)

        walk(Address(), self._program, self._program.in_names, ())
        # What an output is, the equation that makes it says.
        rows += [
            Row(Address(f"out{k}"), None, (), (), n) for k, n in enumerate(self._program.out_names)
        ]
        return rows

    @functools.cached_property
    def at(self) -> dict[str, int]:
        """The number of each row, by its address."""
        return {row.address: k for k, row in enumerate(self.rows)}

    @functools.cached_property
    def letters(self) -> dict[Any, str]:
        """The letters of variables, as `print(jaxpr)` shows them."""
        return taxpr.var_names(self._program.jaxpr)

    @functools.cached_property
    def long_names(self) -> dict[str, str]:
        """`float32` for `f32`, of the dtypes of this program."""
        names = {}
        for aval, text in self._avals.values():
            own = TYPE.fullmatch(text)
            if own and own[1] not in names:
                names[own[1]] = str(getattr(aval, "dtype", ""))
        return names

    @functools.cached_property
    def _avals(self) -> dict[int, tuple[Any, str]]:
        """Avals with their texts, by id: their hash takes long, and many are one object."""
        avals = {id(var.aval): var.aval for row in self.rows for var in row.vars}
        texts: dict[Any, str] = {}
        for aval in avals.values():
            if aval not in texts:
                texts[aval] = short.aval_text(aval)
        return {number: (aval, texts[aval]) for number, aval in avals.items()}

    @functools.cached_property
    def types(self) -> Sequence[Sequence[str]]:
        """The types that each row makes."""
        known = self._avals
        return [[known[id(var.aval)][1] for var in row.vars] for row in self.rows]

    @functools.cached_property
    def scopes(self) -> Sequence[str]:
        """The whole scope of each equation; that of its name stack is relative to those around."""
        around: dict[int, str] = {}

        def scope(row: Row) -> str:
            if row.eqn is None:
                return ""
            if id(row.steps) not in around:
                around[id(row.steps)] = "/".join(_scope_of(step.eqn) for step in row.steps)
            return "/".join(filter(None, (around[id(row.steps)], _scope_of(row.eqn))))

        return [scope(row) for row in self.rows]

    @functools.cached_property
    def scope_rows(self) -> dict[str, int]:
        """For each scope a row in it, which is an equation where there is one."""
        return {scope: k for k, scope in enumerate(self.scopes)}

    @functools.cached_property
    def sources(self) -> Sequence[taxpr.Source | None]:
        """Where each equation was made."""
        return [taxpr.source_of(row.eqn) if row.eqn else None for row in self.rows]

    @functools.cached_property
    def columns(self) -> dict[str, Callable[[], Sequence[str]]]:
        """The texts of each row by what they are, "" where there is none."""

        def of_eqns(text: Callable[[Any], str]) -> Callable[[], Sequence[str]]:
            return functools.cache(
                lambda: [short.visible(text(row.eqn)) if row.eqn else "" for row in self.rows]
            )

        return {
            "primitive": of_eqns(lambda eqn: "" if taxpr.is_tag(eqn) else eqn.primitive.name),
            "tag": of_eqns(lambda eqn: _tag_text(eqn) if taxpr.is_tag(eqn) else ""),
            "label": of_eqns(_label),
            "scope": lambda: self.scopes,
            "function": functools.cache(
                lambda: [
                    short.visible(short.function_name(source)) if source else ""
                    for source in self.sources
                ]
            ),
            "source": functools.cache(
                lambda: [
                    short.visible(f"{source.file}:{source.line}") if source else ""
                    for source in self.sources
                ]
            ),
            "name": functools.cache(lambda: [short.visible(row.name) for row in self.rows]),
        }


def _scope_of(eqn: Any) -> str:
    return short.visible(taxpr.scope_of(eqn))


def _tag_text(eqn: Any) -> str:
    params = taxpr.tag_params(eqn)
    name = params.pop("name", None)
    more = [f"{key}={short.param_text(value)}" for key, value in params.items()]
    return " ".join([*([str(name)] if name is not None else []), *more])


def _label(eqn: Any) -> str:
    if taxpr.is_hop(eqn):
        return labels.hop_title(eqn)
    # What type it is, is found in another way.
    return " ".join(labels.tag_lines(eqn) if taxpr.is_tag(eqn) else labels.operation_lines(eqn))
