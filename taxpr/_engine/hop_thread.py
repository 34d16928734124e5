"""`HopThread` and `ThreadedJaxpr`: they give a rule its jaxprs with the context threaded."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard, TypeVar

import jax

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import Array, Aval, ClosedJaxpr, JaxprEqn, StoredJaxpr, TreeDef
from taxpr._engine.handler import Handler
from taxpr._engine.in_rule import in_rule
from taxpr._engine.plan import Plan, handler_at, handlers_of
from taxpr._errors import RefusedError
from taxpr._hops.nested import Nested
from taxpr._hops.protocol import Beside, Emits, Made, Options
from taxpr._hops.rebuild import shown, types_of, wrong_entry
from taxpr._hops.silent import silent
from taxpr._hops.table import nested_jaxprs, rule_jaxprs
from taxpr._sites.site import described
from taxpr._sites.walk import find_sites, is_tag_or_access

T = TypeVar("T")


class ThreadedJaxpr:
    """A jaxpr with the context threaded through it; see `taxpr._hops.protocol.Threaded`."""

    # New keys of emissions by old ones; None keeps all.
    keys: Mapping[str, str] | None = None
    # The equation whose rule calls it and the label that it asked for, if the calls are checked.
    asked: tuple[JaxprEqn, str] | None = None

    def __init__(
        self, jaxpr: ClosedJaxpr, n_ctx: int, emits_tree: TreeDef, touched: bool, address: Address
    ):
        self.jaxpr = jaxpr
        # Hoist once for all calls of a shared jaxpr, so that their jaxpr stays shared.
        self.hoisted = _compat.hoisted(jaxpr)
        self.touched = touched
        self.address = address
        self._n_ctx = n_ctx
        self._emits_tree = emits_tree

    def __call__(
        self, ctx: Sequence[Array], args: Sequence[Array] | None = None, *more: object
    ) -> Made:
        if self.asked is not None:
            self._check_call(ctx, args, *more)
        assert args is not None, "checked, or ours"
        return self.unpack(_compat.jaxpr_as_fun(self.jaxpr)(*ctx, *args))

    def _check_call(self, *given: object) -> None:
        assert self.asked is not None, "only then"
        eqn, label = self.asked
        lists = [x for x in given if _is_list(x)]
        if len(given) != 2 or len(lists) != 2:
            kinds = ", ".join("nothing" if x is None else type(x).__name__ for x in given)
            raise wrong_entry(
                eqn,
                f"thread({label!r}) was called with {kinds}, and expects (ctx, args), two lists of "
                "arrays",
            )
        avals, n_ctx = self.jaxpr.in_avals, self._n_ctx
        for what, values, own in (
            ("ctx", lists[0], avals[:n_ctx]),
            ("args", lists[1], avals[n_ctx:]),
        ):
            found = avals_of(values)
            if types_of(found) != types_of(own):
                raise wrong_entry(
                    eqn,
                    f"thread({label!r}) was called with {what} {shown(found)}, and expects "
                    f"{shown(own)}",
                )

    def unpack(self, flat: Sequence[T]) -> tuple[list[T], list[T], Emits]:
        n_emitted = self._emits_tree.num_leaves
        n_out = len(flat) - n_emitted - self._n_ctx
        emits: Emits = jax.tree.unflatten(self._emits_tree, flat[n_out + self._n_ctx :])
        if self.keys is not None:
            emits = {self.keys[key]: value for key, value in emits.items() if key in self.keys}
        return list(flat[n_out : n_out + self._n_ctx]), list(flat[:n_out]), emits

    def asked_by(self, eqn: JaxprEqn, label: str) -> ThreadedJaxpr:
        """The same, with checked calls."""
        new = copy.copy(self)
        new.asked = eqn, label
        return new

    def with_keys(self, keys: Mapping[str, str]) -> ThreadedJaxpr:
        """The same, with other keys of its emissions. Those without a new key are dropped."""
        new = copy.copy(self)
        new.keys = keys
        return new

    @property
    def ctx_avals(self) -> list[Aval]:
        """The avals of the resulting context."""
        return self.unpack(self.jaxpr.out_avals)[0]

    def emitted(self) -> Emits:
        return self.unpack(self.jaxpr.out_avals)[2]


# Threads a jaxpr, given its plan, the context's avals by index, its label, its address, whether it
# may run more than once, and whether the rule that runs it is checked.
Build = Callable[
    [StoredJaxpr, Plan, Mapping[int, Aval], Address, Address, bool, bool], ThreadedJaxpr
]


def _is_list(value: object) -> TypeGuard[Sequence[Array]]:
    return isinstance(value, (list, tuple))


@dataclasses.dataclass(frozen=True, eq=False)
class HopThread:
    """Threads the jaxprs of one equation for its rule; see `taxpr._hops.protocol.Thread`."""

    options: Options
    # How `taxpr._engine.thread` threads a jaxpr; passed in, so that imports point one way.
    build: Build
    eqn: JaxprEqn
    plans: Mapping[str, Plan]
    used: tuple[int, ...]
    address: Address
    avals: list[Aval]
    checked: bool = False  # the rule is that of another library

    @functools.cached_property
    def _nested(self) -> dict[str, Nested]:
        """The nested jaxprs by label, cached because a switch may have many branches."""
        return {nested.label: nested for nested in nested_jaxprs(self.eqn)}

    @functools.cached_property
    def _rules(self) -> dict[str, Nested]:
        return {nested.label: nested for nested in rule_jaxprs(self.eqn)}

    @property
    def place(self) -> str:
        return described(self.address, self.eqn)

    def selected(self, label: str | None = None) -> list[str]:
        return [
            described(self.address / nested.label / site.address, site.eqn)
            for nested in ([self._nested[label]] if label else self._nested.values())
            for site in find_sites(nested.stored, of=is_tag_or_access)
            if handler_at(self.plans.get(nested.label, {}), site)
        ]

    @functools.cached_property
    def _handlers(self) -> set[Handler]:
        return {handler for plan in self.plans.values() for handler in handlers_of(plan)}

    @property
    def observes(self) -> bool:
        return all(handler.observes for handler in self._handlers)

    @property
    def seen(self) -> frozenset[int]:
        return frozenset(index for handler in self._handlers for index in handler.seen)

    def __call__(self, label: str, *, ctx: Sequence[Array] | None = None) -> ThreadedJaxpr:
        nested = self._nested.get(label) or self._rules.get(label)
        if nested is None:
            labels = ", ".join(map(repr, (*self._nested, *self._rules)))
            raise wrong_entry(
                self.eqn, f"inject asked for thread({label!r}), and nested gave the labels {labels}"
            )
        avals = self.avals if ctx is None else avals_of(ctx)
        plan = self.plans.get(label, {})
        repeated = _may_repeat(nested)
        threaded = self._built(label, nested.stored, plan, avals, repeated, self.checked)
        return threaded.asked_by(self.eqn, label) if self.checked else threaded

    def rule(self, label: str, jaxpr: ClosedJaxpr) -> tuple[ThreadedJaxpr, Beside | None]:
        found = in_rule(self.eqn, self.plans, label, jaxpr, self.address)
        rule = self._built(label, jaxpr, found.plan, self.avals).with_keys(found.keys)
        if not found.beside:
            return rule, None
        [nested] = self._nested.values()
        function = self._built(nested.label, silent(nested.stored), found.beside, self.avals)
        ctx = [k for k, index in enumerate(self.used) if index in found.seen]
        return rule, Beside(function, ctx)

    def _built(
        self,
        label: str,
        jaxpr: StoredJaxpr,
        plan: Plan,
        avals: Sequence[Aval],
        repeated: bool = False,
        probed: bool = False,
    ) -> ThreadedJaxpr:
        by_index = dict(zip(self.used, avals, strict=True))
        below = self.address / label
        return self.build(jaxpr, plan, by_index, Address(label), below, repeated, probed)


def _may_repeat(nested: Nested) -> bool:
    never = nested.rule or nested.idle
    return not never and (nested.trips != 1 or nested.conditional)


def settled(threaded: HopThread, ctx: list[Array]) -> list[Array]:
    """The context with types that a loop or branches preserve.

    In a shard_map the body may make a leaf vary over more mesh axes. Then the initial leaf is cast
    to that type, until nothing changes.
    """
    repeated = [nested for nested in nested_jaxprs(threaded.eqn) if _may_repeat(nested)]
    while True:
        new, avals = list(ctx), avals_of(ctx)
        inside = dataclasses.replace(threaded, avals=avals)
        for nested in repeated:
            out = inside(nested.label).ctx_avals
            for index, (value, old, aval) in enumerate(zip(new, avals, out, strict=True)):
                if aval is old:  # a fast path, as a switch may have a state for each branch
                    continue
                if aval.shape != old.shape:
                    raise RefusedError(
                        f'inject: {threaded.place} runs a shard_map with shards="stack" more than '
                        "once or not always, so the stacked ctx cannot be handed on. Use "
                        'shards="psum", "pmax" or a function.'
                    )
                more = _compat.varying(aval) - _compat.varying(value)
                new[index] = _compat.pvary(value, sorted(more))
        if all(old is one for old, one in zip(ctx, new, strict=True)):
            return ctx
        ctx = new


def avals_of(values: Iterable[Array]) -> list[Aval]:
    return [jax.typeof(value) for value in values]
