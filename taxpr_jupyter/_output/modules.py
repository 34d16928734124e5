"""Browser modules as one text: a page opened from a file, and a widget, may load no other."""

import pathlib
import re

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.{1,2}/[^"\n]*)";$', re.MULTILINE)
_AS = re.compile(r"\s+as\s+")
_EXPORT = re.compile(r"^export (?=(?:async )?(?:class|function|const) (\w+))", re.MULTILINE)
# Lines that are a comment: a page has all of the text, and a widget sends it.
_COMMENT = re.compile(
    r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL
)
# Not the function `import(...)`, nor `import.meta`.
_OTHER = re.compile(r"^[ \t]*(?:import\b(?!\s*[(.])|export\b).*", re.MULTILINE)


def linked(entry: pathlib.Path) -> str:
    """The text of a module after those that it imports, and that these import, each once.

    These become functions that return what they export. Lines that are a comment are left out.

    Raises:
        ValueError: For a statement that is neither an import of names out of a file nor an export
            of a class, function or const; the entry, such as a widget, may have a default export.
    """
    names: dict[pathlib.Path, str] = {}
    done: list[str] = []  # the modules that are imported first

    def text_of(file: pathlib.Path) -> str:
        def imported(match: re.Match[str]) -> str:
            other = (file.parent / match[2]).resolve()
            if other not in names:
                text = text_of(other)
                names[other] = f"{other.stem}_{len(names)}"
                body, exports = _EXPORT.sub("", text), ", ".join(_EXPORT.findall(text))
                done.append(
                    f"const {names[other]} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
                )
            return f"const {_AS.sub(': ', match[1])} = {names[other]};"

        text = _IMPORT.sub(imported, _COMMENT.sub("", file.read_text("utf-8")))
        for left in _OTHER.findall(_EXPORT.sub("", text)):
            if file != entry or not left.startswith("export default "):
                raise ValueError(
                    f"{file.name}: taxpr_jupyter cannot put the statement {left.strip()!r} into "
                    'one text with the other modules; write import { a, b as c } from "./file.js"; '
                    "and export before class, function or const, each at the beginning of a line"
                )
        return text

    own = text_of(entry)
    return "\n".join([*done, own])
