"""`injector`: the decorator that makes a kind of injector with declared parameters."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec, TypeVar

import jax
import jax.core

from taxpr._compat import Params, PyTree, is_extended
from taxpr._errors import InjectorError, is_whole, name_of, refuse_no_function, unfit
from taxpr._given import refuse_no_flag
from taxpr._injectors.injector import Injector, Report, Values
from taxpr._jaxprs.trees import refuse_no_arrays
from taxpr._sites.site import Site

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Param:
    """A declared parameter of an injector: a traced leaf of the context.

    Changing it never traces or compiles again.

    Attributes:
        default: The default value; without one, a value must be given.
        low: The lower end of a slider; None if there is no natural bound.
        high: The upper end of a slider.
        help: One line for people.
        is_key: Whether it is a PRNG key, or an integer for its seed: with `per_example` each
            example draws with a key of its own.

    Example:
        >>> from taxpr import Param, injector
        >>> @injector(power=Param(2.0, low=0.0, high=4.0, help="The exponent."))
        ... def raised(token, power):
        ...     "Raise the token to a power."
        ...     return token**power
        >>> raised.params["power"].high, raised(power=3.0)
        (4.0, raised(power=3.0))
    """

    default: PyTree = inspect.Parameter.empty
    low: float | None = None
    high: float | None = None
    help: str = ""
    is_key: bool = False

    def __post_init__(self) -> None:
        for name, bound in (("low", self.low), ("high", self.high)):
            if bound is not None and (isinstance(bound, str) or not hasattr(bound, "__float__")):
                raise InjectorError(f"Param: {name}={bound!r} is no number.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InjectorError(f"Param: low={self.low} is above high={self.high}.")


@dataclasses.dataclass(frozen=True)
class InjectorKind:
    """A kind of injector: call it with values to get an `Injector`.

    Attributes:
        name: Its name.
        doc: A description in one line.
        params: The declared parameters, by name, in order.

    Example:
        >>> from taxpr import clip
        >>> clip.name, clip.doc, list(clip.params)
        ('clip', 'Hold the token between bounds; one not given is open.', ['low', 'high'])
        >>> clip(high=2.0)
        clip(low=-inf, high=2.0)
    """

    name: str
    doc: str
    params: Mapping[str, Param]
    _body: Callable[..., PyTree] = dataclasses.field(repr=False)
    _state: Callable[..., PyTree] | None = dataclasses.field(repr=False)
    _report: Callable[[PyTree], Report] = dataclasses.field(repr=False)
    _options: Mapping[str, Any] = dataclasses.field(repr=False)
    _adds_up: bool = dataclasses.field(repr=False)
    _observes: bool = dataclasses.field(repr=False)
    _check: Callable[..., object] | None = dataclasses.field(repr=False)
    # Applied to each injector that the kind makes.
    _finish: Callable[[Injector], Injector] = dataclasses.field(
        default=lambda made: made, repr=False
    )

    def __post_init__(self) -> None:
        # `help`, doctest and the documentation should show the function, not this class.
        for name in ("__doc__", "__module__", "__name__", "__qualname__"):
            object.__setattr__(self, name, getattr(self._body, name))
        object.__setattr__(self, "__wrapped__", self._body)

    def __get__(self, instance: object, owner: type | None = None) -> InjectorKind:
        """Return the kind itself. A class with this method is a function for `help`."""
        return self

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature for `help` and completion: the parameters and their defaults."""
        defaults = {name: param.default for name, param in self.params.items()} | dict(
            self._options
        )
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(k, kind, default=v) for k, v in defaults.items()]
        return inspect.Signature(parameters, return_annotation=Injector)

    def __call__(self, *args: PyTree, **given: PyTree) -> Injector:
        """An injector with these values, and defaults for the others.

        Raises:
            InjectorError: If a parameter is unknown, given twice or missing, if values do not go
                together, or if an option is a value that is being traced.
        """
        known = [*self.params, *self._options]
        try:
            bound = self.__signature__.bind(*args, **given).arguments
        except TypeError as error:
            takes = f"It takes {', '.join(known)}." if known else "It takes no parameters."
            raise InjectorError(f"{self.name}: {error}. {takes}") from None
        defaults = {name: param.default for name, param in self.params.items()}
        values = {name: bound.get(name, default) for name, default in defaults.items()}
        options = {name: bound.get(name, default) for name, default in self._options.items()}
        for name, option in options.items():
            if isinstance(option, jax.core.Tracer):
                raise InjectorError(
                    f"{self.name}: {name} is fixed when tracing and cannot be a value that is "
                    "being traced: give a Python value."
                )

        @functools.wraps(self._body)
        def fire(
            values: dict[str, PyTree], state: PyTree, token: PyTree, params: Params
        ) -> tuple[PyTree, PyTree]:
            given = {**values, **_taken(self._body, {**options, "params": params})}
            if self._state is None:
                return self._body(token, **given), state
            return self._body(token, state, **given)

        def new_state(site: Site | None) -> PyTree:
            if self._state is None:
                return ()
            return self._state(site, **_taken(self._state, options))

        def check(values: Values, options: Mapping[str, Any]) -> None:
            given = {**self._options, **options, **values}
            known = not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(given))
            if self._check is not None and known:
                self._check(**_taken(self._check, given))

        for name, value in values.items():
            refuse_no_arrays(f"{self.name}: {name}={value!r}", value)
            if self.params[name].is_key:
                _refuse_no_key(self.name, name, value)
        check(values, options)
        given_options = {k: v for k, v in options.items() if v != self._options[k]}
        made = Injector(
            self.name,
            values,
            fire,
            new_state,
            self._report,
            options=given_options,
            adds_up=self._adds_up,
            keys=frozenset(name for name, param in self.params.items() if param.is_key),
            observes=self._observes,
            check=check,
        )
        return self._finish(made)

    def finished(self, finish: Callable[[Injector], Injector], **options: Any) -> InjectorKind:
        """The kind with more options; ``finish`` makes its injectors of those that it made."""
        return dataclasses.replace(self, _options={**self._options, **options}, _finish=finish)


