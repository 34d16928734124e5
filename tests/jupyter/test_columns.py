"""How the parts of a picture are placed: columns, rows, titles, and lines that become one."""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import pytest
from drawn_programs import PROGRAMS

from taxpr import trace
from taxpr_jupyter import draw
from taxpr_jupyter._layout.columns import columns, steps
from taxpr_jupyter._layout.dot import to_dot
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Cluster, Edge, Node
from taxpr_jupyter._svg.titles import Titles

SIZE = (60.0, 30.0)


def node(name, cluster=None):
    return Node(name, name, "eqn", (name,), "", cluster)


def chain(names):
    return [edge(a, b) for a, b in itertools.pairwise(names)]


def edge(source, target, kind="value"):
    return Edge(f"{source}->{target}", source, target, kind)


def picture(nodes, edges, clusters=()):
    found = draw(jnp.sin, 1.0).picture
    parts = {"nodes": tuple(nodes), "edges": tuple(edges), "clusters": tuple(clusters)}
    return dataclasses.replace(found, **parts)


def loose(*parts):
    drawn = picture(*parts)
    return columns(drawn, {node.id: SIZE for node in drawn.nodes}).loose


def _across(dot, axis="x"):
    """How far to the right the middle of each node is; or, with "y", how far down its text is."""
    svg = lay_out(dot).svg
    parts = re.findall(r'<g id="([^"]*)" class="node[^>]*>(.*?)</g>', svg, re.S)
    return {
        name: float(re.search(rf'<text[^>]* {axis}="([-\d.]+)"', rest)[1]) for name, rest in parts
    }


LONG = [f"n{k}" for k in range(40)]


class TestColumns:
    def test_a_long_chain_is_cut_where_its_columns_are_equally_high(self):
        found = loose(map(node, LONG), chain(LONG))
        cuts = sorted(int(name.rpartition("n")[2]) for name in found)
        assert 2 <= len(cuts) <= 5
        parts = [b - a for a, b in zip([0, *cuts], [*cuts, 40], strict=True)]
        assert max(parts) - min(parts) <= 1

    def test_a_short_chain_is_not_cut(self):
        assert loose(map(node, LONG[:8]), chain(LONG[:8])) == frozenset()

    @pytest.mark.parametrize("cluster", [None, "all"])
    def test_columns_are_read_from_left_to_right(self, cluster):
        boxes = [Cluster("all", "jaxpr", ("all",), "", None, "all")] if cluster else []
        nodes = [node(name, cluster) for name in LONG]
        drawn = picture([node("x"), *nodes], chain(["x", *LONG]), boxes)
        cut = columns(drawn, {one.id: SIZE for one in drawn.nodes})
        assert len(cut.loose) == len(cut.beside) > 1
        assert {around for around, _, _ in cut.beside} == {cluster}
        at = _across(to_dot(drawn))
        assert all(at[left] < at[right] for _, left, right in cut.beside)

    def test_columns_of_boxes_begin_at_the_top_and_read_down(self):
        boxes = [Cluster(f"box{k}", "group", (f"box{k}",), "", None, f"box{k}") for k in range(2)]
        inside = [node(name, f"box{k // 20}") for k, name in enumerate(LONG)]
        drawn = picture([node("x"), *inside, node("out")], chain(["x", *LONG, "out"]), boxes)
        cut = columns(drawn, {one.id: SIZE for one in drawn.nodes}).loose
        starts = ["x", *(name.rpartition(">")[2] for name in cut)]
        assert len(starts) > 1
        down = _across(to_dot(drawn), "y")
        row = down["n1"] - down["n0"]
        assert all(down[start] < min(down.values()) + 2 * row for start in starts)
        assert down["out"] > down["n39"]

    def test_a_program_that_two_screens_show_is_not_cut(self):
        def step(carry, x):
            y = jnp.sin(x) * carry
            return carry + y, jnp.cos(y)

        def f(xs):
            last, ys = jax.lax.scan(step, 1.0, xs)
            return ys.sum() * last

        drawing = draw(f, jnp.ones(5))
        assert drawing.dot == to_dot(drawing.picture, columns=False)
        tall = [node(name) for name in LONG[:28]]
        assert loose(tall, chain(LONG[:28])) == frozenset()

    def test_a_circle_and_a_picture_of_one_node(self):
        edges = [*chain(LONG), edge("n39", "n0", "back")]
        assert "n39->n0" in loose(map(node, LONG), edges)
        assert loose([node("a")], []) == frozenset()
        assert loose([node("a"), node("b")], [edge("a", "b"), edge("b", "a")]) == frozenset()

    def test_what_uses_nothing_stays_with_its_use(self):
        users = [f"c{k}" for k in range(40)]
        edges = [*chain(LONG), *map(edge, users, LONG)]
        found = loose([*map(node, LONG), *map(node, users)], edges)
        assert found
        assert not any(name.startswith("c") for name in found)

    def test_where_many_edges_cross_it_is_not_cut(self):
        sides = [[f"{side}{k}" for k in range(40)] for side in "abcd"]
        edges = [one for names in sides for one in chain(names)]
        assert loose([node(name) for names in sides for name in names], edges) == frozenset()

    @pytest.mark.parametrize(("inner", "cut"), [(False, True), (True, False)])
    def test_a_box_around_all_is_cut_unless_others_are_in_it(self, inner, cut):
        around = Cluster("all", "jaxpr", ("all",), "", None, "all")
        inside = Cluster("in", "jaxpr", ("in",), "", "all", "in")
        nodes = [
            node(name, "in" if inner and 15 < k < 20 else "all") for k, name in enumerate(LONG)
        ]
        found = loose(nodes, chain(LONG), [around, *([inside] if inner else [])])
        assert bool(found) == cut

    def test_a_box_of_a_part_is_not_cut(self):
        box = Cluster("box", "group", ("box",), "", None, "box")
        nodes = [node(name, "box" if 12 <= k < 30 else None) for k, name in enumerate(LONG)]
        inside = {one.id for one in chain(LONG[12:30])}
        found = loose(nodes, chain(LONG), [box])
        assert found
        assert not found & inside

    def test_the_backward_pass_stands_beside_the_forward_pass(self):
        drawing = draw(PROGRAMS["mlp_step"]())
        kept = {one.id for one in drawing.picture.edges if one.kind == "residual"}
        assert kept
        lines = [line for line in drawing.dot.splitlines() if 'constraint="false"' in line]
        assert kept <= {re.search(r'id="([^"]*)"', line)[1] for line in lines}
        assert 'constraint="false"' not in to_dot(drawing.picture, columns=False)

    def test_a_real_chain_becomes_broader_than_it_is_high_twice(self):
        svg = draw(PROGRAMS["far_use"]()).svg()
        width, height = map(int, re.search(r'width="(\d+)" height="(\d+)"', svg).groups())
        assert height < 2 * width < 6 * height


