"""What is done with the tags of a program, all at once."""

import jax
import jax.numpy as jnp
from checks import check_types

import taxpr


def all_of(fn, has_gradient=True):
    """A function of the arguments of ``fn``: what becomes of its tags, one of which is "h"."""

    def run(x, *rest):
        program = taxpr.trace(fn)(x, *rest)
        check_types(program.jaxpr)
        scaled = program.inject(taxpr.scale(1.5))
        looked = [taxpr.record(), taxpr.stats(), taxpr.check_finite(), taxpr.count()]
        watched = program.inject({"h": looked}, shards="stack")
        collect = program.collect(max_steps=4)
        values = collect(x * 2, *rest)[1]
        planted = jax.tree.map(lambda x: x if x.dtype in (bool, jnp.int32) else x + 1, values)
        found = {
            "out": program(x, *rest),
            "dissolved": program.dissolve()(x, *rest),
            "reported": watched(watched.ctx, x, *rest),
            "collected": values,
            "scaled": scaled(scaled.ctx, x, *rest)[0],
            "planted": program.plant(planted)(x, *rest),
            "until": program.until("h", max_steps=4)(x, *rest),
        }
        if has_gradient:
            of_scaled = lambda x: jnp.sum(scaled(scaled.ctx, x, *rest)[0])
            of_tokens = taxpr.grad_at(lambda *args: jnp.sum(fn(*args)), "h")(x, *rest)
            found["gradients"] = of_tokens, jax.grad(of_scaled)(x)
        return found

    return run
