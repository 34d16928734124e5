"""Use plain functions as injectors: defaults that are numbers become parameters."""

import dataclasses
import functools
import numbers
from collections.abc import Mapping
from typing import Any

import jax

import taxpr
from taxpr.libraries import parameters_of
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._stoppable import STOPPING

_TAKEN = {one.name for one in parameters_of(taxpr.from_function)} - {"values"}


def is_function(source: Any) -> bool:
    """Whether ``source`` is a plain function ``(ctx, token, params)``, not an injector or kind."""
    return callable(source) and not isinstance(
        source, (taxpr.injectors.Injector, taxpr.injectors.InjectorKind)
    )


def is_empty(ctx: Any) -> bool:
    """Whether ``ctx`` is the empty context that a function gets by default."""
    return isinstance(ctx, tuple) and not ctx


def params_of(function: Any) -> dict[str, taxpr.Param]:
    """The parameters of a function: its arguments with a number as default.

    A float, integer or bool is the default value. A tuple of two numbers, one of them a float, is
    the range of a slider, which begins in the middle.

    >>> def shift(ctx, token, params, by=0.5, share=(0.0, 2.0), mode="add"):
    ...     return token + by * share, ctx
    >>> {name: (param.default, param.low, param.high) for name, param in params_of(shift).items()}
    {'by': (0.5, None, None), 'share': (1.0, 0.0, 2.0)}
    """
    arguments = parameters_of(function)
    found = {}
    for argument in arguments:
        default = argument.default
        if argument in arguments[:3] or argument.kind is argument.POSITIONAL_ONLY:
            continue
        if isinstance(default, numbers.Real):
            found[argument.name] = taxpr.Param(default)
        elif _is_range(default):
            low, high = sorted(map(float, default))
            found[argument.name] = taxpr.Param((low + high) / 2, low, high)
    return found


def _is_range(default: Any) -> bool:
    # A tuple of integers may be axes or a shape.
    return (
        isinstance(default, tuple)
        and len(default) == 2
        and all(isinstance(end, numbers.Real) and not isinstance(end, bool) for end in default)
        and any(isinstance(end, float) for end in default)
    )


def injector_of(function: Any, ctx: Any, values: Mapping[str, Any]) -> taxpr.injectors.Injector:
    """An injector that calls a function with these parameter values, and defaults for the others.

    Floats are leaves of the context. Integers and bools are static, since the function may need
    them as Python values, for example as an axis.

    Raises:
        PanelError: If there is no such parameter, or one has a name that `from_function` takes.
    """
    params = params_of(function)
    name = taxpr.from_function(function).name
    unknown = next((word for word in values if word not in params), None)
    if unknown is not None:
        has = (
            f"It has {', '.join(params)}" if params else "Numbers as keyword defaults declare some"
        )
        raise PanelError(f"{name} is a plain function without a parameter {unknown!r}. {has}")
    taken = next((word for word in params if word in _TAKEN), None)
    if taken is not None:
        raise PanelError(
            f"{name}: taxpr.from_function has an argument {taken!r}; call the parameter another way"
        )
    whole = {word: values.get(word, param.default) for word, param in params.items()}
    traced: dict[str, Any] = {k: v for k, v in whole.items() if isinstance(v, float)}
    fixed = {word: value for word, value in whole.items() if word not in traced}
    made = taxpr.from_function(with_fixed(function, fixed), ctx, **traced)
    return dataclasses.replace(made, options=fixed)


def with_fixed(function: Any, fixed: Mapping[str, Any]) -> Any:
    """The function with these arguments bound, except those equal to its defaults."""
    params = params_of(function)
    changed = {k: v for k, v in fixed.items() if repr(v) != repr(params[k].default)}
    return functools.partial(function, **changed) if changed else function


class _TouchedError(Exception):
    """A function used its ctx."""


class _Untouched:
    """A fake ctx that raises when a function does anything but return it."""

    def __init__(self) -> None:
        object.__setattr__(self, "touched", False)

    def __getattr__(self, name: str) -> Any:
        object.__setattr__(self, "touched", True)
        raise AttributeError(name)


def _touch(ctx: _Untouched, *_: Any, **__: Any) -> Any:
    object.__setattr__(ctx, "touched", True)
    raise _TouchedError


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
    *("radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul", "lt", "le", "gt", "ge"),
    *("neg", "abs", "getitem", "iter", "len", "contains", "bool", "int", "float", "index", "call"),
):
    setattr(_Untouched, f"__{_name}__", _touch)


def uses_ctx(injector: taxpr.injectors.Injector, site: taxpr.program.Site) -> bool:
    """Whether a function does anything with its ctx but return it, at a site."""
    ctx, handed_on = _Untouched(), True

    def call(values: Any, token: Any) -> int:
        nonlocal handed_on
        result = injector.fire(values, ctx, token, site.params)
        handed_on = not isinstance(result, tuple) or any(part is ctx for part in result)
        return 0

    try:
        jax.eval_shape(call, dict(injector.values), site.avals)
    except STOPPING:
        raise
    except BaseException:
        return ctx.touched  # otherwise the error is unrelated to the ctx
    return ctx.touched or not handed_on
