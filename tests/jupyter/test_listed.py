"""A closed part lists the user's statements in it, as the source has them."""

import re
import types

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import Session, draw
from taxpr_jupyter._closed.listed import FunctionWords, StatementWords, lines_of
from taxpr_jupyter._closed.statements_inside import statements_in, statements_inside
from taxpr_jupyter._drawing.build import Builder

X = jnp.linspace(0.1, 0.9, 4)
WIDTH = 36  # characters of a line of a label


def texts(every):
    """The texts of statements; a `return` without calls has none."""
    return [text for one in every if (text := one.text())]


def said(fun, *args):
    """The statements of a program, as a list."""
    return texts(statements_in(taxpr.trace(fun)(*args).eqns))


def functions_in(every):
    """The functions that statements call, and those in them, by their names."""
    return {
        name: said
        for one in every
        for inner in one.within
        for name, said in {inner.name: inner.said, **functions_in(inner.said)}.items()
    }


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
    wrapped: ["a", "several(…)"],
    mapped: ["rows", "several(…)"],
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

    found = functions_in(statements_in(taxpr.trace(run)(jnp.stack([X, X])).eqns))
    assert texts(found[fun.__name__]) == SOURCES[fun]


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


def statement(k, equations, source="", **more):
    return StatementWords((f"v{k}",), equations=equations, source=source or f"v{k} = x", **more)


def test_each_statement_is_as_in_the_source_from_the_left():
    long = "v1 = jnp.sum(jnp.square(v0 - target), axis=-1)"
    every = [statement(0, 5, "v0 = x + y"), statement(1, 9, long)]
    lines = lines_of(every, WIDTH)
    assert lines == ["v0 = x + y", "v1 = jnp.sum(jnp.square(v0 - target),", "axis=-1)"]
    assert [line.indent for line in lines] == [0, 0, 4]  # what it goes on with
    # A variable that is made anew has a line for each time.
    again = [statement(0, 2, "v0 = a + b"), statement(0, 1, "v0 = jnp.tanh(v0 + c)")]
    assert lines_of(again, WIDTH) == ["v0 = a + b", "v0 = jnp.tanh(v0 + c)"]
    # Only a part of a very long one.
    lines = lines_of([statement(0, 1), statement(1, 1, f"v1 = f({'abcd, ' * 100}d)")], WIDTH)
    assert lines[0] == "v0 = x"
    assert "…" in "".join(lines)
    assert len(lines) < 8


def test_what_says_least_is_left_out_as_a_whole_and_what_makes_the_result_is_not():
    every = [statement(k, k % 5) for k in range(20)]
    result = StatementWords((), source="return v0 + v1", result=True)
    lines = lines_of([*every, result], WIDTH)
    assert len(lines) <= 14
    assert lines[-1] == "return v0 + v1"
    written = [line for line in lines if " = " in line]
    left = [re.fullmatch(r"… (\d+) lines?", line) for line in lines if line.startswith("…")]
    assert all(left)
    assert len(written) + sum(int(one[1]) for one in left) == 20
    assert all(line in [one.source for one in every] for line in written)
    least = min(int(line[1:].split()[0]) % 5 for line in written)
    assert least >= 2  # those with 0 and 1 have gone first
    # A larger part has room for all of them.
    assert lines_of([*every, result], WIDTH, equations=100) == [
        *(one.source for one in every),
        "return v0 + v1",
    ]


def test_functions_that_are_called_follow_each_once_with_its_result():
    def function(name, around, line, *said):
        return FunctionWords(name, around, ("a.py", line), said)

    def returns(text):
        return StatementWords((), source=f"return {text}", result=True)

    inner = function("step", "first.step", 9, returns("c * 2"))
    first = function("first", "first", 1, statement(5, 3, within=(inner,)), returns("v5"))
    second = function("step", "second.step", 20, statement(6, 3), returns("v6 + 1"))
    every = [
        statement(0, 0, "v0 = first(x)", runs=True, within=(first,)),
        statement(1, 0, "v1 = first(v0) + run(step)", runs=True, within=(first, second)),
    ]
    lines = lines_of(every, WIDTH, equations=200)
    assert lines == [
        *("v0 = first(x)", "v1 = first(v0) + run(step)"),
        *("in first:", "v5 = x", "return v5"),
        *("in second.step:", "v6 = x", "return v6 + 1"),  # two are called so
        *("in first.step:", "return c * 2"),
    ]
    assert [line.indent for line in lines] == [0, 0, *[0, 2, 2] * 2, 0, 2]
    assert not any(line.startswith("in ") for line in lines_of(every, WIDTH, equations=8))
    # If there is no room, what a function makes is told rather than its other lines.
    many = [statement(k, 2) for k in range(7, 40)]
    long = function("first", "first", 1, *many, returns("v39"))
    lines = lines_of([every[0]._replace(within=(long,))], WIDTH, equations=20)
    assert lines[:2] == ["v0 = first(x)", "in first:"]
    assert lines[-1] == "return v39"


