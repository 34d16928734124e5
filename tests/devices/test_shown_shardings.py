"""Pictures, texts and the source say how values are divided, as the arrays themselves have it."""

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import introspect
from taxpr_jupyter import Session, draw


def put(x, *spec, kind=AxisType.Auto):
    return jax.device_put(x, NamedSharding(mesh("4x2", kind), P(*spec)))


def dense(w1, w2, x):
    h = x @ w1
    act = jnp.tanh(h)
    both = lax.with_sharding_constraint(act, NamedSharding(mesh("4x2"), P(None, ("j", "i"))))
    y = both @ w2
    return h, act, both, y


def arguments():
    return (
        put(jnp.ones((64, 32)), None, "j"),
        put(jnp.ones((32, 16))),
        put(jnp.ones((128, 64)), "i"),
    )


NAMES = "h", "act", "both", "y"


def type_of(x):
    """The type of an array, by its sharding."""
    entries = [*x.sharding.spec, *[None] * x.ndim][: x.ndim]
    each = [(one,) if isinstance(one, str) else one or () for one in entries]
    ends = ["" if not e else f"@{e[0]}" if len(e) == 1 else f"@({','.join(e)})" for e in each]
    return f"f32[{','.join(f'{n}{end}' for n, end in zip(x.shape, ends, strict=True))}]"


def part_of(x):
    """What a device has of an array: its type and size."""
    part = x.addressable_shards[0].data
    return f"f32[{','.join(map(str, part.shape))}]", part.nbytes


def words_of(x):
    """What each device has of an array, in words."""
    (part, size), whole = part_of(x), f"f32[{','.join(map(str, x.shape))}]"
    where = "on each of 8 devices (i 4, j 2)"
    return (
        f"whole {where}" if part == whole else f"{where}: {part}, {introspect.quantity(size, 'B')}"
    )


def labels(picture):
    return {node.address: node.lines[-1].rpartition(": ")[2] for node in picture.nodes}


def test_arguments_and_constraints_show_their_shardings_before_xla_has_compiled():
    args = arguments()
    drawing = draw(dense, *args)
    found = labels(drawing.picture)
    for k, x in enumerate(args):
        assert found[f"in{k}"] == type_of(x)
    constraint = next(one for one in found if "sharding_constraint" in one)
    assert found[constraint] == "f32[128,32@(j,i)]"
    assert found["out0"] == "f32[128,32]"  # XLA chooses it
    for text in (drawing.text(), Session(dense, args).text(), Session(dense, args).outline()):
        assert "f32[64,32@j]" in text
        assert "f32[128@i,64]" in text
    assert "x: f32[128@i,64]" in taxpr.trace(dense, names=True)(*args).source()


def test_all_values_show_theirs_once_compiled():
    args = arguments()
    outs = dict(zip(NAMES, jax.jit(dense)(*args), strict=True))
    drawing = draw(dense, *args, heat="compiled")
    tips = {node.address: node.tooltip for node in drawing.picture.nodes}
    found = labels(drawing.picture)
    for k, (name, x) in enumerate(outs.items()):
        assert found[f"out{k}"] == type_of(x), name
        assert type_of(x) in tips[f"out{k}"]
        assert tips[f"out{k}"].endswith(words_of(x))
    assert "whole on each of 8 devices (i 4, j 2)" in tips["in1"]
    assert f"d:{type_of(outs['h'])} = dot_general c a" in drawing.text()


def test_a_session_shows_them_after_the_question():
    args = arguments()
    session = Session(dense, args, names=True)
    outs = dict(zip(NAMES, jax.jit(dense)(*args), strict=True))

    def shown():
        [part] = session.source().state()["parts"]
        return {one["name"]: one for line in part["lines"] for one in line["variables"]}

    before = shown()
    assert before["x"]["type"] == "f32[128@i,64]"
    assert before["h"]["type"] == "f32[128,32]"
    assert session.inspect("0:dot_general").params[0][0] != "devices"
    session.ask("compiled")
    after = shown()
    for name, x in outs.items():
        assert after[name]["type"] == type_of(x)
        assert after[name]["devices"] == words_of(x)
        assert f"{name}: {type_of(x)}" in session.source().text()
        assert type_of(x) in session.text()
    about = session.inspect("0:dot_general")
    assert ("devices", after["h"]["devices"]) in about.params
    assert about.outputs[0].endswith(type_of(outs["h"]))
    session.tag("0:dot_general", name="t")  # the addresses are the same
    assert labels(session.picture())["0:dot_general"] == type_of(outs["h"])


def test_a_traced_program_is_compiled_for_the_mesh_of_its_arguments():
    args = arguments()
    program = taxpr.trace(dense)(*args)
    alone, given = taxpr.compiled(program)(), taxpr.compiled(program)(*args)
    assert alone.shardings.values == given.shardings.values != {}
    assert len(alone.collectives.rows) == len(given.collectives.rows)
    assert taxpr.memory(program)().devices == 8
    injected = program.tag_at("0:dot_general", name="t").inject(lambda ctx, x, _: (x, ctx), 0.0)
    first, *others = injected.shardings
    assert first is None
    assert tuple(others) == program.shardings


