"""Injectors with declared parameters, and how to write one."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from taxpr._errors import InjectorError, name_of
from taxpr._walk import Site


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
    """

    default: Any = inspect.Parameter.empty
    low: float | None = None
    high: float | None = None
    help: str = ""
    is_key: bool = False


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
        adds_up: Whether the changes of several states can be added up to that of one; so that
            ``shards="psum"`` and ``"pmax"`` mean something. For a function its author knows.
        keys: The names of the values that are PRNG keys; see `Param`.
    """

    name: str
    values: Mapping[str, Any]
    fire: Callable[[dict[str, Any], Any, Any, dict[str, Any]], tuple[Any, Any]]
    new_state: Callable[[Site | None], Any]
    report: Callable[[Any], dict[str, Any]]
    shared: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    adds_up: bool = True
    keys: frozenset[str] = frozenset()

    def initial(self, sites: Sequence[Site]) -> dict[str, Any]:
        """The context before a run in which it is attached at ``sites``."""
        values = {name: self._leaf(name, value, sites) for name, value in self.values.items()}
        if self.shared:
            state = self.new_state(None)
        else:
            state = {site.address: self.new_state(site) for site in sites}
        return {"values": values, "state": jax.tree.map(jnp.asarray, state)}

    def at(self, sites: Sequence[Site]) -> Injector:
        """The injector for these sites: itself, where its report needs nothing of them."""
        del sites
        return self

    def part_of(self, ctx: dict[str, Any], address: str) -> dict[str, Any]:
        """Of a context, or of something with its structure, the part that a site sees."""
        state = ctx["state"] if self.shared else ctx["state"][address]
        return {"values": ctx["values"], "state": state}

    def __call__(self, ctx: Any, token: Any, params: dict[str, Any]) -> tuple[Any, Any]:
        """Inject at one site; ``ctx`` is the part of the context that the site sees."""
        result = self.fire(ctx["values"], ctx["state"], token, params)
        if not (isinstance(result, tuple) and len(result) == 2):
            return result  # for whoever called to complain about
        return result[0], {"values": ctx["values"], "state": result[1]}

    def report_of(
        self, ctx: dict[str, Any], initial: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """What a final context says, by address; ``"*"`` where the state is shared.

        With ``shards="stack"`` a state has more axes than in the ``initial`` context: it is one
        for each device, and so are the reports, in a list.
        """
        states, before = (
            {"*": one["state"]} if self.shared else one["state"] for one in (ctx, initial or ctx)
        )
        return {address: self._said(state, before[address]) for address, state in states.items()}

    def _said(self, state: Any, before: Any) -> Any:
        leaves, tree = jax.tree.flatten(state)
        ranks = [jnp.ndim(leaf) for leaf in jax.tree.leaves(before)]
        more = [leaf.shape[: leaf.ndim - n] for leaf, n in zip(leaves, ranks, strict=True)]
        shape = max(more, key=len, default=())
        if not shape:
            return self.report(state)
        # A leaf that is the same on all devices is not stacked.
        of_each = [
            [leaf[k] if own else leaf for leaf, own in zip(leaves, more, strict=True)]
            for k in np.ndindex(shape)
        ]
        return [self.report(jax.tree.unflatten(tree, one)) for one in of_each]

    def _leaf(self, name: str, value: Any, sites: Sequence[Site]) -> Any:
        """A value as a leaf; an integer that an integer token cannot hold is refused.

        A whole float stands for the integer where all tokens are integers: sliders and
        fields give floats.
        """
        dtypes = {leaf.dtype for site in sites for leaf in jax.tree.leaves(site.avals)}
        exact = [
            d for d in dtypes if jnp.issubdtype(d, jnp.bool_) or jnp.issubdtype(d, jnp.integer)
        ]
        if isinstance(value, float) and value.is_integer() and exact and len(exact) == len(dtypes):
            value = int(value)
        for dtype in exact if isinstance(value, int) else ():
            held = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else None
            low, high = (held.min, held.max) if held else (0, 1)
            if not low <= value <= high:
                raise InjectorError(
                    f"{self.name}: {name}={value} does not fit the token, which is {dtype} and "
                    f"holds {low} to {high}."
                )
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
    _adds_up: bool = dataclasses.field(repr=False)

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
            InjectorError: If a parameter is unknown, given twice or missing, or an option is
                a value that is being traced.
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

        def fire(
            values: dict[str, Any], state: Any, token: Any, params: dict[str, Any]
        ) -> tuple[Any, Any]:
            given = {**values, **_taken(self._body, {**options, "params": params})}
            if self._state is None:
                return self._body(token, **given), state
            return self._body(token, state, **given)

        def new_state(site: Site | None) -> Any:
            if self._state is None:
                return ()
            return self._state(site, **_taken(self._state, options))

        given_options = {k: v for k, v in options.items() if v != self._options[k]}
        return Injector(
            self.name,
            values,
            fire,
            new_state,
            self._report,
            options=given_options,
            adds_up=self._adds_up,
            keys=frozenset(name for name, param in self.params.items() if param.is_key),
        )


def _taken(fn: Callable[..., Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the words that a function takes."""
    names = inspect.signature(fn).parameters
    return {name: value for name, value in words.items() if name in names}


def injector(
    *,
    state: Callable[..., Any] | None = None,
    report: Callable[[Any], dict[str, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    adds_up: bool = False,
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
        return InjectorKind(
            name=name,
            doc=(body.__doc__ or "").strip().split("\n")[0],
            params=params,
            _body=body,
            _state=state,
            _report=report or (lambda state: {}),
            _options=options or {},
            _adds_up=adds_up,
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
        given = tuple(map(jax.tree.structure, (state, token)))
        swapped = isinstance(result, tuple) and tuple(map(jax.tree.structure, result)) == given
        if swapped and given[0] != given[1]:
            raise InjectorError(
                f"{name_of(fn)} returned (ctx, token). An injector returns (token, ctx)."
            )
        return result

    return Injector(
        name_of(fn), {}, fire, lambda site: ctx, lambda state: {"ctx": state}, shared=True
    )
