"""A donated argument is taken by the results that JAX and XLA give it to, which XLA says."""

import random
import warnings

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import taxpr
from taxpr._compiled.compile_call import jit_options
from taxpr._estimates.donated import donated_results
from taxpr._estimates.estimate import FUSIBLE
from taxpr._estimates.flat import flat_program
from taxpr._questions.depends import EACH

TALL, WIDE, LARGE = jnp.ones((8, 4)), jnp.ones((4, 8)), jnp.ones((8, 8))


def both(x):
    y = x * 2
    return y, y


def trained(params, moments, x):
    return (
        jax.tree.map(lambda p, m: p - 0.1 * m, params, moments),
        jax.tree.map(lambda m: 0.9 * m + x.sum(), moments),
    )


def half(x):
    return x.astype(jnp.bfloat16)


MODEL = {"a": TALL, "b": WIDE}
# What is donated is the first argument, or those of the numbers behind.
PROGRAMS = {
    "same type": (lambda x: x * 2, (TALL,)),
    "another shape": (lambda x: (x * 2).reshape(-1), (TALL,)),
    "turned": (lambda x: (x * 2).T, (TALL,)),
    "another dtype": (lambda x: lax.bitcast_convert_type(x, jnp.int32) * 2, (TALL,)),
    "fewer bytes": (half, (TALL,)),
    "as many bytes of more elements": (lambda x, y: half(y) + half(x[0, 0]), (TALL, LARGE)),
    "elements of one and bytes of another": (lambda x, y: (half(x), half(y)), (TALL, LARGE)),
    "real and imaginary": (lambda x: jnp.concatenate([x.real, x.imag]), (TALL.astype(complex),)),
    "a result of the same type is first": (
        lambda x, y: ((y * 2).reshape(8, 4) + x, x.T + y),
        (TALL, WIDE),
    ),
    "nobody reads it": (lambda x, y: y * 2, (TALL, TALL)),
    "handed on": (lambda x, y: (x, y + 1), (TALL, TALL)),
    "another argument": (lambda x, y: (y, x * 2), (TALL, TALL)),
    "one result twice": (both, (TALL,)),
    "two for one": (lambda x, y: x.T + y, (TALL, WIDE), 0, 1),
    "two for two": (lambda x, y: (x.T + y, x.reshape(-1)), (TALL, WIDE), 0, 1),
    "an optimizer": (trained, (MODEL, MODEL, jnp.ones(3)), 0, 1),
    "a number": (lambda x: (1.0, x + 1), (jnp.float32(1),)),
    "a key": (lambda k: jax.random.split(k)[0], (jax.random.key(0),)),
    "a loop": (lambda x: lax.fori_loop(0, 5, lambda k, x: jnp.sin(x), x), (TALL,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_estimate_gives_donated_arguments_to_as_many_bytes_as_xla(name):
    fun, args, *numbers = PROGRAMS[name]
    jitted = jax.jit(fun, donate_argnums=numbers or 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        stats = jitted.lower(*args).compile().memory_analysis()
        found = [taxpr.memory(jitted, compile=compile)(*args) for compile in (True, False)]
    assert [use.alias for use in found] == [stats.alias_size_in_bytes] * 2
    assert [use.arguments for use in found] == [stats.argument_size_in_bytes] * 2


def test_what_is_kept_though_nobody_reads_it_is_there():
    jitted = jax.jit(lambda x, y: y * 2, donate_argnums=0, keep_unused=True)
    measured, guess = (taxpr.memory(jitted, compile=c)(TALL, TALL) for c in (True, False))
    assert (guess.arguments, guess.alias) == (measured.arguments, measured.alias) == (256, 128)


def reaching(flat, maker, goes_on):
    """An operation, and those that it needs, as far as these lead through others."""
    makers = {id(x): one for one in flat.operations for x in one.makes}
    found, waiting = {id(maker): maker}, [maker]
    while waiting:
        one = waiting.pop()
        for x in one.reads if goes_on(one) else ():
            other = makers.get(id(x))
            if other is not None and id(other) not in found:
                found[id(other)] = other
                waiting.append(other)
    return found.values()


def fits(flat, result, given):
    """Whether a result can be computed where its argument is, told pair by pair."""
    maker = next((one for one in flat.operations if any(x is result for x in one.makes)), None)
    if maker is None:
        return result is given
    readers = [one for one in flat.operations if any(x is given for x in one.reads)]
    if not all(any(one is x for x in reaching(flat, maker, lambda _: True)) for one in readers):
        return False
    if maker.eqn.primitive not in FUSIBLE:
        return not any(maker is one for one in readers)
    fused = reaching(flat, maker, lambda one: one.eqn.primitive in FUSIBLE)
    turning = (x for x in fused if x.eqn.primitive in FUSIBLE and x.eqn.primitive not in EACH)
    return not any(one is x for x in turning for one in readers)


OPERATIONS = [
    lambda x, y: x + y,
    lambda x, y: jnp.sin(x) * y,
    lambda x, y: x @ y,
    lambda x, y: x[::-1] - y,
    lambda x, y: jnp.sort(x),
]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_copied_is_told_as_pair_by_pair(seed):
    chosen = random.Random(seed)
    plan = [(chosen.choice(OPERATIONS), chosen.random(), chosen.random()) for _ in range(12)]
    results = [chosen.randrange(3, 15) for _ in range(3)]

    def fun(*args):
        values = list(args)
        for operation, a, b in plan:
            values.append(operation(*(values[int(x * len(values))] for x in (a, b))))
        return [values[k] for k in results]

    program = taxpr.trace(jax.jit(fun, donate_argnums=(0, 1, 2)))(*[LARGE] * 3)
    flat = flat_program(program.jaxpr)
    _, donated = jit_options(program)
    read = {id(x) for one in flat.operations for x in one.reads}
    given = [k for k in donated if id(flat.inputs[k]) in read]
    found = donated_results(program, flat, given)
    assert [one.number for one in found] == list(range(len(given)))
    for one, k in zip(found, given, strict=True):
        assert one.copied != fits(flat, flat.outputs[one.number], flat.inputs[k])
