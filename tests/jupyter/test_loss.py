"""Where the backward pass begins, what nothing uses, and what is drawn once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._drawing.build import build_picture

X = np.float32(0.7)
V = np.asarray([0.3, -0.8, 1.1], np.float32)


def everything(fn, *args):
    """The picture with all equations."""
    program = taxpr.trace(fn)(*args)
    picture = build_picture(program)
    while picture.unfolded != picture.foldable:
        picture = build_picture(program, picture.foldable)
    return picture


def marked(picture, mark):
    return [node.lines[0] for node in picture.nodes if mark in node.marks]


def turns(picture):
    names = {node.id: node.lines[0] for node in picture.nodes}
    return [(names[e.source], names[e.target]) for e in picture.edges if e.kind == "seed"]


def mean_of_squares(w):
    h = jnp.tanh(w * V)
    return jnp.mean(h**2)


def with_a_metric(w):
    h = jnp.tanh(w * V)
    loss = jnp.mean(h**2)
    return loss, jnp.max(h)


def test_the_loss_of_a_gradient():
    picture = everything(jax.grad(mean_of_squares), V)
    assert marked(picture, "loss") == ["div(•, 3.0) [loss] [unused]"]
    assert turns(picture) == [("div(•, 3.0) [loss] [unused]", "div(1.0, 3.0)")]
    (loss,) = (node for node in picture.nodes if "loss" in node.marks)
    assert "backward pass begins with its derivative" in loss.tooltip
    assert "nothing uses what it makes" in loss.tooltip
    (edge,) = (e for e in picture.edges if e.kind == "seed")
    assert edge.value == ""  # it is no value of the jaxpr


@pytest.mark.parametrize(
    ("fn", "loss"),
    [
        (jax.value_and_grad(mean_of_squares), "div(•, 3.0)"),
        (jax.grad(lambda w: jnp.sum(jnp.sin(w))), "reduce_sum"),
        (jax.grad(with_a_metric, has_aux=True), "div(•, 3.0)"),
        (jax.value_and_grad(with_a_metric, has_aux=True), "div(•, 3.0)"),
        (jax.jit(jax.grad(mean_of_squares)), "div(•, 3.0)"),
        (lambda w: w - 0.1 * jax.grad(mean_of_squares)(w), "div(•, 3.0)"),
        (jax.grad(lambda w: taxpr.tag(mean_of_squares(w), name="loss")), "div(•, 3.0)"),
    ],
)
def test_the_loss_is_found(fn, loss):
    [shown] = marked(everything(fn, V), "loss")
    assert shown.removesuffix(" [unused]") == f"{loss} [loss]"


def test_the_loss_may_be_a_sum():
    def fn(w):
        first = jnp.mean(jnp.sin(w))
        second = jnp.sum(w**2)
        return first + second

    picture = everything(jax.grad(fn), V)
    assert marked(picture, "loss") == ["add [loss] [unused]"]


def test_the_loss_inside_of_a_step_of_a_scan():
    def fn(w):
        step = lambda w, _: (w - jax.grad(mean_of_squares)(w), None)
        return lax.scan(step, w, length=3)[0]

    assert marked(everything(fn, V), "loss") == ["div(•, 3.0) [loss] [unused]"]


@pytest.mark.parametrize(
    ("fn", "made"),
    [
        (lambda w: jnp.linalg.norm(w), "call/2:sqrt"),
        (lambda w: lax.scan(lambda c, x: (jnp.sin(c) * x, None), 0.5, w)[0], "scan/body/out0"),
        (lambda w: lax.cond(w[0] > 0, jnp.sum, lambda w: jnp.sin(w).sum(), w), "cond.0"),
    ],
)
def test_the_backward_pass_of_an_open_loss_begins_where_that_is_made(fn, made):
    """It began at the first input of the box."""
    picture = everything(jax.grad(fn), V)
    (edge,) = (e for e in picture.edges if e.kind == "seed")
    assert edge.source.endswith(made)
    ones = {n.id for n in picture.nodes if n.kind == "literal" and n.lines[0] == "1.0"}
    assert edge.target in {e.target for e in picture.edges if e.source in ones}


def test_a_folded_pass_is_followed_by_the_other():
    picture = build_picture(taxpr.trace(jax.grad(mean_of_squares))(V), ())
    assert turns(picture) == [("forward pass", "backward pass")]
    assert marked(picture, "loss") == []


def perplexity(w):
    loss = jnp.mean(jnp.sin(w))
    return loss, jnp.exp(loss)


def two_means_in_a_line(w):
    return (loss := jnp.mean(w**2)), (jnp.log(loss), jnp.mean(w**3))


@pytest.mark.parametrize(
    "fn",
    [
        lambda w: jax.vjp(mean_of_squares, w)[1](X),  # what it begins with may be anything
        lambda w: jax.vjp(mean_of_squares, w)[1](w[0]),
        lambda w: jax.vjp(lambda w: jnp.mean(w[:1]), w)[1](X),  # there 1.0 is how many there are
        lambda w: jax.vjp(lambda w: jnp.sum(w) * 1.0, w)[1](w[0]),
        lambda w: jax.vjp(lambda w: jnp.sum(w) * 1.0 + 2.0, w)[1](w[0]),
        lambda w: jax.vjp(lambda w: jnp.mean(w[:1]) * jnp.sum(jnp.sin(w)), w)[1](w[0]),
        jax.grad(perplexity, has_aux=True),
        jax.grad(two_means_in_a_line, has_aux=True),
        lambda w: jax.jvp(mean_of_squares, (w,), (w,)),
        mean_of_squares,
    ],
)
def test_nothing_is_called_the_loss_where_it_is_not_known(fn):
    picture = everything(fn, V)
    assert marked(picture, "loss") == []
    assert turns(picture) == []


# --- unused ---------------------------------------------------------------------------------------


def test_what_nothing_uses_says_so():
    def fn(x):
        jnp.cos(x)
        y = jnp.sin(x)
        jax.debug.print("{}", y)
        return y * 2

    picture = everything(fn, X)
    assert marked(picture, "unused") == ["cos [unused]"]
    (node,) = (n for n in picture.nodes if "unused" in n.marks)
    assert "nothing uses what it makes" in node.tooltip
    assert 'class="node eqn unused"' in draw(fn, X).svg()


def test_what_only_leads_to_something_unused_says_so():
    def fn(x, y):
        spread = jnp.sum(jnp.square(y))
        jnp.sqrt(spread)
        return jnp.sin(x)

    nodes = everything(fn, X, V).nodes
    assert {node.lines[0].partition("(")[0] for node in nodes if "unused" in node.marks} == {
        *("y [unused]", "square [unused]", "reduce_sum [unused]", "sqrt [unused]")
    }
    used = [node.lines[0] for node in nodes if "unused" not in node.marks]
    assert used == ["x", "sin", "out"]


def test_a_folded_statement_says_so_if_all_of_it_is_unused():
    def fn(x):
        for _ in range(9):
            x = jnp.sin(x) * 2.0
        first = jnp.mean(jnp.exp(x))
        second = jnp.sqrt(first + 1.0) * 3.0  # noqa: F841
        half = jnp.cos(x) + jnp.sum(x) * 0.5
        jnp.tan(half) + 1.0
        return jnp.tanh(half)

    shown = marked(build_picture(taxpr.trace(fn)(V)), "unused")
    assert shown == [
        "first = jnp.mean(jnp.exp(x)) [unused]",
        "second = jnp.sqrt(first + 1.0) * 3.0 [unused]",
        "jnp.tan(half) + 1.0 [unused]",
    ]


def test_what_a_loop_carries_and_nobody_asks_for_is_unused_in_each_iteration():
    def step(carry, x):
        a, b, c, d = carry
        return (a + x, b * a, jnp.sin(c), c + d), jnp.cos(x)

    def fn(xs):
        (_, b, _, _), _ = lax.scan(step, (0.0, 1.0, 2.0, 3.0), xs)
        return b

    assert {text.partition("(")[0] for text in marked(everything(fn, V), "unused")} == {
        *("sin [unused]", "add [unused]", "cos [unused]")
    }

    def counted(x):
        body = lambda s: (s[0] + 1, s[1] * x, s[2] - x)
        return lax.while_loop(lambda s: s[0] < 3, body, (0, X, V[0]))[1]

    assert marked(everything(counted, X), "unused") == ["sub [unused]"]


def test_what_is_returned_or_tagged_is_used():
    def fn(x):
        taxpr.tag(jnp.cos(x), name="watched")
        return jnp.sin(x)

    assert marked(everything(fn, X), "unused") == []


# --- literals -------------------------------------------------------------------------------------


def test_what_a_loop_begins_with_is_drawn_once():
    def fn(x):
        body = lambda s: (s[0] + 1, s[1] * 0.5, s[2] * x)
        return lax.while_loop(lambda s: (s[0] < 9) & (s[1] > 0.1), body, (0, jnp.inf, x))

    picture = everything(fn, X)
    literals = {n.id: n.lines[0] for n in picture.nodes if n.kind == "literal"}
    assert sorted(literals.values()) == ["0", "inf"]
    for name in literals:
        (target,) = [e.target for e in picture.edges if e.source == name]
        assert target in ("0:while/body/in1", "0:while/body/in2")


def test_a_constant_result_that_nothing_takes_is_not_drawn():
    @jax.jit
    def inner(x):
        return jnp.sin(x), 0

    picture = everything(lambda x: inner(x)[0] * 2, X)
    ends = {end for e in picture.edges for end in (e.source, e.target)}
    assert [n.id for n in picture.nodes if n.kind == "literal" and n.id not in ends] == []
    alone = everything(lambda x: (jax.jit(lambda y: 0)(x), x)[1], X)
    assert [c.lines for c in alone.clusters]  # a box is not empty for it


# ---- derivatives of derivatives, and what is around them -----------------------


def after_steps(w, xs):
    """The loss after steps along the gradient of the same loss."""

    def loss(w):
        return jnp.mean((xs @ w) ** 2)

    def step(w, _):
        return w - 0.1 * jax.grad(loss)(w), None

    w, _ = lax.scan(step, w, None, length=3)
    return loss(w)


XS = np.ones((5, 3), np.float32)


def test_the_backward_pass_begins_behind_the_loss():
    picture = everything(jax.value_and_grad(after_steps), V, XS)
    assert turns(picture) == [("div(•, 5.0) [loss]", "div(1.0, 5.0)")]
    (edge,) = (e for e in picture.edges if e.kind == "seed")
    numbers = [int(end.partition(":")[0]) for end in (edge.source, edge.target)]
    assert numbers[0] + 1 == numbers[1]


def test_of_a_sum_each_term_begins_one():
    def fn(w):
        return jnp.mean((w * V) ** 2) + 0.01 * jnp.sum(jnp.sin(w))

    picture = everything(jax.value_and_grad(fn), V)
    assert sorted(turns(picture)) == [
        ("add [loss]", "div(1.0, 3.0)"),
        ("add [loss]", "mul(0.01, 1.0)"),
    ]


def test_all_in_an_equation_of_a_backward_pass_is_part_of_it():
    picture = everything(jax.value_and_grad(after_steps), V, XS)
    scans = [n.id for n in picture.clusters if n.lines[-1].startswith("scan body")]
    parents = {c.id: c.parent for c in picture.clusters}

    def around(node):
        name = node.cluster
        while name and name not in scans:
            name = parents[name]
        return name

    (backward,) = {around(n) for n in picture.nodes if "add_any" in n.lines}
    inside = [n for n in picture.nodes if around(n) == backward and n.kind in ("eqn", "hop")]
    assert inside
    assert all("backward" in n.marks for n in inside)
    assert not any("pass" in c.lines[0] for c in picture.clusters if c.parent == backward)
    (forward,) = set(scans) - {backward}
    frames = [c.lines[0] for c in picture.clusters if c.parent == forward]
    passes = "forward pass of loss", "backward pass of loss"  # of the inner gradient
    assert frames == [*passes, "return w - 0.1 * jax.grad(loss)(w), None"]


def test_what_differentiated_its_result_is_no_forward_pass():
    picture = everything(jax.hessian(lambda w: jnp.sum(jnp.tanh(w) ** 2)), V)
    (forward,) = (c.id for c in picture.clusters if c.lines[0].startswith("forward pass"))
    (backward,) = (c.id for c in picture.clusters if c.lines[0].startswith("backward pass"))
    last = int(backward.rpartition("-")[2])
    assert int(forward.rpartition("-")[2]) < last
    behind = [n for n in picture.nodes if n.kind == "eqn" and int(n.id.partition(":")[0]) > last]
    assert behind
    assert not any(n.cluster in (forward, backward) for n in behind)


def test_what_the_caller_gives_to_a_backward_pass_is_nothing_kept():
    def fn(w):
        out, vjp = jax.vjp(jnp.tanh, w)
        return vjp(3.0 * out)

    picture = everything(fn, V)
    names = {node.id: node.lines[0] for node in picture.nodes}
    kinds = {(names[e.source], names[e.target]): e.kind for e in picture.edges}
    assert kinds["mul(3.0, •)", "mul"] == "value"
    assert "residual" in kinds.values()
