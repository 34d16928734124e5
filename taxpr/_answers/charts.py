"""Small pictures of numbers: as text, as SVG, and by matplotlib where that is installed."""

import dataclasses
import html
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr._untyped import np

_BARS = "▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_CHARACTERS = 24  # of a sparkline
_CELLS = 4000  # of a heat map in SVG; beyond, each of its cells stands for several


def optional(name: str) -> Any:
    """A module that may be missing; None where it is."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def number(value: Any) -> str:
    """A number in a few digits."""
    item = np.asarray(value).item()
    return f"{item:.4g}" if isinstance(item, (float, complex)) else str(item)


class Chart:
    """A picture of numbers; it shows itself in a notebook, and as text."""

    def text(self) -> str:
        """The picture in characters."""
        raise NotImplementedError

    def svg(self) -> str:
        """The picture as SVG."""
        raise NotImplementedError

    def _named(self) -> str:
        """The attributes that make the SVG an image with an alternative text."""
        words = html.escape(" ".join(self._said().split()), quote=True)
        return f"xmlns='http://www.w3.org/2000/svg' role='img' aria-label='{words}'"

    def _said(self) -> str:
        """The picture in words."""
        raise NotImplementedError

    def draw(self, ax: Any) -> None:
        """Draw it into axes of matplotlib."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.svg()}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Lines(Chart):
    """Lines over a common axis.

    Attributes:
        series: The numbers of each line, by its name; non-finite ones are marked.
        x: The places of the numbers; their index without it.
        xlabel: The label of the axis.
        bands: Shaded parts of the axis: the begin, the end and the name of each.
    """

    series: Mapping[str, Any]
    x: Any = None
    xlabel: str = ""
    bands: Sequence[tuple[float, float, str]] = ()

    def text(self) -> str:
        """A sparkline for each series."""
        width = max(map(len, self.series), default=0)
        return "\n".join(
            f"{name.ljust(width)}  {_spark(values)}  {_range(values)}"
            for name, values in self.series.items()
        )

    def svg(self) -> str:
        """The lines in one frame, with their names and the range."""
        finite = _finite(np.concatenate([_floats(one) for one in self.series.values()] or [[]]))
        keys = "".join(
            f"<tspan fill='{colour}'> {html.escape(name)}</tspan>"
            for name, colour in zip(self.series, _COLOURS, strict=False)
        )
        return (
            f"<svg {self._named()} width='420' height='150' "
            "viewBox='0 0 420 150' font-family='sans-serif' font-size='10'>"
            f"{self._shades(4, 16, 412, 116)}{self._curves(4, 16, 412, 116)}"
            f"<text x='4' y='10'>{keys}</text>"
            f"<text x='4' y='146'>{html.escape(self.xlabel)} {html.escape(_range(finite))}</text>"
            "</svg>"
        )

    def _said(self) -> str:
        lines = (f"{name} {_range(values)}".strip() for name, values in self.series.items())
        return f"Lines over {self.xlabel or 'the index'}: {'; '.join(lines)}"

    def sparkline(self) -> str:
        """The lines alone, in the height of a line of text."""
        return (
            f"<svg {self._named()} width='100' height='16' "
            f"viewBox='0 0 100 16'>{self._curves(1, 2, 98, 12)}</svg>"
        )

    def _curves(self, left: float, top: float, width: float, height: float) -> str:
        every = [_floats(one) for one in self.series.values()]
        finite = _finite(np.concatenate(every or [np.zeros(0)]))
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        parts: list[str] = []
        for values, colour in zip(every, _COLOURS * (len(every) // 6 + 1), strict=False):
            across = left + width * np.arange(values.size) / max(values.size - 1, 1)
            up = (values - low) / ((high - low) or 1.0)
            points = [
                (x, top + height * (1 - y) if np.isfinite(y) else None)
                for x, y in zip(across, up, strict=True)
            ]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points if y is not None)
            parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}'/>")
            parts += [
                f"<circle cx='{x:.1f}' cy='{top + height:.1f}' r='2' fill='#cc0000'/>"
                for x, y in points
                if y is None
            ]
        return "".join(parts)

    def _shades(self, left: float, top: float, width: float, height: float) -> str:
        if not self.bands:  # and so the positions may be texts
            return ""
        size = max((len(values) for values in self.series.values()), default=0)
        low, high = (0, size - 1) if self.x is None else (np.min(self.x), np.max(self.x))
        scale = width / ((high - low) or 1.0)
        return "".join(
            f"<rect x='{left + (begin - low) * scale:.1f}' y='{top}' "
            f"width='{(end - begin) * scale:.1f}' height='{height}' fill='#000' fill-opacity='.06'>"
            f"<title>{html.escape(name)}</title></rect>"
            for begin, end, name in self.bands
        )

    def draw(self, ax: Any) -> None:
        """Draw the lines with a legend."""
        for begin, end, _ in self.bands:
            ax.axvspan(begin, end, color="black", alpha=0.06)
        for name, values in self.series.items():
            ax.plot(np.arange(len(values)) if self.x is None else self.x, values, label=name)
        ax.set_xlabel(self.xlabel)
        if any(self.series):
            ax.legend()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Heat(Chart):
    """A heat map.

    Attributes:
        values: The numbers, of shape (rows, columns); NaN if unknown.
        rows: The name of each row.
        columns: The name of each column.
        ylabel: The label of the rows.
        xlabel: The label of the columns.
    """

    values: Any
    rows: Sequence[str]
    columns: Sequence[str]
    ylabel: str = ""
    xlabel: str = ""

    def text(self) -> str:
        """A line of shades for each row: the greater the number, the darker."""
        values = _floats(self.values).reshape(np.shape(self.values))
        low, high = _bounds(values)
        width = max(map(len, self.rows), default=0)
        lines = [
            f"{name.ljust(width)}  {''.join(_shade(x, low, high) for x in line)}"
            for name, line in zip(self.rows, values, strict=True)
        ]
        return "\n".join([*lines, f"{' ' * width}  {_range(values)}"])

    def svg(self) -> str:
        """Coloured cells, each with its number as a tooltip, and the names at both axes."""
        values = _floats(self.values).reshape(np.shape(self.values))
        low, high = _bounds(values)
        most = max(1, _CELLS // max(len(self.rows), 1))
        step = -(-max(len(self.columns), 1) // most)
        size = 14 if len(self.columns) <= 40 else 5
        left = 8 + 6 * max(map(len, (self.ylabel, *self.rows)), default=0)
        top = 14 if self.ylabel else 0
        cells = "".join(
            f"<rect x='{left + k // step * size}' y='{top + j * 14}' width='{size}' height='14' "
            f"fill='{_colour(values[j, k], low, high)}'><title>"
            f"{html.escape(f'{row}, {self.columns[k]}: {number(values[j, k])}')}</title></rect>"
            for j, row in enumerate(self.rows)
            for k in range(0, len(self.columns), step)
        )
        names = "".join(
            f"<text x='0' y='{top + j * 14 + 11}'>{html.escape(row)}</text>"
            for j, row in enumerate(self.rows)
        )
        height = top + len(self.rows) * 14
        # As many names of columns as there is room for.
        apart = -(-(4 + 6 * max(map(len, self.columns), default=0)) // size) * step
        names += "".join(
            f"<text x='{left + (k // step + 0.5) * size}' y='{height + 11}' text-anchor='middle'>"
            f"{html.escape(self.columns[k])}</text>"
            for k in range(0, len(self.columns), apart)
        )
        wide = size * -(-len(self.columns) // step)
        width = max(left + wide, 300)
        # A frame, since the cells of the least number are white.
        frame = f"<path d='M{left},{top}h{wide}V{height}h-{wide}z' fill='none' stroke='#999999'/>"
        below = "; colours: ".join(filter(None, (self.xlabel, _range(values))))
        return (
            f"<svg {self._named()} width='{width}' height='{height + 30}' "
            f"viewBox='0 0 {width} {height + 30}' font-family='sans-serif' font-size='10'>"
            f"<text x='0' y='11'>{html.escape(self.ylabel)}</text>{names}{cells}{frame}"
            f"<text x='{left}' y='{height + 26}'>{html.escape(below)}</text></svg>"
        )

    def _said(self) -> str:
        size = f"{len(self.rows)} × {len(self.columns)}"
        ends = " by ".join(filter(None, (self.ylabel, self.xlabel)))
        return f"Heat map, {size} {ends}: {_range(_floats(self.values))}"

    def draw(self, ax: Any) -> None:
        """Draw the cells with a colour bar."""
        values = _floats(self.values).reshape(np.shape(self.values))
        low, high = _bounds(values)
        cmap = "RdBu_r" if low < 0 else "viridis"
        image = ax.imshow(values, aspect="auto", cmap=cmap, vmin=low, vmax=high)
        ax.figure.colorbar(image, ax=ax)
        ax.set_yticks(range(len(self.rows)), self.rows)
        step = -(-len(self.columns) // 12) or 1
        ax.set_xticks(range(0, len(self.columns), step), list(self.columns)[::step])
        ax.set_ylabel(self.ylabel)
        ax.set_xlabel(self.xlabel)


def _floats(values: Any) -> Any:
    return np.asarray(values).astype(np.float64).ravel()


def _finite(values: Any) -> Any:
    values = _floats(values)
    return values[np.isfinite(values)]


def _range(values: Any) -> str:
    finite = _finite(values)
    return f"{number(finite.min())} … {number(finite.max())}" if finite.size else ""


def _bounds(values: Any) -> tuple[float, float]:
    """The range of colours: symmetric about 0 where there are both signs."""
    finite = _finite(values)
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    most = max(-low, high)
    return (-most, most) if low < 0 else (low, high)


def _shade(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "×"
    return _SHADES[min(int((value - low) / ((high - low) or 1.0) * 5), 4)]


def _colour(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "#999999"
    part = (value - low) / ((high - low) or 1.0)
    if low < 0:  # blue, white, red
        fade = round(255 * (1 - abs(2 * part - 1)))
        return f"rgb(255,{fade},{fade})" if part > 0.5 else f"rgb({fade},{fade},255)"
    fade = round(255 * (1 - part))
    return f"rgb({fade},{round(127 + fade / 2)},255)"


def _spark(values: Any) -> str:
    """Numbers as bars; a part with a non-finite number is a cross."""
    values = _floats(values)
    if not values.size:
        return ""
    parts = np.array_split(values, min(values.size, _CHARACTERS))
    means = np.array([part.mean() if np.isfinite(part).all() else np.nan for part in parts])
    finite = _finite(means)
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    return "".join(
        _BARS[min(int((one - low) / ((high - low) or 1.0) * 8), 7)] if np.isfinite(one) else "×"
        for one in means
    )