def test_a_function_whose_calls_run_other_lines_has_more():
    def block(x, wide):
        if wide:
            y = jnp.sin(x) * 2.0
        else:
            y = pushed(x) * 3.0
        return y * x

    def partly(x, more):
        y = jnp.cos(x) + 1.0
        if more:
            y = y - y.mean()
        return y * x

    def twice(x):
        a = block(x, True)
        b = block(a + 1.0, False)
        c = partly(b, False)
        d = partly(c, True)
        return a + d

    [call] = taxpr.trace(jax.jit(twice))(X).eqns
    lines = lines_of(statements_inside(call), WIDTH, equations=100)
    assert lines[5:] == [
        *("in block:", "y = jnp.sin(x) * 2.0", "return y * x", "…"),
        *("in partly:", "y = jnp.cos(x) + 1.0", "y = y - y.mean()", "return y * x"),
        *("in pushed:", "y = jnp.tanh(x) * 2.0", "return y + jnp.sin(y)"),
    ]


def test_a_return_that_computes_nothing_is_told():
    def new_mass(a):
        var = a["m2"] / (a["count"] - 1.0)
        shrunk = (a["count"] * var + 5e-3) / 5.0
        return {**a, "inv_mass": shrunk}

    def alone(a):
        total = jnp.sin(a["m2"]).sum() * 2.0
        return total

    def in_two_ways(a):
        if a is None:
            return None
        low = jnp.cos(a["m2"]) * 3.0
        return low, a

    def halved(a):
        half = a["m2"] * 0.5
        return half + 1.0, a

    def names(a):
        half = a["m2"] * 0.25
        return (half, half), a

    def inner(a):
        def idle(a):
            return a, a

        low = jnp.cos(a["m2"]) * 3.0
        return low, {"idle": idle}

    def run(a):
        a = jax.lax.cond(a["count"] > 3.0, new_mass, lambda a: {**a, "inv_mass": a["m2"]}, a)
        b, c, d, e, f = alone(a), in_two_ways(a), halved(a), names(a), inner(a)
        return b + c[0].sum() + d[0].sum() + e[0][0].sum() + f[0].sum()

    [call] = taxpr.trace(jax.jit(run))({"m2": X, "count": 2.0}).eqns
    lines = lines_of(statements_inside(call), 60, equations=100)
    assert lines[lines.index("in new_mass:") :] == [
        "in new_mass:",
        'var = a["m2"] / (a["count"] - 1.0)',
        'shrunk = (a["count"] * var + 5e-3) / 5.0',
        'return {**a, "inv_mass": shrunk}',
        *("in alone:", 'total = jnp.sin(a["m2"]).sum() * 2.0'),  # the last line makes all of it
        *("in in_two_ways:", 'low = jnp.cos(a["m2"]) * 3.0'),  # it may end in another way
        *("in halved:", 'half = a["m2"] * 0.5', "return half + 1.0, a"),
        *("in names:", 'half = a["m2"] * 0.25'),
        *("in inner:", 'low = jnp.cos(a["m2"]) * 3.0', 'return low, {"idle": idle}'),
    ]
    [cond] = [one for one in call.params["jaxpr"].eqns if one.primitive.name == "cond"]
    assert lines_of(statements_inside(cond), 60, equations=20)[-1] == (
        'return {**a, "inv_mass": shrunk}'
    )


