"""What a first picture tells before anything is opened by hand."""

import jax
import jax.numpy as jnp
import numpy as np

import taxpr
from taxpr import introspect
from taxpr_jupyter import draw
from taxpr_jupyter._model.kinds import COMPUTING

X = jnp.ones(3)
PARAMS = {"w": jnp.eye(3), "b": jnp.ones(3), "c": jnp.ones(3), "d": jnp.ones(3)}


def label(picture, start):
    """The lines of the only node whose title begins so."""
    (found,) = (node.lines for node in picture.nodes if node.lines[0].startswith(start))
    return found


def test_the_inputs_of_a_program_that_is_one_call_are_drawn_once():
    def model(params, x, mask):
        return jnp.tanh(params["w"] @ x) + params["b"]

    picture = draw(jax.jit(model), PARAMS, X, X).picture
    inputs = [node for node in picture.nodes if node.kind == "input" and "stub" not in node.marks]
    assert [node.address.partition("/")[0] for node in inputs] == [node.address for node in inputs]
    mask = next(node for node in inputs if node.lines[0].startswith("mask"))
    assert "unused" in mask.marks
    x = next(node for node in inputs if node.lines[0] == "x")
    assert picture.hidden[x.address] == (x.address, f"0:jit/call/{x.address}")
    assert {edge.target for edge in picture.edges if edge.source == x.id} <= {
        node.id for node in picture.nodes if node.address.startswith("0:jit/call/")
    }


def adam(params, state):
    return jax.tree.map(lambda p, m: p - m, params, state), jax.tree.map(jnp.sin, state)


def step(params, state, ok):
    new_params, new_state = jax.lax.cond(ok, adam, lambda p, s: (p, s), params, state)
    return jax.tree.map(jnp.sum, new_params), new_state


def test_results_of_branches_are_one_node_for_each_variable():
    picture = draw(step, PARAMS, PARAMS, True).picture
    results = [node.lines for node in picture.nodes if node.kind == "result"]
    assert results == [
        ("new_params", "4 arrays", "b, c, d, w"),
        ("new_state", "4 arrays", "b, c, d, w"),
    ]
    held = [picture.hidden[node.address] for node in picture.nodes if node.kind == "result"]
    assert [len(values) for values in held] == [4, 4]


def test_the_state_of_an_optimizer_is_one_carry():
    state = {"count": jnp.zeros(()), "m": PARAMS, "v": PARAMS}

    def body(carry, x):
        params, opt = carry
        return (jax.tree.map(lambda p: p * x, params), jax.tree.map(jnp.sin, opt)), x

    picture = draw(lambda c, xs: jax.lax.scan(body, c, xs), (PARAMS, (state,)), X).picture
    many = [node for node in picture.nodes if node.address.startswith("0:scan/body/group:")]
    ends = [node.lines[-1] for node in many if node.kind in ("input", "output")]
    assert ends == ["b, c, d, w", "count, m, v"] * 2


def loss(params, x):
    return jnp.sum(jnp.tanh(params["w"] @ x) ** 2)


def test_a_folded_loop_names_the_functions_that_it_calls():
    def train(params, xs):
        def one(params, x):
            value, grads = jax.value_and_grad(loss)(params, x)
            return adam(params, grads)[0], value

        return jax.lax.scan(one, params, xs)

    picture = draw(train, PARAMS, jnp.ones((5, 3)), fold=["0:scan"]).picture
    (scan,) = (node for node in picture.nodes if node.kind == "hop")
    text = " ".join(scan.lines).replace("( ", "(")
    assert "value, grads = jax.value_and_grad(loss)(params, x)" in text
    assert "return adam(params, grads)[0], value" in scan.lines


def heads(params, x):
    h = jnp.tanh(params["w"] @ x)
    policy = jax.nn.softmax(h * params["b"]) * 2.0 + jnp.sin(h)
    value = jnp.sum(h * params["c"])
    return policy, value


