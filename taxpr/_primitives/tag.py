"""The tag primitive: an identity that leaves an equation in the jaxpr, where injectors attach."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from taxpr import _compat
from taxpr._compat import (
    Array,
    ArrayLike,
    Aval,
    Dims,
    Effects,
    JaxprEqn,
    Params,
    PyTree,
    Series,
    Tangent,
    TreeDef,
)
from taxpr._errors import ArgumentError, TagError
from taxpr._given import refuse_no_equation
from taxpr._jaxprs.trees import named_leaves

T = TypeVar("T")
# Params of a tag.
User = tuple[tuple[str, Any], ...]
Batch = tuple[tuple[int | None, Dims], ...]

# Keywords that callers use when they mean another function.
_NO_PARAMS = {
    "cotangent": "To tag the cotangent of a value, use taxpr.tag_cotangent(x, name=...) in the "
    "source, or tag it in a traced gradient: trace(jax.grad(f))(x).tag_at(...).",
    "keep": "For a tag that dead code elimination does not remove, use taxpr.keep(x, name=...).",
}

tag_p = _compat.ManyResults("tag")

# Its ``tagged``, if there is one, is told of each tag with a name that is made in this thread.
telling = threading.local()

# Params of the equation:
#   user   the user's keywords, a tuple of (name, value) sorted by name
#   tree   treedef of the token
#   keep   whether dead code elimination leaves the equation in place
#   batch  one (size, dims) for each vmap around it, innermost first;
#          dims holds the mapped axis of each leaf, or None
#   differentiated   True if the token was differentiated, absent otherwise; its tangent or
#          cotangent is computed without the tag
#   elsewhere   what else uses a token that a variable of a called function holds, as
#          `warn_of_shared_values` says it; absent if nothing does
#   variable   an `AtVariable` if a selector by variables has put it there, absent otherwise


def tag(token: T, /, **params: Any) -> T:
    """Mark a value, so that it can be found and changed in the traced program.

    Returns its argument. It leaves one equation in the jaxpr, which lowers to
    nothing: the compiled program is the same with and without tags.

    A tag marks the primal value, not its tangent or cotangent. Under
    `jax.vmap` one tag marks the whole batch. A tag whose result is unused is
    found after tracing, but transformations that drop dead code, such as
    ``jax.jit(jax.grad(f))``, may drop it; use `keep` if it must stay. When JAX
    differentiates a scan, it moves loop-invariant values out of the loop,
    together with their tags. Such a tag then fires once.

    Args:
        token: Any PyTree of array-likes: arrays of every dtype and shape, PRNG
            keys, Python scalars, ``None``, empty trees.
        **params: The params of the tag, by convention ``name="..."``. Any keyword
            is allowed, and every value must be hashable.

    Returns:
        The token, with the same structure, shapes, dtypes and weak types. Python
        scalars and numpy arrays come back as JAX arrays.

    Raises:
        TagError: If a leaf is no array or is a Ref, or if a param is not hashable.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import iter_tags, tag
        >>> def f(x):
        ...     h = tag(jnp.sin(x), name="h")
        ...     return h * 2
        >>> jaxpr = jax.make_jaxpr(f)(jnp.ones(3))
        >>> [(params, str(aval)) for params, aval in iter_tags(jaxpr)]
        [({'name': 'h'}, 'float32[3]')]
    """
    return _bind_tag(token, params, keep=False)


def keep(token: T, /, **params: Any) -> T:
    """A `tag` that dead code elimination leaves in place.

    The equation has an effect until it is injected or dissolved. So JAX keeps
    it, and everything that computes its token, even if the result is unused.
    The price is that this work is done. As with `tag`, a loop-invariant token
    leaves a scan that is differentiated, and fires once.

    Args:
        token: As for `tag`.
        **params: As for `tag`.

    Returns:
        The token.

    Raises:
        TagError: As for `tag`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import iter_tags, keep
        >>> def f(x):
        ...     keep(jnp.exp(x), name="unused")
        ...     return x * 2
        >>> jaxpr = jax.make_jaxpr(jax.grad(jax.jit(f)))(1.0)
        >>> [params for params, _ in iter_tags(jaxpr)]
        [{'name': 'unused'}]
    """
    return _bind_tag(token, params, keep=True)


def _bind_tag(token: T, params: Params, *, keep: bool) -> T:
    arrays, tree, user = prepared("tag", token, params)
    out = tag_p.bind(*arrays, user=user, tree=tree, keep=keep, batch=())
    if "name" in params and (told := getattr(telling, "tagged", None)):
        told(params["name"], tree, out)
    return jax.tree.unflatten(tree, out)


def prepared(what: str, token: PyTree, params: Params) -> tuple[list[Array], TreeDef, User]:
    """Check a token and its params. Returns the leaves as arrays, the treedef, and ``user``."""
    for name, value in params.items():
        if isinstance(value, bool) and name in _NO_PARAMS:
            raise TagError(
                f"{what}: {name}={value} would be a param of the tag and mean nothing more. "
                f"{_NO_PARAMS[name]}"
            )
        try:
            hash(value)
        except TypeError:
            raise TagError(
                f"{what}: the param {name}={value!r} is a {type(value).__name__}, which is not "
                "hashable. Params become part of the program and must be hashable: use a "
                "string, a number or a tuple; an array belongs in the token."
            ) from None
    leaves, tree = jax.tree.flatten(token)
    shown = f"{what}{_shown(params)}"
    arrays = [_as_array(leaf, index, tree, shown) for index, leaf in enumerate(leaves)]
    return arrays, tree, tuple(sorted(params.items(), key=lambda item: item[0]))


def _as_array(leaf: object, index: int, tree: TreeDef, shown: str) -> Array:
    try:
        aval = jax.typeof(leaf)
    except TypeError:
        leaves = named_leaves("token", jax.tree.unflatten(tree, range(tree.num_leaves)))
        raise TagError(
            f"{shown}: the {leaves[index][0]} is a {type(leaf).__name__}, which is no "
            "array. A token is a PyTree of arrays, numbers and PRNG keys."
        ) from None
    if _compat.is_ref(aval):
        raise TagError(
            f"{shown}: the token holds a Ref ({aval.str_short()}), which is a place "
            "and not a value. Tag what is read from it: tag(ref[...], ...)."
        )
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def _shown(params: Params) -> str:
    return f"(name={params['name']!r})" if "name" in params else ""


def is_tag(eqn: JaxprEqn) -> bool:
    """Whether an equation is a tag.

    Args:
        eqn: An equation of a jaxpr.

    Example:
        >>> from taxpr import is_tag, tag, trace
        >>> [is_tag(eqn) for eqn in trace(lambda x: tag(x + 1, name="y"))(1.0).eqns]
        [False, True]
    """
    try:
        return eqn.primitive is tag_p
    except AttributeError:
        refuse_no_equation("is_tag", eqn)
        raise


def tag_params(eqn: JaxprEqn) -> Params:
    """The user's params of a tag equation, as a new dict.

    Args:
        eqn: An equation for which `is_tag` holds.

    Example:
        >>> from taxpr import tag, tag_params, trace
        >>> [eqn] = trace(lambda x: tag(x, name="x", layer=3))(1.0).eqns
        >>> tag_params(eqn)
        {'layer': 3, 'name': 'x'}
    """
    return dict(_params("tag_params", eqn)["user"])


def tag_tree(eqn: JaxprEqn) -> TreeDef:
    """The treedef of a tag equation's token.

    Args:
        eqn: An equation for which `is_tag` holds.

    Example:
        >>> from taxpr import tag, tag_tree, trace
        >>> [eqn] = trace(lambda x: tag((x, {"a": x})))(1.0).eqns
        >>> tag_tree(eqn)
        PyTreeDef((*, {'a': *}))
    """
    return _params("tag_tree", eqn)["tree"]


def tag_avals(eqn: JaxprEqn) -> PyTree:
    """The avals of a tag equation's token, in the token's own structure.

    Args:
        eqn: An equation for which `is_tag` holds.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import tag, tag_avals, trace
        >>> [eqn] = trace(lambda x: tag({"a": x}))(jnp.ones(3)).eqns
        >>> jax.tree.map(str, tag_avals(eqn))
        {'a': 'float32[3]'}
    """
    tree = _params("tag_avals", eqn)["tree"]
    return jax.tree.unflatten(tree, [atom.aval for atom in eqn.invars])


def _params(what: str, eqn: JaxprEqn) -> Params:
    refuse_no_equation(what, eqn)
    if not is_tag(eqn):
        raise ArgumentError(
            f"{what}: the equation is a {eqn.primitive.name}, not a tag. Those of a program are "
            "program.tags(); is_tag tells."
        )
    return eqn.params


class AtVariable(NamedTuple):
    """The variable that a tag was put for, by a selector such as `var('x')`.

    It is not one of the program's own tags: these are numbered and selected as without it, and its
    address is that of the value.

    Attributes:
        name: The variable.
        place: The line that bound it.
        occurrence: Which of the variable's values it is.
        value: The value's address in its jaxpr, such as ``"3:sin.0"``.
        number: Which one it is at this value, from 0.
    """

    name: str
    place: str
    occurrence: int
    value: str
    number: int

    @property
    def local(self) -> str:
        """The tag's address in its jaxpr, as no other has it."""
        return f"{self.value}#{self.number}" if self.number else self.value

    def __str__(self) -> str:
        return f"variable {self.name} ({self.place})"


