"""Names of the arrays that a function closes over, also in objects."""

import dataclasses
import functools
import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import taxpr

TABLE = jnp.arange(3.0)
NUMPY = np.arange(3, dtype=np.float32)
X = jnp.ones(3)


@dataclasses.dataclass
class Link:
    mass: jax.Array
    arms: list


class Pair(NamedTuple):
    left: object
    right: object


def names_of(fun, *args):
    program = taxpr.trace(fun)(*args)
    return [program.const_name(one) for one in program.consts]


def test_a_part_of_an_object_has_its_path():
    system = types.SimpleNamespace(
        link=Link(jnp.ones(3) * 2, [jnp.ones(3) * 3, {"len": jnp.ones(3) * 4}]),
        pair=Pair(jnp.ones(3) * 5, None),
    )

    def step(x):
        x = x + system.link.mass
        x = x * system.link.arms[0] + system.link.arms[1]["len"]
        return x - system.pair.left

    found = names_of(step, X)
    assert sorted(found) == [
        "system.link.arms[0]",
        "system.link.arms[1]['len']",
        "system.link.mass",
        "system.pair.left",
    ]
    # Each is the array of its name.
    program = taxpr.trace(step)(X)
    for one, name in zip(program.consts, found, strict=True):
        assert one is eval(name, {"system": system})


def test_a_method_reads_its_object():
    class Model:
        def __init__(self):
            self.w = jnp.ones(3) * 7

        def __call__(self, x):
            return x * self.w

        def apply(self, x):
            return x - self.w

    model = Model()
    assert names_of(model.apply, X) == ["self.w"]
    assert names_of(lambda x: model(x), X) == ["model.w"]
    # The constant is that of the inner jaxpr on some versions.
    jitted = taxpr.trace(jax.jit(model.apply))(X)
    assert jitted.const_name(model.w) == "self.w"


def test_a_variable_comes_before_a_part_and_two_variables_are_none():
    kept = types.SimpleNamespace(bias=jnp.ones(3) * 9)
    bias = kept.bias
    assert names_of(lambda x: x + kept.bias + bias * 1, X) == ["bias"]
    one = two = jnp.ones(3) * 11
    assert names_of(lambda x: x + one + two, X) == [""]


def test_an_object_that_is_held_twice_has_the_shortest_path():
    inner = types.SimpleNamespace(sys=types.SimpleNamespace(w=jnp.ones(3) * 13))
    outer = types.SimpleNamespace(env=inner)
    assert names_of(lambda x: x + outer.env.sys.w + 0 * inner.sys.w, X) == ["inner.sys.w"]


def test_arrays_of_numpy_and_what_refers_to_itself():
    loop = types.SimpleNamespace(table=NUMPY)
    loop.itself = loop
    assert names_of(lambda x: x + loop.table, X) == ["loop.table"]
    assert names_of(lambda x: x + loop.table[:] + loop.table[::-1], X)[1] == ""
    ring = [TABLE]
    ring.append(ring)
    assert names_of(lambda x: x + ring[0], X) == ["ring[0]"]


class Unbound:
    """As a proxy of a request that there is not."""

    @property
    def __class__(self):
        raise RuntimeError("working outside of a request")


class Loading(dict):
    """As a dict of arrays that are on disk."""

    def items(self):
        raise OSError("all is loaded")


def test_an_object_that_cannot_be_looked_at_is_left_alone():
    around = types.SimpleNamespace(request=Unbound(), files=Loading(), w=jnp.ones(3) * 17)
    around.files["a"] = jnp.ones(3) * 19

    def step(x):
        return x * around.w + around.files["a"]

    assert names_of(step, X) == ["around.w", "around.files['a']"]


def test_an_array_that_a_method_reads_by_two_paths_has_the_shorter_one():
    class Model:
        def __init__(self):
            self.w = jnp.ones(3) * 21
            self.kept = {"w": self.w}

        def apply(self, x):
            return x * self.kept["w"]

    assert names_of(Model().apply, X) == ["self.w"]


def test_a_large_object_does_not_hold_tracing_up():
    many = {k: types.SimpleNamespace(at=[k]) for k in range(200_000)}
    near = types.SimpleNamespace(w=jnp.ones(3) * 15)

    def step(x):
        return x + near.w * len(many)

    closed = taxpr.trace(step)(X).closed
    assert [name for name, _ in closed.values()] == ["near.w"]


class Slotted:
    __slots__ = ("empty", "table")

    def __init__(self):
        self.table = jnp.ones(3) * 23


class WithTable:
    TABLE = jnp.ones(3) * 25
    __slots__ = ()


def test_attributes_in_slots_and_of_classes():
    slotted, held = Slotted(), WithTable()
    assert names_of(lambda x: x + slotted.table, X) == ["slotted.table"]
    assert names_of(lambda x: x + held.TABLE, X) == ["held.TABLE"]
    assert names_of(lambda x: x + WithTable.TABLE, X) == ["WithTable.TABLE"]


def test_arguments_that_are_given_before_the_call():
    def scaled(w, x, *, by):
        return x * w * by["b"]

    partial = functools.partial(scaled, jnp.ones(3) * 27, by={"b": jnp.ones(3) * 29})
    assert names_of(partial, X) == ["w", "by['b']"]
    assert names_of(lambda x: partial(x), X) == ["w", "by['b']"]

    def shifted(x, first=jnp.ones(3) * 31, *, then=jnp.ones(3) * 33):  # noqa: B008
        return x + first - then

    assert names_of(lambda x: shifted(x), X) == ["first", "then"]
    # An argument that is given instead is no constant of that name.
    assert names_of(lambda x: shifted(x, TABLE), X) == ["TABLE", "then"]
