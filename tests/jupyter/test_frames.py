"""How a picture is laid out: frame by frame, with ports, margins, twins, columns and rows."""

import dataclasses
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import jax
import jax.numpy as jnp
import pytest
from documented_programs import PROGRAMS as DOCUMENTED
from drawn_programs import PROGRAMS
from made_pictures import chain, edge, laid_out, node, picture
from picture_quality import measured
from real_programs import PROGRAMS as REAL

import taxpr
from taxpr import trace
from taxpr_jupyter import draw
from taxpr_jupyter._layout.arranged import RecentLayouts, arranged
from taxpr_jupyter._layout.geometry import crossing, flattened, grown, meet
from taxpr_jupyter._layout.layout import lay_out
from taxpr_jupyter._model import theme
from taxpr_jupyter._model.model import Cluster
from taxpr_jupyter._svg.titles import Titles

LONG = [f"n{k}" for k in range(40)]


def asked(drawn, kept):
    """The layout, and the number of frames that an engine laid out for it."""
    numbers = []

    def counted():
        plan = arranged(drawn, kept)
        try:
            dots = next(plan)
            while True:
                numbers.append(len(dots))
                svgs = yield dots
                dots = plan.send(svgs)
        except StopIteration as done:
            return done.value

    return lay_out(counted).layout, sum(numbers)


def inside(inner, outer):
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


def traced(fn, args):
    return trace(fn)(*args)


