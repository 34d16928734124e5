"""Write a program and its tags as text, for terminals and other places without a picture."""

from collections.abc import Sequence

from taxpr import Address
from taxpr_jupyter._edits.sites import SiteRow
from taxpr_jupyter._lines.jaxpr_text import jaxpr_rows
from taxpr_jupyter._lines.line import ProgramLine
from taxpr_jupyter._lines.rows import outline_rows, plain
from taxpr_jupyter._model.model import count_of
from taxpr_jupyter._text.short import visible

_MARKS = {"tag": "●", "injected": "◆"}
_STYLES = {"tag": "\x1b[1;35m", "injected": "\x1b[1;32m", "dim": "\x1b[2m", "head": "\x1b[1m"}
_RESET = "\x1b[0m"


def rows(
    lines: Sequence[ProgramLine],
    sites: Sequence[SiteRow],
    *,
    call: str,
    color: bool,
    eqns: int,
    more: int,
) -> list[tuple[str, str]]:
    """The equations, one in a line, nested ones indented; tags are marked with ● or ◆.

    Returns:
        For each line its address, or "", and the text.
    """
    injectors = {site.address: _injector_text(site) for site in sites if site.injector}
    places = [f"{'  ' * line.depth}{_place(line)}" for line in lines]
    width = max(map(len, places), default=0)
    out = [("", _headed(call, eqns, len(sites), color))]
    for line, place in zip(lines, places, strict=True):
        text = _listed(line)
        if line.kind in _MARKS:
            text += f" ← {injectors[line.address]}" if line.address in injectors else ""
            text = _styled(f"{_MARKS[line.kind]} {place.ljust(width)}  {text}", line.kind, color)
        else:
            text = f"  {_styled(place.ljust(width), 'dim', color)}  {text}".rstrip()
        out.append((line.address, text))
    return out + [("", text) for text in _more(more, ".text() shows all")]


def folded_text(
    lines: Sequence[ProgramLine],
    sites: Sequence[SiteRow],
    *,
    outline: bool,
    call: str,
    color: bool = False,
    limit: int | None = None,
) -> str:
    """The folded program as the text of a jaxpr or as an outline."""
    shown = sum(line.kind in ("eqn", "hop", "tag", "injected") for line in lines)
    eqns = shown + sum(line.hidden for line in lines) - len(sites)
    more = 0 if limit is None else max(0, len(lines) - limit)
    lines = lines[: len(lines) - more]
    if outline:
        text = plain(outline_rows(lines), color, gap="  ", twists=True)
    else:
        text = plain(jaxpr_rows(lines, complete=not more), color)
    return "\n".join(
        [_headed(call, eqns, len(sites), color), text, *_more(more, "fold some of it")]
    )


def _headed(call: str, eqns: int, tags: int, color: bool) -> str:
    return _styled(f"{call}: {count_of(eqns, 'equation')}, {count_of(tags, 'tag')}", "head", color)


def _more(number: int, what: str) -> list[str]:
    return [f"  … {count_of(number, 'more line')}; {what}"] if number else []


def _place(line: ProgramLine) -> str:
    local = Address(line.address).local
    return f"{local}:" if line.kind == "jaxpr" else local


def _listed(line: ProgramLine) -> str:
    """A line of the listing, with its address."""
    match line.kind:
        case "jaxpr":
            return line.text
        case "input" | "output" | "const":
            return f"{' '.join((*line.made, *line.used))}  {line.text}"
        case "tag" | "injected":
            name = f"{line.name}[{', '.join(line.params)}]"
        case _:
            name = line.name
    made = f"{' '.join(line.made)} = " if line.made else ""
    held = f"  # {line.held}" if line.held else ""
    return f"{made}{name} {' '.join(line.used)}".strip() + held


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
                _MARKS["injected" if injector else "tag"],
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
    notes = [
        f"({site.address}) {one.note}" for site in sites if (one := site.injector) and one.note
    ]
    styled = [_styled(line, style, color) for line, style in zip(lines, styles, strict=True)]
    return "\n".join([*styled, *errors, *notes])


def _injector_text(site: SiteRow) -> str:
    if site.injector is None:
        return ""
    values = ", ".join(f"{name}={value!r}" for name, value in site.injector.values.items())
    return f"{site.injector.name}({values}){', off' * site.injector.off}"


def _styled(text: str, style: str, color: bool) -> str:
    return f"{_STYLES[style]}{text}{_RESET}" if color else text
