"""Under `jax.disable_jit()` a program is the one that it is without.

JAX unrolls loops there. A while loop whose condition turns out to be traced is begun, given up,
and then traced as a loop; the equations of the attempt stay.
"""

import jax
import jax.numpy as jnp
import pytest
from checks import assert_close
from jax import lax

import taxpr
from taxpr import tag


def counted_to(x, n):
    """The condition is known for the first iterations: what they hold was left behind."""

    def go_on(carry):
        k, _ = carry
        return jnp.logical_or(k < 2, tag(k, name="asked") < n)

    def body(carry):
        k, x = carry
        return k + 1, tag(jnp.sin(x) + 1, name="x")

    return lax.while_loop(go_on, body, (0, x))[1]


def scanned(x, n):
    def step(c, w):
        c = lax.cond(w > 1, lambda c: tag(c * w, name="x"), lambda c: c, c)
        return lax.fori_loop(0, n, lambda k, c: tag(c * 1.5, name="k"), c), w

    return lax.scan(step, x, jnp.float32([0.5, 1.5, 2.5]))


def called(x, n):
    return jax.jit(lambda x: tag(tag(x * 2, name="x"), name="y"))(x)


@pytest.mark.parametrize("fn", [counted_to, scanned, called], ids=lambda fn: fn.__name__)
def test_a_program_is_the_same(fn):
    def found():
        program = taxpr.trace(fn)(jnp.float32(1), 4)
        changed = program.inject(
            {"x": taxpr.scale(0.5), lambda site: site.name != "x": taxpr.count()}
        )
        typed = taxpr.TypedClosedJaxpr.make(fn)(jnp.float32(1), 4)
        addresses = [site.address for site in program.tags()]
        values = (
            program(1.0, 4),
            changed(changed.ctx, 1.0, 4),
            program.collect(stack=True)(1.0, 4),
            len(list(taxpr.iter_tags(typed.closed_jaxpr))),
        )
        return addresses, values

    addresses, values = found()
    with jax.disable_jit():
        again = found()
    assert again[0] == addresses
    assert_close(again[1], values)
