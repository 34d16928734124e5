"""Our SVG in the output of a cell: as SVG, and as an image for where no SVG is shown.

The output of a cell is saved with the notebook, and many programs show it. GitHub, and some
versions of nbviewer, put the SVG into their page without its style sheet, and then all shapes are
black. So here each element has its colours, lines and fonts as attributes. JupyterLab and Notebook
show no SVG of a notebook that is not trusted, but they do show images.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from taxpr_jupyter._model import theme
from taxpr_jupyter._model.stylesheet import FITS

PAGE = 960  # pixels: what most pages have room for
READABLE = 0.6  # of the size; letters are 8 pixels high then

_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
# What our style sheet says of an element, and is an attribute in SVG, with what holds unless said.
_INHERITED = {
    "fill": theme.TEXT,
    "stroke": "none",
    "stroke-width": "0.8px",
    "stroke-dasharray": "none",
    "font-size": "",
    "font-weight": "",
    "text-anchor": "",
}
# The row of an output in which there is nothing to be seen.
_UNSEEN = ":is(.jp-OutputArea-child,.output_area):has(template.taxpr-image){display:none}"
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_TAG = re.compile(r"<[^>]*>")
_PLAIN = " '/:;,()-.!*?@$+_[]{}="  # stands in a URL between double quotes as it is


def for_outputs(svg: str) -> str:
    """Our SVG for the output of a cell, which has room for a page and not for all of it.

    Front ends show it as an image, in which no style sheet knows how much room there is, and scroll
    what is too wide. So a wide picture is as wide as a page, or as it must be to be read. Where it
    stands in the page itself, its style says the same.

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
        _Sheet(style.text or "").apply(root)
    for element in root.iter():
        for name in list(element.attrib):
            if name == "class" or name.startswith("data-"):
                del element.attrib[name]
    return _written(root)


def as_image(svg: str) -> str:
    """HTML with the picture as an image, for where a page takes templates, styles and SVG out.

    So do JupyterLab and Notebook where a notebook is not trusted. Elsewhere nothing of it is seen,
    for there the SVG itself is; GitHub takes templates out and shows SVG, but also takes out the
    style, without which the image has the size of one pixel.

    Args:
        svg: A result of `for_outputs`.
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
    return f'<template class="taxpr-image">{image}</template><style>{_UNSEEN}</style>'


def _read(svg: str) -> Element:
    # Without the namespace, which all names would have, and be written with.
    return ElementTree.fromstring(svg.replace(_NAMESPACE, "", 1))


def _written(root: Element) -> str:
    text = ElementTree.tostring(root, encoding="unicode")
    return text.replace("<svg", f"<svg{_NAMESPACE}", 1)


# --- the style sheet as attributes ----------------------------------------------------------------


class _Place(NamedTuple):
    """Where an element stands, as far as a selector of ours can ask."""

    tag: str
    classes: frozenset[str]
    first: bool  # of its kind in its parent

    def fits(self, simple: str) -> bool:
        """Whether a part of a selector, such as ``text:first-of-type``, is about it."""
        name, _, pseudo = simple.partition(":")
        tag, *classes = name.split(".")
        if pseudo not in ("", "first-of-type"):
            raise ValueError(f"a selector that this does not know: {simple}")
        named = tag in ("", self.tag) and self.classes.issuperset(classes)
        return named and (self.first or not pseudo)


class _Rule(NamedTuple):
    weight: tuple[int, int]  # of classes and of names
    parts: list[str]  # of the selector, from the outside in
    says: dict[str, str]

    def fits(self, places: tuple[_Place, ...]) -> bool:
        """Whether it is about the last of these, which stand in each other."""
        *outer, last = self.parts
        if not places[-1].fits(last):
            return False
        around = iter(places[-2::-1])
        return all(any(place.fits(part) for place in around) for part in reversed(outer))


class _Sheet:
    """A style sheet of `_style`, of which a variable's other value is taken."""

    def __init__(self, text: str) -> None:
        self._rules = sorted(_rules(text), key=lambda rule: rule.weight)
        self._known: dict[tuple[_Place, ...], dict[str, str]] = {}

    def apply(self, root: Element) -> None:
        """Gives all elements the attributes that the sheet says."""
        self._apply(root, (_Place("svg", _classes(root), True),), _INHERITED)

    def _apply(
        self, element: Element, places: tuple[_Place, ...], inherited: Mapping[str, str]
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
            place = _Place(part.tag, _classes(part), part.tag not in tags)
            self._apply(part, (*places, place), own)
            tags.add(part.tag)


def _rules(text: str) -> Iterator[_Rule]:
    for selectors, body in _RULE.findall(text):
        pairs = (line.partition(":")[::2] for line in body.split(";"))
        says = {n: v for n, v in pairs if n in _INHERITED and not v.startswith("var(")}
        for selector in selectors.split(","):
            parts = selector.split()
            names = sum(not part.startswith(".") for part in parts)
            yield _Rule((selector.count(".") + selector.count(":"), names), parts, says)


def _classes(element: Element) -> frozenset[str]:
    return frozenset(element.get("class", "").split())


# --- a smaller picture ----------------------------------------------------------------------------


def _flat(group: Element) -> Iterator[Element]:
    """What is in a group, with what is in groups in it that say nothing."""
    for part in group:
        if part.tag == "g" and not part.attrib:
            yield from _flat(part)
        else:
            yield part


def _joined(parts: Iterable[Element]) -> list[Element]:
    """With lines, and with tips, that look alike as one element. Nothing lies between these."""
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
