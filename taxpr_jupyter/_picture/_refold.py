"""What is open in a picture once something more, or less, is open."""

from __future__ import annotations

import difflib

from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._picture._model import Picture

_SHOWN = 8  # addresses in a message


def refolded(picture: Picture, address: str, opened: bool) -> frozenset[str]:
    """The addresses that are open once one more is opened, or closed.

    Args:
        picture: The picture as it is.
        address: Of what can be opened or closed, or of something that is drawn for it.
        opened: Whether to open it.

    Raises:
        PanelError: If there is nothing to open or close.
    """
    target = address
    if address not in picture.foldable:
        target = getattr(picture.find(address), "fold", None) or ""
    if target not in picture.foldable:
        raise PanelError(
            f"{address} holds nothing that could be drawn open or closed. {_those(picture, address)}"
        )
    return picture.unfolded | {target} if opened else picture.unfolded - {target}


def _those(picture: Picture, address: str) -> str:
    """What can be opened and closed, what is spelt alike first."""
    known = list(picture.foldable)
    first = difflib.get_close_matches(address, known, n=_SHOWN, cutoff=0.4)
    every = list(dict.fromkeys([*first, *known]))
    if not every:
        return "Nothing in the picture does"
    return f"These do: {', '.join(every[:_SHOWN])}{', …' if len(every) > _SHOWN else ''}"
