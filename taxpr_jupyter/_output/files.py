"""Write a file in the format of its suffix."""

import os
import pathlib
from collections.abc import Callable, Mapping

from taxpr_jupyter._errors import PanelError

Writers = Mapping[str, Callable[[], str | bytes]]


def save(path: str | os.PathLike[str], writers: Writers) -> pathlib.Path:
    """Writes a file in the format of its name's ending, all of it or nothing.

    Raises:
        PanelError: If the ending is another one, if there is no such folder, or if a writer raises
            it.
        OSError: If the file cannot be written.
    """
    file = pathlib.Path(path)
    writer = writers.get(file.suffix.lower())
    if writer is None:
        raise PanelError(
            f"{file.name} cannot be written: the name must end in {', '.join(writers)}"
        )
    if not file.parent.is_dir():  # said before the work is done
        raise PanelError(
            f"{file} cannot be written: there is no folder {file.parent}. Make it first"
        )
    contents = writer()
    if isinstance(contents, str):
        contents = contents.encode("utf-8", errors="replace")
    file.write_bytes(contents)
    return file
