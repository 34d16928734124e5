"""Make a smaller jaxpr: only some outputs, some inputs fixed, or the tags as outputs."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._compat import Array, ArrayLike, Atom, Aval, ClosedJaxpr, JaxprEqn, PyTree
from taxpr._engine.collect import collected, collector
from taxpr._engine.thread import thread
from taxpr._engine.underived import without_derivatives
from taxpr._errors import ArgumentError, a_type, refuse_function, refuse_index
from taxpr._hops.protocol import NO_OPTIONS
from taxpr._jaxprs.trees import to_array
from taxpr._sites.walk import find_sites, firing


def partition_out(jaxpr: ClosedJaxpr, outvar_indices: Sequence[Sequence[int]]) -> list[ClosedJaxpr]:
    """Split a jaxpr into jaxprs that compute some of its outputs each.

    Args:
        jaxpr: A closed jaxpr.
        outvar_indices: For each part the indices of its outputs, in the order that it returns them.
            An index may be in several parts, or in none.

    Returns:
        A closed jaxpr for each part. It takes all inputs. It has the equations that its outputs
        need, and all equations with effects: each part prints, writes to Refs and keeps the
        values marked by `keep`, as the whole jaxpr does.

    Raises:
        ArgumentError: If there is no such output. It is also an `IndexError`.

    Example:
        >>> import jax
        >>> from taxpr import partition_out
        >>> jaxpr = jax.make_jaxpr(lambda x: (x * 2, x + 1))(1.0)
        >>> [str(part.eqns[0].primitive) for part in partition_out(jaxpr, [[0], [1]])]
        ['mul', 'add']
    """
    refuse_function("partition_out", jaxpr)
    outvars = _compat.open_jaxpr(jaxpr).outvars
    given: Any = outvar_indices
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(
            f"partition_out: {given!r} is {a_type(given)}. Give for each part a list of "
            "the numbers of its outputs: [[0, 2], [1]]."
        )
    parts: list[ClosedJaxpr] = []
    for group in outvar_indices:
        if isinstance(group, str) or not isinstance(group, Iterable):
            raise ArgumentError(
                f"partition_out: {group!r} is {a_type(group)}. Give for each part a list "
                "of the numbers of its outputs: [[0, 2], [1]]."
            )
        for index in group:
            refuse_index("partition_out", "output", index, len(outvars))
        parts.append(_returning(jaxpr, [outvars[index] for index in group]))
    return parts


def _returning(jaxpr: ClosedJaxpr, outvars: Sequence[Atom]) -> ClosedJaxpr:
    """The jaxpr with other outputs and only the equations that these need."""
    inner = _compat.open_jaxpr(jaxpr)
    needed = {var for var in outvars if not _compat.is_literal(var)}
    eqns: list[JaxprEqn] = []
    for eqn in reversed(inner.eqns):
        if eqn.effects or any(var in needed for var in eqn.outvars):
            needed |= {atom for atom in eqn.invars if not _compat.is_literal(atom)}
            eqns.append(eqn)
    consts = zip(inner.constvars, _compat.consts_of(jaxpr), strict=True)
    kept = [(var, value) for var, value in consts if var in needed]
    return _compat.rebuilt(
        jaxpr,
        eqns=eqns[::-1],
        outvars=outvars,
        constvars=[var for var, _ in kept],
        consts=[value for _, value in kept],
    )


def partial(jaxpr: ClosedJaxpr, /, args: Mapping[int, ArrayLike]) -> ClosedJaxpr:
    """Fix some inputs of a jaxpr, as `functools.partial` does for a function.

    Args:
        jaxpr: A closed jaxpr.
        args: The values of the fixed inputs, by index. A value must have the shape and dtype of
            the input; a Python number fits a scalar input.

    Returns:
        A closed jaxpr of the other inputs, in their order. The values are among its consts.

    Raises:
        ArgumentError: If there is no such input, or a value does not fit it.

    Example:
        >>> import jax
        >>> from taxpr import partial
        >>> jaxpr = partial(jax.make_jaxpr(lambda x, y: x - y)(1.0, 1.0), {0: 10.0})
        >>> jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, 3.0)
        [Array(7., dtype=float32, weak_type=True)]
    """
    refuse_function("partial", jaxpr)
    if not isinstance(args, Mapping):
        raise ArgumentError(
            f"partial: args is {a_type(args)}. Give the values by the number of their "
            "input: {0: value}."
        )
    jaxpr = _compat.closed(jaxpr)
    inner = _compat.open_jaxpr(jaxpr)
    for index in args:
        refuse_index("partial", "input", index, len(inner.invars))
    fixed = {
        index: _fitted(index, value, _compat.aval_of(inner.invars[index]))
        for index, value in args.items()
    }
    return _compat.rebuilt(
        jaxpr,
        eqns=inner.eqns,
        invars=[var for index, var in enumerate(inner.invars) if index not in fixed],
        constvars=[*inner.constvars, *(inner.invars[index] for index in fixed)],
        consts=[*_compat.consts_of(jaxpr), *fixed.values()],
    )


def _fitted(index: int, value: ArrayLike, aval: Aval) -> Array:
    """Convert a value to the type of an input."""
    try:
        scalar = isinstance(value, (bool, int, float, complex)) and not aval.shape
        takes = scalar and jnp.result_type(value, aval.dtype) == aval.dtype
        array = jnp.asarray(value, aval.dtype) if takes else to_array(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(
            f"partial: the input {index} is {aval.str_short()}, and {value!r} does not fit it: "
            f"{error}"
        ) from None
    if (array.shape, array.dtype) != (aval.shape, aval.dtype):
        raise ArgumentError(
            f"partial: the input {index} is {aval.str_short()}, and the value given for it is "
            f"{jax.typeof(array).str_short()}. Convert it."
        )
    return _compat.with_weak_type(array, aval.weak_type)


def transpose(
    jaxpr: ClosedJaxpr,
) -> tuple[ClosedJaxpr, list[dict[str, Any]], list[PyTree]]:
    """Make a jaxpr that returns the values of its tags instead of its outputs.

    Args:
        jaxpr: A closed jaxpr with tags, at any depth.

    Returns:
        ``(jaxpr, params, structures)``. The closed jaxpr takes the same inputs and returns the
        leaves of the value of each tag, in program order. It has the equations that these need, and
        equations with effects. Tags stay, except tags of empty trees. The two lists have one entry
        for each tag: its params, and the treedef of its value. Values are as in `Program.collect`:
        stacked under a scan, a `Masked` in a branch and a `Last` in a while loop.

    Raises:
        RefusedError: If a tag is in an equation that cannot be injected.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import tag, transpose
        >>> def f(xs):
        ...     return jax.lax.map(lambda x: jnp.cos(tag(x * 2, name="y")), xs)
        >>> jaxpr, params, structures = transpose(jax.make_jaxpr(f)(jnp.ones(2)))
        >>> jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, jnp.arange(2.0)), params
        ([Array([0., 2.], dtype=float32)], [{'name': 'y'}])
    """
    refuse_function("transpose", jaxpr)
    new, params, shapes = values_of_tags(jaxpr)
    return new, params, [jax.tree.structure(shape) for shape in shapes]


def values_of_tags(
    jaxpr: ClosedJaxpr,
) -> tuple[ClosedJaxpr, list[dict[str, Any]], list[PyTree]]:
    """Like `transpose`, but with the PyTree of shapes and dtypes of each value."""
    sites = firing(find_sites(jaxpr))
    handler = collector(stays=True)
    chosen = [(site, handler) for site in sites]
    threaded = thread(_compat.closed(jaxpr), chosen, [])
    whole = without_derivatives(threaded, chosen, NO_OPTIONS)

    def run(*args: Array) -> list[Array]:
        _, _, emits = threaded.unpack(_compat.jaxpr_as_fun(whole)(*args))
        return [collected(site, emits[site.address]) for site in sites]

    avals = [var.aval for var in _compat.open_jaxpr(jaxpr).invars]
    new, shapes = _compat.make_jaxpr_and_shapes(run)(*avals)
    new = _returning(new, _compat.open_jaxpr(new).outvars)
    return new, [site.params for site in sites], shapes
