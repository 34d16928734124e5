"""What values are called where they are used far from where they are made."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._analysis.def_use import DefUse
from taxpr_jupyter._drawing.value_words import ValueWords
from taxpr_jupyter._text.variables_at import HeldVariables

V = jnp.asarray([0.3, -0.8, 1.1])


def words_of(fun, *args):
    """What each value of a program is called, by its address without names of primitives."""
    program = taxpr.trace(fun, names=True)(*args)
    words = ValueWords(DefUse(program), taxpr.Address(), {}, HeldVariables(program))
    return [[words.of(var) for var in eqn.outvars] for eqn in program.eqns]


def named(fun, *args, **options):
    return {edge.name for edge in draw(fun, *args, **options).picture.edges if edge.name}


def test_a_value_is_called_by_its_variable_or_its_expression():
    def fun(x):
        y = jnp.sin(x)
        return jnp.exp(y) @ (y * 2).T

    assert words_of(fun, V) == [["y"], ["jnp.exp(y)"], ["y * 2"], ["jnp.exp(y) @ (y * 2)"]]


def power(x):
    return jnp.sum(x**4)


def sine(x):
    return jnp.sum(jnp.sin(x))


def product(x):
    return jnp.sum(jnp.exp(x) * x)


def difference(x):
    return jnp.sum((x - 1.0) ** 3)


def root(x):
    return jnp.sum(jnp.sqrt(x))


def logarithm(x):
    return jnp.sum(jnp.log(x - V[0]))


@pytest.mark.parametrize(
    ("fun", "kept"),
    [
        (power, "4 * x ** 3"),
        (sine, "cos(x)"),
        (product, "jnp.exp(x)"),
        (difference, "3 * (x - 1.0) ** 2"),
        (root, "0.5 / jnp.sqrt(x)"),
        (logarithm, "x - V[0]"),
    ],
)
def test_what_a_derivative_keeps_is_called_by_what_it_is(fun, kept):
    assert kept in {name for names in words_of(jax.grad(fun), V) for name in names}


def test_a_kept_value_is_not_called_by_the_expression_of_another():
    names = words_of(jax.grad(power), V)
    assert [name for [name] in names[:3]] == ["x**4", "x ** 3", "4 * x ** 3"]


def test_a_tangent_is_not_called_by_the_expression():
    def fun(x):
        return jnp.sin(x) * 3.0

    names = words_of(lambda x: jax.jvp(fun, (x,), (x,)), V)
    assert "jnp.sin(x)" not in [name for [name] in names[1:]]


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
def test_a_cotangent_out_of_a_call_is_not_called_by_the_expression(wrap):
    fun = wrap(lambda x: jnp.sin(x * 2.0) * x)
    names = words_of(jax.grad(lambda x: jnp.sum(fun(x))), V)
    assert "x * 2.0" not in names[-1]


def test_cotangents_in_a_call_are_not_called_by_expressions():
    def fun(x):
        y = x
        for _ in range(9):
            y = jnp.sin(y * 2.0)
        return y * x

    edges = draw(jax.grad(lambda x: jnp.sum(jax.jit(fun)(x))), V).picture.edges
    assert {edge.source[0] for edge in edges if edge.name.startswith("y * 2.0")} == {"0"}


def scaled(v):
    return v * jnp.float32(0.5) + 1.0


@pytest.mark.parametrize(
    ("fun", "name"),
    [
        (lambda z: z * jnp.float32(0.5) + 1.0, "z * 0.5"),
        (lambda z: scaled(z), "v * 0.5"),
        (lambda z: jnp.sum(z, axis=abs(0)) + 1.0, "sum(z)"),
        (lambda z: z ** abs(2) + 1.0, "z ** 2"),
        (lambda z: z.astype("float16".lower()) + 1.0, "convert_element_type(z)"),
    ],
)
def test_only_operands_stand_in_the_blanks_of_an_expression(fun, name):
    assert words_of(fun, V)[0] == [name]


def test_numbers_and_divisions_of_integers_are_written_as_python_reads_them():
    def fun(z):
        return jnp.real(jnp.sum(z * jnp.complex64(1 + 2j)))

    names = words_of(jax.grad(fun), V.astype(jnp.complex64))
    assert names[-1] == ["complex(1, 0) * (1+2j)"]
    without_source = eval("lambda a, b: [lax.div(a, b) * b, lax.rem(a, b) * b]")
    program = taxpr.trace(without_source)(jnp.arange(3), jnp.arange(1, 4))
    known = dict(zip(program.invars, "ab", strict=True))
    words = ValueWords(DefUse(program), taxpr.Address(), known, HeldVariables(program))
    assert [words.of(var) for var in program.outvars] == ["div(a, b) * b", "rem(a, b) * b"]


def test_signs_bind_as_in_python():
    def fun(a, b, c):
        return [a - (b - c), a - b - c, (a + b) * c, (-a) ** 2, a / (b * c), -(a + b)]

    texts = [names[0] for names in words_of(fun, V, V, V)]
    a, b, c = 7.0, 3.0, 2.0
    values = [eval(text, {"a": a, "b": b, "c": c}) for text in texts if text]
    expected = [b - c, a - (b - c), a - b, a - b - c, a + b, (a + b) * c, -a, (-a) ** 2]
    assert values == [*expected, b * c, a / (b * c), a + b, -(a + b)]


def test_an_argument_of_a_call_needs_no_parentheses():
    def fun(x, y):
        return jnp.exp(x + y) * jnp.square((x - y) * y) + (x + y)[jnp.argmin(x)]

    texts = {text for [text] in words_of(fun, V, V)}
    assert "jnp.exp(x + y)" in texts
    assert "jnp.square((x - y) * y)" in texts


def test_what_is_long_has_no_words():
    long = lambda x: jnp.sum(jnp.sin(jnp.cos(jnp.tan(jnp.sinh(jnp.cosh(jnp.tanh(x)))))))
    assert words_of(long, V)[-1] == [""]


def test_a_scan_gives_what_its_body_makes():
    def fun(x, w):
        def step(c, row):
            c = jnp.tanh(row @ w + c)
            return c, jnp.exp(c)

        return lax.scan(step, x, jnp.ones((5, 3)))[1] * 2

    assert words_of(fun, V, jnp.eye(3))[-2][1] == "jnp.exp(c)"


def tied(p, ids):
    x = p["emb"][ids]
    for _ in range(3):
        x = jnp.tanh(x @ p["w"])
    return jnp.mean((x @ p["emb"].T) ** 2)


def test_values_of_one_name_are_numbered_in_a_picture():
    p = {"emb": jnp.ones((7, 4)), "w": jnp.eye(4)}
    names = named(jax.grad(tied), p, jnp.arange(5))
    assert {"x", "x #2", "x #3"} <= names
    assert ['p["emb"].T'] in words_of(jax.grad(tied), p, jnp.arange(5))


def test_operands_of_a_branch_that_closes_over_them_have_names_not_numbers():
    def step(p, m, v, ok):
        g = jax.tree.map(lambda a: jnp.sin(a) * 2.0, p)
        for _ in range(9):
            p = jax.tree.map(jnp.cos, p)

        def update(p, m, v):
            return jax.tree.map(lambda p, m, v, g: p - m / v * g, p, m, v, g)

        return lax.cond(ok, update, lambda p, m, v: p, p, m, v)

    tree = dict.fromkeys("abcdefghi", V)
    picture = draw(step, tree, tree, tree, True).fold("100:cond").picture
    heads = {edge.head for edge in picture.edges if edge.target == "100:cond"}
    assert not [head for head in heads if any(map(str.isdigit, head))]
    assert {"g", "p"} <= heads
