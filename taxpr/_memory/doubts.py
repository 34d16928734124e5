"""Say why XLA may need more or less memory than an estimate."""

from __future__ import annotations

from jax import lax

from taxpr import _compat
from taxpr._compat import StoredJaxpr
from taxpr._hops.table import is_loop, nested_jaxprs
from taxpr._memory.estimate import FUSIBLE
from taxpr._memory.flat import FlatProgram

_PRODUCTS = (lax.dot_general_p, lax.conv_general_dilated_p)
_TOGETHER = (
    "XLA may compute a product or a convolution together with the statements that read it, as "
    "newer versions do on CPUs, and then needs less than this estimate."
)
_ONCE = (
    "XLA may compute once what jax.checkpoint computes again outside of a loop, as older versions "
    "do on CPUs, and then needs more than this estimate."
)


def doubts(jaxpr: StoredJaxpr, flat: FlatProgram) -> list[str]:
    """Notes on why XLA may need more or less memory than the estimate.

    Args:
        jaxpr: The jaxpr of a program.
        flat: The same as a list of operations.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr._memory.flat import flat_program
        >>> jaxpr = trace(lambda x: jnp.sin(x @ x))(jnp.ones((8, 8))).jaxpr
        >>> [note[:38] for note in doubts(jaxpr, flat_program(jaxpr))]
        ['XLA may compute a product or a convolu']
    """
    found: list[str] = []
    if not any(_compat.is_transposed(one.eqn) for one in flat.operations):
        # A gradient keeps these products, so that they are written in any case.
        made = [x for one in flat.operations if one.eqn.primitive in _PRODUCTS for x in one.makes]
        products = set(map(id, made))
        fused = (one for one in flat.operations if one.eqn.primitive in FUSIBLE)
        if any(id(x) in products for one in fused for x in one.reads):
            found.append(_TOGETHER)
    if _recomputes(jaxpr):
        found.append(_ONCE)
    return found


def _recomputes(jaxpr: StoredJaxpr) -> bool:
    """Whether something is computed again outside of a loop."""
    for eqn in _compat.open_jaxpr(jaxpr).eqns:
        if eqn.primitive is _compat.remat_p and eqn.params["differentiated"]:
            return True
        if not is_loop(eqn) and any(_recomputes(one.stored) for one in nested_jaxprs(eqn)):
            return True
    return False
