"""What is known of higher-order primitives, the equations that hold jaxprs.

One entry for each primitive, in `entries`; `protocol` says what an entry has to say, `table` finds
the one of an equation, and the others are parts of which entries are made. May import
`_primitives`, `_jaxprs`.
"""

from taxpr._hops import entries

__all__ = ["entries"]
