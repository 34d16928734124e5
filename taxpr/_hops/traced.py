"""`traced`: entries of primitives that run a Python function and define their own derivative.

The equation holds no jaxpr of the function, so taxpr traces it when somebody looks inside.
Injection runs the traced jaxpr with the context in place of the equation, and takes the derivative
by the primitive's own rule, at the injected results. An edit inside, such as a new tag, replaces
the equation by one that does hold the jaxpr. Its primitive is ours but has the same name, so that
addresses stay valid.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import ad

from taxpr import _compat
from taxpr._compat import (
    Array,
    ArrayLike,
    Atom,
    Aval,
    ClosedJaxpr,
    Dims,
    Dot,
    Effects,
    Params,
    Primitive,
    StoredJaxpr,
    Tangent,
    Var,
)
from taxpr._errors import RefusedError
from taxpr._hops.kept import entering, jvp_in, leaving
from taxpr._hops.protocol import Hop, Made, Nested, Thread, plain
from taxpr._hops.rebuild import refuse_refs, untagged
from taxpr._hops.table import bring

# Gives for an equation the function of its operands that it runs.
Run = Callable[[_compat.JaxprEqn], Callable[..., Sequence[Array]]]

_NO_DERIVATIVE = (
    "{name} at {address}{source} has a derivative of its own, which does not cover a context. So "
    "nothing can be differentiated with respect to the context of an injector inside it, or to a "
    "value that the injector closes over. {cure}select other tags with where=, or use "
    "jax.lax.stop_gradient on the context."
)
_DROP = 'Give custom_rules="drop" to differentiate what it runs, '


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
        undroppable: Why ``custom_rules="drop"`` cannot replace the primitive's derivative by that
            of the function; None if it can.
        ignored: Names of params that do not affect the computation, such as an object to which
            tracing writes the output tree.

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
    entry = _Traced(run, label, others, undroppable, ignored)
    return Hop(nested=entry.nested, inject=entry.inject, own_derivative=True)


@dataclasses.dataclass(frozen=True)
class _Traced:
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

    def inject(
        self, eqn: _compat.JaxprEqn, ctx: list[Array], operands: list[Array], thread: Thread
    ) -> Made:
        inner = thread(self.label)
        name = eqn.primitive.name
        if thread.options.custom_rules == "drop":
            if self.undroppable is not None:
                source = _compat.source_of(eqn)
                raise RefusedError(
                    f"inject: custom_rules={'drop'!r} is given, and {name} at {thread.address}"
                    f"{_compat.source_note(source)} keeps its derivative: {self.undroppable}. "
                    "Leave it out, or select other tags with where=."
                )
            return inner(ctx, operands)
        refuse_refs(name, thread, inner, eqn)
        jaxpr, own = inner.hoisted
        run = _with_derivative_of(self, eqn, jaxpr, changed=not thread.observes)
        own_in, ctx_in = entering(thread, own, ctx, self._refusal(eqn, thread))
        flat = run([*own_in, *ctx_in], list(operands))
        given = [*own, *ctx, *operands]
        of_ctx = range(len(own), len(own) + len(ctx))
        return leaving(thread, jaxpr, given, of_ctx, inner.unpack(flat))

    def _refusal(self, eqn: _compat.JaxprEqn, thread: Thread) -> str:
        return _NO_DERIVATIVE.format(
            name=eqn.primitive.name,
            address=thread.address,
            source=_compat.source_note(_compat.source_of(eqn)),
            cure="Either " if self.undroppable else _DROP,
        )


# ---- tracing -----------------------------------------------------------------

_KEPT = 256  # traced functions in the cache
_known: dict[Hashable, tuple[ClosedJaxpr, Params]] = {}
_lock = threading.Lock()


def _jaxpr_of(entry: _Traced, eqn: _compat.JaxprEqn) -> ClosedJaxpr:
    """Trace the function of an equation. Identical params and types give the identical jaxpr.

    The cache compares params by identity: equal ones may differ in meaning, as 0.0 and -0.0 do.
    """
    avals = tuple(_compat.aval_of(atom) for atom in eqn.invars)
    params = tuple((name, id(value)) for name, value in eqn.params.items())
    key = (entry.run, eqn.primitive, params, avals, eqn.ctx, _compat.trace_key())
    with _lock:
        known = _known.get(key)
    if known is None:
        known = _trace(entry, eqn, avals), eqn.params  # keeps the params, whose ids are in the key
        with _lock:
            known = _known.setdefault(key, known)  # another thread may have been faster
            while len(_known) > _KEPT:
                del _known[next(iter(_known))]
    return known[0]


def _trace(entry: _Traced, eqn: _compat.JaxprEqn, avals: Sequence[Aval]) -> ClosedJaxpr:
    run = entry.run(eqn)

    def typed(*operands: Array) -> list[Array]:
        results = zip(run(*operands), eqn.outvars, strict=True)
        weak = ((x, getattr(var.aval, "weak_type", False)) for x, var in results)
        return [_compat.with_weak_type(x, is_weak) for x, is_weak in weak]

    with _compat.as_traced(eqn, _compat.mesh_at(eqn, is_hop=True)):
        return _compat.make_jaxpr(typed)(*avals)


# ---- the derivative ----------------------------------------------------------


def _with_derivative_of(
    entry: _Traced, eqn: _compat.JaxprEqn, jaxpr: ClosedJaxpr, changed: bool
) -> Callable[[list[Array], list[Array]], list[Array]]:
    """Make ``(hidden, operands) -> results`` of a jaxpr, differentiated by the equation's rule.

    The first results of the jaxpr are those of the equation; further results have zero tangent.
    ``changed`` says whether injection may have changed the equation's results.
    """
    eqn = untagged(_plain(eqn.params) if _HELD in eqn.params else eqn)
    n_out = len(eqn.outvars)

    def function(hidden: list[Array], operands: list[Array]) -> list[Array]:
        return list(_compat.jaxpr_as_fun(jaxpr)(*hidden, *operands))

    function.__name__ = eqn.primitive.name  # JAX records it in the jaxpr
    run = jax.custom_jvp(function)

    def rule(
        primals: tuple[list[Array], list[Array]], tangents: tuple[list[Dot], list[Dot]]
    ) -> tuple[list[Array], list[Any]]:  # JAX does not declare that there may be symbolic zeros
        flat = run(*primals)
        moved = _tangents(entry, eqn, primals[1], flat[:n_out], tangents[1], changed)
        return flat, [*moved, *map(_compat.symbolic_zero, flat[n_out:])]

    run.defjvp(rule, symbolic_zeros=True)
    return run


def _tangents(
    entry: _Traced,
    eqn: _compat.JaxprEqn,
    operands: Sequence[Array],
    results: Sequence[Array],
    dots: Sequence[Dot],
    changed: bool,
) -> list[Dot]:
    """The tangents of an equation by its own rule, at results that injection may have changed.

    A rule usually computes the results by binding the equation again. `_given_results` finds that
    equation in the traced rule and puts the given results in its place.
    """
    moving = {k: dot for k, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)}
    inexact = [jnp.issubdtype(jnp.result_type(x), jnp.inexact) for x in results]

    def own(operands: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        def bound(*every: Array) -> list[Array]:
            return _compat.bind(eqn.primitive, every, eqn.params)

        _, found = jvp_in(bound, operands, dict(zip(moving, given, strict=True)))
        return [dot for dot, one in zip(found, inexact, strict=True) if one]

    given = [*moving.values()]
    bare = _compat.make_jaxpr(own)(list(operands), given)
    jaxpr = _given_results(entry, eqn, bare, results, changed)
    found = iter(_compat.jaxpr_as_fun(jaxpr)(*operands, *given, *results))
    return [
        next(found) if one else _compat.symbolic_zero(x)
        for x, one in zip(results, inexact, strict=True)
    ]


def _given_results(
    entry: _Traced,
    eqn: _compat.JaxprEqn,
    jaxpr: ClosedJaxpr,
    results: Sequence[Array],
    changed: bool,
) -> ClosedJaxpr:
    """The jaxpr with the results of the equation as last inputs, instead of computing them."""
    inner = _compat.open_jaxpr(jaxpr)
    own, more = inner.invars[: len(eqn.invars)], [_compat.fresh_var(jax.typeof(x)) for x in results]
    instead: dict[Var, Var] = {}

    def read(atoms: Sequence[Atom]) -> list[Atom]:
        return [x if _compat.is_literal(x) else instead.get(x, x) for x in atoms]

    eqns: list[_compat.JaxprEqn] = []
    for one in inner.eqns:
        same = one.primitive is eqn.primitive and _same(one.invars, own)
        if same and _same_params(entry, one.params, eqn.params):
            instead |= dict(zip(one.outvars, more, strict=True))
        else:
            eqns.append(one.replace(invars=read(one.invars)))
    if changed and not instead:
        raise RefusedError(
            f"inject: cannot differentiate {eqn.primitive.name} at the injected results, because "
            "its derivative rule does not compute the results by the primitive itself. Select "
            'other tags with where=, or give custom_rules="drop" to differentiate what it runs.'
        )
    outvars = read(inner.outvars)
    return _compat.rebuilt(jaxpr, eqns=eqns, invars=[*inner.invars, *more], outvars=outvars)


def _same(atoms: Sequence[Atom], others: Sequence[Atom]) -> bool:
    return [*map(id, atoms)] == [*map(id, others)]


def _same_params(entry: _Traced, params: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    names = params.keys() | others.keys()
    return params.keys() == others.keys() and all(
        _same_param(params[name], others[name]) for name in names.difference(entry.ignored)
    )


def _is_array(value: object) -> TypeGuard[ArrayLike]:
    return isinstance(value, np.ndarray | jax.Array)


def _same_param(param: object, other: object) -> bool:
    # `==` is not enough: 0.0 == -0.0 and 1 == True.
    if param is other:
        return True
    if type(param) is not type(other):
        return False
    if _is_array(param) and _is_array(other):
        a, b = np.asarray(param), np.asarray(other)
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    leaves, tree = jax.tree.flatten(param)
    if not (len(leaves) == 1 and leaves[0] is param):  # it may hold arrays, which have no truth
        others, other_tree = jax.tree.flatten(other)
        return tree == other_tree and all(map(_same_param, leaves, others))
    return bool(param == other) and repr(param) == repr(other)


# ---- the equation that holds the jaxpr ---------------------------------------

# The equation that holds the jaxpr has the params of the original and two more: the jaxpr and the
# original equation.
_HELD, _OF = "held_jaxpr", "held_of"
_holding: dict[tuple[Primitive, _Traced], Primitive] = {}


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


def _primitive_holding(primitive: Primitive, entry: _Traced) -> Primitive:
    """Our primitive with the name of the given one, for equations that hold the traced jaxpr."""
    with _lock:
        key = primitive, entry
        if key not in _holding:
            _holding[key] = _new_primitive(primitive.name, entry)
            hop = Hop(nested=entry.nested, inject=entry.inject, own_derivative=True)
            bring(_holding[key], hop)
        return _holding[key]


def _new_primitive(name: str, entry: _Traced) -> Primitive:
    def run(*operands: Array, **params: Any) -> list[Array]:
        return list(_compat.jaxpr_as_fun(params[_HELD])(*operands))

    def differentiable(params: Params) -> Callable[..., list[Array]]:
        function = _with_derivative_of(entry, _plain(params), params[_HELD], changed=False)

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
