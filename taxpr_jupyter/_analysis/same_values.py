"""The values of two traces of one function, by the variables that held them."""

from __future__ import annotations

from typing import Any

import taxpr


def _by_variable(program: taxpr.Program) -> dict[Any, list[Any]]:
    """The variables of a program in their order, by function, name and line."""
    found: dict[Any, list[Any]] = {}
    for one in program.variables():
        found.setdefault((one.owner, one.name, one.path, one.line), []).append(one)
    return found


def same_values(before: taxpr.Program, after: taxpr.Program) -> dict[Any, Any]:
    """The variables of a program, by the variables of another trace of its function.

    These hold the same values, each the same time that its line binds it. A variable that a line
    binds another number of times is left out.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> def f(x):
        ...     y = x * 2
        ...     return y
        >>> one, other = (taxpr.trace(f, names=True)(jnp.ones(n)) for n in (1, 2))
        >>> {str(old): str(new.address) for old, new in same_values(one, other).items()}
        {'f.x 0': 'in0', 'f.y 0': '0:mul.0'}
    """
    new = _by_variable(after)
    return {
        one: there
        for key, variables in _by_variable(before).items()
        if len(new.get(key, ())) == len(variables)
        for one, there in zip(variables, new[key], strict=True)
    }
