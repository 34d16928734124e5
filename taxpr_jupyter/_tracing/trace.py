"""Trace the user's call: choose static arguments, and find the states."""

import dataclasses
import functools
import os
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.extend import core

import taxpr
from taxpr import introspect
from taxpr.libraries import (
    Statics,
    door_of,
    is_object,
    is_traced,
    parameters_of,
    without_statics,
)
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._states.of_libraries import pure_call
from taxpr_jupyter._states.pure_call import PureCall
from taxpr_jupyter._states.trace_pure import Names, traced_pure
from taxpr_jupyter._text.hints import LEAKED
from taxpr_jupyter._text.short import shortened
from taxpr_jupyter._tracing.advice import advise, uncallable

_SAID = re.compile("which is no array, so the function got it")  # by taxpr


@dataclasses.dataclass(frozen=True)
class TracedCall:
    """A traced call.

    Attributes:
        program: The program.
        args: The positional arguments that are traced.
        kwargs: The keyword arguments that are traced.
        static_argnums: The positions of static arguments.
        static_argnames: The names of static arguments.
        notes: Remarks for the user.
        fun: The function that was traced, of the traced arguments, with states of these first.
        pure: The pure call if the function uses states, else None. With states, the program takes
            them first and returns them after the result.
    """

    program: taxpr.Program
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    notes: tuple[str, ...]
    pure: PureCall | None = None


def traced(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Iterable[int],
    static_argnames: str | Iterable[str],
    variables: Names = None,
) -> TracedCall:
    """Trace ``fun(*args, **kwargs)``; strings and functions among the arguments are static.

    A function that uses states is traced as a pure function of them. ``variables`` means ``names``
    of `taxpr.trace`.

    Raises:
        PanelError: If ``fun`` cannot be called.
        Exception: Any error of the function itself.
    """
    if not callable(fun) or isinstance(fun, jax.stages.Compiled):
        raise PanelError(
            f"{_shown(fun)} cannot be called, so there is nothing to trace{uncallable(fun)}"
        )
    statics, notes = _statics(fun, args, kwargs, static_argnums, static_argnames)
    if isinstance(fun, taxpr.Program) and fun.skipped:
        notes += (f"Passed over before: {'; '.join(map(str, fun.skipped))}.",)
    try:
        bound, some, words = without_statics(fun, args, kwargs, statics)
        door = door_of(bound, some, words, pictures=True)
        pure = pure_call(door.states) if door and door.states else None
        program, pure = traced_pure(_anew(fun), args, kwargs, statics, pure, variables)
    except Exception as error:
        if not _SAID.search(str(error)):
            advise(error, fun, args, kwargs)
        raise
    # JAX treats a leaked tracer as a constant here, and fails only when the program runs.
    if any(isinstance(const, Tracer) for const in program.consts):
        raise PanelError(LEAKED)
    notes += (note,) if pure and (note := pure.note()) else ()
    if pure is not None:
        bound, some, words = pure.fun, pure.args, dict(pure.kwargs)
    elif door is not None:
        bound, some, words = door.fun, door.first.args, dict(door.first.kwargs)
    return TracedCall(
        program=dataclasses.replace(program, name=title(fun, program.name)),
        fun=bound,
        args=tuple(some),
        kwargs=words,
        static_argnums=statics.nums,
        static_argnames=statics.names,
        notes=notes,
        pure=pure,
    )


def _anew(fun: Any) -> Any:
    """A copy of a function: JAX traces one once, also if others that it calls are defined anew."""
    if isinstance(fun, types.MethodType):
        return types.MethodType(_anew(fun.__func__), fun.__self__)
    if type(fun) is functools.partial:
        return functools.partial(_anew(fun.func), *fun.args, **fun.keywords)
    if not isinstance(fun, types.FunctionType):
        return fun
    code, names = fun.__code__, fun.__globals__
    made = types.FunctionType(code, names, fun.__name__, fun.__defaults__, fun.__closure__)
    made.__kwdefaults__, made.__qualname__ = fun.__kwdefaults__, fun.__qualname__
    made.__module__, made.__doc__ = fun.__module__, fun.__doc__
    made.__dict__.update(fun.__dict__)
    return made


def _statics(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Iterable[int],
    static_argnames: str | Iterable[str],
) -> tuple[Statics, tuple[str, ...]]:
    """The static arguments, and a note about those that were made static without being asked for.

    Raises:
        PanelError: If a static argument does not exist or is not hashable.
    """
    numbers = [static_argnums] if isinstance(static_argnums, int) else list(static_argnums)
    names = [static_argnames] if isinstance(static_argnames, str) else list(static_argnames)
    labels = _labels(fun, args)
    static = {_position(number, args) for number in numbers}
    static |= {labels.index(name) for name in names if name in labels}
    words = {name for name in names if name in kwargs}
    unknown = [name for name in names if name not in kwargs and name not in labels]
    if unknown:
        given = ", ".join([*labels, *kwargs]) or "none"
        raise PanelError(f"There is no argument {unknown[0]!r} to be static; given are {given}")
    notes = []
    everything: list[tuple[int | str, str, Any]] = [
        *zip(range(len(args)), labels, args, strict=True)
    ]
    everything += [(name, name, value) for name, value in kwargs.items()]
    for place, label, value in everything:
        if place in static or place in words:
            _check_hashable(label, value)
        elif _is_static(value):
            _check_hashable(label, value)
            if isinstance(place, str):
                words.add(place)
            else:
                static.add(place)
            what = "text" if isinstance(value, (str, bytes)) else "callable"
            notes.append(f"The argument {label} is {what}, so it is static.")
    return Statics(tuple(sorted(static)), tuple(k for k in kwargs if k in words)), tuple(notes)


