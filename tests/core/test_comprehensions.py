"""The variables of a comprehension are none of the function around it, on one line or several."""

import ast
import inspect

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close

import taxpr
from taxpr import var

X = jnp.asarray([0.5, 1.0, 2.0])


def of_a_list(x):
    a = x * 2
    ys = [
        jnp.sin(a)
        for a in [x, x + 1, x + 2]
    ]  # fmt: skip
    a = a + ys[0]
    b = a * ys[1] + ys[2]
    return b


def on_one_line(x):
    a = x * 2
    ys = [jnp.sin(a) for a in [x, x + 1, x + 2]]
    a = a + ys[0]
    b = a * ys[1] + ys[2]
    return b


def of_its_own_value(x):
    a = x * 2
    a = [
        a * 3
        for a in [a, a + 1]
    ]  # fmt: skip
    b = a[0] + a[1]
    return b


def of_a_dict(x):
    a, b = x * 2, x * 3
    ys = {
        a: b * 2
        for a, b in {"u": x, "v": x + 1}.items()
    }  # fmt: skip
    a = a + b
    b = a * ys["u"] + ys["v"]
    return b


def of_a_set(x):
    a = x * 2
    keys = {
        a.shape
        for a in [x, x + 1]
    }  # fmt: skip
    a = a * len(keys)
    b = a + 1
    return b


def nested(x):
    a = x * 2
    b = a + 1
    ys = [
        [
            a * b
            for b in [
                a * 2 for a in [a, a + 2]
            ]
        ]
        for a in [x, x + 1]
    ]  # fmt: skip
    a = a + ys[0][0]
    b = a * b + ys[1][1]
    return b


def captured(x):
    a = x * 2
    ys = [
        (lambda: a * 2)()
        for a in [x, x + 1]
    ]  # fmt: skip
    b = (lambda: a + ys[0])()
    return b


def in_an_argument(x):
    a = x * 2
    b = sum(
        [
            a
            for a in [x, x + 1]
            if a is not x
        ]
    )  # fmt: skip
    a = a + b
    b = a * 2
    return b


def stopped_by_an_error(x):
    a = x * 2
    try:
        b = [
            a.no_attribute
            for a in [x + 1, x + 2]
        ]  # fmt: skip
    except AttributeError:
        b = a * 3
    a = b + 1
    return a


def stopped_by_an_error_in_a_nested_one(x):
    a, b = x * 2, x * 3
    try:
        ys = [
            [
                a.no_attribute * b
                for a in [b, x]
            ]
            for b in [x + 1, x + 2]
        ]  # fmt: skip
    except AttributeError:
        ys = [b]
    a = a + ys[0]
    return a


def in_a_loop(x):
    a = x
    for _ in range(2):
        ys = [
            a * 2
            for a in [a, x]
        ]  # fmt: skip
        a = a + ys[0]
    b = a
    return b


# The values of `a` and `b` that Python holds one after the other.
FUNCTIONS = {
    of_a_list: (lambda x: [2 * x, 2 * x + jnp.sin(x)], None),
    on_one_line: (lambda x: [2 * x, 2 * x + jnp.sin(x)], None),
    of_its_own_value: (lambda x: [2 * x, 6 * x, 6 * x + 3], None),
    of_a_dict: (lambda x: [2 * x, 5 * x], lambda x: [3 * x, 10 * x**2 + 2 * x + 2]),
    of_a_set: (lambda x: [2 * x, 2 * x], lambda x: [2 * x + 1]),
    nested: (lambda x: [2 * x, 2 * x + 2 * x**2], lambda x: [2 * x + 1, nested(x)]),
    captured: (lambda x: [2 * x], lambda x: [4 * x]),
    in_an_argument: (lambda x: [2 * x, 3 * x + 1], lambda x: [x + 1, 6 * x + 2]),
    stopped_by_an_error: (lambda x: [2 * x, 6 * x + 1], lambda x: [6 * x]),
    stopped_by_an_error_in_a_nested_one: (lambda x: [2 * x, 5 * x], lambda x: [3 * x]),
    in_a_loop: (lambda x: [x, 3 * x, 9 * x], None),
}


