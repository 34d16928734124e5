"""Run a program past an error that one of its callbacks raises, to see what came before."""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from taxpr import _compat
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._untyped import np


@dataclasses.dataclass(eq=False)
class Raised:
    """The callbacks of a program that raised in a run.

    Attributes:
        error: The first error that one raised; None if there was none.
        callbacks: Those that gave nothing, since they raised it or came later, by identity.
    """

    error: Exception | None = None
    callbacks: dict[int, object] = dataclasses.field(default_factory=dict[int, object])


def past_errors(stored: _compat.J, raised: Raised) -> _compat.J:
    """The jaxpr with callbacks that keep their first error and do not end the run.

    From then on no callback is called, since the program itself would have ended. Their results are
    NaN: it spreads to all further values, and makes most conditions of loops false. If the dtype
    has no NaN, they are zeros. A jaxpr that its equation keeps hidden stays unchanged.

    Args:
        stored: An open or closed jaxpr.
        raised: Keeps what became of them.
    """
    known: dict[int, tuple[Any, Any]] = {}  # a jaxpr that is called often stays shared

    def past(stored: Any) -> Any:
        if id(stored) not in known:
            inner = _compat.open_jaxpr(stored)
            eqns = [past_in(eqn) for eqn in inner.eqns]
            same = all(map(operator.is_, eqns, inner.eqns))
            known[id(stored)] = stored, stored if same else _compat.rebuilt(stored, eqns=eqns)
        return known[id(stored)][1]

    def past_in(eqn: _compat.JaxprEqn) -> _compat.JaxprEqn:
        callback = eqn.params.get("callback")
        if eqn.primitive in _compat.callbacks and callback is not None:
            guarded = _Guarded(callback, eqn, raised)
            return eqn.replace(params={**eqn.params, "callback": guarded})
        held = [one for one in nested_jaxprs(eqn) if one.param is not None]
        new = {one.label: past(one.stored) for one in held}
        changed = {one.label: new[one.label] for one in held if new[one.label] is not one.stored}
        return replace_nested(eqn, changed) if changed else eqn

    return past(stored)


class _Guarded:
    """A callback of JAX that returns NaN once one has raised."""

    def __init__(self, callback: Callable[..., Any], eqn: _compat.JaxprEqn, raised: Raised) -> None:
        self._callback, self._raised = callback, raised
        avals: list[Any] = [var.aval for var in eqn.outvars]
        self._types = [(aval.shape, aval.dtype) for aval in avals]

    def __call__(self, *args: Any) -> Any:
        if self._raised.error is None:
            try:
                return self._callback(*args)
            except Exception as error:
                self._raised.error = error
        self._raised.callbacks[id(self._callback)] = self._callback
        return tuple(
            np.full(shape, np.nan if jnp.issubdtype(dtype, jnp.inexact) else 0, dtype)
            for shape, dtype in self._types
        )
