"""How each variable is divided among eight devices, as JAX says it of the arrays themselves."""

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr._kernels.shardings import _UNKNOWN, _divided

X = jnp.ones(3)


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh("4x2"), P(*spec)))


def dense(w1, w2, x):
    h = x @ w1
    act = jnp.tanh(h)
    y = act @ w2
    turned = y.T
    whole = lax.with_sharding_constraint(act, NamedSharding(mesh("4x2"), P()))
    both = lax.with_sharding_constraint(act * 2, NamedSharding(mesh("4x2"), P(None, ("j", "i"))))
    total = jnp.sum(h, axis=1)
    return h, act, y, turned, whole, both, total


ARGUMENTS = {
    "split": lambda: (
        put(jnp.ones((64, 32)), "i", "j"),
        put(jnp.ones((32, 16)), "j"),
        put(jnp.ones((128, 64)), "i"),
    ),
    "by columns": lambda: (
        put(jnp.ones((64, 32)), None, "j"),
        put(jnp.ones((32, 16))),
        put(jnp.ones((128, 64))),
    ),
    "whole": lambda: tuple(put(jnp.ones(shape)) for shape in ((64, 32), (32, 16), (128, 64))),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_variable_is_divided_as_the_array_that_comes_out(name):
    args = ARGUMENTS[name]()
    rows = {row.variable: row for row in taxpr.compiled(dense)(*args).shardings.rows}
    names = "h", "act", "y", "turned", "whole", "both", "total"
    outs = zip(names, jax.jit(dense)(*args), strict=True)
    for variable, x in (*outs, *zip(("w1", "w2", "x"), args, strict=True)):
        row = rows[variable]
        local = ",".join(map(str, x.sharding.shard_shape(x.shape)))
        assert (row.type, row.local) == (f"f32[{','.join(map(str, x.shape))}]", f"f32[{local}]")
        assert NamedSharding(mesh("4x2"), eval(row.spec)).is_equivalent_to(x.sharding, x.ndim)
    assert rows["h"].code == "h = x @ w1"
    assert rows["h"].line.startswith("test_variable_shardings.py:")


def test_a_variable_of_a_loop_is_divided_too():
    def layers(ws, x):
        def layer(c, w):
            act = jnp.tanh(c @ w)
            return act, None

        out, _ = lax.scan(layer, x, ws)
        return out

    args = put(jnp.ones((3, 32, 32))), put(jnp.ones((64, 32)), "i")
    rows = {row.variable: row for row in taxpr.compiled(layers)(*args).shardings.rows}
    assert (rows["act"].local, rows["act"].spec) == ("f32[16,32]", "P('i')")
    jitted = taxpr.compiled(jax.jit(jax.grad(lambda ws, x: layers(ws, x).sum())))(*args)
    assert {row.spec for row in jitted.shardings.rows if row.variable == "act"} >= {"P('i')"}


def test_results_of_loops_and_branches_are_divided_as_the_arrays_that_come_out():
    def layers(ws, x, y):
        out, every = lax.scan(lambda c, w: (jnp.tanh(c @ w), c * 2), x, ws)
        count, last = lax.while_loop(
            lambda state: state[0] < 3, lambda state: (state[0] + 1, jnp.sin(state[1])), (0, out)
        )
        chosen = lax.cond(count > 2, jnp.sin, jnp.cos, last)
        high, place = lax.top_k(chosen, 2)
        a, b = lax.fori_loop(0, 3, lambda _, both: (both[0] * 2, jnp.sin(both[1])), (x, y))
        return out, every, last, chosen, high, place, a, b

    args = put(jnp.ones((3, 32, 32))), put(jnp.ones((64, 32)), "i"), put(jnp.ones((64, 32)), "j")
    shardings = taxpr.compiled(layers)(*args).shardings
    names = "out", "every", "last", "chosen", "high", "place", "a", "b"
    for variable, x in zip(names, jax.jit(layers)(*args), strict=True):
        shape = ",".join(map(str, x.shape))
        rows = [row for row in shardings.rows if row.variable == variable]
        [row] = [row for row in rows if row.type.endswith(f"[{shape}]")]
        local = ",".join(map(str, x.sharding.shard_shape(x.shape)))
        assert row.local.endswith(f"[{local}]")
        assert NamedSharding(mesh("4x2"), eval(row.spec)).is_equivalent_to(x.sharding, x.ndim)
    assert shardings.notes == ()


def test_a_result_of_a_loop_is_not_guessed_where_the_loop_holds_more_arrays_of_its_shape():
    def multiplied(w, x):
        last = lax.fori_loop(0, 3, lambda _, x: jnp.sin(x @ w), x)
        return last

    args = put(jnp.ones((32, 32)), None, "j"), put(jnp.ones((32, 32)), "i")
    shardings = taxpr.compiled(multiplied)(*args).shardings
    told = {row.variable for row in shardings.rows if row.type == "f32[32,32]"}
    assert told == {"w", "x"}
    assert shardings.notes == (f"{_UNKNOWN}: last.",)


def test_the_program_is_the_same_and_the_table_shows_itself():
    args = ARGUMENTS["split"]()
    made = taxpr.compiled(dense)(*args)
    plain = jax.jit(dense).lower(*args).compile().as_text()
    assert made.text.count(" fusion(") == plain.count(" fusion(")
    assert "f32[32,32]" in str(made.shardings) or "P('i', 'j')" in str(made.shardings)
    assert taxpr.compiled(dense)(*(jnp.ones(x.shape) for x in args[:2]), jnp.ones((128, 64)))


def test_what_another_question_left_in_the_cache_on_disk_hides_no_shardings(cache_on_disk):
    args = ARGUMENTS["split"]()
    for ask in (taxpr.memory, taxpr.compiled):  # from the same line, which is in the key
        made = ask(dense)(*args)
    assert len([*cache_on_disk.glob("jit_dense*-cache")]) == 1
    assert {"h", "act", "y"} <= {row.variable for row in made.shardings.rows}
    taxpr.compiled(jnp.sin)(X)
    assert not [*cache_on_disk.glob("jit_sin*-cache")]


def test_a_shard_map_has_the_types_of_its_parts_and_an_explicit_mesh_is_told():
    def by_hand(x):
        def body(x):
            inside = jnp.sin(x)
            return inside

        return jax.shard_map(body, mesh=mesh("4x2"), in_specs=P("i"), out_specs=P("i"))(x)

    shardings = taxpr.compiled(by_hand)(put(jnp.ones((32, 64)), "i")).shardings
    assert "inside" not in {row.variable for row in shardings.rows}
    assert shardings.notes == ("Not told, as in a jax.shard_map types describe the parts: inside.",)

    def doubled(x):
        y = jnp.sin(x) * 2.0
        return y

    explicit = mesh("4x2", AxisType.Explicit)
    with jax.set_mesh(explicit):
        x = jax.device_put(jnp.ones((32, 64)), NamedSharding(explicit, P("i", "j")))
        rows = {row.variable: row for row in taxpr.compiled(doubled)(x).shardings.rows}
    assert (rows["y"].type, rows["y"].local, rows["y"].spec) == (
        "f32[32,64]",
        "f32[8,32]",
        "P('i', 'j')",
    )


MESH = {"i": 4, "j": 2}


@pytest.mark.parametrize(
    ("text", "parts", "axes"),
    [
        ("{replicated}", (1, 1), ((), ())),
        ("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", (4, 1), (("i",), ())),
        ("{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}", (2, 1), (("j",), ())),
        ("{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}", (2, 1), (("j",), ())),
        ("{devices=[8,1]<=[8]}", (8, 1), (("i", "j"), ())),
        ("{mesh['i'=4,'j'=2], [{'i'}, {}]}", (4, 1), (("i",), ())),
        ("{mesh['i'=4,'j'=2], [{}, {'j', 'i'}]}", (1, 8), ((), ("j", "i"))),
        ("{mesh['i'=4,'j'=2], [{'i':(1)2}, {}], replicated={'j'}}", (2, 1), None),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", (2, 1), None),
        ("{devices=[1,8]<=[4,2]T(1,0)}", (1, 8), ((), ("j", "i"))),
        ("{mesh['i'=4,'j'=2], replicated}", (1, 1), ((), ())),
    ],
)
def test_shardings_are_read_in_all_forms(text, parts, axes):
    found = _divided(f"sharding={text}, metadata={{}}", 2, MESH)
    assert tuple(found.parts) == parts
    assert (found.axes and tuple(found.axes)) == axes


@pytest.mark.parametrize("text", ["{manual}", "{maximal device=0}", "{devices=[2,4]<=[8]}"])
def test_what_is_not_known_is_not_told(text):
    assert _divided(f"sharding={text}", 3, MESH) is None
