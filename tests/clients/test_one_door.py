"""Every function of taxpr takes what the functions of libraries take, as they take it.

Each case is a loss, the mean square of a tagged ``h``, of a model of a library; and what the
library's own jit makes of it is right.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import brainstate
import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import taxpr

# The loss of a train step is differentiated before it is changed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::taxpr.errors.StaleDerivativeWarning"),
    pytest.mark.spread(4),
]

X = jax.random.normal(jax.random.key(1), (6, 4))
OTHER = X + 1.0


def loss_of(h):
    h = taxpr.tag(h, name="h")
    loss = jnp.mean(h**2)
    return loss


@dataclasses.dataclass
class Case:
    """A call of a function of the user's.

    Attributes:
        fun: The function.
        args: Its arguments, of which ``x`` comes last.
        jitted: The function, compiled by the library.
        held: What the objects hold.
        written: Whether the function changes them.
        kwargs: Its keyword arguments.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    jitted: Callable[..., Any]
    held: Callable[[], Any] = tuple
    written: bool = False
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def after(self):
        """The result of the library's jit; the objects are then as it leaves them."""
        return self.jitted(*self.args, **self.kwargs)

    def with_x(self, x):
        return (*self.args[:-1], x)


# ---- models ------------------------------------------------------------------


def plain():
    def f(params, act, mode, x):
        h = act(x @ params["w"])
        return loss_of(h * {"half": 0.5}[mode])

    args = {"w": jnp.ones((4, 3)), "name": "dense", "act": jnp.tanh}, jnp.tanh, "half", X
    return Case(f, args, lambda params, *args: f(params, *args))


def plain_keywords():
    def f(x, *, layers, act=None):
        for layer in layers:
            x = (act or layer["act"])(x @ layer["w"])
        return loss_of(x)

    layers = [{"w": jnp.eye(4) * k, "act": act} for k, act in ((1.0, jnp.sin), (2.0, jnp.tanh))]
    return Case(f, (X,), f, kwargs={"layers": layers, "act": None})


def linen_apply():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.relu(linen.Dense(8)(x))
            return linen.Dense(2)(x)

    net = Net()
    variables = net.init(jax.random.key(0), X)

    def f(apply, variables, x):
        return loss_of(apply(variables, x))

    return Case(f, (net.apply, variables, X), jax.jit(f, static_argnums=0))


def hk_net(x):
    x = hk.BatchNorm(True, True, 0.9)(hk.Linear(8)(x), is_training=True)
    return hk.Linear(2)(jax.nn.relu(x))


def haiku_without_state():
    net = hk.without_apply_rng(hk.transform(lambda x: loss_of(hk.nets.MLP([8, 2])(x))))
    return Case(net.apply, (net.init(jax.random.key(0), X), X), jax.jit(net.apply))


def haiku_with_state():
    net = hk.transform_with_state(hk_net)
    params, state = net.init(jax.random.key(0), X)

    def f(params, state, rng, x):
        h, state = net.apply(params, state, rng, x)
        return loss_of(h), state

    return Case(f, (params, state, None, X), jax.jit(f))


def equinox_mlp():
    model = eqx.nn.MLP(4, 2, 8, 2, key=jax.random.key(0))

    def f(model, x):
        return loss_of(jax.vmap(model)(x))

    return Case(f, (model, X), eqx.filter_jit(f))


def equinox_jitted():
    case = equinox_mlp()
    return dataclasses.replace(case, fun=case.jitted)


def equinox_method():
    class Net(eqx.Module):
        mlp: eqx.nn.MLP
        drop: eqx.nn.Dropout

        def loss(self, inference, x):
            h = jax.vmap(functools.partial(self.drop, inference=inference))(jax.vmap(self.mlp)(x))
            return loss_of(h)

    net = Net(eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(0)), eqx.nn.Dropout(0.5))
    fun = eqx.filter_jit(net.loss)
    return Case(fun, (True, X), fun)


