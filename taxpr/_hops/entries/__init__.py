"""The entries of JAX's own primitives, and of lineax's, a module for each family.

Importing them fills the table `taxpr._hops.table`. May import what an entry is made of: the rest
of `_hops`, `_primitives`, `_jaxprs`.
"""

from taxpr._hops.entries import (
    branches,
    calls,
    custom,
    inlined,
    loops,
    of_lineax,
    opaque,
    parallel,
    solvers,
    state,
)

__all__ = [
    "branches",
    "calls",
    "custom",
    "inlined",
    "loops",
    "of_lineax",
    "opaque",
    "parallel",
    "solvers",
    "state",
]
