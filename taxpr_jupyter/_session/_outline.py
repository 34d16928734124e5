"""A program and its tags as text, for terminals and wherever there is no picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._picture._index import Home, Index
from taxpr_jupyter._picture._model import count_of
from taxpr_jupyter._picture._text import aval_text, literal_text, param_text, visible
from taxpr_jupyter._session._sites import SiteRow

_TAG, _INJECTED = "●", "◆"
_STYLES = {"tag": "\x1b[1;35m", "injected": "\x1b[1;32m", "dim": "\x1b[2m", "head": "\x1b[1m"}
_RESET = "\x1b[0m"


class _Line(NamedTuple):
    mark: str
    depth: int
    leaf: str  # the end of the address, which is enough where it stands
    text: str
    address: str


def outline(
    program: taxpr.Program,
    index: Index,
    sites: Sequence[SiteRow],
    *,
    call: str,
    color: bool = False,
    limit: int | None = None,
) -> str:
    """The equations, one in a line, nested ones indented; tags are marked with ● or ◆.

    Args:
        program: The program with the added tags.
        index: Its places.
        sites: Its tags.
        call: What was traced.
        color: Whether to use the colours of a terminal.
        limit: At most this many lines of the program; None for all.
    """
    lines = rows(program, index, sites, call=call, color=color, limit=limit)
    return "\n".join(line for _, line in lines)


def rows(
    program: taxpr.Program,
    index: Index,
    sites: Sequence[SiteRow],
    *,
    call: str,
    color: bool = False,
    limit: int | None = None,
) -> list[tuple[str, str]]:
    """The lines of `outline`, each with the address of what it is about, or ""."""
    writer = _Writer(program, index, sites)
    lines = list(writer.lines(index.homes[""], 0))
    more = 0 if limit is None else max(0, len(lines) - limit)
    lines = lines[: len(lines) - more]
    width = max((2 * line.depth + len(line.leaf) for line in lines), default=0)
    head = f"{call}: {count_of(len(index.eqns) - len(sites), 'equation')}, "
    out = [("", _styled(head + count_of(len(sites), "tag"), "head", color))]
    for line in lines:
        place = "  " * line.depth + line.leaf.ljust(width - 2 * line.depth)
        style = {_TAG: "tag", _INJECTED: "injected"}.get(line.mark)
        if style:
            text = _styled(f"{line.mark} {place}  {line.text}", style, color)
        else:
            text = f"  {_styled(place, 'dim', color)}  {line.text}".rstrip()
        out.append((line.address, text))
    if more:
        out.append(("", f"  … {count_of(more, 'more line')}; .text() shows all"))
    return out


def tags_table(sites: Sequence[SiteRow], *, color: bool = False) -> str:
    """A table of all tags: name, address, type, place, injector, source."""
    if not sites:
        return (
            "No tags. session.tag(address) adds one, taxpr.tag(value, name=...) in the source too."
        )
    rows = [("", "tag", "address", "type", "in", "injector", "source")]
    for site in sites:
        injector = site.injector
        rows.append(
            (
                _INJECTED if injector else _TAG,
                visible(site.name or str(dict(site.params))),
                site.address,
                site.avals,
                site.where,
                f"{_injector_text(site)}{' (!)' if injector and injector.error else ''}",
                site.source,
            )
        )
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    styles = ["head", *("injected" if site.injector else "tag" for site in sites)]
    errors = [
        f"(!) {site.injector.error}" for site in sites if site.injector and site.injector.error
    ]
    styled = [_styled(line, style, color) for line, style in zip(lines, styles, strict=True)]
    return "\n".join([*styled, *errors])


class _Writer:
    def __init__(self, program: taxpr.Program, index: Index, sites: Sequence[SiteRow]) -> None:
        self._program = program
        self._index = index
        self._sites = {site.address: site for site in sites}
        self._letters = taxpr.var_names(program.jaxpr)

    def lines(self, home: Home, depth: int) -> Iterator[_Line]:
        jaxpr, nested = home.jaxpr, home.nested
        names = nested.in_roles if nested else self._program.in_names
        for k, var in enumerate(jaxpr.constvars):
            yield _Line(" ", depth, f"const{k}", self._value(var), home.address_of(f"const{k}"))
        for k, var in enumerate(jaxpr.invars):
            text = f"{self._value(var)}  {visible(names[k])}"
            yield _Line(" ", depth, f"in{k}", text, home.address_of(f"in{k}"))
        for local, eqn in taxpr.numbered(jaxpr):
            address = home.address_of(local)
            site = self._sites.get(address)
            text = self._equation(eqn)
            if site is None:
                yield _Line(" ", depth, local, text, address)
            else:
                mark, text = (
                    (_INJECTED, f"{text} ← {_injector_text(site)}")
                    if site.injector
                    else (_TAG, text)
                )
                yield _Line(mark, depth, local, text, address)
            for inner in self._index.nested_of(address):
                facts = ", ".join(f"{k} {visible(str(v))}" for k, v in inner.facts.items())
                title = visible(inner.title)
                yield _Line(
                    " ",
                    depth + 1,
                    inner.address.rpartition("/")[2] + ":",
                    f"{title} ({facts})" if facts else title,
                    inner.address,
                )
                yield from self.lines(inner, depth + 2)
        names = nested.out_roles if nested else self._program.out_names
        for k, atom in enumerate(jaxpr.outvars):
            text = f"{self._operand(atom)}  {visible(names[k])}"
            yield _Line(" ", depth, f"out{k}", text, home.address_of(f"out{k}"))

    def _equation(self, eqn: Any) -> str:
        outs = " ".join(self._value(var) for var in eqn.outvars)
        operands = " ".join(self._operand(atom) for atom in eqn.invars)
        head = eqn.primitive.name
        if taxpr.is_tag(eqn):
            params = ", ".join(
                f"{k}={visible(param_text(v))}" for k, v in taxpr.tag_params(eqn).items()
            )
            head = f"tag[{params}]"
        return f"{outs} = {head} {operands}".strip()

    def _value(self, var: Any) -> str:
        letter = "_" if taxpr.is_dropped(var) else self._letters.get(var, "_")
        return f"{letter}:{aval_text(var.aval)}"

    def _operand(self, atom: Any) -> str:
        return literal_text(atom) if taxpr.is_literal(atom) else self._letters.get(atom, "_")


def _injector_text(site: SiteRow) -> str:
    if site.injector is None:
        return ""
    values = ", ".join(f"{name}={value!r}" for name, value in site.injector.values.items())
    return f"{site.injector.name}({values})"


def _styled(text: str, style: str, color: bool) -> str:
    return f"{_STYLES[style]}{text}{_RESET}" if color else text
