"""Prepare our SVG for the output of a cell: as SVG, and as an image for pages that show no SVG.

The output is saved with the notebook, and many programs show it. GitHub and some versions of
nbviewer remove the style sheet, which would leave all shapes black. So each element gets its
colours, lines and fonts as attributes. JupyterLab and Notebook show images but no SVG while a
notebook is not trusted.
"""

import functools
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from taxpr_jupyter._model import theme
from taxpr_jupyter._model.stylesheet import FITS

PAGE = 960  # pixels: most pages are at least so wide
READABLE = 0.6  # the smallest scale; letters are 8 pixels high then

_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
# The properties of our style sheet that are attributes in SVG, with their default values.
_INHERITED = {
    "fill": theme.TEXT,
    "stroke": "none",
    "stroke-width": "0.8px",
    "stroke-dasharray": "none",
    "font-size": "",
    "font-weight": "",
    "text-anchor": "",
}
# Hides the row of the output that holds the template, where pages do not remove it.
_HIDES = ":is(.jp-OutputArea-child,.output_area):has(template.taxpr-image){display:none}"
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_TAG = re.compile(r"<[^>]*>")
_PLAIN = " '/:;,()-.!*?@$+_[]{}="  # needs no escape in a URL between double quotes


def for_outputs(svg: str) -> str:
    """Our SVG with a size that fits the output of a cell.

    Front ends show it as an image, whose style sheet does not know the width of the page, and
    scroll if it is too wide. So a wide picture is scaled to the width of a page, but stays
    readable. Its style has the same size, for SVG inside the page.

    Example:
        >>> def size(svg):
        ...     return for_outputs(svg).partition('width="')[2].partition(' style')[0]
        >>> size('<svg width="500" height="90" />')
        '500" height="90"'
        >>> size('<svg width="1200" height="90" />')
        '960" height="72"'
    """
    root = _read(svg)
    wide, high = (int(root.get(side, 0)) for side in ("width", "height"))
    shown = round(max(min(wide, PAGE), READABLE * wide))
    if shown != wide:
        root.set("width", str(shown))
        root.set("height", str(round(high * shown / wide)))
    fits = FITS if shown == wide else f"max-width:max(100%,{READABLE * wide:.0f}px);height:auto"
    root.set("style", fits)
    root.set("fill", _INHERITED["fill"])
    root.set("stroke-width", _INHERITED["stroke-width"])
    style = root.find("style")
    if style is not None:
        root.remove(style)
        _sheet(style.text or "").apply(root)
    for element in root.iter():
        for name in list(element.attrib):
            if name == "class" or name.startswith("data-"):
                del element.attrib[name]
    return _written(root)


def as_image(svg: str) -> str:
    """HTML with the picture as an image, visible only if the page removes templates and SVG.

    JupyterLab and Notebook do so while a notebook is not trusted. Elsewhere the image is hidden, as
    the SVG itself is shown. GitHub removes templates but shows SVG; it also removes the style, so
    the image has the size of a single pixel.
    """
    root = _read(svg)
    words = ": ".join(filter(None, (root.findtext("title"), root.findtext("desc"))))
    for element in root.iter():
        for tooltip in [part for part in element if part.tag in ("title", "desc")]:
            element.remove(tooltip)
    for group in root.iter("g"):
        group[:] = _joined(_flat(group))
    root.attrib.pop("style")
    text = _TAG.sub(lambda tag: tag[0].replace("'", "").replace('"', "'"), _written(root))
    uri = f"data:image/svg+xml,{quote(text, safe=_PLAIN)}"
    size = f"width:{root.get('width')}px;max-width:{'100%' if FITS in svg else 'none'};height:auto"
    image = f'<img width="1" height="1" style="{size}" alt="{html.escape(words)}" src="{uri}">'
    return _unseen(image)


def _unseen(html: str) -> str:
    return f'<template class="taxpr-image">{html}</template><style>{_HIDES}</style>'


UNSEEN = _unseen("")  # HTML that is never seen, for pages that would show the text instead


def _read(svg: str) -> Element:
    # Remove the namespace, or all names would be written with a prefix.
    return ElementTree.fromstring(svg.replace(_NAMESPACE, "", 1))


def _written(root: Element) -> str:
    text = ElementTree.tostring(root, encoding="unicode")
    return text.replace("<svg", f"<svg{_NAMESPACE}", 1)


