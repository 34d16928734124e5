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


def of_two(p, q, x):
    def first(p):
        h = jnp.tanh(x @ p)
        return jnp.mean(h**2) + jnp.sum(jnp.sin(p))

    def second(q):
        h = jnp.cos(x @ q)
        return jnp.mean(h**3) + jnp.sum(jnp.exp(q))

    of_p = jax.grad(first)(p)
    of_q = jax.grad(second)(q)
    return p - 0.1 * of_p, q - 0.1 * of_q


def test_passes_of_several_derivatives_say_of_which_they_are():
    square = jnp.eye(4)
    frames = draw(of_two, square, square, jnp.ones((3, 4))).picture.clusters
    assert [frame.lines[0] for frame in frames if " pass" in frame.lines[0]] == [
        "forward pass of first",
        "backward pass of first",
        "forward pass of second",
        "backward pass of second",
    ]


def with_what_no_iteration_changes(w, xs):
    def step(c, x):
        scale = jnp.exp(w) / jnp.exp(w).sum()
        c = jnp.tanh(scale * c + x) * jnp.sin(w)
        return c, jnp.mean(c**2)

    c, ys = jax.lax.scan(step, jnp.zeros(4), xs)
    return jnp.sum(ys) + jnp.sum(c)


def test_what_is_moved_out_of_a_loop_is_called_by_its_expression():
    args = jnp.ones(4), jnp.ones((5, 4))
    for fun, moved in (
        (jax.value_and_grad(with_what_no_iteration_changes), True),
        (with_what_no_iteration_changes, False),
    ):
        nodes = draw(fun, *args, budget=24).picture.nodes
        lines = [node.lines for node in nodes if "moved out of the scan" in node.lines]
        assert any(text[0].startswith("jnp.sin(w)") for text in lines) is moved
        assert bool(lines) is moved


def test_a_loop_in_a_body_of_the_same_name_moves_nothing():
    def step(c, x):
        def step(d, y):
            d = jnp.tanh(d * y + jnp.sin(d) * 0.5)
            return d, jnp.mean(d)

        c = jnp.tanh(c + x) * jnp.exp(c) - jnp.cos(c) * 0.5 + jnp.sin(x)
        c = c / (1.0 + jnp.sum(c**2)) + jnp.tanh(c) * jnp.exp(-c)
        d, means = jax.lax.scan(step, c, jnp.ones((3, 4)))
        return d, jnp.sum(means) * jnp.mean(c)

    nodes = draw(jax.lax.scan, step, jnp.zeros(4), jnp.ones((5, 4))).picture.nodes
    assert not [node for node in nodes if "moved out" in str(node.lines)]


def in_a_loop(x, ws):
    for i, s in enumerate([1.0, 0.5, 0.25]):
        h = jnp.tanh(x @ ws[i]) * s
        x = x + h / (1.0 + jnp.sum(h**2))
        x = x - x.mean()
    return x


def test_a_loop_of_python_that_is_all_of_a_function_keeps_its_title():
    frames = draw(in_a_loop, jnp.ones((2, 4)), [jnp.eye(4)] * 3).picture.clusters
    assert [frame.lines for frame in frames] == [("for i, s in enumerate([1.0, 0.5, 0.25])",)]


def passes_of(fun, *args, **options):
    frames = draw(fun, *args, **options).picture.clusters
    return [frame.lines[0] for frame in frames if " pass" in frame.lines[0]]


def test_what_is_moved_out_of_a_loop_stands_in_its_statement():
    fun = jax.value_and_grad(with_what_no_iteration_changes)
    args = jnp.ones(4), jnp.ones((5, 4))
    picture = draw(fun, *args, budget=24).picture
    [call] = (one for one in picture.clusters if one.lines[0].startswith("c, ys = jax.lax.scan"))
    inside = [node.lines for node in picture.nodes if node.cluster == call.id]
    moved = [lines[0] for lines in inside if "moved out of the scan" in lines]
    assert [text.removesuffix(" [kept]") for text in moved] == [
        "scale = jnp.exp(w) / jnp.exp(w).sum()",
        "jnp.sin(w)",
    ]
    assert passes_of(fun, *args) == ["forward pass", "backward pass"]


def with_parts_that_no_iteration_changes(w, u, i, xs):
    def step(c, x):
        c = jnp.tanh(c * (jnp.sin(w) + 1.0) + jnp.cos(u) @ x)
        c = c[i] * jnp.exp(u)[0]
        return c, jnp.mean(c**2)

    c, ys = jax.lax.scan(step, jnp.zeros(4), xs)
    return jnp.sum(ys) + jnp.sum(c)


def test_a_part_that_is_moved_out_of_a_loop_has_no_title_of_its_whole_statement():
    """In the source the loop keeps `c * •`, the product with `x`, and the indexing of `c`."""
    fun = jax.value_and_grad(with_parts_that_no_iteration_changes, (0, 1))
    args = jnp.ones(4), jnp.eye(4), jnp.arange(4), jnp.ones((5, 4))
    nodes = draw(fun, *args, budget=24).picture.nodes
    moved = [
        " ".join(node.lines[: node.lines.index("moved out of the scan")])
        for node in nodes
        if "moved out of the scan" in node.lines
    ]
    assert [title.removesuffix(" [kept]") for title in moved] == [
        "jnp.sin(w) + 1.0, jnp.cos(u)",
        "part of c = c[i] * jnp.exp(u)[0]",
    ]


def act(v):
    return jnp.tanh(v) * 2.0


def squash(v):
    v = jnp.sin(v) + 1.0
    return jnp.tanh(v)


def in_a_statement_of_its_own(c, x, w, u):
    h = act(w)
    return c * h + act(c) * x


def in_a_statement_with_another_call(c, x, w, u):
    return c * act(w) + act(c) * x


