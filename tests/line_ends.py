"""Whether each text at an end of an edge is read as that edge's: told from a picture's SVG alone.

People take such a text for that of the line beside it, at the end that is nearest to it.
"""

import itertools
import math
import re
import unicodedata
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
FONT = 8.0
STEPS = 12  # of each curve
UPON = 0.7  # points: a text so near to its line stands upon it
MEET = 8.5  # points: of ends so near to each other only the lines can be told apart


class Line:
    """The line of an edge with its texts, as it is drawn."""

    def __init__(self, group):
        line, *tip = [part.get("d") for part in group if part.tag == f"{SVG}path"] or [""]
        self.parts = [list(on_curves(_points(part))) for part in line.split("M")[1:]]
        if self.parts:  # an edge to what stands elsewhere already has no line
            self.tail, self.head = self.parts[0][0], self.parts[-1][-1]
        if tip:
            far = self.head
            self.head = max(_points(tip[0]), key=lambda point: math.dist(point, far))
            self.parts[-1].append(self.head)
        texts = [
            (text, _around(text.text, float(text.get("x")), float(text.get("y"))))
            for text in group.findall(f"{SVG}text")  # not that of a twin
        ]
        self.texts = [(text.text, box) for text, box in texts if text.get("class") != "again"]
        self.again = [(text.text, box) for text, box in texts if text.get("class") == "again"]
        self.begins = None
        self.twin = "".join(text.text for text in group.iterfind(f"{SVG}g/{SVG}text"))
        self.back = "back" in group.get("class")
        self.tip = group.findtext(f"{SVG}title") or ""

    def is_interrupted_at(self, box):
        gaps = ([before[-1], after[0]] for before, after in itertools.pairwise(self.parts))
        return any(between(box, gap) == 0 for gap in gaps)

    def far_from(self, box):
        return min((between(box, part) for part in self.parts), default=math.inf)


def misread(picture, svg):
    """What a reader would get wrong: a sentence for each text."""
    groups = ElementTree.fromstring(svg).iter(f"{SVG}g")
    lines = [Line(g) for g in groups if "edge" in (g.get("class") or "").split()]
    found = []
    for edge, line in zip(picture.edges, lines, strict=True):
        if edge.value and edge.tail and line.parts:  # one value on lines that begin as one
            line.begins = edge.source, edge.tail, line.tail
    for edge, line in zip(picture.edges, lines, strict=True):
        wanted = [(end, text) for end, text in (("head", edge.head), ("tail", edge.tail)) if text]
        if line.twin and edge.name:  # the name at its other end, which stands beside this one
            named = line.twin.partition(" #")[0]
            wanted = [(end, text) for end, text in wanted if not named.endswith(text)]
            count = re.search(r"×\d+$", edge.tail)
            counted = [("tail", count[0])] if count else []
            wanted = [one for one in wanted if one[0] == "head"] + counted
        # What the picture has no room for is told who points at the line.
        told = line.tip.split("\n")
        words = {"head": "at its end", "tail": "at its start"}
        wanted = [(end, text) for end, text in wanted if f"{words[end]}: {text}" not in told]
        assert [text for _, text in wanted] == [text for text, _ in line.texts], edge.id
        for (end, text), (_, box) in zip(wanted, line.texts, strict=True):
            found += [f"{edge.id}: {text!r} {why}" for why in _wrong(line, end, box, lines)]
        for text, box in line.again:  # of all of a long line, and of no end
            whys = (why for why in _wrong(line, "head", box, lines) if why.endswith("its line"))
            found += [f"{edge.id}: {text!r} {why}" for why in whys]
    return found


def _wrong(own, end, box, lines):
    """Why a text would be read as another line's, or as that of the other end."""
    others = [line for line in lines if line.parts and not _is_one(line, own)]
    if end == "tail":
        others = [line for line in others if line.begins is None or line.begins != own.begins]
    away = own.far_from(box)
    if any(line.far_from(box) < away + 1 for line in others):
        yield "is not nearest to its line"
    if away < UPON or own.is_interrupted_at(box):  # up to a step of the line away, at both sides
        return
    here, there = (own.head, own.tail) if end == "head" else (own.tail, own.head)
    ends = [point for line in others for point in (line.head, line.tail)]
    ends = [point for point in ends if math.dist(point, here) > MEET] + [there]
    if any(_far(box, point) < _far(box, here) - 0.2 for point in ends):
        yield "is not nearest to its end"


def _is_one(line, other):
    """Whether two lines are drawn as one: all carries of a loop."""
    ends = (line.tail, other.tail), (line.head, other.head)
    return line is other or (line.back and other.back and all(a == b for a, b in ends))


def _points(text):
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", text)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def on_curves(corners, steps=STEPS):
    """Points on a row of Bézier curves."""
    yield corners[0]
    for k in range(0, len(corners) - 3, 3):
        for step in range(1, steps + 1):
            t = step / steps
            u = 1 - t
            weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
            yield tuple(
                sum(w * p[axis] for w, p in zip(weights, corners[k : k + 4], strict=True))
                for axis in (0, 1)
            )


def _around(text, x, base):
    wide = sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text) * 0.602 * FONT / 2
    middle = base - 0.3 * FONT
    return x - wide, middle - FONT / 2, x + wide, middle + FONT / 2


def _far(box, point):
    x, y = point
    return math.hypot(max(box[0] - x, 0, x - box[2]), max(box[1] - y, 0, y - box[3]))


def between(box, path):
    """How far a line is from a box; 0 where it runs through it."""
    left, top, right, bottom = box
    corners = [(left, top), (right, top), (left, bottom), (right, bottom)]
    sides = list(itertools.combinations(corners, 2))  # and both diagonals
    least = min(_far(box, point) for point in path)
    for start, end in itertools.pairwise(path):
        if any(_cross(start, end, *side) for side in sides):
            return 0.0
        least = min(least, *(_to_segment(corner, start, end) for corner in corners))
    return least


def _cross(a, b, c, d):
    def side(p, q, r):
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def _to_segment(point, start, end):
    (x, y), (dx, dy) = start, (end[0] - start[0], end[1] - start[1])
    length = dx * dx + dy * dy
    t = ((point[0] - x) * dx + (point[1] - y) * dy) / length if length else 0.0
    t = min(1.0, max(0.0, t))
    return math.dist(point, (x + t * dx, y + t * dy))
