"""Entries of `jax.custom_jvp` and `jax.custom_vjp`.

Their equations hold the jaxpr of the function, and Python functions that trace its derivative
rule. Injection keeps the rule, and injects into its jaxpr as well. The user's rule has no
derivative for the context: context that comes out has zero tangent, and differentiating with
respect to context that goes in is refused.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from taxpr import _compat
from taxpr._compat import Array, Aval, ClosedJaxpr, Params
from taxpr._hops.kept import entering, leaving
from taxpr._hops.nested import Change, Nested, plain
from taxpr._hops.protocol import Beside, Emits, Hop, Made, Thread
from taxpr._hops.rebuild import counted, never, refuse_refs, tags_in
from taxpr._hops.table import register, rule_jaxprs
from taxpr._jaxprs.prune import without_dead_code
from taxpr._jaxprs.zeros import zeros as zeros_of
from taxpr._primitives.guard import ended


def _nested(eqn: _compat.JaxprEqn) -> tuple[Nested, ...]:
    stored, name = eqn.params["call_jaxpr"], _name(eqn)
    kind = eqn.primitive.name.removesuffix("_call")
    rules = tuple(" ".join(dict.fromkeys(rule)) for rule in _compat.rule_names(eqn))
    facts = {"name": name, "jaxpr": "primal", "rule": rules}  # "jaxpr" says which jaxpr this is
    return (plain("call", f"{kind} {name}", ("call_jaxpr",), stored, facts=facts),)


def _name(eqn: _compat.JaxprEqn) -> str:
    # custom_jvp has its name in the debug info, custom_vjp in a param or in the debug info.
    if eqn.params.get("name"):
        return eqn.params["name"]
    info = _compat.open_jaxpr(eqn.params["call_jaxpr"]).debug_info.func_src_info or ""
    return info.split(" at ")[0]


def _rules(
    eqn: _compat.JaxprEqn,
    *,
    label: str,
    rule_of: Callable[[_compat.JaxprEqn, Sequence[bool]], _compat.TracedRule],
) -> tuple[Nested, ...]:
    """The jaxpr of the rule, traced as if every differentiable input were differentiated.

    Returns nothing for a rule whose trace fails (JAX reports the error when it needs the rule),
    and for a forward rule with symbolic zeros: its output may depend on the choice of
    differentiated inputs, and JAX uses the output tree of the last trace for all of them.
    """
    if label == "fwd" and eqn.params["symbolic_zeros"]:
        return ()
    differentiated = _compat.all_differentiated(eqn)
    with _compat.as_traced(eqn, _compat.mesh_at(eqn, is_hop=True)):
        try:
            rule = rule_of(eqn, differentiated)
        except Exception:  # of any class: it comes from the user's function
            return ()
    title = f"{label} rule of {_name(eqn)}"
    more: dict[str, Any] = {"first_operand": None, "conditional": True, "rule": True}
    return (plain(label, title, None, rule.jaxpr, **more),)


class _CustomCall:
    """One custom call with the context threaded through its function and its rule.

    The operands of the new call are ``[*consts, *ctx, *closed over, *arguments]``. The rule
    differentiates the arguments; the first three groups together are the lead.
    """

    def __init__(self, eqn: _compat.JaxprEqn, label: str, n_ctx: int, thread: Thread):
        self.eqn, self.label, self.thread = eqn, label, thread
        self.inner = thread("call")
        refuse_refs(_name(eqn), thread, self.inner.hoisted[1])
        self.jaxpr, self.consts = self.inner.hoisted
        self.n_ctx = n_ctx
        self.n_lead = len(self.consts) + n_ctx + eqn.params["num_consts"]
        # Emissions of tags in the rule, which fire only when the call is differentiated.
        self.of_rule: Emits = {}
        if any(rule.label == label for rule in rule_jaxprs(eqn)):
            rule = thread(label)
            refuse_refs(_name(eqn), thread, rule.hoisted[1])
            self.of_rule = {k: counted(aval) for k, aval in rule.emitted().items()}
        self.emits_tree = jax.tree.structure({**self.inner.emitted(), **self.of_rule})

    def primal(self, *operands: Array) -> list[Array]:
        ctx, outs, emits = self.inner.unpack(_compat.jaxpr_as_fun(self.jaxpr)(*operands))
        nothing = {key: never(emission) for key, emission in self.of_rule.items()}
        return [*outs, *ctx, *jax.tree.leaves({**emits, **nothing})]

    def rule(
        self, operands: Sequence[Array], rule: ClosedJaxpr, args: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Run the rule on ``args``: its results, then the context and the emissions."""
        threaded, beside = self.thread.rule(self.label, rule)
        first = len(self.consts)
        ctx, own = list(operands[first : first + self.n_ctx]), {}
        if beside is not None:
            ctx, own = self._beside(beside, ctx, operands)
        jaxpr, consts = threaded.hoisted
        flat = _compat.jaxpr_as_fun(jaxpr)(*self._given(consts, operands), *ctx, *args)
        ctx, outs, emits = threaded.unpack(flat)
        of_rule = {
            key: counted(emits[key]) if key in emits else never(aval)
            for key, aval in self.of_rule.items()
        }
        return outs, [*ctx, *jax.tree.leaves({**own, **of_rule})]

    def _beside(
        self, beside: Beside, ctx: list[Array], operands: Sequence[Array]
    ) -> tuple[list[Array], Emits]:
        """Run the function next to its rule, only for its context and emissions."""
        jaxpr, consts = beside.function.hoisted
        n_out = len(self.eqn.outvars)
        emitted = range(n_out + self.n_ctx, len(jaxpr.out_avals))
        needed = without_dead_code(jaxpr, [*(n_out + k for k in beside.ctx), *emitted])
        rest = map(_apart, operands[len(self.consts) + self.n_ctx :])
        # Collected values have no derivative, so nothing here has to be differentiated.
        flat = _compat.jaxpr_as_fun(needed)(*ended([*self._given(consts, operands), *ctx, *rest]))
        ctx = list(ctx)
        for k, leaf in zip(beside.ctx, flat, strict=False):
            ctx[k] = leaf
        tree = jax.tree.structure(beside.function.emitted())
        return ctx, jax.tree.unflatten(tree, flat[len(beside.ctx) :])

    def _given(self, consts: Sequence[Array], operands: Sequence[Array]) -> list[Array]:
        """The consts of an injector; a const that is also an operand becomes that operand."""
        given = {id(const): value for const, value in zip(self.consts, operands, strict=False)}
        return [given.get(id(const), const) for const in consts]

    def results(self, operands: Sequence[Array], flat: Sequence[Array]) -> Made:
        """``(ctx, outs, emits)``, where context and emissions have no derivative."""
        n_out = len(self.eqn.outvars)
        ctx, rest = flat[n_out : n_out + self.n_ctx], flat[n_out + self.n_ctx :]
        return leaving(
            self.thread,
            self.jaxpr,
            operands,
            range(len(self.consts), len(self.consts) + self.n_ctx),
            (ctx, flat[:n_out], jax.tree.unflatten(self.emits_tree, rest)),
        )


