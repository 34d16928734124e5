"""`flow`: how large values and gradients are, by variable and by layer or iteration."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._answers.charts import Chart, Lines
from taxpr._answers.count_of import count_of
from taxpr._answers.tables import once
from taxpr._answers.trees import FOLDED, common, folded
from taxpr._calls.static import marked
from taxpr._compat import PyTree, is_sequence
from taxpr._devices.fetched import fetched, is_shared, on_all_devices
from taxpr._errors import ArgumentError, name_of, refuse_no_function, told_as, unfit
from taxpr._keeping.passes import reduced_by
from taxpr._keeping.wanted import EVERY_VARIABLE
from taxpr._keeping.watch import watch
from taxpr._programs.trace import called_as, trace
from taxpr._recordings.part import Part
from taxpr._recordings.recording import Recording
from taxpr._recordings.summary import Reduction, has_stats
from taxpr._sites.criteria import Selector
from taxpr._transforms.question import question
from taxpr._untyped import jnp, np


def _zeros(x: Any, axes: int, of: Any) -> Any:
    """The share of units, along the last axis, that are zero in all of each value."""
    return (x == 0).all(tuple(range(axes, x.ndim - 1))).astype(of.float32).mean(-1)


_ZEROS = Reduction(_zeros, (), has_stats)
_NUMBER = re.compile(r"#\d+$")  # of one of several values, behind the path


@dataclasses.dataclass(frozen=True)
class FlowRow:
    """A variable in `Flow`: its norm and its gradient's, step by step.

    Attributes:
        variable: The variable.
        line: The line that bound it.
        shape: The shape of each of its values.
        norms: The norm of each value: for each call, each device of a `jax.shard_map`, and each
            iteration of a Python loop or scan.
        grads: The norms of their gradients, in the same order; None without gradients.
        dead: For each value the share of units, along the last axis, that are zero in all of it;
            NaN for arguments, or if it was not computed. None if all are NaN.
        address: The address of the first value.
        updates: For each value the norm of its change in a step of the optimizer, as a share of its
            own norm; NaN if it is no weight. None if no step was given, or there is no weight.
        path: The path to it in the tree that the variable is, such as ``"['w']"``.
        changes: For each value the norm of its change in a step, as ``updates``.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def loss(x):
        ...     for _ in range(3):
        ...         x = x * 2
        ...     return x.sum()
        >>> [row] = taxpr.flow(loss)(jnp.ones(1)).rows
        >>> row.norms.tolist(), row.grads.tolist()
        ([1.0, 2.0, 4.0, 8.0], [8.0, 4.0, 2.0, 1.0])
    """

    variable: str
    line: str
    shape: tuple[int, ...]
    norms: Any
    grads: Any
    dead: Any
    address: str
    updates: Any = None
    path: str = ""
    changes: Any = None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Flow(Answer):
    """How large values and gradients are; `flow` makes it.

    Attributes:
        recording: The values and gradients themselves.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> flow = taxpr.flow(lambda x: jnp.sum(x**2))(jnp.ones(4))
        >>> flow.rows[0].norms, flow.recording["∂ x"].value
        (array([2.]), Array([2., 2., 2., 2.], dtype=float32))
    """

    recording: Recording | None = None

    _columns = "variable", "line", "shape", "norms", "grads", "dead", "updates"

    def listed(self) -> list[Any]:
        """The rows; in a long table arguments are last, and arrays of one tree share a row."""
        groups = folded(
            self.rows,
            lambda row: Address(row.address).is_argument,
            lambda row: (len(row.norms), row.grads is None, row.updates is None),
        )
        return [group[0] if len(group) == 1 else _joined(name, group) for name, group in groups]

    def _shown(self) -> list[dict[str, Any]]:
        # A single norm is a number, and several are a curve.
        rows = [{name: _one(value) for name, value in row.items()} for row in super()._shown()]
        if all(row["updates"] is None for row in rows):
            return [{k: v for k, v in row.items() if k != "updates"} for row in rows]
        return rows

    def chart(self) -> Chart | None:
        """The norms of values and of gradients, in the order of execution, as powers of ten."""
        rows = [row for row in self.rows if row.grads is not None]
        if not rows:
            return None
        with np.errstate(divide="ignore"):
            series = {
                name: np.log10(np.concatenate([getattr(row, field) for row in rows]))
                for name, field in (("values", "norms"), ("gradients", "grads"))
            }
        return Lines(series, xlabel="values in order; log10 of the norm")


@question
def flow(
    fun: Any,
    where: Selector = EVERY_VARIABLE,
    *,
    of: str | None = None,
    step: Callable[..., PyTree] | None = None,
    memory: float | None = None,
) -> Callable[..., Flow]:
    """Measure how large the values of a loss, and their gradients, are.

    Each variable has the norms of its values, one for each call and each iteration of a Python loop
    or scan, so for each layer, and the norms of their gradients. This shows where they vanish or
    explode, and which units are dead. If several variables hold one value, the first is shown.

    Args:
        fun: A function of PyTrees of arrays with a scalar as its result, or a tuple that begins
            with one; or a `Program`.
        where: Which values, as for `watch`; by default all variables.
        of: The name of the result to differentiate if it is not the first one:
            ``"out[1]['loss']"``, such as the loss that a training step returns.
        step: A step of an optimizer: a function of the same arguments that returns the new value of
            the first one, the weights, or a tuple that begins with it; or that changes them in
            place, as in a model of flax nnx. With it each weight has the ratio of its update to
            itself; about 0.001 is usual.
        memory: As for `watch`. If it is too little, there are no shares of dead units.

    Returns:
        A function of the arguments of ``fun`` that returns a `Flow`, with a `FlowRow` for each
        variable of floats.

    Raises:
        ArgumentError: If there is no scalar to differentiate, or ``step`` returns no new weights.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(weights, x):
        ...     def layer(x, w):
        ...         h = jax.nn.relu(x @ w)
        ...         return h, None
        ...     x, _ = jax.lax.scan(layer, x, weights)
        ...     return x.sum()
        >>> weights = jnp.stack([jnp.diag(jnp.array([2.0, -1.0]))] * 3)
        >>> rows = {row.variable: row for row in taxpr.flow(loss)(weights, jnp.ones((1, 2))).rows}
        >>> print(rows["h"].norms, rows["h"].grads.round(2), rows["h"].dead)
        [2. 4. 8.] [4.   2.   1.41] [0.5 0.5 0.5]
        >>> def step(weights, x):
        ...     return weights - 0.01 * jax.grad(loss)(weights, x)
        >>> rows = taxpr.flow(loss, step=step)(weights, jnp.ones((1, 2))).rows
        >>> rows[0].variable, rows[0].updates.round(3)
        ('weights', array([0.021]))
    """
    if not hasattr(fun, "jaxpr"):
        refuse_no_function("flow", fun)
    if step is not None:
        refuse_no_function("flow: step", step)
    watched = watch(fun, where, memory=memory, grads=of or True)

    def flowing(*args: PyTree, **kwargs: PyTree) -> Flow:
        with told_as("watch", "flow"):
            rec = watched(*args, **kwargs)
        if not rec.complete:
            raise KeyboardInterrupt
        groups: dict[Any, list[Part]] = {}
        back: dict[tuple[str, str], Part] = {}
        for part in rec.parts:
            if part.cotangent:
                back[part.name.removeprefix("∂ "), part.path] = part
            elif _is_float(part):
                groups.setdefault(_group(part), []).append(part)
        changes = {} if step is None else _changes(step, args, kwargs)
        rows = [
            _row(parts, [back.get((p.name, p.path)) for p in parts], changes)
            for parts in groups.values()
        ]
        rows = once(rows, lambda row: (row.address, row.shape, row.norms.tobytes()))
        headline = f"flow of {rec.name}: {count_of(len(rows), 'variable')}"
        headline += f", gradients of {of}" if of else ""
        answer = Flow(headline, rows, recording=rec)
        notes = [note for note in rec.table().notes if note != FOLDED]
        notes += [FOLDED] if len(answer.listed()) < len(rows) else []
        return dataclasses.replace(answer, notes=tuple(notes))

    return called_as(fun)(flowing)


def _changes(
    step: Callable[..., PyTree], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> dict[str, tuple[Any, Any]]:
    """The norms of the changes of weights, and these as shares of their norms, by addresses."""
    if wrong := unfit(step, *args, **kwargs):
        raise ArgumentError(
            f"flow: step: {name_of(step)}{wrong[0]} was called with other arguments: {wrong[1]}."
        )
    program = trace(step)(*args, **kwargs)
    flat = program.flat(args, kwargs)
    outs = program.outputs(flat)
    inputs = {name: k for k, name in enumerate(program.in_names)}
    changed: list[int] = jax.tree.leaves(program.states_after(range(len(outs))))
    pairs = [(inputs[program.out_names[out]], outs[out]) for out in changed]
    if not pairs:
        pairs = list(enumerate(_returned(args[0] if args else None, program.result(outs))))
    found: dict[str, tuple[Any, Any]] = {}
    for k, now in pairs:
        if is_shared(flat[k]):
            norms = on_all_devices(_norms_of_change, [flat[k], now])
            change, size = (np.float64(float(x)) for x in norms)
        elif jnp.issubdtype(jnp.result_type(flat[k]), jnp.inexact):
            wide: list[Any] = [fetched(x).astype(np.complex128) for x in (flat[k], now)]
            change, size = np.linalg.norm(wide[1] - wide[0]), np.linalg.norm(wide[0])
        else:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            found[f"in{k}"] = change, change / size if flat[k].size else change
    return found


def _norms_of_change(arrays: list[Any]) -> list[Any]:
    before, after = (x.astype(jnp.promote_types(x.dtype, jnp.float32)) for x in arrays)
    return [jnp.linalg.norm(x.ravel()) for x in (after - before, before)]


def _returned(before: PyTree, after: PyTree) -> list[Any]:
    """The arrays of the first argument that a step returns, alone or first in a tuple."""
    leaves, tree = jax.tree.flatten(marked(before))
    if is_sequence(after) and not isinstance(after, list) and _tree(after) != tree:
        after = after[0] if after else None
    new, found = jax.tree.flatten(marked(after))
    shapes = [[jnp.shape(x) for x in of] for of in (leaves, new)]
    if found != tree or shapes[0] != shapes[1]:
        raise ArgumentError(
            "flow: step is to return the new value of the first argument, or a tuple that begins "
            f"with it, of the structure {tree} with arrays of the same shapes; it returned {found}."
        )
    return new


def _tree(x: PyTree) -> Any:
    return jax.tree.structure(marked(x))


def _of_step(parts: Sequence[Part], changes: Mapping[str, tuple[Any, Any]], which: int) -> Any:
    """One of the two numbers of a step for each value; None if no weight is among them."""
    if not any(part.address in changes for part in parts):
        return None
    none = np.nan, np.nan
    each = (np.full(len(_norms(part)), changes.get(part.address, none)[which]) for part in parts)
    return np.concatenate(list(each))


def _one(value: Any) -> Any:
    return float(value[0]) if isinstance(value, np.ndarray) and value.shape == (1,) else value


def _group(part: Part) -> Any:
    one = part.variable
    if one is None:
        return part.name
    return one.owner, one.name, one.path, part.kept.shape


def _is_argument(part: Part) -> bool:
    return Address(part.address).is_argument


def _row(
    parts: Sequence[Part],
    back: Sequence[Part | None],
    changes: Mapping[str, tuple[Any, Any]],
) -> FlowRow:
    first, norms = parts[0], [_norms(part) for part in parts]
    grads = [None if one is None else _norms(one) for one in back]
    known = [np.zeros(len(n)) if g is None else g for g, n in zip(grads, norms, strict=True)]
    name = first.variable.short if first.variable else first.name
    short = _NUMBER.sub("", first.name)
    return FlowRow(
        short if first.variable is None or len(short) <= len(name) else name,
        first.place,
        first.kept.shape,
        np.concatenate(norms),
        None if all(one is None for one in grads) else np.concatenate(known),
        _dead(parts),
        first.address,
        _of_step(parts, changes, 1),
        first.variable.path if first.variable else first.path,
        _of_step(parts, changes, 0),
    )


def _joined(name: str, rows: Sequence[FlowRow]) -> dict[str, Any]:
    """A row for arrays of one tree: the norms of all of them together."""
    norms, ratios = _together([row.norms for row in rows]), None
    if rows[0].updates is not None:
        with np.errstate(divide="ignore", invalid="ignore"):  # of weights that are zero
            ratios = _together([row.changes for row in rows]) / norms
    return {
        "variable": name,
        "line": common([row.line for row in rows], ""),
        "shape": f"{len(rows)} arrays",
        "norms": norms,
        "grads": None if rows[0].grads is None else _together([row.grads for row in rows]),
        "updates": ratios,
        "address": rows[0].address,
        "addresses": tuple(row.address for row in rows),
    }


def _together(norms: Sequence[Any]) -> Any:
    """The norm of several arrays, of each of their norms."""
    return np.hypot.reduce(norms, 0)  # squares of large norms are infinite


def _norms(part: Part) -> Any:
    """The norms of a value in each iteration."""
    stats = part.stats(each=True)
    assert stats is not None, "floats have some"
    norms = np.atleast_1d(np.asarray(stats.norm)).ravel()
    return norms if part.kept.fired is None else np.where(part.kept.fired.ravel(), norms, 0)


def _is_float(part: Part) -> bool:
    return "float" in str(part.kept.dtype)


def _dead(parts: Sequence[Part]) -> Any:
    """For each value the share of units that are zero in all of it; None if it is not known."""
    shape = parts[0].kept.shape
    if len(shape) < 2 or not math.prod(shape) or any(part.kept.value is None for part in parts):
        return None
    shares: list[Any] = []
    for part in parts:
        zero = np.ravel(reduced_by(_ZEROS, [part.kept.value], len(part.kept.axes))[0])
        computed = True if part.kept.fired is None else np.ravel(part.kept.fired)
        shares.append(np.where(_is_argument(part) | ~np.array(computed), np.nan, zero))
    every = np.concatenate(shares)
    return None if np.isnan(every).all() else every
