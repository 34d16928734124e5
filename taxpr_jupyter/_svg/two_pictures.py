"""Put two finished SVGs next to each other in one, with titles and a legend, to compare them."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from taxpr_jupyter._layout.dot import plain
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.stylesheet import comparison_css

_GAP, _MARGIN = 36, 10  # points
_TITLE, _LEGEND = 34, 34  # heights, in points
_PIXELS = 4 / 3  # in a point
_CHARACTER = 6.1  # points: an upper bound for the width of a character of the legend


class _Drawn(NamedTuple):
    left: float
    top: float
    width: float
    height: float
    style: str
    body: str


def side_by_side(svgs: Sequence[str], titles: Sequence[str], name: str, about: str) -> str:
    """Put two pictures next to each other.

    Args:
        svgs: Two results of `finish_svg`. A page tells them apart by the classes ``before`` and
            ``after``; ``data-pair`` of an element is the ``data-address`` of its partner.
        titles: The title above each.
        name: The title of the whole.
        about: The difference, in a sentence.
    """
    drawn = [_taken_apart(svg) for svg in svgs]
    widths = [max(d.width, 7.0 * len(t)) for d, t in zip(drawn, titles, strict=True)]
    legend, legend_width = _legend()
    width = max(sum(widths) + _GAP, legend_width) + 2 * _MARGIN
    height = max(d.height for d in drawn) + _TITLE + _LEGEND + 2 * _MARGIN
    top, x = _LEGEND + _TITLE + _MARGIN, float(_MARGIN)
    parts = []
    for word, picture, title, wide in zip(("before", "after"), drawn, titles, widths, strict=True):
        parts.append(
            f'<text class="side-title" x="{x + wide / 2:.1f}" y="{top - 14}">'
            f"{escape(plain(title))}</text>"
        )
        shift = x + (wide - picture.width) / 2 - picture.left, top - picture.top
        parts.append(
            f'<g class="compared {word}" transform="translate({shift[0]:.1f} {shift[1]:.1f})">'
            f"{picture.body}</g>"
        )
        x += wide + _GAP
    middle = _MARGIN + widths[0] + _GAP / 2
    bottom = height - _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="taxpr-svg comparison" role="img" '
            f'viewBox="0 0 {width:.1f} {height:.1f}" '
            f'width="{width * _PIXELS:.0f}" height="{height * _PIXELS:.0f}">',
            f"<title>{escape(plain(name))}</title>",
            f"<desc>{escape(plain(about))}</desc>",
            f"<style>{drawn[0].style}{comparison_css()}</style>",
            f'<g font-family="monospace" font-size="{theme.FONT_SIZE}" text-anchor="middle">',
            legend,
            f'<path class="between" d="M{middle:.1f} {_LEGEND + _MARGIN}V{bottom:.1f}"/>',
            *parts,
            "</g></svg>",
        ]
    )


def _legend() -> tuple[str, float]:
    """The marks of a comparison with their names, and the width of that."""
    parts, x = [], float(_MARGIN)
    for mark, look in theme.CHANGES.items():
        text = f"{look.sign} {look.name}".strip()
        parts.append(
            f'<g class="node {mark}"><rect x="{x:.1f}" y="{_MARGIN}" width="22" height="14"/></g>'
            f'<text x="{x + 28:.1f}" y="{_MARGIN + 10.5}">{escape(text)}</text>'
        )
        x += 28 + _CHARACTER * len(text) + 16
    return f'<g class="legend compared">{"".join(parts)}</g>', x


def _taken_apart(svg: str) -> _Drawn:
    """The parts of a result of `finish_svg`."""
    head = re.match(r'<svg [^>]*viewBox="([^"]*)"', svg)
    assert head is not None, "it begins so"
    left, top, width, height = map(float, head[1].split())
    style, end, body = svg.partition("<style>")[2].partition("</style>")
    assert end, "it has a style sheet"
    return _Drawn(left, top, width, height, style, body.removesuffix("</svg>"))
