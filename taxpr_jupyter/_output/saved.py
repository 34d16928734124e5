"""Save a picture as several outputs of a cell, so that every program shows one of them.

No single output works everywhere. JupyterLab and Notebook choose the panel even if its kernel is
gone, and then show an error. For untrusted notebooks they choose HTML and remove SVG from it.
GitHub chooses HTML and removes images. So the SVG is an output of its own, which a living panel
hides. The next output is HTML with the picture as an image, visible only if the SVG is not.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from taxpr_jupyter._analysis.collection import without_collection
from taxpr_jupyter._output.shell import SVG, running_shell
from taxpr_jupyter._svg.in_cells import as_image

HTML = "text/html"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

_STYLE = pathlib.Path(__file__).parent / "static" / "panel-gone.css"
_GONE = f'<template class="taxpr-panel-gone"></template><style>{_STYLE.read_text("utf-8")}</style>'


def outputs(
    bundle: Mapping[str, Any], metadata: Mapping[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Data and metadata of each output.

    Args:
        bundle: A MIME bundle with a picture as SVG, and perhaps a widget's view.
        metadata: Its metadata.
    """
    rest = {kind: data for kind, data in bundle.items() if kind != SVG}
    svg = bundle[SVG]
    last = ({**rest, HTML: as_image(svg)}, dict(metadata))
    if WIDGET_MIME not in rest:
        return [({SVG: svg}, {}), last]
    marked = svg.replace("<svg", f'<svg class="{mark_of(rest[WIDGET_MIME]["model_id"])}"', 1)
    return [({SVG: marked}, {}), ({HTML: _GONE}, {}), last]


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
        for part, about in outputs(data, metadata):
            shell.display_pub.publish(part, about)
