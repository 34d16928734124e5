"""`switched`: an injector with a switch, a value of its context."""

# User input is checked, whatever its declared type.
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from taxpr._compat import Array, PyTree
from taxpr._errors import InjectorError, a_type
from taxpr._given import refuse_no_flag
from taxpr._injectors.injector import Injector, from_function
from taxpr._injectors.site_injector import Firing, SiteInjector, inject_at, without_site
from taxpr._sites.site import Site

_ON = "on"  # the name of the switch among the values


def switched(
    injector: Injector | Callable[..., tuple[PyTree, PyTree]],
    ctx: PyTree = (),
    *,
    on: bool = True,
) -> Injector:
    """An injector that a value of its context switches on and off.

    Off, it leaves the tagged value and its own state unchanged. The switch is a parameter like any
    other, a bool array ``on``, so one compiled program runs with the injection and without it. It
    computes in both cases, and calls its callbacks, such as that in ``print``.

    Args:
        injector: An `Injector` such as ``scale(0.5)``, or a function
            ``(ctx, token, params) -> (token, ctx)``.
        ctx: For a function: the context before the first firing.
        on: The switch at first.

    Raises:
        InjectorError: If the injector has a parameter ``on`` of its own.

    Example:
        >>> from taxpr import scale, switched, tag, trace
        >>> program = trace(lambda x: tag(x, name="x") + 1)(1.0)
        >>> halved = program.inject({"x": switched(scale(0.5))})
        >>> float(halved(halved.ctx, 1.0)[0])
        1.5
        >>> float(halved(halved.ctx_with(on=False), 1.0)[0])
        2.0
    """
    refuse_no_flag("switched", on=on)
    if not callable(injector):
        raise InjectorError(
            f"switched: {injector!r} is {a_type(injector)}. Give an injector, such as "
            "scale(0.5), or a function (ctx, token, params) -> (token, ctx)."
        )
    one = injector if isinstance(injector, Injector) else from_function(injector, ctx)
    if isinstance(one, _Switched):
        raise InjectorError(f"switched: {one!r} has a switch already.")
    if _ON in one.values:
        raise InjectorError(
            f"switched: {one.name} has a parameter {_ON!r} of its own, which is the name of the "
            "switch. Call it otherwise."
        )
    fire = without_site(one.name)
    return _Switched.of(one, values={**one.values, _ON: bool(on)}, fire=fire, one=one)


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Gated(SiteInjector):
    """An injector that acts at some firings; at others token and state stay as they are."""

    one: Injector

    def at(self, sites: Sequence[Site]) -> Injector:
        one = self.one.at(sites)
        return dataclasses.replace(self, one=one, report=one.report)

    def is_on(self, at: Firing, ctx: PyTree) -> Array:
        """Whether the injector acts at a firing."""
        raise NotImplementedError

    def part(self, ctx: PyTree) -> PyTree:
        """The context of the injector in its own."""
        return ctx

    def fire_at(self, at: Firing, ctx: PyTree, token: PyTree) -> tuple[PyTree, PyTree]:
        on, inner = self.is_on(at, ctx), self.part(ctx)
        given = token if self.observes else _silenced(on, token)
        result = inject_at(self.inner, at, _silenced(on, inner), given)
        if not (isinstance(result, tuple) and len(result) == 2):
            return result  # not a pair: the caller reports the error
        after, state = result[0], result[1]["state"]
        return _either(on, after, token), {**ctx, "state": _either(on, state, ctx["state"])}

    @property
    def inner(self) -> Injector:
        """The injector with the values that this one has now."""
        return dataclasses.replace(self.one, values=self.values)


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class _Switched(Gated):
    def initial(self, sites: Sequence[Site]) -> dict[str, PyTree]:
        ctx = self.inner.initial(sites)
        return {**ctx, "values": {**ctx["values"], _ON: jnp.asarray(self.values[_ON])}}

    def counted(self, site: Site, part: PyTree) -> Sequence[bool]:
        if isinstance(self.one, SiteInjector):
            return self.one.counted(site, self.part(part))
        return super().counted(site, part)

    def is_on(self, at: Firing, ctx: PyTree) -> Array:
        return ctx["values"][_ON]

    def part(self, ctx: PyTree) -> PyTree:
        return {**ctx, "values": {k: v for k, v in ctx["values"].items() if k != _ON}}

    @property
    def inner(self) -> Injector:
        values = {name: value for name, value in self.values.items() if name != _ON}
        return dataclasses.replace(self.one, values=values)

    def __repr__(self) -> str:
        return f"switched({self.inner!r}, on={self.values[_ON]})"


def _silenced(on: Array, tree: PyTree) -> PyTree:
    """A tree without derivative if the switch is off: else a non-finite one would spread."""

    def one(leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            return leaf
        return jax.lax.select(on, leaf, jax.lax.stop_gradient(leaf))

    return jax.tree.map(one, tree)


def _either(on: Array, new: PyTree, old: PyTree) -> PyTree:
    """One of two trees. Trees of two structures are for the caller to complain about."""
    if jax.tree.structure(new) != jax.tree.structure(old):
        return new

    def chosen(new: Array, old: Array) -> Array:
        if new is old:  # a choice between equal arrays would copy them in each iteration of a loop
            return old
        old, new = jnp.asarray(old), jnp.asarray(new)
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return new  # the engine says so, with the tag
        return jax.lax.select(on, new, old)

    return jax.tree.map(chosen, new, old)
