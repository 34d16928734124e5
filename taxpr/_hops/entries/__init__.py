"""The entries of the primitives of JAX and lineax, one module for each family.

Importing this package fills the table in `taxpr._hops.table`. May import the rest of `_hops`,
`_primitives` and `_jaxprs`; may not import the engine.
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
    unfinished,
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
    "unfinished",
]
