"""Programs of brainstate, which keeps its states outside of the jaxpr that it makes."""

import sys

import brainstate
import haiku  # noqa: F401  so that it is loaded
import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from checks import assert_close
from client_checks import all_of, assert_same_bits, check_identity, check_scale, values

import taxpr

X = jax.random.normal(jax.random.key(1), (4, 8))


class Net(brainstate.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = brainstate.nn.Linear(8, 16)
        self.second = brainstate.nn.Linear(16, 2)
        self.total = brainstate.ShortTermState(jnp.zeros(2))
        self.factor = None

    def __call__(self, x):
        h = jnp.tanh(self.first(x))
        y = self.second(h if self.factor is None else h * self.factor)
        self.total.value = self.total.value + jnp.sum(y, 0)
        return y


def pure(fn, *args):
    """``(states, *args) -> (states, out)``, and the values of the states."""
    stateful = brainstate.transform.StatefulFunction(fn)
    stateful.make_jaxpr(*args)
    states = [state.value for state in stateful.get_states(*args)]
    return stateful.jaxpr_call, states


def train_step(net):
    params = net.states(brainstate.ParamState)

    def step(x):
        grads = brainstate.transform.grad(lambda: jnp.mean(net(x) ** 2), params)()
        for name, grad in grads.items():
            params[name].value = jax.tree.map(lambda p, g: p - 0.1 * g, params[name].value, grad)
        return grads

    return step


def test_forward():
    run, states = pure(Net(), X)
    check_identity(run, states, X)


def test_a_train_step():
    run, states = pure(train_step(Net()), X)
    check_identity(run, states, X)


def test_its_own_loop_and_branch():
    net = Net()

    def run(xs):
        ys = brainstate.transform.for_loop(net, xs)
        return brainstate.transform.cond(jnp.sum(ys) > 0, lambda: net(xs[0]), lambda: ys[0])

    xs = jnp.stack([X, 2 * X, 3 * X])
    call, states = pure(run, xs)
    check_identity(call, states, xs)


def test_its_own_make_jaxpr():
    net = Net()
    jaxpr, states = brainstate.transform.make_jaxpr(net)(X)
    flat = [X, *jax.tree.leaves([state.value for state in states])]
    tagged = jaxpr
    program = taxpr.trace(jex.jaxpr_as_fun(jaxpr))(*flat)
    for address in values(program):
        tagged = taxpr.tag_at(tagged, address, name=address)
    injected = taxpr.inject(tagged, lambda n, token, params: (token, n + 1), 0)
    *out, fired = jax.jit(jex.jaxpr_as_fun(injected))(jnp.int32(0), *flat)
    assert_same_bits(out, jax.jit(jex.jaxpr_as_fun(jaxpr))(*flat))
    assert fired == len(taxpr.find_tags(tagged)) > 5


def test_a_factor_in_the_module_does_what_inject_does():
    net = Net()
    run, states = pure(net, X)

    def edited(factor, states, x):
        net.factor = factor
        try:
            return pure(net, x)[0](states, x)
        finally:
            net.factor = None

    sites = all_of(taxpr.trace(run)(states, X), "tanh")
    check_scale(run, edited, (states, X), sites)


def test_collect_in_its_loop_stacks_what_the_loop_returns():
    net = Net()
    xs = jnp.stack([X, 2 * X, 3 * X])
    run, states = pure(lambda xs: brainstate.transform.for_loop(net, xs), xs)
    program = taxpr.trace(run)(states, xs)
    last = [a for a in all_of(program, "add") if "body" in a][1]
    program = program.tag_at(last, name="y")
    (_, ys), found = jax.jit(program.collect())(states, xs)
    assert_close(found["y"], ys)


def test_a_function_without_states_of_a_library_runs_once():
    runs = []

    def f(x):
        runs.append(x)
        y = jnp.sin(x)
        return y * 2

    assert {"brainstate", "haiku"} <= sys.modules.keys()
    for names in (False, True):
        taxpr.trace(f, names=names)(1.0)
        assert len(runs) == 1
        runs.clear()


def test_a_function_without_states_is_traced_as_without_brainstate():
    def loop(x):
        return jax.lax.while_loop(lambda y: jnp.sum(y) < 3.0, lambda y: y + 1.0, jnp.sin(x))

    for names in (True, False):
        first = taxpr.trace(loop, names=names)(X)
        assert taxpr.trace(loop, names=names)(X).jaxpr is first.jaxpr


def test_a_state_is_noticed_in_each_function_that_calls_the_same_jitted_one():
    total = brainstate.ShortTermState(jnp.float32(2.0))
    helper = jax.jit(lambda x: x * total.value)

    def one(x):
        return helper(x) + 1.0

    def other(x):
        return helper(x) - 1.0

    taxpr.watch(one)(X)
    program = taxpr.trace(other)(X)
    total.value = jnp.float32(3.0)
    assert_close(taxpr.watch(other)(X).out, 3.0 * X - 1.0)
    assert len(program.in_avals) == 2  # x, and the state


def test_a_state_that_is_noticed_while_tracing_is_as_before():
    total = brainstate.ShortTermState(jnp.zeros(3))

    def body(carry, _):
        return carry + total.value, None

    def step(x):
        out = jax.lax.scan(body, x, None, length=2)[0]
        return out

    for value in (0.0, 5.0):
        total.value = jnp.full(3, value)
        program = taxpr.trace(step)(jnp.ones(3))
        assert program.in_names[0] == "total"
        np.testing.assert_array_equal(total.value, jnp.full(3, value))
        np.testing.assert_array_equal(taxpr.watch(step)(jnp.ones(3))["out"].value, 1 + 2 * value)
    # JAX keeps no body of the loop with a value that it was traced with here.
    total.value = jnp.full(3, 7.0)
    np.testing.assert_array_equal(jax.jit(step)(jnp.ones(3)), jnp.full(3, 15.0))
