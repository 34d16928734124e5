"""The parts for writing an entry of a higher-order primitive, for `taxpr.register_hop`.

For libraries with primitives of their own whose equations hold jaxprs. docs/how-to/new-hop.md shows
how to write an entry.
"""

from taxpr._hops.nested import Nested, called
from taxpr._hops.protocol import Emission, Emits, Hop, Inject, Thread, Threaded
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
