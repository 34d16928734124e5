"""A forward pass and its backward pass side by side, statement by statement."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import pytest
from drawn_programs import PROGRAMS
from made_pictures import chain, edge, laid_out, node, picture

from taxpr_jupyter import draw
from taxpr_jupyter._layout.geometry import enters, flattened, meet, middle_of
from taxpr_jupyter._model.model import Cluster, Node

PASSES = (
    Cluster("F", "group", ("forward pass",), "", None, "F"),
    Cluster("B", "group", ("backward pass",), "", None, "B", ("backward",)),
)


def both(number, clusters=PASSES, more=(), kept=True):
    """A chain forward, one backward, what is kept of each step, and gradients of all."""
    ahead = [f"f{k}" for k in range(number)]
    back = [f"b{k}" for k in reversed(range(number))]
    nodes = [
        node("x", kind="input"),
        *(node(name, "F") for name in ahead),
        *(dataclasses.replace(node(name, "B"), forward=f"f{name[1:]}") for name in back),
        node("out", kind="output"),
        node("loss", kind="output"),
    ]
    edges = [edge("x", "f0"), *chain(ahead), *chain(back), edge(ahead[-1], "loss")]
    edges += [edge(f"f{k}", f"b{k}", "residual") for k in range(number - 1) if kept]
    edges += [edge(ahead[-1], back[0], "seed")] if kept else []
    edges += [edge(name, "out") for name in back]
    return picture(nodes, [*edges, *more], clusters)


class TestSideBySide:
    def test_each_derivative_stands_at_the_height_of_its_statement(self):
        layout = laid_out(both(4))
        for k in range(4):
            (x, y), (to_x, to_y) = (middle_of(layout.nodes[f"{one}{k}"]) for one in "fb")
            assert x < to_x
            assert y == pytest.approx(to_y, abs=1)
        heights = [layout.nodes[f"b{k}"][1] for k in range(4)]
        assert heights == sorted(heights)

    def test_partners_are_found_however_many_rows_are_between_them(self):
        wide = [node(name, "F") for name in ("g0", "g1", "g2")]
        drawn = both(4)
        edges = [one for one in drawn.edges if one.id != "f1->f2"]
        edges += chain(["f1", "g0", "g1", "g2", "f2"])
        layout = laid_out(picture([*drawn.nodes, *wide], edges, PASSES))
        for k in range(4):
            (_, y), (_, to_y) = (middle_of(layout.nodes[f"{one}{k}"]) for one in "fb")
            assert y == pytest.approx(to_y, abs=1)

    def test_what_is_kept_leads_straight_to_its_use(self):
        layout = laid_out(both(4))
        assert not layout.twins
        for name in ("f0->b0", "f1->b1", "f2->b2", "f3->b3"):
            start, end = name.split("->")
            line = layout.curves[name]
            assert line[0][0] == pytest.approx(layout.nodes[start][2])
            assert len({round(y, 3) for _, y in line}) == 1
            assert max(x for x, _ in layout.tips[name]) == pytest.approx(layout.nodes[end][0])

    def test_what_has_something_in_its_way_has_a_twin(self):
        again = edge("f0", "b3", "residual")
        layout = laid_out(both(4, more=[again]))
        assert layout.twins.keys() == {again.id}
        box, text = layout.twins[again.id]
        assert text == "f0"
        assert layout.nodes["b3"][0] - box[2] < 40

    def test_partners_in_another_picture_change_nothing(self):
        drawn = both(4)
        nodes = [dataclasses.replace(one, pair="f0") for one in drawn.nodes]
        assert laid_out(picture(nodes, drawn.edges, PASSES)) == laid_out(drawn)

    def test_a_gradient_goes_around_what_stands_beside_it(self):
        drawn = both(3)
        beside = [node("g0", "B"), node("g1", "B")]
        edges = [*drawn.edges, *chain(["b2", "g0", "b0"]), *chain(["b2", "g1", "b0"])]
        layout = laid_out(
            picture([*drawn.nodes, *beside], [*edges, edge("g0", "out"), edge("g1", "out")], PASSES)
        )
        assert layout.nodes["b2"][1] > layout.nodes["b0"][1]  # it leads upwards
        for name in ("b1", "g0", "g1"):
            others = [layout.nodes[one] for one in {"b1", "g0", "g1"} - {name}]
            line = flattened(layout.curves[f"{name}->out"])
            parts = itertools.pairwise(line)
            assert not any(enters(*part, box) for part in parts for box in others)

    def test_gradients_leave_at_the_right_and_go_down_together(self):
        layout = laid_out(both(4))
        right = layout.clusters["B"][2]
        margins = set()
        for k in range(4):
            line = layout.curves[f"b{k}->out"]
            assert line[0][0] == pytest.approx(layout.nodes[f"b{k}"][2])
            margins.add(round(max(x for x, y in line if y < layout.clusters["B"][3])))
        (margin,) = margins
        assert margin > right

    def test_nothing_lies_on_anything_else(self):
        layout = laid_out(both(5, more=[edge("x", "b2")]))
        boxes = [*layout.nodes.values(), *(box for box, _ in layout.twins.values())]
        assert not any(meet(a, b) for a, b in itertools.combinations(boxes, 2))
        assert not meet(layout.clusters["F"], layout.clusters["B"])
        for name, (left, top, right, bottom) in layout.nodes.items():
            if name[0] in "fb":
                outer = layout.clusters[name[0].upper()]
                assert outer[0] < left
                assert outer[1] < top
                assert right < outer[2]
                assert bottom < outer[3]

    @pytest.mark.parametrize("name", ["mlp_step", "grad_remat"])
    def test_titles_stand_at_the_top_of_what_is_turned(self, name):
        layout = laid_out(draw(PROGRAMS[name]()).picture)
        for cluster, lines in layout.titles.items():
            _, top, _, _ = layout.clusters[cluster]
            assert all(top < y < top + 12 * len(lines) + 1 for _, y in lines)


class TestAsBefore:
    """Both passes are frames as others where the reader would not win by more."""

    def test_where_nothing_is_kept(self):
        layout = laid_out(both(4, kept=False))
        assert layout.nodes["b3"][1] < layout.nodes["b0"][1]

    def test_where_the_second_is_no_backward_pass(self):
        unmarked = PASSES[0], dataclasses.replace(PASSES[1], marks=())
        layout = laid_out(both(4, unmarked))
        assert layout.nodes["b3"][1] < layout.nodes["b0"][1]

    def test_where_one_statement_only_is_in_both(self):
        layout = laid_out(both(1))
        assert "f0->b0" in layout.twins

    def test_where_the_picture_would_be_long(self):
        layout = laid_out(both(60))
        assert layout.twins.keys() >= {f"f{k}->b{k}" for k in range(60)}
        _, _, right, bottom = layout.view
        assert bottom < 2.5 * right


def test_what_repeats_itself_is_paired_from_its_end():
    def layers(x, w):
        for _ in range(3):
            with jax.named_scope("linear"):
                x = jnp.sin(x @ w) * 2.0
            with jax.named_scope("other"):
                x = jnp.tanh(x) + jnp.cos(x)
        return x.sum()

    drawn = draw(jax.grad(layers), jnp.ones((2, 2)), jnp.ones((2, 2))).picture
    (first,) = (one for one in drawn.clusters if one.lines[0] == "∂ linear" and one.forward)
    partner = drawn.element_of(first.forward)
    assert isinstance(partner, Node)  # the third one is folded, only the first one is open
    assert partner.lines[0].startswith("linear … other")
