"""taxpr: find, read and change any value of a JAX program.

`tag` marks values while a function is traced, `tag_at` marks them afterwards. `inject`
runs a function at each tag, with a context threaded through the program in the order of
execution; `collect` hands the values out. `watch`, `find_nan`, `flow`, `check` and others answer
questions.

This module has the functions that a user types. Other modules have the rest: `program` and
`questions` the types of results, `errors`, `injectors`, `introspect` for front ends, `hops` for
authors of rules, and `libraries` for libraries whose objects hold states.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported when used, see `_HOMES`
    from taxpr import errors as errors
    from taxpr import hops as hops
    from taxpr import injectors as injectors
    from taxpr import introspect as introspect
    from taxpr import libraries as libraries
    from taxpr import program as program
    from taxpr import questions as questions
    from taxpr._address import Address
    from taxpr._calls.libraries import register_library
    from taxpr._drop_in import TypedClosedJaxpr as TypedClosedJaxpr
    from taxpr._drop_in import partial as partial
    from taxpr._drop_in import partition_out as partition_out
    from taxpr._drop_in import tcj_partition_out as tcj_partition_out
    from taxpr._drop_in import tcj_transpose as tcj_transpose
    from taxpr._drop_in import transpose as transpose
    from taxpr._editing.edited import edit
    from taxpr._errors import RefusedError, TaxprError
    from taxpr._hops.outside import register_hop
    from taxpr._injectors.declare import injector
    from taxpr._injectors.injector import from_function as from_function
    from taxpr._injectors.kind import Param
    from taxpr._injectors.per_example import per_example
    from taxpr._injectors.plant import plant
    from taxpr._injectors.switched import switched
    from taxpr._primitives.cotangent import tag_cotangent
    from taxpr._primitives.state import State
    from taxpr._primitives.tag import keep, tag
    from taxpr._programs.edit import dissolve_tags as dissolve_tags
    from taxpr._programs.find import find_tags, find_values, tag_at
    from taxpr._programs.program import Program
    from taxpr._programs.trace import trace
    from taxpr._programs.until import until_error as until_error
    from taxpr._sites.criteria import each, line, maybe, scope
    from taxpr._states.make_jaxpr import make_jaxpr
    from taxpr._states.uncurry import uncurry
    from taxpr._transforms.gradients import grad_at
    from taxpr._transforms.transforms import collect, inject
    from taxpr._variables.cotangent import cotangent
    from taxpr._variables.select import var
    from taxpr.injectors import (
        add,
        cast,
        check_finite,
        clip,
        count,
        noise,
        record,
        replace,
        scale,
        state,
        stats,
        stop_gradient,
        zero,
    )
    from taxpr.injectors import ready_injectors as ready_injectors
    from taxpr.questions import (
        check,
        check_grad,
        compile_time,
        compiled,
        compiles,
        find_nan,
        first_difference,
        flow,
        load_recording,
        memory,
        patch,
        profile,
        summary,
        sweep,
        watch,
        why_compiled,
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
    "check_grad",
    "clip",
    "collect",
    "compile_time",
    "compiled",
    "compiles",
    "cotangent",
    "count",
    "each",
    "edit",
    "find_nan",
    "find_tags",
    "find_values",
    "first_difference",
    "flow",
    "grad_at",
    "inject",
    "injector",
    "keep",
    "line",
    "load_recording",
    "make_jaxpr",
    "maybe",
    "memory",
    "noise",
    "patch",
    "per_example",
    "plant",
    "profile",
    "record",
    "register_hop",
    "register_library",
    "replace",
    "scale",
    "scope",
    "state",
    "stats",
    "stop_gradient",
    "summary",
    "sweep",
    "switched",
    "tag",
    "tag_at",
    "tag_cotangent",
    "trace",
    "uncurry",
    "var",
    "watch",
    "why_compiled",
    "zero",
]

# Where names are that no public module has. All are imported when they are used: in a program that
# tags alone that is a fifth of taxpr.
_HOMES = {
    "_address": ("Address",),
    "_calls.libraries": ("register_library",),
    "_editing.edited": ("edit",),
    "_errors": ("RefusedError", "TaxprError"),
    "_hops.outside": ("register_hop",),
    "_injectors.declare": ("injector",),
    "_injectors.kind": ("Param",),
    "_injectors.per_example": ("per_example",),
    "_injectors.plant": ("plant",),
    "_injectors.switched": ("switched",),
    "_primitives.cotangent": ("tag_cotangent",),
    "_primitives.state": ("State",),
    "_primitives.tag": ("keep", "tag"),
    "_programs.find": ("find_tags", "find_values", "tag_at"),
    "_programs.program": ("Program",),
    "_programs.trace": ("trace",),
    "_sites.criteria": ("each", "line", "maybe", "scope"),
    "_states.make_jaxpr": ("make_jaxpr",),
    "_states.uncurry": ("uncurry",),
    "_transforms.gradients": ("grad_at",),
    "_transforms.transforms": ("collect", "inject"),
    "_variables.cotangent": ("cotangent",),
    "_variables.select": ("var",),
}
_MODULES = ("errors", "injectors", "questions", "program", "introspect", "hops", "libraries")


def __getattr__(name: str) -> Any:
    """A name that is used for the first time; what modules have, too: `taxpr.Recording`."""
    if name in _MODULES:
        return importlib.import_module(f"taxpr.{name}")
    homes = [home for home, names in _HOMES.items() if name in names]
    others = () if name.startswith("_") else (*_MODULES, "_drop_in")
    for home in homes or others:
        module = importlib.import_module(f"taxpr.{home}")
        if homes or name in module.__all__:
            return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module 'taxpr' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names that one types, and the modules that have the rest."""
    return sorted([*__all__, *_MODULES, "__version__"])
