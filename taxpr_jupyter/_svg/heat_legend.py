"""The legend of a picture that is coloured by cost, or as XLA has compiled it, above the graph."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from taxpr import introspect
from taxpr_jupyter._layout.geometry import Box
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.kinds import HeatKind
from taxpr_jupyter._model.model import Heat
from taxpr_jupyter._model.stylesheet import fills

_TITLES: Mapping[HeatKind, str] = {
    "flops": "operations (FLOP) of a node, all its runs",
    "bytes": "bytes moved (B) of a node, all its runs",
    "time": "measured time of a node, all its runs",
    "peak": "bytes of a node where the most is in memory",
    "kept": "bytes of a node that are kept for the backward pass",
    "compiled": "kernels of XLA",
    "numbers": "numbers of values",
}
_UNITS: Mapping[HeatKind, str] = {"time": "s", "peak": "B", "kept": "B"}
_NOTE = "Without such a colour: none, or not known"
_KERNELS = "k3: computed in kernel 3, with others of this number"
_SWATCH, _LINE, _GAP = 28, 12, 10  # points
_EVERY = 2  # every second colour has a number
FONT_SIZE = 9
_ADVANCE = 0.61 * FONT_SIZE


@dataclass(frozen=True)
class Legend:
    """A title, a row of colours, and numbers below some of them.

    Attributes:
        title: The meaning of the colours.
        colours: The class and the fill of each colour, from cold to hot.
        numbers: The text below each colour; "" for none.
        notes: Further lines, such as how much has a colour.
    """

    title: str
    colours: Sequence[tuple[str, str]]
    numbers: Sequence[str]
    notes: Sequence[str]

    @property
    def width(self) -> float:
        """The width in points."""
        return 2 * _GAP + max(map(len, (self.title, *self.notes))) * _ADVANCE

    @property
    def height(self) -> float:
        """The height in points."""
        return (3 + len(self.notes)) * _LINE + 2 * _GAP

    def above(self, left: float, top: float, width: float, height: float) -> Box:
        """Left, top, width and height of a picture with the legend above its graph."""
        return left, top - self.height, max(width, self.width), height + self.height

    def texts(self) -> Iterator[tuple[float, float, str]]:
        """The texts, each with its left end and base line, relative to the upper left corner."""
        yield _GAP, _GAP + 0.8 * _LINE, self.title
        for left, number in zip(self._lefts(), self.numbers, strict=True):
            if number:
                yield left, _GAP + 2.8 * _LINE, number
        for k, note in enumerate(self.notes):
            yield _GAP, _GAP + (3.8 + k) * _LINE, note

    def swatches(self) -> Iterator[Box]:
        """The box of each colour, from cold to hot, relative to the upper left corner."""
        top = _GAP + 1.2 * _LINE
        for left in self._lefts():
            yield left, top, left + _SWATCH, top + 0.8 * _LINE

    def _lefts(self) -> Iterator[float]:
        return (_GAP + step * _SWATCH for step in range(len(self.numbers)))

    def drawn_at(self, x: float, y: float, graph: Sequence[float]) -> str:
        """The legend as SVG.

        Args:
            x: The left side.
            y: The top.
            graph: Left, top, width and height of the graph below, for a page that moves the two
                apart.
        """
        parts = [
            f'<rect class="{name}" x="{x + left:.1f}" y="{y + top:.1f}" '
            f'width="{right - left:.1f}" height="{bottom - top:.1f}"/>'
            for (name, _), (left, top, right, bottom) in zip(
                self.colours, self.swatches(), strict=True
            )
        ]
        parts += [
            f'<text x="{x + left:.1f}" y="{y + base:.1f}">{escape(words)}</text>'
            for left, base, words in self.texts()
        ]
        return (
            f'<g class="legend" font-family="monospace" font-size="{FONT_SIZE}" '
            f'data-box="{_view(x, y, self.width, self.height)}" data-graph="{_view(*graph)}">'
            f"{''.join(parts)}</g>"
        )


def _view(*numbers: float) -> str:
    return " ".join(f"{number:.1f}" for number in numbers)


def _every_second(numbers: Sequence[str]) -> list[str]:
    return [number if k % _EVERY == 0 else "" for k, number in enumerate(numbers)]


def legend_of(heat: Heat) -> Legend:
    """The legend of a scale."""
    title, colours = f"Colour: {heat.title or _TITLES[heat.kind]}", fills(heat.kind)
    if heat.kind == "compiled":
        numbers = ["kernels", *[""] * (len(colours) - 3), "own", "gone"]
        return Legend(title, colours, numbers, (_KERNELS, *heat.notes))
    last = len(theme.HEATS) - 1
    if not heat.decades:
        step = (heat.top - heat.bottom) / last
        texts = [f"{heat.bottom + step * k:.3g}" for k in range(last + 1)]
        return Legend(title, colours, _every_second(texts), (_NOTE, *heat.notes))
    unit = _UNITS.get(heat.kind, "")
    powers = (heat.decades * (step / last - 1) for step in range(last + 1))
    numbers = [introspect.quantity(heat.top * 10**power, unit) for power in powers]
    numbers = _every_second(numbers)
    numbers[0] = f"≤{numbers[0]}"
    return Legend(title, colours, numbers, (_NOTE, *heat.notes))
