"""Everything taxpr knows about higher-order primitives, those whose equations hold jaxprs.

Each primitive has one entry, in `entries`. `protocol` defines what an entry consists of, `table`
finds the entry of an equation, and the other modules are helpers for writing entries. May import
`_primitives` and `_jaxprs`; may not import the engine that calls the entries.
"""

from taxpr._hops import entries

__all__ = ["entries"]
