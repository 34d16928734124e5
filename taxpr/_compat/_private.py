"""Private modules of JAX: a missing name disables only the features that need it.

`private` looks a name up when it is used. If it is gone, `GoneError` says what does not work.
`NEEDED_BY` has these names, each with the feature that needs it. Without the names in `ESSENTIAL`,
each with a reason, `import taxpr` or `watch` fails.
"""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from taxpr._errors import RefusedError, warn

T = TypeVar("T")

_PROGRAMS = "every program consists of these"
_MARKS = "without it no variable of the source has a name, and `watch` has nothing to keep"

ESSENTIAL = {
    "core.DropVar": _PROGRAMS,
    "core.Jaxpr": _PROGRAMS,
    "core.JaxprEqn": _PROGRAMS,
    "core.Literal": _PROGRAMS,
    "core.Primitive": _PROGRAMS,
    "core.Var": _PROGRAMS,
    "effects.Effect": "a tag that is kept has one, and so has a variable that is noted",
    "core.EvalTrace": "says whether JAX is tracing",
    "core.trace_ctx": "says whether JAX is tracing",
    "core.jaxpr_as_fun": "runs a program",
    "interpreters.partial_eval.DynamicJaxprTrace": _MARKS,
    "interpreters.partial_eval.DynamicJaxprTracer": _MARKS,
    "interpreters.partial_eval.make_jaxpr_effects": "each rewritten jaxpr has them",
    "source_info_util.current": _MARKS,
    "source_info_util.is_user_filename": _MARKS,
    "source_info_util.raw_frame_to_frame": _MARKS,
}
_DERIVATIVES = "what is tagged or changed while a derivative is traced"
_OF_XLA = "`memory`, and the other questions about the compiled program"
_LETTERS = "`var_names`, the letters of variables"
_LINES_OF_RULES = "the lines of the rules of `jax.custom_jvp` and `jax.custom_vjp`"
_RULES = "a tag or a change in a function with `jax.custom_jvp` or `jax.custom_vjp`"
_SHARDED = "a program with explicit mesh axes, or a `shard_map`"
_UNTIL = "`until_error`, and a program up to the line that raised"

NEEDED_BY = {
    "callback.emit_python_callback": "statistics of more than `memory=` allows, on a CPU",
    "config._check_vma": _SHARDED,
    "config.compilation_cache_include_metadata_in_key": _OF_XLA,
    "config.persistent_cache_min_compile_time_secs": _OF_XLA,
    "config.config_ext": "`with_settings`, the settings of JAX in another thread",
    "config.trace_context": "to find again what was traced before, which is traced each time",
    "config.traceback_filtering": _UNTIL,
    "core.ShardingTypeError": "the sentence on a change that leaves a sharding open",
    "core.Trace": _DERIVATIVES,
    "core.custom_typechecks": "`jax.custom_transpose` with a tag that is kept",
    "core.extend_axis_env_nd": _SHARDED,
    "core.jaxprs_in_params": _LETTERS,
    "core.new_jaxpr_eqn": _UNTIL,
    "core.pp_eqn_rules": _LETTERS,
    "core.pp_toplevel_jaxpr": _LETTERS,
    "core.pvary": _SHARDED,
    "distributed.global_state": "to tell processes that ask different questions, which then hang",
    "interpreters.ad.CustomVJPException": "the sentence on a tracer that a rule closed over",
    "interpreters.ad.JVPTrace": _DERIVATIVES,
    "interpreters.ad.JVPTracer": _DERIVATIVES,
    "interpreters.ad.LinearizeTrace": _DERIVATIVES,
    "interpreters.ad.LinearizeTracer": _DERIVATIVES,
    "interpreters.batching.BatchTrace": "what is tagged or changed in a `jax.vmap`",
    "interpreters.batching.BatchTracer": "what is tagged or changed in a `jax.vmap`",
    "interpreters.partial_eval.TracingEqn": _DERIVATIVES,
    "interpreters.partial_eval.dce_jaxpr": "a question that runs a part of a program",
    "lax.lax.copy_p": "a donated argument that is read again",
    "linear_util.wrap_init": _RULES,
    "mesh.empty_abstract_mesh": _SHARDED,
    "mesh.get_concrete_mesh": _SHARDED,
    "pjit._infer_params": "`edit` of many functions: JAX traces its own again for each",
    "pretty_printer.nil": _LETTERS,
    "sharding_impls.UNSPECIFIED": "a tag or a change in a `jax.jit` within the program",
    "source_info_util.NameStack": "`scope_of`, the name scopes of equations",
    "source_info_util.Scope": "`scope_of`, the name scopes of equations",
    "source_info_util.SourceInfo": _LINES_OF_RULES,
    "source_info_util._source_info_context": _LINES_OF_RULES,
    "source_info_util.new_source_info": _LETTERS,
    "source_info_util.register_exclusion": "the lines of JAX's own errors, which name taxpr's",
    "state.types.AbstractRef": "a program with Refs",
    "traceback_util.api_boundary": _UNTIL,
    "util.weakref_cache_key_types": "gradients of many functions: JAX keeps memory for each",
}


class GoneError(RefusedError, AttributeError):
    """This version of JAX lacks a private name that is needed."""


class _Private:
    def __init__(self, module: str) -> None:
        self.__module = module

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__module}.{name}"
        try:
            found = getattr(importlib.import_module(f"jax._src.{self.__module}"), name)
        except (ImportError, AttributeError):
            raise GoneError(_gone(full)) from None
        setattr(self, name, found)  # so that the next time costs nothing
        return found


def _gone(full: str) -> str:
    found = f"jax {jax.__version__} has no jax._src.{full}"
    if full in ESSENTIAL:
        return f"{found}: {ESSENTIAL[full]}. Use taxpr with the version of jax before."
    lost = NEEDED_BY.get(full, "what asks for it")
    return f"{found}, so taxpr works without this: {lost}."


def private(module: str) -> Any:
    """The names of a private module of JAX, such as ``"interpreters.ad"``, each when it is used."""
    return _Private(module)


def or_else(name: Callable[[], Any], other: T) -> T:
    """A private name of JAX; if it is gone, ``other``, with a warning that names the feature."""
    try:
        return name()
    except GoneError as gone:
        warn(str(gone), UserWarning, 3)
        return other
