"""Number the equations of a program, so that XLA's instructions say which ones they come from."""

import re
from collections.abc import Sequence

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import J
from taxpr._hops.places import numbered
from taxpr._hops.table import nested_jaxprs, replace_nested
from taxpr._primitives.tag_equation import is_tag

# XLA takes letters, digits, underscores and dots; an `@` and what follows it would be cut off.
_STAMP = "taxpr.{}."
_STAMPS = re.compile(r"taxpr\.(\d+)\.")


def stamped(jaxpr: J) -> tuple[J, list[Address]]:
    """A jaxpr whose equations have numbers in their name stacks, and their addresses by number.

    A jaxpr that several equations share has a copy for each, so that each place has its own number.
    Hidden contents of an equation, such as the code of a kernel, get the number of the equation.

    Example:
        >>> import jax
        >>> from taxpr import scope_of, trace
        >>> program = trace(lambda x: jax.lax.map(jax.numpy.sin, x))(jax.numpy.ones(3))
        >>> numbered, addresses = stamped(program.jaxpr)
        >>> scope_of(numbered.eqns[0]), addresses
        ('taxpr.0.', ['0:scan', '0:scan/body/0:sin'])
    """
    addresses: list[Address] = []
    return _stamped(jaxpr, Address(), addresses), addresses


def _stamped(jaxpr: J, home: Address, addresses: list[Address]) -> J:
    eqns: list[_compat.JaxprEqn] = []
    for local, eqn in numbered(_compat.open_jaxpr(jaxpr)):
        if is_tag(eqn):  # which is no operation
            eqns.append(eqn)
            continue
        number = len(addresses)
        addresses.append(home / local)
        new = {
            one.label: _stamped(one.stored, home / local / one.label, addresses)
            for one in nested_jaxprs(eqn)
            if one.replaceable
        }
        eqn = replace_nested(eqn, new) if new else eqn
        eqns.append(_compat.scoped(eqn, _STAMP.format(number)))
    return _compat.rebuilt(jaxpr, eqns=eqns)


def stamps_in(op_name: str) -> Sequence[int]:
    """The numbers in the ``op_name`` of an instruction, outer equations first."""
    return [int(one) for one in _STAMPS.findall(op_name)]