class TestRows:
    def test_many_side_by_side_become_rows_of_equal_length(self):
        names = LONG[:30]
        drawn = picture(map(node, ["x", *names]), [edge("x", name) for name in names])
        found = steps(drawn, {one.id: SIZE for one in drawn.nodes})
        rows = max(found.values())
        assert rows > 2
        assert sum(step == rows for step in found.values()) == pytest.approx(30 / rows, abs=1)

    def test_few_stay_in_one(self):
        drawn = picture(map(node, ["x", *LONG[:8]]), [edge("x", name) for name in LONG[:8]])
        assert steps(drawn, {one.id: SIZE for one in drawn.nodes}) == {}


class TestTitles:
    BOX = (0.0, 0.0, 200.0, 100.0)
    TITLE = (10.0, 2.0, 70.0, 12.0)

    def test_a_title_stays_left_where_nothing_crosses_it(self):
        path = [(150.0, -20.0), (150.0, 40.0)]
        assert Titles([path], []).left_of(self.TITLE, self.BOX) < 10

    def test_it_moves_away_from_an_edge_and_from_a_node(self):
        path = [(40.0, -20.0), (42.0, 40.0)]
        assert 42 < Titles([path], []).left_of(self.TITLE, self.BOX) < 50
        node = (45.0, 8.0, 90.0, 30.0)
        assert 90 < Titles([path], [node]).left_of(self.TITLE, self.BOX) < 100

    def test_without_room_it_stays(self):
        paths = [[(x, -20.0), (x, 40.0)] for x in range(0, 200, 20)]
        assert Titles(paths, []).left_of(self.TITLE, self.BOX) == 10.0

    def test_no_edge_runs_through_the_titles_of_a_picture(self):
        def f(a, b):
            return jax.jit(wide)(a, b)

        def wide(a, b):
            return jnp.stack([jnp.sin(a), jnp.broadcast_to(b, (3,))])

        svg = draw(f, jnp.ones(3), 1.0).svg()
        [left] = map(float, re.findall(r'<text x="([-\d.]+)" [^>]*>jit wide<', svg))
        entering = re.findall(r'class="edge value" data-value="in\d"[^M]*<path d="M([-\d.]+)', svg)
        assert len(entering) == 2
        assert not any(left <= float(x) <= left + 50 for x in entering)


def test_boxes_deep_inside_have_no_shade_of_their_own():
    drawing = draw(PROGRAMS["deeply_nested"]())
    depth = len(drawing.picture.clusters)
    assert depth > theme.SHADES
    assert drawing.svg().count('class="cluster jaxpr deep"') == depth - theme.SHADES
    assert drawing.dot.count('fillcolor="transparent"') == depth - theme.SHADES


def test_many_lines_between_two_nodes_are_one():
    few = draw(trace(lambda x: jax.lax.concatenate([x] * 3, 0))(jnp.ones(2)))
    assert [one.head for one in few.picture.edges[:3]] == ["0", "1", "2"]
    many = draw(trace(lambda x: jax.lax.concatenate([x] * 60, 0))(jnp.ones(2)))
    assert [one.head for one in many.picture.edges] == ["", "×60"]


def test_long_names_of_arguments_are_cut_at_edges_to_their_end():
    @jax.jit
    def inner(a_very_long_name_of_parameters, b):
        return b + a_very_long_name_of_parameters["encoder"]["kernel"]

    drawing = draw(lambda p, b: inner(p, b), {"encoder": {"kernel": 1.0}}, 2.0)
    folded = drawing.fold("0:jit")
    assert [one.head for one in folded.picture.edges[:2]] == ["…['kernel']", "b"]


def test_types_of_inputs_are_no_longer_than_a_line():
    drawing = draw(jnp.sin, jax.ShapeDtypeStruct((1,) * 30, jnp.float32))
    assert max(len(line) for one in drawing.picture.nodes for line in one.lines) <= 28
