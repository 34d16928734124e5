"""The entries of the table of higher-order primitives, a module for each family.

Importing this package fills the table `taxpr._hops.table`.
"""

from taxpr._hops import (
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