def test_functions_and_parameters_that_lines_use_are_told():
    hk = types.SimpleNamespace(get_parameter=lambda name, shape: X)

    def residual(x, t):
        cost = lambda y: jnp.sum(y**2) * t
        slope_fn = jax.grad(cost)
        slope = slope_fn(x) * 2.0
        unused = lambda y: y  # noqa: F841, unused on purpose
        size = len(x.shape)
        scale = hk.get_parameter("scale", (4,))
        again = lambda y: y * 2.0
        first = again(slope) + scale
        again = lambda y: y * 3.0
        return again(first) + slope * size

    def outer(x):
        y = jnp.sin(x)
        return residual(y, 2.0) + y.sum()

    [call] = taxpr.trace(jax.jit(outer))(X).eqns
    lines = lines_of(statements_inside(call), 60, equations=100)
    inside = [
        "cost = lambda y: jnp.sum(y**2) * t",
        "slope_fn = jax.grad(cost)",
        "slope = slope_fn(x) * 2.0",
        'scale = hk.get_parameter("scale", (4,))',
        "first = again(slope) + scale",
        "return again(first) + slope * size",
    ]
    assert lines[lines.index("in residual:") + 1 :][: len(inside)] == inside
    assert lines_of(statements_in(taxpr.trace(residual)(X, 2.0).eqns), 60, equations=100) == inside


def test_a_definition_stands_after_the_lines_that_only_say_its_name():
    """`scale.cost` and `cost=2.5` are no uses of it."""
    scale = types.SimpleNamespace(cost=3.0)

    def outer(x):
        y = jnp.sin(x) * scale.cost
        w = jnp.where(y > 0, y, dict(cost=2.5)["cost"])  # noqa: C408
        cost = lambda q: q * 2
        return cost(w) + y.sum()

    [call] = taxpr.trace(jax.jit(outer))(X).eqns
    assert lines_of(statements_inside(call), 60, equations=100)[:4] == [
        "y = jnp.sin(x) * scale.cost",
        'w = jnp.where(y > 0, y, dict(cost=2.5)["cost"])',
        "cost = lambda q: q * 2",
        "return cost(w) + y.sum()",
    ]


@pytest.mark.parametrize("around", [lambda f: f, jax.checkpoint], ids=["plain", "checkpoint"])
def test_a_backward_pass_has_no_return_that_only_the_forward_pass_computes(around):
    @jax.jit
    def total(x):
        def step(c, x):
            d = jnp.tanh(c * x)
            return d, jnp.float32(3) * 1

        return jax.lax.scan(around(step), x, jnp.ones((3, 4)))[0].sum()

    def sources(eqn, **more):
        said = statements_inside(eqn, **more)
        return [
            one.source
            for one in [*said, *(inner for one in said for fun in one.within for inner in fun.said)]
        ]

    forward, *_, backward = taxpr.trace(jax.grad(total))(X).eqns
    scan = next(one for one in backward.params["jaxpr"].eqns if one.primitive.name == "scan")
    assert "return d, jnp.float32(3) * 1" in sources(forward)
    assert "d = jnp.tanh(c * x)" in sources(backward)
    # As it is drawn in the open call; what checkpoint computes again is in a call of its own.
    inner = sources(scan, within_backward=True)
    assert inner == (["d = jnp.tanh(c * x)"] if around is not jax.checkpoint else [""])
    assert "return d, jnp.float32(3) * 1" not in sources(backward)


def test_a_function_that_takes_a_derivative_has_its_return():
    def residual(x):
        slope = jax.grad(lambda y: jnp.sum(y**3))(x)
        return jnp.sin(slope), {"slope": slope, "least": 0.0}

    def outer(x):
        value, more = residual(x)
        return value.sum() + more["slope"].sum() + jnp.cos(x).sum()

    [call] = taxpr.trace(jax.jit(outer))(X).eqns
    lines = lines_of(statements_inside(call), 60, equations=100)
    assert 'return jnp.sin(slope), {"slope": slope, "least": 0.0}' in lines


def _edited(x):
    cost = lambda y: jnp.sum(y**2) * 3.0
    slope_fn = jax.grad(cost)
    slope = slope_fn(x) * 2.0
    y = jnp.cos(slope) + cost(x)
    return y, {"k": slope}


