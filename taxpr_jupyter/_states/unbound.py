"""Turn a method, partial function or callable module into a function of the objects bound to it."""

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

from taxpr_jupyter._states.model import Unbound
from taxpr_jupyter._states.traced import Statics, without_statics


def unbind(fn: Callable[..., Any], is_object: Callable[[Any], bool]) -> Unbound:
    """The function as a function of all objects that it is bound to.

    Args:
        fn: The function.
        is_object: Whether a callable holds state itself, such as a module.

    Example:
        >>> class Greeting(str):
        ...     def to(self, name):
        ...         return f"{self} {name}"
        >>> found = unbind(Greeting("hello").to, lambda x: False)
        >>> found.fn(*found.args, "you"), found.texts
        ('hello you', ['{fn}.__self__'])
    """
    if isinstance(fn, types.MethodType):
        return Unbound(fn.__func__, (fn.__self__,), "{fn}.__func__", ["{fn}.__self__"])
    if isinstance(fn, functools.partial):
        call = functools.partial(fn.func, **fn.keywords) if fn.keywords else fn.func
        text = "type({fn})({fn}.func, **{fn}.keywords)" if fn.keywords else "{fn}.func"
        return Unbound(call, fn.args, text, ["*{fn}.args"])
    if is_object(fn):
        return Unbound(type(fn).__call__, (fn,), "type({fn}).__call__", ["{fn}"])
    if (given := getattr(fn, "bound_statics", None)) is not None:
        inner, args, kwargs, statics = given
        found = unbind(inner, is_object)
        n = len(found.args)
        nums = tuple(number + n for number in statics.nums)
        moved = Statics(nums, statics.names)
        call, *_ = without_statics(found.fn, (*found.args, *args), kwargs, moved)
        return dataclasses.replace(found, fn=call)
    return Unbound(fn)
