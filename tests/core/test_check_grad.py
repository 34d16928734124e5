"""Which rule for a derivative is wrong: in each program one is planted, in others none."""

import functools
import inspect
import sysconfig
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr

X = np.linspace(-1.0, 2.0, 4, dtype=np.float32)
WRONG, RIGHT = {}, {}


def wrong(rule, operand, code, *args):
    def add(run):
        WRONG[run.__name__] = run, args or (X,), rule, operand, code
        return run

    return add


def right(run):
    RIGHT[run.__name__] = run
    return run


def with_jvp(factor):
    @jax.custom_jvp
    def wave(x):
        return jnp.sin(x)

    @wave.defjvp
    def wave_jvp(primals, tangents):
        return wave(*primals), factor * jnp.cos(primals[0]) * tangents[0]

    return wave


def with_vjp(of_x=1.0, of_w=1.0):
    @jax.custom_vjp
    def times(x, w):
        return x * w

    def times_bwd(kept, g):
        x, w = kept
        return of_x * g * w, of_w * g * x

    times.defvjp(lambda x, w: (x * w, (x, w)), times_bwd)
    return times


@wrong("wave_jvp", "h", "y = with_jvp(2.0)(h)")
def twice_as_large(x):
    h = x * 3.0
    y = with_jvp(2.0)(h)
    return y.sum()


@wrong("times_bwd", "w", "y = with_vjp(of_w=-1.0)(x, w)", X, X + 0.5)
def another_sign(x, w):
    y = with_vjp(of_w=-1.0)(x, w)
    return jnp.square(y)


@wrong("times_bwd", "x", "y = with_vjp(of_x=0.0)(x, 2.0 * x)")
def no_cotangent(x):
    y = with_vjp(of_x=0.0)(x, 2.0 * x)
    return y


@wrong("wave_jvp", "c", "c = with_jvp(0.5)(c) * k")
def in_a_scan(x):
    def step(c, k):
        c = with_jvp(0.5)(c) * k
        return c, None

    return jax.lax.scan(step, x, jnp.arange(1.0, 4.0))[0]


@wrong("wave_jvp", "x", "return with_jvp(0.5)(x)")
def in_a_branch(x):
    def right_one(x):
        return with_jvp(1.0)(x)

    def wrong_one(x):
        return with_jvp(0.5)(x)

    return jax.lax.cond(x.sum() > 0, wrong_one, right_one, x)


@wrong("wave_jvp", "c", "return with_jvp(0.5)(c)")
def in_a_while_loop(x):
    def body(c):
        return with_jvp(0.5)(c)

    return jax.lax.while_loop(lambda c: c.max() > 0.3, body, x)


@wrong("wave_jvp", "x", "return jax.vmap(with_jvp(0.5))(x)")
@jax.jit
def jitted_and_mapped(x):
    return jax.vmap(with_jvp(0.5))(x)


@wrong("times_bwd", "h", "y = with_vjp(of_x=3.0)(h, x)")
def recomputed(x):
    @jax.checkpoint
    def block(x):
        h = jnp.tanh(x)
        y = with_vjp(of_x=3.0)(h, x)
        return y

    return block(x)


@wrong("bwd", "x", "y = power(x, 3)")
def with_a_number_that_has_no_derivative(x):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def power(x, n):
        return x**n

    def bwd(n, x, g):
        return (g * n * x**n,)

    power.defvjp(lambda x, n: (x**n, x), bwd)
    y = power(x, 3)
    return y


@wrong("bwd", "params['b']", "y = dense(params, x)", {"w": np.eye(4, dtype="f"), "b": X}, X)
def in_a_tree(params, x):
    @jax.custom_vjp
    def dense(params, x):
        return x @ params["w"] + params["b"]

    def bwd(kept, g):
        params, x = kept
        return {"w": jnp.outer(x, g), "b": g * 2.0}, params["w"] @ g

    dense.defvjp(lambda params, x: (dense(params, x), (params, x)), bwd)
    y = dense(params, x)
    return y


