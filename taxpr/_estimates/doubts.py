"""Say why XLA may need more or less memory than an estimate."""

from jax import lax

from taxpr import _compat
from taxpr._answers.tables import size_text
from taxpr._estimates.estimate import FUSIBLE
from taxpr._estimates.flat import FlatProgram

_PRODUCTS = (lax.dot_general_p, lax.conv_general_dilated_p)
# The temporaries of nets of convolutions, as shares of the estimate.
LEAST, MOST = 0.25, 1.5
_TOGETHER = (
    "XLA may compute a product or a convolution together with the statements that read it, as "
    "newer versions do on CPUs. In ten nets of convolutions it then needed a quarter of the "
    "estimated temporaries to one and a half times as much: here {least} to {most}."
)


def doubts(flat: FlatProgram, temporaries: int) -> list[str]:
    """Notes on why XLA may need more or less memory than the estimate.

    Args:
        flat: The program.
        temporaries: Their estimated bytes.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import trace
        >>> from taxpr._estimates.flat import flat_program
        >>> jaxpr = trace(lambda x: jnp.sin(x @ x))(jnp.ones((8, 8))).jaxpr
        >>> [note[:38] for note in doubts(flat_program(jaxpr), 256)]
        ['XLA may compute a product or a convolu']
    """
    found: list[str] = []
    made = [x for one in flat.operations if one.eqn.primitive in _PRODUCTS for x in one.makes]
    # A gradient keeps these products, so that they are written in any case.
    if made and not any(_compat.is_transposed(one.eqn) for one in reversed(flat.operations)):
        fused = (one for one in flat.operations if one.eqn.primitive in FUSIBLE)
        if not {x for one in fused for x in one.reads}.isdisjoint(made):
            least, most = (size_text(share * temporaries) for share in (LEAST, MOST))
            found.append(_TOGETHER.format(least=least, most=most))
    return found
