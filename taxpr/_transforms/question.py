"""`question`: a decorator of questions, which take a function first, and then its arguments."""

import functools
import inspect
import numbers
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from taxpr import _compat
from taxpr._devices.agreed import agreed
from taxpr._devices.devices_of import processes_of
from taxpr._errors import ArgumentError, a_type, name_of, told_as
from taxpr._programs.program import Program
from taxpr._programs.static_arguments import has_statics, left_static, with_statics
from taxpr._programs.trace import called_as

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SELECTS = "where", "other"  # parameters that no array is given for
_OF_INPUTS = "patch", "first_difference"  # of two, the latter where it has no other
_OF_PROCESS = "memory", "progress"  # which may differ between processes
_OTHER = (
    'Give another function, "op by op", a dtype such as "bfloat16", or a device; two inputs are '
    "given to what it returns: first_difference(f)(one, two)."
)
_FEW = 4  # arguments that are told
_FUNCTIONS = "fun", "other", "step"  # those that functions of the same arguments are


def question(ask: Callable[_P, _R]) -> Callable[_P, _R]:
    """A decorator for questions: giving it the arguments of the function raises an error.

    The function that it returns takes the static arguments of a jitted function, too.
    """
    signature = inspect.signature(ask)

    def named(made: Any, options: str) -> Any:
        """The function that it returns, with errors that begin with its name."""
        if not isinstance(made, types.FunctionType):
            return made

        def run(*args: Any, **kwargs: Any) -> Any:
            with told_as("trace", ask.__name__):
                _agree(options, args, kwargs)
                return made(*args, **kwargs)

        return called_as(made)(run)

    @functools.wraps(ask)
    def asked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            given = signature.bind(*args, **kwargs).arguments
            found = next((name for name in _SELECTS if _has_arrays(name, given.get(name))), None)
            why = f"{found} is an array" if found else ""
            if found == "other":
                raise ArgumentError(
                    f"{ask.__name__}: other is {_array_text(given[found])}. {_OTHER}"
                )
        except TypeError as error:
            why = str(error)
        if why:
            what = ask.__name__
            of = name_of(args[0]) if args and callable(args[0]) else "f"
            raise ArgumentError(
                f"{what}: {why}. It takes a function and options; what it returns takes the "
                f"arguments of the function: {what}({of})(*args)."
            )
        given = signature.bind(*args, **kwargs).arguments
        functions = {
            name: x
            for name, x in given.items()
            if name in _FUNCTIONS and callable(x) and not isinstance(x, (type, Program))
        }
        if not any(map(has_statics, functions.values())):
            return named(ask(*args, **kwargs), _said(ask.__name__, given))

        def of_bound(bound: dict[str, Any]) -> Any:
            every = signature.bind(*args, **kwargs)
            every.arguments |= bound
            if "static_argnums" in given or "static_argnames" in given:
                every.arguments |= left_static(functions, given)
            return named(ask(*every.args, **every.kwargs), _said(ask.__name__, every.arguments))

        inputs = ask.__name__ in _OF_INPUTS and given.get("other") is None
        of_all: Any = with_statics(of_bound, functions, inputs=inputs)
        return called_as(next(iter(functions.values())))(of_all)

    return asked


def _said(what: str, given: dict[str, Any]) -> str:
    """A question with its options, in the same words in each process."""
    of = ", ".join(_name(given[name]) for name in _FUNCTIONS if given.get(name) is not None)
    rest = {name: x for name, x in given.items() if name not in (*_FUNCTIONS, *_OF_PROCESS)}
    return f"{what} of {of}" + "".join(f", {name}={_name(x)}" for name, x in rest.items())


def _name(x: Any) -> str:
    plain = x is None or isinstance(x, (str, bool, int, float))
    return repr(x) if plain else name_of(x) if callable(x) else x.__class__.__name__


def _agree(said: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Wait for the other processes that have parts of arguments, if there are any."""
    if jax.process_count() == 1:
        return
    leaves = jax.tree.leaves((args, kwargs))
    arrays = [x for x in leaves if isinstance(x, jax.Array) and not _compat.is_tracer(x)]
    devices = {one for x in arrays if not x.is_fully_addressable for one in x.devices()}
    if devices:
        types = ", ".join(f"{x.dtype}{list(x.shape)}" for x in arrays[:_FEW])
        agreed(processes_of(devices), f"{said}; of {len(arrays)} arrays, {types}")


def _array_text(x: Any) -> str:
    """An array, a number, or a tree of these in words."""
    if isinstance(x, numbers.Number):
        return repr(x)
    return "an array" if hasattr(x, "shape") else f"{a_type(x)} with arrays"


def _has_arrays(name: str, given: Any) -> bool:
    arrays = (jax.Array, np.ndarray, np.generic, numbers.Number)
    are_params = name == "where"
    leaves = jax.tree.leaves(given, is_leaf=lambda x: are_params and isinstance(x, dict))
    return any(isinstance(leaf, arrays) for leaf in leaves)
