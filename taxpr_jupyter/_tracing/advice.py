"""Advice for a call that cannot be traced, derived from the function and its arguments.

`hints` explains JAX's own errors.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from taxpr_jupyter._text.hints import hint
from taxpr_jupyter._text.short import shortened

_NAMES = 60  # characters of a list of arguments


def advise(
    error: Exception, fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Add advice to an error that tracing this call raised, but only once."""
    known = " ".join(getattr(error, "__notes__", ()))
    text = _of_linen(fun, args) or _of_class(fun) or _of_arguments(error, fun, args, kwargs)
    text = text or hint(error)
    if text and text not in known:
        error.add_note(f"Hint: {text}")


def uncallable(value: Any) -> str:
    """Advice for passing something that cannot be called; may be empty."""
    name = type(value).__name__
    if isinstance(value, (jax.stages.Lowered, jax.stages.Compiled)):
        return f". A {name} holds no jaxpr any more; give jax.jit(f).trace(...), or f itself"
    if isinstance(value, (tuple, list)) and value and callable(value[0]):
        return f". Give the function and its arguments apart and not in a {name}: draw(fun, *args)"
    if callable(getattr(value, "apply", None)):
        return f". Is it the apply of this {name} that you mean? Give that: .apply"
    return ""


def _of_linen(fun: Any, args: Sequence[Any]) -> str:
    """Advice for a flax.linen module that is called itself, or `apply` without variables."""
    linen = sys.modules.get("flax.linen")
    if linen is None:
        return ""
    for one in _and_wrapped(fun):
        applied = getattr(one, "__name__", "") == "apply"
        module: Any = getattr(one, "__self__", None) if applied else one
        if isinstance(module, linen.Module) and module.scope is None:
            break
    else:
        return ""
    if applied and args and isinstance(args[0], Mapping):
        return ""
    return (
        f"a linen module runs by its apply. With model = {type(module).__name__}(...) and "
        "variables = model.init(key, x), give model.apply as the function, and variables, x as "
        "its arguments."
    )


def _and_wrapped(fun: Any) -> Iterator[Any]:
    """A function and the functions that it wraps."""
    while fun is not None:
        yield fun
        fun = getattr(fun, "__wrapped__", None)


def _of_class(fun: Any) -> str:
    if not inspect.isclass(fun):
        return ""
    name = fun.__name__
    return f"{name} is a class, so to call it makes an object. Give a function, or {name}(...)."


def _of_arguments(
    error: Exception, fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """The arguments that the function takes, if the call's do not fit.

    This looks at the signature only after the call failed, as the signature of a wrapper may be
    wrong.
    """
    if not isinstance(error, TypeError):
        return ""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # some builtins have no signature
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        names = shortened(", ".join(map(str, signature.parameters.values())), _NAMES)
        called = shortened(getattr(fun, "__name__", type(fun).__name__), _NAMES)
        return (
            f"{called} takes ({names}). Give an example of each argument, an array or "
            "jax.ShapeDtypeStruct(shape, dtype)."
        )
    return ""
