"""`injector`: the decorator that makes a kind of injector with declared parameters."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

from taxpr._compat import PyTree
from taxpr._errors import InjectorError, a_type, name_of, refuse_no_function, unfit
from taxpr._given import refuse_no_flag
from taxpr._injectors.injector import Report
from taxpr._injectors.kind import InjectorKind, Param, taken

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _check_call(
    fun: Callable[..., object],
    first: tuple[str, ...],
    words: Collection[str],
    what: str = "",
    name: str = "",
) -> None:
    """Raise if a function of a kind cannot be called with these arguments."""
    if not (wrong := unfit(fun, *first, **dict.fromkeys(words))):
        return
    signature, error = wrong
    given = ", ".join((*first, *(f"{word}=" for word in sorted(words))))
    fix = (
        "It is given a state by state=lambda site: ..., and gives one back: (token, state)."
        if "state" in signature.parameters and "state" not in first
        else "With state= it takes token and state, and gives both back: (token, state)."
        if "state" in first and not what
        else "Declare its other parameters: injector(rate=Param(0.5))."
    )
    raise InjectorError(
        f"injector: {what}{name or name_of(fun)}{signature} is called with ({given}), and that "
        f"does not go: {error}. {fix}"
    )


def _by_names(declare: Callable[_P, _T]) -> Callable[_P, _T]:
    """Refuse positional arguments, such as the function to decorate."""

    @functools.wraps(declare)
    def declared(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if args:
            given = name_of(args[0]) if callable(args[0]) else args[0]
            raise InjectorError(
                f"injector: {given!r} was given. It takes declarations by name, and returns a "
                "decorator: @injector() in the line before it, or "
                "injector(rate=Param(0.5))(fun)."
            )
        return declare(*args, **kwargs)

    return declared


@_by_names
def injector(
    *,
    state: Callable[..., PyTree] | None = None,
    report: Callable[[PyTree], Report] | None = None,
    options: Mapping[str, Any] | None = None,
    adds_up: bool = False,
    observes: bool = False,
    check: Callable[..., object] | None = None,
    **params: Param,
) -> Callable[[Callable[..., PyTree]], InjectorKind]:
    """Make a kind of injector of a function, as the ready injectors are made.

    The function takes the token, the state if it has one, and its declared parameters by name:
    ``(token, **values) -> token`` or ``(token, state, **values) -> (token, state)``. It is called
    while tracing, and must keep the structures, shapes and dtypes of token and state. It may also
    take any of the options, and ``params``, the dict of the tag's params. A menu shows the first
    line of its docstring.

    Args:
        state: ``(site) -> state``: the initial state at a site, a PyTree of arrays and numbers.
            Each site has its own. The function may also take options.
        report: ``(state) -> dict``: turns a final state into a readable result.
        options: Keywords with defaults that are static: Python values that affect tracing, such as
            the number of slots of `record`.
        adds_up: Whether the state is a sum, which ``shards="psum"`` can add up over the devices of
            a `jax.shard_map`. If not, as for a mean, ``"psum"`` raises `RefusedError`.
        observes: Whether the function returns the token itself; returning another one is then an
            error. Such an injector leaves custom derivative rules unchanged, as in `jax.nn.relu`.
        check: Called when an injector is made and attached, with the parameters and options that it
            takes; raises `InjectorError` if they do not fit together. It is not called for values
            that are traced.
        **params: The declared parameters. Each is a leaf of the context, so another value does not
            compile again. Its range makes a slider.

    Returns:
        A decorator.

    Raises:
        InjectorError: If the function does not take a declared parameter or option.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import Param, injector, tag, trace
        >>> @injector(
        ...     rate=Param(0.5, low=0.0, high=1.0, help="How much of the past is kept."),
        ...     state=lambda site: jnp.zeros(site.avals.shape),
        ...     report=lambda state: {"average": state},
        ... )
        ... def smooth(token, state, rate):
        ...     "Replace the token by its moving average."
        ...     average = rate * state + (1 - rate) * token
        ...     return average, average
        >>> program = trace(lambda xs: jax.lax.map(lambda x: tag(x, name="x"), xs))(jnp.ones(3))
        >>> smoothed = program.inject(smooth(rate=0.75), where="x")
        >>> out, ctx = smoothed(smoothed.ctx, jnp.ones(3))
        >>> out.tolist()
        [0.25, 0.4375, 0.578125]
        >>> smoothed.report(ctx)
        {'0:scan/body/t0': {'average': Array(0.578125, dtype=float32)}}
    """
    functions = {"state": state, "report": report, "check": check}
    for word, fun in functions.items():
        if fun is not None and not callable(fun):
            raise InjectorError(
                f"injector: {word}={fun!r} is {a_type(fun)}, not a function. Give "
                f"{word}=lambda {'site' if word == 'state' else word}: ..."
            )
    refuse_no_flag("injector", adds_up=adds_up, observes=observes)
    if options is not None and not issubclass(type(options), Mapping):
        raise InjectorError(
            f"injector: options={options!r} is {a_type(options)}. Give a dict of keywords "
            "with their defaults: options={'slots': 8}."
        )
    for word, param in params.items():
        if type(param) is not Param:
            raise InjectorError(
                f"injector: {word}={param!r} is {a_type(param)}. A parameter is declared "
                f"as {word}=Param({param!r}), an option as options={{{word!r}: ...}}."
            )

    def decorate(body: Callable[..., PyTree]) -> InjectorKind:
        refuse_no_function("injector", body)
        name = name_of(body)
        untaken = set(params) - set(taken(body, params)) | {"params"} & {*params, *(options or {})}
        for option in options or {}:
            if not any(taken(fun, {option: None}) for fun in (body, state) if fun):
                untaken.add(option)
        if untaken:
            raise InjectorError(
                f"injector: {name} declares {', '.join(sorted(untaken))} and does not take it. "
                "The function takes parameters, and it or its state takes options; params are "
                "the params of the tag."
            )
        words = {*params, *taken(body, {**(options or {}), "params": None})}
        _check_call(body, ("token",) if state is None else ("token", "state"), words)
        if state is not None:
            _check_call(state, ("site",), taken(state, options or {}), "the state of ", name)
        if report is not None:
            _check_call(report, ("state",), (), "the report of ", name)
        return InjectorKind(
            name=name,
            doc=(body.__doc__ or "").strip().split("\n")[0],
            params=params,
            _body=body,
            _state=state,
            _report=report or (lambda state: {}),
            _options=options or {},
            _adds_up=adds_up,
            _observes=observes,
            _check=check,
        )

    return decorate