def variable_of(eqn: JaxprEqn) -> AtVariable | None:
    """The variable that a tag stands for; None of a tag of the program's own."""
    return eqn.params.get("variable")


def is_differentiated(eqn: JaxprEqn) -> bool:
    """Whether the program differentiated the tag's token, so that its tangent has no injectors."""
    return eqn.params.get("differentiated", False)


def used_elsewhere(eqn: JaxprEqn) -> str:
    """The other uses of the token, which the tag's variable shares; "" if there are none."""
    return eqn.params.get("elsewhere", "")


def _passed(*leaves: T, **_: Any) -> list[T]:
    return list(leaves)


def _impl(*leaves: ArrayLike, **_: Any) -> list[Array]:
    return [leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf) for leaf in leaves]


def _abstract_eval(*avals: Aval, keep: bool, **_: Any) -> tuple[list[Aval], Effects]:
    return list(avals), {_compat.tag_effect} if keep else set()


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Tangent], **params: Any
) -> tuple[list[Array], list[Tangent]]:
    # The tag marks only the primal. Symbolic zero tangents stay symbolic.
    if not all(isinstance(tangent, ad.Zero) for tangent in tangents):
        params["differentiated"] = True
    return tag_p.bind(*primals, **params), list(tangents)


def _jet(
    primals: Sequence[Array], series: Sequence[Series], **params: Any
) -> tuple[list[Array], list[Series]]:
    return tag_p.bind(*primals, **{**params, "differentiated": True}), list(series)