def in_a_call_of_a_call(c, x, w, u):
    def scaled(v):
        return squash(v) * 0.5

    return c * scaled(w) + scaled(c) * x


def with_a_part_of_a_call(c, x, w, u):
    def mixed(v, z):
        return (jnp.exp(v) + jnp.cos(v)) * z + 1.0

    return mixed(w, c) + mixed(c, x)


@pytest.mark.parametrize(
    ("body", "budget", "expected"),
    [
        (in_a_statement_of_its_own, 24, ["act(w)"]),
        (in_a_statement_with_another_call, 24, ["act(w)"]),
        (in_a_call_of_a_call, 8, ["scaled(w)"]),
        (in_a_call_of_a_call, 24, ["v = jnp.sin(v) + 1.0", "jnp.tanh(v)"]),
        (with_a_part_of_a_call, 24, ["jnp.exp(v) + jnp.cos(v)"]),
    ],
)
def test_a_call_that_is_moved_out_of_a_loop_as_a_whole_is_no_part(body, budget, expected):
    """The loop keeps another call of the same function, but nothing of this one."""

    def run(w, u, xs):
        def step(c, x):
            c = body(c, x, w, u)
            return c, jnp.mean(c**2)

        c, ys = jax.lax.scan(step, jnp.zeros(4), xs)
        return jnp.sum(ys) + jnp.sum(c) + jnp.sum(u)

    fun = jax.value_and_grad(run, (0, 1))
    nodes = draw(fun, jnp.ones(4), jnp.eye(4), jnp.ones((5, 4)), budget=budget).picture.nodes
    rows = [node.lines for node in nodes if "moved out of the scan" in node.lines]
    titles = [" ".join(lines[: lines.index("moved out of the scan")]) for lines in rows]
    assert [title.removesuffix(" [kept]") for title in titles] == expected


def with_two_loops(w, v, xs):
    def step(c, x):
        c = jnp.tanh(jnp.exp(w) * c + x) * jnp.sin(w)
        return c, jnp.mean(c**2)

    def other(c, x):
        mask = jnp.tril(jnp.ones((4, 4))) * jnp.exp(v)[None]
        c = jnp.tanh(mask @ c + x)
        return c, jnp.sum(mask @ c)

    h = jnp.sin(xs) * w[None]
    c, ys = jax.lax.scan(step, jnp.zeros(4), h)
    d, zs = jax.lax.scan(other, c * 2.0, h)
    return jnp.sum(ys) + jnp.sum(c) + jnp.sum(zs * d.sum())


def test_a_loss_with_several_loops_has_one_forward_pass():
    args = jnp.ones(4), jnp.ones(4), jnp.ones((5, 4))
    fun = jax.value_and_grad(with_two_loops, (0, 1))
    assert passes_of(fun, *args) == ["forward pass", "backward pass"]
    nodes = draw(fun, *args, budget=60).picture.nodes
    titles = [node.lines[0] for node in nodes if "moved out of the scan" in node.lines]
    assert [title for title in titles if title.startswith("mask = ")]  # with a jit in it


def with_a_mask(p, x):
    h = jnp.tanh(x @ p["a"])
    mask = jnp.arange(4) % 3
    mask = (mask + jnp.flip(mask)) > 1
    return jnp.mean((jnp.where(mask, h, 0.0) @ p["b"] - x) ** 2)


def test_what_has_no_derivative_is_in_the_forward_pass_of_the_function():
    def step(p, x):
        found, grads = jax.value_and_grad(with_a_mask)(p, x)
        return found, jax.tree.map(lambda a, b: a - 0.1 * b, p, grads)

    args = {"a": jnp.eye(4), "b": jnp.eye(4)}, jnp.eye(4)
    assert passes_of(jax.grad(with_a_mask), *args) == ["forward pass", "backward pass"]
    assert passes_of(step, *args) == [
        "forward pass of with_a_mask",
        "backward pass of with_a_mask",
    ]


def test_passes_of_one_title_are_numbered():
    def both(p, x):
        y, back = jax.vjp(lambda a: jnp.tanh(x @ a) * jnp.sin(x), p)
        c = jnp.cumsum(y, axis=0) * jnp.cos(x) + jnp.exp(x)
        z, back_of_z = jax.vjp(lambda a: jnp.tanh(x @ a) * jnp.cos(x), p)
        return back(y * c), back_of_z(z)

    titles = passes_of(both, jnp.eye(4), jnp.eye(4))
    assert titles[:2] == ["forward pass · 1 of 2", "forward pass · 2 of 2"]
    assert len(titles) == len(set(titles))


def test_a_jitted_program_shows_no_empty_call():
    """Of a `where` that JAX moved out of a loop nothing may be left, which is no frame."""

    def step(state, x):
        y, seen = x
        after = jnp.where(seen, jnp.tanh(state * 2.0) + y, state)
        return after, jnp.where(seen, jnp.sin(after), 0.0)

    def loss(state, ys, seen):
        _, values = jax.lax.scan(step, state, (ys, seen))
        return -values.sum()

    def run(state, ys, seen):
        value, grad = jax.value_and_grad(loss)(state, ys, seen)
        for _ in range(3):
            state = state - 0.1 * grad * jnp.cos(state) / (1.0 + jnp.abs(grad))
        return value, state

    args = jnp.float32(1.0), jnp.ones(5), jnp.ones(5, bool)
    picture = draw(jax.jit(run), *args).picture
    titles = [" ".join(one.lines) for one in (*picture.nodes, *picture.clusters)]
    assert "nothing" not in titles
    moved = [one for one in titles if one.startswith("part of jnp.where(seen, •, 0.0)")]
    assert moved
    assert all("moved out of the scan" in one for one in moved)