class TestFrames:
    @pytest.mark.parametrize(
        "name",
        # JAX has the primitive of `root_of_a_cube` from 0.12.
        sorted({"deep", "mlp_step", "while_body", "states", "root_of_a_cube"} & PROGRAMS.keys()),
    )
    def test_each_part_is_in_its_frame_and_beside_the_others(self, name):
        drawn = draw(PROGRAMS[name]()).picture
        layout = laid_out(drawn)
        around = {one.id: one.cluster for one in drawn.nodes}
        around |= {one.id: one.parent for one in drawn.clusters}
        boxes = [
            *((around[one.id], layout.nodes[one.id]) for one in drawn.nodes if not one.on),
            *((around[one.id], layout.clusters[one.id]) for one in drawn.clusters),
        ]
        for cluster, box in boxes:
            assert inside(box, layout.clusters[cluster] if cluster else layout.view)
        for (outer, a), (other, b) in itertools.combinations(boxes, 2):
            if outer == other:
                apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
                assert apart, (a, b)

    @pytest.mark.parametrize("name", ["scan_nested", "grad_scan_plain", "while_body", "switch"])
    def test_a_tag_is_a_badge_and_moves_nothing(self, name):
        program = PROGRAMS[name]()
        before = draw(program).picture
        plain = laid_out(before)
        nodes = [one.id for one in before.nodes if not one.on]
        kept, tried = RecentLayouts(), 0
        values = {one.value for one in before.edges if one.value}
        for value in sorted(values):
            try:
                tagged = program.tag_at(value, name="seen")
            except taxpr.TaxprError:  # what cannot be tagged
                continue
            after = draw(tagged).picture
            (badge,) = [one for one in after.nodes if one.lines[0] == "tag seen"]
            layout = laid_out(after, kept)
            assert [layout.nodes[one] for one in nodes] == [plain.nodes[one] for one in nodes]
            assert layout.clusters == plain.clusters
            assert list(layout.curves.values()) == list(plain.curves.values())
            _, middle, right, bottom = layout.nodes[badge.on]
            assert middle < bottom == sum(layout.nodes[badge.id][1::2]) / 2
            assert layout.nodes[badge.id][2] < right
            assert badge.id not in {end for one in after.edges for end in (one.source, one.target)}
            tried += 1
        assert tried > 2

    def test_an_input_whose_uses_are_many_has_one_line(self):
        def cell(p, h, x):
            z = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"])
            n = jnp.tanh(x @ p["wn"] + (z * h) @ p["un"])
            return (1 - z) * n + z * h

        def loss(p, xs, y):
            def step(h, x):
                h = cell(p, h, x)
                return h, h

            _, hs = jax.lax.scan(step, jnp.zeros(4), xs)
            return jnp.mean((hs @ p["out"] - y) ** 2)

        square = jnp.ones((4, 4))
        p = dict.fromkeys(("wz", "uz", "wn", "un", "out", "bz", "bn", "b", "c"), square)
        drawn = draw(jax.grad(loss), p, jnp.ones((6, 4)), jnp.ones((6, 4))).picture
        layout = laid_out(drawn)
        uses = [one for one in drawn.edges if one.source == "group:in0-8"]
        assert [one.id in layout.twins for one in uses] == [False, *[True] * (len(uses) - 1)]
        # And no line comes back into a frame that it has left.
        for one in drawn.edges:
            if one.kind != "value" or one.id in layout.twins:
                continue
            path = flattened(layout.curves[one.id])
            for name, box in layout.clusters.items():
                within = [inside((x, y, x, y), grown(box, 0.0, -1.5)) for x, y in path]
                assert len([*itertools.groupby(within)]) <= 2, (one.id, name)

    @pytest.mark.parametrize("name", ["deep", "scan_nested", "grad_remat"])
    def test_a_line_goes_from_its_source_to_its_target(self, name):
        drawn = draw(PROGRAMS[name]()).picture
        layout = laid_out(drawn)
        for one in drawn.edges:
            (x, y), *_ = layout.curves[one.id]
            at, _ = layout.twins.get(one.id, (layout.nodes[one.source], ""))
            assert at[0] - 1 <= x <= at[2] + 1
            assert at[1] - 1 <= y <= at[3] + 1
            tip = layout.tips[one.id]
            end = layout.clusters[one.into] if one.into else layout.nodes[one.target]
            assert any(
                end[0] - 1 <= x <= end[2] + 1 and end[1] - 5 <= y <= end[3] + 1 for x, y in tip
            )

    def test_values_enter_a_frame_at_its_top_and_leave_it_at_its_bottom(self):
        drawn = draw(PROGRAMS["jit_twice"]()).picture
        layout = laid_out(drawn)
        for cluster in drawn.clusters:
            _, top, _, bottom = layout.clusters[cluster.id]
            held = {one.id for one in drawn.nodes if one.cluster == cluster.id}
            for one in drawn.edges:
                ys = [y for _, y in layout.curves[one.id]]
                if one.target in held and one.source not in held:
                    assert min(ys) < top < max(ys)
                if one.source in held and one.target not in held:
                    assert min(ys) < bottom < max(ys)

    def test_only_what_changed_and_what_is_around_it_is_laid_out_again(self):
        program = PROGRAMS["deeply_nested"]()
        drawing, kept = draw(program), RecentLayouts()
        first, frames = asked(drawing.picture, kept)
        assert frames == 1 + len(drawing.picture.clusters)
        assert asked(drawing.picture, kept) == (first, 0)
        heated = dataclasses.replace(drawing, heat="flops")
        assert asked(heated.picture, kept)[1] == 0
        innermost = drawing.picture.clusters[-1]
        folded = drawing.fold(innermost.fold)
        depth = len(_around(drawing.picture, innermost.id)) - 1
        assert asked(folded.picture, kept)[1] <= depth
        assert asked(drawing.picture, kept) == (first, 0)

    def test_only_frames_whose_lines_cross_are_laid_out_twice(self):
        drawing = draw(PROGRAMS["cond_true"]())
        frames = 1 + len(drawing.picture.clusters)
        assert measured(drawing.picture, drawing.svg())["crossings"] == 1
        assert asked(drawing.picture, RecentLayouts())[1] == frames + 1

    def test_a_result_is_named_where_it_leads_up_over_another_function(self):
        boxes = [Cluster(name, "function", (name,), "", None, name) for name in "fg"]
        nodes = [node("rest"), node("a", "f"), node("b", "f"), node("c", "g"), node("end")]
        edges = [*chain(["rest", "a", "b", "c"]), edge("b", "rest"), edge("c", "rest")]
        layout = laid_out(picture(nodes, [*edges, edge("rest", "end")], boxes))
        assert list(layout.twins) == ["c->rest"]
        heights = [layout.nodes["rest"][1], layout.clusters["f"][1], layout.clusters["g"][1]]
        assert heights == sorted(heights)

    def test_frames_that_are_alike_are_laid_out_once(self):
        @jax.jit
        def inner(x):
            return jnp.sin(x) * 2

        drawn = draw(lambda x: inner(inner(inner(x))), 1.0).picture
        assert len(drawn.clusters) == 3
        assert asked(drawn, RecentLayouts())[1] == 2

    @pytest.mark.spread(1)
    def test_another_process_gives_the_same(self):
        code = (
            "import sys; sys.path[:0] = ['tests']\n"
            "from drawn_programs import PROGRAMS\n"
            "from taxpr_jupyter import draw\n"
            "print(draw(PROGRAMS['grad_scan_nested']()).svg())"
        )
        root = Path(__file__).parents[2]
        env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(root)}
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True
        )
        assert run.stdout.strip() == draw(PROGRAMS["grad_scan_nested"]()).svg().strip()


