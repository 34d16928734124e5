"""Ready injectors that observe the token and do not change it."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, Aval, Params, PyTree
from taxpr._errors import ArgumentError, InjectorError
from taxpr._injectors.count_nonfinite import NONE_FOUND, added, of_all, with_found
from taxpr._injectors.declare import injector
from taxpr._injectors.injector import Report
from taxpr._injectors.per_iteration import by_iteration
from taxpr._jaxprs.zeros import zeros
from taxpr._sites.site import Site

# `record` keeps every firing if the buffer is not larger than this; otherwise the last one.
_RECORD_BYTES = 64 * 2**20


def _at_each(state: PyTree) -> Callable[[Site], PyTree]:
    """A state that is the same at each site to begin with."""

    def first(site: Site) -> PyTree:
        del site
        return state

    return first


@by_iteration
@injector(state=_at_each(0), report=lambda state: {"count": state}, adds_up=True, observes=True)
def count(token: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
    """Count how often the tag fires.

    With ``per="iteration"`` it counts for each iteration of the loops around the tag by itself:
    on one leading axis for each loop, the outermost first, as `collect` stacks values. A while
    loop needs ``max_steps``, the number of iterations that have a row. The report then also has
    ``beyond``, the number of firings in later iterations.

    Example:
        >>> import jax
        >>> from taxpr import count, tag, trace
        >>> def f(x):
        ...     return jax.lax.while_loop(lambda x: x < 9, lambda x: tag(2 * x, name="x"), x)
        >>> counted = trace(f)(1).inject(count())
        >>> counted.report(counted(counted.ctx, 1)[1])
        {'0:while/body/t0': {'count': Array(4, dtype=int32)}}
        >>> counted = trace(f)(1).inject(count(per="iteration", max_steps=6))
        >>> counted.report(counted(counted.ctx, 1)[1])["0:while/body/t0"]["count"]
        Array([1, 1, 1, 1, 0, 0], dtype=int32)
    """
    return token, state + 1


# ---- record ------------------------------------------------------------------


def _check_slots(slots: int | None) -> None:
    if slots is not None and (not isinstance(slots, int) or slots < 1):
        raise InjectorError(f"record: slots={slots!r}; it is a number from 1 on, or None.")


def _check_sizes(site: Site, avals: Sequence[Aval]) -> None:
    for aval in avals:
        if not all(isinstance(size, int) for size in aval.shape):
            raise InjectorError(
                f"record: the token of the {site} is {aval.str_short()}, whose size is not known "
                "yet. Its slots are a part of the context, which is made before the run. Use "
                "collect, which returns values, or an injector that keeps numbers, such as "
                "stats."
            )


def _slots(site: Site, slots: int | None) -> dict[str, PyTree]:
    avals = jax.tree.leaves(site.avals)
    _check_sizes(site, avals)
    if slots is None:
        size = sum(aval.size * getattr(aval.dtype, "itemsize", 8) for aval in avals)
        trips = site.trips
        fits = trips is not None and trips * size <= _RECORD_BYTES
        slots = max(trips, 1) if fits and trips is not None else 1

    def buffer(aval: Aval) -> Array:
        out = zeros((slots, *aval.shape), aval.dtype)
        # Otherwise each device has the whole buffer.
        return _compat.resharded(out, aval, 1) if _compat.devices_are_known(aval) else out

    return {"values": jax.tree.map(buffer, site.avals), "count": jnp.int32(0)}


def _recorded(state: PyTree) -> Report:
    """The kept values in order of firing, and the number of firings."""
    if state["count"].ndim:
        raise ArgumentError(
            "record: the context has more axes than one run gives it, as when jax.vmap mapped "
            "the program. Report each batch element by itself: report(jax.tree.map(lambda x: "
            "x[k], ctx))."
        )
    fired, buffers = int(state["count"]), state["values"]
    leaves = jax.tree.leaves(buffers)
    slots = leaves[0].shape[0] if leaves else fired
    first = fired % slots if fired > slots else 0

    def kept(buffer: Array) -> Array:
        # Each step is a copy, which of a large value takes as long as to compute it.
        buffer = jnp.roll(buffer, -first, axis=0) if first else buffer
        return buffer[:fired] if fired < slots else buffer

    values = _compat.map_leaves(kept, buffers)
    return {"count": state["count"], "values": values}


@injector(
    state=_slots, report=_recorded, options={"slots": None}, check=_check_slots, observes=True
)
def record(token: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
    """Keep the values of the token; if there are more than slots, the last ones.

    With ``slots=None`` there is a slot for each time that the tag can fire, such as the iterations
    of a scan. There is only one, for the last value, if that number is known only at run time, as
    in a while loop, or if all would take more than 64 MiB.

    On a mesh with explicit axes that `jax.set_mesh` has set, the slots are sharded as the token is.
    If it is not set, each device has all of them.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import record, tag, trace
        >>> xs = jnp.arange(4)
        >>> program = trace(lambda xs: jax.lax.map(lambda x: tag(2 * x, name="y"), xs))(xs)
        >>> recorded = program.inject(record(slots=2))
        >>> out, ctx = recorded(recorded.ctx, xs)
        >>> recorded.report(ctx)["0:scan/body/t0"]["values"]
        Array([4, 6], dtype=int32)
    """

    def put(buffer: Array, x: Array) -> Array:
        slot = jax.lax.rem(state["count"], jnp.int32(buffer.shape[0]))
        update = _compat.resharded(jnp.expand_dims(x, 0), buffer)
        buffer = _compat.on_mesh_of(buffer, update)
        return jax.lax.dynamic_update_slice_in_dim(buffer, update, slot, 0)

    buffers = jax.tree.map(put, state["values"], token)
    return token, {"values": buffers, "count": state["count"] + 1}


# ---- stats -------------------------------------------------------------------

# Elements are counted in blocks and a rest, as an int32 ends at 2**31.
_BLOCK = 2**30

_NO_STATS = {
    "count": 0,
    "blocks": 0,
    "elements": 0,
    "mean": 0.0,
    "squares": 0.0,
    "min": jnp.inf,
    "max": -jnp.inf,
    **NONE_FOUND,
}


def _reported(state: dict[str, Array]) -> Report:
    elements = jnp.maximum(_elements(state), 1)
    variance = state["squares"] / elements
    norm = jnp.sqrt(state["squares"] + elements * state["mean"] ** 2)
    shown = {name: state[name] for name in ("count", "mean", "min", "max")}
    return {**shown, "std": jnp.sqrt(variance), "norm": norm, **of_all(state)}


def _elements(state: dict[str, Array]) -> Array:
    dtype = state["mean"].dtype
    return state["blocks"].astype(dtype) * _BLOCK + state["elements"].astype(dtype)


@by_iteration
@injector(state=_at_each(_NO_STATS), report=_reported, observes=True)
def stats(token: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
    """Keep mean, std, min, max, norm and the number of non-finite values of all firings.

    With ``per="iteration"`` there is a row of these for each iteration of the loops around the
    tag, and ``max_steps`` of them in a while loop, as for `count`.

    Non-finite values are counted, ``nan``, ``+inf`` and ``-inf`` apart and ``nonfinite`` together,
    and left out of the rest. Complex numbers enter by their absolute value. All but the counts is
    computed in float32, or float64 if that is enabled: integers beyond 2**24 are rounded, and
    squares beyond the range are infinite.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import stats, tag, trace
        >>> x = jnp.array([1.0, 3.0, jnp.inf])
        >>> watched = trace(lambda x: tag(x, name="x"))(x).inject(stats())
        >>> report = watched.report(watched(watched.ctx, x)[1])["t0"]
        >>> {name: float(report[name]) for name in ("mean", "max", "nonfinite")}
        {'mean': 2.0, 'max': 3.0, 'nonfinite': 1.0}
        >>> xs = jnp.arange(6.0).reshape(3, 2)
        >>> rows = trace(lambda xs: jax.lax.map(lambda x: tag(x, name="x"), xs))(xs)
        >>> rows = rows.inject(stats(per="iteration"))
        >>> rows.report(rows(rows.ctx, xs)[1])["0:scan/body/t0"]["mean"].tolist()
        [0.5, 2.5, 4.5]
    """
    state = {**state, "count": state["count"] + 1}
    for x in jax.tree.leaves(token):
        state = _with_seen(state, x)
    return token, state


def _with_seen(state: dict[str, Array], x: Array) -> dict[str, Array]:
    if _compat.is_extended(x.dtype):
        raise InjectorError(f"stats: the token is a {x.dtype}, which has no arithmetic.")
    if jnp.issubdtype(x.dtype, jnp.inexact):
        state = with_found(state, x)
    x = jnp.abs(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x
    x = x.astype(state["mean"].dtype)
    finite = jnp.isfinite(x)
    # Combine the moments of two samples by the formula of Chan, Golub and LeVeque.
    new = jnp.sum(finite, dtype=state["elements"].dtype)
    total = state["elements"] + new % _BLOCK
    n, before = new.astype(x.dtype), _elements(state)
    mean = jnp.sum(jnp.where(finite, x, 0)) / jnp.maximum(n, 1)
    squares = jnp.sum(jnp.where(finite, x - mean, 0) ** 2)
    delta, share = mean - state["mean"], n / jnp.maximum(before + n, 1)
    return {
        **state,
        "blocks": state["blocks"] + new // _BLOCK + total // _BLOCK,
        "elements": total % _BLOCK,
        "mean": state["mean"] + delta * share,
        "squares": state["squares"] + squares + delta * (before * share * delta),
        "min": jnp.minimum(state["min"], jnp.min(x, where=finite, initial=jnp.inf)),
        "max": jnp.maximum(state["max"], jnp.max(x, where=finite, initial=-jnp.inf)),
    }


# ---- check_finite ------------------------------------------------------------

_ALL_FINITE = {"count": 0, "firings": 0, "first": -1, "first_nan": -1, **NONE_FOUND}


def _found(state: dict[str, Array]) -> Report:
    return {**{name: state[name] for name in _ALL_FINITE}, **of_all(state)}


@by_iteration
@injector(state=_at_each(_ALL_FINITE), report=_found, observes=True)
def check_finite(token: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
    """Count values that are NaN or infinite, and remember when they came first.

    It raises nothing. Its report has ``count``, how often the tag fired; ``nan``, ``+inf`` and
    ``-inf``, how many elements of each kind, and ``nonfinite``, how many all together; ``firings``,
    how many firings had some; ``first``, the number of the first such firing, counted from 0, or
    -1; and ``first_nan``, the number of the first firing with a NaN. So a mask of -inf, as in
    attention, is told from a NaN. A complex number counts as NaN if a part is NaN, else as infinite
    if a part is.

    With ``per="iteration"`` there is a row for each iteration of the loops around the tag, and
    ``max_steps`` of them in a while loop, as for `count`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import check_finite, tag, trace
        >>> xs = jnp.array([2.0, 1.0, 0.0])
        >>> program = trace(lambda xs: jax.lax.map(lambda x: tag(1 / x, name="y"), xs))(xs)
        >>> checked = program.inject(check_finite())
        >>> report = checked.report(checked(checked.ctx, xs)[1])["0:scan/body/t0"]
        >>> {name: int(report[name]) for name in ("nan", "+inf", "first", "first_nan")}
        {'nan': 0, '+inf': 1, 'first': 2, 'first_nan': -1}
    """
    now = {**state, **dict.fromkeys(NONE_FOUND, jnp.zeros_like(state["count"]))}
    for x in jax.tree.leaves(token):
        if not _compat.is_extended(x.dtype) and jnp.issubdtype(x.dtype, jnp.inexact):
            now = with_found(now, x)
    bad, nan = of_all(now)["nonfinite"] > 0, now["nan"] > 0

    def first(name: str, found: Array) -> Array:
        return jnp.where(found & (state[name] < 0), state["count"], state[name])

    return token, {
        **{name: added(state[name], now[name]) for name in NONE_FOUND},
        "count": state["count"] + 1,
        "firings": state["firings"] + bad.astype(state["firings"].dtype),
        "first": first("first", bad),
        "first_nan": first("first_nan", nan),
    }


# ---- print -------------------------------------------------------------------


@injector(observes=True)
def print(token: PyTree, params: Params) -> PyTree:
    """Print the token with the tag's name at each firing.

    It prints by `jax.debug.print`, also in compiled code, and for each batch element of a
    `jax.vmap` outside of the program; lines may come in another order than the firings.

    Example:
        >>> import jax
        >>> import taxpr
        >>> shown = taxpr.trace(lambda x: taxpr.tag(x * 2, name="y"))(1.0).inject(taxpr.print())
        >>> out, ctx = shown(shown.ctx, 3.0); jax.effects_barrier()
        y: 6.0
    """
    shown = _compat.map_leaves(
        lambda x: jax.random.key_data(x) if _compat.is_extended(x.dtype) else x, token
    )
    # The name is an argument and not part of the format, because it may contain braces.
    jax.debug.print("{name}: {token}", name=str(params.get("name", params)), token=shown)
    return token
