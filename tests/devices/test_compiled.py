"""Each collective of a badly sharded program is told at its line; a well sharded one has none."""

import pathlib
import re

import jax
import jax.numpy as jnp
import pytest
from devices.by_hand import mesh
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr_jupyter import Session, draw

HERE = pathlib.Path(__file__)
# The axes of the mesh, which has four and two devices.
ROWS, COLUMNS = "i", "j"


def put(x, *spec, axis_type=AxisType.Auto):
    return jax.device_put(x, NamedSharding(mesh("4x2", axis_type), P(*spec)))


# Behind each line that moves values stands which collective that is, the variable that it moves,
# along which axes, and how many bytes a device has after it.


def dense(w1, w2, x):
    h = x @ w1  # all-gather: w1 i 4096
    act = jnp.tanh(h)
    y = act @ w2  # all-reduce: y j 1024
    return y * 2.0


def attend(q, k, v):
    scores = q @ k.T  # all-gather: k i 4096
    shares = jax.nn.softmax(scores)
    out = shares @ v  # all-gather: v i 4096
    return out


def normalised(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)  # all-reduce: mean j 32
    centred = x - mean
    return centred


def layers(ws, x):
    def layer(x, w):
        pre = x @ w
        return jnp.tanh(pre), None

    out, _ = lax.scan(layer, x, ws)  # all-gather: ws i 65536
    return out


def replicated(x):
    y = jnp.sin(x)
    z = lax.with_sharding_constraint(y, NamedSharding(mesh("4x2"), P()))  # all-gather: x i 8192
    return z * 2.0


def regrouped(x):
    y = x.reshape(-1, 2, 16)
    turned = jnp.swapaxes(y, 0, 2)
    z = lax.with_sharding_constraint(  # all-to-all: turned i 2048
        turned, NamedSharding(mesh("4x2"), P(ROWS))
    )
    return z * 2.0


def in_loop(w, x):
    def step(x, _):
        y = x @ w  # all-reduce: y j 6144
        return jnp.tanh(y), None

    x, _ = lax.scan(step, x, length=3)
    return x


def by_hand(x):
    def body(x):
        every = lax.all_gather(x, ROWS, tiled=True)  # all-gather: x i 8192
        top = jnp.max(every)
        return x / top

    return jax.shard_map(body, mesh=mesh("4x2"), in_specs=P(ROWS), out_specs=P(ROWS))(x)


BAD = {
    dense: lambda: (
        put(jnp.ones((64, 32)), ROWS, COLUMNS),
        put(jnp.ones((32, 32)), COLUMNS),
        put(jnp.ones((32, 64)), ROWS),
    ),
    attend: lambda: [put(jnp.ones((64, 16)), ROWS) for _ in range(3)],
    normalised: lambda: [put(jnp.ones((32, 64)), ROWS, COLUMNS)],
    layers: lambda: (put(jnp.ones((4, 64, 64)), ROWS), put(jnp.ones((32, 64)), ROWS)),
    replicated: lambda: [put(jnp.ones((32, 64)), ROWS)],
    regrouped: lambda: [put(jnp.ones((32, 64)), ROWS)],
    in_loop: lambda: (put(jnp.ones((64, 64)), COLUMNS), put(jnp.ones((32, 64)), ROWS, COLUMNS)),
    by_hand: lambda: [put(jnp.ones((32, 64)), ROWS)],
}


