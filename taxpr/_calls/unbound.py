"""Turn a method, partial function or callable module into a function of the objects bound to it."""

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

from taxpr._calls.bound import Statics, without_statics
from taxpr._calls.model import Unbound


def unbind(fun: Callable[..., Any], is_object: Callable[[Any], bool]) -> Unbound:
    """The function as a function of all objects that it is bound to.

    Args:
        fun: The function.
        is_object: Whether a callable holds state itself, such as a module.

    Example:
        >>> class Greeting(str):
        ...     def to(self, name):
        ...         return f"{self} {name}"
        >>> found = unbind(Greeting("hello").to, lambda x: False)
        >>> found.fun(*found.args, "you"), found.texts
        ('hello you', ['{fun}.__self__'])
    """
    if isinstance(fun, types.MethodType):
        return Unbound(fun.__func__, (fun.__self__,), "{fun}.__func__", ["{fun}.__self__"])
    if isinstance(fun, functools.partial):
        call: Callable[..., Any] = fun.func
        if fun.keywords:
            call = functools.partial(call, **fun.keywords)
        text = "type({fun})({fun}.func, **{fun}.keywords)" if fun.keywords else "{fun}.func"
        return Unbound(call, fun.args, text, ["*{fun}.args"])
    if is_object(fun):
        return Unbound(type(fun).__call__, (fun,), "type({fun}).__call__", ["{fun}"])
    if (given := getattr(fun, "bound_statics", None)) is not None:
        inner, args, kwargs, statics = given
        found = unbind(inner, is_object)
        n = len(found.args)
        nums = tuple(number + n for number in statics.nums)
        moved = Statics(nums, statics.names)
        call, *_ = without_statics(found.fun, (*found.args, *args), kwargs, moved)
        return dataclasses.replace(found, fun=call)
    return Unbound(fun)