@jax.jit
def _of_edited(x):
    return _edited(jnp.sin(x))[0].sum() + x.sum()


@pytest.mark.parametrize(
    ("line", "text", "told"),
    [
        (1, "lambda y: jnp.sum(y**4) * 3.0", "cost = lambda y: jnp.sum(y ** 4) * 3.0"),
        (2, "jax.grad(lambda q: 5 * cost(q))", "slope_fn = jax.grad(lambda q: 5 * cost(q))"),
        (5, "y, {'n': 3}", "return (y, {'n': 3})"),
    ],
)
def test_lines_that_compute_nothing_are_those_that_ran_after_an_edit(line, text, told):
    session = Session(_of_edited, (X,))
    before = inside(session)
    place = f"{__file__}:{_edited.__code__.co_firstlineno + line}"
    session.edit(place, text)
    assert [now for now in inside(session) if now not in before] == [told]
    session.unedit(place)
    assert inside(session) == before


def inside(session):
    [call] = session.program.eqns
    return lines_of(statements_inside(call), 70, equations=100)


def test_what_hangs_in_a_loop_of_python_is_after_its_head():
    def stack(params, x):
        h = x * 2.0
        for w in params:
            h = jnp.tanh(h @ w)
            h = h - h.mean()
        return h.sum() + jnp.sin(h).mean()

    [call] = taxpr.trace(jax.jit(stack))([W, W], X).eqns
    lines = lines_of(statements_inside(call), WIDTH, equations=20)
    assert lines == [
        "h = x * 2.0",
        "for w in params:",
        "h = jnp.tanh(h @ w)",
        "h = h - h.mean()",
        "return h.sum() + jnp.sin(h).mean()",
    ]
    assert [line.indent for line in lines] == [0, 0, 4, 4, 0]


def test_statements_of_the_same_text_at_other_lines_are_not_one():
    def block(x, w):
        x = jnp.tanh(x @ w)
        x = x - x.mean()
        x = jnp.tanh(x @ w)
        return x * 2.0

    def twice(x, w):
        return block(block(x, w), w) + 1.0

    [call] = taxpr.trace(jax.jit(block))(X, W).eqns
    every = ["x = jnp.tanh(x @ w)", "x = x - x.mean()", "x = jnp.tanh(x @ w)", "return x * 2.0"]
    assert lines_of(statements_inside(call), 60, equations=20) == every
    # Two calls have each once.
    [call] = taxpr.trace(jax.jit(twice))(X, W).eqns
    lines = lines_of(statements_inside(call), 60, equations=100)
    assert lines == ["return block(block(x, w), w) + 1.0", "in block:", *every]


def test_a_function_that_runs_equal_lines_in_two_branches_has_more():
    def block(x, wide):
        if wide:
            y = jnp.sin(x) * 2.0
        else:
            y = jnp.cos(x) * 2.0
            y = jnp.sin(x) * 2.0 + y
        if not wide:
            y = jnp.sin(x) * 2.0
        return y * x

    def twice(x):
        a = block(x, True)
        return a + block(a, False)

    [call] = taxpr.trace(jax.jit(twice))(X).eqns
    lines = lines_of(statements_inside(call), 60, equations=100)
    assert lines[2:] == ["in block:", "y = jnp.sin(x) * 2.0", "return y * x", "…"]


def test_loops_of_python_with_the_same_head_are_not_one():
    def turns(x, y):
        for _ in range(3):
            x = jnp.sin(x) + y
        for _ in range(3):
            y = jnp.cos(y) * x
        return x + y

    [call] = taxpr.trace(jax.jit(turns))(X, X).eqns
    assert lines_of(statements_inside(call), WIDTH, equations=20) == [
        *("for _ in range(3):", "x = jnp.sin(x) + y"),
        *("for _ in range(3):", "y = jnp.cos(y) * x"),
        "return x + y",
    ]

    # Nor if what is between them is left out, which hangs in a loop if all of it does.
    def looped(place, told):
        loops = (("for _ in range(3)", (place,)),)
        return [statement(place + k, 9 * (k in told), loops=loops) for k in range(6)]

    def indented(every):
        lines = lines_of(every, WIDTH, equations=20)
        return [" " * line.indent + line for line in lines if not re.match("v[0-9]", line)]

    between, head = [statement(100 + k, 0) for k in range(9)], "for _ in range(3):"
    every = [*looped(0, range(4)), *between, *looped(10, (4, 5))]
    assert indented(every)[0] == head
    assert [line for line in indented(every) if "…" not in line].count(head) == 2
    every = [*looped(0, (0, 5)), *looped(10, range(6)), *(statement(k, 9) for k in range(20, 23))]
    assert indented(every) == [head, "    … 4 lines", head]


