"""Pictures name the user's functions where no statement does."""

import jax
import jax.numpy as jnp
import pytest
from called_functions import hidden_functions

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._drawing.build import build_picture

W, X = {"in": jnp.ones((3, 4)), "out": jnp.ones((4, 2))}, jnp.ones((5, 3))


def model(w, x):
    hidden = jnp.tanh(x @ w["in"])
    return hidden @ w["out"]


def loss(w, x):
    predicted = model(w, x)
    return jnp.mean(predicted**2)


def slopes_of(w, x):
    return jax.value_and_grad(loss)(w, x)


def step(w, x):
    value, slopes = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda p, s: p - 0.1 * s, w, slopes), value


def step_through(w, x):
    value, slopes = slopes_of(w, x)
    return jax.tree.map(lambda p, s: p - 0.1 * s, w, slopes), value


def titles(fun, *args, **settings):
    picture = draw(fun, *args, **settings).picture
    return [" ".join(one.lines) for one in (*picture.clusters, *picture.nodes)]


@pytest.mark.parametrize(
    ("fun", "passes"),
    [
        (step, "pass of loss"),
        (step_through, "pass of slopes_of › loss"),
        (lambda w, x: step(w, x), "pass of step › loss"),
        # The function that is drawn has no need of its name.
        (jax.value_and_grad(loss), "pass"),
    ],
)
@pytest.mark.parametrize("budget", [12, 60])
def test_a_pass_says_of_which_function_it_is(fun, passes, budget):
    found = titles(fun, W, X, budget=budget)
    for name in ("forward", "backward"):
        [title] = [title for title in found if title.startswith(f"{name} pass")]
        assert f"{title} ".startswith(f"{name} {passes} ")


def test_passes_of_two_functions_are_told_apart():
    def other(w, x):
        return jnp.sum(jnp.cos(x @ w["in"]))

    def both(w, x):
        first = jax.grad(loss)(w, x)
        second = jax.grad(other)(w, x)
        return jax.tree.map(jnp.add, first, second)

    found = [title for title in titles(both, W, X, budget=60) if "pass of" in title]
    assert {title.split()[-1] for title in found if "equations" not in title} <= {"loss", "other"}
    assert sum("forward pass of loss" in title for title in found) == 1
    assert sum("forward pass of other" in title for title in found) == 1


def test_a_pass_with_statements_of_several_functions_names_what_they_share():
    def wide(w, x):
        return jnp.sum(model(w, x)) + jnp.sum(jnp.sin(x @ w["in"]))

    # Not `model`, from which only a part of the pass is.
    assert not any("pass of" in title for title in titles(jax.grad(wide), W, X))


def test_a_loop_says_what_it_runs_where_its_statement_does_not():
    def turn(y, _):
        return jnp.tanh(y) * 2.0, y.sum()

    def go_on(state):
        return state[0] < 5

    def lower(state):
        return state[0] + 1, jnp.sin(state[1])

    def run(y):
        y, sums = jax.lax.scan(turn, y, None, length=3)
        return jax.lax.while_loop(go_on, lower, (0, y))[1] + sums.sum()

    opened = titles(run, X)
    assert "scan body ×3 · turn" in opened
    assert "while · go_on, lower" in opened
    closed = build_picture(taxpr.trace(run)(X), ())
    first_lines = [one.lines[0] for one in closed.nodes]
    assert {"scan ×3 · turn", "while · go_on, lower"} <= {*first_lines}


def test_a_loop_says_only_what_its_statement_does_not():
    def turn(y, _):
        for _ in range(9):
            y = jnp.tanh(y) * jnp.cos(y) + y
        return y, y.sum()

    def run(y):
        last, sums = jax.lax.scan(turn, y, None, length=3)
        last, more = jax.lax.scan(lambda y, _: turn(y, None), last * 1.25 + sums.sum() * y, None, 3)
        return last + more.sum()

    found = titles(run, X)
    assert any("jax.lax.scan(turn, y, None" in title for title in found)
    assert not any("scan body ×3 · turn" in title for title in found)


