"""Write source locations for a notebook: ``cell 3, line 4 in f``."""

from __future__ import annotations

import linecache
import pathlib
import re
import sys

import taxpr

_IPYTHON_7 = re.compile(r"<ipython-input-(\d+)-")


def source_text(source: taxpr.Source | None) -> str:
    """``cell 3, line 4 in f`` or ``model.py:12 in f``; empty if the source is unknown."""
    if source is None:
        return ""
    cell = _cell_number(source.file)
    if cell is None:
        return f"{pathlib.PurePath(source.file).name}:{source.line} in {source.function}"
    return f"{f'cell {cell}'.strip()}, line {source.line} in {source.function}"


def file_text(file: str) -> str:
    """``cell 3`` or ``model.py``."""
    cell = _cell_number(file)
    return pathlib.PurePath(file).name if cell is None else f"cell {cell}".strip()


def source_line(source: taxpr.Source | None) -> str:
    """The text of the line; empty if it cannot be read."""
    return linecache.getline(source.file, source.line).strip() if source else ""


def _cell_number(file: str) -> str | None:
    """The number of the cell with this file name; None for a real file.

    IPython 7 in a kernel does not record the numbers; then it is the empty string.
    """
    if match := _IPYTHON_7.match(file):
        return match[1]
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = format_name(file) if format_name else None
    if found:
        return re.sub(r"\D", "", found[1])
    return "" if "ipykernel_" in pathlib.PurePath(file).parent.name else None