@wrong("bwd", "x", "y = norm(x)")
def a_nan_at_one_place(x):
    @jax.custom_vjp
    def norm(x):
        return jnp.sqrt(jnp.sum(x * x))

    def bwd(x, g):
        return (g * x / jnp.sqrt(jnp.sum(x * x)) + 0 / (x - x[1]),)

    norm.defvjp(lambda x: (norm(x), x), bwd)
    y = norm(x)
    return y


@wrong("fwd_rule", "x", "y = clipped(x)")
def one_element_alone(x):
    @jax.custom_jvp
    def clipped(x):
        return x * x

    @clipped.defjvp
    def fwd_rule(primals, tangents):
        (x,), (dot,) = primals, tangents
        return clipped(x), 2 * x * dot.at[2].multiply(1.1)

    y = clipped(x)
    return y


@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_rule_is_named(name):
    run, args, rule, operand, code = WRONG[name]
    found = taxpr.check_grad(run)(*args)
    [row] = found.rows
    assert (row.rule, row.operand, row.code) == (rule, operand, code)
    assert row.line.startswith("test_check_grad.py:")
    assert row.rule_line.startswith("test_check_grad.py:")
    assert found.agrees is False
    assert found.complete


@right
def rules_of_jax(x):
    h = jax.nn.relu(x) + jax.nn.gelu(x) + jax.nn.silu(x)
    return jax.nn.logsumexp(h) + jax.nn.log_softmax(h).sum() + jnp.linalg.norm(x)


@right
def rules_that_are_right(x):
    y = with_jvp(1.0)(x)
    return with_vjp()(y, x).sum()


@right
def at_a_kink(x):
    return jax.nn.relu(x - x) + jnp.abs(jax.nn.relu6(x * 0.0))


@right
def not_differentiated(x):
    return with_vjp(of_w=7.0)(x, jnp.ones(4, x.dtype)).sum()


@right
def in_loops(x):
    x = jax.lax.fori_loop(0, 3, lambda k, x: with_jvp(1.0)(x) * (k + 1), x)
    return jax.lax.map(jax.nn.softplus, x)


@right
def small_numbers(x):
    return jnp.log(x * x * 1e-9 + 1e-12).sum() + with_jvp(1.0)(x * 1e-7)


@right
def large_numbers(x):
    return with_jvp(1.0)(jnp.exp(20 * x) * 1e-9)


@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_are_none(name):
    found = taxpr.check_grad(RIGHT[name])(X)
    assert not found, found
    assert found.agrees is not False


def test_a_row_says_in_which_way():
    [row] = taxpr.check_grad(lambda x: with_jvp(2.0)(x))(X).rows
    assert row.hint == "is 2 times what it should be"
    assert row.found == pytest.approx(2 * row.expected, rel=1e-3)
    [row] = taxpr.check_grad(lambda x: with_vjp(of_x=0.0)(x, x))(X).rows
    assert (row.hint, row.found) == ("is zero", 0.0)
    [row] = taxpr.check_grad(a_nan_at_one_place)(X).rows
    assert row.hint == "is not finite"


def test_where_no_rule_is_wrong_the_equation_is_named():
    def f(x):
        top = jax.lax.stop_gradient(jnp.sin(x))
        return (x - top).sum()

    found = taxpr.check_grad(f)(X)
    [row] = found.rows
    assert (row.rule, row.code) == ("stop_gradient", "top = jax.lax.stop_gradient(jnp.sin(x))")
    assert "The derivative of the whole is wrong, and no rule of yours is." in found.notes


def test_a_function_of_one_precision_is_compared_in_it():
    def f(x):
        if x.dtype != jnp.float32:
            raise TypeError("float32 only")
        return with_jvp(2.0)(x).sum()

    found = taxpr.check_grad(f)(X)
    assert [row.rule for row in found.rows] == ["wave_jvp"]
    assert "with arguments of 64 bits it raises TypeError: float32 only" in found.notes[-1]
    assert not jax.config.jax_enable_x64

    def g(x):
        return f(x) if x.dtype != jnp.float32 else with_jvp(1.0)(x).sum()

    assert not taxpr.check_grad(g)(X)


