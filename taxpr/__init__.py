"""taxpr: find, read and change any value of a JAX program.

`tag` marks values while a function is traced, `tag_at` marks them afterwards. `inject`
runs a function at each tag, with a context threaded through the program in the order of
execution; `collect` hands the values out.
"""

from taxpr._collect import Last, Masked
from taxpr._compat import Source, is_dropped, is_literal, scope_of, source_of, var_names
from taxpr._edit import dissolve_tags, iter_tags
from taxpr._errors import (
    AddressError,
    ArgumentError,
    DroppedRuleWarning,
    InjectorError,
    RefusedError,
    SelectorError,
    TagError,
    TaxprError,
)
from taxpr._functions import find_tags, tag_at, trace
from taxpr._inject import inject
from taxpr._injector import Injector, InjectorKind, Param, from_function, injector
from taxpr._rules import Nested, injectable, is_hop, nested_jaxprs
from taxpr._tag import is_tag, keep, tag, tag_avals, tag_params, tag_tree
from taxpr._walk import Site, iter_eqns, numbered
from taxpr.injectors import add, clip, count, ready_injectors, record, replace, scale, stats, zero
from taxpr.program import Injected, Program

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "ArgumentError",
    "DroppedRuleWarning",
    "Injected",
    "Injector",
    "InjectorError",
    "InjectorKind",
    "Last",
    "Masked",
    "Nested",
    "Param",
    "Program",
    "RefusedError",
    "SelectorError",
    "Site",
    "Source",
    "TagError",
    "TaxprError",
    "add",
    "clip",
    "count",
    "dissolve_tags",
    "find_tags",
    "from_function",
    "inject",
    "injectable",
    "injector",
    "is_dropped",
    "is_hop",
    "is_literal",
    "is_tag",
    "iter_eqns",
    "iter_tags",
    "keep",
    "nested_jaxprs",
    "numbered",
    "ready_injectors",
    "record",
    "replace",
    "scale",
    "scope_of",
    "source_of",
    "stats",
    "tag",
    "tag_at",
    "tag_avals",
    "tag_params",
    "tag_tree",
    "trace",
    "var_names",
    "zero",
]
