"""Static arguments, such as a flag: bind them for jitted functions, say how to declare one."""

import contextlib
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._calls.static import is_traced
from taxpr._compat import PyTree
from taxpr._errors import ArgumentError, is_whole, name_of, say_more, signature_of
from taxpr._given import listed

_KEPT = 16  # functions whose static arguments are bound
_MOST = 30  # letters of a value in a message

# What JAX says of a number that it had to know.
_UNKNOWN = (
    r"depends on the values? of the arguments? (?P<names>[\w, ]+)"
    r"|Shapes must be 1D sequences of concrete values"
)
_HINT = "\nA static argument? "


@dataclasses.dataclass(frozen=True)
class _StaticArguments:
    """The static arguments of a call, by position and by name; and their types, as 1 is True."""

    by_number: tuple[tuple[int, Any], ...]
    by_name: tuple[tuple[str, Any], ...]
    types: tuple[Any, ...]


def asked_static(
    fun: Callable[..., Any], argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The static positions and names that were asked for, checked.

    Raises:
        ArgumentError: If they are no numbers or names, or the function has none of these.
    """
    nums = (argnums,) if is_whole(argnums) else _each("argnums", "numbers", argnums, is_whole)
    names = (
        (argnames,) if isinstance(argnames, str) else _each("argnames", "names", argnames, _is_text)
    )
    signature = signature_of(fun)
    if signature is None:
        return nums, names
    parameters = signature.parameters.values()
    places = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    kinds = {one.kind for one in parameters}
    takes = f"It takes {name_of(fun)}{signature}."
    for num in nums:
        if not -len(places) <= num < len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
            raise ArgumentError(f"static_argnums={num}: there is no such argument. {takes}")
    for name in names:
        if name not in signature.parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ArgumentError(f"static_argnames={name!r}: there is no such argument. {takes}")
    return nums, names


def left_static(
    functions: Mapping[str, Callable[..., Any]], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The static arguments that are asked for, without those that a jitted function has bound."""
    jitted = next(filter(has_statics, functions.values()))
    nums, names = asked_static(
        jitted, given.get("static_argnums", ()), given.get("static_argnames", ())
    )
    gone, gone_names = _compat.static_arguments(jitted)
    left = [num - sum(one < num for one in gone) for num in nums if num not in gone]
    return {
        "static_argnums": tuple(left),
        "static_argnames": tuple(name for name in names if name not in gone_names),
    }


def _each(what: str, kind: str, given: Any, fits: Callable[[Any], bool]) -> tuple[Any, ...]:
    every = listed(given)
    if every is None or not all(map(fits, every)):
        raise ArgumentError(f"static_{what}={given!r} are no {kind} of arguments.")
    return tuple(every)


def _is_text(x: object) -> bool:
    return isinstance(x, str)


def static_both_ways(
    fun: Callable[..., Any], nums: tuple[int, ...], given: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static positions and names, each completed from the other by the signature."""
    signature = signature_of(fun)
    if signature is None:
        return nums, given
    parameters = signature.parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    offset = sum(p.kind is p.POSITIONAL_ONLY for p in parameters)
    by_name = {name: offset + k for k, name in enumerate(names)}
    by_number = {k: name for name, k in by_name.items()}
    more_nums = [by_name[name] for name in given if name in by_name]
    more_names = [by_number[num] for num in nums if num in by_number]
    return tuple({*nums, *more_nums}), tuple({*given, *more_names})


def has_statics(fun: Callable[..., Any]) -> bool:
    """Whether `jax.jit` was told that arguments of a function are static."""
    return any(_compat.static_arguments(fun))


def with_statics(
    ask: Callable[[dict[str, Any]], Any],
    functions: Mapping[str, Callable[..., Any]],
    *,
    inputs: bool = False,
    before: int = 0,
) -> Callable[..., Any]:
    """A function that binds static arguments and asks of the others.

    Args:
        ask: Takes functions without static arguments, and returns what takes their arguments.
        functions: Functions of the same arguments; one is jitted and has static arguments.
        inputs: Whether the result of ``ask`` takes several inputs, each a tuple of arguments.
        before: How many arguments of its own the result of ``ask`` takes first, such as 1 for a
            context.
    """
    jitted = next(filter(has_statics, functions.values()))
    numbers, names = _compat.static_arguments(jitted)
    numbers = () if inputs else numbers
    asks: dict[_StaticArguments, Any] = {}

    def asked(*every: PyTree, **kwargs: PyTree) -> Any:
        first, args = every[:before], every[before:]
        fixed = sorted({k % len(args) for k in numbers if -len(args) <= k < len(args)})
        by_number = tuple((k, args[k]) for k in fixed)
        by_name = tuple((name, kwargs[name]) for name in names if name in kwargs)
        kinds: list[Any] = [type(x) for _, x in (*by_number, *by_name)]
        statics = _StaticArguments(by_number, by_name, tuple(kinds))
        try:
            hash(statics)
        except TypeError:
            jitted(*args, **kwargs)  # JAX says what it refuses
            raise
        if inputs:
            _refuse_in_inputs(jitted, args)
        if statics not in asks:
            asks[statics] = ask(
                {name: _bound_once(fun, statics) for name, fun in functions.items()}
            )
        rest = [x for k, x in enumerate(args) if k not in fixed]
        return asks[statics](*first, *rest, **{k: x for k, x in kwargs.items() if k not in names})

    return asked


def _refuse_in_inputs(fun: Callable[..., Any], inputs: Sequence[Any]) -> None:
    numbers, names = _compat.static_arguments(fun)
    for one in inputs:
        given = len(one) if isinstance(one, tuple) else 1  # pyright: ignore[reportUnknownArgumentType]
        if any(-given <= k < given for k in numbers):
            told = " and ".join(names) or " and ".join(map(str, numbers))
            raise ArgumentError(
                f"{name_of(fun)} has static arguments: {told}. Two inputs are of arrays alone: "
                f"bind the others before, as functools.partial({name_of(fun)}, name=value)."
            )


def _bound_once(fun: Callable[..., Any], statics: _StaticArguments) -> Callable[..., Any]:
    """The same function each time, so that the caches of JAX know it."""
    try:
        return _cached(fun, statics)
    except TypeError:  # a callable object that has no hash
        return _bound(fun, statics)


def _bound(fun: Callable[..., Any], statics: _StaticArguments) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        every = list(args)
        for number, value in statics.by_number:
            every.insert(number, value)
        return fun(*every, **kwargs, **dict(statics.by_name))

    call.__name__ = call.__qualname__ = name_of(fun)
    if (signature := signature_of(fun)) is not None:
        gone = {*dict(statics.by_name), *dict(statics.by_number)}
        every = enumerate(signature.parameters.values())
        left = [one for k, one in every if gone.isdisjoint((k, one.name))]
        with contextlib.suppress(ValueError):  # one with a default now comes before one without
            vars(call)["__signature__"] = signature.replace(parameters=left)
    return call


_cached = functools.lru_cache(maxsize=_KEPT)(_bound)


def say_static(
    error: Exception, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> None:
    """Add to an error of tracing which argument seems to be meant static, and how it is."""
    text = " ".join(str(error).split())
    fixed = _given(fun, args, kwargs, lambda x: not is_traced(x) and _is_told(x, text))
    if isinstance(error, TypeError) and fixed:
        of = name_of(fun)
        given = " and ".join(f"{name}={_shown(name, x)}" for name, x in fixed.items())
        said = f"{of} was given {given}, which is no array, so the function got it as it is."
        if isinstance(one := next(iter(fixed.values())), str):
            said += f" A selector is given before: taxpr.collect({of}, {one!r})(...)."
        say_more(error, _HINT, said)
        return
    depends = re.search(_UNKNOWN, text)
    found = _given(fun, args, kwargs, lambda x: isinstance(x, int)) if depends else {}
    named = re.findall(r"\w+", depends["names"] or "") if depends else []
    found = {name: x for name, x in found.items() if name in named or not named}
    if found:
        of = name_of(fun)
        given = " and ".join(f"{name}={_shown(name, x)}" for name, x in found.items())
        names = repr(*found) if len(found) == 1 else repr(tuple(found))
        fixes = [f"jax.jit({of}, static_argnames={names})"]
        if _may_bind(fun, found, len(args)):
            bound = ", ".join(f"{name}={_shown(name, x)}" for name, x in found.items())
            fixes.insert(0, f"functools.partial({of}, {bound})")
        fix = " or ".join(fixes)
        say_more(
            error,
            _HINT,
            f"{of} was given {given}, and only its type is known during tracing. If it is "
            f"static, give {fix} instead.",
        )


def _may_bind(fun: Callable[..., Any], found: Mapping[str, Any], count: int) -> bool:
    """Whether arguments can be bound by name: no other one by position comes after them."""
    signature = signature_of(fun)
    names = list(signature.parameters)[:count] if signature else []
    after = names[min((names.index(one) for one in found if one in names), default=count) :]
    return all(one in found for one in after)


def _given(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    wanted: Callable[[Any], bool],
) -> dict[str, Any]:
    """The arguments, by their names, that have something of a kind in them."""
    signature = signature_of(fun)
    try:
        arguments = signature.bind_partial(*args, **kwargs).arguments if signature else {}
    except TypeError:
        return {}
    return {name: x for name, x in arguments.items() if any(map(wanted, jax.tree.leaves(x)))}


def _is_told(x: Any, error: str) -> bool:
    """Whether an error is of a value of this type, which NumPy calls ``<U1`` if it is a text."""
    of_text = r"|<[US]\d" if isinstance(x, (str, bytes)) else ""
    return re.search(rf"\b{type(x).__name__}\b{of_text}", error) is not None


def _shown(name: str, x: Any) -> str:
    """A value as it is written; its name where that is long, or no text of Python."""
    if callable(x):
        return getattr(x, "__name__", name)
    text = repr(x)
    return name if len(text) > _MOST or text.startswith("<") else text