def _apart(operand: Array) -> Array:
    """The operand, or a copy if it is a Ref: the rule that runs next to this writes to it."""
    if not _compat.is_ref(jax.typeof(operand)):
        return operand
    copy: Any = jax.new_ref(operand[...])
    return copy


def _inject(
    eqn: _compat.JaxprEqn,
    ctx: list[Array],
    operands: list[Array],
    thread: Thread,
    *,
    label: str,
    keep: Callable[[_CustomCall, Sequence[Aval]], Params],
) -> Made:
    if thread.options.custom_rules == "drop":
        return thread("call")(ctx, operands)
    call = _CustomCall(eqn, label, len(ctx), thread)
    name, tags = _name(eqn), tags_in(thread, "call")
    if thread.options.states:
        text = (
            "uncurry: a derivative is taken with respect to a state"
            + (f": {tags}" if tags else "")
            + f", in {thread.place}. {name} has a derivative rule, which does not cover states. "
            f"Read the state before, and give {name} the value as an argument: its rule has a "
            "derivative for arguments; or end the derivative with jax.lax.stop_gradient."
        )
    else:
        text = (
            "inject: a derivative is taken with respect to the ctx of "
            + (f"the injector at {tags}" if tags else "an injector")
            + f", in {thread.place}, or to a value that it closes over. {name} has a derivative "
            "rule, which does not cover them. Give "
            'custom_rules="drop" to differentiate the injected function itself, or end the '
            "derivative with jax.lax.stop_gradient."
        )
    own, inside = entering(thread, call.consts, ctx, text)
    every = [*own, *inside, *operands]
    avals = [jax.typeof(x) for x in every]

    def primal(*every: Array) -> list[Array]:
        return call.primal(*every)

    primal.__name__ = name  # JAX records it in the jaxpr
    jaxpr = _compat.make_jaxpr(primal)(*avals)
    params = {
        **eqn.params,
        "call_jaxpr": _compat.as_stored(jaxpr, eqn.params["call_jaxpr"]),
        "num_consts": 0,
        **keep(call, avals),
    }
    return call.results([*call.consts, *ctx, *operands], _compat.bind(eqn.primitive, every, params))