def test_a_folded_part_names_what_in_it_is_unused():
    def use(params, x):
        _, value = heads(params, x)
        out = [value]
        for k in range(9):
            out.append(jnp.cos(out[-1]) + jnp.sin(value) * k)
        return out[-1]

    picture = draw(use, PARAMS, X, budget=6).picture
    assert "unused: policy" in label(picture, "_, value = heads(params, x)")


def test_gradients_that_are_zero_are_named():
    def update(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        for _ in range(9):
            value = jnp.sin(value) * jnp.cos(value)
        return value, grads

    texts = [" · ".join(node.lines) for node in draw(update, PARAMS, X).picture.nodes]
    assert [text for text in texts if "zeros" in text or "broadcast_in_dim(0.0)" in text]


def test_what_only_names_a_value_takes_half_of_the_room():
    def chain(*xs):
        y = sum(xs)
        for k in range(30):
            y = jnp.sin(y) + k
        return (y, *xs)

    picture = draw(chain, *[X] * 5, budget=20).picture
    computing = sum(node.kind in COMPUTING for node in picture.nodes)
    assert computing + (len(picture.nodes) - computing) / 2 <= 21


def test_a_call_that_jax_has_emptied_is_not_drawn():
    def body(c, x):
        return jnp.where(x > 0.0, jax.nn.silu(c), c) * x, c

    def run(c, xs):
        return jax.lax.scan(body, c, xs)[0].sum()

    program = taxpr.trace(jax.grad(run))(X, jnp.ones((5, 3)))
    nothing = [
        address
        for address, eqn in taxpr.iter_eqns(program)
        if not eqn.invars and not eqn.outvars and introspect.is_hop(eqn)
    ]
    assert nothing, "JAX leaves none: this test shows nothing"
    picture = draw(program).picture
    assert not [node for node in picture.nodes if "0 equations" in node.lines]
    assert picture.counts.drawn + sum(picture.counts.folded.values()) == picture.counts.total


TABLE = jnp.arange(3.0)


def test_a_constant_without_a_name_stands_beside_its_only_use():
    def model(w, x):
        for k in range(9):
            x = jnp.tanh(w @ x) + k
        y = jnp.cos(jnp.sin(x * TABLE) + np.array([1.0, 2.0, 4.0], np.float32))
        return jnp.sum(y * jnp.exp(-y) + jnp.tanh(y * x))

    picture = draw(jax.value_and_grad(model), PARAMS["w"], X, budget=60).picture
    nodes = {node.id: node for node in picture.nodes}
    named, without = [], []
    for node in picture.nodes:
        if node.kind == "const" and "stub" not in node.marks:
            targets = [nodes[edge.target] for edge in picture.edges if edge.source == node.id]
            (named if "TABLE" in node.lines[0] else without).append((node, targets))
    assert [node.cluster for node, _ in named] == [None]
    alone = [(node, targets[0]) for node, targets in without if len(targets) == 1]
    assert alone
    assert all(node.cluster == target.cluster is not None for node, target in alone)


def test_constants_that_jax_left_over_are_with_the_equation_before_them():
    def run(w, xs):
        def inner(state, x):
            pos, vel = state
            vel = jnp.sin(vel * w) + x
            return (pos + jnp.tanh(vel), vel), pos

        def outer(state, _):
            state, out = jax.lax.scan(inner, state, xs)
            return state, out.sum()

        sums = jax.lax.scan(outer, (X, X), None, length=3)[1]
        for k in range(9):
            w = jnp.sin(w) * k
        return jnp.sum(sums) + jnp.sum(w)

    drawing = draw(jax.grad(run), X, jnp.ones((4, 3)))
    picture = drawing.picture
    texts = [" ".join(node.lines) for node in picture.nodes]
    assert not [text for text in texts if "broadcast_in_dim(0.0)" in text and "[unused]" in text]
    assert picture.counts.drawn + sum(picture.counts.folded.values()) == picture.counts.total
    # Opened, it is there.
    every = draw(jax.grad(run), X, jnp.ones((4, 3)), budget=10_000).picture.nodes
    assert [
        node
        for node in every
        if "broadcast_in_dim(0.0)" in node.lines[0] and "unused" in node.marks
    ]


def test_an_unused_constant_of_the_user_has_its_own_box():
    def run(w, x):
        y = jnp.tanh(x @ w)
        zeros = jnp.zeros(8)  # noqa: F841
        for k in range(9):
            y = jnp.sin(y) * k + jnp.cos(y)
        return jnp.sum(y)

    picture = draw(jax.grad(run), jnp.eye(8), jnp.ones((2, 8))).picture
    [found] = [node for node in picture.nodes if node.lines[0].startswith("zeros = jnp.zeros(8)")]
    assert "unused" in found.marks


CELL = {"a": jnp.eye(8), "b": jnp.ones((1, 8)), "c": jnp.ones((8, 3))}


def recurrent(params, xs, target):
    def cell(h, x):
        h = jnp.tanh(x + h @ params["a"] + params["b"])
        return h, h @ params["c"]

    _, ys = jax.lax.scan(cell, jnp.zeros((2, 8)), xs)
    return jnp.mean((ys - target) ** 2)


def test_a_part_of_a_statement_that_is_one_equation_is_called_by_its_expression():
    args = CELL, jnp.ones((5, 2, 8)), jnp.ones((5, 2, 3))
    picture = draw(jax.value_and_grad(recurrent), *args).picture
    made = label(picture, "jnp.zeros((2, 8))")
    assert made == ("jnp.zeros((2, 8))", "broadcast_in_dim(0.0)", "f32[2,8]")


def test_a_sum_of_derivatives_that_a_loop_keeps_is_of_the_statement_that_adds_to_it():
    args = CELL, jnp.ones((5, 2, 8)), jnp.ones((5, 2, 3))
    drawing = draw(jax.value_and_grad(recurrent), *args)
    eqns = dict(taxpr.iter_eqns(drawing.program))
    sums = [node for node in drawing.picture.nodes if node.lines[0].startswith("add_any")]
    # For the oldest jax the sums of constants are of the statement with the loop.
    of_loop = "_, ys = jax.lax.scan("
    stacks = [taxpr.statements_of(eqns[node.address]) for node in sums]
    assert all(stack[0].text.startswith(of_loop) for stack in stacks)
    number = 5 if not sums else 4  # with the sums of c and h
    assert label(drawing.picture, "∂ return h, h @ params")[1] == f"{number} equations"


def test_a_part_of_a_derivative_has_not_the_name_of_what_is_not_computed():
    @jax.jit
    def inner(x, w):
        return w * jnp.reciprocal(jnp.sin(x)) + jax.lax.scan(lambda c, _: (c, None), w, None, 3)[0]

    def loss(x, w):
        y = inner(x, w)
        return jnp.sum(jnp.tanh(y + w) * jnp.exp(y) - w)

    drawing = draw(jax.grad(loss), X, X, budget=20)
    named = {"jnp.sin(x)": "sin", "jnp.exp(y)": "exp", "jnp.zeros": "broadcast_in_dim(0.0)"}
    for node in (one for one in drawing.picture.nodes if one.kind == "eqn"):
        for expression, operation in named.items():
            assert not node.lines[0].startswith(expression) or node.lines[1] == operation


def test_parts_that_a_comprehension_repeats_keep_their_operations():
    def model(xs, y):
        start = jax.lax.cond(y > 0, jnp.sin, jnp.cos, sum(jnp.sum(x) for x in xs))
        for _ in range(3):
            start = jnp.tanh(start * y) + y
        return start

    xs = [jnp.ones(k) for k in range(1, 5)]
    picture = draw(model, xs, 1.0, budget=20).picture
    assert not [node for node in picture.nodes if node.lines[0] == "jnp.sum(x)"]