def _refuse_no_key(kind: str, name: str, value: Any) -> None:
    dtype = getattr(value, "dtype", None)
    known = is_whole(value) if dtype is None else is_extended(dtype) or dtype.kind in "iu"
    if not known:
        raise InjectorError(
            f"{kind}: {name}={value!r} is no PRNG key. Give one, such as jax.random.key(0), or an "
            "integer for its seed."
        )


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
    cure = (
        "It is given a state by state=lambda site: ..., and gives one back: (token, state)."
        if "state" in signature.parameters and "state" not in first
        else "With state= it takes token and state, and gives both back: (token, state)."
        if "state" in first and not what
        else "What else it takes is declared: injector(rate=Param(0.5))."
    )
    raise InjectorError(
        f"injector: {what}{name or name_of(fun)}{signature} is called with ({given}), and that "
        f"does not go: {error}. {cure}"
    )


def _taken(fun: Callable[..., object], words: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a function takes."""
    names = inspect.signature(fun).parameters
    return {name: value for name, value in words.items() if name in names}


def _by_names(declare: Callable[_P, _T]) -> Callable[_P, _T]:
    """Refuse what is given by position, such as the function that the decorator is for."""

    @functools.wraps(declare)
    def declared(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if args:
            given = name_of(args[0]) if callable(args[0]) else args[0]
            raise InjectorError(
                f"injector: {given!r} was given. It takes declarations by their names, and what it "
                "returns takes the function: @injector() in the line before it, or "
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

    The function takes the token, the state if there is one, and its declared parameters by name:
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
            a `jax.shard_map`. If it is not, as for a mean, that is refused.
        observes: Whether the function returns the token itself; returning another one is then an
            error. Such an injector leaves custom derivative rules, as in `jax.nn.relu`, as they
            are.
        check: Called when an injector is made and attached, with the parameters and options that it
            takes; raises `InjectorError` if they do not fit together. It is not called for values
            that are traced.
        **params: The declared parameters. Each is a leaf of the context, so another value does not
            compile again. Its range makes a slider.

    Returns:
        A decorator.

    Raises:
        InjectorError: If a parameter or an option is declared and not taken.

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
                f"injector: {word}={fun!r} is a {type(fun).__name__}, not a function. Give "
                f"{word}=lambda {'site' if word == 'state' else word}: ..."
            )
    refuse_no_flag("injector", adds_up=adds_up, observes=observes)
    if options is not None and not issubclass(type(options), Mapping):
        raise InjectorError(
            f"injector: options={options!r} is a {type(options).__name__}. Give a dict of keywords "
            "with their defaults: options={'slots': 8}."
        )
    for word, param in params.items():
        if type(param) is not Param:
            raise InjectorError(
                f"injector: {word}={param!r} is a {type(param).__name__}. A parameter is declared "
                f"as {word}=Param({param!r}), an option as options={{{word!r}: ...}}."
            )

    def decorate(body: Callable[..., PyTree]) -> InjectorKind:
        refuse_no_function("injector", body)
        name = name_of(body)
        untaken = set(params) - set(_taken(body, params)) | {"params"} & {*params, *(options or {})}
        for option in options or {}:
            if not any(_taken(fun, {option: None}) for fun in (body, state) if fun):
                untaken.add(option)
        if untaken:
            raise InjectorError(
                f"injector: {name} declares {', '.join(sorted(untaken))} and does not take it. "
                "Parameters are taken by the function, options by it or by its state; params is "
                "what the user gave to tag()."
            )
        taken = {*params, *_taken(body, {**(options or {}), "params": None})}
        _check_call(body, ("token",) if state is None else ("token", "state"), taken)
        if state is not None:
            _check_call(state, ("site",), _taken(state, options or {}), "the state of ", name)
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