# --- the style sheet as attributes ----------------------------------------------------------------


class _CellPlace(NamedTuple):
    """The properties of an element that our selectors can test.

    A simple selector, such as ``text:first-of-type``, has the same form.
    """

    tag: str  # of a selector that takes any: ""
    classes: frozenset[str]
    first: bool  # of its kind in its parent

    def fits(self, simple: "_CellPlace") -> bool:
        """Whether a simple selector matches it."""
        return (
            simple.classes <= self.classes
            and simple.tag in ("", self.tag)
            and (self.first or not simple.first)
        )


class _CellRule(NamedTuple):
    weight: tuple[int, int]  # of classes and of names
    outer: list[_CellPlace]  # of the selector, from the inside out
    last: _CellPlace
    says: dict[str, str]

    def fits(self, places: tuple[_CellPlace, ...]) -> bool:
        """Whether the rule matches the last of these nested elements."""
        if not places[-1].fits(self.last):
            return False
        around = iter(places[-2::-1])
        return all(any(place.fits(part) for place in around) for part in self.outer)


class _CellSheet:
    """A parsed style sheet of ours, with the fallback values of its variables."""

    def __init__(self, text: str) -> None:
        self._rules = sorted(_rules(text), key=lambda rule: rule.weight)
        self._known: dict[tuple[_CellPlace, ...], dict[str, str]] = {}

    def apply(self, root: Element) -> None:
        """Set the attributes of all elements by the rules."""
        self._apply(root, (_CellPlace("svg", _classes(root), True),), _INHERITED)

    def _apply(
        self, element: Element, places: tuple[_CellPlace, ...], inherited: Mapping[str, str]
    ) -> None:
        if places not in self._known:
            fitting = (rule.says for rule in self._rules if rule.fits(places))
            self._known[places] = {name: says[name] for says in fitting for name in says}
        own = {name: element.get(name, inherited[name]) for name in _INHERITED}
        own |= self._known[places]
        if own["stroke"] == "none":
            own["stroke-width"] = inherited["stroke-width"]
        for name, value in own.items():
            if value != inherited[name]:
                element.set(name, value)
        tags = set()
        for part in element:
            place = _CellPlace(part.tag, _classes(part), part.tag not in tags)
            self._apply(part, (*places, place), own)
            tags.add(part.tag)


@functools.lru_cache(maxsize=8)
def _sheet(text: str) -> _CellSheet:
    """The parsed style sheet; most pictures share one, with the properties found so far."""
    return _CellSheet(text)


def _rules(text: str) -> Iterator[_CellRule]:
    for selectors, body in _RULE.findall(text):
        pairs = (line.partition(":")[::2] for line in body.split(";"))
        says = {n: v for n, v in pairs if n in _INHERITED and not v.startswith("var(")}
        for selector in selectors.split(","):
            parts = selector.split()
            names = sum(not part.startswith(".") for part in parts)
            weight = selector.count(".") + selector.count(":"), names
            last, *outer = map(_simple, reversed(parts))
            yield _CellRule(weight, outer, last, says)


def _simple(selector: str) -> _CellPlace:
    name, _, pseudo = selector.partition(":")
    tag, *classes = name.split(".")
    if pseudo not in ("", "first-of-type"):
        raise ValueError(f"a selector that this does not know: {selector}")
    return _CellPlace(tag, frozenset(classes), bool(pseudo))


def _classes(element: Element) -> frozenset[str]:
    return frozenset(element.get("class", "").split())


# --- a smaller picture ----------------------------------------------------------------------------


def _flat(group: Element) -> Iterator[Element]:
    """The elements of a group, with groups without attributes replaced by their content."""
    for part in group:
        if part.tag == "g" and not part.attrib:
            yield from _flat(part)
        else:
            yield part


def _joined(parts: Iterable[Element]) -> list[Element]:
    """Merge adjacent lines, and arrow tips, of the same style into one element."""
    joined: list[Element] = []
    alike: dict[frozenset[tuple[str, str]], Element] = {}
    for part in parts:
        line = part.get("d", "")
        look = frozenset(part.attrib.items() - {("d", line)})
        if "none" not in (part.get("fill"), part.get("stroke", "none")):
            joined.append(part)
        elif look in alike:
            alike[look].set("d", alike[look].get("d", "") + line)
        else:
            alike[look] = part
            joined.append(part)
    return joined