def _around(drawn, cluster):
    parents = {one.id: one.parent for one in drawn.clusters}
    found = [cluster]
    while found[-1] is not None:
        found.append(parents[found[-1]])
    return found


class TestWays:
    def test_the_carries_of_a_loop_go_back_by_one_line_on_its_margin(self):
        drawn = draw(PROGRAMS["while_body"]()).picture
        layout = laid_out(drawn)
        body = next(one.id for one in drawn.clusters if one.id.endswith("body"))
        back = [one for one in drawn.edges if one.kind == "back"]
        drawn_back = {tuple(layout.curves[one.id]) for one in back if layout.curves[one.id]}
        (line,) = drawn_back
        left = min(x for x, _ in line)
        others = [layout.nodes[one.id] for one in drawn.nodes if one.cluster == body]
        assert layout.clusters[body][0] < left < min(box[0] for box in others)

    def test_the_condition_of_a_while_stands_in_its_frame_below_the_state(self):
        drawn = draw(PROGRAMS["while_body"]()).picture
        layout = laid_out(drawn)
        (_, top, *_), box = layout.clusters["0:while/cond"], layout.clusters["0:while/body"]
        assert box[1] < layout.nodes["0:while/body/in1"][3] < top
        assert layout.clusters["0:while/cond"][3] < box[3]

    @pytest.mark.parametrize("unfold", [(), ("0:while/body/group:in1-8",)])
    def test_a_condition_that_hands_a_carry_on_beside_many_that_it_does_not_use(self, unfold):
        def loop(go, state):
            def step(carry):
                return ~carry[0], jax.tree.map(lambda x: x * 2, carry[1])

            return jax.lax.while_loop(lambda carry: carry[0], step, (go, state))

        drawing = draw(loop, True, dict.fromkeys(LONG[:8], 1.0), unfold=unfold)
        drawn = drawing.picture
        inside = {one.id for one in drawn.nodes if one.cluster == "0:while/cond"}
        assert inside == {"0:while/cond/out0"}
        there = "0:while/body/in3" if unfold else "0:while/body/group:in1-8"
        assert drawn.element_of("0:while/cond/in3") == drawn.find(there)
        assert drawn.element_of("0:while/cond/in0") == drawn.find("0:while/body/in0")
        (edge,) = [one for one in drawn.edges if one.target == "0:while/cond/out0"]
        assert edge.source == "0:while/body/in0"
        assert laid_out(drawn).curves[edge.id]

    def test_operands_stand_in_one_row_above_the_branches_and_are_named_in_these(self):
        def choose(i, x, y, z):
            branches = [lambda x, y, z: x @ y + z, lambda x, y, z: z * 2, lambda u, v, w: u]
            return jax.lax.switch(i, branches, x, y, z)

        ones = jnp.ones((3, 3))
        drawn = draw(choose, 1, ones, ones, ones).picture
        layout = laid_out(drawn)
        bar = [one for one in drawn.nodes if {"bar", "choice"} & {*one.marks}]
        assert len({sum(layout.nodes[one.id][1::2]) for one in bar}) == 1
        above = max(layout.nodes[one.id][3] for one in bar)
        branches = [one for one in drawn.clusters if one.kind == "jaxpr"]
        assert above < min(layout.clusters[one.id][1] for one in branches)
        repeated = [one for one in drawn.nodes if "again" in one.marks]
        assert [one.lines[0] for one in repeated] == ["x", "y", "z", "z", "hands u = x on"]
        for one in repeated[:4]:
            (edge,) = [edge for edge in drawn.edges if edge.source == one.id]
            a, b = layout.nodes[one.id], layout.nodes[edge.target]
            assert a[1] < b[3]
            assert b[1] < a[3]  # they stand beside each other
        into = {edge.id for edge in drawn.edges if edge.target in {one.id for one in repeated}}
        control = {edge.id for edge in drawn.edges if edge.kind == "control"}
        assert all(bool(layout.curves[one]) == (one in control) for one in into)

    def test_a_bar_of_many_operands_has_rows(self):
        def choose(go, *operands):
            return jax.lax.cond(go, lambda *a: a[0] - a[-1], lambda *a: a[3] * a[4], *operands)

        names = ", ".join(LONG[:9])
        wide = eval(f"lambda go, {names}: choose(go, {names})", {"choose": choose})
        inputs = [f"1:cond/branch{k}/group:in0-8" for k in range(2)]
        drawn = draw(wide, True, *[1.0] * 9, budget=99, unfold=inputs).picture
        layout = laid_out(drawn)
        rows = {sum(layout.nodes[one.id][1::2]) for one in drawn.nodes if "bar" in one.marks}
        assert 1 < len(rows) < 9

    def test_what_the_forward_pass_keeps_has_a_twin_beside_its_use(self):
        fn, args = REAL["rnn_by_scan"]()
        drawing = draw(fn, *args)
        drawn = drawing.picture
        layout = laid_out(drawn)
        kept = [one for one in drawn.edges if one.kind in ("residual", "seed")]
        assert {one.id for one in kept} <= layout.twins.keys()
        names = {one.id: one.lines[0] for one in drawn.nodes}
        for one in kept:
            box, text = layout.twins[one.id]
            assert text == one.name or names[one.source].startswith(text.rstrip("…"))
            assert 0 < layout.nodes[one.target][0] - box[2] < 120
        twins = re.findall(r'data-twin="([^"]*)"', drawing.svg())
        assert {one.source for one in kept} <= set(twins)

    def test_what_is_given_leads_into_the_first_frame_that_uses_it_and_is_named_in_others(self):
        boxes = [Cluster(name, "group", (name,), "", None, name) for name in "AB"]
        nodes = [
            node("x", kind="input"),
            *(node(f"{k}{name}", name) for name in "AB" for k in "pq"),
        ]
        edges = [edge("x", one.id) for one in nodes[1:]]
        after = [*nodes, node("last")], [*edges, edge("pB", "last"), edge("x", "last")]
        layout = laid_out(picture(nodes[:-1], edges[:-1], boxes))
        assert list(layout.twins) == ["x->pB"]
        assert [text for _, text in layout.twins.values()] == ["x"]
        layout = laid_out(picture(*after, boxes))  # used so often, in no frame
        assert list(layout.twins) == [one.id for one in edges]

    def test_a_state_has_lines_into_the_first_frame_that_reads_it_and_twins_in_others(self):
        boxes = [Cluster("f", "function", ("f",), "", None, "")]
        boxes += [Cluster(one, "group", (one,), "", "f", one) for one in "AB"]
        nodes = [node("s", kind="state"), node("p", "A"), node("q", "B"), node("r", "B")]
        edges = [dataclasses.replace(edge("s", one), kind="read") for one in "pqr"]
        layout = laid_out(picture(nodes, edges, boxes))
        assert list(layout.twins) == ["s->q", "s->r"]

    def test_the_line_of_several_carries_says_how_many_they_are(self):
        drawing = draw(PROGRAMS["while_body"]())
        back = [one for one in drawing.picture.edges if one.kind == "back"]
        assert [one.tail for one in back] == [f"×{len(back)}", *[""] * (len(back) - 1)]
        assert f">×{len(back)}</text>" in drawing.svg()

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("params['decoder_layers'][0]['b']", "params…[0]['b']"),
            ("params…[0]['output_kernel_of']", "params…['output_kernel_of']"),
            ("y = f(x)[0] + g(x)[1] + h(x) * 2", "y = f(x)[0] + g(x)[1] + h(x…"),
        ],
    )
    def test_a_twin_of_a_path_has_its_end(self, name, text):
        nodes = [node("x", kind="input"), node("p", "A"), node("q", "B")]
        edges = [edge("x", "p"), dataclasses.replace(edge("x", "q"), name=name)]
        boxes = [Cluster(one, "group", (one,), "", None, one) for one in "AB"]
        [(_, found)] = laid_out(picture(nodes, edges, boxes)).twins.values()
        assert found == text

    def test_more_twins_than_fit_beside_a_node_stand_above_it(self):
        boxes = [Cluster(name, "group", (name,), "", None, name) for name in "AB"]
        given = [node(name, kind="input") for name in LONG[:12]]
        ends = [node("p", "A"), node("q", "B")]
        edges = [edge(one.id, end.id) for end in ends for one in given]
        layout = laid_out(picture([*given, *ends], edges, boxes))
        assert list(layout.twins) == [f"{one.id}->q" for one in given]
        twins = [box for box, _ in layout.twins.values()]
        assert all(inside(box, layout.clusters["B"]) for box in twins)
        assert not any(meet(a, b) for a, b in itertools.combinations(twins, 2))

    def test_branches_stand_side_by_side_in_their_order_and_begin_alike(self):
        drawn = draw(PROGRAMS["switch"]()).picture
        layout = laid_out(drawn)
        branches = [
            layout.clusters[one.id] for one in drawn.clusters if "branch" in one.id.split("/")[-1]
        ]
        assert len(branches) == 3
        assert len({(round(box[1]), round(box[3])) for box in branches}) == 1
        by_name = sorted(
            (one.id, layout.clusters[one.id][0]) for one in drawn.clusters if "branch" in one.id
        )
        assert [x for _, x in by_name] == sorted(x for _, x in by_name)


