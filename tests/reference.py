"""The meaning of the core: a plain interpreter of jaxprs.

It runs concretely, keeps the context in one variable and calls the injector each time
that control reaches a selected tag. It knows nothing of taxpr but its tag primitive, and
shares no code with it: every rewrite of taxpr must agree with it in values, in the
context and in the order of calls.
"""

import itertools

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax._src.state import discharge

from taxpr import is_tag, tag_params, tag_tree

P = jex.primitives
# Equations that run one jaxpr once: primitive name to the params that may hold it.
CALLS = {
    "jit": ("jaxpr",),
    "remat2": ("jaxpr",),
    "closed_call": ("call_jaxpr",),
    "call": ("call_jaxpr",),
    "eval_jaxpr": ("call_jaxpr", "jaxpr"),
    "custom_jvp_call": ("call_jaxpr",),
    "custom_vjp_call": ("call_jaxpr",),
    "compute_on": ("jaxpr",),
    "xla_metadata_call": ("jaxpr",),
    "program_order": ("call_jaxpr",),
    "fused_call": ("jaxpr",),
    "custom_vmap_call": ("call",),
    "linear_call": ("callee",),
    "custom_transpose_call": ("call_jaxpr",),
    "composite": ("call_jaxpr", "jaxpr"),
    "custom_partitioning": ("call",),
}


# What does nothing in a shard_map on one device.
ON_ONE_DEVICE = {"pvary", "pmax", "psum", "psum_invariant"}


class Reference:
    """Runs a program, with an injector at the tags for which ``selected(params)`` holds."""

    def __init__(self, injector=None, ctx=None, selected=lambda params: True):
        self.injector, self.ctx, self.selected = injector, ctx, selected
        self.fired = []
        self._literals = {}  # by id, with the literal itself, so that it lives as long

    def __call__(self, jaxpr, *args):
        """``jaxpr`` is closed, or open without constants."""
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        consts = getattr(jaxpr, "consts", None) or ()
        env = dict(zip(inner.constvars, consts, strict=True))
        env |= dict(zip(inner.invars, args, strict=True))

        def read(atom):
            return self.literal(atom) if isinstance(atom, jex.Literal) else env[atom]

        for eqn in inner.eqns:
            out = self.eqn(eqn, [read(atom) for atom in eqn.invars])
            env.update(zip(eqn.outvars, out, strict=True))
        return [read(atom) for atom in inner.outvars]

    def literal(self, atom):
        # 0.7.2 wraps literals in a class that some of its own primitives do not take. From 0.10 one
        # in a shard_map has the type of a value in it, and JAX confuses what it computes of such a
        # value with what it later computes elsewhere: its caches look at dtype and shape only.
        if id(atom) not in self._literals:
            plain = np.asarray(atom.val) if isinstance(atom.val, np.ndarray) else atom.val
            self._literals[id(atom)] = atom, jnp.asarray(plain)
        return self._literals[id(atom)][1]

    def at(self, index, jaxpr, *args):
        """Run the jaxpr of a loop as iteration ``index``, of a shard_map as device ``index``."""
        return self(jaxpr, *args)

    def eqn(self, eqn, args):
        if is_tag(eqn):
            return self.tag(eqn, args)
        name, params = eqn.primitive.name, eqn.params
        if name in ON_ONE_DEVICE:
            return args
        if name in CALLS:
            [inner] = [params[key] for key in CALLS[name] if key in params]
            return self(inner, *args)
        if name == "shard_map":  # on one device, with nothing that names a mesh axis
            return self.at(0, params["jaxpr"], *args)
        if name == "custom_linear_solve":
            return self.linear_solve(params, args)
        hidden = params.get("_prim")
        if hasattr(hidden, "solve_jaxpr"):  # custom_root: what solve takes comes first
            return self(hidden.solve_jaxpr, *args[: len(hidden.solve_jaxpr.invars)])
        if name == "call_hi_primitive" and hasattr(hidden, "jaxpr"):  # remat by jax_remat3
            return self(hidden.jaxpr, *args)
        if name == "run_state":
            return self.run_state(params, args)
        if eqn.primitive is P.scan_p:
            return self.scan(params, args)
        if eqn.primitive is P.while_p:
            return self.while_loop(params, args)
        if eqn.primitive is P.cond_p:
            index, last = int(args[0]), len(params["branches"]) - 1
            # Where an injector changes the index, XLA takes the last branch for what is none.
            return self(params["branches"][index if 0 <= index <= last else last], *args[1:])
        if name == "broadcast_in_dim":  # in a shard_map it names the mesh that it is in
            params = {**params, "sharding": None}
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
            out = self.at(i, params["jaxpr"], *consts, *carry, *(x[i] for x in xs))
            carry, ys[i] = out[:n_carry], out[n_carry:]
        if not ys:
            avals = getattr(params["jaxpr"], "jaxpr", params["jaxpr"]).outvars[n_carry:]
            return [*carry, *(jnp.zeros((0, *v.aval.shape), v.aval.dtype) for v in avals)]
        return [*carry, *(jnp.stack(y) for y in zip(*(ys[i] for i in order), strict=True))]

    def linear_solve(self, params, args):
        lengths = params["const_lengths"]
        first = lengths.matvec + lengths.vecmat
        consts, b = args[first : first + lengths.solve], args[sum(lengths) :]
        return self(params["jaxprs"].solve, *consts, *b)

    def run_state(self, params, args):
        # With the Refs made values: it takes their first values and returns their last.
        jaxpr = params["jaxpr"]
        closed = jaxpr if hasattr(jaxpr, "consts") else jex.ClosedJaxpr(jaxpr, ())
        # Up to 0.8 the function that takes a closed jaxpr has another name.
        of_closed = getattr(discharge, "discharge_state2", discharge.discharge_state)
        return self(of_closed(closed), *args)

    def while_loop(self, params, args):
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts = args[:n_cond], args[n_cond : n_cond + n_body]
        carry = args[n_cond + n_body :]
        for i in itertools.count():
            (pred,) = self.at(i, params["cond_jaxpr"], *cond_consts, *carry)
            if not jnp.any(pred):
                return carry
            new = self.at(i, params["body_jaxpr"], *body_consts, *carry)
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
