"""Run one compiled program for many settings: in chunks that fit memory, over all devices."""

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._answers.progress import Progress, Tells
from taxpr._compat import Array, PyTree
from taxpr._devices.agreed import agreed
from taxpr._devices.devices_of import processes_of
from taxpr._devices.fetched import fetched, put
from taxpr._errors import ArgumentError
from taxpr._keeping.budget import budget
from taxpr._sites.walk import iter_eqns
from taxpr._untyped import jax as _jax
from taxpr._untyped import np

_MOST = 1024  # settings at once, so that progress shows

Run = Callable[[PyTree, PyTree], Any]
Once = Callable[[Hashable, Callable[[], Any]], Any]


class Done(NamedTuple):
    """The results of the runs that were done.

    Attributes:
        values: One number for each run, in order.
        notes: Remarks.
        complete: Whether all were run.
    """

    values: Any
    notes: tuple[str, ...]
    complete: bool


def run_all(
    what: str,
    run: Run,
    settings: PyTree,
    given: Sequence[PyTree],
    *,
    memory: float | None = None,
    chunk: int | None = None,
    progress: Tells = None,
    once: Once = lambda what, make: make(),
) -> Done:
    """Run ``run(setting, args) -> number`` for each setting, along the leading axis of all leaves.

    Args:
        what: The question, for messages.
        run: The function, of one setting.
        settings: A tree of arrays.
        given: The shared arguments; if there are several, of the same types, all settings run with
            the first, then with the second.
        memory: The bytes that the chunks may take on a device.
        chunk: The most settings at once.
        progress: See `taxpr._answers.progress`.
        once: Returns what was made for the same key and run before.

    Raises:
        ArgumentError: If the result is no real number, or one setting takes more than the memory.
    """
    total: int = len(jax.tree.leaves(settings)[0])
    # JAX's compiler makes trees of other things than arrays, which a class may not take.
    tree = jax.tree.structure(given[0])
    given = [jax.tree.leaves(one) for one in given]
    run = _of_leaves(run, tree)
    if chunk is not None and (type(chunk) is not int or chunk < 1):
        raise ArgumentError(f"{what}: chunk={chunk!r} is no number of runs.")
    one: PyTree = _first(settings)
    check_number(what, _jax.eval_shape(run, one, given[0]))
    devices = _devices(run, one, given[0])
    own = jax.process_index()
    here = [one for one in devices if one.process_index == own] or jax.local_devices()
    both = {*(devices if len(devices) > 1 else ()), *_devices_of(given[0])}
    room = agreed(processes_of(both), f"{what} in {total} runs", budget(memory, here[0], what))
    key = tree, *map(_types, (settings, given[0])), tuple(devices), room if memory else None, chunk
    size, program, mapped = once(
        key, lambda: _compiled(what, run, settings, given[0], devices, room, chunk or _MOST)
    )
    values: list[Any] = []
    share = _share(devices)
    chunks = itertools.product(range(len(given)), range(0, total, size))
    placed: dict[int, PyTree] = {}
    with Progress(what, total * len(given), progress) as steps:
        for k, start in steps.over(chunks, size):
            if k not in placed:
                placed = {k: _placed(given[k], share and share[1])}
            part = _part(settings, start, size)
            part = _placed(part, share and share[0]) if mapped else _first(part)
            found = np.atleast_1d(fetched(program(part, placed[k])))
            values.append(found[: min(size, total - start)])
    notes = () if mapped else ("Run one by one, as JAX cannot map this program.",)
    flat = np.concatenate(values) if values else np.zeros(0)
    return Done(flat, (*notes, *filter(None, [steps.note])), not steps.stopped)


def _of_leaves(run: Run, tree: _compat.TreeDef) -> Run:
    """The same, of the leaves of the arguments."""

    def of_leaves(setting: PyTree, leaves: PyTree) -> Any:
        return run(setting, jax.tree.unflatten(tree, leaves))

    return of_leaves


