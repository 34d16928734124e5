"""What cannot be taken apart is refused, what has no state goes the plain way."""

import subprocess
import sys
import warnings

import brainstate
import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from client_states import Cells, Model, Net, Shared, X, eqx_forward, hk_net
from flax import linen, nnx
from jax import lax

import taxpr
from taxpr_jupyter import PanelError, Session, draw

SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)


def session(fn, *args, **kwargs):
    names = {f"arg{k}": arg for k, arg in enumerate(args)} | {"fn": fn}
    return Session(fn, args, kwargs, namespace=names)


# ---- refusals ----------------------------------------------------------------


@pytest.mark.parametrize("jit", [lambda fn: fn, nnx.jit])
def test_nnx_modules_that_are_closed_over_cannot_be_changed(jit):
    net = Shared()
    with pytest.raises(taxpr.RefusedError, match=r"not among its arguments.*`f\(model, x\)"):
        draw(jit(lambda x: net.bump(x)), X)
    assert net.count.get_value() == 0


def test_nnx_nor_can_another_one_beside_an_argument():
    net = Shared()
    with pytest.raises(taxpr.RefusedError, match="not among its arguments"):
        draw(lambda model, x: net.bump(model(x)), nnx.Linear(8, 2, rngs=nnx.Rngs(0)), X)
    assert net.count.get_value() == 0


def test_nnx_a_variable_keeps_its_type():
    def grow(net):
        net.count.set_value(jnp.zeros(3))

    with pytest.raises(PanelError, match=r"count .* int32\[\] before .* float32\[3\] after"):
        draw(grow, Shared())


def test_nnx_references_are_refused():
    model = nnx.with_vars(nnx.Linear(8, 2, rngs=nnx.Rngs(0)), ref=True)
    with pytest.raises(taxpr.RefusedError, match=r"bias .* holds a jax\.Ref.*nnx\.with_vars"):
        draw(lambda model, x: model(x), model, X)


def test_nnx_of_an_old_flax_is_refused(monkeypatch):
    monkeypatch.delattr(nnx.Variable, "ref")
    monkeypatch.setattr("flax.__version__", "0.12.0")
    with pytest.raises(taxpr.RefusedError, match=r"from flax 0\.12\.0.*flax 0\.12\.4 or newer"):
        draw(lambda model, x: model(x), nnx.Linear(8, 2, rngs=nnx.Rngs(0)), X)


def test_brainstate_does_not_see_loops_of_jax():
    count = brainstate.State(jnp.int32(0))

    def step(c, _):
        count.value = count.value + 1
        return c, None

    with pytest.raises(taxpr.RefusedError, match=r"count of brainstate.*transform\.scan"):
        draw(lambda x: lax.scan(step, x, None, length=3)[0], X)
    assert count.value.tolist() == 0


def test_haiku_does_not_see_loops_of_jax():
    def step(c, _):
        hk.set_state("count", hk.get_state("count") + 1)
        return c, None

    def run(x):
        hk.get_state("count", (), jnp.int32, jnp.zeros)
        return lax.scan(step, x, None, length=3)[0]

    with pytest.raises(taxpr.RefusedError, match=r"state of haiku.*hk\.scan"):
        draw(run, X)


def test_haiku_does_not_see_functions_of_jit():
    with pytest.raises(taxpr.RefusedError, match=r"state of haiku.* under jax\.jit"):
        draw(jax.jit(lambda x: hk.Linear(3)(x)), X)


def test_equinox_a_state_is_returned_once():
    model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))
    twice = lambda model, state, x: (state, eqx_forward(model, state, x)[1])
    with pytest.raises(taxpr.RefusedError, match="more often than it takes it"):
        draw(twice, model, state, X)


@pytest.mark.parametrize("other", ["brainstate", "nnx"])
def test_states_of_two_kinds_are_refused(other):
    total = taxpr.State(0.0, name="total")
    cells, net = Cells(), Shared()

    def run(net, x):
        total.value += 1.0
        if other == "nnx":
            net.bump(x)
        return cells(x) if other == "brainstate" else x

    with pytest.raises(PanelError, match=r"a taxpr\.State besides"):
        draw(run, net if other == "nnx" else 1.0, X)


def test_an_error_of_the_user_is_the_users():
    cells = Cells()
    with pytest.raises(KeyError, match="never"):
        draw(lambda x: cells(x, "never"), X)
    with pytest.raises(ZeroDivisionError):
        draw(lambda x: hk.Linear(3)(x) / (1 // 0), X)


# ---- no state ----------------------------------------------------------------


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.BatchNorm(use_running_average=False)(linen.Dense(4)(x))
        return x


DENSE = Dense()
VARIABLES = DENSE.init(jax.random.key(0), X)
NET = nnx.Linear(8, 2, rngs=nnx.Rngs(0))
TRANSFORMED = hk.transform_with_state(hk_net)
MLP = eqx.nn.Linear(8, 2, key=jax.random.key(0))
CELL = brainstate.nn.Linear(8, 2).weight.value


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (jnp.sin, (X,)),
        (jax.jit(jnp.sin), (X,)),
        (lambda x: NET(x), (X,)),
        (lambda weight, x: x @ weight["weight"], (CELL, X)),
        (TRANSFORMED.apply, (*TRANSFORMED.init(jax.random.key(0), X), jax.random.key(0), X)),
        (lambda layer, x: jax.vmap(layer)(x), (MLP, X)),
        (lambda v, x: DENSE.apply(v, x, mutable=["batch_stats"]), (VARIABLES, X)),
    ],
    ids=["plain", "jit", "nnx", "brainstate", "haiku", "equinox", "linen"],
)
def test_without_state_it_is_the_plain_way(fn, args):
    found = session(fn, *args)
    assert found.states() == ()
    assert found.program.out_names == taxpr.trace(fn)(*args).out_names
    assert str(found.program.jaxpr.jaxpr) == str(taxpr.trace(fn)(*args).jaxpr.jaxpr)


