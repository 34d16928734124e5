"""Texts at the ends of edges cover nothing."""

import math
import re
from xml.etree import ElementTree

import pytest
from drawn_programs import PROGRAMS

from taxpr_jupyter import draw
from taxpr_jupyter._svg.geometry import Lines, flattened
from taxpr_jupyter._svg.label_places import Places

SVG = "{http://www.w3.org/2000/svg}"
BOUNDS = (0.0, 0.0, 200.0, 200.0)


def meets(a, b):
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])


def around(middle, width, height=8.0):
    x, y = middle
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def places(taken=(), lines=()):
    return Places(taken, BOUNDS, 8.0, Lines(lines))


def test_texts_at_one_point_do_not_cover_each_other():
    free = places()
    path = [(100.0, 100.0), (100.0, 10.0)]
    boxes = [around(free.take(path, 20.0, 0), 20.0) for _ in range(8)]
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if meets(a, b)]
    assert all(math.dist((100, 100), (b[0] + 10, b[1] + 4)) < 90 for b in boxes)


def test_a_text_goes_where_nothing_is_and_stays_in_the_picture():
    left = (0.0, 0.0, 99.0, 200.0)
    x, _ = places([left]).take([(100.0, 100.0), (100.0, 10.0)], 20.0, 0)
    assert x > 100
    x, _ = places().take([(195.0, 100.0), (195.0, 10.0)], 20.0, 0)
    assert x < 195


def test_a_text_avoids_the_lines_of_other_edges():
    own, other = [(100.0, 100.0), (100.0, 10.0)], [(110.0, 200.0), (110.0, 0.0)]
    at = {k: places(lines=[own, other]).take(own, 20.0, k) for k in (0, 1)}
    assert at[0][0] < 100  # on the side where the other is not
    assert at[1][0] > 100  # the other is its own line, so nothing is in the way


def test_where_everything_is_full_it_still_finds_a_place():
    x, y = places([BOUNDS]).take([(100.0, 100.0), (100.0, 90.0)], 20.0, 0)
    assert math.dist((100, 100), (x, y)) < 90
    assert places().take([(1.0, 2.0)], 20.0, 0) == (1.0, 2.0)


def test_flattened_goes_through_the_ends_of_the_curves():
    path = flattened([(0, 0), (10, 0), (20, 0), (30, 0), (30, 10), (30, 20), (30, 30)])
    assert path[0] == (0, 0)
    assert (30.0, 0.0) in path
    assert path[-1] == pytest.approx((30, 30))


@pytest.mark.parametrize("name", ["operand_order", "scan_reverse", "many_inputs", "state"])
def test_in_a_picture(name):
    """Those that dot itself draws over nodes and each other."""
    root = ElementTree.fromstring(draw(PROGRAMS[name]()).svg())
    nodes, texts = [], []
    for group in root.iter(f"{SVG}g"):
        kinds = (group.get("class") or "").split()
        if "node" in kinds:
            drawn = "".join(p.get("d") for p in group if p.tag == f"{SVG}path")
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", drawn)]
            for rect in group.iter(f"{SVG}rect"):
                x, y, w, h = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
                numbers += [x, y, x + w, y + h]
            nodes.append(
                (min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2]))
            )
        elif "edge" in kinds:
            for text in group.iter(f"{SVG}text"):
                at = float(text.get("x")), float(text.get("y")) - 2.4
                texts.append(around(at, len(text.text) * 4.8, 7.0))
    assert texts
    assert not [1 for text in texts for node in nodes if meets(text, node)]
    assert not [1 for i, a in enumerate(texts) for b in texts[:i] if meets(a, b)]