def static_words(words: Iterable[str]) -> tuple[list[int], list[str]]:
    """Split words that name static arguments into positions and names."""
    words = list(words)
    numbers = [word.lstrip("-").isdigit() for word in words]
    return (
        [int(word) for word, is_number in zip(words, numbers, strict=True) if is_number],
        [word for word, is_number in zip(words, numbers, strict=True) if not is_number],
    )


def traced_before(f: Any) -> taxpr.Program | None:
    """The program of a program, jaxpr, traced function or tracing error; else None.

    None for anything else.
    """
    if isinstance(f, taxpr.Program):
        return f
    if isinstance(f, BaseException):
        return taxpr.until_error(f)
    if isinstance(f, jax.stages.Traced):
        return _of_jaxpr(f.jaxpr, f.fun_name)
    return _of_jaxpr(f, "jaxpr") if isinstance(getattr(f, "jaxpr", f), core.Jaxpr) else None


def _of_jaxpr(jaxpr: Any, name: str) -> taxpr.Program:
    """A jaxpr, open or closed, as a program that can only be drawn."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    ins, outs = len(inner.invars), len(inner.outvars)
    letters = introspect.var_names(inner)
    known = inner.debug_info.arg_names or ()
    names = known if len(known) == ins else [""] * ins
    return taxpr.Program(
        jaxpr=jaxpr,
        in_tree=jax.tree.structure((tuple(range(ins)), {})),
        out_tree=jax.tree.structure(tuple(range(outs))),
        in_names=tuple(n or letters.get(v, "_") for n, v in zip(names, inner.invars, strict=True)),
        out_names=tuple("out" if outs == 1 else f"out[{k}]" for k in range(outs)),
        name=name,
    )


def _labels(fun: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """A name for each positional argument."""
    names = [
        p.name for p in parameters_of(fun) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return [names[k] if k < len(names) else f"{k} (counted from 0)" for k in range(len(args))]


def _position(number: int, args: Sequence[Any]) -> int:
    if not -len(args) <= number < len(args):
        raise PanelError(
            f"There is no positional argument {number} to be static; the call has {len(args)}"
        )
    return number % len(args)


def _is_static(value: Any) -> bool:
    """Whether a value is text, or a function that is no PyTree of arrays and holds no states."""
    if isinstance(value, (str, bytes)):
        return True
    if not callable(value) or is_traced(value) or is_object(value):
        return False
    return jax.tree_util.all_leaves([value])


def _check_hashable(label: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise PanelError(
            f"The argument {label} is static and must be hashable, but is a "
            f"{type(value).__name__}: pass a tuple in place of a list, a frozen dataclass in "
            "place of a dict"
        ) from None


def _shown(value: Any) -> str:
    return f"`{shortened(' '.join(repr(value).split()), 60)}`"


# A transformed function has the name of the user's function. Only JAX's docstring tells what it is.
_BY_DOC = (
    ("Gradient of {} with respect to positional argument", "grad"),
    ("Value and gradient of {} with respect to positional argument", "value_and_grad"),
    ("Jacobian of {} with respect to positional argument", "jacobian"),
    ("Vectorized version of {}.", "vmap"),
)
_JAX = os.path.join(os.path.dirname(jax.__file__), "")


def title(fun: Callable[..., Any], name: str) -> str:
    """The name of a function with the transformations around it.

    Example:
        >>> import jax
        >>> def loss(w): return w * w
        >>> title(jax.vmap(jax.grad(loss)), "loss")
        'vmap(grad(loss))'
        >>> title(loss, "loss")
        'loss'
    """
    words = [*_transformations(fun)]
    return "(".join([*words, name]) + ")" * len(words)


def _transformations(fun: Any) -> Iterator[str]:
    """The transformations around a function, outermost first. Other wrappers are skipped."""
    while (inner := getattr(fun, "__wrapped__", None)) is not None:
        # `jax.jit` and decorators of users copy the docstring of the wrapped function.
        file = getattr(getattr(fun, "__code__", None), "co_filename", "")
        if file.startswith(_JAX):
            doc, name = fun.__doc__ or "", getattr(fun, "__name__", "")
            yield from (word for start, word in _BY_DOC if doc.startswith(start.format(name)))
        fun = inner
