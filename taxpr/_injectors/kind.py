"""`InjectorKind`: a kind of injector, with the parameters (`Param`) that its function declares."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.core

from taxpr._compat import Params, PyTree, is_extended
from taxpr._errors import InjectorError, is_whole
from taxpr._injectors.injector import Injector, Report, Values
from taxpr._jaxprs.trees import refuse_no_arrays
from taxpr._sites.site import Site


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
        ('clip', 'Clip the token to bounds; a missing bound is open.', ['low', 'high'])
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
            given = {**values, **taken(self._body, {**options, "params": params})}
            if self._state is None:
                return self._body(token, **given), state
            return self._body(token, state, **given)

        def new_state(site: Site | None) -> PyTree:
            if self._state is None:
                return ()
            return self._state(site, **taken(self._state, options))

        def check(values: Values, options: Mapping[str, Any]) -> None:
            given = {**self._options, **options, **values}
            known = not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(given))
            if self._check is not None and known:
                self._check(**taken(self._check, given))

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
        """The kind with more options; ``finish`` completes each injector that it makes."""
        return dataclasses.replace(self, _options={**self._options, **options}, _finish=finish)


def _refuse_no_key(kind: str, name: str, value: Any) -> None:
    dtype = getattr(value, "dtype", None)
    known = is_whole(value) if dtype is None else is_extended(dtype) or dtype.kind in "iu"
    if not known:
        raise InjectorError(
            f"{kind}: {name}={value!r} is no PRNG key. Give one, such as jax.random.key(0), or an "
            "integer for its seed."
        )


def taken(fun: Callable[..., object], words: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a function takes."""
    names = inspect.signature(fun).parameters
    return {name: value for name, value in words.items() if name in names}
