"""Find the running IPython shell, and whether it shows pictures, without importing IPython."""

import sys
from typing import Any

SVG = "image/svg+xml"


def running_shell() -> Any:
    """The IPython shell that runs, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def captures(shell: Any) -> bool:
    """Whether a cell that runs captures all outputs, such as one with ``%%capture``."""
    module = sys.modules.get("IPython.core.displaypub")
    return module is not None and isinstance(shell.display_pub, module.CapturingDisplayPublisher)


def shows(shell: Any, mime: str) -> bool:
    """Whether outputs of this kind are shown; a terminal's shell leaves only text."""
    formatter = getattr(shell, "display_formatter", None)
    return formatter is None or mime in formatter.active_types
