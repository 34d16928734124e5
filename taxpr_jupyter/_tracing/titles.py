"""Name a transformed function: ``grad(loss)``, not ``loss``."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import jax

# A transformed function has the name of the user's function. Only JAX's docstring tells what it is.
_BY_DOC = (
    ("Gradient of {} with respect to positional argument", "grad"),
    ("Value and gradient of {} with respect to positional argument", "value_and_grad"),
    ("Jacobian of {} with respect to positional argument", "jacobian"),
    ("Vectorized version of {}.", "vmap"),
)
_JAX = os.path.join(os.path.dirname(jax.__file__), "")


def title(fun: Callable[..., Any], name: str) -> str:
    """The name of a function with the transformations around it.

    Example:
        >>> import jax
        >>> def loss(w): return w * w
        >>> title(jax.vmap(jax.grad(loss)), "loss")
        'vmap(grad(loss))'
        >>> title(loss, "loss")
        'loss'
    """
    words = [*_transformations(fun)]
    return "(".join([*words, name]) + ")" * len(words)


def _transformations(fun: Any) -> Iterator[str]:
    """The transformations around a function, outermost first. Other wrappers are skipped."""
    while (inner := getattr(fun, "__wrapped__", None)) is not None:
        # `jax.jit` and decorators of users copy the docstring of the wrapped function.
        file = getattr(getattr(fun, "__code__", None), "co_filename", "")
        if file.startswith(_JAX):
            doc, name = fun.__doc__ or "", getattr(fun, "__name__", "")
            yield from (word for start, word in _BY_DOC if doc.startswith(start.format(name)))
        fun = inner
