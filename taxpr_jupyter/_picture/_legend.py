"""The legend of a picture that is coloured by cost: above the graph, never on it."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from taxpr_jupyter._picture import _look
from taxpr_jupyter._picture._costs import quantity
from taxpr_jupyter._picture._model import Heat

_TITLES = {"flops": "operations (FLOP)", "bytes": "bytes moved (B)"}
_NOTE = "Without such a colour: none, or not known"
_SWATCH, _LINE, _GAP = 28, 12, 10  # points
_EVERY = 2  # colours for each number below them
_FONT_SIZE = 9
_ADVANCE = 0.61 * _FONT_SIZE


@dataclass(frozen=True)
class Legend:
    """A title, a row of colours, and numbers that some of them stand for.

    Attributes:
        title: What the colours mean.
        numbers: One for each colour, from cold to hot.
    """

    title: str
    numbers: tuple[str, ...]

    @property
    def width(self) -> float:
        """The room that it takes, in points."""
        return 2 * _GAP + max(len(self.title), len(_NOTE)) * _ADVANCE

    @property
    def height(self) -> float:
        """The room that it takes, in points."""
        return 4 * _LINE + 2 * _GAP

    def drawn_at(self, x: float, y: float) -> str:
        """It as SVG, with its upper left corner there."""
        x, y = x + _GAP, y + _GAP

        def text(left: float, line: float, words: str) -> str:
            return f'<text x="{left:.1f}" y="{y + line * _LINE:.1f}">{escape(words)}</text>'

        parts = [text(x, 0.8, self.title)]
        for step, number in enumerate(self.numbers):
            left = x + step * _SWATCH
            parts.append(
                f'<rect class="heat-{step}" x="{left:.1f}" y="{y + 1.2 * _LINE:.1f}" '
                f'width="{_SWATCH}" height="{0.8 * _LINE:.1f}"/>'
            )
            if step % _EVERY == 0:
                parts.append(text(left, 2.8, number))
        parts.append(text(x, 3.8, _NOTE))
        return (
            f'<g class="legend" font-family="monospace" font-size="{_FONT_SIZE}">'
            f"{''.join(parts)}</g>"
        )


def legend_of(heat: Heat) -> Legend:
    """The legend of a scale."""
    last = len(_look.HEATS) - 1
    powers = (heat.decades * (step / last - 1) for step in range(last + 1))
    numbers = [quantity(heat.top * 10**power, "") for power in powers]
    numbers[0] = f"≤{numbers[0]}"
    return Legend(f"Colour: {_TITLES[heat.kind]} of a node, all its runs", tuple(numbers))
