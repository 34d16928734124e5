"""Save a picture as several outputs of a cell, so that every program shows one of them.

No single output works everywhere. JupyterLab and Notebook choose the panel even if its kernel is
gone, and then show an error. For untrusted notebooks they choose HTML and remove SVG from it.
GitHub chooses HTML and removes images. So the SVG is an output of its own, which a living panel
hides. The next output is HTML with the picture as an image, visible only if the SVG is not. With a
panel, its widget is an output of its own behind them: the first two are renewed when the panel has
another picture, which would build the widget anew.
"""

import pathlib
import re
import string
from collections.abc import Mapping
from typing import Any

from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._output.shell import SVG, captures, running_shell
from taxpr_jupyter._svg.in_cells import UNSEEN, as_image

HTML = "text/html"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

_STYLE = pathlib.Path(__file__).parent / "static" / "panel-gone.css"
_GONE = string.Template(
    f'<template class="taxpr-panel-gone"></template><style>{_STYLE.read_text("utf-8")}</style>'
)
_FIRST = (
    "The picture from when the cell ran; tags, injectors and results that came later are not in it."
)

Output = tuple[dict[str, Any], dict[str, Any]]


def outputs(bundle: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Output]:
    """Data and metadata of each output.

    Args:
        bundle: A MIME bundle with a picture as SVG, and perhaps a widget's view.
        metadata: Its metadata.
    """
    rest = {kind: data for kind, data in bundle.items() if kind != SVG}
    svg = bundle[SVG]
    if WIDGET_MIME not in rest:
        return [({SVG: svg}, {}), ({**rest, HTML: as_image(svg)}, dict(metadata))]
    pictures = _renewed(svg, rest[WIDGET_MIME]["model_id"], _FIRST)
    return [*pictures, ({**rest, HTML: UNSEEN}, dict(metadata))]


def _renewed(svg: str, model_id: str, words: str) -> list[Output]:
    """The outputs before a panel: its picture, and HTML with the image and with ``words``.

    The notebook shows the words in place of its error, that the panel is gone.
    """
    marked = svg.replace("<svg", f'<svg class="{mark_of(model_id)}"', 1)
    gone = _GONE.substitute(words=_in_css(f"{words} Run the cell to have its panel."))
    # The image first: Notebook 6 drops what follows a style sheet where a notebook is not trusted.
    return [({SVG: marked}, {}), ({HTML: as_image(svg) + gone}, {})]


def _in_css(text: str) -> str:
    """The text inside of a string of a style sheet, which it cannot end.

    >>> _in_css("x</style>").replace(chr(92), "|")
    'x|3c |2f style|3e '
    """
    return re.sub(r"[^\w .,;:()=→%+−-]", lambda sign: f"\\{ord(sign[0]):x} ", text)


def mark_of(model_id: str) -> str:
    """The class of the picture that the panel with this model hides."""
    return f"taxpr-of-{model_id}"


def publish(shown: Any) -> None:
    """Shows an object that has a MIME bundle as such outputs.

    Raises:
        NotImplementedError: If IPython is to show the bundle itself: there is no notebook, or no
            picture.
    """
    shell = running_shell()
    if getattr(shell, "kernel", None) is None:
        raise NotImplementedError
    with without_collection():  # which would go through the program before it is shown
        bundle = shown._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        if SVG not in data:
            raise NotImplementedError
        names = _names(data[WIDGET_MIME]["model_id"]) if WIDGET_MIME in data else ()
        for number, (part, about) in enumerate(outputs(data, metadata)):
            named = {"display_id": names[number]} if number < len(names) else {}
            shell.display_pub.publish(part, about, transient=named)


def renew(svg: str, model_id: str, words: str) -> bool:
    """Replaces the picture in the outputs that are saved with a panel; elsewhere nothing happens.

    Args:
        svg: The picture, as `for_outputs` makes it.
        model_id: The panel's.
        words: A sentence about the picture, for whoever opens the notebook without its kernel.

    Returns:
        False if a cell that runs captures all outputs, such as one with ``%%capture``.
    """
    shell = running_shell()
    if getattr(shell, "kernel", None) is None:
        return True
    if captures(shell):
        return False
    outputs = _renewed(svg, model_id, words)
    for name, (part, about) in zip(_names(model_id), outputs, strict=True):
        shell.display_pub.publish(part, about, transient={"display_id": name}, update=True)
    return True


def _names(model_id: str) -> tuple[str, str]:
    """By which the notebook finds the outputs before a panel."""
    return mark_of(model_id), f"{mark_of(model_id)}-image"
