"""What the rule of an equation works with: its jaxprs with the context through them."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._engine.plan import Plan, is_chosen, keys_in_rule, plan_of_rule
from taxpr._errors import RefusedError
from taxpr._hops.protocol import Emits, Nested, Options
from taxpr._hops.table import nested_jaxprs, rule_jaxprs
from taxpr._primitives.state_access import is_access
from taxpr._sites.site import Site, described
from taxpr._sites.walk import find_sites, is_tag_or_access


class ThreadedJaxpr:
    """A jaxpr with the context threaded through it; see `taxpr._hops.protocol.Threaded`."""

    # The keys of emissions in place of those that they have; None leaves them.
    keys: Mapping[str, str] | None = None

    def __init__(self, jaxpr: Any, n_ctx: int, emits_tree: Any, touched: bool, address: str):
        self.jaxpr = jaxpr
        # Once for all calls of a shared jaxpr, so that what they call stays shared.
        self.hoisted = _compat.hoisted(jaxpr)
        self.touched = touched
        self.address = address
        self._n_ctx = n_ctx
        self._emits_tree = emits_tree

    def __call__(
        self, ctx: Sequence[Any], args: Sequence[Any]
    ) -> tuple[list[Any], list[Any], Emits]:
        return self.unpack(_compat.jaxpr_as_fun(self.jaxpr)(*ctx, *args))

    def unpack(self, flat: Sequence[Any]) -> tuple[list[Any], list[Any], Emits]:
        n_emitted = self._emits_tree.num_leaves
        n_out = len(flat) - n_emitted - self._n_ctx
        emits = jax.tree.unflatten(self._emits_tree, flat[n_out + self._n_ctx :])
        if self.keys is not None:
            emits = {self.keys[key]: value for key, value in emits.items() if key in self.keys}
        return list(flat[n_out : n_out + self._n_ctx]), list(flat[:n_out]), emits

    def with_keys(self, keys: Mapping[str, str]) -> ThreadedJaxpr:
        """The same, with other keys of its emissions; those without one are left out."""
        new = copy.copy(self)
        new.keys = keys
        return new

    @property
    def ctx_avals(self) -> list[Any]:
        """The types with which the context comes out."""
        return self.unpack(self.jaxpr.out_avals)[0]

    def emitted(self) -> Emits:
        return self.unpack(self.jaxpr.out_avals)[2]


@dataclasses.dataclass(frozen=True, eq=False)
class HopThread:
    """What the rule of one equation threads its jaxprs with; see `taxpr._hops.protocol.Thread`."""

    options: Options
    # How `taxpr._engine.thread` threads a jaxpr; passed in, so that imports point one way.
    build: Callable[..., ThreadedJaxpr]
    eqn: Any
    plans: Mapping[str, Plan]
    used: tuple[int, ...]
    address: str
    avals: list[Any]

    @functools.cached_property
    def _nested(self) -> dict[str, Nested]:
        """By label. They are as many as the branches of a switch, so not found anew for each."""
        return {nested.label: nested for nested in nested_jaxprs(self.eqn)}

    @functools.cached_property
    def _rules(self) -> dict[str, Nested]:
        return {nested.label: nested for nested in rule_jaxprs(self.eqn)}

    def selected(self, label: str) -> list[str]:
        nested = self._nested[label]
        prefix, plan = f"{self.address}/{label}/", self.plans.get(label, {})
        return [
            described(f"{prefix}{site.address}", site.eqn)
            for site in find_sites(nested.stored, of=is_tag_or_access)
            if is_chosen(plan, site)
        ]

    def __call__(
        self, label: str, *, jaxpr: Any = None, ctx: Sequence[Any] | None = None
    ) -> ThreadedJaxpr:
        if jaxpr is None:
            nested = self._nested.get(label) or self._rules[label]
            jaxpr, repeated = nested.stored, _may_repeat(nested)
            plan, keys = self.plans.get(label, {}), None
        else:
            plan, unclear = plan_of_rule(self.eqn, self.plans, jaxpr)
            repeated, keys = False, keys_in_rule(self.eqn, jaxpr)
            if unclear:
                raise RefusedError(_unclear_in_rule(self.address, label, self.eqn, *unclear[0]))
        avals = self.avals if ctx is None else avals_of(ctx)
        by_index = dict(zip(self.used, avals, strict=True))
        below = f"{self.address}/{label}/"
        built = self.build(jaxpr, plan, by_index, f"{label}/", below, repeated)
        return built if keys is None else built.with_keys(keys)


def _unclear_in_rule(address: str, label: str, eqn: Any, site: Site, in_rule: bool) -> str:
    source = _compat.source_of(eqn)
    if is_access(site.eqn):
        return (
            f"uncurry: the {site}, in {address}"
            + (f" ({source})" if source else "")
            + f", is not in the {label} rule that takes the function's place when it is "
            "differentiated, or another number of times. What the state becomes would differ "
            "between the two. Let the rule use the states as the function does, as by calling it."
        )
    if in_rule:
        return (
            f"inject: the {described(f'{address}/{label}/{site.address}', site.eqn)}, which only "
            f"the {label} rule of {address}"
            + (f" ({source})" if source else "")
            + " has, cannot be told from the others there with its params and shapes: the rule may "
            "have other tags for other inputs that are differentiated, and the lines of the source "
            "do not tell them apart. The injection would stand in the wrong place. Give these tags "
            "names of their own, or select all of them, with one injector."
        )
    return (
        f"inject: the {site}, in {address}"
        + (f" ({source})" if source else "")
        + f", cannot be told for sure in the {label} rule that takes the function's place when "
        "it is differentiated: the rule has no such tag, or another number of tags with these "
        "params and shapes, or not all of them are selected. The injection would be lost or "
        'stand in the wrong place. Give custom_rules="drop" to differentiate the injected '
        "function itself, or give the tags of function and rule names of their own."
    )


def _may_repeat(nested: Nested) -> bool:
    return not nested.rule and (nested.trips != 1 or nested.conditional)


def settled(threaded: HopThread, ctx: list[Any]) -> list[Any]:
    """The context for a loop or for branches, which must leave it with the type that it has.

    In a shard_map it may come to vary over more mesh axes; then it begins so.
    """
    repeated = [nested for nested in nested_jaxprs(threaded.eqn) if _may_repeat(nested)]
    while True:
        new, avals = list(ctx), avals_of(ctx)
        inside = dataclasses.replace(threaded, avals=avals)
        for nested in repeated:
            out = inside(nested.label).ctx_avals
            for index, (value, old, aval) in enumerate(zip(new, avals, out, strict=True)):
                if aval is old:  # most of them, where a switch has a state for each branch
                    continue
                if aval.shape != old.shape:
                    raise RefusedError(
                        f'inject: {threaded.address} runs a shard_map with shards="stack" more '
                        "than once or not always, so the stacked ctx cannot be handed on. Use "
                        'shards="psum", "pmax" or a function.'
                    )
                more = _compat.varying(aval) - _compat.varying(value)
                new[index] = _compat.pvary(value, sorted(more))
        if all(old is one for old, one in zip(ctx, new, strict=True)):
            return ctx
        ctx = new


def avals_of(values: Iterable[Any]) -> list[Any]:
    return [jax.typeof(value) for value in values]
