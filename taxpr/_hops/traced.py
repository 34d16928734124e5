"""`traced`: entries of primitives that run a Python function and define their own derivative.

The equation holds no jaxpr of the function, so taxpr traces it when somebody looks inside.
Injection runs the traced jaxpr with the context in place of the equation, and takes the derivative
by the primitive's own rule, at the injected results. An edit inside, such as a new tag, replaces
the equation by one that does hold the jaxpr. Its primitive is ours but has the same name, so that
addresses stay valid.
"""

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.interpreters import ad

from taxpr import _compat
from taxpr._compat import (
    Array,
    Aval,
    ClosedJaxpr,
    Dims,
    Effects,
    Params,
    Primitive,
    StoredJaxpr,
    Tangent,
)
from taxpr._errors import RefusedError
from taxpr._hops.kept import jvp_in
from taxpr._hops.nested import Nested, plain
from taxpr._hops.own_derivative import OwnRule, keep_derivative
from taxpr._hops.protocol import Hop, Made, Thread
from taxpr._hops.table import bring
from taxpr._recent import Recent

# Gives for an equation the function of its operands that it runs.
Run = Callable[[_compat.JaxprEqn], Callable[..., Sequence[Array]]]


def traced(
    run: Run,
    *,
    label: str = "body",
    others: Callable[[_compat.JaxprEqn], Sequence[Nested]] = lambda eqn: (),
    undroppable: str | None = None,
    ignored: tuple[str, ...] = (),
) -> Hop:
    """The entry of a primitive that runs a Python function.

    taxpr looks into its equations as if they held the jaxpr of that function. They keep the
    derivative of the primitive. ``run`` and ``others`` must be deterministic: the same equation
    gives the same function and jaxprs.

    Args:
        run: ``(eqn) -> function``: the function that the equation runs, from operands to results,
            in operations of JAX.
        label: The label of its jaxpr.
        others: ``(eqn) -> nested jaxprs``: the jaxprs among the params. They do not run by
            themselves, so mark them as `Nested.idle`.
        undroppable: Why ``custom_rules="drop"`` cannot replace the primitive's derivative by the
            function's; None if it can.
        ignored: Names of params that do not affect the computation, such as an object that receives
            the output tree during tracing.

    Example:
        >>> import jax, jax.extend.core as jex, jax.numpy as jnp, taxpr
        >>> from taxpr.hops import traced
        >>> def square_root(x):  # by five steps of Newton's method
        ...     return [jax.lax.fori_loop(0, 5, lambda i, y: (y + x / y) / 2, x)]
        >>> root_p = jex.Primitive("root")
        >>> root_p.multiple_results = True
        >>> _ = root_p.def_impl(square_root)
        >>> _ = root_p.def_abstract_eval(lambda x: [x])
        >>> taxpr.register_hop(root_p, traced(lambda eqn: square_root))
        >>> program = taxpr.trace(lambda x: root_p.bind(x)[0])(jnp.float32(2))
        >>> steps = program.tag_at("0:root/body/0:scan/body/3:div", name="y").collect()(2.0)[1]
        >>> steps["y"].shape
        (5,)
    """
    entry = TracedHop(run, label, others, undroppable, ignored)
    return Hop(nested=entry.nested, inject=entry, own_derivative=True)


