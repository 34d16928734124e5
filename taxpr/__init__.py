"""taxpr: find, read and change any value of a JAX program.

`tag` marks values while a function is traced, `tag_at` marks them afterwards. `inject`
runs a function at each tag, with a context threaded through the program in the order of
execution; `collect` hands the values out.
"""

from taxpr._collect import Last, Masked, Steps
from taxpr._compat import (
    Source,
    is_dropped,
    is_literal,
    scope_of,
    scopes_of,
    source_of,
    sources_of,
    transformations_of,
    var_names,
)
from taxpr._cotangent import tag_cotangent
from taxpr._criteria import line, maybe, scope
from taxpr._edit import dissolve_tags, iter_tags
from taxpr._errors import (
    AddressError,
    ArgumentError,
    DroppedRuleWarning,
    InjectorError,
    RefusedError,
    SelectorError,
    StaleDerivativeWarning,
    StateError,
    TagError,
    TaxprError,
)
from taxpr._functions import find_tags, find_values, tag_at, trace
from taxpr._gradients import grad_at
from taxpr._injector import Injector, from_function
from taxpr._injector_kind import InjectorKind, Param, injector
from taxpr._interchange import plant
from taxpr._make_jaxpr import make_jaxpr
from taxpr._partition import partial, partition_out, transpose
from taxpr._per_example import per_example
from taxpr._rules import Nested
from taxpr._site import Site
from taxpr._state_cell import State
from taxpr._stateful import states_of
from taxpr._table import injectable, is_hop, nested_jaxprs
from taxpr._tag import is_tag, keep, tag, tag_avals, tag_params, tag_tree
from taxpr._transforms import collect, inject
from taxpr._typed import TypedClosedJaxpr, tcj_partition_out, tcj_transpose
from taxpr._uncurry import Uncurried, uncurry
from taxpr._values import Value
from taxpr._walk import iter_eqns, numbered
from taxpr.injectors import (
    add,
    cast,
    check_finite,
    clip,
    count,
    noise,
    ready_injectors,
    record,
    replace,
    scale,
    state,
    stats,
    stop_gradient,
    zero,
)
from taxpr.injectors import print as print  # not in __all__: it would hide the builtin
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
    "StaleDerivativeWarning",
    "State",
    "StateError",
    "Steps",
    "TagError",
    "TaxprError",
    "TypedClosedJaxpr",
    "Uncurried",
    "Value",
    "add",
    "cast",
    "check_finite",
    "clip",
    "collect",
    "count",
    "dissolve_tags",
    "find_tags",
    "find_values",
    "from_function",
    "grad_at",
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
    "line",
    "make_jaxpr",
    "maybe",
    "nested_jaxprs",
    "noise",
    "numbered",
    "partial",
    "partition_out",
    "per_example",
    "plant",
    "ready_injectors",
    "record",
    "replace",
    "scale",
    "scope",
    "scope_of",
    "scopes_of",
    "source_of",
    "sources_of",
    "state",
    "states_of",
    "stats",
    "stop_gradient",
    "tag",
    "tag_at",
    "tag_avals",
    "tag_cotangent",
    "tag_params",
    "tag_tree",
    "tcj_partition_out",
    "tcj_transpose",
    "trace",
    "transformations_of",
    "transpose",
    "uncurry",
    "var_names",
    "zero",
]
