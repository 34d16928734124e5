"""A parameter holds a value of the caller: what is changed inside of the call, and what is said."""

import inspect
import warnings

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr import SharedValueWarning, var

X = jnp.arange(3.0) + 1
SCALE = taxpr.scale(2.0)


def attend(x):
    y = jnp.sin(x)
    return y * x


def attended(x):
    return jnp.sin(2 * x) * (2 * x)  # what attend computes of a doubled x


def block(x):
    x = x + attend(x)
    return x


def run(f, where, *args, injector=SCALE):
    """The result with a change; a warning is an error."""
    injected = taxpr.inject(f, injector, where=where)
    return injected(injected.init(*args), *args)[0]


def close(a, b):
    assert jnp.allclose(a, b, rtol=1e-5), (a, b)


ATTEND = var("attend.x", inside=True)


def test_the_callee_alone_is_changed():
    close(run(block, ATTEND, X), X + attended(X))
    close(run(jax.jit(block), ATTEND, X), X + attended(X))
    close(run(block, ATTEND, X, injector=taxpr.zero()), X)
    close(run(block, var("attend.x", inside=False), X), 2 * X + attended(X))


def in_scan(x):
    def step(c, _):
        return c + attend(c), None

    return lax.scan(step, x, None, length=2)[0]


def closed_over(x):
    """The body of a loop calls it with what the function around has."""

    def step(c, _):
        return c + attend(x), None

    return lax.scan(step, x * 0, None, length=2)[0]


def mapped(x):
    return x + jax.vmap(attend)(x)


def handed_on(x):
    def inner(x):
        return attend(x) * 1

    return x + inner(x)


def jitted_inside(x):
    return x + jitted(x)


@jax.jit
def jitted(x):
    return jnp.where(x > 0, attend(x), x)


def through_a_loop(x):
    def attend(x):
        return lax.map(lambda r: r * x.sum(), x)

    return x + attend(x)


def in_a_branch(x):
    return x + lax.cond(x[0] > 0, attend, lambda x: x, x)


def twice_in_a_line(x):
    return attend(x) + attend(x) + x


def in_a_python_loop(x):
    total = x * 0
    for _ in range(3):
        total = total + attend(x)
    return total


def test_wherever_it_is_called():
    for f, wanted in [
        (in_scan, (X + attended(X)) + attended(X + attended(X))),
        (closed_over, 2 * attended(X)),
        (mapped, X + attended(X)),
        (handed_on, X + attended(X)),
        (through_a_loop, X + 2 * X * (2 * X).sum()),
        (in_a_branch, X + attended(X)),
        (jitted_inside, X + attended(X)),
        (twice_in_a_line, X + 2 * attended(X)),
        (in_a_python_loop, 3 * attended(X)),
    ]:
        close(run(f, ATTEND, X), wanted)
        close(run(lambda x, f=f: jax.jit(f)(x), ATTEND, X), wanted)


def test_one_of_two_calls_in_a_line():
    where = var("attend.x", occurrence=1, inside=True)
    close(run(twice_in_a_line, where, X), X + attend(X) + attended(X))


def test_calls_from_one_place_are_not_told_apart():
    where = var("attend.x", occurrence=1, inside=True)
    with pytest.raises(taxpr.SelectorError, match=r"3 calls of attend from one line hold the same"):
        run(in_a_python_loop, where, X)

    def in_a_loop(_, x):
        y = jnp.float32(0)
        for _ in range(3):
            y = y + attend(x)
        return y

    with pytest.warns(SharedValueWarning, match=r"too: in 2 other calls of attend\."):
        run(in_a_loop, var("attend.x", occurrence=1), 0.0, jnp.float32(2))


def test_a_loop_that_uses_it_inside_and_outside():
    def f(x):
        def step(c, _):
            return c + attend(x) + x, None

        return lax.scan(step, x * 0, None, length=2)[0]

    match = (
        r"input 0 \(at in0\) goes into a loop.*others, too `return c \+ attend.* Put a taxpr\.tag"
    )
    with pytest.raises(taxpr.RefusedError, match=match):
        run(f, ATTEND, X)


def recursive(x, n=2):
    return x if n == 0 else x + recursive(x, n - 1)


def test_a_function_that_calls_itself():
    close(run(recursive, var("x", occurrence=0, inside=True), X), 6 * X)
    # The innermost call returns what it was given, which is the caller's.
    close(run(recursive, var("x", occurrence=1, inside=True), X), X + 4 * X)


