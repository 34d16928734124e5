"""`Injector`: an injector with parameter values, ready to be attached, and `from_function`."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from taxpr import _compat
from taxpr._compat import DType, JaxprEqn, Params, PyTree
from taxpr._errors import InjectorError, TaxprError, a_type, name_of, say_where, unfit
from taxpr._given import refuse_no_flag
from taxpr._jaxprs.trees import as_arrays, refuse_no_arrays
from taxpr._sites.site import Site, described

# Values of parameters by name.
Values = Mapping[str, PyTree]
# A result for people, such as a dict of arrays.
Report = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Injector:
    """An injector with values for its parameters, ready to be attached.

    Its context is ``{"values": {parameter: array}, "state": ...}``. Each site has its own state, by
    address, unless the state is ``shared``.

    Attributes:
        name: The name of its kind, or of the user's function.
        values: The values of the declared parameters, by name.
        fire: ``(values, state, token, params) -> (token, state)``, called while tracing.
        new_state: The state before the first firing at a site.
        report: Turns a final state into a dict of arrays for people.
        shared: Whether all sites share one state, passed on in the order of execution.
        options: Static options, such as the slots of ``record``.
        observes: Whether it returns the token unchanged, which is checked. Then derivative rules
            around the tag stay as they are.
        adds_up: Whether states of several devices can be merged by ``shards="psum"`` or
            ``"pmax"``. For a function, only its author knows.
        keys: The names of the values that are PRNG keys; see `Param`.
        check: ``(values, options)``; raises if these do not fit together.

    Example:
        >>> from taxpr import scale, tag, trace
        >>> half = scale(0.5)
        >>> half, half.values
        (scale(factor=0.5), {'factor': 0.5})
        >>> halved = trace(lambda x: tag(x, name="x"))(1.0).inject(half, where="x")
        >>> halved.ctx["values"]  # one program serves every factor
        {'factor': Array(0.5, dtype=float32)}
    """

    name: str
    values: Values
    fire: Callable[[dict[str, PyTree], PyTree, PyTree, Params], tuple[PyTree, PyTree]]
    new_state: Callable[[Site | None], PyTree]
    report: Callable[[PyTree], Report]
    shared: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    adds_up: bool = True
    keys: frozenset[str] = frozenset()
    observes: bool = False
    check: Callable[[Values, Mapping[str, Any]], None] | None = None

    def initial(self, sites: Sequence[Site]) -> dict[str, PyTree]:
        """The initial context of the injector, attached at ``sites``.

        Args:
            sites: The tags.

        Raises:
            InjectorError: If a value does not fit the tokens.

        Example:
            >>> from taxpr import count, tag, trace
            >>> count().initial(trace(lambda x: tag(x, name="x"))(1.0).tags())
            {'values': {}, 'state': {'t0': Array(0, dtype=int32, weak_type=True)}}
        """
        if self.check is not None:
            self.check(self.values, self.options)
        values = {name: self._leaf(name, value, sites) for name, value in self.values.items()}
        if self.shared:
            state = self.new_state(None)
        else:
            state = {site.address: self._first_state(site) for site in sites}
        return {"values": values, "state": jax.tree.map(jnp.asarray, state)}

    def _first_state(self, site: Site) -> PyTree:
        try:
            return self.new_state(site)
        except InjectorError:
            raise
        except Exception as error:
            say_where(error, f"raised by the state of the injector {self.name!r} for the {site}.")
            raise

    def at(self, sites: Sequence[Site]) -> Injector:
        """The injector for these sites: unchanged, unless its report depends on them.

        Args:
            sites: The tags.
        """
        del sites
        return self

    def part_of(self, ctx: dict[str, PyTree], address: str) -> dict[str, PyTree]:
        """The part of a context, or of a tree with its structure, that a site sees.

        Args:
            ctx: The context, such as `initial` returns.
            address: The address of the site.
        """
        state = ctx["state"] if self.shared else ctx["state"][address]
        return {"values": ctx["values"], "state": state}

    def __call__(self, ctx: PyTree, token: PyTree, params: Params) -> tuple[PyTree, PyTree]:
        """Inject at one site; ``ctx`` is the part of the context that the site sees."""
        result = self.fire(ctx["values"], ctx["state"], token, params)
        if not (isinstance(result, tuple) and len(result) == 2):
            return result  # not a pair: the caller reports the error
        self.check_token(token, result[0])
        return result[0], {"values": ctx["values"], "state": result[1]}

    def check_token(self, before: PyTree, after: PyTree) -> None:
        """Raise if the injector declares that it only observes, but changed the token.

        Args:
            before: The token that it got.
            after: The token that it returned.

        Raises:
            InjectorError: If a leaf differs.
        """
        leaves = jax.tree.leaves(before), jax.tree.leaves(after)
        if self.observes and list(map(id, leaves[0])) != list(map(id, leaves[1])):
            raise InjectorError(
                f"{self.name} is declared with observes=True and returned another token than it "
                "was given. Return the token itself, or leave out observes=True."
            )

    def report_of(
        self,
        ctx: dict[str, PyTree],
        initial: dict[str, PyTree] | None = None,
        tags: Mapping[str, JaxprEqn] = types.MappingProxyType({}),
    ) -> dict[str, PyTree]:
        """The reports of a final context by address; ``"*"`` if the state is shared.

        With ``shards="stack"`` the final state has additional axes, one state for each device. Then
        there is a list of reports, one for each device.

        Args:
            ctx: The context after a run.
            initial: The context before it; needed if states are stacked.
            tags: The equations of the tags by address, for the names in errors.

        Example:
            >>> from taxpr import count, tag, trace
            >>> counted = trace(lambda x: tag(x, name="x"))(1.0).inject(count())
            >>> counted.report(counted(counted.ctx, 1.0)[1])
            {'t0': {'count': Array(1, dtype=int32)}}
        """
        states, before = (
            {"*": one["state"]} if self.shared else one["state"] for one in (ctx, initial or ctx)
        )
        said: dict[str, PyTree] = {}
        for address, state in states.items():
            try:
                said[address] = self._said(state, before[address])
            except TaxprError:
                raise
            except Exception as error:
                place = described(address, tags[address]) if address in tags else address
                say_where(error, f"raised by the report of {self.name!r} at {place}.")
                raise
        return said

    def _said(self, state: PyTree, before: PyTree) -> Report | list[Report]:
        leaves, tree = jax.tree.flatten(state)
        ranks = [jnp.ndim(leaf) for leaf in jax.tree.leaves(before)]
        more = [leaf.shape[: leaf.ndim - n] for leaf, n in zip(leaves, ranks, strict=True)]
        shape = max(more, key=len, default=())
        if not shape:
            return self.report(state)
        leaves = [_compat.whole_axes(x, len(own)) for x, own in zip(leaves, more, strict=True)]
        # A leaf that is equal on all devices is not stacked.
        of_each = [
            [leaf[k] if own else leaf for leaf, own in zip(leaves, more, strict=True)]
            for k in np.ndindex(shape)
        ]
        return [self.report(jax.tree.unflatten(tree, one)) for one in of_each]

    def _try_on_bool(self, name: str, dtype: DType, site: Site) -> None:
        """Let the injector itself refuse a bool, if it does: then no value of a parameter helps."""
        if not jnp.issubdtype(dtype, jnp.bool_):
            return
        values = {**self.values, name: False}
        state = self.new_state(None if self.shared else site)

        def run(token: PyTree) -> PyTree:
            return self.fire(values, state, token, site.params)

        try:
            _compat.make_jaxpr(run)(site.avals)
        except InjectorError as error:
            raise InjectorError(f"{error} This is for the {site}.") from None

    def _leaf(self, name: str, value: PyTree, sites: Sequence[Site]) -> PyTree:
        """Convert a value to a leaf. Refuses an integer that an integer token cannot hold.

        If all tokens are integers, a whole float becomes an integer, because sliders give floats.
        """
        dtypes = {leaf.dtype: site for site in sites for leaf in jax.tree.leaves(site.avals)}
        exact = [
            d for d in dtypes if jnp.issubdtype(d, jnp.bool_) or jnp.issubdtype(d, jnp.integer)
        ]
        if isinstance(value, float) and value.is_integer() and exact and len(exact) == len(dtypes):
            value = int(value)
        for dtype in exact if isinstance(value, int) else ():
            held = jnp.iinfo(dtype) if jnp.issubdtype(dtype, jnp.integer) else None
            low, high = (held.min, held.max) if held else (0, 1)
            if not low <= value <= high:
                self._try_on_bool(name, dtype, dtypes[dtype])
                raise InjectorError(
                    f"{self.name}: {name}={value} does not fit the token, which is {dtype} and "
                    f"holds {low} to {high}. This is for the {dtypes[dtype]}."
                )
        said = f"{self.name}: {name}={value!r}"
        try:
            return as_arrays(said, value, InjectorError)
        except OverflowError:  # a Python integer beyond int32 that fits the tokens
            return jnp.asarray(value, exact[0]) if exact else jnp.asarray(float(value))

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in {**self.values, **self.options}.items())
        return f"{self.name}({shown})"


def from_function(
    fun: Callable[..., tuple[PyTree, PyTree]],
    ctx: PyTree = (),
    *,
    observes: bool = False,
    **values: PyTree,
) -> Injector:
    """An `Injector` of a user's function ``(ctx, token, params) -> (token, ctx)``.

    Args:
        fun: The function; its name becomes the injector's.
        ctx: The initial context, any PyTree of arrays. All sites share it.
        observes: Whether it returns the token unchanged; see `injector`.
        **values: Further arguments of the function, by name. They are parameters of the injector:
            leaves of its context, so other values do not compile again. A Python number is
            promoted to the dtype of the other operand, as in the function itself.

    Raises:
        InjectorError: If the function does not take them.

    Example:
        >>> from taxpr import from_function, tag, trace
        >>> def count(n, token, params):
        ...     return token, n + 1
        >>> program = trace(lambda x: tag(tag(x, name="a") * 2, name="b"))(1.0)
        >>> counted = program.inject({"*": from_function(count, 0)})
        >>> out, ctx = counted(counted.ctx, 1.0)
        >>> counted.report(ctx)
        {'*': {'*': {'ctx': Array(2, dtype=int32)}}}
        >>> def shrink(ctx, token, params, factor):
        ...     return token * factor, ctx
        >>> shrunk = program.inject({"b": from_function(shrink, factor=0.5)})
        >>> shrunk(shrunk.ctx_with(factor=0.25), 8.0)[0]
        Array(4., dtype=float32, weak_type=True)
    """
    _check_takes(fun, values)
    refuse_no_flag("from_function", observes=observes)
    for name, value in {"ctx": ctx, **values}.items():
        refuse_no_arrays(f"from_function: {name}={value!r}", value)
    weak = {k for k, v in values.items() if type(v) in (bool, int, float, complex)}

    @functools.wraps(fun)
    def fire(
        values: dict[str, PyTree], state: PyTree, token: PyTree, params: Params
    ) -> tuple[PyTree, PyTree]:
        given = {k: _compat.with_weak_type(v, True) if k in weak else v for k, v in values.items()}
        result = fun(state, token, params, **given)
        trees = tuple(map(jax.tree.structure, (state, token)))
        swapped = isinstance(result, tuple) and tuple(map(jax.tree.structure, result)) == trees
        if swapped and trees[0] != trees[1]:
            raise InjectorError(
                f"{name_of(fun)} returned (ctx, token). An injector returns (token, ctx)."
            )
        return result

    return Injector(
        name_of(fun),
        values,
        fire,
        lambda site: ctx,
        lambda state: {"ctx": state},
        shared=True,
        observes=observes,
    )


def _check_takes(fun: Callable[..., object], values: Values) -> None:
    """Raise if it is no function, or its signature does not take these names."""
    if isinstance(fun, Injector):
        raise InjectorError(f"from_function: {fun!r} is an injector already. Give it as it is.")
    if not callable(fun):
        raise InjectorError(
            f"from_function: {fun!r} is {a_type(fun)}. Give a function (ctx, token, "
            "params) -> (token, ctx)."
        )
    if wrong := unfit(fun, None, None, None, **values):
        words = ", ".join(["ctx", "token", "params", *(f"{name}=" for name in values)])
        raise InjectorError(
            f"from_function: {name_of(fun)}{wrong[0]} is called with ({words}), and that does not "
            f"go: {wrong[1]}."
        )
