"""The meaning of the core: a plain interpreter of jaxprs.

It runs concretely, keeps the context in one variable and calls the injector each time
that control reaches a selected tag. It knows nothing of taxpr but its tag primitive, and
shares no code with it: every rewrite of taxpr must agree with it in values, in the
context and in the order of calls.
"""

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from taxpr import is_tag, tag_params, tag_tree

P = jex.primitives
# Equations that run one jaxpr once: primitive name to param.
CALLS = {
    "jit": "jaxpr",
    "remat2": "jaxpr",
    "closed_call": "call_jaxpr",
    "call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


class Reference:
    """Runs a program, with an injector at the tags for which ``selected(params)`` holds."""

    def __init__(self, injector=None, ctx=None, selected=lambda params: True):
        self.injector, self.ctx, self.selected = injector, ctx, selected
        self.fired = []

    def __call__(self, jaxpr, *args):
        """``jaxpr`` is closed, or open without constants."""
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        consts = getattr(jaxpr, "consts", None) or ()
        env = dict(zip(inner.constvars, consts, strict=True))
        env |= dict(zip(inner.invars, args, strict=True))

        def read(atom):
            # 0.7.2 wraps literals in a class that some of its own primitives do not take.
            return jnp.asarray(atom.val) if isinstance(atom, jex.Literal) else env[atom]

        for eqn in inner.eqns:
            out = self.eqn(eqn, [read(atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, out, strict=True))
        return [read(atom) for atom in inner.outvars]

    def eqn(self, eqn, args):
        if is_tag(eqn):
            return self.tag(eqn, args)
        name, params = eqn.primitive.name, eqn.params
        if name in CALLS:
            return self(params[CALLS[name]], *args)
        if eqn.primitive is P.scan_p:
            return self.scan(params, args)
        if eqn.primitive is P.while_p:
            return self.while_loop(params, args)
        if eqn.primitive is P.cond_p:
            index, last = int(args[0]), len(params["branches"]) - 1
            # Where an injector changes the index, XLA takes the last branch for what is none.
            return self(params["branches"][index if 0 <= index <= last else last], *args[1:])
        bound = eqn.primitive.get_bind_params(params)
        subfuns, bound = bound if isinstance(bound, tuple) else ([], bound)
        out = eqn.primitive.bind(*subfuns, *args, **bound)
        return out if eqn.primitive.multiple_results else [out]

    def tag(self, eqn, leaves):
        params = tag_params(eqn)
        if self.injector is None or not self.selected(params):
            return leaves
        token = jax.tree.unflatten(tag_tree(eqn), [jnp.asarray(x) for x in leaves])
        token, self.ctx = self.injector(self.ctx, token, params)
        self.fired.append(params.get("name"))
        return jax.tree.leaves(token)

    def scan(self, params, args):
        n_consts, n_carry = scan_counts(params)
        consts, carry, xs = (
            args[:n_consts],
            args[n_consts : n_consts + n_carry],
            args[n_consts + n_carry :],
        )
        order = range(params["length"])
        ys = {}
        for i in reversed(order) if params["reverse"] else order:
            out = self(params["jaxpr"], *consts, *carry, *(x[i] for x in xs))
            carry, ys[i] = out[:n_carry], out[n_carry:]
        if not ys:
            avals = getattr(params["jaxpr"], "jaxpr", params["jaxpr"]).outvars[n_carry:]
            return [*carry, *(jnp.zeros((0, *v.aval.shape), v.aval.dtype) for v in avals)]
        return [*carry, *(jnp.stack(y) for y in zip(*(ys[i] for i in order), strict=True))]

    def while_loop(self, params, args):
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts = args[:n_cond], args[n_cond : n_cond + n_body]
        carry = args[n_cond + n_body :]
        while True:
            (pred,) = self(params["cond_jaxpr"], *cond_consts, *carry)
            if not jnp.any(pred):
                return carry
            new = self(params["body_jaxpr"], *body_consts, *carry)
            carry = [keep_ended(pred, a, b) for a, b in zip(new, carry, strict=True)]


def keep_ended(pred, new, old):
    """Under a batched predicate the lanes that have ended keep their carry."""
    pred = jnp.asarray(pred)
    return jnp.where(pred.reshape(pred.shape + (1,) * (jnp.ndim(new) - pred.ndim)), new, old)


def scan_counts(params):
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)
