"""Kinds of injectors: declared parameters, and how to write one."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.core

from taxpr._compat import PyTree
from taxpr._errors import InjectorError, name_of
from taxpr._injectors.injector import Injector
from taxpr._sites.site import Site


@dataclasses.dataclass(frozen=True)
class Param:
    """A declared parameter of an injector: a traced leaf of the context.

    Changing it never traces or compiles again.

    Attributes:
        default: The value when none is given; left out, one must be given.
        low: Where a slider begins; None where there is no natural bound.
        high: Where a slider ends.
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

    default: Any = inspect.Parameter.empty
    low: float | None = None
    high: float | None = None
    help: str = ""
    is_key: bool = False


@dataclasses.dataclass(frozen=True)
class InjectorKind:
    """A kind of injector: call it with values to get an `Injector`.

    Attributes:
        name: Its name.
        doc: What it does, in one line.
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
    _body: Callable[..., Any] = dataclasses.field(repr=False)
    _state: Callable[..., Any] | None = dataclasses.field(repr=False)
    _report: Callable[[PyTree], dict[str, Any]] = dataclasses.field(repr=False)
    _options: Mapping[str, Any] = dataclasses.field(repr=False)
    _adds_up: bool = dataclasses.field(repr=False)
    _observes: bool = dataclasses.field(repr=False)
    _check: Callable[..., None] | None = dataclasses.field(repr=False)
    # What becomes of each injector that it makes.
    _finish: Callable[[Injector], Injector] = dataclasses.field(
        default=lambda made: made, repr=False
    )

    def __post_init__(self) -> None:
        # What `help`, doctest and documentation look at: of the function, not of this class.
        for name in ("__doc__", "__module__", "__name__", "__qualname__"):
            object.__setattr__(self, name, getattr(self._body, name))
        object.__setattr__(self, "__wrapped__", self._body)

    def __get__(self, instance: Any, owner: Any = None) -> InjectorKind:
        """Itself, as an attribute of a class, too; by this `help` takes it for a function."""
        return self

    @property
    def __signature__(self) -> inspect.Signature:
        """What `help` and completion show: the parameters and their defaults."""
        defaults = {name: param.default for name, param in self.params.items()} | dict(
            self._options
        )
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(k, kind, default=v) for k, v in defaults.items()]
        return inspect.Signature(parameters, return_annotation=Injector)

    def __call__(self, *args: Any, **given: Any) -> Injector:
        """An injector with these values; those not given take their defaults.

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
            values: dict[str, Any], state: PyTree, token: PyTree, params: dict[str, Any]
        ) -> tuple[PyTree, PyTree]:
            given = {**values, **_taken(self._body, {**options, "params": params})}
            if self._state is None:
                return self._body(token, **given), state
            return self._body(token, state, **given)

        def new_state(site: Site | None) -> Any:
            if self._state is None:
                return ()
            return self._state(site, **_taken(self._state, options))

        def check(values: Mapping[str, Any], options: Mapping[str, Any]) -> None:
            given = {**self._options, **options, **values}
            known = not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(given))
            if self._check is not None and known:
                self._check(**_taken(self._check, given))

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
        return self._finish(made) if self._finish else made


def _check_call(
    fn: Callable[..., Any],
    first: tuple[str, ...],
    words: Collection[str],
    what: str = "",
    name: str = "",
) -> None:
    """Raise where a function of a kind cannot be called as it will be."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # it has none
        return
    try:
        signature.bind(*first, **dict.fromkeys(words))
    except TypeError as error:
        given = ", ".join((*first, *(f"{word}=" for word in sorted(words))))
        cure = (
            "It is given a state by state=lambda site: ..., and gives one back: (token, state)."
            if "state" in signature.parameters and "state" not in first
            else "With state= it takes token and state, and gives both back: (token, state)."
            if "state" in first and not what
            else "What else it takes is declared: injector(rate=Param(0.5))."
        )
        raise InjectorError(
            f"injector: {what}{name or name_of(fn)}{signature} is called with ({given}), and that "
            f"does not go: {error}. {cure}"
        ) from None


def _taken(fn: Callable[..., Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the words that a function takes."""
    names = inspect.signature(fn).parameters
    return {name: value for name, value in words.items() if name in names}


def injector(
    *,
    state: Callable[..., Any] | None = None,
    report: Callable[[PyTree], dict[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    adds_up: bool = False,
    observes: bool = False,
    check: Callable[..., None] | None = None,
    **params: Param,
) -> Callable[[Callable[..., Any]], InjectorKind]:
    """Make a kind of injector of a function; the ready ones are made this way.

    The function takes the token, and where there is a state the state, and then its declared
    parameters by name: ``(token, **values) -> token`` or ``(token, state, **values) -> (token,
    state)``. It is called while tracing and must keep structure, shapes and dtypes of both. It
    may also take any of the options, and ``params``, the dict of what the user gave to `tag`.
    The first line of its docstring is what a menu shows.

    Args:
        state: ``(site) -> state`` gives the state before the first firing at a site, a
            PyTree of arrays and numbers. Each site has its own. It may also take options.
        report: ``(state) -> dict`` says what a final state means, for people.
        options: Keywords with their defaults, fixed when tracing: Python values that decide
            what is traced, such as the number of slots of `record`.
        adds_up: Whether the state is a sum, to which the devices of a `jax.shard_map` add up
            (``shards="psum"``). Where it is not, as for a mean, that is refused.
        observes: Whether it returns the token itself and only looks at it; anything else is then an
            error. Inside of a function with a rule of its own for derivatives, such as
            `jax.nn.relu`, it leaves the rule as it is, so that it never costs a derivative.
        check: Called with those parameters and options that it takes, when an injector is made
            and when it is attached; it raises `InjectorError` where they do not go together. It
            is not asked about values that are being traced.
        **params: The declared parameters. Each is a leaf of the context, so that another value
            of it does not compile again; its range makes a slider.

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

    def decorate(body: Callable[..., Any]) -> InjectorKind:
        name = body.__name__
        untaken = set(params) - set(_taken(body, params)) | {"params"} & {*params, *(options or {})}
        for option in options or {}:
            if not any(_taken(fn, {option: None}) for fn in (body, state) if fn):
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
