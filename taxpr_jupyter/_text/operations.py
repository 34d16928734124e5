"""How primitives are written: as operators, or as functions of `jax.numpy`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.extend.core.primitives as p

# How strongly operators bind.
COMPARES, ADDS, MULTIPLIES, NEGATES, RAISES, WHOLE = range(6)


class Operation(NamedTuple):
    """How a primitive is written.

    Attributes:
        sign: Its operator, such as `+`; "" if it is written as a function.
        binds: How strongly its operands are bound.
        commutes: Whether `a op b` is `b op a`, so that the order of its operands need not be shown.
        function: The name of the function, if the primitive has another name.
    """

    sign: str = ""
    binds: int = WHOLE
    commutes: bool = False
    function: str = ""


OPERATIONS: Mapping[Any, Operation] = {
    p.add_p: Operation("+", ADDS, commutes=True),
    p.add_jaxvals_p: Operation("+", ADDS, commutes=True),
    p.sub_p: Operation("-", ADDS),
    p.mul_p: Operation("*", MULTIPLIES, commutes=True),
    p.div_p: Operation("/", MULTIPLIES),
    p.pow_p: Operation("**", RAISES),
    p.eq_p: Operation("==", COMPARES, commutes=True),
    p.ne_p: Operation("!=", COMPARES, commutes=True),
    p.lt_p: Operation("<", COMPARES),
    p.le_p: Operation("<=", COMPARES),
    p.gt_p: Operation(">", COMPARES),
    p.ge_p: Operation(">=", COMPARES),
    p.max_p: Operation(function="maximum", commutes=True),
    p.min_p: Operation(function="minimum", commutes=True),
    p.and_p: Operation(commutes=True),
    p.or_p: Operation(commutes=True),
    p.xor_p: Operation(commutes=True),
    p.logistic_p: Operation(function="sigmoid"),
    p.reduce_sum_p: Operation(function="sum"),
    p.reduce_max_p: Operation(function="max"),
    p.reduce_min_p: Operation(function="min"),
    p.reduce_prod_p: Operation(function="prod"),
}
