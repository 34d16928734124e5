"""Injectors with declared parameters, and how to write one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from taxpr._errors import InjectorError
from taxpr._walk import Site


@dataclasses.dataclass(frozen=True)
class Param:
    """A declared parameter of an injector: a traced leaf of the context.

    Changing it never traces or compiles again.

    Attributes:
        default: The value when none is given.
        low: Where a slider begins; None where there is no natural bound.
        high: Where a slider ends.
        help: One line for people.
    """

    default: Any
    low: float | None = None
    high: float | None = None
    help: str = ""


@dataclasses.dataclass(frozen=True)
class Injector:
    """An injector with values for its parameters, ready to be attached.

    Its context is ``{"values": {parameter: array}, "state": ...}``, where the state is
    kept apart for each site, by address, unless it is ``shared``.

    Attributes:
        name: The name of its kind, or of the user's function.
        values: The values of the declared parameters, by name.
        fire: ``(values, state, token, params) -> (token, state)``, called while tracing.
        new_state: The state before the first firing at a site.
        report: What a final state says, for people: a dict of arrays.
        shared: Whether all sites have one state, handed on in the order of execution.
        options: What is fixed when tracing, such as the slots of ``record``.
    """

    name: str
    values: Mapping[str, Any]
    fire: Callable[[dict[str, Any], Any, Any, dict[str, Any]], tuple[Any, Any]]
    new_state: Callable[[Site | None], Any]
    report: Callable[[Any], dict[str, Any]]
    shared: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def initial(self, sites: Sequence[Site]) -> dict[str, Any]:
        """The context before a run in which it is attached at ``sites``."""
        values = {name: self._leaf(value, sites) for name, value in self.values.items()}
        if self.shared:
            state = self.new_state(None)
        else:
            state = {site.address: self.new_state(site) for site in sites}
        return {"values": values, "state": jax.tree.map(jnp.asarray, state)}

    def at(self, address: str) -> Callable[[Any, Any, dict[str, Any]], tuple[Any, Any]]:
        """The injector function of one site, on the context of `initial`."""

        def injector(ctx: Any, token: Any, params: dict[str, Any]) -> tuple[Any, Any]:
            state = ctx["state"] if self.shared else ctx["state"][address]
            token, state = self.fire(ctx["values"], state, token, params)
            if not self.shared:
                state = {**ctx["state"], address: state}
            return token, {"values": ctx["values"], "state": state}

        injector.__name__ = self.name
        return injector

    def report_of(self, ctx: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What a final context says, by address; ``"*"`` where the state is shared."""
        states = {"*": ctx["state"]} if self.shared else ctx["state"]
        return {address: self.report(state) for address, state in states.items()}

    def _leaf(self, value: Any, sites: Sequence[Site]) -> Any:
        # A whole float stands for the integer where all tokens are integers: sliders and
        # fields give floats.
        whole = isinstance(value, float) and value.is_integer()
        leaves = [leaf for site in sites for leaf in jax.tree.leaves(site.avals)]
        exact = [jnp.issubdtype(leaf.dtype, jnp.integer) or leaf.dtype == bool for leaf in leaves]
        if whole and leaves and all(exact):
            value = int(value)
        return jax.tree.map(jnp.asarray, value)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in {**self.values, **self.options}.items())
        return f"{self.name}({shown})"


