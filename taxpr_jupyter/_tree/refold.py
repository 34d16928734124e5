"""Compute the open addresses of a picture after one is unfolded or folded."""

from taxpr_jupyter._errors import PanelError, nearest
from taxpr_jupyter._model.model import Picture


def refolded(picture: Picture, address: str, opened: bool) -> frozenset[str]:
    """The addresses that are open once what is drawn at one more is opened, or closed.

    Raises:
        PanelError: If there is nothing to open or close.
    """
    target = address
    if address not in picture.foldable:
        target = getattr(picture.find(address), "fold", None) or ""
    if target not in picture.foldable:
        shown = [*picture.nodes, *picture.clusters]
        if titled := sorted({one.fold for one in shown if one.fold and one.lines[0] == address}):
            raise PanelError(
                f"{address!r} is a title, and an address is needed: {', '.join(titled)}"
            )
        those = nearest(address, picture.foldable)
        raise PanelError(
            f"{address} holds nothing that could be drawn open or closed. "
            + (f"These do: {those}" if those else "Nothing in the picture does")
        )
    return picture.unfolded | {target} if opened else picture.unfolded - {target}
