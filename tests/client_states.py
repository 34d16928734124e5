"""Functions with state of other libraries, as their users write them, and what they should be.

Each is made afresh by a function that returns a `Stateful`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import brainstate
import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import optax
from flax import nnx

X = jax.random.normal(jax.random.key(1), (4, 8))


@dataclasses.dataclass
class Stateful:
    """A call of a function with state.

    Attributes:
        call: The call, as in a notebook.
        names: The names that the notebook has.
        written: The states that it writes, and
        read: those that it only reads.
        eager: Does the same by the library's own means, on objects of its own: the result, and
            by name the values that states have then, those that are asked for.
        held: What the user's objects hold, arrays that must not change.
        notes: What the panel says.
    """

    call: str
    names: Mapping[str, Any]
    written: set[str]
    read: set[str]
    eager: Callable[[], tuple[Any, Mapping[str, Any]]]
    held: Callable[[], Any] = tuple
    notes: str = ""
    static: tuple[str, ...] = ()

    @property
    def function(self):
        return eval(self.call.partition("(")[0], dict(self.names))

    @property
    def arguments(self):
        text = "(lambda *args, **kwargs: (args, kwargs))(" + self.call.partition("(")[2]
        return eval(text, dict(self.names))


# ---- flax nnx ----------------------------------------------------------------


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(16, 16, rngs=rngs) for _ in range(2)])

    def __call__(self, x):
        x = self.dropout(nnx.relu(self.norm(self.first(x))))
        for block in self.blocks:
            x = block(x)
        return x

    def encode(self, x, mode="twice"):
        return self.norm(self.first(x)) * {"once": 1, "twice": 2}[mode]

    @nnx.jit
    def compiled(self, x):
        return self.norm(self.first(x))


LINEAR = {"first.kernel", "first.bias"}
NORM = LINEAR | {"norm.scale", "norm.bias"}
BLOCKS = {f"blocks.{k}.{name}" for k in range(2) for name in ("kernel", "bias")}
RNG = {"dropout.rngs.key", "dropout.rngs.count"}
STATISTICS = {"norm.mean", "norm.var"}


def value_of(node, path):
    """The value at ``norm.mean`` of a module."""
    for part in path.split("."):
        node = node[int(part)] if part.isdigit() else getattr(node, part)
    return node.get_value()


def of_net(call, result, written, read, **more):
    """A call of a Net; ``result(net, X)`` does it eagerly."""
    net, own = Net(nnx.Rngs(0)), Net(nnx.Rngs(0))

    def eager():
        out = result(own, X)
        return out, {name: value_of(own, name) for name in written | read}

    def held():
        return nnx.as_pure(nnx.state(net))

    bound = functools.partial(Net.encode, net, mode="once")
    names = {"net": net, "X": X, "forward": forward, "bound": bound, "jitted": nnx.jit(forward)}
    return Stateful(call, names, written, read, eager, held, **more)


def forward(net, x):
    return net(x)


def nnx_argument():
    return of_net("forward(net, X)", forward, STATISTICS | {"dropout.rngs.count"},
                  NORM | BLOCKS | {"dropout.rngs.key"})  # fmt: skip


def nnx_jitted():
    """nnx.jit returns all that it takes, and what it does not change is only read all the same."""
    return dataclasses.replace(nnx_argument(), call="jitted(net, X)")


def nnx_module():
    return dataclasses.replace(nnx_argument(), call="net(x=X)")


def nnx_method():
    rest = NORM | BLOCKS | RNG
    return of_net("net.encode(X)", Net.encode, STATISTICS, rest)


def nnx_method_with_a_static_argument():
    rest = NORM | BLOCKS | RNG
    note = "The argument mode is text, so it is static."
    return of_net(
        "net.encode(X, 'once')",
        lambda net, x: net.encode(x, "once"),
        STATISTICS,
        rest,
        notes=note,
    )


def nnx_compiled_method():
    return of_net("net.compiled(X)", Net.compiled, STATISTICS, NORM | BLOCKS | RNG)


def nnx_partial():
    rest = NORM | BLOCKS | RNG
    return of_net("bound(X)", lambda net, x: net.encode(x, "once"), STATISTICS, rest)


def nnx_train_step():
    def made():
        model = nnx.Linear(8, 2, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, batch):
        loss, grads = nnx.value_and_grad(lambda m: jnp.mean(m(batch["x"]) ** 2))(model)
        optimizer.update(model, grads)
        return {"loss": loss}

    model, optimizer = made()
    own = made()

    def eager():
        out = step(*own, {"x": X})
        moments = own[1].opt_state[0]
        return out, {
            "model.kernel": own[0].kernel.get_value(),
            "optimizer.step": own[1].step.get_value(),
            "optimizer.opt_state.0.mu.bias": moments.mu["bias"].get_value(),
        }

    moments = {f"{m}.{p}" for m in ("mu", "nu") for p in ("kernel", "bias")}
    written = {"model.kernel", "model.bias", "optimizer.step", "optimizer.opt_state.0.count"}
    return Stateful(
        "step(model, optimizer, {'x': X})",
        {"step": step, "model": model, "optimizer": optimizer, "X": X},
        written | {f"optimizer.opt_state.0.{name}" for name in moments},
        set(),
        eager,
        lambda: nnx.as_pure((nnx.state(model), nnx.state(optimizer))),
    )


class Shared(nnx.Module):
    def __init__(self):
        self.count = nnx.Variable(jnp.int32(0))
        self.last = jnp.zeros(())

    def bump(self, x):
        self.count[...] += 1
        self.last = jnp.sum(x)


def nnx_in_containers():
    """One module that is there twice is one; an array of a module is a state, too."""
    first, second, own = Shared(), Shared(), Shared()

    def bump(modules, x):
        for module in modules["all"]:
            module.bump(x)
        return modules["all"][0].count * x

    def eager():
        for _ in range(2):
            own.bump(X)
        found = {"modules.all.0.count": own.count.get_value(), "modules.all.0.last": own.last}
        return own.count * X, found | {"modules.all.1.count": jnp.int32(1)}

    return Stateful(
        "bump(modules, X)",
        {"bump": bump, "modules": {"all": [first, second, first]}, "X": X},
        {f"modules.all.{k}.{name}" for k in range(2) for name in ("count", "last")},
        set(),
        eager,
        lambda: [(one.count.get_value(), one.last) for one in (first, second)],
    )


# ---- brainstate --------------------------------------------------------------


class Cells(brainstate.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = brainstate.nn.Linear(8, 16)
        self.total = brainstate.ShortTermState(jnp.zeros(16))

    def __call__(self, x, mode="once"):
        h = jnp.tanh(self.first(x)) * {"once": 1, "twice": 2}[mode]
        self.total.value = self.total.value + jnp.sum(h, 0)
        return h


def brainstate_made():
    brainstate.random.seed(0)
    cells = Cells()
    count = brainstate.State(jnp.int32(0))
    named = brainstate.State({"a": jnp.float32(1)}, name="mine")

    def run(x):
        count.value = count.value + 1
        return cells(x) * named.value["a"]

    def drawn(x):
        return x + brainstate.random.normal(size=(4, 8))

    def looped(x):
        return brainstate.transform.for_loop(lambda row: run(row[None]), x)

    pair = [brainstate.State(jnp.float32(0)), brainstate.State(jnp.float32(2))]

    def of_states(states, x):
        states[0].value = states[0].value + states[1].value
        return x

    jitted = brainstate.transform.jit(run)
    brainstate.random.seed(0)  # as each test begins, in whatever order they run
    return locals() | {"X": X}


def of_brainstate(call, result, written, read, own_value, **more):
    names, own = brainstate_made(), brainstate_made()

    def states(made):
        default = brainstate.random.DEFAULT
        first = made["cells"].first.weight
        return {
            "count": made["count"], "mine": made["named"], "total": made["cells"].total,
            "first.weight": first, "random.DEFAULT": default,
            "states.0": made["pair"][0], "states.1": made["pair"][1],
        }  # fmt: skip

    def eager():
        before = brainstate.random.DEFAULT.value
        try:
            out = result(own)
            return out, {name: states(own)[name].value for name in own_value}
        finally:
            brainstate.random.DEFAULT.value = before

    def held():
        return {name: state.value for name, state in states(names).items()}

    return Stateful(call, names, written, read, eager, held, **more)


def brainstate_function():
    return of_brainstate(
        "run(X)",
        lambda own: own["run"](X),
        {"count", "total"},
        {"mine", "first.weight"},
        ["count", "total", "mine"],
    )


def brainstate_jitted():
    return dataclasses.replace(brainstate_function(), call="jitted(X)")


def brainstate_module_with_a_static_argument():
    return of_brainstate(
        "cells(X, mode='twice')",
        lambda own: own["cells"](X, "twice"),
        {"total"},
        {"first.weight"},
        ["total"],
        notes="The argument mode is text, so it is static.",
    )


def brainstate_loop():
    return of_brainstate(
        "looped(X)",
        lambda own: own["looped"](X),
        {"count", "total"},
        {"mine", "first.weight"},
        ["count", "total"],
    )


def brainstate_random():
    return of_brainstate(
        "drawn(X)",
        lambda own: own["drawn"](X),
        {"random.DEFAULT"},
        set(),
        ["random.DEFAULT"],
    )


def brainstate_arguments():
    return of_brainstate(
        "of_states(pair, X)",
        lambda own: own["of_states"](own["pair"], X),
        {"states.0"},
        {"states.1"},
        ["states.0", "states.1"],
    )


# ---- haiku -------------------------------------------------------------------


def hk_net(x):
    x = hk.nets.MLP([16, 4])(x)
    x = hk.BatchNorm(True, True, 0.9)(x, is_training=True)
    return hk.dropout(hk.next_rng_key(), 0.5, x)


def hk_counter(x, by="one"):
    count = hk.get_state("count", (), jnp.int32, jnp.zeros)
    hk.set_state("count", count + {"one": 1, "two": 2}[by])
    return x * count


HK_NOTE = "The parameters of haiku come from hk.transform_with_state(f).init with jax.random.key(0)"
AVERAGES = {
    f"batch_norm/{which}_ema/{name}"
    for which in ("mean", "var")
    for name in ("average", "counter", "hidden")
}


def haiku_modules():
    def eager():
        model = hk.transform_with_state(hk_net)
        params, state = model.init(jax.random.key(0), X)
        out, state = model.apply(params, state, jax.random.key(0), X)
        return out, {
            "mlp/linear_0/w": params["mlp/~/linear_0"]["w"],
            "batch_norm/var_ema/average": state["batch_norm/~/var_ema"]["average"],
            "batch_norm/mean_ema/counter": state["batch_norm/~/mean_ema"]["counter"],
            "rng": jax.random.key(0),
        }

    linear = {f"mlp/linear_{k}/{name}" for k in range(2) for name in "wb"}
    return Stateful(
        "hk_net(X)",
        {"hk_net": hk_net, "X": X},
        AVERAGES,
        linear | {"batch_norm/scale", "batch_norm/offset", "rng"},
        eager,
        notes=f"{HK_NOTE}, and so is the key of the call, the state rng.",
    )


def haiku_state_with_a_static_argument():
    return Stateful(
        "hk_counter(X, by='two')",
        {"hk_counter": hk_counter, "X": X},
        {"count"},
        set(),
        lambda: (X * 0, {"count": jnp.int32(2)}),
        notes=f"The argument by is text, so it is static. {HK_NOTE}.",
    )


# ---- equinox -----------------------------------------------------------------


class Model(eqx.Module):
    norm: eqx.nn.BatchNorm
    layers: list
    calls: eqx.nn.StateIndex
    unused: eqx.nn.StateIndex
    act: Callable

    def __init__(self, key):
        self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="ema")
        self.layers = [eqx.nn.Linear(8, 4, key=key)]
        self.calls = eqx.nn.StateIndex(jnp.int32(0))
        self.unused = eqx.nn.StateIndex(jnp.float32(0))
        self.act = jax.nn.relu

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        state = state.set(self.calls, state.get(self.calls) + 1)
        return self.act(self.layers[0](x)), state


def eqx_forward(model, state, x):
    mapped = jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
    return mapped(x, state)


def of_equinox(call, made, prefix="", out=lambda out: (out[0], None), **names):
    model, state = made(jax.random.key(0))
    names = {"model": model, "state": state, "X": X, "forward": eqx_forward, **names}
    names["jitted"] = eqx.filter_jit(eqx_forward)

    def eager():
        given = jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(state))
        result = eval(call, {**names, "state": given})
        # The State stands last in the result.
        get = result[-1].get
        return out(result), {
            f"{prefix}calls": get(model.calls),
            f"{prefix}norm.ema_state_index": get(model.norm.ema_state_index),
        }

    own = {"calls", "norm.ema_state_index", "norm.ema_first_time_index"}
    return Stateful(
        call,
        names,
        {prefix + name for name in own},
        {f"{prefix}unused"},
        eager,
        lambda: jax.tree.leaves((model, state), is_leaf=callable),
    )


def equinox_function():
    return of_equinox("forward(model, state, X)", eqx.nn.make_with_state(Model))


def equinox_jitted():
    """eqx.filter_jit returns all that it takes, and what it does not change is only read."""
    return of_equinox("jitted(model, state=state, x=X)", eqx.nn.make_with_state(Model))


def equinox_indices_without_paths():
    def made(key):
        model = Model(key)
        return model, eqx.nn.State(model)

    return of_equinox("forward(model, state, X)", made)


def equinox_modules_without_state():
    model = eqx.nn.MLP(8, 2, 16, 2, activation=jax.nn.gelu, key=jax.random.key(0))

    @eqx.filter_jit
    def run(model, x, scale):
        return jax.vmap(model)(x) * scale, model

    def eager():
        return run(model, X, 2.0), {}

    return Stateful("run(model, X, 2.0)", {"run": run, "model": model, "X": X}, set(), set(), eager)


PROGRAMS = {
    made.__name__: made
    for made in (
        nnx_argument,
        nnx_jitted,
        nnx_module,
        nnx_method,
        nnx_method_with_a_static_argument,
        nnx_compiled_method,
        nnx_partial,
        nnx_train_step,
        nnx_in_containers,
        brainstate_function,
        brainstate_jitted,
        brainstate_module_with_a_static_argument,
        brainstate_loop,
        brainstate_random,
        brainstate_arguments,
        haiku_modules,
        haiku_state_with_a_static_argument,
        equinox_function,
        equinox_jitted,
        equinox_indices_without_paths,
        equinox_modules_without_state,
    )
}
