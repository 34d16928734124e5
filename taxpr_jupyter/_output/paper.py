"""Pictures for papers and slides: the user's words alone, as wide as a column."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from taxpr_jupyter._closed.listed import code_lines
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._model.model import Cluster, CodeLine, Node, Picture
from taxpr_jupyter._text.titles import wrapped
from taxpr_jupyter._tree.labels import short_path

STYLES = ("screen", "paper")
_LARGER = 1.2  # times as large as on a screen, unless the width is given: text of 12 points
_DOTS = {"png": 300, "pdf": 72}  # in an inch of the paper
_SMALLEST = 6.0  # points: the size of text that can be read
_ADVANCE, _BESIDE = 0.6, 4  # of a character, in its size; about so many nodes are side by side
_LETTERS = (14, 36)  # in a line of a title, in a narrow picture and as on a screen
_POINTS = {"pt": 1.0, "mm": 72 / 25.4, "cm": 72 / 2.54, "in": 72.0}
_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(pt|mm|cm|in)\s*")
# How much there is in a node, at the begin of a line; the loops in it stay.
_COUNT = re.compile(r"[\d,]+ (?:equation|tag|array|state)s?(?: · [\d,]+ tags?)?(?: · |$)")
_SEVERAL = re.compile(r"×\d+")  # values that a line has
_SIZE = re.compile(r' width="([\d.]+)" height="([\d.]+)">')

_Part = TypeVar("_Part", Node, Cluster)


@dataclass(frozen=True)
class Paper:
    """How a picture for paper looks.

    Attributes:
        width: In points; None for as wide as text of 12 points needs.
        types: Whether nodes have the types of their values.
    """

    width: float | None = None
    types: bool = False

    def of(self, picture: Picture) -> Picture:
        """The picture without what is folded in nodes and lines; the words stay.

        For a narrow column titles have more lines that are shorter, so that text stays large.
        """
        letters = self._letters
        edges = [
            replace(edge, head=_uncounted(edge.head), tail=_uncounted(edge.tail))
            for edge in picture.edges
        ]
        return replace(
            picture,
            nodes=tuple(_plain(node, letters) for node in picture.nodes),
            clusters=tuple(_plain(cluster, letters) for cluster in picture.clusters),
            edges=tuple(edges),
            narrow=letters is not None,
        )

    @property
    def _letters(self) -> int | None:
        """How many characters a line of a title has; None for as many as usual."""
        least, usual = _LETTERS
        letters = int((self.width or 1e9) / (_ADVANCE * _SMALLEST * _BESIDE))
        return max(least, letters) if letters < usual else None

    def sized(self, svg: str) -> str:
        """The SVG of a picture in its size on paper."""
        found = _SIZE.search(svg)
        assert found, "an SVG has a size"
        wide, high = (float(number) * 0.75 for number in found.groups())  # pixels to points
        factor = self.width / wide if self.width else _LARGER
        size = f' width="{wide * factor:.2f}pt" height="{high * factor:.2f}pt">'
        return svg[: found.start()] + size + svg[found.end() :]

    def dots(self, form: str, width: float) -> float:
        """Pixels of a PNG, or points of a PDF, in an inch of a picture of a width in points."""
        return _DOTS[form] * (self.width / width if self.width else _LARGER)


def paper_of(style: str, width: str | None, types: bool | None) -> Paper | None:
    """The kind of picture that the options of `draw` ask for; None for a picture on a screen.

    Raises:
        PanelError: There is no such style or length, or another style has no such option.
    """
    if style not in STYLES:
        raise PanelError(f"style={style!r}: give {' or '.join(map(repr, STYLES))}")
    if style != "paper":
        if width is not None or types is not None:
            given = "width" if width is not None else "types"
            raise PanelError(f'{given} is for pictures on paper: add style="paper"')
        return None
    if width is None:
        return Paper(types=bool(types))
    found = _LENGTH.fullmatch(width) if isinstance(width, str) else None
    points = float(found[1]) * _POINTS[found[2]] if found else 0.0
    if points <= 0:
        raise PanelError(
            f'width={width!r} is no length: give a number with a unit, such as "8.5cm", "85mm", '
            '"3.3in" or "240pt"'
        )
    return Paper(points, bool(types))


def _plain(part: _Part, letters: int | None) -> _Part:
    """A node or frame with its title, notes and loops; of an equation the title alone.

    Args:
        part: The node or frame.
        letters: How many characters a line has; None for as many as usual.
    """
    titled = part.titled
    others = () if isinstance(part, Node) and part.kind == "eqn" else part.lines[titled:]
    rest = [
        line if isinstance(line, CodeLine) else _COUNT.sub("", line, count=1).rstrip(" :")
        for line in others
    ]
    title = part.lines[:titled]
    if "kept" in part.marks:  # what the dashed copies in the backward pass say
        title = (*title[:-1], title[-1].removesuffix(" [kept]"))
    if letters and part.kind in ("eqn", "hop", "group", "jaxpr"):
        title = tuple(wrapped(title, letters))
        titled, rest = len(title), [one for line in rest for one in _narrow(line, letters)]
    elif letters:  # a name
        title = tuple(short_path(line, letters) for line in title)
    lines = [*(line.rstrip(" :") for line in title), *rest]
    return replace(part, lines=tuple(filter(None, lines)) or ("…",), titled=titled)


def _narrow(line: str, letters: int) -> Iterable[str]:
    """A line in shorter ones, code also from the left."""
    if isinstance(line, CodeLine):
        return code_lines(line, letters, line.indent)
    return wrapped([line], letters)


def _uncounted(text: str) -> str:
    return "" if _SEVERAL.fullmatch(text) else text
