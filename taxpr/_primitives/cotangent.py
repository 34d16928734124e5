"""Tags of cotangents: an identity whose transpose leaves a tag.

`marked_p` is in the program before it is differentiated. Its jvp sends tangents through
`tangent_p`, a linear identity, and the transpose of `tangent_p` binds the tag. Higher derivatives
of `tangent_p` are not marked, so each cotangent of the primal gets exactly one tag.

Both primitives take an optional operand, the gate: a scalar zero. `taxpr.grad_at` differentiates
with respect to it, so there is a backward pass even if nothing else is differentiated. Its
cotangent is the sum of all others, so that no tag is unused and dropped.
"""

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from taxpr import _compat
from taxpr._compat import Array, Dims, JaxprEqn, ManyResults, PyTree, Series, Tangent, TreeDef
from taxpr._primitives.tag import prepared
from taxpr._primitives.tag_equation import Batch, User, batch_of, tag_p

T = TypeVar("T")

marked_p = ManyResults("tag_cotangent")
tangent_p = ManyResults("tag_cotangent_linear")


def tag_cotangent(token: T, /, **params: Any) -> T:
    """Mark a value so that its cotangent is tagged.

    Returns its argument. Reverse-mode differentiation, such as `jax.grad`, puts a `tag` with these
    params on the cotangent of the value: trace the gradient, and find, record, clip or replace it
    like any other tag. Before differentiation there is no tag. Forward mode does not tag. A
    cotangent that is a symbolic zero, as for an unused value, has no tag.

    Each differentiation tags the cotangents that it computes. In the backward pass of
    `jax.checkpoint` the tag fires once. `Site.recomputed` is true for it, as for everything in
    that pass.

    Args:
        token: A PyTree of array-likes, as for `tag`. Leaves that have no derivative, such as
            integers, have cotangents of dtype float0: the tag holds None for them.
        **params: The params of the tag, as for `tag`.

    Returns:
        The token.

    Raises:
        TagError: As for `tag`.

    Example:
        >>> import jax
        >>> from taxpr import clip, tag_cotangent, trace
        >>> def f(x):
        ...     return tag_cotangent(3 * x, name="g") ** 2
        >>> program = trace(jax.grad(f))(0.0)
        >>> program(1.0), program.collect("g")(1.0)[1]["g"]
        (Array(18., dtype=float32, weak_type=True), Array(6., dtype=float32))
        >>> clipped = program.inject(clip(-1.0, 1.0), where="g")
        >>> clipped(clipped.ctx, 1.0)[0]
        Array(3., dtype=float32, weak_type=True)
    """
    arrays, tree, user = prepared("tag_cotangent", token, params)
    marked = [jnp.issubdtype(x.dtype, jnp.inexact) for x in arrays]
    halves = [x if mark else None for x, mark in zip(arrays, marked, strict=True)]
    out = iter(mark_cotangent(jax.tree.unflatten(tree, halves), user))
    leaves = [next(out) if mark else x for x, mark in zip(arrays, marked, strict=True)]
    return jax.tree.unflatten(tree, leaves)


def mark_cotangent(token: PyTree, user: User, gate: Array | None = None) -> list[Array]:
    """Mark the leaves of inexact dtype. ``gate`` is the float scalar zero of `grad_at`, or None."""
    leaves, tree = jax.tree.flatten(token)
    gates = [] if gate is None else [gate]
    return marked_p.bind(*leaves, *gates, user=user, tree=tree, batch=())


_LEAF = jax.tree.structure(0)
_HIDDEN = "taxpr.cotangent"


def hidden(token: _compat.Token) -> dict[str, Any]:
    """The user's params of the mark of a value for `taxpr.cotangent`."""
    return {_HIDDEN: token}


def _params(token: _compat.Token) -> dict[str, Any]:
    return {"user": tuple(hidden(token).items()), "tree": _LEAF, "batch": ()}


def _token(params: dict[str, Any]) -> _compat.Token | None:
    return dict(params["user"]).get(_HIDDEN)


hidden_mark = _compat.Identity(marked_p, tangent_p, _params, _token)


def token_of(eqn: JaxprEqn) -> _compat.Token | None:
    """The token of an equation that marks a value, or its cotangent, for `taxpr.cotangent`."""
    return _token(eqn.params) if eqn.primitive in (marked_p, tangent_p, tag_p) else None


def _first(*args: T, tree: TreeDef, **_: Any) -> list[T]:
    return list(args[: tree.num_leaves])


def _jvp_of_mark(
    primals: Sequence[Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[Array], Sequence[Tangent]]:
    out = marked_p.bind(*primals, **params)
    if all(isinstance(t, ad.Zero) for t in tangents):
        return out, list(tangents[: len(out)])
    return out, tangent_p.bind(*map(_compat.instantiated, tangents), **params)


def _jvp_of_tangent(
    primals: Sequence[Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[Array], list[Tangent]]:
    out = tangent_p.bind(*primals, **params)
    return out, list(tangents[: len(out)])


def _jet(
    primitive: ManyResults, primals: Sequence[Array], series: Sequence[Series], **params: Any
) -> tuple[list[Array], list[Series]]:
    # Forward mode does not tag.
    out = primitive.bind(*primals, **params)
    return out, list(series[: len(out)])


def _transpose(
    cotangents: Sequence[Tangent], *args: Array, user: User, tree: TreeDef, batch: Batch
) -> list[Array | None]:
    linear = [*map(_compat.is_linear, args)]
    if all(isinstance(ct, ad.Zero) for ct in cotangents):
        return [None] * len(args)
    full = map(_compat.instantiated, cotangents)
    tagged = tag_p.bind(*full, user=user, tree=tree, keep=False, batch=batch)
    if len(args) > len(tagged):
        gate = args[-1].aval if linear[-1] else jax.typeof(args[-1])
        sums = [jnp.real(jnp.sum(ct)).astype(gate.dtype) for ct in tagged]
        tagged = [*tagged, sum(sums[1:], start=sums[0])]
    return [ct if wanted else None for ct, wanted in zip(tagged, linear, strict=True)]


def _batch(
    primitive: ManyResults,
    args: Sequence[Array],
    dims: Dims,
    *,
    tree: TreeDef,
    batch: Batch,
    user: User,
) -> tuple[list[Array], Dims]:
    n = tree.num_leaves
    more = batch_of(args[:n], dims[:n], batch)
    return primitive.bind(*args, tree=tree, batch=more, user=user), list(dims[:n])


for _primitive, _jvp in ((marked_p, _jvp_of_mark), (tangent_p, _jvp_of_tangent)):
    _compat.define(
        _primitive,
        impl=_first,
        forwards=_first,
        jvp=_jvp,
        jet=functools.partial(_jet, _primitive),
        transpose=_transpose,
        batch=functools.partial(_batch, _primitive),
    )
