"""Keep the derivative rule of a primitive where something else runs in the equation's place.

Used by `traced`, and for entries of `register_hop` whose primitive has a derivative of its own.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, Atom, ClosedJaxpr, Dot, Var
from taxpr._errors import RefusedError
from taxpr._hops.kept import entering, jvp_in, leaving
from taxpr._hops.protocol import Emits, Made, Thread
from taxpr._hops.rebuild import refuse_refs, tags_in, untagged

# Splits the results of a jaxpr into context, results and emissions.
Unpack = Callable[[Sequence[Array]], tuple[list[Array], list[Array], Emits]]

_NO_DERIVATIVE = (
    "inject: at {tags}: {place} has a derivative of its own, which does not cover a context. So "
    "nothing can be differentiated with respect to the context of an injector inside it, or to a "
    "value that the injector closes over. {fix}select other tags with where=, or use "
    "jax.lax.stop_gradient on the context.{hint}"
)
_NO_DERIVATIVE_OF_STATES = (
    "uncurry: a derivative is taken with respect to a state: {tags}, in {place}. {name} has a "
    "derivative of its own, which does not cover states. Read the state before, and give {name} "
    "the value, or end the derivative with jax.lax.stop_gradient.{hint}"
)
_DROP = 'Give custom_rules="drop" to differentiate what it runs, '


def keep_derivative(
    eqn: _compat.JaxprEqn,
    ctx: Sequence[Array],
    operands: Sequence[Array],
    thread: Thread,
    run: tuple[ClosedJaxpr, list[Array]],
    unpack: Unpack,
    *,
    ignored: tuple[str, ...] = (),
    droppable: bool = True,
    hint: str = "",
) -> Made:
    """Run a jaxpr in the place of the equation, which keeps its derivative at the new results.

    Args:
        eqn: The equation.
        ctx: The context.
        operands: The operands of the equation.
        thread: The thread of the equation.
        run: A jaxpr ``(*consts, *ctx, *operands) -> (*results, *ctx, *emissions)``, and the consts.
        unpack: Splits the results of the jaxpr.
        ignored: Names of params that do not affect the computation.
        droppable: Whether ``custom_rules="drop"`` is a way out.
        hint: More that refusals say.
    """
    jaxpr, own = run
    name = eqn.primitive.name
    refuse_refs(name, thread, own)
    text = _NO_DERIVATIVE_OF_STATES if thread.options.states else _NO_DERIVATIVE
    text = text.format(
        name=name,
        tags=tags_in(thread),
        place=thread.place,
        fix=_DROP if droppable else "Either ",
        hint=hint,
    )
    own_in, ctx_in = entering(thread, own, ctx, text)
    rule = OwnRule(eqn, changed=not thread.observes, ignored=ignored, hint=hint)
    flat = rule.of(jaxpr)([*own_in, *ctx_in], list(operands))
    given = [*own, *ctx, *operands]
    return leaving(thread, jaxpr, given, range(len(own), len(own) + len(ctx)), unpack(flat))


@dataclasses.dataclass(frozen=True)
class OwnRule:
    """The derivative rule of an equation, for something else that runs in its place.

    Attributes:
        eqn: The equation.
        changed: Whether injection may have changed the results of the equation.
        ignored: Names of params that do not affect the computation.
        hint: More that a refusal says.
    """

    eqn: _compat.JaxprEqn
    changed: bool
    ignored: tuple[str, ...] = ()
    hint: str = ""

    def of(self, jaxpr: ClosedJaxpr) -> Callable[[list[Array], list[Array]], list[Array]]:
        """Make ``(hidden, operands) -> results`` of a jaxpr, differentiated by the rule.

        The first results of the jaxpr are the equation's; others have zero tangent.
        """
        n_out = len(self.eqn.outvars)
        plain = dataclasses.replace(self, eqn=untagged(self.eqn))

        def function(hidden: list[Array], operands: list[Array]) -> list[Array]:
            return list(_compat.jaxpr_as_fun(jaxpr)(*hidden, *operands))

        function.__name__ = self.eqn.primitive.name  # JAX records it in the jaxpr
        run = jax.custom_jvp(function)

        def rule(
            primals: tuple[list[Array], list[Array]], tangents: tuple[list[Dot], list[Dot]]
        ) -> tuple[list[Array], list[Any]]:  # JAX does not declare that there may be symbolic zeros
            flat = run(*primals)
            moved = plain.tangents(primals[1], flat[:n_out], tangents[1])
            return flat, [*moved, *map(_compat.symbolic_zero, flat[n_out:])]

        run.defjvp(rule, symbolic_zeros=True)
        return run

    def tangents(
        self, operands: Sequence[Array], results: Sequence[Array], dots: Sequence[Dot]
    ) -> list[Dot]:
        """The tangents by the rule, at results that injection may have changed.

        A rule usually computes the results by binding the equation again. `_given` finds that
        equation in the traced rule and puts the given results in its place.
        """
        moving = {k: dot for k, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)}
        inexact = [jnp.issubdtype(jnp.result_type(x), jnp.inexact) for x in results]

        def own(operands: Sequence[Array], given: Sequence[Array]) -> list[Array]:
            def bound(*every: Array) -> list[Array]:
                return _compat.bind(self.eqn.primitive, every, self.eqn.params)

            _, found = jvp_in(bound, operands, dict(zip(moving, given, strict=True)))
            return [dot for dot, one in zip(found, inexact, strict=True) if one]

        given = [*moving.values()]
        bare = _compat.make_jaxpr(own)(list(operands), given)
        found = iter(_compat.jaxpr_as_fun(self._given(bare, results))(*operands, *given, *results))
        return [
            next(found) if one else _compat.symbolic_zero(x)
            for x, one in zip(results, inexact, strict=True)
        ]

    def _given(self, jaxpr: ClosedJaxpr, results: Sequence[Array]) -> ClosedJaxpr:
        """The jaxpr with the results of the equation as last inputs, instead of computing them."""
        inner, eqn = _compat.open_jaxpr(jaxpr), self.eqn
        own = inner.invars[: len(eqn.invars)]
        more = [_compat.fresh_var(jax.typeof(x)) for x in results]
        instead: dict[Var, Var] = {}

        def read(atoms: Sequence[Atom]) -> list[Atom]:
            return [x if _compat.is_literal(x) else instead.get(x, x) for x in atoms]

        eqns: list[_compat.JaxprEqn] = []
        for one in inner.eqns:
            same = one.primitive is eqn.primitive and _same(one.invars, own)
            if same and _same_params(self.ignored, one.params, eqn.params):
                instead |= dict(zip(one.outvars, more, strict=True))
            else:
                eqns.append(one.replace(invars=read(one.invars)))
        if self.changed and not instead:
            raise RefusedError(
                f"inject: cannot differentiate {eqn.primitive.name} at the injected results, "
                "because its derivative rule does not compute the results by the primitive itself. "
                'Select other tags with where=, or give custom_rules="drop" to differentiate what '
                f"it runs.{self.hint}"
            )
        outvars = read(inner.outvars)
        return _compat.rebuilt(jaxpr, eqns=eqns, invars=[*inner.invars, *more], outvars=outvars)


def _same(atoms: Sequence[Atom], others: Sequence[Atom]) -> bool:
    return [*map(id, atoms)] == [*map(id, others)]


def _same_params(
    ignored: tuple[str, ...], params: Mapping[str, Any], others: Mapping[str, Any]
) -> bool:
    names = params.keys() | others.keys()
    return params.keys() == others.keys() and all(
        _same_param(params[name], others[name], ignored) for name in names.difference(ignored)
    )


def _as_params(value: Any) -> dict[str, Any] | None:
    """The params of another primitive, if a param is their pairs; else None."""
    pairs: Any = value if value.__class__ is tuple else ()
    return dict(pairs) if pairs and all(map(_is_pair, pairs)) else None


def _is_pair(value: Any) -> bool:
    return value.__class__ is tuple and len(value) == 2 and isinstance(value[0], str)


def _is_array(value: object) -> TypeGuard[ArrayLike]:
    return isinstance(value, np.ndarray | jax.Array)


def _same_param(param: object, other: object, ignored: tuple[str, ...] = ()) -> bool:
    # `==` is not enough: 0.0 == -0.0 and 1 == True.
    if param is other:
        return True
    if type(param) is not type(other):
        return False
    if (of_param := _as_params(param)) and (of_other := _as_params(other)):
        return _same_params(ignored, of_param, of_other)
    if _is_array(param) and _is_array(other):
        a, b = np.asarray(param), np.asarray(other)
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    leaves, tree = jax.tree.flatten(param)
    if not (len(leaves) == 1 and leaves[0] is param):  # it may hold arrays, which have no truth
        others, other_tree = jax.tree.flatten(other)
        return tree == other_tree and all(map(_same_param, leaves, others))
    return bool(param == other) and repr(param) == repr(other)
