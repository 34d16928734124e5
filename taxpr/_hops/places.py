"""The places of a jaxpr: the names of its equations, and the addresses of its values."""

from collections.abc import Sequence
from typing import Any, Protocol

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import JaxprEqn, StoredJaxpr
from taxpr._errors import refuse_function
from taxpr._primitives.tag_equation import is_tag, variable_of


class HasEqns(Protocol):
    """A jaxpr, or a `taxpr.Program`."""

    @property
    def eqns(self) -> Sequence[JaxprEqn]: ...


def numbered(jaxpr: HasEqns) -> list[tuple[str, JaxprEqn]]:
    """The equations of one jaxpr, each with the last part of its address.

    Args:
        jaxpr: An open or closed jaxpr, or anything with ``eqns``.

    Example:
        >>> import jax.numpy as jnp
        >>> from taxpr import numbered, tag, trace
        >>> program = trace(lambda x: tag(jnp.sin(x), name="h") * 2)(1.0)
        >>> [local for local, eqn in numbered(program)]
        ['0:sin', 't0', '1:mul']
    """
    refuse_function("numbered", jaxpr)
    given: Any = jaxpr
    eqns: Sequence[JaxprEqn] = (given if hasattr(given, "eqns") else given.jaxpr).eqns
    found: list[tuple[str, JaxprEqn]] = []
    tags = own = 0
    for position, eqn in enumerate(eqns):
        if not is_tag(eqn):
            name = f"{position - tags}:{eqn.primitive.name}"
        else:
            variable = variable_of(eqn)
            name = variable.local if variable else f"t{own}"
            tags, own = tags + 1, own + (variable is None)
        found.append((name, eqn))
    return found


def addresses_of(stored: StoredJaxpr, home: Address) -> dict[int, Address]:
    """The address of the value that each variable of a jaxpr holds."""
    inner = _compat.open_jaxpr(stored)
    at: dict[int, Address] = {}
    for kind, variables in (("const", inner.constvars), ("in", inner.invars)):
        at.update((id(var), home / f"{kind}{k}") for k, var in enumerate(variables))
    for local, eqn in numbered(inner):
        if is_tag(eqn):
            pairs = zip(eqn.invars, eqn.outvars, strict=True)
            at.update((id(new), at[id(old)]) for old, new in pairs if id(old) in at)
        else:
            at.update((id(var), (home / local).value(k)) for k, var in enumerate(eqn.outvars))
    return at
