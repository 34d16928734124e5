"""The edited lines as a unified diff, which `git apply` and ``patch -p1`` take."""

from __future__ import annotations

import difflib
import io
import pathlib
import tokenize
from collections.abc import Sequence

from taxpr import introspect
from taxpr_jupyter._lines.assignments import Assignment


def unified_diff(written: Sequence[tuple[Assignment, str]]) -> str:
    """The new right-hand sides as a unified diff, file by file.

    Args:
        written: The assignments, each with its new right-hand side.
    """
    texts: list[str] = []
    for file in dict.fromkeys(one.file for one, _ in written):
        own = [(one, text) for one, text in written if one.file == file]
        before = _lines(file, own[0][0].source)
        end = next((line[len(line.rstrip("\r\n")) :] for line in before), "") or "\n"
        after = list(before)
        for one, text in sorted(own, key=lambda pair: pair[0].start, reverse=True):
            (first, left), (last, right) = one.start, one.stop
            new = after[first - 1][:left] + text.replace("\n", end) + after[last - 1][right:]
            after[first - 1 : last] = io.StringIO(new, newline="")
        name = _name(file)
        texts += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    ended = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else f"{line}{ended}" for line in texts)


def _lines(file: str, source: str) -> list[str]:
    """The lines of a source with the ends that they have in the file.

    Python gives each, the last one too, the same end. So does this for a cell, and for a file that
    was saved since.
    """
    known = list(io.StringIO(source, newline=""))
    try:
        with open(file, "rb") as read:
            encoding, _ = tokenize.detect_encoding(read.readline)
        text = pathlib.Path(file).read_bytes().decode(encoding.removesuffix("-sig"))
    except (OSError, ValueError, SyntaxError):
        return known
    lines = list(io.StringIO(text, newline=""))
    same = [line.rstrip("\r\n") for line in lines] == [line.rstrip("\r\n") for line in known]
    return lines if same else known


def _name(file: str) -> str:
    """The path in the repository, else from this folder; a path with a space ends with a tab."""
    name = introspect.file_text(file)
    path = pathlib.Path(file).resolve()
    if path.name == name:
        roots = [one for one in path.parents if (one / ".git").exists()][:1]
        inside = [one for one in (*roots, pathlib.Path.cwd()) if path.is_relative_to(one)]
        name = path.relative_to(inside[0]).as_posix() if inside else name
    return f"{name}\t" if " " in name else name
