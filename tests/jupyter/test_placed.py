"""Lines leave room for texts, rows of inputs and outputs, states, and pictures without a layout."""

import dataclasses
import re
import shutil
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import pytest
from drawn_hops import HOPS
from drawn_programs import PROGRAMS

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._layout import layout as engines
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.dot import plain
from taxpr_jupyter._layout.geometry import BoxGrid, LineGrid, flattened, meet
from taxpr_jupyter._layout.layout import convert, lay_out
from taxpr_jupyter._model import theme
from taxpr_jupyter._svg import raster
from taxpr_jupyter._svg.interrupted_lines import broken
from taxpr_jupyter._svg.label_layout import placed
from taxpr_jupyter._svg.positions import with_positions

DOWN = [(0.0, 0.0), (0.0, 30.0), (0.0, 60.0), (0.0, 90.0)]  # one straight curve
AROUND = (-10.0, 40.0, 10.0, 50.0)
NS = "{http://www.w3.org/2000/svg}"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs the program dot")


def laid_out(name):
    picture = draw({**PROGRAMS, **HOPS}[name]()).picture
    return picture, layout_of(picture)


def layout_of(picture):
    return lay_out(lambda: arranged(picture, RecentLayouts())).layout


class TestGaps:
    def test_what_is_in_a_box_goes(self):
        first, last = broken(DOWN, [AROUND])
        assert first[0] == DOWN[0]
        assert last[-1] == DOWN[-1]
        assert first[-1][1] == pytest.approx(40, abs=2)
        assert last[0][1] == pytest.approx(50, abs=2)
        assert first[-1][1] <= 40
        assert last[0][1] >= 50

    @pytest.mark.parametrize("box", [(20.0, 40.0, 30.0, 50.0), (-10.0, 95.0, 10.0, 99.0)])
    def test_what_no_box_holds_stays_as_it_is(self, box):
        assert broken(DOWN, [box]) == [DOWN]

    def test_the_ends_stay_whatever_covers_them(self):
        first, last = broken(DOWN, [(-10.0, -10.0, 10.0, 100.0)])
        assert (first[0], last[-1]) == (DOWN[0], DOWN[-1])
        assert first[-1][1] < 8
        assert last[0][1] > 82

    def test_a_gap_over_two_curves_and_a_short_piece_between_two_boxes(self):
        both = [*DOWN, (0.0, 120.0), (0.0, 150.0), (0.0, 180.0)]
        over = broken(both, [(-10.0, 80.0, 10.0, 100.0)])
        assert [len(part) for part in over] == [4, 4]
        near = broken(both, [(-10.0, 30.0, 10.0, 40.0), (-10.0, 41.5, 10.0, 60.0)])
        assert len(near) == 2
        assert near[1][0][1] >= 60

    def test_the_shape_of_a_curve_stays(self):
        bent = [(0.0, 0.0), (80.0, 0.0), (0.0, 90.0), (80.0, 90.0)]
        parts = broken(bent, [(30.0, 35.0, 50.0, 55.0)])
        assert len(parts) == 2
        whole = []
        for k in range(201):
            t = k / 200
            u = 1 - t
            weights = (u**3, 3 * u * u * t, 3 * u * t * t, t**3)
            whole.append(
                [sum(w * p[k] for w, p in zip(weights, bent, strict=True)) for k in (0, 1)]
            )
        for part in parts:
            for x, y in flattened(part):
                assert min((x - a) ** 2 + (y - b) ** 2 for a, b in whole) < 1

    def test_which_lines_run_through_a_box(self):
        lines = LineGrid([[(0.0, 0.0), (0.0, 90.0)], [(5.0, 0.0), (90.0, 0.0)], []])
        assert lines.through(AROUND) == {0}
        assert lines.through((-1.0, -1.0, 50.0, 1.0)) == {0, 1}
        assert lines.through((20.0, 20.0, 30.0, 30.0)) == set()

    def test_which_boxes_overlap_a_box(self):
        boxes = [(x, y, x + 30.0, y + 7.0) for x in range(0, 200, 25) for y in range(0, 200, 9)]
        boxes += [(0.0, 0.0, 200.0, 200.0), (-90.0, -90.0, -80.0, 500.0)]
        grid = BoxGrid(boxes)
        for box in ((10.0, 10.0, 12.0, 60.0), (-100.0, 30.0, 90.0, 33.0), (300.0, 0.0, 400.0, 9.0)):
            assert grid.meeting(box) == [one for one in boxes if meet(one, box)]