def test_branches_say_what_they_run():
    def halved(y):
        return y / 2.0

    def kept(y):
        return y

    found = titles(lambda y: jax.lax.cond(y.sum() > 0, halved, kept, y), X)
    assert {"cond", "branch 0 (false) · kept", "branch 1 (true) · halved"} <= {*found}


def test_a_call_by_another_name_says_what_it_calls():
    def layer(y, w):
        hidden = jnp.tanh(y @ w)
        scaled = hidden / jnp.sqrt(1.0 + jnp.sum(hidden**2))
        return scaled - scaled.mean()

    def run(y, w, part):
        first = part(y, w)
        second = part(first + 1.0, w)
        return layer(second, w) * 2.0 + jnp.sum(first) + jnp.sum(jnp.sin(second) ** 2)

    w = jnp.ones((3, 3))
    drawing = draw(lambda y, w: run(y, w, layer) + run(w, w, layer).sum(), X, w)
    assert hidden_functions(drawing.builder.program, drawing.picture) == []
    frames = [one.lines[0] for one in drawing.picture.clusters]
    assert "first = part(y, w) · layer" in frames
    assert "second = part(first + 1.0, w)" in frames  # of which `layer` is only a part
    assert "part(•, w) · layer" in frames
    assert "layer(second, w)" in frames


def test_calls_on_the_two_sides_of_an_if_are_not_counted_as_one():
    def mapped(choose):
        def model(xs, w):
            ys = jax.tree.map(choose, xs)
            h = jnp.tanh(w) * jnp.sin(w) + jnp.exp(w) * jnp.cos(w)
            h = jnp.tanh(h) / jnp.cos(w) - jnp.exp(h) * jnp.cos(w)
            h = jnp.tanh(h) * jnp.sin(w) + jnp.exp(h) / jnp.cos(w)
            h = jnp.sin(h) * jnp.sin(w) - jnp.exp(h) / jnp.cos(w)
            return sum(jnp.sum(y) for y in ys) + jnp.sum(h)

        square, row = jnp.eye(4), jnp.ones(4)
        nodes = draw(model, [square, row, square, row], square).picture.nodes
        [node] = [one for one in nodes if one.lines[0].startswith("ys = jax.tree.map(")]
        return [line for line in node.lines if "times" in line]

    assert mapped(lambda x: jnp.tanh(x) * 2.0 if x.ndim > 1 else jnp.sin(x) + 1.0) == []
    assert mapped(lambda x: jnp.tanh(x) * (2.0 if x.ndim > 1 else 3.0)) == ["4 times"]


def test_an_operand_has_its_name_in_branches_whose_names_jax_forgets():
    def model(i, x, w):
        branches = (lambda u: u * w, lambda u: u * 2.0, lambda u: u)
        return jax.lax.switch(i, branches, x)

    picture = draw(model, 1, X, X).picture
    inside = [node.lines for node in picture.nodes if "again" in node.marks]
    assert inside == [("w",), ("u",), ("u",), ("hands u on",)]


class Net:
    """A module without a scope around layers that have one, as in equinox."""

    def __init__(self, k):
        self.w = jnp.full((4, 4), 0.1 * k)

    def __call__(self, x):
        for name in ("first", "second"):
            with jax.named_scope(name):
                x = jnp.tanh(x @ self.w) + x.mean()
        x = x.reshape(-1)
        return x - x.mean()


def test_a_call_of_a_module_without_a_scope_is_one_box():
    def picked(values, which):
        best = jnp.argmax(which)
        return jnp.tanh(values) * jnp.cos(values[best]) + jnp.sin(values).sum()

    def loss(x, y):
        net, target = Net(1), Net(2)
        q = picked(net(x), y)
        aim = target(y)
        error = aim - picked(net(y), aim) + q
        return (error**2).mean()

    picture = draw(loss, jnp.ones((2, 4)), jnp.ones((2, 4)), budget=12).picture
    titles = {" ".join(one.lines).split(" ·")[0] for one in (*picture.nodes, *picture.clusters)}
    for title in ("q = picked(net(x), y)", "aim = target(y)", "error = aim - picked(net(y), aim)"):
        assert any(one.startswith(title) for one in titles), titles
    assert not any(one.startswith(("first", "second")) for one in titles), titles