def test_in_a_derivative():
    """What the backward pass computes of the value was made in the call, too."""

    def gradient(x):
        return jax.grad(lambda x: block(x).sum())(x)

    with pytest.warns(taxpr.StaleDerivativeWarning):
        found = run(gradient, ATTEND, X)
    # d/dx (x + sin(x) x) with 2x in the place of each x that attend reads
    close(found, 1 + jnp.cos(2 * X) * 2 * X + jnp.sin(2 * X))
    first = taxpr.inject(block, SCALE, where=ATTEND)
    close(
        jax.grad(lambda x: first(first.init(x), x)[0].sum())(X),
        jax.grad(lambda x: (x + attended(x)).sum())(X),
    )


def two(x):
    def inner(x):
        return x * 10

    def outer(x):
        return x * 3 + inner(x)

    return x + outer(x)


def test_a_call_in_a_call():
    outer, inner = var("outer.x", inside=True), var("inner.x", inside=True)
    close(run(two, outer, X), X + 2 * 13 * X)
    close(run(two, inner, X), X + 3 * X + 20 * X)
    for both in ({outer: SCALE, inner: SCALE}, {inner: SCALE, outer: SCALE}):
        close(run_many(two, both, X), X + 6 * X + 40 * X)
    all_of_it = var("two.x", inside=False)
    for both in (
        {outer: SCALE, all_of_it: taxpr.scale(5.0)},
        {all_of_it: taxpr.scale(5.0), outer: SCALE},
    ):
        close(run_many(two, both, X), 5 * X + 10 * 13 * X)
    one_by_one = taxpr.trace(two, names=True)(X)
    for order in ([outer, inner], [inner, outer]):
        program = one_by_one
        for k, where in enumerate(order):
            program = program.tag_at(where, name=f"t{k}")
        injected = program.inject({"t0": SCALE, "t1": SCALE})
        close(injected(injected.ctx, X)[0], X + 6 * X + 40 * X)


def run_tagged(program, name):
    injected = program.inject(SCALE, where=name)
    return injected(injected.ctx, X)[0]


def run_many(f, injectors, *args):
    injected = taxpr.inject(f, injectors)
    return injected(injected.init(*args), *args)[0]


def test_all_ways_to_change_it():
    program = taxpr.trace(block, names=True)(X)
    tagged = program.tag_at(ATTEND, name="q")
    assert [site.name for site in tagged.tags()] == ["q"]
    close(tagged(X), block(X))
    close(
        tagged.inject(SCALE, where="q")(tagged.inject(SCALE, where="q").ctx, X)[0], X + attended(X)
    )
    close(program.plant({ATTEND: 2 * X})(X), X + attended(X))
    metric = jnp.sum
    [row] = taxpr.sweep(block, ATTEND, taxpr.scale, [2.0], metric=metric)(X).rows
    assert row["metric"] == pytest.approx(float((X + attended(X)).sum()), rel=1e-5)
    [row] = taxpr.patch(block, ATTEND, metric, sources="clean")(X, 3 * X).rows
    planted = (3 * X + attend(X)).sum()
    assert row["metric"] == pytest.approx(float(planted), rel=1e-5)
    close(taxpr.collect(block, ATTEND)(X)[1]["x"], X)
    close(taxpr.watch(block, ATTEND)(X)["attend.x"].value, X)
    assert len(taxpr.find_values(program, ATTEND)) == 1


def test_what_is_no_call_has_no_inside():
    """The outermost function has no caller: its results are its own."""

    def f(x):
        return x, jnp.sin(x)

    found = run(f, var("x", inside=True), X)
    close(found[0], 2 * X)
    close(found[1], jnp.sin(2 * X))


def test_the_value_of_an_equation_and_tags_on_it():
    def f(x):
        h = jnp.cos(x)
        h = taxpr.tag(h, name="mine")
        return h + attend(h)

    h = jnp.cos(X)
    close(run(f, ATTEND, X), h + attended(h))
    tripled = taxpr.inject(f, {"mine": taxpr.scale(3.0), ATTEND: SCALE})
    close(tripled(tripled.init(X), X)[0], 3 * h + attended(3 * h))


def identity(x):
    return x


def test_what_nothing_is_computed_of_inside():
    with pytest.raises(
        taxpr.SelectorError, match=r"inside=True: nothing is computed of the input 0 .*taxpr\.tag"
    ):
        run(lambda x: identity(x) * 2, var("identity.x", inside=True), X)


