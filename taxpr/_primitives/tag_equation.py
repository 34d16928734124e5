"""The equation of a tag: its primitive, an identity that lowers to nothing, and its params."""

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
from taxpr._errors import ArgumentError
from taxpr._given import refuse_no_equation

T = TypeVar("T")

# Params of a tag.
User = tuple[tuple[str, Any], ...]
Batch = tuple[tuple[int | None, Dims], ...]

tag_p = _compat.ManyResults("tag")

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
        eqn: A tag equation, see `is_tag`.

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
        eqn: A tag equation, see `is_tag`.

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
        eqn: A tag equation, see `is_tag`.

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

    It is not one of the program's own tags: it changes neither their numbers nor their selection,
    and its address is the value's.

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
    """The variable that a tag was put for; None for the program's own tags."""
    return eqn.params.get("variable")


def is_differentiated(eqn: JaxprEqn) -> bool:
    """Whether the program differentiated the tag's token, so that its tangent has no injectors."""
    return eqn.params.get("differentiated", False)


def used_elsewhere(eqn: JaxprEqn) -> str:
    """The other uses of the token, which the tag's variable shares; "" without any."""
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