def test_the_branches_of_a_conditional_further_in_are_told_by_their_functions():
    def improve(s):
        def accept(s):
            return s["x"] - 0.1, s["mu"] * 0.2

        def reject(s):
            return s["x"], s["mu"] * 10.0

        cost = jnp.sum(s["x"] ** 2)
        x, mu = jax.lax.cond(cost < s["mu"], accept, reject, s)
        return {"x": x, "mu": mu}

    def run(s):
        return jax.lax.while_loop(lambda s: s["mu"] < 9.0, lambda s: improve(s), s)

    [loop] = taxpr.trace(run)({"x": X, "mu": 1.0}).eqns
    lines = lines_of(statements_inside(loop), WIDTH, equations=20)
    accept, reject = lines.index("in accept:"), lines.index("in reject:")
    assert lines[accept + 1] == 'return s["x"] - 0.1, s["mu"] * 0.2'
    assert lines[reject + 1] == 'return s["x"], s["mu"] * 10.0'
    assert 'x, mu = jax.lax.cond(cost < s["mu"],' in lines[:accept]


def test_the_return_of_a_mapped_function_and_of_several_stand_after_their_names():
    def one(u):
        drive = u * 2.0
        return drive + jnp.cos(drive).sum()

    def other(u):
        return jnp.sum(u**2) * jnp.sin(u)

    def layer(x):
        moved = x + 1.0
        return jax.vmap(one)(moved)

    def both(x):
        total = jax.vmap(one)(x) - 3.0 * jax.vmap(other)(x)
        return total

    [call] = taxpr.trace(jax.jit(layer))(X).eqns
    assert lines_of(statements_inside(call), WIDTH, equations=20) == [
        *("moved = x + 1.0", "return jax.vmap(one)(moved)"),
        *("in one:", "drive = u * 2.0", "return drive + jnp.cos(drive).sum()"),
    ]
    # A statement that computes with results of functions: none of them returns all of it.
    assert lines_of(statements_in(taxpr.trace(both)(X).eqns), WIDTH, equations=20) == [
        *("in one:", "drive = u * 2.0", "return drive + jnp.cos(drive).sum()"),
        *("in other:", "return jnp.sum(u**2) * jnp.sin(u)"),
    ]


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
    few = lines_of(statements_inside(scan), WIDTH, equations=10)
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
    assert sources(handed, X, W) == ["return helper(x @ w)"]
    assert "return s, s.sum()" not in sources(looped, X)
    assert "return jax.lax.scan(step, x, x)[1].mean()" in sources(looped, X)


def test_lines_of_a_function_stand_in_place_of_its_call_only_if_they_read_the_same():
    """Its `x` and `return` stood after a line of the caller as if they were the caller's."""

    def inner(x):
        a = jnp.sin(x) * 2.0
        return a * x

    def outer(x):
        c = x + 3.0
        return inner(c * 5.0 + jnp.tanh(c))

    def renamed(y):
        return inner(y)

    def same(x):
        return inner(x)

    def lines(fun):
        [call] = taxpr.trace(jax.jit(fun))(X).eqns
        return lines_of(statements_inside(call), WIDTH, equations=8)

    own = ["a = jnp.sin(x) * 2.0", "return a * x"]
    call = "return inner(c * 5.0 + jnp.tanh(c))"
    assert lines(outer) == ["c = x + 3.0", call, "in inner:", *own]
    assert lines(renamed) == ["return inner(y)", "in inner:", *own]
    assert lines(same) == own


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


def test_what_an_associative_scan_combines_with_is_told():
    every = statements_in(taxpr.trace(recurrence)(X).eqns)
    told = "return left[0] * right[0], right[0] * left[1] + right[1]"
    found = [[(f.name, [k.source for k in f.said]) for f in one.within] for one in every]
    assert found == [[], [("combine", [told])], [("combine", [told])], []]


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


