"""What questions say of a program on four devices: of one process, or of two that have two each.

python asked.py ADDRESS NUMBER FOLDER   is one of the two; it writes NUMBER.json into FOLDER
"""

import functools
import json
import os
import pathlib
import sys
import traceback

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr._devices import blocks
from taxpr._devices.fetched import fetched, is_shared
from taxpr._keeping import run

X = np.linspace(0.5, 2.5, 64, dtype=np.float32).reshape(8, 8)
FAULTY = np.where(np.arange(8)[:, None] == 5, -X, X).astype(np.float32)  # on the third device
W = np.eye(8, dtype=np.float32) * 0.5


class Given:
    """The arguments, on a mesh of four devices."""

    def __init__(self, devices, kind):
        types = (AxisType.Explicit if kind == "explicit" else AxisType.Auto,)
        self.mesh = Mesh(np.asarray(devices), ("i",), axis_types=types)
        self.manual = kind == "manual"

    def put(self, x, *spec):
        return jax.make_array_from_callback(
            x.shape, NamedSharding(self.mesh, P(*spec)), lambda at: x[at]
        )

    @property
    def args(self):
        return self.put(X, "i"), self.put(W)

    @property
    def faulty(self):
        return self.put(FAULTY, "i"), self.put(W)

    @property
    def other(self):
        return self.put(X + 0.25, "i"), self.put(W)

    def fn(self, body):
        if not self.manual:
            return body
        spread = jax.shard_map(body, mesh=self.mesh, in_specs=(P("i"), P()), out_specs=P("i"))
        return lambda x, w: spread(x, w)


def layers(x, w):
    def layer(x, scale):
        h = x * w.sum(0, keepdims=True)
        root = jnp.sqrt(h) * scale
        return root, root.mean()

    y, means = lax.scan(layer, x, jnp.array([2.0, 3.0, 0.5], x.dtype))
    return y + means.sum()


def other_layers(x, w):
    def layer(x, scale):
        h = x * w.sum(0, keepdims=True)
        root = jnp.sqrt(h) * scale * 1.01
        return root, root.mean()

    y, means = lax.scan(layer, x, jnp.array([2.0, 3.0, 0.5], x.dtype))
    return y + means.sum()


def halving(x, w):
    def go_on(c):
        return jnp.max(jnp.abs(c)) > 0.3

    def halve(c):
        half = c @ w
        return half

    return lax.while_loop(go_on, halve, x) + 1


def rows_of(answer, *fields):
    return [[getattr(row, name) for name in fields] for row in answer.rows]


def stats_of(recorded, each):
    found = recorded.stats(each=each)
    return [
        {name: np.asarray(getattr(one, name)).tolist() for name in ("mean", "std", "min", "norm")}
        for one in (found if isinstance(found, list) else [found])
    ]


def of_recording(rec, *names):
    return {
        "table": [row[:-1] for row in map(list, rec.table().texts())],
        "said": [repr(rec[name]).partition(",")[0] for name in names],
        "stats": [stats_of(rec[name], each) for name in names for each in (False, True)],
    }


def watch_values(given):
    rec = taxpr.watch(given.fn(layers), keep="values")(*given.args)
    values = [np.asarray(rec[name]).tolist() for name in ("h", "root")]
    return [of_recording(rec, "h", "root"), values]


def watch_stats(given):
    rec = taxpr.watch(given.fn(layers), keep="stats")(*given.args)
    return of_recording(rec, "h", "root")


def watch_with_little_memory(given):
    rec = taxpr.watch(given.fn(layers), memory=700)(*given.args)
    return [of_recording(rec, "h", "root"), list(rec.notes)]


def watch_a_while_loop(given):
    if given.manual:
        return None  # a test of varying values ends at other times on other devices
    rec = taxpr.watch(halving)(*given.args)
    return [of_recording(rec, "half"), np.asarray(rec["half"]).tolist(), rec["half"].shape]


def watch_gradients(given):
    fn = given.fn(layers)
    rec = taxpr.watch(lambda x, w: fn(x, w).sum(), grads=True)(*given.args)
    return [of_recording(rec, "∂ root"), np.asarray(rec["∂ root"]).tolist()]


def find_nan(given):
    found = taxpr.find_nan(given.fn(layers))(*given.faulty)
    fields = "what", "variable", "iteration", "device", "elements", "inputs"
    rows = rows_of(found, *fields)
    return [rows, found.headline, list(found.notes), processes_of(found)]