def _types(tree: PyTree) -> Hashable:
    """The structure, shapes and dtypes that a program is compiled for."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((jax.typeof(x), getattr(x, "sharding", None)) for x in leaves)


def _first(settings: PyTree) -> PyTree:
    return _compat.map_leaves(lambda x: x[0], settings)


def _part(settings: PyTree, start: int, size: int) -> PyTree:
    """Some settings; the last chunk has its last setting again, so that all have one shape."""

    def one(x: Array) -> Array:
        part = x[start : start + size]
        return jnp.concatenate([part, jnp.repeat(part[-1:], size - len(part), 0)])

    return _compat.map_leaves(one, settings)


def check_number(what: str, aval: Any) -> None:
    """Raise if a metric is not a real scalar."""
    leaves = jax.tree.leaves(aval)
    is_number = len(leaves) == 1 and leaves[0] is aval and not aval.shape
    if is_number and not jnp.issubdtype(aval.dtype, jnp.complexfloating):
        return
    shown = f"{aval.dtype}{list(aval.shape)}" if hasattr(aval, "shape") else type(aval).__name__
    raise ArgumentError(
        f"{what}: the metric is {shown}, not one real number. Give metric=lambda out: ..., a "
        "function of the program's result that returns a scalar, such as jnp.mean(out)."
    )


def _devices(run: Run, one: PyTree, args: PyTree) -> list[Any]:
    """The devices to divide the settings among; the first one where the program has its own way."""
    every: list[Any] = jax.devices()
    leaves: list[Any] = jax.tree.leaves(args)
    if len(every) == 1 or any(len(_devices_of([leaf])) > 1 for leaf in leaves):
        return every[:1]
    jaxpr = _compat.make_jaxpr(run)(one, args)
    meshes = (_compat.shard_map_p, _compat.xla_pmap_p)
    if any(eqn.primitive in meshes or "mesh" in eqn.params for _, eqn in iter_eqns(jaxpr)):
        return every[:1]
    return every


def _devices_of(leaves: Sequence[Any]) -> set[Any]:
    return {device for x in leaves if isinstance(x, jax.Array) for device in x.devices()}


def _share(devices: list[Any]) -> tuple[Any, Any] | None:
    """How settings are divided among the devices, and how the arguments are on all."""
    if len(devices) == 1:
        return None
    sharding = jax.sharding
    mesh = sharding.Mesh(np.asarray(devices), ("runs",))
    spec = sharding.PartitionSpec
    return sharding.NamedSharding(mesh, spec("runs")), sharding.NamedSharding(mesh, spec())


def _placed(tree: PyTree, sharding: Any) -> PyTree:
    if sharding is None:
        return tree

    here = sharding.is_fully_addressable
    return _compat.map_leaves(lambda x: put(x if here else fetched(x), sharding), tree)


def _compiled(
    what: str, run: Run, settings: PyTree, args: PyTree, devices: list[Any], room: int, most: int
) -> tuple[int, Any, bool]:
    """How many settings run at once, the program for so many, and whether it is mapped."""
    n = len(devices)
    total: int = len(jax.tree.leaves(settings)[0])
    share = _share(devices)
    options = {} if share is None else {"in_shardings": share, "out_shardings": share[0]}
    size = -(-min(total, most) // n) * n

    def compiled(size: int) -> Any:
        avals = _compat.map_leaves(
            lambda x: jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype), settings
        )
        mapped: Any = jax.vmap(run, in_axes=(0, None))
        return _jax.jit(mapped, **options).lower(avals, args).compile()

    # A setting needs at least the memory of the largest equation.
    one = _first(settings)
    least = _largest(_compat.make_jaxpr(run)(one, args))
    size = max(min(size, room // max(least, 1) * n // n * n), n)
    while True:
        try:
            program = compiled(size)
        except NotImplementedError:  # some primitives cannot be mapped
            return 1, _jax.jit(run).lower(one, args).compile(), False
        used = _used(program)
        if used <= room:
            return size, program, True
        if size == n:
            raise ArgumentError(
                f"{what}: one run takes {used:,} bytes, and the memory for it is {room:,}. Give "
                "more by memory=, or smaller arguments."
            )
        size = max(int(size * room / used * 0.9) // n * n, n)


def _used(program: Any) -> int:
    """The bytes that a compiled program takes on a device, beside its arguments."""
    stats = program.memory_analysis()
    if stats is None:
        return 0
    return int(stats.temp_size_in_bytes + stats.output_size_in_bytes)


def _largest(jaxpr: Any) -> int:
    def size(atom: Any) -> int:
        aval = atom.aval
        shape = getattr(aval, "shape", ())
        known = all(isinstance(k, int) for k in shape)
        width = getattr(getattr(aval, "dtype", None), "itemsize", 0)
        return int(np.prod(shape)) * width if known else 0

    return max((sum(map(size, eqn.outvars)) for _, eqn in iter_eqns(jaxpr)), default=0)
