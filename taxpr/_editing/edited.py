"""`edit`: change a variable of a function, or a function that it calls."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

from taxpr import _compat
from taxpr._editing.alteration import shown
from taxpr._editing.edited_function import EditedFunction
from taxpr._errors import ArgumentError, name_of, refuse_no_function
from taxpr._given import NOT_GIVEN


def edit(fun: Callable[..., Any], where: Any, change: Any = NOT_GIVEN) -> Callable[..., Any]:
    """Change a variable where the source assigns it, before JAX differentiates.

    The returned function computes what ``fun`` would if the line that assigns the variable were
    followed by ``x = change(x)``. All later code computes with the changed value: `jax.grad`,
    `jax.vmap`, `jax.lax.scan` and `jax.checkpoint` inside of ``fun``, and the optimizer. (`inject`
    changes the traced program, whose derivatives have been taken already.)

    Args:
        fun: A function, jitted or not. It runs when the edited function is called, so `jax.jit`,
            `jax.grad` and other transformations may be around the result or inside of ``fun``.
        where: A variable: `taxpr.var`, or its text alone, as ``"attend.weights"``. It may be a
            parameter or a part of one, as ``"loss.params['w']"``, or the result of a function,
            ``"attend.return"``. In libraries, name the function, too:
            ``"MultiHeadAttention.__call__.query"``. Or a mapping from variables to changes.

            A variable may hold a function: then ``change`` is given the function, as a decorator
            is. A function of a module or class is named in the same way, or given itself. But if
            ``where`` is its whole path as text, ``"model.attend"``, then ``change`` takes its
            place, and may call the original function by its name.
        change: How the value changes:

            * a function of it; any decorator for a variable that holds a function;
            * a ready injector without a state, such as ``taxpr.scale(0.5)``, or a list of them;
            * an array, or a tree of arrays, to put in its place;
            * an expression in the words of the line, ``"weights * mask"``: it sees the variables of
              that function and of its module. At ``return`` the value is called ``result``, and
              also by the name that the source returns;
            * a line that takes the place of the line that binds the variable, ``"x = x - h"``, or
              of the ``return``. The function is compiled again with it, so its source must be
              available.

    Returns:
        A function with the arguments of ``fun``. A line that runs several times changes the
        variable each time, unless ``var(..., occurrence=)`` says which. Other variables with the
        same value, also the caller's, keep it. If one variable is edited twice, the inner edit
        comes first.

    Raises:
        SelectorError: By the returned function, if no line that ran binds such a variable, or if
            lines of several functions do.
        ArgumentError: If ``change`` is something else, or does not fit.
        RefusedError: If a debugger or another tool traces the lines of Python.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> def loss(w, x):
        ...     h = jnp.tanh(w * x)
        ...     return h.sum()
        >>> step = jax.value_and_grad(loss)
        >>> clipped = taxpr.edit(step, "h", taxpr.clip(high=0.5))
        >>> value, gradient = clipped(2.0, jnp.array([0.1, 3.0]))
        >>> print(f"{value:.3f}, {gradient:.3f}")  # no gradient comes through the bound
        0.697, 0.096
        >>> doubled = taxpr.edit(step, {"h": "h + x"})
        >>> print(f"{doubled(2.0, jnp.array([0.1, 3.0]))[0]:.3f}")
        4.297
    """
    refuse_no_function("edit", fun)
    if not isinstance(where, Mapping):
        if change is NOT_GIVEN:
            raise ArgumentError(
                "edit: what is the change? Give a function of the value, an array, a ready "
                f"injector or an expression: edit({name_of(fun)}, {shown(where)}, "
                "taxpr.scale(0.5))."
            )
        pairs = [(where, change)]
    elif change is not NOT_GIVEN:
        raise ArgumentError(
            "edit: with a mapping the changes are in it. Leave out the third argument."
        )
    else:
        pairs = list(cast("Mapping[Any, Any]", where).items())
    if not pairs:
        raise ArgumentError("edit: the mapping is empty. Give variables and their changes.")
    edited = EditedFunction(fun, pairs)

    @functools.wraps(fun, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        return edited(*args, **kwargs)

    vars(run)["_edited"] = edited
    if (jitted := getattr(fun, "_jit_info", None)) is not None:
        numbers, names = _compat.static_arguments(fun)  # of a method those without its object
        vars(run)["_jit_info"] = jitted._replace(static_argnums=numbers, static_argnames=names)
    return run


def edits_of(fun: Any) -> list[str]:
    """The edits of a function that `edit` has returned, the last edit first."""
    edited = getattr(fun, "_edited", None)
    return [*edited.texts, *edits_of(fun.__wrapped__)] if isinstance(edited, EditedFunction) else []
