"""`Icicle`: a tree as boxes, each as wide as its share, below the box that it is a part of."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any, NamedTuple

from taxpr._answers.charts import Chart
from taxpr._answers.count_of import count_of

_WIDTH, _HEIGHT = 720, 18
_LETTER = 6.0  # the width of a letter
_CHARACTERS = 60  # of a bar of text


class Box(NamedTuple):
    """A part of a tree.

    Attributes:
        depth: How many others it is in.
        begin: Where it begins, from 0 to 1.
        width: Its share of the whole.
        name: Its name.
        told: Its number for people.
    """

    depth: int
    begin: float
    width: float
    name: str
    told: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Icicle(Chart):
    """The parts of a tree by their shares.

    Attributes:
        boxes: The parts, outer ones first.
    """

    boxes: Sequence[Box]

    def text(self) -> str:
        """A line for each part, with a bar from where it begins to where it ends."""
        lines: list[str] = []
        for one in self.boxes:
            begin, end = (round(x * _CHARACTERS) for x in (one.begin, one.begin + one.width))
            bar = " " * begin + "█" * max(end - begin, 1)
            lines.append(f"{bar.ljust(_CHARACTERS + 1)} {'  ' * one.depth}{one.name} {one.told}")
        return "\n".join(lines)

    def svg(self) -> str:
        """Boxes with as much of their names as fits, and all of it as a tooltip."""
        deepest = max((one.depth for one in self.boxes), default=-1) + 1
        parts: list[str] = []
        for one in self.boxes:
            x, y, width = one.begin * _WIDTH, one.depth * _HEIGHT, one.width * _WIDTH
            letters = int((width - 6) / _LETTER)
            fits = one.name if len(one.name) <= letters else f"{one.name[: letters - 1]}…"
            parts.append(
                f"<g><title>{html.escape(f'{one.name}: {one.told}')}</title>"
                f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{_HEIGHT}' "
                f"fill='{_fill(one.depth)}' stroke='#fff'/>"
                + (
                    f"<text x='{x + 3:.1f}' y='{y + 13}'>{html.escape(fits)}</text>"
                    if letters > 2
                    else ""
                )
                + "</g>"
            )
        return (
            f"<svg {self._named()} width='{_WIDTH}' height='{deepest * _HEIGHT}' "
            f"viewBox='0 0 {_WIDTH} {deepest * _HEIGHT}' font-family='sans-serif' font-size='10'>"
            f"{''.join(parts)}</svg>"
        )

    def _said(self) -> str:
        most = "; ".join(f"{one.name} {one.width:.0%}" for one in self.boxes[:8])
        return f"Icicle plot of {count_of(len(self.boxes), 'part')}: {most}"

    def draw(self, ax: Any) -> None:
        """Draw the boxes with the names that fit."""
        for one in self.boxes:
            ax.barh(
                -one.depth,
                one.width,
                left=one.begin,
                height=1.0,
                color=_fill(one.depth),
                edgecolor="w",
            )
            if one.width > 0.04:
                fits = one.name[: int(one.width * 90)]
                ax.text(one.begin + 0.004, -one.depth, fits, va="center", fontsize=7, clip_on=True)
        ax.set_xlim(0, 1)
        ax.set_axis_off()


def _fill(depth: int) -> str:
    return ("#9ec5e8", "#bcd9a8", "#f2d490", "#eebfaf", "#cfc3e6")[depth % 5]