def _keep_jvp(call: _CustomCall, avals: Sequence[Aval]) -> Params:
    """The new rule uses symbolic zeros, so that the context can have a zero tangent."""
    n_out, n_lead, n_args = len(call.eqn.outvars), call.n_lead, len(avals) - call.n_lead

    def injected(*zeros: bool) -> _compat.TracedRule:
        for_rule = list(zeros[n_lead:])
        instantiated = not call.eqn.params["symbolic_zeros"]
        rule = _compat.jvp_rule(call.eqn, [False] * n_args if instantiated else for_rule)
        tangent_avals = [_compat.tangent_aval(aval) for aval in avals]
        given = [aval for aval, zero in zip(tangent_avals, zeros, strict=True) if not zero]
        ignored = zeros[:n_lead].count(False)

        def run(*flat: Array) -> list[Array]:
            values = flat[: len(avals)]
            tangents = list(flat[len(avals) + ignored :])
            if instantiated:
                left = iter(tangents)
                tangents = [
                    zeros_of(aval.shape, aval.dtype) if zero else next(left)
                    for aval, zero in zip(tangent_avals[n_lead:], for_rule, strict=True)
                ]
            outs, more = call.rule(values, rule.jaxpr, [*values[n_lead:], *tangents])
            return [*outs[:n_out], *more, *outs[n_out:]]

        jaxpr = _compat.make_jaxpr(run)(*avals, *given)
        n_more = len(jaxpr.out_avals) - n_out - list(rule.out_zeros).count(False)
        return _compat.TracedRule(jaxpr, [*rule.out_zeros, *[True] * n_more])

    return {**_compat.jvp_params(call.eqn.params, injected), "symbolic_zeros": True}


def _keep_vjp(call: _CustomCall, avals: Sequence[Aval]) -> Params:
    n_lead = call.n_lead

    def injected(*nonzeros: bool) -> _compat.TracedRule:
        if any(nonzeros[n_lead - call.eqn.params["num_consts"] : n_lead]):
            raise _compat.closed_over_error()
        rule = _compat.fwd_rule(call.eqn, nonzeros[n_lead:])

        def run(*values: Array) -> list[Array]:
            outs, more = call.rule(values, rule.jaxpr, values[n_lead:])
            return [*outs, *more]

        new = _compat.TracedRule(_compat.make_jaxpr(run)(*avals))
        return _compat.with_known_residuals(new, rule, len(call.eqn.outvars))

    more_out = call.n_ctx + call.emits_tree.num_leaves
    lead = avals[:n_lead]
    return _compat.vjp_params(call.eqn.params, injected, more_in=lead, n_more_out=more_out)


def _with_jvp_rule(eqn: _compat.JaxprEqn, change: Change) -> _compat.JaxprEqn:
    def changed(*zeros: bool) -> _compat.TracedRule:
        rule = _compat.jvp_rule(eqn, zeros)
        return rule._replace(jaxpr=change(rule.jaxpr))

    return eqn.replace(params={**eqn.params, **_compat.jvp_params(eqn.params, changed)})


def _with_fwd_rule(eqn: _compat.JaxprEqn, change: Change) -> _compat.JaxprEqn:
    def changed(*nonzeros: bool) -> _compat.TracedRule:
        return _compat.TracedRule(change(_compat.fwd_rule(eqn, nonzeros).jaxpr))

    return eqn.replace(params={**eqn.params, **_compat.fwd_params(eqn.params, changed)})


register(
    _compat.custom_jvp_call_p,
    Hop(
        nested=_nested,
        inject=functools.partial(_inject, label="jvp", keep=_keep_jvp),
        own_derivative=True,
        rules=functools.partial(_rules, label="jvp", rule_of=_compat.jvp_rule),
        with_rules=_with_jvp_rule,
    ),
)
register(
    _compat.custom_vjp_call_p,
    Hop(
        nested=_nested,
        inject=functools.partial(_inject, label="fwd", keep=_keep_vjp),
        own_derivative=True,
        rules=functools.partial(_rules, label="fwd", rule_of=_compat.fwd_rule),
        with_rules=_with_fwd_rule,
    ),
)