def test_a_branch_keeps_its_name_if_its_first_statements_are_left_out():
    cold = [statement(k, 9, branch="false") for k in range(4)]
    hot = [statement(k, 5 * (k > 5), branch="true") for k in range(4, 15)]
    lines = lines_of([*cold, *hot], WIDTH, equations=20)
    assert lines[0] == "false: v0 = x"
    assert lines[4:6] == ["true: … 2 lines", "v6 = x"]
    # Both are told if the end of one and the begin of the other are left out.
    idle = [statement(k, 0, branch="false") for k in range(20, 23)]
    lines = lines_of([*cold, *idle, *hot], WIDTH, equations=20)
    assert lines[4:7] == ["… 3 lines", "true: … 2 lines", "v6 = x"]
    # Of a loop of Python, its head.
    looped = [one._replace(loops=(("for k in ks", (1,)),)) for one in hot[:2]]
    assert lines_of([*cold, *looped], WIDTH)[4:] == ["true: for k in ks:", "v4 = x", "v5 = x"]


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


def test_what_only_a_derivative_needs_is_not_told_as_unused():
    def terms(w, x):
        near = jnp.sum((x @ w) ** 2)
        far = jnp.sum(jnp.abs(w)) * 0.1
        idle = jnp.cos(near) * jnp.sin(far) * 2.0  # noqa: F841, unused on purpose
        total = near - 0.5 * far
        return total, {"near": near, "far": far}

    def step(w, x):
        grads, info = jax.grad(terms, has_aux=True)(w, x)
        return w - 0.1 * grads, info

    picture = draw(step, W, X, budget=3).picture
    text = told(picture, "forward pass of terms")
    assert "unused: idle" in text
    assert "total" not in text.partition("unused")[2].partition("equations")[0]


def layer(x, w):
    hidden = jnp.tanh(x @ w)
    gated = hidden * jax.nn.sigmoid(hidden.sum())
    scaled = gated / (jnp.abs(gated).max() + 1.0)
    return x + scaled


def test_parts_alike_in_one_frame_have_their_lines_once():
    def net(ws, x):
        first = layer(x, ws[0])
        moved = first + jnp.sin(first) * 2.0
        second = layer(moved, ws[1])
        return 3.0 * layer(second, ws[2]) + moved.mean()

    picture = draw(net, [W, W, W], X, budget=6).picture
    lines = {node.lines[0]: list(node.lines) for node in picture.nodes if node.kind == "group"}
    own = ["hidden = jnp.tanh(x @ w)", "return x + scaled"]
    assert all(line in lines["first = layer(x, ws[0])"] for line in own)
    assert "as in first" in lines["second = layer(moved, ws[1])"]
    assert not any(line in lines["second = layer(moved, ws[1])"] for line in own)
    # If the first one is open, the next one has them, whatever was drawn before.
    builder = Builder(taxpr.trace(net)([W, W, W], X), 6)
    picture = builder.picture(frozenset())
    [first] = [n.fold for n in picture.nodes if n.lines[0] == "first = layer(x, ws[0])"]
    picture = builder.picture(frozenset([first]))
    [second] = [n.lines for n in picture.nodes if n.lines[0] == "second = layer(moved, ws[1])"]
    assert all(line in second for line in own)


# --- room -----------------------------------------------------------------------------------------


def test_statements_without_their_source_are_in_few_words():
    every = [
        StatementWords(("a",)),
        StatementWords(("b", "c"), ("f",)),
        StatementWords((), ("g", "h")),
    ]
    assert lines_of(every, WIDTH) == ["a", "b, c = f(…)", "g(…), h(…)"]


def test_functions_alone_are_called_and_those_told_already_are_not():
    every = [StatementWords((), ("f",)), StatementWords((), ("∂ g", "h"))]
    assert lines_of(every, WIDTH) == ["calls f, ∂ g, h"]
    assert lines_of(every, WIDTH, ["scan ×3 · f"]) == ["calls ∂ g, h"]
    assert lines_of(every[:1], WIDTH, ["scan ×3 · f"]) == []


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