class TestColumns:
    def test_a_long_chain_becomes_columns_of_about_the_same_height(self):
        layout = laid_out(picture(map(node, LONG), chain(LONG)))
        _, _, width, height = layout.view
        assert 1 / 3 < height / width < 3
        tops = [layout.nodes[name][1] for name in LONG]
        turns = [k for k in range(1, 40) if tops[k] < tops[k - 1]]
        assert 1 <= len(turns) <= 6
        parts = [b - a for a, b in itertools.pairwise([0, *turns, 40])]
        assert max(parts) - min(parts) <= 2
        lefts = [layout.nodes[LONG[k]][0] for k in (0, *turns)]
        assert lefts == sorted(lefts)

    def test_a_short_chain_is_not_cut(self):
        layout = laid_out(picture(map(node, LONG[:3]), chain(LONG[:3])))
        assert len({round(box[0]) for box in layout.nodes.values()}) == 1

    def test_a_frame_is_cut_within_its_border(self):
        box = Cluster("all", "jaxpr", ("all",), "", None, "all")
        nodes = [node("x"), *(node(name, "all") for name in LONG), node("y")]
        layout = laid_out(picture(nodes, chain(["x", *LONG, "y"]), [box]))
        assert all(inside(layout.nodes[name], layout.clusters["all"]) for name in LONG)
        assert len({round(layout.nodes[name][0]) for name in LONG}) > 1

    def test_what_nothing_joins_becomes_rows_where_it_is_wide(self):
        layout = laid_out(picture(map(node, LONG), []))
        _, _, width, height = layout.view
        assert 1 / 3 < height / width < 3

    def test_many_beside_each_other_become_rows(self):
        layout = laid_out(picture(map(node, ["x", *LONG]), [edge("x", name) for name in LONG]))
        assert len({round(layout.nodes[name][1]) for name in LONG}) > 2

    def test_what_hangs_on_them_counts(self):
        names = LONG[:12]
        ends = [dataclasses.replace(node(f"end of {name}"), lines=("wide " * 5,)) for name in names]
        edges = [*(edge("x", name) for name in names), *map(edge, names, (one.id for one in ends))]
        layout = laid_out(picture([*map(node, ["x", *names]), *ends], edges))
        _, _, width, height = layout.view
        assert 1 / 3 < height / width < 3


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", [*PROGRAMS, *DOCUMENTED])
def test_pictures_are_quiet(name):
    make = PROGRAMS.get(name) or (lambda: traced(*DOCUMENTED[name]()))
    drawing = draw(make())
    found = measured(drawing.picture, drawing.svg())
    assert (found["over"], found["texts"]) == (0, 0)
    assert found["crossings"] <= 8
    if name != "deeply_nested":  # twelve functions around each other
        assert 1 / 3 <= found["height"] / found["width"] <= 3