def test_a_callback_of_one_precision_is_compared_in_it():
    """It fails when the function runs, and not when it is traced."""

    def f(x):
        shape = jax.ShapeDtypeStruct(x.shape, jnp.float32)
        y = jax.lax.stop_gradient(jax.pure_callback(np.sin, shape, x))
        return with_jvp(2.0)(x).sum() + y.sum().astype(x.dtype)

    found = taxpr.check_grad(f)(X)
    assert "wave_jvp" in [row.rule for row in found.rows]
    assert "Compared in the precision of its arguments" in found.notes[-1]
    assert "Expected: float32, Actual: float64" in found.notes[-1]


@pytest.mark.parametrize(
    ("fun", "reason"),
    [
        (lambda x: jnp.sqrt(x - 5), "The whole cannot be compared where it is"),
        (lambda x: x > 0, "No result is a float"),
        (lambda x: None, "No result is a float"),
        (lambda x: jax.pure_callback(np.sin, x, x), "The whole cannot be differentiated"),
    ],
    ids=["not finite", "no float", "nothing", "callback"],
)
def test_it_says_why_the_whole_was_not_compared(fun, reason):
    found = taxpr.check_grad(fun)(X)
    assert found.agrees is None
    assert any(reason in note for note in found.notes)


def test_an_infinite_derivative_of_one_operand_spoils_no_other():
    def f(x, w):
        y = with_vjp()(x, x)
        return y.sum() + jnp.sqrt(w).sum()  # whose derivative is infinite where w is 0

    found = taxpr.check_grad(f)(X, jnp.zeros(2, X.dtype))
    assert not found
    assert found.agrees


def test_it_compiles_a_function_once_for_all_operands():
    def f(*every):
        return sum(jnp.sin(x).sum() for x in every)

    def compiles(count):
        with taxpr.compiles(eager=True) as log:
            assert taxpr.check_grad(f)(*(X + k for k in range(count))).agrees
        made = [row.function for row in log.compiles.rows if "compile" in row.stages]
        return [made.count(name) for name in ("run", "forward")]

    assert compiles(8) == compiles(2) == [1, 1]


def test_a_program_has_its_precision():
    found = taxpr.check_grad(taxpr.trace(twice_as_large, names=True)(X))(X)
    assert [row.rule for row in found.rows] == ["wave_jvp"]


def test_only_what_ran_is_compared():
    found = taxpr.check_grad(in_a_branch)(-X - 1)
    assert not found
    assert any("was not compared: it did not run" in note for note in found.notes)


def test_later_iterations_are_compared_too():
    @jax.custom_jvp
    def late(x):
        return x * x

    late.defjvp(lambda p, t: (late(*p), jnp.where(p[0] > 9.0, 3.0, 2.0) * p[0] * t[0]))

    def f(x):
        def step(c, _):
            c = late(c)
            return c, None

        return jax.lax.scan(step, x, None, length=3)[0]

    [row] = taxpr.check_grad(f)(np.float32(2)).rows
    assert row.iteration == (2,)


def test_results_that_no_derivative_comes_back_to_are_left_out():
    @jax.custom_vjp
    def both(x):
        return x * 2.0, x * 3.0

    both.defvjp(lambda x: (both(x), None), lambda _, g: (2.0 * g[0] + 5.0 * g[1],))

    def one(x):
        y, z = both(x)
        return y + jax.lax.stop_gradient(z) * 0.0

    def two(x):
        y, z = both(x)
        return y + z

    assert not taxpr.check_grad(one)(X)
    [row] = taxpr.check_grad(two)(X).rows
    assert (row.variable, row.result) == ("z", 1)


def test_rules_of_libraries_that_change_nothing_are_a_note():
    source = inspect.getsource(with_jvp)
    found = []
    for file in ("model.py", str(Path(sysconfig.get_path("purelib")) / "library.py")):
        scope = {"jax": jax, "jnp": jnp}
        exec(compile(source, file, "exec"), scope)
        wave = scope["with_jvp"](2.0)
        found.append(taxpr.check_grad(lambda x, wave=wave: x + wave(x) * 0.0)(X))
    own, of_library = found
    assert [row.rule for row in own.rows] == ["wave_jvp"]
    assert own.agrees
    assert of_library.agrees
    assert not of_library
    assert "the whole agrees: 1 difference in rules of libraries." in of_library.notes[-1]


