"""Thread a context through a jaxpr.

Flat code is spliced: equations that the plan does not name stay the same objects, with their
source, scope, effects and params. A chosen tag is replaced by the equations of its handler. A
higher-order equation that holds one is traced again by its rule. Invariants: ``ctx`` maps the
index of each context leaf to the atom that has its value at this point of the program; each
distinct pair of jaxpr and plan is transformed once, so shared jaxprs stay shared.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp

from taxpr import _compat
from taxpr._address import Address
from taxpr._compat import (
    Array,
    Atom,
    Aval,
    ClosedJaxpr,
    JaxprEqn,
    Mesh,
    StoredJaxpr,
)
from taxpr._engine.donation import donates, kept_apart
from taxpr._engine.dropped import (
    warn_of_dropped_rules,
    warn_of_shared_values,
    warn_of_stale_derivatives,
)
from taxpr._engine.handler import Handler
from taxpr._engine.hop_thread import HopThread, ThreadedJaxpr, avals_of, settled
from taxpr._engine.plan import Plan, plan_key, plan_of
from taxpr._engine.retraced import moved, retraced, with_origin
from taxpr._errors import RefusedError
from taxpr._hops.protocol import NO_OPTIONS, Emission, Emits, Made, Options
from taxpr._hops.table import inject_rule, is_brought
from taxpr._jaxprs.splice import Splice
from taxpr._primitives.state_access import is_access
from taxpr._primitives.tag_equation import is_differentiated, used_elsewhere, variable_of
from taxpr._sites.site import Site, around, described
from taxpr._sites.walk import local_names


def thread(
    jaxpr: ClosedJaxpr,
    chosen: Sequence[tuple[Site, Handler]],
    ctx_avals: Sequence[Aval],
    options: Options = NO_OPTIONS,
) -> ThreadedJaxpr:
    """Replace the chosen tags by their handlers, with a context through the program.

    Args:
        jaxpr: A closed jaxpr.
        chosen: The selected tags, each with its handler.
        ctx_avals: The avals of the leaves of the context.
        options: The options of the caller.

    Returns:
        The jaxpr from ``[*ctx, *args]`` to ``[*outs, *ctx, *emitted]``.

    Raises:
        RefusedError: If a selected tag is inside an equation that cannot be injected.

    Warns:
        DroppedRuleWarning: If an equation around a selected tag loses a rule of its own.
        StaleDerivativeWarning: If an injector changes a token that was differentiated.
        SharedValueWarning: If it changes a variable whose value the function's caller uses, too.
    """
    for site, _ in chosen:
        refuse_if_inside_opaque(site)
    warn_of_dropped_rules([site for site, _ in chosen])
    plan = plan_of(chosen)
    threader = _Threader(jaxpr, options)
    out = threader.jaxpr(jaxpr, plan, dict(enumerate(ctx_avals)), Address(), Address())
    warn_of_stale_derivatives(threader.stale)
    warn_of_shared_values(threader.shared)
    return out


def _used(todo: Handler | Mapping[str, Plan], ctx: Iterable[int]) -> tuple[int, ...]:
    """The context leaves that a handler uses, or that all handlers below an equation use."""
    if isinstance(todo, Handler):
        return tuple(ctx) if todo.uses is None else todo.uses
    below = (_used(step, ctx) for plan in todo.values() for step in plan.values())
    return tuple(sorted({index for used in below for index in used}))


_STANDS_ELSEWHERE = (
    "If the jaxpr that does run calls the same function, it has the tag, too: its name selects "
    "that one. "
)


def refuse_if_inside_opaque(site: Site) -> None:
    """Raise if a context cannot enter one of the equations around a site."""
    for address, step in around(site.steps):
        if reason := step.refusal:
            raise RefusedError(
                f"inject: the {site} is inside {described(address, step.eqn)}, and taxpr does not "
                f"inject into {step.eqn.primitive.name}: {reason}. "
                + (_STANDS_ELSEWHERE if site.idle else "")
                + (
                    "Move it out of there."
                    if is_access(site.eqn)
                    else "Select other tags with where=, or move the tag out of it."
                )
            )


class _Threader:
    """One call of `thread`: remembers what it has transformed."""

    def __init__(self, root: ClosedJaxpr, options: Options) -> None:
        self._options = options
        self._root = root
        self._done: dict[Hashable, ThreadedJaxpr] = {}
        # Keys of `_done` contain ids, so keep the objects alive.
        self._alive: list[tuple[StoredJaxpr, Plan]] = []
        # Descriptions of tags that change a value whose derivative was taken before.
        self.stale: dict[str, str] = {}  # with the name of the variable, if it is one
        # And of those that change a variable of a function whose caller uses the value.
        self.shared: list[str] = []

    @functools.cached_property
    def _donates(self) -> bool:
        return donates(self._root)

    def jaxpr(
        self,
        stored: StoredJaxpr,
        plan: Plan,
        ctx_avals: Mapping[int, Aval],
        label: Address,
        address: Address,
        repeated: bool = False,
        probed: bool = False,
    ) -> ThreadedJaxpr:
        """Thread some leaves of the context through a jaxpr; ``ctx_avals`` has them by index.

        ``address`` is used in messages; if two places share a jaxpr, it is the first one's. With
        ``repeated`` the resulting context varies at least over the mesh axes of the initial one.
        With ``probed`` it also emits a number that checks the rule that runs it.
        """
        mesh = _compat.mesh_here()
        key = (id(stored), plan_key(plan), tuple(ctx_avals.items()), label, repeated, probed, mesh)
        if key not in self._done:
            self._alive.append((stored, plan))
            self._done[key] = self._build(
                stored, plan, ctx_avals, label, address, repeated, probed, mesh
            )
        return self._done[key]

    def _build(
        self,
        stored: StoredJaxpr,
        plan: Plan,
        ctx_avals: Mapping[int, Aval],
        label: Address,
        address: Address,
        repeated: bool,
        probed: bool,
        outside: Mesh,
    ) -> ThreadedJaxpr:
        inner = _compat.open_jaxpr(stored)
        splice = Splice(inner, _compat.consts_of(stored))
        entering = [_compat.fresh_var(aval) for aval in ctx_avals.values()]
        ctx: dict[int, Atom] = dict(zip(ctx_avals, entering, strict=True))
        emits: Emits = {}
        names = local_names(inner, plan)
        done = 0
        for position, local in names.items():
            splice.keep(inner.eqns[done:position])
            eqn, todo, done = inner.eqns[position], plan[position], position + 1
            here = address / local
            used = _used(todo, ctx)
            for index in used:
                if _compat.aval_of(ctx[index]).shape != ctx_avals[index].shape:
                    raise RefusedError(
                        f"inject: {described(here, eqn)} comes after a shard_map that left its "
                        'ctx stacked, one for each device. With shards="stack" a ctx is used in '
                        'one shard_map only: use "psum", "pmax" or a function, or inject apart.'
                    )
            now = [ctx[index] for index in used]
            mesh = _compat.mesh_at(eqn, is_hop=isinstance(todo, dict))
            moves = [_compat.sharding_on(atom.aval, mesh) for atom in now]
            sent = zip(now, moves, strict=True)
            back = [move and _compat.aval_of(atom).sharding for atom, move in sent]
            now = moved(splice, now, moves)
            atoms = None
            if isinstance(todo, Handler) and todo.rewire is not None and not self._donates:
                atoms = todo.rewire(eqn, now, splice.read(eqn.invars))
            if atoms is not None:
                ctx.update(zip(used, moved(splice, atoms[0], back), strict=True))
                splice.write(eqn.outvars, atoms[1])
                continue
            avals = [_compat.aval_of(atom) for atom in (*now, *eqn.invars)]
            if isinstance(todo, dict):
                run = self._hop(eqn, todo, used, here)
                piece, tree = retraced(run, avals, eqn, mesh)
                piece = with_origin(piece, eqn)
            else:
                run = _handled(todo, here, eqn, len(used))
                piece, tree = retraced(run, avals, eqn, mesh)
                self._warn(todo, here, eqn, piece, len(used))
                if self._donates:
                    piece = kept_apart(piece, len(used), len(eqn.outvars))
            flat = splice.inline(piece, [*now, *splice.read(eqn.invars)])
            now, outs, new = jax.tree.unflatten(tree, flat)
            ctx.update(zip(used, moved(splice, now, back), strict=True))
            splice.write(eqn.outvars, outs)
            leaves, tree = jax.tree.flatten(new)
            leaves = moved(splice, leaves, [_compat.sharding_on(x.aval, outside) for x in leaves])
            for key, value in jax.tree.unflatten(tree, leaves).items():
                emits[label / local / key] = value
        splice.keep(inner.eqns[done:])
        if probed and plan:
            [one_run] = splice.inline(_compat.make_jaxpr(lambda: jnp.int32(0))(), [])
            emits[label] = Emission([one_run], None)
        for index, aval in ctx_avals.items() if repeated else ():
            if ctx[index].aval is aval:
                continue
            if missing := sorted(_compat.varying(aval) - _compat.varying(ctx[index].aval)):
                widen = functools.partial(_compat.pvary, axes=missing)
                (ctx[index],) = splice.inline(
                    _compat.make_jaxpr(widen)(ctx[index].aval), [ctx[index]]
                )
        leaves, tree = jax.tree.flatten(emits)
        outvars = [*splice.read(inner.outvars), *ctx.values(), *leaves]
        jaxpr = splice.finish([*entering, *inner.invars], outvars)
        return ThreadedJaxpr(jaxpr, len(ctx_avals), tree, touched=bool(plan), address=address)

    def _warn(
        self, handler: Handler, address: str, eqn: JaxprEqn, piece: ClosedJaxpr, n_ctx: int
    ) -> None:
        """Note a tag that changes more, or less, than who selects it may think."""
        told, elsewhere = is_differentiated(eqn), used_elsewhere(eqn)
        if handler.injects is None or not (told or elsewhere) or not _changes(piece, n_ctx, eqn):
            return
        if told:
            variable = variable_of(eqn)
            self.stale[described(address, eqn)] = variable.name if variable else ""
        self.shared += [f"{described(address, eqn)} {elsewhere}"] * bool(elsewhere)

    def _hop(
        self, eqn: JaxprEqn, plans: Mapping[str, Plan], used: tuple[int, ...], address: Address
    ) -> Callable[..., Made]:
        rule, checked = inject_rule(eqn), is_brought(eqn)
        assert rule is not None, "refused before"

        def run(*flat: Array) -> Made:
            now, operands = list(flat[: len(used)]), list(flat[len(used) :])
            threaded = HopThread(
                self._options, self.jaxpr, eqn, plans, used, address, avals_of(now), checked
            )
            now = settled(threaded, now)
            threaded = dataclasses.replace(threaded, avals=avals_of(now))
            ctx, outs, emits = rule(eqn, now, operands, threaded)
            return list(ctx), list(outs), {k: v for k, v in emits.items() if k not in plans}

        return run


def _changes(piece: ClosedJaxpr, n_ctx: int, eqn: JaxprEqn) -> bool:
    """Whether the replacement of a tag returns another token than it got."""
    inner, end = _compat.open_jaxpr(piece), n_ctx + len(eqn.outvars)
    tokens = zip(inner.invars[n_ctx:end], inner.outvars[n_ctx:end], strict=True)
    return any(before is not after for before, after in tokens)


def _handled(handler: Handler, address: str, eqn: JaxprEqn, n_ctx: int) -> Callable[..., Made]:
    def run(*flat: Array) -> Made:
        ctx, token, emitted = handler.run(address, eqn, list(flat[:n_ctx]), list(flat[n_ctx:]))
        emits = {} if emitted is None else {"": Emission(list(emitted), None)}
        return list(ctx), list(token), emits

    if handler.injects is not None:
        run.__wrapped__ = handler.injects  # pyright: ignore[reportFunctionMemberAccess]
    return run