def test_states_of_taxpr_with_all_libraries_loaded():
    total = taxpr.State(0.0, name="total")

    def add(x):
        total.value += x
        return total.value

    found = session(lambda xs: lax.map(add, xs), jnp.arange(3.0))
    assert found.run().final_states == {"total": 3.0}
    assert found.notes == ()


def test_linen_shows_the_names_of_its_parameters():
    text = draw(lambda v, x: DENSE.apply(v, x, mutable=["batch_stats"]), VARIABLES, X).text()
    for name in ("['params']['Dense_0']['kernel']", "['batch_stats']['BatchNorm_0']['mean']"):
        assert f"v{name}" in text
    assert "out[1]['batch_stats']['BatchNorm_0']['mean']" in text


def test_libraries_are_not_imported_for_it():
    code = (
        "import sys, jax.numpy as jnp\n"
        "from taxpr_jupyter import draw\n"
        "draw(jnp.sin, 1.0)\n"
        "print({'flax', 'haiku', 'equinox', 'brainstate'} & {*sys.modules})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


# ---- the panel ---------------------------------------------------------------


def test_only_shapes_can_be_drawn_too():
    model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))
    abstract = nnx.eval_shape(lambda: Net(nnx.Rngs(0)))
    for fn, *args in (
        (lambda net, x: net(x), abstract, SHAPE),
        (Cells(), SHAPE),
        (hk_net, SHAPE),
        (eqx_forward, model, jax.eval_shape(lambda: state), SHAPE),
    ):
        picture = draw(fn, *args).picture
        assert any(node.kind == "state" for node in picture.nodes)


def test_what_a_run_begins_with_is_edited_and_the_end_is_written_back():
    net, cells = Shared(), Cells()
    for opened, name, holds in (
        (session(lambda net, x: net.bump(x), net, X), "count", lambda: net.count.get_value()),
        (session(cells, X), "total", lambda: cells.total.value),
    ):
        before = np.asarray(holds())
        plain = opened.run().final_states[name]
        opened.set_state(name, (before + 40).tolist())
        found = opened.run().final_states[name]
        np.testing.assert_allclose(found, plain + 40, rtol=1e-6)
        assert np.array_equal(holds(), before)
        opened.write_states()
        assert np.array_equal(holds(), found)
    of_haiku = session(hk_net, X)
    of_haiku.run()
    with pytest.raises(PanelError, match="States of haiku are in no object"):
        of_haiku.write_states()


def test_nnx_what_a_call_collects_is_no_state_that_it_writes():
    class Sown(nnx.Module):
        def __init__(self):
            self.layer = nnx.Linear(8, 2, rngs=nnx.Rngs(0))

        def __call__(self, x):
            y = self.layer(x)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # flax's, which wants nnx.capture
                self.sow(nnx.Intermediate, "h", y)
            return y

    net = Sown()
    first = session(net, X)
    assert first.notes == ("Not shown: the call makes self.h.",)
    assert not hasattr(net, "h")
    net(X)
    second = session(net, X)
    assert not any(row.written for row in second.states())
    assert second.run().ok
    scope = {"fn": net, "arg0": X}
    exec(second.code(), scope)
    assert len(scope["states"]["h"]) == len(net.h.get_value()) == 1


def test_equinox_states_that_are_stacked_are_results():
    model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))
    batch = jnp.stack([X, 2 * X])
    run = session(
        lambda model, state, xs: jax.vmap(eqx_forward, in_axes=(None, None, 0))(model, state, xs),
        model, state, batch,
    )  # fmt: skip
    assert not any(row.written for row in run.states())
    _, stacked = run.run().outputs
    assert stacked.get(model.calls).tolist() == [1, 1]


def test_equinox_two_states_of_one_kind():
    first, state = eqx.nn.make_with_state(Model)(jax.random.key(0))
    _, other = eqx.nn.make_with_state(Model)(jax.random.key(1))

    def both(a, b, x):
        for _ in range(2):
            _, b = eqx_forward(first, b, x)
        y, a = eqx_forward(first, a, x)
        return a, b, y

    found = session(both, state, other, X).run().final_states
    assert (found["a.calls"].tolist(), found["b.calls"].tolist()) == (1, 2)


def test_tags_in_a_function_with_state():
    cells = Cells()

    def run(x):
        return taxpr.tag(cells(x), name="h") * 2

    panel = session(run, X)
    panel.attach("h", "scale", factor=0.0)
    found = panel.run()
    assert not jnp.any(found.outputs)
    assert jnp.any(found.baseline)
    scope = {"fn": run, "arg0": X}
    exec(panel.code(), scope)
    assert not jnp.any(scope["out"])