def test_bytes_of_replicated_and_divided_values_sum_to_what_xla_says():
    args = arguments()
    made = taxpr.compiled(jax.jit(dense))(*args)
    values = made.shardings.values
    plan = made.executable.memory_analysis()
    assert sum(values[f"in{k}"].bytes for k in range(3)) == plan.argument_size_in_bytes
    for k, x in enumerate(args):
        assert values[f"in{k}"].bytes == part_of(x)[1]
    rows = {row.variable: row for row in made.shardings.rows}
    outs = dict(zip(NAMES, jax.jit(dense)(*args), strict=True))
    for name, x in outs.items():
        assert rows[name].bytes == part_of(x)[1]


def test_a_jaxpr_called_in_two_places_tells_no_type_of_the_other_place():
    inner = jax.jit(lambda x: jnp.sin(x) * 2)

    def twice(x, y):
        return inner(x), inner(y)

    args = put(jnp.ones((8, 8)), "i"), put(jnp.ones((8, 8)), None, "j")
    program = taxpr.trace(twice)(*args)
    made = taxpr.compiled(program)()
    found = introspect.divisions(program, made.shardings.values)
    assert found.at("0:jit/call/0:sin.0").type == "f32[8@i,8]"
    assert found.at("1:jit/call/0:sin.0").type == "f32[8,8@j]"
    text = draw(twice, *args, heat="compiled").text()
    inside = [line for line in text.splitlines() if "0:sin" in line]
    assert inside
    assert not any("@" in line for line in inside)
    assert "f32[8@i,8]" in text
    assert "f32[8,8@j]" in text


def test_an_explicit_mesh_is_told_once():
    explicit = mesh("4x2", AxisType.Explicit)
    with jax.set_mesh(explicit):
        x = put(jnp.ones((32, 64)), ("i", "j"), kind=AxisType.Explicit)
        picture = draw(lambda x: jnp.sin(x) * 2, x).picture
        assert {node.lines[-1] for node in picture.nodes} == {"f32[32@(i,j),64]"}
        [tip] = [node.tooltip for node in picture.nodes if node.address == "in0"]
    assert "f32[32@(i,j),64], 8.19 kB; on each of 8 devices (i 4, j 2): f32[4,64], 1.02 kB" in tip


def test_a_shard_map_has_the_types_of_its_parts():
    def by_hand(x):
        body = lambda x: jnp.sin(x) * 2
        return jax.shard_map(body, mesh=mesh("4x2"), in_specs=P("i"), out_specs=P("i"))(x)

    x = put(jnp.ones((32, 64)), "i")
    program = taxpr.trace(by_hand)(x)
    found = introspect.divisions(program, taxpr.compiled(program)().shardings.values)
    inside = [one for one in map(str, introspect.iter_eqns(program)) if "body" in one]
    assert inside
    assert found.at("0:shard_map/body/in0") is None
    assert found.at("0:shard_map/body/0:sin.0") is None
    assert found.at("in0").type == found.at("0:shard_map.0").type == "f32[32@i,64]"


def test_out_shardings_of_a_jit_are_those_of_its_results():
    to = NamedSharding(mesh("4x2"), P("i", "j"))
    fun = jax.jit(lambda x: jnp.sin(x), in_shardings=to, out_shardings=to)
    found = introspect.divisions(taxpr.trace(fun)(jnp.ones((8, 8))))
    [result] = jax.tree.leaves(fun(jnp.ones((8, 8))))
    assert found.at("0:jit.0").type == type_of(result) == "f32[8@i,8@j]"
    assert found.at("0:jit/call/in0").type == "f32[8@i,8@j]"
    assert found.at("in0") is None


def test_an_axis_that_is_left_to_xla_is_not_told_as_whole():
    def constrained(x):
        to = NamedSharding(mesh("4x2"), P(P.UNCONSTRAINED, "j"))
        return lax.with_sharding_constraint(x, to)

    node = next(
        node
        for node in draw(constrained, put(jnp.ones((8, 8)), "i")).picture.nodes
        if "constraint" in node.address
    )
    assert "f32[8,8]" in node.lines
    assert "UNCONSTRAINED" in node.lines[-1]


@pytest.mark.parametrize("heat", [None, "compiled"])
def test_one_device_shows_nothing_new(heat):
    x = jnp.ones((8, 8))
    picture = draw(lambda x: jnp.sin(x) * 2, x, heat=heat).picture
    every = [*picture.nodes, *picture.edges]
    assert [one.tooltip for one in every if "each" in one.tooltip or "f32[8@" in one.tooltip] == []
    assert not any("@" in line for node in picture.nodes for line in node.lines)


def test_the_source_in_a_saved_page_has_them_too():
    args = arguments()
    page = draw(dense, *args, heat="compiled").html().replace(" ", "")
    _, act, _, _ = jax.jit(dense)(*args)
    parts = words_of(act).replace(" ", "")
    assert f'"name":"act","type":"{type_of(act)}","devices":"{parts}"' in page
