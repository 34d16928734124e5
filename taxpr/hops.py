"""What an entry of a higher-order primitive is made of.

For libraries that have primitives of their own whose equations hold jaxprs; `taxpr.register_hop`
adds the entry. docs/how-to/new-hop.md shows how one is written.
"""

from taxpr._hops.protocol import Emission, Emits, Hop, Inject, Nested, Thread, Threaded, called
from taxpr._hops.rebuild import before_loop, counted, later, never
from taxpr._hops.traced import traced

__all__ = [
    "Emission",
    "Emits",
    "Hop",
    "Inject",
    "Nested",
    "Thread",
    "Threaded",
    "before_loop",
    "called",
    "counted",
    "later",
    "never",
    "traced",
]
