"""Lines of equations in functions that JAX traces once, and that several lines call.

JAX keeps the jaxpr of such a function for all that call it. Up to 0.9.0 its equations say that they
come from the line that called first.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from jax import lax

import taxpr
from taxpr import line, nested_jaxprs, numbered, source_of, sources_of, statements_of

HERE = Path(__file__).name
X = jnp.array([0.5, -1.0, 2.0, 0.25])
MASK = np.array([True, False, True, True])

exp = jax.jit(jnp.exp)
log = jax.jit(jnp.log)


@jax.jit
def jitted(x):
    y = jnp.sin(x) + 1.0
    return jnp.where(y > 0.5, y, 0.5)


@jax.jit
def outer(x):
    return jitted(x) * jitted(x + 1.0)


def plain(x):
    return jnp.var(x) + exp(x)


@jax.custom_jvp
def ruled(x):
    return jitted(x) * 2.0


@ruled.defjvp
def _(primals, tangents):
    return ruled(*primals), 2.0 * jnp.where(primals[0] > 0, tangents[0], 0.0)


@jax.custom_vjp
def backward(x):
    return exp(x)


backward.defvjp(lambda x: (exp(x), x), lambda x, g: (g * x,))


def down(x):
    return jnp.where(x > 0, x, 0.0)


def step(k, x):
    return exp(-x) + k


@jax.grad
def slope(x):
    return plain(ruled(backward(x))).sum()


@jax.jit
def jitted_log(x):
    return jnp.where(x > 9, 1.0, log(x))


# Of a line that calls one of these, the result is what that line made.
AT_THE_CALL = {
    "where": functools.partial(jnp.where, MASK, 1.0),
    "var": jnp.var,
    "softmax": jax.nn.softmax,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "norm": jnp.linalg.norm,
    "jit of exp": exp,
    "jit": jitted,
    "jit of jit": outer,
    "checkpoint": jax.checkpoint(down),
    "checkpoint of jit": jax.checkpoint(exp),
    "cond": functools.partial(lax.cond, jnp.bool_(True), down, jitted),
    "map": functools.partial(lax.map, jitted),
    "fori_loop": functools.partial(lax.fori_loop, 0, 2, step),
    "custom_jvp": ruled,
    "custom_vjp": backward,
}
# In the line that calls one of these, other functions of this file run.
HELPERS = {**AT_THE_CALL, "function": plain, "vmap": jax.vmap(jitted), "grad": slope}


def first(helper, x):
    a = helper(x)
    return a * 3.0


def second(helper, x):
    b = helper(x)
    return b - 1.0


def in_turn(functions, helper, *xs):
    return tuple(fn(helper, x) for fn, x in zip(functions, xs, strict=True))


def in_scan(helper, x):
    return lax.scan(lambda c, _: (c + helper(x), None), x, None, length=2)[0]


def in_while(helper, x):
    return lax.while_loop(lambda c: helper(c).sum() < 0, lambda c: c + helper(c), x)


def in_checkpoint(helper, x):
    return jax.checkpoint(lambda x: helper(x) + 1.0)(x)


def in_cond(helper, x):
    return lax.cond(x[0] > 0, lambda x: x + helper(x), lambda x: x - helper(x), x)


def in_jit(helper, x):
    return jax.jit(lambda x: helper(x) + 1.0)(x)


def in_python_loop(helper, x):
    for _ in range(3):
        x = x + helper(x)
    return x


def in_vmap(helper, x):
    return jax.vmap(lambda _: helper(x))(jnp.arange(2.0))[0]


WAYS = [in_scan, in_while, in_checkpoint, in_cond, in_jit, in_python_loop, in_vmap]

every_helper = pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
at_the_call = pytest.mark.parametrize("helper", AT_THE_CALL.values(), ids=AT_THE_CALL)


def line_of_call(fn):
    """Where `first` or `second` calls the helper."""
    return f"{HERE}:{fn.__code__.co_firstlineno + 1}"


def inside(eqn):
    """An equation, and all that are in it."""
    yield eqn
    for one in nested_jaxprs(eqn):
        for _, within in numbered(one.jaxpr):
            yield from inside(within)


def functions_named(eqn):
    """The functions of this file that are said to have made an equation."""
    found = [one.function for one in (*statements_of(eqn), *sources_of(eqn))]
    found += [source_of(eqn).function] if source_of(eqn) else []
    return {function.partition(".")[0] for function in found}


def traced(functions, helper, **options):
    """The program that calls them in turn, and the equations of each, without nested ones."""
    call = functools.partial(in_turn, functions, helper)
    program = taxpr.trace(call, **options)(*(X for _ in functions))
    eqns, own = [eqn for _, eqn in numbered(program)], {}
    for fn in functions:
        count = len(taxpr.trace(functools.partial(fn, helper))(X).eqns)
        own[fn], eqns = eqns[:count], eqns[count:]
    assert not eqns
    return program, own


def check_functions(own):
    """No equation is said to be of a function that has not made the equation around it."""
    for fn, eqns in own.items():
        others = {other.__name__ for other in own if other is not fn}
        for outermost in eqns:
            assert fn.__name__ in functions_named(outermost)
            for eqn in inside(outermost):
                assert not functions_named(eqn) & others, eqn


@every_helper
def test_statements_and_sources(helper):
    check_functions(traced([first, second], helper)[1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["jit", "jit of exp", "relu", "where"])
def test_a_call_in_something(name, way):
    check_functions(traced([first, way, second], HELPERS[name])[1])


@every_helper
def test_a_program_that_was_traced_before(helper):
    traced([first], helper)
    program, own = traced([second], helper)
    for eqn in (one for outermost in own[second] for one in inside(outermost)):
        assert "first" not in functions_named(eqn)
    text = program.source()
    assert "def second" in text
    assert "def first" not in text


@at_the_call
def test_what_a_line_selects_and_changes(helper):
    program, own = traced([first, second], helper)
    begin, found = len(own[first]), {}
    for fn in (first, second):
        values = taxpr.find_values(program, line(line_of_call(fn)))
        found[fn] = {value.address for value in values}
        assert all(value.source.function == fn.__name__ for value in values)
    assert found[first]
    # Both call the same, one after the other.
    apart = [address.partition(":") for address in found[first]]
    assert found[second] == {f"{int(n) + begin}:{rest}" for n, _, rest in apart}
    tagged = program.tag_at(line(line_of_call(second)), name="b")
    zeroed = tagged.inject({"b": taxpr.zero()})
    out, other = zeroed(zeroed.ctx, X, X)[0]
    assert_close((out, other), (first(helper, X), jnp.zeros_like(other) - 1.0))


def in_bwd(helper, x):
    @jax.custom_vjp
    def double(x):
        return x * 2.0

    def bwd(x, g):
        rule = helper(x)
        return (g * rule,)

    double.defvjp(lambda x: (x * 2.0, x), bwd)
    return jax.grad(lambda x: double(x).sum())(x)


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("name", ["jit", "jit of exp", "jit of jit", "relu", "where"])
def test_a_helper_that_is_traced_first_in_a_bwd_rule(name, names):
    jax.clear_caches()
    program, own = traced([in_bwd, second], HELPERS[name], names=names)
    check_functions({second: own[second], in_bwd: own[in_bwd]})
    found = taxpr.find_values(program, line(line_of_call(second)))
    assert [value.address for value in found if "/" in value.address] == []
    assert len(found) == 1
    of_rule = f"{HERE}:{in_bwd.__code__.co_firstlineno + 6}"
    assert taxpr.find_values(program, line(of_rule))


LOGS = [log, jitted_log, jax.checkpoint(log), functools.partial(lax.map, log)]


@pytest.mark.parametrize("helper", [*LOGS, jnp.var, jax.nn.softmax])
def test_the_line_of_a_nan(helper):
    bad = jnp.array([-1.0, jnp.inf, 1.0, 2.0])
    rows = taxpr.find_nan(functools.partial(in_turn, [first, second], helper))(abs(X), bad).rows
    expected = line_of_call(second)
    if helper is jitted_log:
        expected = f"{HERE}:{jitted_log.__wrapped__.__code__.co_firstlineno + 2}"
    assert {row.line for row in rows} == {expected}


@every_helper
def test_what_is_watched(helper):
    program, own = traced([first, second], helper, names=True)
    record = taxpr.watch(program, "*")(X, X)
    begin = len(own[first])
    for part in record.parts:
        is_first = int(part.address.partition(":")[0]) < begin
        assert part.function != ("second" if is_first else "first"), part.name
        assert not part.file or Path(part.file).name == HERE
    assert {"a", "b"} <= set(record.keys())
    assert record["a"].line == line_of_call(first)
    assert record["b"].line == line_of_call(second)