def test_what_is_no_choice():
    with pytest.raises(taxpr.SelectorError, match=r"var: inside='a' is a str, not a bool"):
        var("x", inside="a")
    with pytest.raises(taxpr.SelectorError, match=r"cotangent: .* all uses of a value"):
        taxpr.cotangent(ATTEND)
    assert repr(ATTEND) == "var('attend.x', inside=True)"
    with pytest.raises(taxpr.SelectorError, match=r"tag_at: .* mean one value"):
        taxpr.trace(two, names=True)(X).tag_at(
            [var("outer.x", inside=True), var("inner.x", inside=True)], name="a"
        )


# ---- the warning -------------------------------------------------------------


def line_of(f, text):
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, line in enumerate(lines) if text in line)


def test_a_value_that_the_caller_uses_is_said_once():
    line = line_of(block, "x = x +")
    injected = taxpr.inject(block, taxpr.zero(), where=var("attend.x"))
    match = (
        rf"variable x \(test_inside\.py:\d+, at in0\) holds a value that is used outside of its "
        rf"function, too: `x = x \+ attend\(x\)` \(test_inside\.py:{line} in block\)\. .*select "
        r"taxpr\.var\('attend\.x', inside=True\)"
    )
    with pytest.warns(SharedValueWarning, match=match) as seen:
        ctx = injected.init(X)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        injected(ctx, X)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.inject(SCALE, where=var("attend.x")),
        lambda p: p.inject({var("attend.x"): SCALE}),
        lambda p: p.tag_at(var("attend.x"), name="q").inject(SCALE, where="q"),
        lambda p: p.plant({var("attend.x"): X}),
        lambda p: taxpr.sweep(p, var("attend.x"), taxpr.scale, [2.0], metric=jnp.sum)(X),
        lambda p: taxpr.patch(p, var("attend.x"), jnp.sum)(X, 2 * X),
    ],
)
def test_all_that_change_it_say_so_once(change):
    program = taxpr.trace(block, names=True)(X)
    with pytest.warns(SharedValueWarning) as seen:
        change(program)
    assert len(seen) == 1


def alone(x):
    return attend(jnp.cos(x))


def of_both(x):
    return attend(x) + attend(x)


@pytest.mark.parametrize(
    ("f", "where"),
    [
        (alone, var("attend.x")),
        (of_both, var("attend.x")),
        (block, ATTEND),
        (block, var("attend.x", inside=False)),
        (block, var("attend.y")),
        (block, var("block.x", occurrence=0)),
        (lambda x: x + jitted(x), var("jitted.x")),
        (in_a_branch, var("attend.x")),
        (lambda x: lax.map(attend, x) + x, var("attend.x")),
        (lambda x: jax.grad(lambda x: attend(x).sum())(x), var("attend.x")),
    ],
)
def test_nothing_is_said_where_there_is_no_other_use(f, where):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", taxpr.StaleDerivativeWarning)
        run(f, where, X)


def test_nothing_is_said_by_what_only_looks():
    program = taxpr.trace(block, names=True)(X)
    where = var("attend.x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.inject([taxpr.record(), taxpr.stats()], where=where)
        program.collect(where)(X)
        program.tag_at(where, name="q").collect("q")(X)
        taxpr.watch(block, where)(X)
        taxpr.grad_at(lambda x: block(x).sum(), where)(X)


def test_other_uses_than_equations_of_the_caller():
    def returned(x):
        return attend(x), x

    with pytest.warns(SharedValueWarning, match=r"too: as a result of the caller\."):
        run(lambda x: returned(x), var("attend.x"), X)

    def loops(x):
        return attend(x) + lax.map(lambda r: r * x.sum(), x)

    with pytest.warns(SharedValueWarning, match=r"too: `return attend\(x\) \+ lax\.map"):
        run(loops, var("attend.x"), X)
    weights = {"w": X}

    def layer(p, x):
        w = p["w"]
        return w * x

    def model(p, x):
        return layer(p, x) + p["w"].sum()

    with pytest.warns(SharedValueWarning, match=r"return layer\(p, x\) \+ p\[.w.\]\.sum"):
        run(model, var("layer.p['w']"), weights, X)
    close(run(model, var("layer.w", inside=True), weights, X), 2 * X * X + X.sum())