@dataclasses.dataclass(frozen=True)
class TracedHop:
    """The entry of a primitive that runs a Python function; called, it is its `Hop.inject`."""

    run: Run
    label: str
    others: Callable[[_compat.JaxprEqn], Sequence[Nested]]
    undroppable: str | None
    ignored: tuple[str, ...]

    def nested(self, eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
        title = f"{eqn.primitive.name} {self.label}"
        if _HELD in eqn.params:
            held = plain(self.label, title, (_HELD,), eqn.params[_HELD])
        else:
            jaxpr = _jaxpr_of(self, eqn)
            held = plain(self.label, title, None, jaxpr, rebuilt=self._holding)
        return (held, *self.others(eqn))

    def _holding(self, eqn: _compat.JaxprEqn, jaxpr: StoredJaxpr) -> _compat.JaxprEqn:
        """The equation replaced by one that holds the jaxpr and has the same results."""
        return eqn.replace(
            primitive=_primitive_holding(eqn.primitive, self),
            params={**eqn.params, _HELD: jaxpr, _OF: _Former(eqn)},
            effects=_compat.open_jaxpr(jaxpr).effects,
        )

    def __call__(
        self, eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
    ) -> Made:
        inner = thread(self.label)
        if thread.options.custom_rules == "drop":
            if self.undroppable is not None and not thread.options.only_run:
                raise RefusedError(
                    f"inject: custom_rules={'drop'!r} is given, and {thread.place} keeps its "
                    f"derivative: {self.undroppable}. Leave it out, or select other tags with "
                    "where=."
                )
            return inner(ctx, operands)
        return keep_derivative(
            _plain(eqn.params) if _HELD in eqn.params else eqn,
            ctx,
            operands,
            thread,
            inner.hoisted,
            inner.unpack,
            ignored=self.ignored,
            droppable=not self.undroppable,
        )


# ---- tracing -----------------------------------------------------------------

_known = Recent[tuple[ClosedJaxpr, Params]](256)  # traced functions


def _jaxpr_of(entry: TracedHop, eqn: _compat.JaxprEqn) -> ClosedJaxpr:
    """Trace the function of an equation. Identical params and types give the identical jaxpr.

    The cache compares params by identity: equal ones may differ in meaning, as 0.0 and -0.0 do.
    """
    avals = tuple(_compat.aval_of(atom) for atom in eqn.invars)
    params = tuple((name, id(value)) for name, value in eqn.params.items())
    key = (entry.run, eqn.primitive, params, avals, eqn.ctx, _compat.trace_key())
    # The params are kept, too, as their ids are in the key.
    return _known.once(key, lambda: (_trace(entry, eqn, avals), eqn.params))[0]


def _trace(entry: TracedHop, eqn: _compat.JaxprEqn, avals: Sequence[Aval]) -> ClosedJaxpr:
    run = entry.run(eqn)

    def typed(*operands: Array) -> list[Array]:
        results = zip(run(*operands), eqn.outvars, strict=True)
        weak = ((x, getattr(var.aval, "weak_type", False)) for x, var in results)
        return [_compat.with_weak_type(x, is_weak) for x, is_weak in weak]

    with _compat.as_traced(eqn, _compat.mesh_at(eqn, is_hop=True)):
        return _compat.make_jaxpr(typed)(*avals)


# ---- the equation that holds the jaxpr ---------------------------------------

# The equation that holds the jaxpr has the params of the original and two more: the jaxpr and the
# original equation.
_HELD, _OF = "held_jaxpr", "held_of"
_holding: dict[tuple[Primitive, TracedHop], Primitive] = {}
_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, eq=False)
class _Former:
    """The original equation, wrapped so that JAX does not look at its variables."""

    eqn: _compat.JaxprEqn

    def __repr__(self) -> str:
        return self.eqn.primitive.name


def _plain(params: Params) -> _compat.JaxprEqn:
    """The original equation, with the current params: its own jaxprs may have been edited."""
    params = dict(params)
    del params[_HELD]
    return params.pop(_OF).eqn.replace(params=params)


def _primitive_holding(primitive: Primitive, entry: TracedHop) -> Primitive:
    """Our primitive with the name of the given one, for equations that hold the traced jaxpr."""
    with _lock:
        key = primitive, entry
        if key not in _holding:
            _holding[key] = _new_primitive(primitive.name, entry)
            hop = Hop(nested=entry.nested, inject=entry, own_derivative=True)
            bring(_holding[key], hop)
        return _holding[key]


def _new_primitive(name: str, entry: TracedHop) -> Primitive:
    def run(*operands: Array, **params: Any) -> list[Array]:
        return list(_compat.jaxpr_as_fun(params[_HELD])(*operands))

    def differentiable(params: Params) -> Callable[..., list[Array]]:
        rule = OwnRule(_plain(params), changed=False, ignored=entry.ignored)
        function = rule.of(params[_HELD])

        def of_operands(*operands: Array) -> list[Array]:
            return function([], list(operands))

        return of_operands

    def types(*avals: Aval, **params: Any) -> tuple[Sequence[Aval], Effects]:
        del avals
        jaxpr = params[_HELD]
        return jaxpr.out_avals, _compat.open_jaxpr(jaxpr).effects

    def jvp(
        primals: Sequence[Array], tangents: Sequence[Tangent], **params: Any
    ) -> tuple[list[Array], list[Tangent]]:
        moving = {k: dot for k, dot in enumerate(tangents) if not isinstance(dot, ad.Zero)}
        out, dots = jvp_in(differentiable(params), primals, moving)
        zeros = [ad.Zero(_compat.tangent_aval(jax.typeof(x))) for x in out]
        whole = zip(dots, zeros, strict=True)
        return out, [zero if dot.dtype == jax.float0 else dot for dot, zero in whole]

    def batch(
        operands: Sequence[Array], dims: Dims, **params: Any
    ) -> tuple[list[Array], list[int]]:
        out = jax.vmap(differentiable(params), in_axes=tuple(dims))(*operands)
        return out, [0] * len(out)

    primitive = _compat.ManyResults(name)
    _compat.define(primitive, impl=run, effectful_types=types, jvp=jvp, batch=batch)
    return primitive