def test_of_two_layouts_the_one_with_fewer_crossings_is_drawn():
    """Its parts given from first to last, Graphviz lets two of its lines cross."""
    pairs = ["ad", "ag", "bc", "bd", "bf", "cg", "de", "df", "eg", "eh"]
    edges = [edge(source, target) for source, target in pairs]
    layout = laid_out(picture(map(node, "abcdefgh"), edges))
    crossed = crossing([flattened(layout.curves[one.id]) for one in edges])
    assert all(set(pairs[one]) & set(pairs[other]) for one, other in crossed)


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

    def test_it_is_the_first_place_that_nothing_crosses(self):
        random = Random(0)
        for _ in range(300):
            xs = [float(random.randint(0, 190)) for _ in range(random.randint(0, 9))]
            wide = [float(random.randint(0, 30)) for _ in xs]
            nodes = [(x, 8.0, x + w, 30.0) for x, w in zip(xs, wide, strict=True)]
            starts = [7.0, *(x + w + 3.01 for x, w in zip(xs, wide, strict=True))]
            free = [
                start
                for start in starts
                if 7 <= start <= 133
                if not any(a < start + 63 and start - 3 < b for a, _, b, _ in nodes)
            ]
            found = Titles([], nodes).left_of(self.TITLE, self.BOX)
            assert found == pytest.approx(min(free, default=10.0))

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


def test_passes_side_by_side_are_not_much_wider_than_high():
    noted = []  # and used by nobody: a node beside the others

    def loss(weights, scales):
        noted.append(jnp.sum(jnp.exp(jnp.sin(weights)) * jnp.cos(scales) ** 3))
        hidden = jnp.tanh(weights @ jnp.sin(weights)) * jnp.sin(scales) * jnp.exp(weights)
        noted.append(jnp.sum(jnp.exp(jnp.sin(hidden)) * jnp.cos(hidden) ** 3))
        return jnp.mean((hidden + jnp.exp(weights)) * jnp.cos(hidden) ** 2 * jnp.sin(hidden))

    x = jnp.ones((3, 3))
    drawing = draw(jax.value_and_grad(loss), x, x)
    size = measured(drawing.picture, drawing.svg())
    assert size["width"] <= 3 * size["height"], size
