"""Draw a picture as PNG or PDF.

The program `dot` draws it with the shapes, colours, sizes and positions of the SVG. Without `dot`,
the package `cairosvg`, if installed, converts the finished SVG.
"""

import threading
from collections.abc import Callable
from typing import Any

from taxpr_jupyter._errors import LOG, PanelError, one_line
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.dot import to_dot
from taxpr_jupyter._layout.engine import LayoutStopped
from taxpr_jupyter._layout.layout import TIMEOUT, convert, lay_out
from taxpr_jupyter._model.model import Picture
from taxpr_jupyter._model.stylesheet import for_converters
from taxpr_jupyter._svg.positions import with_positions

NO_RASTER = (
    "No {form}: {reasons}. Install Graphviz (the program `dot`, with its Cairo plugin), or "
    "`pip install cairosvg`; or write .svg, which needs neither."
)
_PAPER = "white"  # an image viewer may be dark, and texts outside nodes have a medium tone
_DENSITY = 2  # pixels of a PNG for one of the SVG


def raster(
    picture: Picture,
    form: str,
    svg: Callable[[], str],
    timeout: float = TIMEOUT,
    cancel: threading.Event | None = None,
    dots: Callable[[float], float] | None = None,
) -> bytes:
    """A picture as PNG or PDF.

    Args:
        picture: The picture.
        form: "png" or "pdf".
        svg: Makes its finished SVG; called only if `dot` fails.
        timeout: Seconds that the layout may take.
        cancel: Set it from another thread to stop at once.
        dots: For a picture of a width in points, those in an inch as `dot` counts it, which make it
            larger or smaller; the SVG has its size already.

    Raises:
        PanelError: If nothing here can write it, or the layout took too long.
    """
    try:
        data, reason = _by_dot(picture, form, timeout, cancel, dots)
    except LayoutStopped as stopped:
        raise PanelError(str(stopped)) from None
    if data is not None:
        return data
    try:
        return _by_cairosvg(svg(), form)
    except (ImportError, OSError) as error:  # OSError: without the library cairo
        lacking = isinstance(error, ImportError)
        other = "is not installed" if lacking else f"cannot be loaded: {one_line(error)}"
    reasons = f"{reason}, and the package cairosvg {other}"
    raise PanelError(NO_RASTER.format(form=form.upper(), reasons=reasons))


def _by_dot(
    picture: Picture,
    form: str,
    timeout: float,
    cancel: threading.Event | None,
    dots: Callable[[float], float] | None,
) -> tuple[bytes | None, str]:
    """Draw by `dot`: the data; or None, and the reason, as `convert`."""
    laid_out = lay_out(lambda: arranged(picture, RecentLayouts()), timeout, cancel)
    if laid_out.layout is None:
        raise PanelError(laid_out.note)
    text = with_positions(picture, laid_out.layout, _PAPER)
    left, _, right, _ = laid_out.layout.view
    per_inch = dots(right - left) if dots else None
    data, _ = convert(text, form, timeout, cancel, placed=True, dots=per_inch)
    # A build of Graphviz may lack `neato -n2`, which draws fixed positions.
    text = to_dot(picture, _PAPER)
    return (data, "") if data else convert(text, form, timeout, cancel, dots=per_inch)


def _by_cairosvg(svg: str, form: str) -> bytes:
    import cairosvg  # optional: the extra `png`

    write: Any = {"png": cairosvg.svg2png, "pdf": cairosvg.svg2pdf}[form]
    # For a PDF the factor would only enlarge the page.
    options = {"scale": _DENSITY} if form == "png" else {}
    try:
        return write(bytestring=for_converters(svg).encode(), background_color=_PAPER, **options)
    except Exception as error:
        LOG.warning("cairosvg failed", exc_info=True)
        raise PanelError(f"No {form.upper()}: cairosvg failed: {one_line(error)}") from error