def smaller(box):
    """Without what is rounded."""
    left, top, right, bottom = box
    return left + 1, top + 1, right - 1, bottom - 1


class TestTexts:
    @pytest.mark.parametrize(
        "name", ["deep", "grad_remat", "mlp_step", "states", "many_carries", "deeply_nested"]
    )
    def test_no_line_runs_through_a_title_or_the_text_of_another_edge(self, name):
        picture, layout = laid_out(name)
        where = placed(picture, layout)
        edges = [edge.id for edge in picture.edges]
        for number, edge in enumerate(edges):
            kept = LineGrid([flattened(part) for part in where.lines[edge]])
            for boxes in where.titles.values():
                assert not any(kept.through(smaller(box)) for box in boxes)
            for other in set(edges) - {edge}:
                for label in where.labels.get(other, ()):
                    assert not label.box or not kept.through(smaller(label.box)), (number, label)

    def test_the_texts_of_an_edge_are_its_own(self):
        picture, layout = laid_out("mlp_step")
        labels = placed(picture, layout).labels
        for edge in picture.edges:
            texts = [label.text for label in labels.get(edge.id, ())]
            assert texts == [text for text in (edge.head, edge.tail) if text]


def heights(layout):
    """The middle of each node, from the top."""
    return {name: (top + bottom) / 2 for name, (_, top, _, bottom) in layout.nodes.items()}


class TestRows:
    @pytest.mark.parametrize("name", ["scan_plain", "scan_nested", "while_body", "state"])
    def test_inputs_of_a_jaxpr_are_in_one_row_and_outputs(self, name):
        picture, layout = laid_out(name)
        at = heights(layout)
        several = 0
        for cluster in picture.clusters:
            for kind in ("input", "output"):
                here = [n.id for n in picture.nodes if (n.cluster, n.kind) == (cluster.id, kind)]
                assert len({round(at[node]) for node in here}) <= 1
                several += len(here) > 1
        assert several

    def test_what_a_box_takes_and_gives_is_above_and_below_it(self):
        def f(xs, y):
            def step(c, x):
                early = jnp.sin(c)
                late = jnp.cos(jnp.tanh(early)) * x
                return late, early

            return jax.lax.scan(step, y, xs)

        drawing = draw(f, jnp.ones(3), 1.0)
        layout = layout_of(drawing.picture)
        at = heights(layout)
        _, top, _, bottom = layout.clusters[drawing.picture.clusters[0].id]
        assert at["in0"] < top
        assert at["in1"] < top
        assert at["out0"] > bottom
        assert at["out1"] > bottom


class TestStates:
    def test_a_state_is_read_below_and_written_above(self):
        total = taxpr.State(0.0, name="total")

        def count(x):
            total.value += x
            return total.value

        picture = draw(count, 1.0).picture
        layout = layout_of(picture)
        kinds = set()
        for edge in picture.edges:
            if edge.kind == "read":
                _, y = layout.curves[edge.id][0]
                assert y == pytest.approx(layout.nodes[edge.source][3], abs=2)
            elif edge.kind == "write":
                _, y = max(layout.tips[edge.id], key=lambda p: p[1])
                assert y == pytest.approx(layout.nodes[edge.target][1], abs=3)
            kinds.add(edge.kind)
        assert {"read", "write"} <= kinds

    def test_states_stand_above_the_box_of_the_function_and_many_writes_lead_to_twins(self):
        picture, layout = laid_out("states")
        (box,) = [layout.clusters[one.id] for one in picture.clusters if one.kind == "function"]
        states = [node for node in picture.nodes if node.kind == "state"]
        assert states
        assert all(layout.nodes[node.id][3] < box[1] for node in states)
        written = {edge.id: edge.target for edge in picture.edges if edge.kind == "write"}
        assert written.keys() <= layout.twins.keys()
        titles = {node.id: node.lines[0] for node in states}
        for edge, state in written.items():
            assert titles[state].startswith(layout.twins[edge][1].rstrip("…"))


def drawn(group):
    """The box of a node in an SVG of Graphviz; in a shape with a tab, without this."""
    texts = [text for shape in group.iter() if (text := shape.get("points") or shape.get("d"))]
    numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", " ".join(texts))]
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


