"""Programs in which JAX traces or compiles a function again, each with the causes.

`new` makes a new function of the same code each time, so that no program finds what another one has
compiled.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import taxpr
from taxpr._compilations import log
from taxpr._compilations.history import CompileHistory

f32 = jnp.float32
ONE, THREE, FOUR = np.float32(1), np.ones(3, np.float32), np.ones(4, np.float32)
CASES = {}  # by name the program, and the causes with their arguments after the first call
SHARDED = {}  # those that need eight devices


def new(**options):
    def double(x, y=None, n=2):
        out = jax.tree.map(lambda one: one * 2 if isinstance(n, int) else n(one), x)
        return out if y is None else (out, y)

    return jax.jit(double, **options)


def again(*causes, table=CASES):
    def add(run):
        table[run.__name__] = run, list(causes)
        return run

    return add


def two_calls(why):
    """For what a row says of the source: pytest changes the code of its own files."""
    why(THREE)
    return why(THREE[:2])  # this one


class Model:
    """An object that is equal to itself alone."""

    def __init__(self, size):
        self.size = size

    def __call__(self, x):
        return x * f32(self.size)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["mode"])
class Batch:
    """A node with a static field."""

    def __init__(self, x, mode):
        self.x, self.mode = x, mode


def rows(run):
    """What is found of what a program compiles."""
    before = log._recorder._history  # of other programs, which compile functions of the same code
    log._recorder._history = CompileHistory()
    try:
        with taxpr.compiles() as asked:
            run()
    finally:
        log._recorder._history = before
    assert not [note for note in asked.compiles.notes if note.startswith("No cause was found")]
    return asked.compiles.rows


def causes(run):
    """The causes that are found of what a program compiles after the first call."""
    first, *others = rows(run)
    assert first.cause == "first call"
    return [(row.cause, row.argument) for row in others]


@again(("shape", "x"))
def another_length():
    f = new()
    f(THREE), f(FOUR), f(THREE), f(FOUR)


@again(("shape", "x['b'][1]"))
def another_length_deep_in_a_tree():
    f = new()
    f({"a": ONE, "b": [ONE, THREE]}), f({"a": ONE, "b": [ONE, FOUR]})


@again(("shape", "x"))
def another_rank():
    f = new()
    f(ONE), f(THREE)


@again(("dtype", "x"))
def another_dtype():
    f = new()
    f(THREE), f(THREE.astype(np.int32))


@again(("dtype", "x"))
def an_int_for_a_float():
    f = new()
    f(1.0), f(1)


@again(("weak type", "x"))
def a_number_of_python():
    f = new()
    f(ONE), f(1.0), f(f32(2)), f(2.0)


@again(("static value", "n"))
def a_static_number():
    f = new(static_argnames="n")
    f(ONE, n=2), f(ONE, n=3), f(ONE, n=2)


@again(("static value", "n"))
def a_static_function():
    f = new(static_argnums=2)
    f(ONE, None, jnp.sin), f(ONE, None, jnp.cos)


@again(("static object", "n"), ("static object", "n"))
def a_static_lambda():
    f = new(static_argnames="n")
    for _ in range(3):
        f(ONE, n=lambda x: x)


@again(("static object", "n"))
def a_static_partial():
    f = new(static_argnames="n")
    for _ in range(2):
        f(ONE, n=functools.partial(jnp.clip, max=f32(1)))


@again(("static object", "n"), ("static value", "n"))
def a_static_object():
    f = new(static_argnames="n")
    f(ONE, n=Model(1)), f(ONE, n=Model(1)), f(ONE, n=Model(2))


@again(("tree structure", "x"))
def a_key_more():
    f = new()
    f({"a": ONE}), f({"a": ONE, "b": ONE})


@again(("tree structure", "x['a']"))
def a_list_for_a_tuple():
    f = new()
    f({"a": (ONE, ONE)}), f({"a": [ONE, ONE]})


@again(("tree structure", "y"))
def none_for_an_array():
    f = new()
    f(ONE, None), f(ONE, ONE)


@again(("tree structure", "x"))
def a_static_field():
    f = new()
    f(Batch(ONE, "train")), f(Batch(ONE, "eval")), f(Batch(ONE, "train"))


@again(("number of arguments", "y"))
def a_default_that_is_given():
    f = new()
    f(ONE), f(ONE, None)


@again(("keyword", "y"))
def by_keyword():
    f = new()
    f(ONE, ONE), f(ONE, y=ONE)


@again(("flag", "jax_default_matmul_precision"))
def precision():
    f = new()
    f(ONE)
    with jax.default_matmul_precision("float32"):
        f(ONE)


@again(("flag", "jax_enable_x64"))
def sixty_four_bits():
    f = new()
    before = jax.config.jax_enable_x64
    f(ONE)
    try:
        jax.config.update("jax_enable_x64", not before)
        f(ONE)
    finally:
        jax.config.update("jax_enable_x64", before)


@again(("new object: lambda", ""), ("new object: lambda", ""))
def a_lambda_in_a_loop():
    for _ in range(3):
        jax.jit(lambda x: x * 2)(ONE)


@again(("new object: function", ""))
def a_function_in_a_loop():
    for _ in range(2):
        new()(ONE)


@again(("new object: partial", "y"))
def a_partial_in_a_loop():
    fun = new().__wrapped__
    for k in range(2):
        jax.jit(functools.partial(fun, y=k))(ONE)


@again(("new object: bound method", ""))
def a_bound_method_in_a_loop():
    model = Model(2)
    for _ in range(2):
        jax.jit(model.__call__)(ONE)


@again(("new object: function", "scale"))
def a_closure_in_a_loop():
    def made(scale):
        def times(x):
            return x * f32(scale)

        return jax.jit(times)

    made(2)(ONE), made(3)(ONE)


@again(("cleared caches", ""), ("cleared caches", ""))
def all_caches_cleared():
    f = new()
    f(ONE), f(THREE[:0])
    jax.clear_caches()
    f(THREE[:0]), f(ONE)


# That of the second length is no second first call.
CASES["all_caches_cleared"][1].insert(0, ("shape", "x"))


@again(("transformation", "x"), ("shape", "x"))
def mapped_outside_of_jit():
    f = new()
    f(ONE), jax.vmap(f)(THREE), jax.vmap(f)(FOUR), jax.vmap(f)(THREE)


@again(("options", "donate_argnums"))
def other_options():
    def own(x):
        return x * 2

    jax.jit(own)(ONE), jax.jit(own, donate_argnums=0)(jnp.asarray(ONE))


@again(("tree structure", "x"))
def nothing_else_new():
    f = new(static_argnames="n")
    f(THREE, n=2), f(jnp.ones(3), n=2), f(np.zeros(3, np.float32), n=2)
    f({"b": 1.0, "a": 2}, n=2)
    f({"a": 3, "b": 4.0}, n=2)


def on(k):
    return jax.device_put(THREE, jax.devices()[k])


def parted(spec, x=None, kind=AxisType.Auto):
    mesh = jax.make_mesh((4,), ("data",), (kind,), devices=jax.devices()[:4])
    return jax.device_put(FOUR if x is None else x, NamedSharding(mesh, PartitionSpec(*spec)))


@again(("device", "x"), table=SHARDED)
def another_device():
    f = new()
    f(on(1)), f(on(2)), f(on(1))


@again(("committed", "x"), table=SHARDED)
def committed():
    f = new()
    f(jnp.asarray(THREE)), f(on(0)), f(jnp.asarray(THREE))


@again(("sharding", "x"), table=SHARDED)
def another_sharding():
    f = new()
    f(parted(())), f(parted(("data",))), f(parted(()))


@again(("sharding", "x"), table=SHARDED)
def sharded_at_last():
    f = new()
    f(jnp.asarray(FOUR)), f(parted(("data",)))


@again(("explicit sharding", "x"), table=SHARDED)
def another_explicit_sharding():
    f = new()
    f(parted((), kind=AxisType.Explicit)), f(parted(("data",), kind=AxisType.Explicit))


@again(("mesh", ""), table=SHARDED)
def a_mesh_around():
    f = new()
    f(ONE)
    with jax.set_mesh(jax.make_mesh((8,), ("data",), (AxisType.Auto,))):
        f(ONE)


@again(("flag", "jax_default_device"), table=SHARDED)
def another_default_device():
    f = new()
    f(ONE)
    with jax.default_device(jax.devices()[3]):
        f(ONE)
