"""The mistakes of the user, each with one message that is complete."""

from __future__ import annotations

import logging

from taxpr import TaxprError

LOG = logging.getLogger("taxpr_jupyter")  # tracebacks of what is shown to the user in one line


class PanelError(TaxprError, ValueError):
    """Something was asked for that cannot be done; the message says what to do.

    IPython and Jupyter show it as one line without a traceback. It is a real
    error all the same: ``nbconvert`` and ``nbval`` stop at it, which they do not
    do for IPython's own ``UsageError``.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def one_line(error: BaseException) -> str:
    """The message of any error as one line of about 500 characters at most.

    Of longer ones the middle is left out: XLA's end with the reason.
    """
    text = " ".join(str(error).split())
    if not isinstance(error, TaxprError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= 500 else f"{text[:200]} … {text[-300:]}"