def wanted(fun):
    """What the comments in the source of a function say."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    begin = fun.__code__.co_firstlineno
    found = []
    for number, line in enumerate(lines[begin:], begin + 1):
        if line and not line.startswith(" "):
            return sorted(found)
        if match := re.search(r"# (all-[a-z-]+): (\w+) (\w+) (\d+)$", line):
            kind, moves, axis, size = match.groups()
            found.append((kind, f"{HERE.name}:{number}", moves, (axis,), int(size)))
    return sorted(found)


@pytest.mark.parametrize("fun", BAD, ids=lambda fun: fun.__name__)
def test_each_collective_is_told_at_its_line(fun):
    args = BAD[fun]()
    found = taxpr.compiled(fun)(*args).collectives
    rows = [(row.kind, row.line, row.moves, row.axes, row.bytes) for row in found.rows]
    assert sorted(rows) == wanted(fun)
    plain = jax.jit(fun).lower(*args).compile().as_text()
    names = r" (?:all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
    assert len(re.findall(names, plain)) == len(found.rows)
    assert all(row.code.startswith(row.variable) for row in found.rows)
    sizes = {ROWS: 4, COLUMNS: 2}
    assert all(row.devices == sizes[row.axes[0]] for row in found.rows)
    assert found.notes == ()  # which would tell the rows again


@pytest.mark.parametrize("fun", [dense, layers], ids=lambda fun: fun.__name__)
def test_a_session_asks_for_the_devices_of_its_arguments(fun):
    args = tuple(BAD[fun]())
    session = Session(fun, args, names=True)
    moved = session.ask("compiled").collectives
    rows = [(row.kind, row.line, row.moves, row.axes, row.bytes) for row in moved.rows]
    assert sorted(rows) == wanted(fun)
    assert session.ask("memory").total == taxpr.memory(fun)(*args).total


def test_a_picture_says_what_moves_at_the_node_that_needs_it():
    drawing = draw(dense, *BAD[dense](), heat="compiled")
    moved = {node.lines[-1]: node for node in drawing.picture.nodes if "moved" in node.marks}
    assert sorted(moved) == ["⇄ all-gather 4.1 kB over i", "⇄ all-reduce 1.02 kB over j"]
    for kind, place, *_ in wanted(dense):
        [node] = [node for line, node in moved.items() if kind in line]
        assert f"{place} in dense" in node.tooltip
    assert "all-gather of w1 over i: 4.1 kB" in moved["⇄ all-gather 4.1 kB over i"].tooltip
    assert drawing.picture.heat.notes[-1] == "⇄ between devices: 2 collectives 5.12 kB"
    folded = draw(in_loop, *BAD[in_loop](), heat="compiled", fold="0:scan").picture
    [loop] = [node for node in folded.nodes if node.address == "0:scan"]
    assert loop.lines[-1] == "⇄ all-reduce 6.14 kB over j"
    assert "6.14 kB, 3 times" in loop.tooltip


def independent(w, x):
    h = jnp.tanh(x @ w)
    return h * jnp.max(h, axis=-1, keepdims=True)


def columns(w1, x):
    return jnp.sin(x @ w1)


def good_layers(ws, x):
    out, _ = lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, ws)
    return out


def examples_alone(w, x):
    return jax.vmap(jax.grad(lambda x: jnp.sum(jnp.tanh(x @ w))))(x)


GOOD = {
    independent: lambda: (put(jnp.ones((64, 32))), put(jnp.ones((32, 64)), ROWS)),
    columns: lambda: (put(jnp.ones((64, 32)), None, COLUMNS), put(jnp.ones((32, 64)), ROWS)),
    good_layers: lambda: (put(jnp.ones((4, 64, 64))), put(jnp.ones((32, 64)), ROWS)),
    examples_alone: lambda: (put(jnp.ones((64, 32))), put(jnp.ones((32, 64)), (ROWS, COLUMNS))),
}


@pytest.mark.parametrize("fun", GOOD, ids=lambda fun: fun.__name__)
def test_what_is_sharded_well_has_none(fun):
    found = taxpr.compiled(fun)(*GOOD[fun]())
    assert found.collectives.rows == []
    assert found.rows


def test_a_gradient_is_told_by_the_statement_it_is_of():
    def loss(w, x):
        h = x @ w
        return jnp.sum(jnp.tanh(h))

    args = put(jnp.ones((64, 32))), put(jnp.ones((32, 64)), ROWS)
    rows = taxpr.compiled(jax.grad(loss))(*args).collectives.rows
    assert [(row.kind, row.code, row.axes, row.bytes) for row in rows] == [
        ("all-reduce", "∂ h = x @ w", (ROWS,), 8192)
    ]


def test_types_with_shardings_are_arguments_enough():
    args = BAD[dense]()
    types = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in args]
    assert taxpr.compiled(dense)(*types).collectives.rows == (
        taxpr.compiled(dense)(*args).collectives.rows
    )


def test_an_explicit_mesh_has_axes_too():
    def summed(x):
        total = jnp.sum(x, axis=1)
        return total * 2.0

    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        x = put(jnp.ones((32, 64)), ROWS, COLUMNS, axis_type=AxisType.Explicit)
        [row] = taxpr.compiled(summed)(x).collectives.rows
    assert (row.kind, row.variable, row.axes) == ("all-reduce", "total", (COLUMNS,))


def test_a_change_of_shardings_is_told():
    args = BAD[dense]()
    better = put(jnp.ones((64, 32)), None, COLUMNS), *args[1:]
    compare = taxpr.compiled(dense)(*args).compare(taxpr.compiled(dense)(*better))
    row = compare.rows[0]
    assert (row.kind, row.variable, row.before, row.after) == ("all-gather", "h", 4096, 0)
    assert "collectives move" in compare.headline


@pytest.mark.parametrize("fun", [dense, attend], ids=lambda fun: fun.__name__)
def test_a_profile_tells_collectives_by_what_they_are_for(fun):
    args = BAD[fun]()
    rows = taxpr.profile(fun, runs=2)(*args).rows
    told = {(row.line, row.code.split(" ")[0]) for row in rows if not row.shared}
    assert {(line, kind) for kind, line, *_ in wanted(fun)} <= told
