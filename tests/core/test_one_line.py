"""Statements that share a line have the variables that they have in lines of their own."""

# ruff: noqa: E701, E702
# fmt: off

import ast
import contextlib
import inspect

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from jax import lax
from python_locals import compare

import taxpr

X = jnp.asarray([0.3, -0.8, 1.1])


def loop(x):
    ws = [x + 1, x + 2, x + 3]
    for w in ws: x = x * w
    return x


def loop_that_binds_its_own_variable_again(x):
    for w in (x + 1, x + 2): w = w * 2; x = w + x; x = jnp.sin(x)
    return x


def counting(x):
    k = 0
    while k < 3: x = x * 2; k = k + 1; y = x + k; x = y
    return x


def while_that_tests_a_variable(x):
    n = 0
    while (y := x * n) is not None and n < 2: n += 1; x += y
    return x


def one_after_the_other(x):
    y = x + 1; y = y * 2; y = y - x; z = y; y = z * 2
    return y


def unpacked(x):
    a, b = x + 1, x + 2; a, b = b, a; (c, *d), e = (a, b, x), [a * 2]; c = c + d[0] + e[0]
    first = second = c * 2; second = first + second
    return second


def into_containers(x):
    cache = {"h": x + 1}; cache["h"] = cache["h"] * 2; cache["h"] = cache["h"] + 1
    rows = [x, x]; rows[0] = rows[1] + 1; rows[:] = [rows[0] * 2, x * 3]
    rows[0] += 1; rows[0] *= 2
    return cache["h"] + rows[0]


class Cell:
    def __init__(self, h): self.h = h; self.h = self.h * 2

    def __call__(self, x): self.h = self.h + x; self.h = jnp.tanh(self.h); return self.h


def of_objects(x):
    cell = Cell(x); y = cell(x); cell.h = y * 2; cell.h = cell.h + 1
    return cell.h


def of_closures(x):
    def grow(v): nonlocal x; x = x + v; x = x * 2; return x

    y = grow(x); y = grow(y)
    return x + y


def branches(x, deep=True):
    if deep: x = x + 1; x = x * 2
    else: x = x - 1; x = x * 3
    with contextlib.nullcontext(x * 2) as y: y = y + 1; x = y * x
    match (x, y):
        case (a, b): a = a + b; x = a * 2
    try: x = x * 2; x = x + 1
    finally: x = x - 1; x = x * 2
    return x


def traced_loop(x):
    def step(c, x): c = c * x; c = c + 1; y = c * 2; return c, y

    last, rows = lax.scan(step, jnp.float32(1), x); last = last + rows.sum()
    return last


def gradient(x):
    def loss(x): y = x * 2; y = jnp.sin(y); return y.sum()

    value, slope = jax.value_and_grad(loss)(x); slope = slope * value
    return slope


def generated(x):
    def rows(x):
        for k in range(2): row = x * k; yield row; row = row + 1; yield row

    for one in rows(x): x = x + one; one = one * 2
    return x


def over_several_lines(x):
    for w in (x + 1,
              x + 2): x = (x
                           * w); x = x + 1
    return x


def leaving_loops(x):
    for w in (x + 1, x + 2, x + 3):
        if w is x: continue
        x = x * w; x = x + 1
        if x is w: break
    else: x = x * 2; x = x + 1
    return x


def nested_loops(x):
    for w in (x + 1, x + 2):
        for v in (w * 2, w * 3): x = x * v; x = x + w
    return x


PROGRAMS = [
    *(loop, loop_that_binds_its_own_variable_again, counting, while_that_tests_a_variable),
    *(one_after_the_other, unpacked, into_containers, of_objects, of_closures, branches),
    *(traced_loop, gradient, generated, over_several_lines, leaving_loops, nested_loops),
]


def listed(x):
    ws = [x + 1, x + 2]; ys = [w * x for w in ws]; ys = [w + 1 for w in ys if w is not x]
    return sum([w for w in ys if w is not x])


def with_names_of_others(x):
    w = x + 1; ys = {"a": [[w * v for v in (w, x)] for w in (x, x + 2)]}; w = w * 2; u = w + 1
    for v in (u, w): ys = [v * x for v in ys["a"][0]] + [v]; ys = {"a": [ys]}
    return ys["a"][0][0] + w


def bound_in_a_list(x):
    ys = [(last := w * 2) for w in (x, x + 1)]; last = last + ys[0]
    return last


LISTS = [listed, with_names_of_others, bound_in_a_list]


def in_lines(fn, folder):
    """The same function, beside the class of this file, with a line for each statement."""
    source = "".join(map(inspect.getsource, (Cell, fn)))
    file, names = folder / "in_lines.py", dict(globals())
    file.write_text(ast.unparse(ast.parse(source)))
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names[fn.__name__]


def rows(fn):
    variables = taxpr.trace(fn, names=True)(X).variables()
    return [(one.function, one.text, one.occurrence, one.address) for one in variables]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_they_are_what_python_saw_of_each_statement(fn, monkeypatch, tmp_path):
    spread = in_lines(fn, tmp_path)
    assert sorted(rows(fn)) == sorted(rows(spread))
    compare(spread, [X], monkeypatch)


@pytest.mark.parametrize("fn", LISTS)
def test_the_variable_of_a_list_comprehension_is_none_of_the_function_around(fn, tmp_path):
    of_function, expected = (
        sorted(row for row in rows(one) if row[0] == fn.__name__)
        for one in (fn, in_lines(fn, tmp_path))
    )
    assert of_function == expected
    found = [occurrence for _, name, occurrence, _ in of_function if name == "w"]
    assert found == ([0, 1] if fn is with_names_of_others else [])


def test_one_that_is_assigned_in_an_expression_is_known_there():
    def f(x):
        y = (h := x + 1) * (h := h * 2) + (h := jnp.sin(h))
        if (peak := y.max()) is not None: peak = peak * 2; y = y + peak
        return (h := h + y) * (h := h * 2)

    values = taxpr.collect(f, [taxpr.var("h"), taxpr.var("y"), taxpr.var("peak")])(X)[1]
    h = X + 1
    y = h * (h * 2) + jnp.sin(h * 2)
    last = jnp.sin(h * 2) + y + y.max() * 2
    expected = {"h": [h, h * 2, jnp.sin(h * 2), last, last * 2], "y": [y, y + y.max() * 2]}
    expected["peak"] = [y.max(), y.max() * 2]
    for name, rows in expected.items():
        assert_close([values[f"{name}#{k}"] for k in range(len(rows))], rows)
    assert len(values) == 9


def test_their_line_is_the_one_in_which_they_are():
    found = [one for one in taxpr.trace(loop, names=True)(X).variables() if one.name == "w"]
    assert {one.line for one in found} == {loop.__code__.co_firstlineno + 2}
