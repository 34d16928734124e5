"""What random programs are checked with: injectors, contexts, and the reference.

The injectors compute with one operation at a time, so that a program in which they were
traced, run equation by equation, gives the bits that they give by themselves.
"""

import jax
import jax.numpy as jnp
import numpy as np
from checks import is_float
from loops import levels
from reference import Reference


def is_key(x):
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def float_dtype():
    return jnp.result_type(float)


def contexts():
    """Contexts of many kinds; a failure shrinks towards the first."""
    f = float_dtype()
    return [
        jnp.int32(1),
        {"n": jnp.int32(1), "s": jnp.asarray(0.25, f)},
        (),
        [jnp.asarray([0.5, -0.5], f), (jnp.uint8(7), None), jnp.asarray(True)],
        ({"k": jax.random.key(2)}, jnp.asarray(0.5, jnp.bfloat16), {}),
        None,
    ]


def totals(tree):
    """Of all ints, bools and keys, and of all floats, one number each."""
    whole, real = jnp.int32(0), jnp.zeros((), float_dtype())
    for x in jax.tree.leaves(tree):
        if x.dtype == jax.dtypes.float0:  # the tangent of an integer, which has no arithmetic
            continue
        if is_key(x):
            x = jax.random.key_data(x)
        if is_float(x):
            real = real + jnp.sum(x.astype(real.dtype))
        else:
            whole = whole + jnp.sum(x.astype(jnp.int32), dtype=jnp.int32)
    return whole, jnp.tanh(real)


def changing(ctx, token, params):
    """Reads and changes every leaf of token and ctx; the order of calls shows in ctx."""
    number = 1 + int(params["name"][1:])
    whole, real = totals(token)
    own_whole, own_real = totals(ctx)

    def of_token(x):
        if is_key(x):
            return x if x.ndim else jax.random.fold_in(x, own_whole + number)
        if is_float(x):
            return x * jnp.asarray(1.01, x.dtype) + (own_real * 0.01).astype(x.dtype)
        if x.dtype == bool:
            return jnp.logical_and(x, own_whole % 4 != 3)
        return x + ((own_whole & 1) + 1).astype(x.dtype)

    def of_ctx(x):
        if is_key(x):
            return jax.random.fold_in(x, whole + number)
        if is_float(x):
            return x * jnp.asarray(0.5, x.dtype) + (real * 0.25 + 0.1 * number).astype(x.dtype)
        if x.dtype == bool:
            return jnp.logical_xor(x, (whole + number) % 3 == 0)
        return x * 31 + (whole + number).astype(x.dtype)

    return jax.tree.map(of_token, token), jax.tree.map(of_ctx, ctx)


START_BRIEFLY = (np.int32(0), np.float32(0.5))


def changing_briefly(ctx, token, params):
    """For a tag at any value, which may be what ends a loop: ints change a few times only."""
    n, s = ctx
    if is_key(token):
        token = jnp.where(n < 4, token, token)
    elif is_float(token):
        token = token * jnp.asarray(0.9, token.dtype) + (s * 0.1).astype(token.dtype)
    elif token.dtype == bool:
        token = jnp.logical_and(token, n % 3 != 1)
    elif token.dtype != jax.dtypes.float0:
        token = token + (n < 3).astype(token.dtype)
    whole, real = totals(token)
    return token, (n + 1 + (whole & 1), jnp.tanh(s + real))


def interpret(jaxpr, *args):
    """Run a jaxpr equation by equation, without compiling it; tags pass their token on."""
    return Reference()(jaxpr, *args)


def collected(site, fired):
    """The bits of the leaves, last values and zeros, and how often the tag fired.

    The lengths of the scans around it are leading axes. ``fired`` is what `loops.Indexed` has seen.
    """
    around = enumerate(levels(site))
    scans = [(k, s.nested.trips) for k, s in around if s.is_loop and not s.is_while]
    lengths = [trips for _, trips in scans]
    count = np.zeros(lengths, np.int32)
    values = [
        np.zeros((*lengths, *never.shape), never.dtype)
        for never in map(zero_bits, jax.tree.leaves(site.avals))
    ]
    for index, token in fired.items():
        at = tuple(index[k] for k, _ in scans)
        count[at] += 1
        for value, leaf in zip(values, jax.tree.leaves(token), strict=True):
            value[at] = bits(leaf)
    return values, count


def zero_bits(aval):
    if is_key(aval):
        aval = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
    return bits(np.zeros(aval.shape, aval.dtype))


def bits(x):
    """As unsigned integers of the same shape; for keys of that of their data."""
    x = jax.random.key_data(x) if is_key(x) else x
    x = np.asarray(x)
    return x if x.dtype == bool else x.view(f"u{x.dtype.itemsize}")


def assert_same_bits(found, expected):
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(map(jnp.asarray, found), map(jnp.asarray, expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(bits(a), bits(b))
