"""Draws the pictures of pages, with numbers at what their texts explain.

.envs/newest/bin/python tools/pictures.py    writes the SVG files beside the pages

A picture is drawn by the example before it in its page, as the variable `drawing`. `NUMBERED` has
what gets a number: the address of a node or a frame, or the edge of a dashed copy. One for papers
has none.
"""

import doctest
import linecache
import re
from pathlib import Path
from typing import Any

from taxpr_jupyter._layout.geometry import Box

PAGES = Path(__file__).resolve().parent.parent / "docs"
IMAGE = re.compile(r"!\[[^]]*\]\(([\w-]+\.svg)\)")
# By picture, in the order of the numbers.
NUMBERED = {
    "concepts.svg": ("in0", "0:scan/body", "0:scan/body/3:tanh", "0:scan/body/5:sqrt"),
    "read-a-picture-gradient.svg": (
        "in0",
        "group:1-5",
        "group:1-27",
        "group:34-62",
        "group:54-60",
        "0:dot_general->group:54-60",
        "group:6-27->group:40-53",
        "out1",
    ),
    "read-a-picture-loop.svg": (
        "1:cond@",
        "1:cond/branch0",
        "1:cond/branch1/in0",
        "2:while/body",
        "2:while/body/in1",
        "2:while/cond/out0",
        "4:convert_element_type",
    ),
    "read-a-picture-kept.svg": (
        "1:scan/body",
        "1:scan/body/out1",
        "12:scan/body",
        "1:scan/body/out5->12:scan/body/group:in5-9",
        "12:scan/body/group:in5-9",
    ),
}
RADIUS = 7.0  # points


def with_pictures() -> list[Path]:
    """The pages that have pictures."""
    return [page for page in sorted(PAGES.rglob("*.md")) if IMAGE.search(page.read_text("utf-8"))]


def drawn(page: Path) -> dict[str, Any]:
    """The drawing before each image of a page."""
    text = page.read_text(encoding="utf-8")
    found, names = dict[str, Any](), dict[str, Any]()
    examples = doctest.DocTestParser().get_examples(text)
    starts = [len("\n".join(text.split("\n")[: one.lineno])) for one in examples]
    rest = list(zip(starts, examples, strict=True))
    for image in IMAGE.finditer(text):
        while rest and rest[0][0] < image.start():
            source, file = rest.pop(0)[1].source, f"<doctest {page.name}[{len(rest)}]>"
            linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
            exec(compile(source, file, "single"), names)
        found[image[1]] = names["drawing"]
    return found


def numbered(name: str, drawing: Any) -> str:
    """The SVG of a drawing with a number at the upper left corner of each of its places."""
    svg = drawing.svg()
    layout = drawing.layouts.last.layout
    copies = {edge: box for edge, (box, *_) in layout.twins.items()}
    boxes: dict[str, Box] = {**layout.clusters, **layout.nodes, **copies}
    marks = "".join(_mark(k, boxes[place]) for k, place in enumerate(NUMBERED.get(name, ()), 1))
    style = f"font-family='sans-serif' font-size='{RADIUS * 1.5}' text-anchor='middle'"
    return svg.replace("</svg>", f"<g {style}>{marks}</g>\n</svg>")


def _mark(number: int, box: Box) -> str:
    left, top = (max(at - RADIUS / 2, RADIUS) for at in box[:2])
    circle = f"<circle cx='{left:.1f}' cy='{top:.1f}' r='{RADIUS}' fill='#8a1f5c' />"
    return f"{circle}<text x='{left:.1f}' y='{top + 3.6:.1f}' style='fill:#fff'>{number}</text>"


def words(svg: str) -> list[str]:
    """What a picture says, whatever drew it."""
    return re.findall(r"<(?:title|text)[^>]*>([^<]*)<", svg)


def main() -> None:
    for page in with_pictures():
        for name, drawing in drawn(page).items():
            page.with_name(name).write_text(numbered(name, drawing), encoding="utf-8")


if __name__ == "__main__":
    main()
