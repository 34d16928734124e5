"""A closed part lists the user's statements in it, as the source has them."""

import re

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._closed.listed import StatementWords, lines_of
from taxpr_jupyter._closed.statements_inside import statements_in, statements_inside

X = jnp.linspace(0.1, 0.9, 4)
WIDTH = 36  # characters of a line of a label


def said(fun, *args):
    """The statements of a program, as a list."""
    every = (one.text() for one in statements_in(taxpr.trace(fun)(*args).eqns))
    return [text for text in every if text]  # a `return` without calls has none


def told(picture, part):
    """The label with this part, in one line."""
    [found] = [text for n in picture.nodes if part in (text := " ".join(n.lines))]
    return found


# --- programs, each with what its source says -----------------------------------------------------


def pushed(x):
    y = jnp.tanh(x) * 2.0
    return y + jnp.sin(y)


def energy(x):
    centre = x.mean()
    away = jnp.abs(x - centre)
    return jnp.sum(away**2)


def several(x):
    moved, kept = pushed(x), x
    scaled = moved * 3.0
    value, _ = jax.value_and_grad(energy)(scaled)
    return value + kept.sum()


def wrapped(x):
    a = jnp.sin(x)
    return several(a * 2.0)


def mapped(x):
    rows = jnp.stack([x, x + 1.0])
    return jax.vmap(several)(rows)


def takes_its_own(x):
    slope = jax.grad(energy)(x)
    return x - 0.1 * slope


def by_a_caller(x):
    first = takes_its_own(x)
    second = takes_its_own(first)
    return jnp.stack([first, second])


def looped(x):
    def step(c, x):
        return c + pushed(x).sum(), energy(x)

    total, each = jax.lax.scan(step, 0.0, x[:, None])
    largest = jnp.max(pushed(x))
    both = jax.jit(energy)(pushed(x))
    helped = jax.jit(takes_its_own)(x)
    return total + each.sum() + largest + both + helped


