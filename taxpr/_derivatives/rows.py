"""`GradCheck` and its rows."""

import dataclasses

from taxpr._answers.answer import Answer


@dataclasses.dataclass(frozen=True)
class GradRow:
    """A wrong derivative in `GradCheck`.

    Attributes:
        rule: The user's function that is the rule, such as ``"bwd"``; else the primitive.
        rule_line: The line where the rule begins; "" if a primitive is wrong.
        function: The user's function that made the call.
        line: The line that made the call.
        code: Its statement.
        variable: The variable that holds the result.
        operand: The operand whose derivative is wrong: its variable, or its number.
        result: The number of the result.
        expected: The slope in a random direction, by finite differences.
        found: The slope by the rule.
        hint: How it is wrong, such as ``"is 2 times what it should be"``.
        iteration: The iteration of each loop around.
        address: The address of the call.
        device: The device whose call is wrong, such as ``"d=5"``, within a `jax.shard_map`; empty
            where devices compute one call together.
        process: The number of the process that the device belongs to; None if there are no others.

    Example:
        >>> import jax, jax.numpy as jnp, taxpr
        >>> @jax.custom_jvp
        ... def cube(x):
        ...     return x**3
        >>> @cube.defjvp
        ... def cube_jvp(primals, tangents):
        ...     return cube(*primals), 2 * primals[0] ** 2 * tangents[0]
        >>> def loss(x):
        ...     y = cube(x)
        ...     return y.sum()
        >>> [row] = taxpr.check_grad(loss)(jnp.array([1.0, 2.0])).rows
        >>> row.rule, row.variable, row.operand, row.hint
        ('cube_jvp', 'y', 'x', 'is 0.667 times what it should be')
    """

    rule: str
    rule_line: str
    function: str
    line: str
    code: str
    variable: str
    operand: str
    result: int
    expected: float
    found: float
    hint: str
    iteration: tuple[int, ...]
    address: str
    device: str = ""
    process: int | None = None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GradCheck(Answer):
    """The wrong derivatives of a function; `check_grad` makes it.

    Attributes:
        agrees: Whether the derivative of the whole function agrees with finite differences; None if
            these cannot tell.

    Example:
        >>> import jax.numpy as jnp, taxpr
        >>> found = taxpr.check_grad(lambda x: jnp.sin(x).sum())(jnp.ones(3))
        >>> bool(found), found.agrees
        (False, True)
    """

    agrees: bool | None = None

    _columns = "rule", "hint", "operand", "line", "code", "variable", "expected", "found"