def _transpose(cotangents: Sequence[Tangent], *_: object, **__: object) -> Sequence[Tangent]:
    # Only `jax.linear_transpose` of a function with a tag comes here.
    return cotangents


def _batch(
    args: Sequence[Array], dims: Dims, *, batch: Batch, **params: Any
) -> tuple[list[Array], Dims]:
    out = tag_p.bind(*args, batch=batch_of(args, dims, batch), **params)
    return out, list(dims)


def batch_of(args: Sequence[Array], dims: Dims, batch: Batch) -> Batch:
    """The param ``batch`` after another `jax.vmap` has inserted an axis at ``dims``."""
    sizes = {arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None}
    # `batch` records the axis positions in the data. A new batch axis shifts the axes of earlier
    # vmaps.
    mapped = (sizes.pop() if sizes else None, tuple(dims))
    moved = tuple((size, _shifted(inner, dims)) for size, inner in batch)
    return (*moved, mapped)


def _shifted(inner: Dims, outer: Dims) -> tuple[int | None, ...]:
    return tuple(
        dim if dim is None or new is None or dim < new else dim + 1
        for dim, new in zip(inner, outer, strict=True)
    )


_compat.define(
    tag_p,
    impl=_impl,
    forwards=_passed,
    effectful_types=_abstract_eval,
    jvp=_jvp,
    jet=_jet,
    transpose=_transpose,
    batch=_batch,
)
