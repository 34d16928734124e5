"""Source locations for people: ``cell 3, line 4 in f``."""

import linecache

from taxpr import introspect


def source_text(source: introspect.Source | None) -> str:
    """``cell 3, line 4 in f`` or ``model.py:12 in f``; empty if the source is unknown."""
    return source.short if source else ""


def source_line(source: introspect.Source | None) -> str:
    """The text of the line; empty if it cannot be read."""
    return linecache.getline(source.file, source.line).strip() if source else ""
