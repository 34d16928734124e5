"""Where in a program the seconds or bytes of an answer belong."""

from typing import NamedTuple


class Portion(NamedTuple):
    """Seconds or bytes of one place of a program.

    Attributes:
        amount: How much.
        address: The equation, value or argument; "" if none is known.
        line: The line, such as ``"model.py:12"``; "" if unknown.
        shared: Whether it is an equal part of a kernel that computes several statements.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> use = taxpr.memory(lambda x: x * 2)(jnp.ones(1000))
        >>> [(one.amount, one.address) for one in use.portions]
        [(4000, 'in0'), (4000, '0:mul')]
    """

    amount: float
    address: str
    line: str
    shared: bool = False
