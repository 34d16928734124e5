"""Take ``%%taxpr`` on the only line of a cell as ``%taxpr``; IPython refuses an empty body."""

import re
from typing import Any

_MAGIC = re.compile(r"%%taxpr(?=\s|$)")


def add(shell: Any) -> None:
    """Reads cells so from now on."""
    remove(shell)
    shell.input_transformers_cleanup.append(_as_line)


def remove(shell: Any) -> None:
    """Stops that. Does nothing if `add` was not called."""
    found = shell.input_transformers_cleanup
    found[:] = [transform for transform in found if transform is not _as_line]


def _as_line(lines: list[str]) -> list[str]:
    if lines and _MAGIC.match(lines[0]) and not "".join(lines[1:]).strip():
        return [lines[0][1:], *lines[1:]]
    return lines
