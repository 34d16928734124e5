"""Programs with loops in loops, and a reference that knows in which iterations tags fire."""

import collections

import jax
import jax.numpy as jnp
from reference import Reference

from taxpr import _compat, tag

F = jnp.float32


class Indexed(Reference):
    """The reference, which also notes at which iterations of its loops each tag fires."""

    def __init__(self):
        super().__init__(self.note)
        self.index = ()
        self.seen = collections.defaultdict(dict)

    def note(self, ctx, token, params):
        self.seen[params["name"]][self.index] = token
        return token, ctx

    def at(self, index, jaxpr, *args):
        outer, self.index = self.index, (*self.index, index)
        out = self(jaxpr, *args)
        self.index = outer
        return out


def levels(site):
    """The steps to a tag for which `Indexed` has an index: loops, and a shard_map on one device."""
    return [s for s in site.steps if s.is_loop or s.eqn.primitive is _compat.shard_map_p]


def while_in_scan(xs):
    def step(c, x):
        def go_on(carry):
            return tag(carry[0], name="cond") < x

        def body(carry):
            n, c = carry
            return n + 1, tag({"c": c + x, "n": n}, name="body")["c"]

        return jax.lax.while_loop(go_on, body, (F(0), c))[1], None

    return jax.lax.scan(step, F(0.5), xs, reverse=True)[0]


def scan_in_while(xs):
    def body(carry):
        n, c = carry

        def step(c, x):
            c = jax.lax.cond(
                x > n, lambda c: tag(c + x, name="branch"), lambda c: tag(c * 0.5, name="other"), c
            )
            return tag(c, name="step"), None

        return n + 1, jax.lax.scan(step, c, xs)[0]

    return jax.lax.while_loop(lambda carry: carry[0] < 3, body, (F(0), F(1)))[1]


def while_in_while(xs):
    def outer(carry):
        n, c = carry

        def inner(carry):
            m, c = carry
            return m + 1, tag(c + m, name="inner")

        c = jax.lax.while_loop(lambda carry: carry[0] < n, inner, (F(0), c))[1]
        return n + 1, jax.lax.cond(n > 1, lambda c: tag(c * 0.5, name="late"), lambda c: c, c)

    return jax.lax.while_loop(lambda carry: carry[0] < 4, outer, (F(0), xs))[1]


def scan_while_scan(xs):
    def body(carry):
        n, c = carry
        c = jax.jit(lambda c: jax.lax.scan(lambda c, x: (tag(c + x, name="c"), None), c, xs)[0])(c)
        return n + 1, c

    def step(c, x):
        return jax.lax.while_loop(lambda carry: carry[0] < x, body, (F(0), c))[1], None

    return jax.lax.scan(step, F(0), xs)[0]


def keys_and_bools(xs):
    def body(carry):
        n, key = carry
        key, _ = tag((jax.random.split(key)[0], n > 0), name="key")
        return n + 1, key

    n, key = jax.lax.while_loop(lambda c: c[0] < 2, body, (F(0), jax.random.key(0)))
    return n + xs[0], key


XS = jnp.asarray([2.0, 0.0, 3.0], jnp.float32)


OWN = (while_in_scan, scan_in_while, while_in_while, scan_while_scan, keys_and_bools)