def held(fn, name):
    """The values of a variable, one after the other."""
    return [*taxpr.trace(fn, names=True)(X).collect(var(name))(X)[1].values()]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_what_the_function_held(fn):
    for name, values in zip("ab", FUNCTIONS[fn], strict=True):
        if values is not None:
            assert_close(held(fn, name), values(X))
    assert {one.function for one in taxpr.trace(fn, names=True)(X).variables()} == {fn.__name__}


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_lines_do_not_matter(fn, tmp_path):
    file = tmp_path / "on_one_line.py"
    file.write_text(ast.unparse(ast.parse(inspect.getsource(fn))))
    names = dict(globals())
    exec(compile(file.read_text(), str(file), "exec"), names)
    found, spread = (
        [(one.text, one.occurrence, one.address) for one in program.variables()]
        for one in (names[fn.__name__], fn)
        for program in [taxpr.trace(one, names=True)(X)]
    )
    assert found == spread


@pytest.mark.parametrize("fn", [of_a_list, on_one_line])
def test_what_is_changed(fn):
    program = taxpr.trace(fn, names=True)(X)
    for where in (var("a"), var("a", occurrence=1)):
        zeroed = program.inject({where: taxpr.zero()})
        assert_close(zeroed(zeroed.ctx, X)[0], jnp.sin(X + 2))


def test_names_that_only_a_comprehension_has():
    def f(x):
        ys = [
            row * k
            for k, row in enumerate([x, x + 1])
        ]  # fmt: skip
        return ys[0] + ys[1]

    names = {one.name for one in taxpr.trace(f, names=True)(X).variables()}
    assert names == {"x", "ys"}
    with pytest.raises(taxpr.SelectorError, match="no variable has that name"):
        taxpr.collect(f, var("row"))(X)


def on_lines_with_walrus(x):
    a = x * 2
    ys = [
        (last := a * 2) + (
            last := last + 1
        )
        for a in [x, x + 1]
    ]  # fmt: skip
    return a + last + ys[0]


def on_one_line_with_walrus(x):
    a = x * 2
    ys = [(last := a * 2) + (last := last + 1) for a in [x, x + 1]]
    return a + last + ys[0]


def walrus_in_the_condition(x):
    a, last = x * 2, x
    ys = {
        k: a + last
        for k, a in enumerate([x, x + 1])
        if [(last := a * 2), (last := last + 1)]
    }  # fmt: skip
    return a + last + ys[0]


@pytest.mark.parametrize(
    "fn", [on_lines_with_walrus, on_one_line_with_walrus, walrus_in_the_condition]
)
def test_an_assignment_expression_binds_the_functions_variable(fn):
    first = [X] if fn is walrus_in_the_condition else []
    assert_close(held(fn, "last"), [*first, 2 * X, 2 * X + 1, 2 * X + 2, 2 * X + 3])
    assert_close(held(fn, "a"), [2 * X])


def test_the_line_of_what_is_bound():
    begin = of_a_list.__code__.co_firstlineno
    found = taxpr.trace(of_a_list, names=True)(X).variables()
    lines = {one.name + one.path: one.line - begin for one in found if one.occurrence == 0}
    assert lines == {"x": 0, "a": 1, "ys[0]": 2, "ys[1]": 2, "ys[2]": 2, "b": 7}
    assert [one.line - begin for one in found if one.name == "a"] == [1, 6]
    begin = on_lines_with_walrus.__code__.co_firstlineno
    found = taxpr.trace(on_lines_with_walrus, names=True)(X).variables()
    assert [one.line - begin for one in found if one.name == "last"] == [3, 4, 3, 4]


def test_a_cotangent():
    def loss(x):
        return of_a_list(x).sum()

    found = taxpr.collect(jax.grad(loss), taxpr.cotangent(var("a", occurrence=0)))(X)[1]
    assert_close(*found.values(), jnp.sin(X + 1))
