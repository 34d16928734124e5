"""The function that the command names, with its arguments: as a call, or traced."""

import argparse
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import taxpr
from taxpr import introspect
from taxpr_jupyter._cli import arguments
from taxpr_jupyter._cli import target as _target
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.trace_pure import Names
from taxpr_jupyter._tracing.trace import static_words, traced, traced_before


def program_of(options: argparse.Namespace, names: Names = None) -> taxpr.Program:
    """The program of the call that the options say.

    Args:
        options: The options of the command.
        names: As for `taxpr.trace`.
    """
    found, args, kwargs = _given(options)
    if isinstance(found, taxpr.Program):
        return found
    # Do not call `draw`, whose options may have the same names as the function's arguments.
    return traced(found, args, kwargs, *static_words(options.static), names).program


def call_of(
    options: argparse.Namespace, values: bool = False
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function that the options name, its positional arguments, and those by name.

    Args:
        options: The options of the command.
        values: Whether arguments that are types become arrays: of random numbers, and of zeros
            where they are no floats.
    """
    found, args, kwargs = _given(options)
    if isinstance(found, taxpr.Program):
        avals = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in found.in_avals]
        args, kwargs = jax.tree.unflatten(found.in_tree, avals)
    elif options.static:
        positions, names = static_words(options.static)
        # With one of them JAX finds the other.
        found = jax.jit(found, static_argnums=positions or None, static_argnames=names or None)
    if values:
        args, kwargs = jax.tree.map(_array, (args, kwargs))
    return found, args, kwargs


def _array(given: Any) -> Any:
    if not isinstance(given, jax.ShapeDtypeStruct):
        return given
    key = jax.random.key(0)
    if jnp.issubdtype(given.dtype, jax.dtypes.prng_key):
        return jax.random.split(key, given.shape) if given.shape else key
    if jnp.issubdtype(given.dtype, jnp.inexact):
        return jax.random.normal(key, given.shape).astype(given.dtype)
    return jnp.zeros(given.shape, given.dtype)


def _given(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function, or the program if it is traced already, and its arguments."""
    found = _target.load(options.target)
    before = traced_before(found)
    if before is not None:
        if options.args or options.args_from or options.grad or options.static:
            raise PanelError(
                f"{options.target} is traced already: it takes no arguments, no --grad, no --static"
            )
        return before, (), {}
    args, kwargs = arguments.parse(options.args)
    if options.args_from:
        args, kwargs = _made(_target.load(options.args_from), options.args_from)
    _check_fit(options.target, found, args, kwargs)
    if options.grad and callable(found):
        found = jax.grad(found)
    return found, args, kwargs


def _check_fit(target: str, fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit the signature of the function."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # no function, or one without a signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        params = ", ".join(map(str, signature.parameters.values()))
        given = [f"{len(args)} by position", *(f"{name}=" for name in kwargs)]
        raise PanelError(
            f"{target}: {error}. It is {getattr(fun, '__name__', target)}({params}), and given are "
            f'{", ".join(given)}: write --args "f32[8,16] f32[16]", or --args-from a function '
            "that returns them"
        ) from None


def _made(made: Any, target: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments made by the function that `--args-from` names."""
    made = made() if callable(made) else made
    match made:
        case (tuple() | list() as args, dict() as kwargs) if all(type(k) is str for k in kwargs):
            return tuple(args), kwargs
        case tuple():
            return made, {}
    raise PanelError(
        f"{target} gives {introspect.a_type(made)}: return the arguments as a tuple, (x,) for one, "
        "or as (tuple, dict) with keyword arguments"
    )
