"""Find the user's call, if a library takes its arguments apart before `jax.jit`."""

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

from taxpr import _compat
from taxpr._calls.libraries import libraries
from taxpr._calls.static import marked
from taxpr._compat import JittedCall
from taxpr._compilations.history import inner
from taxpr._errors import name_of, signature_of
from taxpr._source.files import is_library_file

_ANY = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS


def as_called(call: JittedCall) -> JittedCall:
    """A call with the function and the arguments of the user.

    `eqx.filter_jit` jits a function of its own, with the name of the user's. One of the frames of
    the library is the call of the object that it has returned.
    """
    code = getattr(inner(call.fun), "__code__", None)
    if code is None or not is_library_file(code.co_filename):
        return call
    if not _compat.is_outside_jax(code.co_filename):
        return call
    frame, name = call.caller, name_of(call.fun)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        code, held = frame.f_code, frame.f_locals
        if code.co_argcount == 1 and all(code.co_flags & flag for flag in _ANY):
            own, args, kwargs = (held.get(one) for one in code.co_varnames[:3])
            if name in (name_of(own), name_of(getattr(own, "__wrapped__", None))):
                return _of_user(own, args or (), kwargs or {}, call)
        frame = frame.f_back
    return call


def called(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, JittedCall | None]:
    """The function that a call compiles, if `jax.jit` or a library has jitted the called one.

    Returns:
        The function, or None if it is not known; and the call, or None if the library makes other
        arguments, as flax nnx does.
    """
    call = _compat.call_of_jitted(fun, args, kwargs)
    if call is None and _takes_numbers(fun):
        call = _of_user(fun, args, kwargs, JittedCall(fun, (), {}, {}, 0, None))
    if call is not None:
        return call.fun, call
    every = getattr(fun, "__dict__", {}).values()
    return next((one.__wrapped__ for one in every if hasattr(one, "_cache_size")), None), None


def _of_user(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any], call: JittedCall
) -> JittedCall:
    keeps = _takes_numbers(fun)
    wrapped = getattr(fun, "__wrapped__", fun)
    if keeps and (signature := signature_of(wrapped)) is not None:
        bound = signature.bind(*args, **kwargs)  # as equinox does
        args, kwargs = bound.args, bound.kwargs
    if not isinstance(wrapped, types.FunctionType):  # an object that is called is an argument, too
        args, wrapped = (wrapped, *args), type(wrapped).__call__
    args, kwargs = marked((tuple(args), dict(kwargs)), keeps_numbers=keeps)
    return call._replace(fun=wrapped, args=args, kwargs=kwargs, options={})


def _takes_numbers(fun: Any) -> bool:
    return any(library.takes_numbers(fun) for library in libraries())