def test_what_it_refuses():
    def f(n):
        return n

    with pytest.raises(taxpr.TaxprError, match="no argument of f is an array of floats"):
        taxpr.check_grad(f)(1)
    with pytest.raises(taxpr.TaxprError, match="not a function"):
        taxpr.check_grad(3)


def test_it_can_be_stopped():
    def stops(done, total):
        raise KeyboardInterrupt

    def f(x):
        return with_jvp(2.0)(with_jvp(3.0)(x))

    found = taxpr.check_grad(f, progress=stops)(X)
    assert not found.complete
    assert found.agrees is None
    assert "Stopped: 1 of 2 steps are done." in found.notes
    assert len(found.rows) == 1


def test_a_number_of_python_is_an_argument():
    found = taxpr.check_grad(lambda w: jax.lax.stop_gradient(jnp.sin(w)) * w)(2.0)
    assert not found.agrees
    assert [row.rule for row in found.rows] == ["stop_gradient"]


def rounded(x, dtype=jnp.float32):
    return jnp.tanh(x).astype(dtype).astype(x.dtype) * 2


def test_a_cast_to_a_narrower_float_is_no_wrong_derivative():
    """Its results are rounded, by more than a small step changes them."""
    found = taxpr.check_grad(lambda x: rounded(x).sum())(X)
    assert not found
    assert found.agrees
    assert "casts to float32, and is compared in that precision" in found.notes[-1]

    kept = jnp.full(X.shape, 1e-3, jnp.float32)  # as the state of an optimizer is

    def step(x):
        gradient = jax.grad(lambda x: (jnp.sin(x) ** 2).sum())(x)
        new = 0.999 * kept + (1e-3 * gradient**2).astype(kept.dtype)
        return x - gradient / (jnp.sqrt(new) + 1e-3).astype(x.dtype), new

    found = taxpr.check_grad(step)(X)
    assert not found
    assert found.agrees


def test_a_wrong_rule_beside_casts_to_narrower_floats_is_named():
    for dtype in (jnp.float32, jnp.bfloat16):

        def f(x, dtype=dtype):
            return rounded(with_jvp(2.0)(x), dtype).sum()

        found = taxpr.check_grad(f)(X)
        assert [row.rule for row in found.rows] == ["wave_jvp"]
        assert found.agrees is (False if dtype == jnp.float32 else None)


@pytest.mark.parametrize("library", [False, True])
def test_a_whole_in_float32_does_not_clear_a_rule_that_is_slightly_wrong(library):
    folder = Path(sysconfig.get_path("purelib")) if library else Path()
    scope = {"jax": jax, "jnp": jnp}
    exec(compile(inspect.getsource(with_jvp), str(folder / "model.py"), "exec"), scope)
    wave = scope["with_jvp"](1.01)
    found = taxpr.check_grad(lambda x: wave(x).astype(jnp.float32).sum())(X.astype(np.float64))
    assert [row.rule for row in found.rows] == ["wave_jvp"]
    assert found.agrees is None
    assert found.headline.endswith("the whole is too coarse to tell")


def test_floats_of_16_bits_are_too_coarse():
    @jax.custom_jvp
    def short(x):
        return rounded(x, jnp.bfloat16)

    short.defjvps(lambda x_dot, out, x: 2 * (1 - jnp.tanh(x) ** 2) * x_dot)

    def f(x):
        out = short(x)
        return out.sum()

    found = taxpr.check_grad(f)(X)
    assert not found
    assert found.agrees is None
    assert found.notes[0].startswith("`out = short(x)` (test_check_grad.py:")
    assert "was not compared: it casts to floats of less than 32 bits" in found.notes[0]
    assert found.notes[1].startswith("The whole was not compared")


def test_a_mistake_in_the_comparison_is_not_said_to_be_the_programs(monkeypatch):
    def broken(*args):
        raise AttributeError("of the comparison")

    monkeypatch.setattr("taxpr._derivatives.finite_differences._numeric", broken)
    with pytest.raises(AttributeError, match="of the comparison"):
        taxpr.check_grad(lambda x: jnp.sin(x).sum())(X)
