"""The mistakes of the user, each with one message that is complete."""

import difflib
import logging
from collections.abc import Iterable, Mapping

from taxpr import TaxprError

LOG = logging.getLogger("taxpr_jupyter")  # tracebacks of what is shown to the user in one line


class PanelError(TaxprError, ValueError):
    """Something was asked for that cannot be done; the message says what to do.

    IPython and Jupyter show it as one line without a traceback. It is a real
    error all the same: ``nbconvert`` and ``nbval`` stop at it, which they do not
    do for IPython's own ``UsageError``.
    """

    def _render_traceback_(self) -> list[str]:
        """The text that IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class UnderWayError(PanelError):
    """Another run of the session is under way."""


def one_line(error: BaseException, said: str | None = None) -> str:
    """The message of any error as one line of about 500 characters at most.

    In longer messages the middle is left out: XLA's end with the reason.

    Args:
        error: The error.
        said: The part of its message to tell; None for all.
    """
    text = " ".join((str(error) if said is None else said).split())
    if not isinstance(error, TaxprError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= 500 else f"{text[:200]} … {text[-300:]}"


def nearest(wanted: str, known: Mapping[str, str] | Iterable[str], most: int = 10) -> str:
    """The first ``most`` of the known names, in words; similar spellings come first.

    Args:
        wanted: The name that was asked for.
        known: The known names; a mapping gives, for each, the text to compare with ``wanted``.
        most: How many are named.

    Example:
        >>> nearest("los", ["eqns[0]", "loss", "eqns[1]"], most=2)
        'loss, eqns[0], …'
    """
    spelt = dict(known) if isinstance(known, Mapping) else {one: one for one in known}
    close = difflib.get_close_matches(wanted, spelt.values(), n=most)
    ranked = sorted(spelt, key=lambda one: close.index(spelt[one]) if spelt[one] in close else most)
    return f"{', '.join(ranked[:most])}{', …' if len(ranked) > most else ''}"