def combine(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def recurrence(x):
    frozen = jax.lax.stop_gradient(x)
    _, fwd = jax.lax.associative_scan(combine, (x, frozen))
    _, bwd = jax.lax.associative_scan(combine, (x, x), reverse=True)
    return fwd + bwd


def unlike_it(x):
    associative_scan = combine
    y = associative_scan((x, x), (x, x))
    return y[0] + pushed(x)


SOURCES = {
    several: ["moved, kept = … pushed(…)", "scaled", "value = ∂ energy(…)"],
    wrapped: ["a", "moved, kept = … pushed(…)", "scaled", "value = ∂ energy(…)"],
    mapped: ["rows", "moved, kept = … pushed(…)", "scaled", "value = ∂ energy(…)"],
    takes_its_own: ["slope = ∂ energy(…)"],
    by_a_caller: ["first = takes_its_own(…)", "second = takes_its_own(…)"],
    looped: [
        "total, each = … step(…)",
        "largest = … pushed(…)",
        "both = energy(…)",
        "helped = takes_its_own(…)",
    ],
    recurrence: [
        "frozen = stop_gradient(…)",
        "fwd = associative_scan(…)",
        "bwd = associative_scan(…)",
    ],
    unlike_it: ["y = combine(…)", "pushed(…)"],
}


@pytest.mark.parametrize("fun", SOURCES, ids=lambda fun: fun.__name__)
def test_statements_are_those_of_the_source(fun):
    assert said(fun, X) == SOURCES[fun]


@pytest.mark.parametrize("fun", SOURCES, ids=lambda fun: fun.__name__)
def test_statements_are_those_of_the_source_also_in_a_loop_and_a_jit(fun):
    def run(xs):
        def step(c, x):
            return c + jnp.sum(jax.jit(fun)(x)), None

        return jax.lax.scan(step, 0.0, xs)[0]

    assert said(run, jnp.stack([X, X])) == SOURCES[fun]


def test_what_runs_in_an_outer_derivative_takes_no_derivative_itself():
    def outer(x):
        return jnp.sum(by_a_caller(x))

    picture = draw(jax.grad(outer), X, budget=4).picture
    assert told(picture, "first = takes_its_own(x) second = takes_its_own(first)")
    assert not any("∂ takes_its_own" in " ".join(node.lines) for node in picture.nodes)


# --- labels ---------------------------------------------------------------------------------------


def loss(params, x):
    hidden = pushed(x @ params)
    error = energy(hidden)
    penalty = 0.1 * jnp.sum(params**2)
    return error + penalty


def train(params, xs):
    def update(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        params = params - 0.1 * grads
        return params, value

    return jax.lax.scan(update, params, xs)


W, XS = jnp.ones((4, 4)), jnp.ones((3, 4))


def test_a_closed_loop_lists_its_statements():
    picture = draw(train, W, XS, fold=["0:scan"]).picture
    text = told(picture, "scan ×3 · update")
    assert (
        "value, grads = jax.value_and_grad(loss)(params, x) params = params - 0.1 * grads" in text
    )


def test_a_forward_pass_lists_its_statements_and_the_backward_pass_its_derivatives():
    picture = draw(jax.grad(loss), W, X, budget=4).picture
    forward = told(picture, "forward pass")
    assert "hidden = pushed(x @ params) error = energy(hidden) penalty = 0.1 * jnp.sum(" in forward
    assert "∂ penalty, ∂ error" in told(picture, "backward pass")


def test_the_most_telling_statements_are_as_in_the_source_where_there_is_room():
    def statement(k, telling, source=""):
        return StatementWords((f"v{k}",), telling=telling, source=source)

    long = "v1 = jnp.sum(jnp.square(v0 - target), axis=-1)"
    every = [statement(0, 5, "v0 = x + y"), statement(1, 9, long), *map(statement, (2, 3), (1, 2))]
    assert lines_of(every, WIDTH) == [
        "v0 = x + y",
        "v1 = jnp.sum(jnp.square(v0 -",
        "target), axis=-1)",
        "v2; v3",
    ]
    # Of many long ones the last to be written are those with the least in them.
    sources = [f"v{k} = jnp.sum(jnp.square(v{k} - target), axis=-1)" for k in range(7)]
    every = [statement(k, k, source) for k, source in enumerate(sources)]
    lines = lines_of(every, WIDTH)
    assert lines[0] == "v0; v1; v2; v3"
    assert " ".join(lines[1:]) == " ".join(sources[4:])
    # What a function returns has no short form, so it is written, or something is left out.
    result = StatementWords((), telling=1, source="return " + "v0 + " * 20 + "v1")
    [*_, last] = lines_of([*every[:3], result], WIDTH)
    assert last == "…"
    # A variable that is made anew has a line of its own only with what makes it.
    again = [statement(0, 2, "v0 = a + b"), statement(0, 1, "v0 = jnp.tanh(v0 + c)")]
    assert lines_of([*again, statement(1, 1)], WIDTH) == [
        "v0 = a + b",
        "v0 = jnp.tanh(v0 + c)",
        "v1",
    ]
    plain = [one._replace(source="") for one in again]
    assert lines_of([*plain, statement(1, 1)], WIDTH) == ["v0; v1"]
    assert lines_of(every, WIDTH, equations=100) == sources
    whole = ["x = a + b", "y = c" * 40]
    every = [statement(k, 1, source) for k, source in enumerate(whole)]
    assert lines_of(every, WIDTH) == ["x = a + b", "v1"]


def test_a_large_part_tells_the_statements_of_the_functions_that_it_calls():
    def leap(q, p):
        p = p - 0.1 * jax.grad(energy)(q)
        return q + 0.1 * p, p

    def kernel(q, key):
        k_mom, k_acc = jax.random.split(key)
        p = jax.random.normal(k_mom, q.shape)
        new, p1 = jax.lax.fori_loop(0, 3, lambda i, c: leap(*c), (q, p))
        error = energy(new) - energy(q) + 0.5 * jnp.sum(p1**2) - 0.5 * jnp.sum(p**2)
        take = jax.random.uniform(k_acc) < jnp.exp(-error)
        return jnp.where(take, new, q)

    def sample(q, keys):
        def draw(q, key):
            q = kernel(q, key)
            return q, q

        return jax.lax.scan(draw, q, keys)

    keys = jax.random.split(jax.random.key(0), 5)
    text = told(draw(sample, X, keys, fold=["0:scan"]).picture, "scan ×5 · draw")
    head, _, inside = text.partition(" in kernel: ")
    assert "q = kernel(q, key)" in head
    assert "error = energy(new) - energy(q) + 0.5 * jnp.sum(p1**2)" in inside
    assert "take = jax.random.uniform(k_acc) < jnp.exp(-error)" in inside
    [scan] = taxpr.trace(sample)(X, keys).eqns
    few = lines_of(statements_inside(scan), WIDTH, equations=20)
    assert not any(line.startswith("in ") for line in few)


def test_a_return_is_told_of_the_function_that_it_ends_alone():
    """`return a * b + x` of a callee stood as if it were the loss."""

    def helper(x):
        a = jnp.sin(x)
        b = jnp.cos(a)
        return a * b + x

    def wrapped(x, w):
        return jnp.mean((helper(x @ w) - 1.0) ** 2)

    def handed(x, w):
        return helper(x @ w)

    def looped(x):
        def step(c, t):
            s = helper(c) * t
            return s, s.sum()

        return jax.lax.scan(step, x, x)[1].mean()

    def sources(fun, *args):
        [call] = taxpr.trace(jax.jit(fun))(*args).eqns
        return [one.source for one in statements_inside(call)]

    W = jnp.eye(4)
    assert "return a * b + x" not in sources(wrapped, X, W)
    assert "return jnp.mean((helper(x @ w) - 1.0) ** 2)" in sources(wrapped, X, W)
    assert "return a * b + x" in sources(handed, X, W)
    assert "return s, s.sum()" not in sources(looped, X)
    assert "return jax.lax.scan(step, x, x)[1].mean()" in sources(looped, X)


def test_a_variable_is_that_of_a_call_only_if_it_is_all_of_its_value():
    class Vector:
        def __init__(self, x):
            self.x = pushed(x)

        def __add__(self, other):
            return Vector(self.x + jnp.sin(other.x))

    def fun(x):
        inside = x.at[jnp.argmax(x)].set(energy(x).sum())
        total = pushed(x).sum()
        by_lambda = (lambda z: pushed(z) * 2.0)(x)
        mapped = jax.vmap(energy)(x[:, None])
        vector = Vector(x)
        both = vector + vector
        return inside + total + by_lambda + mapped + vector.x + both.x

    assert said(fun, X) == [
        "inside = … energy(…)",
        "total = … pushed(…)",
        "by_lambda = … pushed(…)",
        "mapped = energy(…)",
        "vector = Vector(…)",
        "both = … Vector(…)",
    ]


def test_what_a_function_of_jax_calls_is_not_told_as_its_statements():
    every = statements_in(taxpr.trace(recurrence)(X).eqns)
    assert [one.within for one in every] == [()] * len(every)


def test_of_several_parts_alike_the_first_lists_its_statements():
    def spread(x):
        half = x.reshape(2, -1) * 2.0
        within = half.var(axis=1, ddof=1).mean()
        between = half.mean(axis=1).var(ddof=1)
        return jnp.sqrt((within + between) / within)

    def all_of(params):
        return jax.tree.map(spread, params)

    args = {name: jnp.arange(8.0) for name in "abcd"}
    picture = draw(all_of, args, budget=8).picture
    texts = [" ".join(node.lines) for node in picture.nodes]
    listing = [text for text in texts if "within = half.var(axis=1, ddof=1).mean()" in text]
    assert [re.findall(r"\d of 4", text) for text in listing] == [["1 of 4"]]


def test_branches_tell_which_statements_are_whose():
    def some(x):
        low = pushed(x)
        high = low * 2.0
        return high - low

    def none(x):
        scaled = energy(x) * x
        return scaled

    def choose(p, x):
        return jax.lax.cond(p, some, none, x) + 1.0

    picture = draw(choose, True, X, fold=["1:cond"]).picture
    text = told(picture, "cond · ")
    assert "false: scaled = energy(x) * x true: low = pushed(x) high = low * 2.0" in text


def test_a_while_loop_lists_its_body_and_not_its_condition():
    def run(x):
        def going(s):
            far = pushed(s[1]).sum()
            return far < 3.0

        def step(s):
            moved = pushed(s[1])
            return s[0] + 1, moved + energy(moved)

        return jax.lax.while_loop(going, step, (0, x))

    picture = draw(run, X, fold=["0:while"]).picture
    text = told(picture, "while")
    assert "moved = pushed(s[1]) return s[0] + 1, moved + energy(moved)" in text
    assert "far = " not in text


def test_few_equations_are_not_listed_and_neither_is_a_library():
    def small(x):
        y = jnp.sin(x)
        return y * 2.0

    picture = draw(jax.jit(lambda x: jax.nn.softmax(small(x)) + 1.0), X).picture
    assert not any(";" in line or "calls" in line for node in picture.nodes for line in node.lines)


def checkpointed(params, xs):
    @jax.checkpoint
    def block(x, w):
        hidden = pushed(x @ w)
        return x + energy(hidden), None

    x, _ = jax.lax.scan(block, xs[0], params)
    return jnp.sum(x**2)


def test_a_backward_pass_says_which_function_is_computed_again():
    args = jnp.ones((3, 4, 4)), XS
    drawing = draw(jax.grad(checkpointed), *args, budget=4)
    texts = [" ".join(node.lines) for node in drawing.picture.nodes]
    assert ["recomputes block, ∂ " in text for text in texts].count(True) == 1
    assert not any("recomputes" in text for text in texts if "forward pass" in text)
    [scan] = [
        at
        for at, eqn in taxpr.iter_eqns(drawing.program)
        if eqn.primitive.name == "scan" and eqn.params["reverse"]
    ]
    # In the call it is what `block` says, and no derivative.
    every = drawing.unfold(*drawing.picture.foldable).unfold(scan)
    [remat] = [
        at for at in every.picture.foldable if re.search(r"/body/\d+:(remat|checkpoint)", at)
    ]
    every = every.unfold(remat)
    again = told(every.picture, "rematted_computation")
    assert "hidden = pushed(x @ w)" in again
    assert "∂" not in again
    plain = draw(jax.grad(loss), W, X, budget=4).picture
    assert not any("recomputes" in line for node in plain.nodes for line in node.lines)


def test_a_random_key_that_nothing_uses_is_told():
    def noisy(key, x):
        first, second, third = jax.random.split(key, 3)  # noqa: RUF059, unused on purpose
        x = x + jax.random.normal(first, x.shape)
        return x * jax.random.uniform(third, x.shape)

    def all_used(key, x):
        first, second = jax.random.split(key)
        x = x + jax.random.normal(first, x.shape)
        return x * jax.random.uniform(second, x.shape)

    key = jax.random.key(0)
    text = told(draw(noisy, key, X, budget=8).picture, "first, second, third")
    assert "unused: second" in text
    assert "first" not in text.partition("unused")[2]
    assert "unused" not in told(draw(all_used, key, X, budget=8).picture, "first, second =")


# --- room -----------------------------------------------------------------------------------------


def test_if_there_is_no_room_the_most_telling_are_left_in_their_order():
    plain = [StatementWords((f"plain_{k}",), telling=k) for k in range(20)]
    calls = [StatementWords((f"value_{k}",), (f"function_{k}",), 100 + k) for k in range(3)]
    every = [*plain[:10], calls[0], *plain[10:], *calls[1:]]
    lines = lines_of(every, WIDTH)
    assert len(lines) <= 3
    assert max(map(len, lines)) <= WIDTH
    text = " ".join(lines)
    shown = [one.strip() for one in text.split(";")]
    assert shown[-1] == "…"
    order = [one.text() for one in every]
    kept = [one for one in shown if one != "…"]
    assert kept == sorted(kept, key=order.index)
    assert {one.text() for one in calls} <= {*kept}
    left = [one for one in plain if one.text() not in kept]
    assert max(one.telling for one in left) < min(
        (one.telling for one in plain if one.text() in kept), default=20
    )


def test_everything_is_told_if_there_is_room():
    every = [
        StatementWords(("a",)),
        StatementWords(("b", "c"), ("f",)),
        StatementWords((), ("g", "h")),
    ]
    assert lines_of(every, WIDTH) == ["a; b, c = f(…); g(…), h(…)"]


def test_functions_alone_are_called_and_those_told_already_are_not():
    every = [StatementWords((), ("f",)), StatementWords((), ("∂ g", "h"))]
    assert lines_of(every, WIDTH) == ["calls f, ∂ g, h"]
    assert lines_of(every, WIDTH, ["scan ×3 · f"]) == ["calls ∂ g, h"]
    assert lines_of(every[:1], WIDTH, ["scan ×3 · f"]) == []


def test_a_long_statement_has_fewer_variables():
    names = tuple(f"a_very_long_name_{k}" for k in range(6))
    every = [
        StatementWords(names, ("function_of_it",), 100),
        StatementWords(("other",), ("second",), 100),
    ]
    text = " ".join(lines_of(every, WIDTH))
    assert "a_very_long_name_0, a_very_long_name_1, … =" in text


# --- results --------------------------------------------------------------------------------------


def update(params, momentum, x):
    value, grads = jax.value_and_grad(lambda p: jnp.sum((p["w"] @ x + p["b"]) ** 2))(params)
    momentum = {"state": jax.tree.map(lambda m, g: 0.9 * m + g, momentum["state"], grads)}
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum["state"])
    size = jnp.sum(grads["w"] ** 2)
    log = {"size": size}
    twice = value * 2.0
    return params, momentum, twice, log, value


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["plain", "jit"])
def test_results_are_called_by_what_the_function_returns(around):
    params = {"w": W, "b": X}
    args = params, {"state": params}, X
    drawing = draw(around(update), *args, budget=30)
    [every] = [node.fold for node in drawing.picture.nodes if node.lines[0] == "out"]
    picture = drawing.unfold(every).picture
    outs = {node.lines[0]: node.lines[1] for node in picture.nodes if node.kind == "output"}
    assert outs == {
        "out[0]['b']": "params['b']: f32[4]",
        "out[0]['w']": "params['w']: f32[4,4]",
        "out[1]['state']['b']": "momentum…['b']: f32[4]",
        "out[1]['state']['w']": "momentum…['w']: f32[4,4]",
        "out[2]": "twice: f32[]",
        "out[3]['size']": "f32[]",  # which says it already
        "out[4]": "value: f32[]",
    }


def test_a_bundle_of_results_is_called_by_the_variable_that_is_returned():
    def step(params, opt):
        params = {name: value * 2.0 for name, value in params.items()}
        opt = (opt[0] + 1, {name: opt[1][name] + params[name] for name in params})
        return params, opt, opt[0]

    params = {f"w{k}": X + k for k in range(40)}
    picture = draw(step, params, (jnp.int32(0), params)).picture
    outs = {node.lines[0]: node.lines[1] for node in picture.nodes if node.kind == "output"}
    assert outs["out[0]"] == "params: 40 arrays"
    assert outs["out[1]"] == "opt: 41 arrays"
