"""Names of files and lines for people: ``model.py:12``, and ``cell 3:12`` of a notebook."""

import functools
import os
import pathlib
import re
import sys
from collections.abc import Iterable
from typing import Any

from taxpr._given import refuse_no_text

_IPYTHON_7 = re.compile(r"<ipython-input-(\d+)-")
_FILE_OF_CELL = re.compile(r"<ipython-input-\d+-\w+>|\S*ipykernel_\d+[/\\]\d+\.py")
# Methods and wrappers that libraries write and compile. Some name the file; dataclasses only the
# function around each, in a "<string>" as other code has.
_GENERATED = ("<attrs generated ", "<cattrs generated ", "<@beartype(")
_OF_DATACLASSES = "__create_fn__.<locals>."


def file_text(file: str) -> str:
    """The name of a source file for people: ``cell 3`` of a notebook, or the name without folders.

    Args:
        file: A path, or Python's name for a cell.

    Example:
        >>> from taxpr.introspect import file_text
        >>> file_text("/home/ada/model.py"), file_text("<ipython-input-3-c05d3b5cd0e1>")
        ('model.py', 'cell 3')
    """
    refuse_no_text("file_text", file, "the path of a file")
    return cell_text(file) or os.path.basename(file)


def names_apart(files: Iterable[str]) -> dict[str, str]:
    """The names of files for people: files of one name with as much of the path as they need.

    Args:
        files: Paths, or Python's names for cells.

    Example:
        >>> from taxpr._places import names_apart
        >>> list(names_apart(["/ada/a/layer.py", "/ada/b/layer.py", "/ada/loss.py"]).values())
        ['a/layer.py', 'b/layer.py', 'loss.py']
    """
    found: dict[str, str] = {}
    alike: dict[str, list[pathlib.PurePath]] = {}
    for file in dict.fromkeys(files):
        found[file] = cell_text(file)
        if not found[file]:
            path = pathlib.PurePath(file)
            alike.setdefault(path.name, []).append(path)
    ends: dict[pathlib.PurePath, str] = {}
    for paths in alike.values():
        length, longest = 1, max(len(path.parts) for path in paths)
        while length < longest and len({path.parts[-length:] for path in paths}) < len(paths):
            length += 1
        ends |= {path: str(pathlib.PurePath(*path.parts[-length:])) for path in paths}
    return {file: name or ends[pathlib.PurePath(file)] for file, name in found.items()}


def is_generated(file: str, function: str = "") -> bool:
    """Whether a library wrote this code, such as the ``__init__`` of a dataclass.

    Args:
        file: Its file, as the code object has it.
        function: The qualified name of the function, as its code object has it.
    """
    return file.startswith(_GENERATED) or function.startswith(_OF_DATACLASSES)


def place_text(file: str | None, line: int | None) -> str:
    """A line, such as ``model.py:12`` or ``cell 3:12``; "" without a file."""
    return f"{file_text(file)}:{line}" if file else ""


def place_note(line: str, address: str = "") -> str:
    """`" (model.py:12 in f, at 3:sin)"`, for a message; "" if nothing is known.

    The user's line comes first, the address last.
    """
    known = ", ".join(filter(None, [line, address and f"at {address}"]))
    return f" ({known})" if known else ""


def is_called(file: str, name: str) -> bool:
    """Whether people call a file so: by the end of its path, or as `file_text` does."""
    wanted = pathlib.PurePath(name).parts
    return pathlib.PurePath(file).parts[-len(wanted) :] == wanted or name == cell_text(file)


def cell_text(file: str) -> str:
    """``cell 3``, or ``cell`` if its number is not known; "" for a real file."""
    if match := _IPYTHON_7.match(file):
        return f"cell {match[1]}"
    # Not imported: without it there are no cells.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    compiler: Any = getattr(shell, "compile", None)
    if hasattr(compiler, "format_code_name") and (found := compiler.format_code_name(file)):
        return "cell " + re.sub(r"\D", "", found[1])
    if "ipykernel_" not in file or "ipykernel_" not in pathlib.PurePath(file).parent.name:
        return ""
    # IPython 7 does not keep the numbers, but the cells, without the last end of line.
    history: Any = getattr(shell, "history_manager", None)
    for number, code in reversed(list(enumerate(history.input_hist_raw if history else ()))):
        if file in (_name_of(compiler, code), _name_of(compiler, code + "\n")):
            return f"cell {number}"
    return "cell"


def with_cells(text: str) -> str:
    """A message with the names of cells in place of their files, which differ in each kernel.

    Example:
        >>> from taxpr._places import with_cells
        >>> with_cells("while tracing f at <ipython-input-3-c05d3b5cd0e1>:2 for jit")
        'while tracing f at cell 3:2 for jit'
    """
    return _FILE_OF_CELL.sub(lambda file: cell_text(file[0]) or file[0], text)


@functools.lru_cache(maxsize=4096)
def _name_of(compiler: Any, code: str) -> str:
    """The name that IPython gives a cell."""
    return compiler.get_code_name(code, code, 0)
