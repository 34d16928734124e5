"""taxpr: find, read and change any value of a JAX program.

`tag` marks values while a function is traced, `tag_at` marks them afterwards. `inject`
runs a function at each tag, with a context threaded through the program in the order of
execution; `collect` hands the values out.
"""

from taxpr import hops as hops
from taxpr._address import Address
from taxpr._answers.answer import Answer
from taxpr._check.check import check
from taxpr._compat import (
    Source,
    is_dropped,
    is_literal,
    is_recomputed,
    scope_of,
    scopes_of,
    source_of,
    sources_of,
    transformations_of,
    var_names,
    with_settings,
)
from taxpr._differences.difference import first_difference
from taxpr._drop_in.partition import partial, partition_out, transpose
from taxpr._drop_in.typed import TypedClosedJaxpr, tcj_partition_out, tcj_transpose
from taxpr._errors import (
    AddressError,
    ArgumentError,
    DroppedRuleWarning,
    InjectorError,
    RefusedError,
    SelectorError,
    SharedValueWarning,
    StaleDerivativeWarning,
    StateError,
    TagError,
    TaxprError,
    UnobservedWarning,
    warnings_to,
)
from taxpr._hops.outside import register_hop
from taxpr._hops.protocol import Hop, Nested
from taxpr._hops.table import injectable, is_hop, nested_jaxprs
from taxpr._injectors.collect import Last, Masked, Steps
from taxpr._injectors.injector import Injector, from_function
from taxpr._injectors.kind import InjectorKind, Param, injector
from taxpr._injectors.per_example import per_example
from taxpr._injectors.plant import plant
from taxpr._injectors.switched import switched
from taxpr._places import file_text
from taxpr._primitives.cotangent import tag_cotangent
from taxpr._primitives.state import State
from taxpr._primitives.tag import is_tag, keep, tag, tag_avals, tag_params, tag_tree
from taxpr._primitives.unfinished import Failure, failure_of, is_unfinished
from taxpr._programs.edit import dissolve_tags, iter_tags
from taxpr._programs.functions import find_tags, find_values, tag_at, trace
from taxpr._programs.gradients import grad_at
from taxpr._programs.listing import Listing, SourceLine
from taxpr._programs.program import Injected, Program
from taxpr._programs.transforms import collect, inject
from taxpr._programs.until import until_error
from taxpr._questions.find_nan import NanFound, NanRow, find_nan
from taxpr._questions.flow import Flow, FlowRow, flow
from taxpr._recordings.recorded import Recorded
from taxpr._recordings.recording import Recording, load_recording
from taxpr._recordings.summary import Stats
from taxpr._recordings.watch import watch
from taxpr._sites.criteria import line, maybe, scope
from taxpr._sites.site import Site
from taxpr._sites.skipped import Skipped
from taxpr._sites.values import Value
from taxpr._sites.walk import iter_eqns, numbered
from taxpr._source.files import is_library_file, is_user_file
from taxpr._source.statements import Statement, statements_of
from taxpr._states.make_jaxpr import make_jaxpr
from taxpr._states.stateful import states_of
from taxpr._states.uncurry import Uncurried, uncurry
from taxpr._sweep.patch import patch
from taxpr._sweep.points import each
from taxpr._sweep.sweep import sweep
from taxpr._variables.cotangent import cotangent
from taxpr._variables.select import var
from taxpr._variables.table import Variable
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

__version__ = "0.1.0"

__all__ = [
    "Address",
    "AddressError",
    "Answer",
    "ArgumentError",
    "DroppedRuleWarning",
    "Failure",
    "Flow",
    "FlowRow",
    "Hop",
    "Injected",
    "Injector",
    "InjectorError",
    "InjectorKind",
    "Last",
    "Listing",
    "Masked",
    "NanFound",
    "NanRow",
    "Nested",
    "Param",
    "Program",
    "Recorded",
    "Recording",
    "RefusedError",
    "SelectorError",
    "SharedValueWarning",
    "Site",
    "Skipped",
    "Source",
    "SourceLine",
    "StaleDerivativeWarning",
    "State",
    "StateError",
    "Statement",
    "Stats",
    "Steps",
    "TagError",
    "TaxprError",
    "TypedClosedJaxpr",
    "Uncurried",
    "UnobservedWarning",
    "Value",
    "Variable",
    "add",
    "cast",
    "check",
    "check_finite",
    "clip",
    "collect",
    "cotangent",
    "count",
    "dissolve_tags",
    "each",
    "failure_of",
    "file_text",
    "find_nan",
    "find_tags",
    "find_values",
    "first_difference",
    "flow",
    "from_function",
    "grad_at",
    "inject",
    "injectable",
    "injector",
    "is_dropped",
    "is_hop",
    "is_library_file",
    "is_literal",
    "is_recomputed",
    "is_tag",
    "is_unfinished",
    "is_user_file",
    "iter_eqns",
    "iter_tags",
    "keep",
    "line",
    "load_recording",
    "make_jaxpr",
    "maybe",
    "nested_jaxprs",
    "noise",
    "numbered",
    "partial",
    "partition_out",
    "patch",
    "per_example",
    "plant",
    "ready_injectors",
    "record",
    "register_hop",
    "replace",
    "scale",
    "scope",
    "scope_of",
    "scopes_of",
    "source_of",
    "sources_of",
    "state",
    "statements_of",
    "states_of",
    "stats",
    "stop_gradient",
    "sweep",
    "switched",
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
    "until_error",
    "var",
    "var_names",
    "warnings_to",
    "watch",
    "with_settings",
    "zero",
]
