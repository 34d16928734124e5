"""The equations that end a program whose tracing failed.

`failed_p` marks the statement that raised the error, `unfinished_p` a call, loop or branch whose
function had not returned yet. Neither has results, and neither can run.
"""

import dataclasses
from typing import NoReturn

from taxpr import _compat
from taxpr._compat import Array, JaxprEqn, Source
from taxpr._errors import RefusedError
from taxpr._given import of_equation

# Params of both equations:
#   jaxprs   a tuple of closed jaxprs
#   feeds    for each of them a tuple: the operand that feeds each input, or None
#   failure  a `Failure`, or None
failed_p = _compat.ManyResults("failed")
unfinished_p = _compat.ManyResults("unfinished")


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why tracing ended at a statement.

    Attributes:
        error: The class of the error.
        message: Its message.
        text: The expression of the source that failed; "" if it is not known.
        operands: For each array that it was given, the variable, or "", and the type as the
            function sees it, without the axes of `jax.vmap`.
        source: The line of the user's own code; None if the error comes from elsewhere.

    Example:
        >>> import jax.numpy as jnp
        >>> import taxpr
        >>> def f(x, y):
        ...     return jnp.sin(x) + y
        >>> try:
        ...     taxpr.trace(f)(jnp.ones(3), jnp.ones(4))
        ... except TypeError as error:
        ...     program = taxpr.until_error(error)
        >>> failure = taxpr.introspect.failure_of(program.eqns[-1])
        >>> failure.text, failure.source.line
        ('jnp.sin(x) + y', 2)
        >>> failure.operands
        (('', 'f32[3]'), ('y', 'f32[4]'))
    """

    error: type[BaseException]
    message: str
    text: str
    operands: tuple[tuple[str, str], ...]
    source: Source | None

    @property
    def given(self) -> str:
        """The operands in words, such as ``"x: f32[3], f32[4]"``."""
        return ", ".join(": ".join(filter(None, pair)) for pair in self.operands)

    @property
    def reason(self) -> str:
        """The error and the first sentence or two of its message."""
        head, *more = [line.strip() for line in self.message.splitlines() if line.strip()] or [""]
        said = " ".join([head, *more[: head.endswith(":")]])
        return ": ".join(filter(None, (self.error.__name__, said)))


@of_equation
def failure_of(eqn: JaxprEqn) -> Failure | None:
    """The tracing error at this equation, or None.

    Args:
        eqn: An equation of a jaxpr, such as `until_error` returns.

    Example:
        >>> import taxpr
        >>> def f(x):
        ...     raise KeyError("no such layer")
        >>> try:
        ...     taxpr.trace(f)(1.0)
        ... except KeyError as error:
        ...     [eqn] = taxpr.until_error(error).eqns
        >>> taxpr.introspect.failure_of(eqn).reason
        "KeyError: 'no such layer'"
    """
    return eqn.params["failure"] if eqn.primitive is failed_p else None


def _refuse(*_: object, **__: object) -> NoReturn:
    raise RefusedError(
        "An error ended the trace of this program: it can be looked at, but not run. Fix the "
        "function, and trace it again."
    )


def _types(*_: object, **__: object) -> list[Array]:
    return []


for _primitive in (failed_p, unfinished_p):
    _compat.define(_primitive, impl=_refuse, types=_types)


@of_equation
def is_unfinished(eqn: JaxprEqn) -> bool:
    """Whether tracing ended at or inside an equation.

    Args:
        eqn: An equation of a jaxpr, such as `until_error` returns.

    Example:
        >>> import taxpr
        >>> def f(x):
        ...     raise KeyError("no such layer")
        >>> try:
        ...     taxpr.trace(f)(1.0)
        ... except KeyError as error:
        ...     [eqn] = taxpr.until_error(error).eqns
        >>> taxpr.introspect.is_unfinished(eqn)
        True
    """
    return eqn.primitive in (failed_p, unfinished_p)