def processes_of(found):
    """The processes that rows name; one alone does not say which, and has two devices of each."""
    if jax.process_count() > 1:
        return [row.process for row in found.rows]
    devices = (row.device.removeprefix("i=") for row in found.rows)
    return [int(one) // 2 if one else None for one in devices]


def find_nan_everywhere(given):
    found = taxpr.find_nan(given.fn(layers), everywhere=True)(*given.faulty)
    return rows_of(found, "what", "variable", "iteration", "device", "times", "became")


def find_nan_with_little_memory(given):
    found = taxpr.find_nan(given.fn(layers), memory=700)(*given.faulty)
    return [rows_of(found, "what", "variable", "iteration", "device"), processes_of(found)]


def find_nan_with_no_room(given):
    """One host has none for the values: all processes answer from statistics, and say so."""
    free = run.free_on
    run.free_on = lambda device: 9 if jax.process_index() == 0 else free(device)
    try:
        found = taxpr.find_nan(given.fn(layers), memory=700)(*given.faulty)
    finally:
        run.free_on = free
    rows = rows_of(found, "what", "variable", "iteration", "device", "elements")
    return [rows, [note.partition(", of")[0] for note in found.notes]]


def find_no_nan(given):
    found = taxpr.find_nan(given.fn(layers))(*given.args)
    return [bool(found), found.headline]


def first_difference(given):
    whole, of_blocks = [], blocks.fetched
    blocks.fetched = lambda x: whole.append(is_shared(x)) or of_blocks(x)
    try:
        found = taxpr.first_difference(given.fn(layers), given.fn(other_layers))(*given.args)
    finally:
        blocks.fetched = of_blocks
    assert not any(whole)
    fields = "variable", "iteration", "index", "a", "b", "difference", "device"
    return [rows_of(found, *fields), found.headline, processes_of(found)]


def no_difference(given):
    found = taxpr.first_difference(given.fn(layers), given.fn(layers))(*given.args)
    return [bool(found), found.headline]


def difference_of_precisions(given):
    found = taxpr.first_difference(given.fn(layers), "bfloat16")(*given.args)
    return [found.first.variable, [row.variable for row in found.differences]]


def difference_of_inputs(given):
    found = taxpr.first_difference(given.fn(layers))(given.args, given.faulty)
    return [rows_of(found, "variable", "iteration", "device"), processes_of(found)]


def flow(given):
    fn = given.fn(layers)

    def loss(x, w):
        return fn(x, w).sum()

    def step(x, w):
        return x - 0.01 * jax.grad(loss)(x, w)

    found = taxpr.flow(loss, step=step)(*given.args)
    rows = rows_of(found, "variable", "norms", "grads", "dead", "updates")
    return [[None if x is None or isinstance(x, str) else x.tolist() for x in row] for row in rows]


def training(given, bad, log, **more):
    """The error that stops a loop under `every`: NaN in the batch, or in what a process has alone.

    A step has a result on all devices, and one of each process.
    """
    fn = given.fn(layers)

    @functools.partial(jax.jit, donate_argnums=1)
    def update(x, w):
        return w - 1e-5 * jax.grad(lambda w: fn(x, w).sum())(w)

    def step(x, w, own):
        return update(x, w), own * 2

    w, number = given.args[1], 4
    owns = [np.float32(1.0)] * number
    if bad is None and jax.process_index() == 0:
        owns[1] = np.float32(np.nan)
    try:
        with taxpr.every(2, step, log, "root", **more) as stepping:
            for k in range(number):
                x, _ = given.faulty if k == bad else given.args
                w, _ = stepping(x, w, owns[k])
    except taxpr.NonfiniteError as error:
        return error, step
    return None, step


def every(given):
    told = []
    error, step = training(given, 3, told.append, everywhere=True)
    found = taxpr.find_nan(step)(*error.kept)
    return [error.step, error.results, told, rows_of(found, "variable", "iteration", "device")]


def every_with_a_number_of_its_own(given):
    error, _ = training(given, None, lambda told: None)
    return [error.step, error.results]


def every_is_told_by_one(given):
    told = []
    training(given, 9, told.append)
    return [one["step"] for one in told] == ([0, 2] if jax.process_index() == 0 else [])


def check(given):
    return [row.what for row in taxpr.check(given.fn(layers))(*given.args).rows]


def check_grad(given):
    fn = given.fn(layers)
    found = taxpr.check_grad(lambda x, w: fn(x, w).sum())(*given.args)
    return [bool(found), found.agrees, found.headline, list(found.notes)]


@jax.custom_vjp
def tripled(x):
    return x * 3


tripled.defvjp(lambda x: (x * 3, None), lambda _, g: (g * 2,))  # wrong


def check_wrong_grad(given):
    """Of a shard_map the row names the device; elsewhere all have one call."""

    def body(x, w):
        h = x * w.sum(0, keepdims=True)
        return tripled(h)

    fn = given.fn(body)
    found = taxpr.check_grad(lambda x, w: fn(x, w).sum())(*given.args)
    fields = "rule", "operand", "variable", "hint", "iteration", "device", "expected", "found"
    return [rows_of(found, *fields), found.agrees, list(found.notes), processes_of(found)]


def compiled(given):
    found = taxpr.compiled(given.fn(layers))(*given.args)
    return sorted({row.variable for row in found.shardings.rows})


def memory(given):
    return taxpr.memory(given.fn(layers))(*given.args).devices


def summary(given):
    return taxpr.summary(given.fn(layers))(*given.args).headline


def profile(given):
    found = taxpr.profile(given.fn(layers))(*given.args)
    return any(row.variable == "h" for row in found.rows)


def sweep(given):
    fn = given.fn(layers)
    found = taxpr.sweep(lambda x, w: fn(x, w).sum(), "root", taxpr.scale, [0.5, 2.0])(*given.args)
    return np.asarray(found.values).tolist()


def patch(given):
    if given.manual:
        return None  # a value in a shard_map has no one value to patch
    found = taxpr.patch(lambda x, w: layers(x, w).sum(), "root")(given.args, given.other)
    return np.asarray(found.values).tolist()


def collect(given):
    out, values = taxpr.trace(given.fn(layers), names=True)(*given.args).collect("root")(
        *given.args
    )
    return [np.asarray(leaf.addressable_data(0)).shape for leaf in jax.tree.leaves((out, values))]


def grad_at(given):
    fn = given.fn(layers)
    gradient = taxpr.grad_at(lambda x, w: fn(x, w).sum(), taxpr.var("root"))
    found = jax.jit(gradient)(*given.args)
    return [tree_of(found), shards_of(found)]


def plant(given):
    """The values of another run in the last iteration of this one."""
    fn = given.fn(layers)
    program = taxpr.trace(fn, names=True)(*given.args)
    values = jax.jit(program.collect("root"))(*given.other)[1]
    planted = program.inject({"root": taxpr.plant(values["root"], at=2)})
    out, _ = jax.jit(planted)(planted.ctx, *given.args)
    return [tree_of(out), shards_of(out)]


def tree_of(found):
    """All numbers, which each process fetches."""
    return [fetched(leaf).tolist() for leaf in jax.tree.leaves(found)]


def shards_of(found):
    return [leaf.addressable_data(0).shape for leaf in jax.tree.leaves(found)]


def plant_and_run(given):
    """Not jitted, the values are constants, which JAX takes if it compiles nothing around them."""
    if given.mesh.axis_types[0] == AxisType.Explicit:
        return None  # one is compiled: see `closed_over`
    program = taxpr.trace(given.fn(layers), names=True)(*given.args)
    values = jax.jit(program.collect("root"))(*given.other)[1]
    return tree_of(program.plant(values)(*given.args))


def compile_time(given):
    found = taxpr.compile_time(given.fn(layers))(*given.args)
    return sorted((row.function.rpartition(".")[2], row.equations) for row in found.rows)


def compilations(given):
    """Those that a log has, and those that a function knows of itself."""
    fn = given.fn(layers)
    x, w = given.args
    with taxpr.compiles() as log:
        known = taxpr.why_compiled(jax.jit(lambda x, w: fn(x, w)))
        for args in (x, w), (x, w), (given.put(X, None, None), w):
            jax.block_until_ready(known(*args))
    return [
        [(row.cause, row.argument) for row in of.compiles.rows if "new object" not in row.cause]
        for of in (log, known)
    ]


def array_stats(given):
    stats = taxpr.questions.array_stats(given.args[0])
    return [stats.mean, stats.std, stats.size, stats.histogram.tolist()]


def saved(given, folder, kind):
    """Writes a recording, of two processes in two files, which the test reads."""
    rec = taxpr.watch(given.fn(layers))(*given.args)
    rec.save(folder / f"{kind}.npz")
    return [np.asarray(rec["root"]).tolist(), rec["root"].axes]


QUESTIONS = (
    *(watch_values, watch_stats, watch_with_little_memory, watch_a_while_loop, watch_gradients),
    *(
        find_nan,
        find_nan_everywhere,
        find_nan_with_little_memory,
        find_nan_with_no_room,
        find_no_nan,
    ),
    *(first_difference, no_difference, difference_of_precisions, difference_of_inputs),
    *(
        flow,
        check,
        check_grad,
        check_wrong_grad,
        compiled,
        memory,
        summary,
        profile,
        sweep,
        patch,
        collect,
    ),
    *(grad_at, plant, plant_and_run, compile_time, compilations),
    *(array_stats, every, every_with_a_number_of_its_own, every_is_told_by_one),
)
KINDS = "auto", "explicit", "manual"


def answer(question, kind, devices):
    """The answer as JSON has it; of an error its last line."""
    try:
        return json.loads(json.dumps(question(Given(devices, kind))))
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def of_one(question):
    """What a process gets of a question, or the error that it says."""
    try:
        return str(question())
    except taxpr.ArgumentError as error:
        return f"ArgumentError: {error}"


OF_LAYERS = {
    "watch": taxpr.watch,
    "first_difference": lambda fun: taxpr.first_difference(fun, fun),
    "flow": taxpr.flow,
    "check": taxpr.check,
    "check_grad": taxpr.check_grad,
    "compiled": taxpr.compiled,
    "memory": taxpr.memory,
    "summary": taxpr.summary,
    "profile": taxpr.profile,
    "sweep": lambda fun: taxpr.sweep(fun, "root", taxpr.scale, [0.5, 2.0]),
    "every": lambda fun: taxpr.every(1, fun, print),
}


COMPILING = "watch", "first_difference", "flow", "check_grad", "compiled", "memory", "profile"


def closed_over(devices):
    """What one is told of a function that closes over what another process has parts of."""
    given = Given(devices, "explicit")
    (x, w), found = given.args, {}
    for name in COMPILING:
        asks = OF_LAYERS[name]
        found[f"{name} closed over"] = of_one(
            lambda asks=asks: asks(lambda w: layers(x, w).sum())(w)
        )
    planted = taxpr.trace(layers, names=True)(x, w).plant({"root": jax.jit(layers)(x, w)})
    return found | {"plant closed over": of_one(lambda: planted(x, w))}


def disagreements(number, devices):
    """What both are told where they do not ask the same, and that they can go on."""
    given = Given(devices, "auto")
    rec = taxpr.watch(layers)(*given.args)
    first = number == 0
    found = {
        "another question": lambda: (taxpr.find_nan if first else taxpr.watch)(layers)(*given.args),
        "other options": lambda: taxpr.watch(layers, "h" if first else "root")(*given.args),
        "another memory": lambda: taxpr.watch(layers, memory=700 if first else None)(*given.args),
        "one alone": lambda: taxpr.watch(layers)(*given.args) if first else "nothing",
        "a table of one alone": lambda: rec.table() if first else "nothing",
        "statistics of one alone": lambda: rec["root"].stats().mean if first else "nothing",
        "a value of one alone": lambda: np.asarray(rec["h"]) if first else "nothing",
        "its own arrays": lambda: taxpr.watch(layers)(X, W) if first else "nothing",
        "both": lambda: taxpr.find_nan(layers)(*given.faulty).rows[0].device,
    }
    for name, asks in OF_LAYERS.items():
        found[f"{name} of one"] = lambda asks=asks: (asks if first else taxpr.find_nan)(layers)(
            *given.args
        )
    told = {}
    for name, question in found.items():
        multihost_utils.sync_global_devices(name)
        told[name] = of_one(question)
    return told


def main(address, number, folder):
    folder = pathlib.Path(folder)
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, 2, int(number), initialization_timeout=60)
    found = {}
    for question in QUESTIONS:
        for kind in KINDS:
            print(question.__name__, kind, flush=True)
            found[f"{question.__name__} {kind}"] = answer(question, kind, jax.devices())
    for kind in KINDS:
        found[f"saved {kind}"] = saved(Given(jax.devices(), kind), folder, kind)
    found |= closed_over(jax.devices())
    os.environ["TAXPR_WAIT_SECONDS"] = "5"
    found |= disagreements(int(number), jax.devices())
    (folder / f"{number}.json").write_text(json.dumps(found))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
