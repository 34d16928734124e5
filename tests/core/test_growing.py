"""Containers that a Python loop fills: what they hold has names, and looking costs no more later.

Names are those that are found where all variables are compared as a whole before each line.
"""

import sys

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr._watching import contents, held, watch
from taxpr._watching.changes import LineEffects

X = jnp.asarray([0.3, -0.8, 1.1])
MANY = 70  # more than are looked at before each line


def filled(x, n=MANY):
    return [x[k % 3] + k for k in range(n)]


class Tape:
    def __init__(self, rows):
        self.rows = rows
        self.kind = object()


@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def appended(x):
    rows = []
    for k in range(MANY + 10):
        y = x * k
        rows.append(y)
    return y + rows[3]


def keyed(x):
    rows = {}
    for k in range(MANY + 10):
        x = x * 2
        rows[k] = x
    rows[3] = x + 1
    rows["new" if len(rows) == 3 else 4] = x - 1
    key = 90
    (rows if key else {})[key] = x * 3
    rows[key] = rows[3]; rows[91] = x + 3; key = 0  # fmt: skip  # noqa: E702
    del rows[0]
    return x


def named(x):
    rows = {f"r{k}": row for k, row in enumerate(filled(x))}
    rows["a first one"] = x
    name = "r7"
    rows[name] = x + 1
    rows[name] = rows["r8"]
    rows.update(r9=x * 2, r3=x * 3)
    return rows.pop("r5")


def places(x):
    rows = filled(x)
    rows[3] = x
    rows[-1] = x + 1
    rows.insert(0, x + 2)
    rows[2:4] = [x * 2, x * 3, x * 4]
    rows.pop()
    del rows[5]
    rows.append(rows.pop(0))
    rows.append(x * 5), rows.append(x * 6)
    rows.reverse()
    rows[0], rows[1] = rows[1], rows[0]
    rows += [x * 7]
    rows[2] *= 2
    return x


def a_stack(x):
    rows = filled(x)
    for k in range(3):
        for _ in range(5):
            rows.append(rows[-1] * 2)
        for _ in range(6 + k):
            rows.pop()
        del rows[-1:]
    return x


def parts(x):
    rows = {"a": filled(x), "b": []}
    other = rows["b"]
    for k in range(3):
        x = x * 2
        rows["a"].append(x)
        other.append((k, x))
        other[k] = (k, x, {"more": x + 1})
    other[0][2]["more"] = x * 3
    rows["a"] = other
    rows["c"] = rows["a"]
    other.append(x)
    return x