def equinox_with_state():
    class Net(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.BatchNorm

        def __init__(self):
            self.linear = eqx.nn.Linear(4, 2, key=jax.random.key(0))
            self.norm = eqx.nn.BatchNorm(2, "batch", mode="batch")

        def __call__(self, x, state):
            return self.norm(self.linear(x), state)

    net, state = eqx.nn.make_with_state(Net)()

    def f(net, state, x):
        each = jax.vmap(net, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
        h, state = each(x, state)
        return loss_of(h), state

    return Case(f, (net, state, X), eqx.filter_jit(f))


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))

    def loss(self, x):
        return loss_of(self(x))


def held_by(*objects):
    return lambda: jax.tree.map(np.asarray, [pure(nnx.state(one)) for one in objects])


def pure(state):
    keys = jax.dtypes.prng_key
    return jax.tree.map(
        lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, keys) else x,
        nnx.to_pure_dict(state),
    )


def nnx_module():
    net = Net(nnx.Rngs(0))

    def f(net, x):
        return loss_of(net(x))

    return Case(f, (net, X), nnx.jit(f), held_by(net), written=True)


def nnx_jitted():
    case = nnx_module()
    return dataclasses.replace(case, fun=case.jitted)


def nnx_method():
    net = Net(nnx.Rngs(0))
    jitted = nnx.jit(Net.loss)
    return Case(net.loss, (X,), functools.partial(jitted, net), held_by(net), written=True)


def nnx_step():
    net = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    def step(net, optimizer, x):
        loss, grads = nnx.value_and_grad(lambda net: loss_of(net(x)))(net)
        optimizer.update(net, grads)
        return loss

    return Case(step, (net, optimizer, X), nnx.jit(step), held_by(net, optimizer), written=True)


def of_brainstate():
    brainstate.random.seed(0)
    first, count = brainstate.nn.Linear(4, 2), brainstate.ShortTermState(jnp.zeros(()))

    def f(x):
        count.value += 1.0
        return loss_of(first(x) * count.value)

    held = lambda: np.asarray(count.value)
    return Case(f, (X,), brainstate.transform.jit(f), held, written=True)


def brainstate_module():
    brainstate.random.seed(0)
    net, count = brainstate.nn.Linear(4, 2), brainstate.ShortTermState(jnp.zeros(()))

    def f(net, mode, x):
        count.value += {"one": 1.0}[mode]
        return loss_of(net(x) * count.value)

    jitted = brainstate.transform.jit(lambda x: f(net, "one", x))
    held = lambda: np.asarray(count.value)
    return Case(f, (net, "one", X), lambda *args: jitted(args[-1]), held, written=True)


CASES = (
    plain,
    plain_keywords,
    linen_apply,
    haiku_without_state,
    haiku_with_state,
    equinox_mlp,
    equinox_jitted,
    equinox_method,
    equinox_with_state,
    nnx_module,
    nnx_jitted,
    nnx_method,
    nnx_step,
    of_brainstate,
    brainstate_module,
)
cases = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


def first(out):
    return float(out[0] if isinstance(out, tuple) else out)


def same(found, expected, rtol=2e-5):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)


# ---- what transforms a function ----------------------------------------------


def transformed(make, call):
    """The results of three calls, and what objects hold in the end, beside those of the library."""
    case, own = make(), make()
    for _ in range(3):
        expected = case.after()
        found = call(own)
        same(first(found), first(expected))
        same(own.held(), case.held())
    return found


@cases
def test_inject_is_the_librarys_jit(make):
    def call(case):
        injected = taxpr.inject(case.fun, taxpr.scale(1.0), where="h")
        ctx = injected.init(*case.args, **case.kwargs)
        return injected(ctx, *case.args, **case.kwargs)[0]

    transformed(make, call)


@cases
def test_collect_is_the_librarys_jit_and_hands_out_values(make):
    def call(case):
        out, values = taxpr.collect(case.fun, "h")(*case.args, **case.kwargs)
        same(float(jnp.mean(values["h"] ** 2)), first(out))
        return out

    transformed(make, call)


@cases
def test_a_program_is_the_librarys_jit(make):
    transformed(make, lambda case: taxpr.trace(case.fun)(*case.args, **case.kwargs)(
        *case.args, **case.kwargs))  # fmt: skip


