"""What holds the memory of calls of models of libraries, by the variables of their layers."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import taxpr

WIDTH, BATCH = 64, 256


class Block(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        pre = self.up(x)
        act = jax.nn.gelu(pre)
        out = x + self.down(act)
        return out


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = Block(rngs)
        self.second = Block(rngs)

    def __call__(self, x):
        hidden = self.first(x)
        last = self.second(hidden)
        return last


@nnx.jit
def of_nnx(model, x):
    return nnx.grad(lambda model: jnp.mean(model(x) ** 2))(model)


class Cell(eqx.Module):
    mix: jax.Array
    name: str = eqx.field(static=True)

    def __call__(self, x, w):
        pre = x @ w
        act = jnp.tanh(pre @ self.mix)
        return act, None


def of_equinox(model, ws, x):
    def loss(model):
        out, _ = jax.lax.scan(lambda x, w: model(x, w), x, ws)
        return jnp.mean(out**2)

    return eqx.filter_grad(loss)(model)


def of_diffrax(ws, x):
    def field(t, y, args):
        pre = y @ args
        slope = jnp.tanh(pre)
        return slope

    def loss(w):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Euler(),
            0.0,
            1.0,
            0.1,
            x,
            args=w,
            adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=4),
            max_steps=16,
        )
        final = solution.ys
        return jnp.sum(final**2)

    return jax.grad(loss)(ws)


def programs():
    x = jnp.ones((BATCH, WIDTH))
    ws = jnp.ones((4, WIDTH, WIDTH)) / WIDTH
    cell = Cell(jnp.eye(WIDTH), "cell")
    return {
        "flax nnx": (of_nnx, (Net(nnx.Rngs(0)), x)),
        "equinox": (of_equinox, (cell, ws, x)),
        "diffrax": (of_diffrax, (ws[0], x)),
    }


# By reading: what a layer takes and computes. A solver has no names of the user's for the states of
# its steps, which the statement tells that calls it.
RIGHT = {
    "flax nnx": {"x", "pre", "act", "out", "hidden", "last"},
    "equinox": {"x", "w", "pre", "act", "ws"},
    "diffrax": {"y", "pre", "slope", "solution", "final"},
}


@pytest.mark.parametrize("name", RIGHT)
def test_temporaries_are_told_by_the_right_variable_or_statement(name):
    fun, args = programs()[name]
    use = taxpr.memory(fun)(*args)
    assert sum(row.bytes for row in use.rows) == use.total
    rows = [row for row in use.rows if "argument" not in row.why and row.why != "result"]
    right = [row.bytes for row in rows if {*row.variable.split(", ")} & RIGHT[name]]
    # Room that XLA leaves between buffers is no variable's: 10 % of those of diffrax.
    room = [row.bytes for row in rows if "room between" in row.why]
    assert sum(right) >= 0.9 * (use.temporaries - sum(room))
    assert sum(room) < 0.11 * use.temporaries


class Dropped(eqx.Module):
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __call__(self, x, key, train=True):
        act = jax.nn.gelu(jax.vmap(self.up)(x))
        act = self.dropout(act, key=key) if train else act
        return x + jax.vmap(self.down)(act)


class DroppedOfNnx(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x, train=True):
        act = jax.nn.gelu(self.up(x))
        act = self.dropout(act) if train else act
        return x + self.down(act)


def test_a_model_with_dropout_is_computed_again_by_its_library():
    keys = jax.random.split(jax.random.key(0), 4)
    layer = Dropped(
        eqx.nn.Linear(WIDTH, 4 * WIDTH, key=keys[0]),
        eqx.nn.Linear(4 * WIDTH, WIDTH, key=keys[1]),
        eqx.nn.Dropout(0.1),
    )

    def of_equinox(layer, x, keys):
        for key in keys:
            x = layer(x, key)
        return jnp.mean(x**2)

    def of_nnx(layer, x):
        for _ in range(4):
            x = layer(x)
        return jnp.mean(x**2)

    x = jnp.ones((BATCH, WIDTH))
    for step, args, name, code in (
        (eqx.filter_grad(of_equinox), (layer, x, keys), "Dropped", "eqx.filter_checkpoint({0})"),
        (
            nnx.jit(nnx.grad(of_nnx)),
            (DroppedOfNnx(nnx.Rngs(0)), x),
            "DroppedOfNnx",
            "nnx.remat({0}, static_argnums=(2,))",
        ),
    ):
        use, called = taxpr.memory(step, compile=False)(*args), f"{name}.__call__"
        [row] = use.what_if(checkpoint=called).rows
        assert row.code == f"{called} = {code.format(called)}"
        assert row.saved > 0.2
        assert use.advice().rows[0].code == row.code
        with pytest.raises(taxpr.TaxprError, match="Donate by the jit of its library"):
            use.what_if(donate=0)


def test_a_model_without_a_hash_is_a_function_whose_argument_is_donated():
    use = taxpr.memory(eqx.nn.MLP(4, 4, 8, 2, key=jax.random.key(0)))(jnp.ones(4))
    [row] = use.what_if(donate="x", measure=True).rows
    assert use.total - row.total == 16  # as the result lies in its four floats
    assert not any("Not tried" in note for note in use.advice().notes)


def test_what_the_layers_of_a_module_keep():
    fun, args = programs()["flax nnx"]
    kept = {row.variable: row for row in taxpr.memory(fun)(*args).residuals.rows}
    size = BATCH * 4 * WIDTH * 4
    assert kept["pre"].bytes % size == 0
    assert kept["act"].bytes % size == 0
    assert kept["act"].code == "act = jax.nn.gelu(pre)"


def test_the_total_of_filter_jit_is_xlas_to_the_byte():
    @eqx.filter_jit
    def step(model, x, rate=0.1):
        grads = eqx.filter_grad(lambda model: jnp.mean(jax.vmap(model)(x) ** 2))(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -rate * g, grads)), x

    args = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0)), jnp.ones((4, 3))
    use, stats = taxpr.memory(step)(*args), step.lower(*args).compile().compiled.memory_analysis()
    assert (use.arguments, use.results) == (
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
    )
    assert use.temporaries == stats.temp_size_in_bytes
    assert sum(row.bytes for row in use.rows) == use.total
    names = {row.variable for row in use.rows if row.why == "result"}
    assert "out[0].layers[0].weight" in names
