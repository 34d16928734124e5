"""Settings of JAX and of XLA; `with_settings` carries them into another thread."""

import functools
import importlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

from taxpr._compat._private import private
from taxpr._errors import refuse_no_function
from taxpr._untyped import jax as _jax

config = private("config")

# Before 0.8 the current trace was stored like a setting.
_NO_SETTINGS = ("trace_state", "axis_env_state")


def enable_x64() -> Any:
    """A context that gives JAX 64 bits; it moved out of `jax.experimental` in 0.8 or later."""
    found: Any = getattr(jax, "enable_x64", None)
    if found is None:
        found = importlib.import_module("jax.experimental").enable_x64
    return found(True)


@functools.cache
def quick_compile() -> dict[str, Any] | None:
    """The options of `jax.jit` that make XLA for CPUs compile fast and optimize nothing.

    None if XLA does not know the option, since JAX does not promise its name.
    """
    options: dict[str, Any] = {"xla_backend_optimization_level": 0}
    try:
        _jax.jit(lambda: 0).lower().compile(compiler_options=options)
    except Exception:
        return None
    return options


def compiled_by_names() -> Any:
    """A context that lets JAX's cache on disk hand out no program with other name stacks."""
    return config.compilation_cache_include_metadata_in_key(True)


def compiled_for_once() -> Any:
    """A context that keeps programs out of JAX's cache on disk."""
    return config.persistent_cache_min_compile_time_secs(float("inf"))


P = ParamSpec("P")
T = TypeVar("T")


def with_settings(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function run in other threads with the JAX settings of this thread.

    These are settings made by a ``with``: 64 bits, the default device, the mesh, checks for NaN.
    JAX does not pass them on to new threads.

    Args:
        function: Any function.

    Returns:
        A function with the same arguments.

    Example:
        >>> import threading, jax, jax.numpy as jnp, taxpr
        >>> seen = []
        >>> look = lambda: seen.append(jax.config.jax_debug_nans)
        >>> with jax.debug_nans(True):
        ...     for target in (look, taxpr.introspect.with_settings(look)):
        ...         thread = threading.Thread(target=target)
        ...         thread.start()
        ...         thread.join()
        >>> seen
        [False, True]
    """
    refuse_no_function("with_settings", function)
    unset = config.config_ext.unset
    states = {
        id(state): state  # some have two names
        for name, state in vars(importlib.import_module("jax._src.config")).items()
        if isinstance(state, config.config_ext.Config) and name not in _NO_SETTINGS
    }.values()
    values = [(state, state.get_local()) for state in states]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        before = [(state, state.get_local()) for state, _ in values]
        try:
            _set(values, unset)
            return function(*args, **kwargs)
        finally:
            _set(before, unset)

    return call


def _set(values: Any, unset: Any) -> None:
    for state, value in values:
        if state.get_local() is value:
            continue
        state.set_local(value)
        hook = getattr(state, "_update_thread_local_hook", None)
        if hook:
            hook(None if value is unset else value)
