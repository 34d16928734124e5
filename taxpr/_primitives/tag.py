"""`tag` and `keep`: functions that leave an equation in the jaxpr, where injectors attach."""

import threading
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, Params, PyTree, TreeDef
from taxpr._errors import TagError, a_type
from taxpr._jaxprs.trees import named_leaves
from taxpr._primitives.tag_equation import User, tag_p

T = TypeVar("T")

# Keywords that callers use when they mean another function.
_NO_PARAMS = {
    "cotangent": "To tag the cotangent of a value, use taxpr.tag_cotangent(x, name=...) in the "
    "source, or tag it in a traced gradient: trace(jax.grad(f))(x).tag_at(...).",
    "keep": "For a tag that dead code elimination does not remove, use taxpr.keep(x, name=...).",
}

# Its ``tagged``, if there is one, is told of each tag with a name that is made in this thread.
telling = threading.local()


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

    The equation has an effect until it is injected or removed. So JAX keeps it, and everything that
    computes its token, even if the result is unused. The price is that this work is done. As with
    `tag`, a loop-invariant token leaves a scan that is differentiated, and fires once.

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
                f"{what}: the param {name}={value!r} is {a_type(value)}, which is not "
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
            f"{shown}: the {leaves[index][0]} is {a_type(leaf)}, which is no "
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