@dataclasses.dataclass(frozen=True)
class InjectorKind:
    """A kind of injector: call it with values to get an `Injector`.

    Attributes:
        name: Its name.
        doc: What it does, in one line.
        params: The declared parameters, by name, in order.
    """

    name: str
    doc: str
    params: Mapping[str, Param]
    _body: Callable[..., Any] = dataclasses.field(repr=False)
    _state: Callable[..., Any] | None = dataclasses.field(repr=False)
    _report: Callable[[Any], dict[str, Any]] = dataclasses.field(repr=False)
    _options: Mapping[str, Any] = dataclasses.field(repr=False)

    def __call__(self, *args: Any, **given: Any) -> Injector:
        """An injector with these values; those not given take their defaults.

        Raises:
            InjectorError: If a parameter is unknown, or given twice.
        """
        known = [*self.params, *self._options]
        signature = inspect.Signature(
            [inspect.Parameter(k, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in known]
        )
        try:
            bound = signature.bind_partial(*args, **given).arguments
        except TypeError as error:
            takes = f"It takes {', '.join(known)}." if known else "It takes no parameters."
            raise InjectorError(f"{self.name}: {error}. {takes}") from None
        defaults = {name: param.default for name, param in self.params.items()}
        values = {name: bound.get(name, default) for name, default in defaults.items()}
        options = {name: bound.get(name, default) for name, default in self._options.items()}

        def fire(
            values: dict[str, Any], state: Any, token: Any, params: dict[str, Any]
        ) -> tuple[Any, Any]:
            del params
            if self._state is None:
                return self._body(token, **values), state
            return self._body(token, state, **values)

        def new_state(site: Site | None) -> Any:
            return () if self._state is None else self._state(site, **options)

        given_options = {k: v for k, v in options.items() if v != self._options[k]}
        return Injector(self.name, values, fire, new_state, self._report, options=given_options)


def injector(
    *,
    state: Callable[..., Any] | None = None,
    report: Callable[[Any], dict[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    **params: Param,
) -> Callable[[Callable[..., Any]], InjectorKind]:
    """Make a kind of injector of a function; the ready ones are made this way.

    Args:
        state: ``(site, **options) -> state`` gives the state before the first firing. With
            it the function is ``(token, state, **values) -> (token, state)``; without it,
            ``(token, **values) -> token``.
        report: ``(state) -> dict`` says what a final state means.
        options: Keywords of ``state`` with their defaults, fixed when tracing.
        **params: The declared parameters.

    Returns:
        A decorator.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from taxpr import Param, injector, tag, trace
        >>> @injector(rate=Param(0.5, low=0.0, high=1.0))
        ... def fade(token, rate):
        ...     "Fade the token towards zero."
        ...     return jax.tree.map(lambda x: x * (1 - rate), token)
        >>> program = trace(lambda x: tag(x, name="x") + 1)(8.0)
        >>> faded = program.inject(fade(rate=0.25), where="x")
        >>> faded(faded.ctx, 8.0)[0]
        Array(7., dtype=float32, weak_type=True)
    """

    def decorate(body: Callable[..., Any]) -> InjectorKind:
        return InjectorKind(
            name=body.__name__,
            doc=(body.__doc__ or "").strip().split("\n")[0],
            params=params,
            _body=body,
            _state=state,
            _report=report or (lambda state: {}),
            _options=options or {},
        )

    return decorate


def from_function(fn: Callable[..., Any], ctx: Any = ()) -> Injector:
    """An `Injector` of a user's function ``(ctx, token, params) -> (token, ctx)``.

    Args:
        fn: The function; its name becomes the injector's.
        ctx: The context before the first firing, any PyTree of arrays. All sites share it.

    Example:
        >>> from taxpr import from_function, tag, trace
        >>> def count(n, token, params):
        ...     return token, n + 1
        >>> program = trace(lambda x: tag(tag(x, name="a") * 2, name="b"))(1.0)
        >>> counted = program.inject({"*": from_function(count, 0)})
        >>> out, ctx = counted(counted.ctx, 1.0)
        >>> counted.report(ctx)
        {'*': {'*': {'ctx': Array(2, dtype=int32)}}}
    """

    def fire(
        values: dict[str, Any], state: Any, token: Any, params: dict[str, Any]
    ) -> tuple[Any, Any]:
        del values
        result = fn(state, token, params)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise InjectorError(
                f"inject: the injector {fn.__name__!r} returned a {type(result).__name__}. An "
                "injector returns (token, ctx)."
            )
        return result

    return Injector(
        fn.__name__, {}, fire, lambda site: ctx, lambda state: {"ctx": state}, shared=True
    )