@needs_dot
class TestPositions:
    @pytest.mark.parametrize("name", ["states", "mlp_step", "hostile", "cond_true"])
    def test_all_parts_are_where_the_svg_has_them(self, name):
        picture, layout = laid_out(name)
        data, reason = convert(with_positions(picture, layout, "white"), "svg", placed=True)
        assert data, reason
        root = ElementTree.fromstring(data.decode())
        groups = {group.get("id"): group for group in root.iter(f"{NS}g")}
        middles = []
        for node in picture.nodes:
            for box in (layout.nodes[node.id], drawn(groups[plain(node.id)])):
                left, top, right, bottom = box
                middles.append(((left + right) / 2, (top + bottom) / 2))
        (x, y), (to_x, to_y) = middles[:2]
        for (a, b), (c, d) in zip(middles[::2], middles[1::2], strict=True):
            assert (c - a, d - b) == pytest.approx((to_x - x, to_y - y), abs=1)
        texts = [text.text for text in root.iter(f"{NS}text")]
        where = placed(picture, layout)
        for cluster in picture.clusters:
            assert all(plain(line) in texts for line in cluster.lines)
        for edge in picture.edges:
            placed_texts = [label.text for label in where.labels.get(edge.id, ()) if label.box]
            assert all(plain(text) in texts for text in placed_texts)
        view = [float(n) for n in root.get("viewBox").split()]
        # Graphviz takes the long title of a frame at the right edge for wider than it is.
        assert view[2:] == pytest.approx(layout.view[2:], abs=100)

    def test_a_line_with_a_gap_has_two_parts(self):
        picture, layout = laid_out("second_derivative")
        where = placed(picture, layout)
        assert any(len(parts) > 1 for parts in where.lines.values())
        text = with_positions(picture, layout, "white")
        parts = [len(found.split(";")) for found in re.findall(r'pos="([^"]*)"', text)]
        assert max(parts) == max(len(parts) for parts in where.lines.values())

    def test_heat_has_its_scale_above_the_graph(self):
        picture = draw(PROGRAMS["flat"](), heat="flops").picture
        layout = layout_of(picture)
        data, reason = convert(with_positions(picture, layout, "white"), "svg", placed=True)
        assert data, reason
        text = data.decode()
        assert "operations (FLOP)" in text
        assert all(text.count(f'fill="{colour}"') for colour in theme.HEATS)
        root = ElementTree.fromstring(text)
        groups = {group.get("id"): group for group in root.iter(f"{NS}g")}
        texts = root.iter(f"{NS}text")
        (lowest,) = [float(t.get("y")) for t in texts if "Without such" in (t.text or "")]
        assert all(lowest < drawn(groups[node.id])[1] for node in picture.nodes)

    def test_a_build_that_takes_no_positions_draws_by_its_own(self, monkeypatch):
        picture, _ = laid_out("flat")
        monkeypatch.setattr(engines, "_AS_PLACED", ["-Kno_such_engine"])
        data = raster.raster(picture, "png", lambda: "")
        assert data.startswith(b"\x89PNG")

    def test_nothing_but_the_picture_is_needed(self):
        picture, layout = laid_out("flat")
        same = dataclasses.replace(picture)
        assert with_positions(same, layout, "white") == with_positions(picture, layout, "white")


class TestLongLines:
    @staticmethod
    def texts_of(length):
        """The texts of the line of `y`, which is drawn down at the left, so many points long."""

        def fn(x):
            y = jnp.tanh(x)
            return y * jnp.sin(y)

        picture = draw(fn, jnp.ones(3)).picture
        edge = next(one for one in picture.edges if one.name == "y" and not one.head)
        layout = layout_of(picture)
        curve = [(-99.0, k * length / 3) for k in range(4)]
        view = (-300.0, -300.0, 300.0, length + 300.0)
        curves, tips = {**layout.curves, edge.id: curve}, {**layout.tips}
        tips.pop(edge.id, None)
        layout = dataclasses.replace(layout, curves=curves, tips=tips, view=view)
        return [
            (one.end, one.text, one.again)
            for one in placed(picture, layout).labels.get(edge.id, [])
        ]

    def test_a_line_that_is_longer_than_a_screen_has_its_name_at_both_ends(self):
        assert self.texts_of(900.0) == [("head", "y", True), ("tail", "y", True)]

    def test_a_short_line_has_no_name(self):
        assert self.texts_of(300.0) == []
