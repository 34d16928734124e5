"""taxpr: find, read and change any value of a JAX program.

`tag` marks values while a function is traced, `tag_at` marks them afterwards. `inject`
runs a function at each tag, with a context threaded through the program in the order of
execution; `collect` hands the values out. `watch`, `find_nan`, `flow`, `check` and others answer
questions.

Here is what one types. The modules have the rest: `program` and `questions` the types of what is
returned, `errors`, `injectors`, `introspect` for front ends, `hops` for those who write rules.
"""

from typing import Any

from taxpr import errors as errors
from taxpr import hops as hops
from taxpr import injectors as injectors
from taxpr import introspect as introspect
from taxpr import program as program
from taxpr import questions as questions
from taxpr._address import Address
from taxpr._check.check import check
from taxpr._differences.difference import first_difference
from taxpr._drop_in.partition import partial as partial  # these are kept, and not in the list
from taxpr._drop_in.partition import partition_out as partition_out
from taxpr._drop_in.partition import transpose as transpose
from taxpr._drop_in.typed import TypedClosedJaxpr as TypedClosedJaxpr
from taxpr._drop_in.typed import tcj_partition_out as tcj_partition_out
from taxpr._drop_in.typed import tcj_transpose as tcj_transpose
from taxpr._errors import RefusedError, TaxprError
from taxpr._hops.outside import register_hop
from taxpr._injectors.injector import from_function
from taxpr._injectors.kind import Param, injector
from taxpr._injectors.per_example import per_example
from taxpr._injectors.plant import plant
from taxpr._injectors.switched import switched
from taxpr._primitives.cotangent import tag_cotangent
from taxpr._primitives.state import State
from taxpr._primitives.tag import keep, tag
from taxpr._programs.edit import dissolve_tags
from taxpr._programs.functions import find_tags, find_values, tag_at, trace
from taxpr._programs.gradients import grad_at
from taxpr._programs.program import Program
from taxpr._programs.transforms import collect, inject
from taxpr._programs.until import until_error
from taxpr._questions.find_nan import find_nan
from taxpr._questions.flow import flow
from taxpr._recordings.recording import load_recording
from taxpr._recordings.watch import watch
from taxpr._sites.criteria import line, maybe, scope
from taxpr._states.make_jaxpr import make_jaxpr
from taxpr._states.uncurry import uncurry
from taxpr._sweep.patch import patch
from taxpr._sweep.points import each
from taxpr._sweep.sweep import sweep
from taxpr._variables.cotangent import cotangent
from taxpr._variables.select import var
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

__version__ = "0.1.0"

__all__ = [
    "Address",
    "Param",
    "Program",
    "RefusedError",
    "State",
    "TaxprError",
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
    "find_nan",
    "find_tags",
    "find_values",
    "first_difference",
    "flow",
    "from_function",
    "grad_at",
    "inject",
    "injector",
    "keep",
    "line",
    "load_recording",
    "make_jaxpr",
    "maybe",
    "noise",
    "patch",
    "per_example",
    "plant",
    "ready_injectors",
    "record",
    "register_hop",
    "replace",
    "scale",
    "scope",
    "state",
    "stats",
    "stop_gradient",
    "sweep",
    "switched",
    "tag",
    "tag_at",
    "tag_cotangent",
    "trace",
    "uncurry",
    "until_error",
    "var",
    "watch",
    "zero",
]

_MODULES = (errors, hops, injectors, introspect, program, questions)


def __getattr__(name: str) -> Any:
    """What a module of taxpr has is found here, too: `taxpr.Recording`, `taxpr.print`."""
    for module in _MODULES:
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module 'taxpr' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names that one types, and the modules that have the rest."""
    modules = [module.__name__.removeprefix("taxpr.") for module in _MODULES]
    return sorted([*__all__, *modules, "__version__"])
