"""See, tag, change and run a JAX program in a notebook; draw one anywhere.

``%load_ext taxpr_jupyter`` brings ``%taxpr f(x)`` and ``%%taxpr``; `panel` does the
same as a plain function. All give a `Session`, which shows itself as a panel in
a notebook and as text elsewhere. `draw` gives a static picture, which needs no notebook and can be
saved; so does the command ``taxpr draw``. `compare` shows the differences of two programs.
"""

from typing import Any

from taxpr_jupyter._draw import draw
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._output.comparison import Comparison, compare
from taxpr_jupyter._output.drawing import Drawing
from taxpr_jupyter._panel import panel
from taxpr_jupyter._session.session import Session
from taxpr_jupyter._view.show import mimebundle, widget

__all__ = [
    "Comparison",
    "Drawing",
    "PanelError",
    "Session",
    "compare",
    "draw",
    "load_ipython_extension",
    "panel",
    "unload_ipython_extension",
]

Session._display = staticmethod(mimebundle)
Session._widget = staticmethod(widget)


def load_ipython_extension(shell: Any) -> None:
    """Register ``%taxpr`` and ``%%taxpr``; called by ``%load_ext taxpr_jupyter``.

    Args:
        shell: The running IPython shell.
    """
    from taxpr_jupyter._ipython import magic  # heavy: IPython

    magic.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics; called by ``%unload_ext taxpr_jupyter``.

    Args:
        shell: The running IPython shell.
    """
    from taxpr_jupyter._ipython import magic  # heavy: IPython

    magic.unload(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
