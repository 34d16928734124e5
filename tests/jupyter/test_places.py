"""Texts at the ends of edges stand at their own edge's end, and cover nothing."""

import re
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from drawn_programs import PROGRAMS
from line_ends import between, misread, on_curves

from taxpr_jupyter import draw
from taxpr_jupyter._layout.geometry import flattened
from taxpr_jupyter._svg import label_places
from taxpr_jupyter._svg.label_places import Places, Text

SVG = "{http://www.w3.org/2000/svg}"
BOUNDS = (0.0, 0.0, 200.0, 200.0)
WORD = "0123"  # 19 points wide
UP = [(100.0, 100.0), (100.0, 10.0)]


def meets(a, b):
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])


def around(middle, width, height=8.0):
    x, y = middle
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def places(*paths, taken=()):
    """The places of texts at the beginnings of these lines."""
    texts = [Text(WORD, number, path) for number, path in enumerate(paths)]
    return Places(taken, BOUNDS, 8.0, paths).of(texts)


def test_a_text_goes_where_nothing_is_and_stays_in_the_picture():
    ((x, _),) = places(UP, taken=[(0.0, 0.0, 99.0, 200.0)])
    assert x > 100
    ((x, _),) = places([(195.0, 100.0), (195.0, 10.0)])
    assert x < 195


def test_a_text_stands_on_the_side_where_no_other_line_is():
    (left, _), (right, _) = places(UP, [(104.0, 200.0), (104.0, 0.0)])
    assert left < 100
    assert right > 104


def test_between_two_lines_it_stands_upon_its_own():
    left, right = ([(x, 100.0), (x, 10.0)] for x in (86.0, 114.0))
    _, (x, y), _ = places(left, UP, right)
    assert x == 100
    assert 55 <= y <= 88  # not upon the point of the arrow, and in the half of this end


def test_where_it_would_be_read_as_another_lines_it_has_no_place():
    left, right = ([(x, 100.0), (x, 10.0)] for x in (97.0, 103.0))
    outer, middle, other = places(left, UP, right)
    assert middle is None
    assert outer[0] < 97
    assert other[0] > 103


@pytest.mark.parametrize("apart", [4, 6, 8, 11, 14, 18, 25, 40])
@pytest.mark.parametrize("swing", [10, 45, 90])
def test_it_is_nearest_to_its_own_of_lines_that_part(apart, swing):
    curves = [
        [(100.0, 20.0), (100.0, 20.0 + swing), (end, 180.0 - swing), (end, 180.0)]
        for end in (100.0 - apart, 100.0, 100.0 + apart / 3)
    ]
    drawn = [list(on_curves(curve, 200)) for curve in curves]
    found = places(*map(flattened, curves))
    assert any(found)
    for own, middle in enumerate(found):
        if middle:
            away = [between(around(middle, 0.6 * 8 * len(WORD)), line) for line in drawn]
            assert all(away[own] + 1 <= far for k, far in enumerate(away) if k != own)


def test_where_everything_is_full_it_has_no_place():
    assert places(UP, taken=[BOUNDS]) == [None]
    assert places([(1.0, 2.0)]) == [None]


def test_texts_do_not_cover_each_other_nor_stand_at_the_other_end():
    short = [(100.0, 100.0), (100.0, 80.0)]
    both = [Text(WORD, 0, short), Text(WORD, 0, short[::-1])]
    (_, first), (_, second) = Places([], BOUNDS, 8.0, [short]).of(both)
    assert first >= second + 8
    assert (first > 90, second < 90) == (True, True)


def test_flattened_goes_through_the_ends_of_the_curves():
    path = flattened([(0, 0), (10, 0), (20, 0), (30, 0), (30, 10), (30, 20), (30, 30)])
    assert path[0] == (0, 0)
    assert (30.0, 0.0) in path
    assert path[-1] == pytest.approx((30, 30))


def test_flattened_stays_near_the_curve():
    long = [(0.0, 0.0), (0.0, 400.0), (300.0, -300.0), (300.0, 100.0)]
    path = flattened(long)
    for x, y in on_curves(long, 200):
        assert between((x, y, x, y), path) < 0.5
    assert len(path) < 60


@pytest.mark.parametrize("name", ["operand_order", "mlp_step", "many_inputs", "state"])
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


def while_with_constants(W, start):
    made = jnp.zeros((4, 12), jnp.int32).at[:, 0].set(start)
    state = (jnp.zeros(4, bool), jnp.arange(4.0), made, 1)

    def step(s):
        return s[0], s[1] + W.sum(), s[2], s[3] + 1

    return jax.lax.while_loop(lambda s: s[3] < 12, step, state)


def beam_search(W, start):
    """Carries that cross each other on their way out."""

    def step(s):
        seq, scores, t = s["seq"], s["scores"], s["t"]
        logits = scores[:, None] + jax.nn.log_softmax(W)[seq[:, -1]]
        best, at = jax.lax.top_k(logits.reshape(-1), 4)
        seq = jnp.concatenate([seq[at // 50, 1:], (at % 50)[:, None]], axis=1)
        return {"seq": seq, "scores": best, "t": t + 1}

    begin = {"seq": jnp.full((4, 6), start), "scores": jnp.zeros(4), "t": 0}
    return jax.lax.while_loop(lambda s: s["t"] < 12, step, begin)


@pytest.mark.parametrize("fn", [while_with_constants, beam_search])
@pytest.mark.parametrize("folded", [True, False])
def test_carries_of_a_loop_are_read_as_they_are(fn, folded):
    drawing = draw(fn, jnp.ones((50, 50)), jnp.int32(7))
    loop = next(address for address in drawing.picture.unfolded if address.endswith(":while"))
    drawing = drawing.fold(loop) if folded else drawing
    assert misread(drawing.picture, drawing.svg()) == []


def test_what_has_no_place_at_a_line_is_told_who_points_at_it():
    drawing = draw(PROGRAMS["operand_order"]())
    svg = drawing.svg()
    shown = re.findall(r"<text[^>]*>([012])</text>", svg)
    told = re.findall(r"at its end: ([012])\b", svg)
    assert sorted(shown + told) == sorted(edge.head for edge in drawing.picture.edges if edge.head)


def test_only_what_is_near_is_compared_with_a_place(monkeypatch):
    compared = []
    monkeypatch.setattr(label_places, "_overlap", lambda a, b: compared.append(b) or 0.0)
    far = [(float(x), 500.0, x + 5.0, 510.0) for x in range(0, 50_000, 10)]
    near = (80.0, 90.0, 99.0, 100.0)
    Places([*far, near], BOUNDS, 8.0, [UP]).of([Text(WORD, 0, UP)])
    assert set(compared) == {BOUNDS, near}