@cases
def test_what_is_injected_acts(make):
    case, own = make(), make()
    doubled = taxpr.inject(own.fun, taxpr.scale(2.0), where="h")
    ctx = doubled.init(*own.args, **own.kwargs)
    same(first(doubled(ctx, *own.args, **own.kwargs)[0]), 4 * first(case.after()))


# ---- questions ---------------------------------------------------------------


def asked(make, ask):
    """The answer, and the result of the library. Objects stay as they are."""
    case, own = make(), make()
    expected = case.after()
    before = own.held()
    found = ask(own)
    same(own.held(), before, rtol=0)
    assert case.written is (jax.tree.leaves(before) != [] and not _equal(before, case.held()))
    return found, first(expected), own, case


def _equal(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


@cases
def test_watch(make):
    rec, loss, _, case = asked(make, lambda case: taxpr.watch(case.fun)(*case.args, **case.kwargs))
    same(first(rec.out), loss)
    h = rec["loss_of.h#1"].value
    same(float(jnp.mean(h**2)), loss)
    assert bool(rec.states) is case.written


@cases
def test_watch_with_gradients(make):
    def ask(case):
        return taxpr.watch(case.fun, "h", grads=True)(*case.args, **case.kwargs)

    rec, loss, *_ = asked(make, ask)
    same(first(rec.out), loss)
    h = rec["h"].value
    if make is not nnx_step:  # of which the gradient is that of a derivative's primal
        same(rec["∂ h"].value, 2 * h / h.size)


@cases
def test_find_nan(make):
    found, *_ = asked(make, lambda case: taxpr.find_nan(case.fun)(*case.args, **case.kwargs))
    assert not found
    found, *_ = asked(
        make, lambda case: taxpr.find_nan(case.fun)(*case.with_x(X * jnp.nan), **case.kwargs)
    )
    assert "not finite" in str(found) or "NaN" in str(found)


@cases
def test_check(make):
    found, *_ = asked(make, lambda case: taxpr.check(case.fun)(*case.args, **case.kwargs))
    assert not [row for row in found.rows if row.rule == "unused"]


@cases
def test_flow(make):
    found, loss, *_ = asked(make, lambda case: taxpr.flow(case.fun)(*case.args, **case.kwargs))
    [h] = [row for row in found.rows if row.variable.endswith("loss_of.h") or row.variable == "h"]
    same(float(h.norms[-1] ** 2) / np.prod(h.shape), loss, rtol=1e-3)


@cases
def test_check_grad(make):
    def ask(case):
        return taxpr.check_grad(case.fun)(*case.args, **case.kwargs)

    found, *_ = asked(make, ask)
    assert not found
    assert found.agrees in (True, None)


@cases
def test_compile_time(make):
    def ask(case):
        return taxpr.compile_time(case.fun)(*case.args, **case.kwargs)

    found, *_ = asked(make, ask)
    assert "loss_of" in {row.function for row in found.rows}
    assert found.complete


@cases
def test_why_compiled(make):
    case = make()
    why = taxpr.why_compiled(case.jitted)
    why(*case.args, **case.kwargs)
    why(*make().with_x(X[:3]), **case.kwargs)
    rows = [row for row in why.compiles.rows if row.cause != "first call"]
    assert all(row.cause != "unknown" for row in rows)


@cases
def test_grad_at(make):
    if make in (haiku_with_state, equinox_with_state):
        with pytest.raises(taxpr.ArgumentError, match="Only a single real scalar has a gradient"):
            asked(make, lambda case: taxpr.grad_at(case.fun, "h")(*case.args))
        return
    if make is nnx_step:  # its loss is the primal of a derivative
        return

    def ask(case):
        return taxpr.grad_at(case.fun, "h")(*case.args, **case.kwargs)["h"]

    found, _, own, _ = asked(make, ask)
    h = taxpr.watch(own.fun, "h")(*own.args, **own.kwargs)["h"].value
    same(found, 2 * h / h.size)


@cases
def test_sweep(make):
    def ask(case):
        metric = first_of if make in (haiku_with_state, equinox_with_state) else None
        question = taxpr.sweep(case.fun, "h", taxpr.scale, [0.0, 1.0, 2.0], metric=metric)
        return question(*case.args, **case.kwargs)

    found, loss, *_ = asked(make, ask)
    same(np.asarray(found.values), np.array([0.0, 1.0, 4.0]) * loss)


def first_of(out):
    return out[0]


@cases
def test_patch(make):
    if make is plain_keywords:  # two inputs are of arguments by position
        return

    def ask(case):
        metric = first_of if make in (haiku_with_state, equinox_with_state) else None
        inputs = [case.with_x(x) if len(case.args) > 1 else x for x in (X, OTHER)]
        return taxpr.patch(case.fun, "h", metric, sources="clean")(*inputs)

    found, *_ = asked(make, ask)
    same(found.rows[0]["effect"], 1.0)


@cases
def test_first_difference(make):
    def ask(case):
        question = taxpr.first_difference(case.fun, "op by op", rtol=1e-3, atol=1e-4)
        return question(*case.args, **case.kwargs)

    found, *_ = asked(make, ask)
    assert not found
    if make is plain_keywords:
        return

    def of_two(case):
        inputs = [case.with_x(x) if len(case.args) > 1 else x for x in (X, OTHER)]
        return taxpr.first_difference(case.fun)(*inputs)

    found, *_ = asked(make, of_two)
    assert "x" in found.first.variable


@cases
def test_tags_and_values_are_found(make):
    def ask(case):
        program = taxpr.trace(case.fun, names=True)(*case.args, **case.kwargs)
        assert [site.name for site in taxpr.find_tags(program)] == ["h"]
        return taxpr.find_values(program, taxpr.var("loss_of.loss"))

    found, *_ = asked(make, ask)
    assert len(found) == 1


# ---- within transformations --------------------------------------------------


def injected_loss():
    return taxpr.inject(lambda net, x: loss_of(net(x)), taxpr.scale(1.0), where="h")


@pytest.mark.parametrize("outer", [nnx.jit, nnx.remat, lambda f: nnx.jit(nnx.value_and_grad(f))])
def test_an_injected_function_within_a_transformation_of_nnx(outer):
    net, own = Net(nnx.Rngs(0)), Net(nnx.Rngs(0))
    injected = injected_loss()
    ctx = injected.init(own, X)
    expected = outer(lambda net, x: loss_of(net(x)))(net, X)
    found = outer(lambda net, x: injected(ctx, net, x)[0])(own, X)
    same(first(found), first(expected))
    same(held_by(own)(), held_by(net)())


def test_within_jax_jit_a_model_that_is_closed_over_is_refused_by_nnx():
    net, injected = Net(nnx.Rngs(0)), injected_loss()
    ctx, before = injected.init(net, X), held_by(net)()
    with pytest.raises(Exception, match="trace level"):
        jax.jit(lambda x: injected(ctx, net, x)[0])(X)
    same(held_by(net)(), before, rtol=0)


def test_an_array_that_a_call_makes_cannot_be_handed_back():
    class Made(nnx.Module):
        def __call__(self, x):
            self.h = nnx.Variable(x)
            return x

    f = lambda net, x: loss_of(net(x))
    with pytest.raises(taxpr.RefusedError, match=r"makes net\.h, which cannot be handed back"):
        taxpr.collect(f)(Made(), X)
    same(first(taxpr.watch(f)(Made(), X).out), float(jnp.mean(X**2)))


def test_functions_of_haiku_without_transform():
    dense = lambda x: loss_of(hk.Linear(2)(x))
    params = hk.transform(dense).init(jax.random.key(0), X)
    expected = hk.without_apply_rng(hk.transform(dense)).apply(params, X)
    same(first(taxpr.watch(dense)(X).out), first(expected))
    with pytest.raises(taxpr.RefusedError, match="cannot be handed back to haiku"):
        taxpr.collect(lambda x: loss_of(hk_net(x)))(X)
