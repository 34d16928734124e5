"""The parameters of attached injectors, and contexts with other values for them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from taxpr._compat import Array, PyTree
from taxpr._errors import ArgumentError, a_type
from taxpr._jaxprs.trees import named_leaves, to_array
from taxpr._primitives.state import as_type


class Parameter(NamedTuple):
    """A parameter of an attached injector.

    Attributes:
        key: The key of its injector in a mapping, or None.
        injector: The name of the injector.
        name: Its own name.
        leaves: A tree with its structure, of the indices of its leaves in the context.
    """

    key: str | None
    injector: str
    name: str
    leaves: PyTree

    def __str__(self) -> str:
        at = "" if self.key is None else f" at {self.key!r}"
        return f"{self.name} of {self.injector}{at}"


def with_values(
    ctx: PyTree, parameters: Sequence[Parameter], key: str | None, given: Mapping[str, PyTree]
) -> PyTree:
    """The context with other values of some parameters.

    Raises:
        ArgumentError: If there is no such parameter, or more than one, or a value does not fit.
    """
    leaves, tree = jax.tree.flatten(ctx)
    inside = [one for one in parameters if key is None or one.key == key]
    if not inside:
        keys = sorted({repr(one.key) for one in parameters if one.key is not None})
        there = f"there are {', '.join(keys)}" if keys else "there are none"
        raise ArgumentError(f"ctx_with: no parameters at the key {key!r}; {there}.")
    for name, value in given.items():
        found = [one for one in inside if one.name == name]
        if not found:
            there = ", ".join(map(str, inside))
            raise ArgumentError(f"ctx_with: there is no parameter {name}. There is {there}.")
        if len(found) > 1:
            keys = {one.key for one in found}
            if len(keys) == len(found):
                raise ArgumentError(
                    f"ctx_with: {name} may be {' or '.join(map(str, found))}. Name the key: "
                    "ctx_with(key, ...)."
                )
            named = [_in_ctx(ctx, one) for one in found]
            raise ArgumentError(
                f"ctx_with: {name} may be "
                + " or ".join(f"{one} ({at})" for one, at in zip(found, named, strict=True))
                + ", and no key tells them apart. Change the one that is meant in the context "
                f"itself: ctx = injected.ctx; {named[0]} = ...; injected(ctx, ...)."
            )
        [parameter] = found
        places, structure = jax.tree.flatten(parameter.leaves)
        if jax.tree.structure(value) != structure:
            raise ArgumentError(
                f"ctx_with: {parameter} has the structure {structure} and was given "
                f"{jax.tree.structure(value)}."
            )
        for place, new in zip(places, jax.tree.leaves(value), strict=True):
            leaves[place] = _fitted(parameter, leaves[place], new)
    return jax.tree.unflatten(tree, leaves)


def _in_ctx(ctx: PyTree, parameter: Parameter) -> str:
    """The path of a parameter in a context, as Python code."""
    path, place = named_leaves("", parameter.leaves)[0]
    whole, _ = named_leaves("ctx", ctx)[int(place)]
    return whole.removesuffix(path)


def _fitted(parameter: Parameter, old: Array, new: PyTree) -> Array:
    """A new leaf with the shape and dtype of the old one; a number is broadcast."""
    try:
        array = to_array(new)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"ctx_with: {parameter} was given {a_type(new)}, which is no array."
        ) from None
    # Make the type strong: a weak type would compile again.
    array = as_type(array, old)
    if array.dtype != old.dtype or array.shape not in ((), old.shape):
        raise ArgumentError(
            f"ctx_with: {parameter} is {old.dtype}{list(old.shape)} in this program and was given "
            f"{array.dtype}{list(array.shape)}. Another shape or dtype is another program: inject "
            "again."
        )
    return jnp.broadcast_to(array, old.shape)
