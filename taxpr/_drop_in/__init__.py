"""Functions kept from taxpr 0.0.3: parts of jaxprs, and jaxprs with the PyTrees of their arguments.

May import every other room. Only `taxpr/__init__.py` imports this one.
"""

from taxpr._drop_in.partition import partial, partition_out, transpose
from taxpr._drop_in.typed import TypedClosedJaxpr, tcj_partition_out, tcj_transpose

__all__ = [
    "TypedClosedJaxpr",
    "partial",
    "partition_out",
    "tcj_partition_out",
    "tcj_transpose",
    "transpose",
]
