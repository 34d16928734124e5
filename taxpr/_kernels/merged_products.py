"""Find the products that XLA has merged into another one that shares an operand with them."""

import math

from taxpr import _compat
from taxpr._address import Address
from taxpr._compiled.compile_call import CompiledCall
from taxpr._sites.walk import iter_eqns
from taxpr._untyped import lax as _lax

CONTRACTIONS = _lax.dot_general_p, _lax.conv_general_dilated_p
CONTRACT = "dot", "convolution", "custom-call"


def merged_products(call: CompiledCall) -> dict[str, tuple[Address, ...]]:
    """The products without an instruction of their own, by the instruction that computes them.

    XLA for GPUs joins the other operands of ``x @ a`` and ``x @ b``, multiplies once, and takes the
    parts. The instruction has the name of one of them, and a result as large as all together.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr._compiled.compile_call import compile_call
        >>> merged_products(compile_call(jnp.dot, (jnp.ones((8, 8)), jnp.ones((8, 8))), {}))
        {}
    """
    hlo, found = call.hlo, dict[str, tuple[Address, ...]]()
    every = {at: eqn for at, eqn in iter_eqns(call.program) if eqn.primitive in CONTRACTIONS}
    own: dict[str, Address] = {}
    for one in hlo.instructions.values():
        stamp = hlo.stamp(one) if one.opcode in CONTRACT else None
        if stamp is not None and call.addresses[stamp] in every:
            own[one.name] = call.addresses[stamp]
    without = every.keys() - set(own.values())
    if not without:
        return found
    # Numbers and not bytes: a compiler may multiply in another type than that of the result.
    size = {at: _compat.aval_of(eqn.outvars[0]).size for at, eqn in every.items()}
    reading: dict[tuple[Address, int], list[Address]] = {}
    for at in (one for one in every if one in without):
        for atom in every[at].invars:
            reading.setdefault((at.home, id(atom)), []).append(at)
    for name, at in own.items():
        for atom in every[at].invars:
            others = reading.get((at.home, id(atom)), [])
            whole = size[at] + sum(size[one] for one in others)
            if others and math.prod(hlo.instructions[name].shapes[0].dims) == whole:
                found[name] = tuple(others)
    return found
