"""Browser modules as one text: a page opened from a file, and a widget, may load no other."""

from __future__ import annotations

import pathlib
import re

_IMPORT = re.compile(r'^import (\{.*\}) from "(\.{1,2}/.*)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:class|function|const) (\w+))", re.MULTILINE)


def linked(entry: pathlib.Path) -> str:
    """The text of a module after those that it imports, and that these import, each once.

    These become functions that return what they export. Imports are one line each, of names as
    they are; files have different names.
    """
    done: dict[str, str] = {}  # by name, those that are imported first

    def text_of(file: pathlib.Path) -> str:
        def imported(match: re.Match[str]) -> str:
            other = (file.parent / match[2]).resolve()
            name = f"{other.stem}_js"
            if name not in done:
                text = text_of(other)
                exports = ", ".join(_EXPORT.findall(text))
                body = _EXPORT.sub("", text)
                done[name] = f"const {name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
            return f"const {match[1]} = {name};"

        return _IMPORT.sub(imported, file.read_text("utf-8"))

    own = text_of(entry)
    return "\n".join([*done.values(), own])
