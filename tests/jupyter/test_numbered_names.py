"""Values that a program has by a number, such as `carry[1]`, have the name that says what it is."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from taxpr_jupyter import draw

XS = jnp.ones((5, 3))
X, V = jnp.ones(3), jnp.asarray([0.3, -0.8, 1.1])


class Filter(NamedTuple):
    truth: jax.Array
    spread: jax.Array


def ends_in(picture, kind):
    return {node.lines[0] for node in picture.nodes if node.kind == kind and node.cluster}


def test_a_carry_is_called_like_the_field_that_an_iteration_has_it_in():
    def cycle(state, x):
        return Filter(state.truth * x, jnp.sin(state.spread)), x

    def run(truth0, width, xs):
        return lax.scan(cycle, Filter(truth0, width), xs)

    picture = draw(run, X, X, V).picture
    fields = {"carry state.truth f32[3]", "carry state.spread f32[3]"}
    assert fields < ends_in(picture, "input")
    assert fields <= ends_in(picture, "output")


def test_a_carry_by_number_is_called_like_the_variable_behind_the_loop():
    def run(xs):
        def one(carry, x):
            total, stats = carry
            return (total + x, jax.tree.map(jnp.add, stats, (x, 1.0))), None

        (total, (hits, count)), _ = lax.scan(one, (0.0, (0.0, 0.0)), xs)
        return total, hits / count

    picture = draw(run, V).picture
    assert {"carry total f32[]", "carry hits f32[]", "carry count f32[]"} <= ends_in(
        picture, "input"
    )


def loss_of(params, batch, target):
    return jnp.mean((batch["image"] @ params["w"] - target) ** 2) + batch["bias"]


def test_a_part_of_a_row_is_called_like_the_argument_that_it_is_handed_to():
    def run(params, images, biases, targets):
        def step(carry, chunk):
            params = carry
            return jax.tree.map(jnp.sin, params), loss_of(params, *chunk)

        rows = {"image": images, "bias": biases}
        rows, targets = jax.tree.map(lambda a: a * 2.0, (rows, targets))
        return lax.scan(step, params, (rows, targets))

    args = {"w": jnp.eye(3)}, jnp.ones((5, 2, 3)), jnp.ones(5), jnp.ones((5, 2, 3))
    picture = draw(run, *args).picture
    assert {"xs target f32[2,3]"} < ends_in(picture, "input")
    assert any(name.startswith("xs batch['image']") for name in ends_in(picture, "input"))


def test_two_parts_of_a_row_for_one_argument_keep_their_numbers():
    def layer(weights, x):
        return jnp.tanh(weights @ x)

    def run(first, second, x):
        def step(x, chunk):
            return layer(chunk[0], layer(chunk[1], x)), None

        both = jax.tree.map(lambda a: a * 2.0, (first, second))
        return lax.scan(step, x, both)

    picture = draw(run, jnp.ones((5, 3, 3)), jnp.ones((5, 3, 3)), X).picture
    assert not [name for name in ends_in(picture, "input") if "weights" in name]


def test_a_part_of_a_row_has_no_name_that_its_body_has_for_another_value():
    def use(scaled):
        return jnp.sin(scaled) * 3.0

    def binding(rows, others, x):
        def step(total, chunk):
            scaled = chunk[0] * 2.0
            return total + use(chunk[1]) + scaled, None

        return lax.scan(step, x, jax.tree.map(jnp.cos, (rows, others)))

    def reading(rows, others, x):
        scaled = x * 2.0

        def step(total, chunk):
            return total + use(chunk[1]) + scaled * chunk[0], None

        return lax.scan(step, x, jax.tree.map(jnp.cos, (rows, others)))

    for fun in (binding, reading):
        picture = draw(fun, XS, XS, X).picture
        assert "xs chunk[1] f32[3]" in ends_in(picture, "input")


def test_a_row_of_a_scan_is_called_like_the_variable_that_made_it():
    def run(x, xs):
        def step(x, y):
            x = x * y
            cost = jnp.sum(x)
            return x, (x, cost)

        x, log = lax.scan(step, x, xs)
        return x, log

    picture = draw(run, X, V).picture
    assert {"ys x f32[3]", "ys cost f32[]"} < ends_in(picture, "output")


def test_what_a_closed_loop_takes_has_the_names_of_its_body():
    def run(xs, us):
        def going(s):
            return (s.spread < 3.0) & (s.truth[0] < 9.0)

        def improve(s):
            found = jnp.tanh(s.truth * us) + jnp.cos(xs)
            return Filter(found, s.spread * 2.0)

        return lax.while_loop(going, improve, Filter(xs * 2.0, jnp.float32(0.01)))

    picture = draw(run, X, X).fold("1:while").picture
    [node] = [node for node in picture.nodes if node.kind == "hop"]
    heads = {edge.head for edge in picture.edges if edge.target == node.id}
    assert {"carry s.truth", "carry s.spread", "const us"} <= heads