def computed_keys(x):
    rows, named, pairs = filled(x), {}, {}
    for k in range(MANY):
        named[f"row {k}"] = x * k
        named[f"row {k // 2}"] = x + k
        pairs[k, -k] = x - k
        pairs[k // 3, "b"[:0] or 0] = x * 2
        rows[k - 3] = x * 3
        named[str(k)] = x * 4
    for k in range(3): named[f"new {k}"] = x * 5  # fmt: skip  # noqa: E701
    for k in range(3): named[f"row {k}" if k else "newest"] = x * 6  # fmt: skip  # noqa: E701
    while len(named) < 300: named[f"more {len(named)}"] = x * 7  # fmt: skip  # noqa: E701
    named[f"row {k}"], named[f"last {k}"] = x, x + 1
    named[f"row {k}"] = named[f"a last {k}"] = x * 8
    del named["row 1"]
    named[f"row {k}" + "!"] = y = x * 9
    return y


def tuples(x):
    rows = [(k, row) for k, row in enumerate(filled(x))]
    for k in range(3):
        rows.append((k, x * k))
    rows[1] = (*rows[1], x)
    rows[2] = list(rows[2])
    rows[2][1] = x + 4
    return x


def attributes(x):
    tape = Tape(filled(x))
    for k in range(3):
        tape.rows.append(x * k)
        tape.rows[k] = x + k
    tape.last = x
    tape.rows = [x, *tape.rows]
    vars(tape)["more"] = x * 2
    tape.kind = (x,)
    return x


def others(x):
    rows = filled(x)
    rows.append(x)
    rows.append(Pair(x + 1, x))
    rows[-1].a = x * 2
    rows.append(x * 3)
    rows.append(iter([x]))
    rows.append(x * 4)
    return x


def without_an_order(x):
    rows = dict(enumerate(filled(x)))
    rows[70] = x
    rows["name"] = x * 2
    del rows["name"]
    rows[71] = x * 3
    return x


def filled_around_it(x):
    rows, table = filled(x), {}

    def add(value):
        rows.append(value)
        table[len(rows)] = value
        return value

    for k in range(3):
        y = add(x * k)
        z = jax.jit(lambda value: value * 2)(y)
    list(map(add, [x, z]))
    return z


def bound_by_another(x):
    y = x
    rows = filled(x)

    def set_them():
        nonlocal y, rows
        y = y * 2
        rows = filled(y)

    set_them()
    y = y + 1
    set_them()
    return y


def errors(x):
    rows = filled(x)
    try:
        rows.append(x)
        y = x * 2
        raise ValueError
    except ValueError as error:
        rows[1] = x + len(error.args)
    finally:
        rows[2] = x * 3
        y = x * 4
    with jax.named_scope("here") as scope:
        rows[3], z = y, scope
    while (w := y + 1) is z:
        pass
    match {"x": w, "y": [y, x]}:
        case {"x": u, "y": [v, *rest]}:
            rows.append(u)
    del y
    return v, rest


PROGRAMS = [
    *(appended, keyed, named, places, computed_keys, a_stack, parts, tuples, attributes, others),
    *(without_an_order, filled_around_it, bound_by_another, errors),
]


def names(fn):
    jax.clear_caches()
    variables = taxpr.trace(fn, names=True)(X).variables()
    return [(str(one), one.line, one.address) for one in variables]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_names_are_those_of_comparing_everything_before_each_line(fn, monkeypatch):
    found = names(fn)

    def all_may_be_bound(code):
        return lambda line: LineEffects(binds=frozenset(code.co_varnames))

    monkeypatch.setattr(watch, "lines_of", all_may_be_bound)
    monkeypatch.setattr(held, "_MANY", 10_000)
    assert found == names(fn)
    assert len(found) > MANY


def loop_with_a_list(n):
    def f(x):
        rows = []
        for _ in range(n):
            x = x * 2
            rows.append(x)
        return x

    return f


def loop_with_a_dict(n):
    def f(x):
        rows = {}
        for k in range(n):
            x = x * 2
            rows[k] = x
        return x

    return f


def loop_with_computed_keys(n):
    def f(x):
        rows = {}
        for k in range(n):
            x = x * 2
            rows[f"row {k}"] = x
        return x

    return f


def loop_with_a_tape(n):
    def f(x):
        tape = Tape([])
        for _ in range(n):
            x = x * 2
            tape.rows.append(x)
        return x

    return f


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python tells of no calls")
@pytest.mark.parametrize(
    "loop", [loop_with_a_list, loop_with_a_dict, loop_with_computed_keys, loop_with_a_tape]
)
def test_a_list_is_not_read_as_a_whole_for_each_element(loop, monkeypatch):
    read = 0

    def counted(function, size):
        def of(*args, **options):
            nonlocal read
            result = function(*args, **options)
            read += size(args, result)
            return result

        return of

    flatten = counted(held._contents, lambda args, result: len(result[1]))
    monkeypatch.setattr(held, "_contents", flatten)
    changed = counted(contents._Node.changed, lambda args, result: len(args[0].container))
    monkeypatch.setattr(contents._Node, "changed", changed)

    def elements(n):
        nonlocal read
        read = 0
        assert len(taxpr.trace(loop(n), names=True)(1.0).variables()) == 2 * n + 1
        return read

    few, many = elements(100), elements(400)
    assert many - few < 10 * 300  # of lists that are 250 long, at 300 lines
