"""Programs as people write them, faults that are planted into their lines, and sound changes.

A fault is a program, a piece of its text, what stands there instead, and where it is found if that
is another line.
"""

import inspect
import linecache
import textwrap

import jax
import jax.numpy as jnp
import numpy as np

_RNG = np.random.default_rng(0)


def some(*shape):
    return jnp.asarray(_RNG.uniform(-1.0, 1.0, shape), jnp.float32)


def attention(p, x, mask):
    q = x @ p["q"]
    k = x @ p["k"]
    v = x @ p["v"]
    scores = q @ k.T / jnp.sqrt(4.0)
    masked = jnp.where(mask, scores, -1e9)
    weights = jax.nn.softmax(masked, axis=-1)
    out = weights @ v
    return out


def normalised(x, g, b):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.var(x, axis=-1, keepdims=True)
    h = (x - mean) / jnp.sqrt(var + 1e-5)
    y = h * g + b
    return y


def recurrent(w, u, xs):
    def step(carry, x):
        h, c = carry
        z = jnp.tanh(w @ x + u @ h)
        c = 0.9 * c + 0.1 * z
        h = z * c
        return (h, c), h

    start = (jnp.zeros(4), jnp.ones(4))
    last, hs = jax.lax.scan(step, start, xs)
    mean = jnp.mean(hs, axis=0)
    return mean, last


def trained(p, m, v, x, y):
    def loss(p):
        z = x @ p["w"] + p["b"]
        n = (z - z.mean(0)) / jnp.sqrt(z.var(0) + 1e-5)
        a = jax.nn.gelu(n)
        s = jax.nn.softmax(a @ p["o"] + p["s"])
        error = s - y
        value = jnp.mean(error**2)
        return value

    value, g = jax.value_and_grad(loss)(p)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, v, g)
    u = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + 1e-8), m, v)
    p = jax.tree.map(lambda p, u: p - 0.01 * u, p, u)
    return p, m, v, value


def sampled(key, x):
    first, second = jax.random.split(key)
    keep = jax.random.bernoulli(first, 0.7, x.shape)
    h = jnp.where(keep, x / 0.7, 0.0)
    noise = jax.random.normal(second, x.shape)
    return h + 0.1 * noise


def classified(w, x, labels):
    logits = x @ w
    part = jax.nn.log_softmax(logits, axis=1)
    picked = jnp.take_along_axis(part, labels[:, None], axis=1)
    loss = -jnp.mean(picked)
    return loss


def returns(rewards, values):
    def step(later, now):
        reward, value = now
        later = reward + 0.95 * later
        advantage = later - value
        return later, advantage

    _, advantages = jax.lax.scan(step, 0.0, (rewards, values), reverse=True)
    spread = advantages.std() + 1e-6
    scaled = (advantages - advantages.mean()) / spread
    return scaled


def positions(x):
    at = jnp.arange(300.0)
    angle = at[:, None] * 0.7 ** jnp.arange(4.0)
    wave = jnp.sin(angle)
    return wave * x


def searched(x, limit):
    def halved(ends):
        low, high = ends
        middle = (low + high) / 2
        above = middle**3 > limit
        low = jnp.where(above, low, middle)
        high = jnp.where(above, middle, high)
        return low, high

    ends = jax.lax.fori_loop(0, 8, lambda k, ends: halved(ends), (0.0 * x, x))
    root = ends[0]
    return root


_P = {"w": some(3, 4), "b": some(4), "o": some(4, 3), "s": some(3)}
_ZEROS = jax.tree.map(jnp.zeros_like, _P)
_A = {name: some(4, 4) for name in "qkv"}

PROGRAMS = {
    attention: (_A, some(5, 4), jnp.tril(jnp.ones((5, 5), bool))),
    normalised: (some(6, 5), some(5), some(5)),
    recurrent: (some(4, 3), some(4, 4), some(7, 3)),
    trained: (_P, _ZEROS, _ZEROS, some(16, 3), jax.nn.softmax(some(16, 3))),
    sampled: (jax.random.key(1), some(9)),
    classified: (some(4, 3), some(6, 4), jnp.asarray([0, 2, 1, 1, 0, 2])),
    returns: (some(9), some(9)),
    positions: (some(4),),
    searched: (jnp.float32(3.3), jnp.float32(7.7)),
}

FAULTS = [
    (attention, 'p["k"]', 'p["k"].T'),
    (attention, 'p["v"]', 'p["q"]'),
    (attention, " / jnp.sqrt(4.0)", ""),
    (attention, "jnp.sqrt(4.0)", "jnp.sqrt(5.0)"),
    (attention, "mask, scores", "~mask, scores"),
    (attention, "mask, scores", "jnp.tril(mask, -1), scores"),
    (attention, "-1e9", "0.0"),
    (attention, "softmax(masked, axis=-1)", "softmax(masked, axis=0)"),
    (attention, "weights @ v", "weights.T @ v"),
    (normalised, "mean(x, axis=-1", "mean(x, axis=0"),
    (normalised, "var(x, axis=-1", "std(x, axis=-1"),
    (normalised, "var(x, axis=-1", "var(x, ddof=1, axis=-1"),
    (normalised, "x - mean", "x + mean"),
    (normalised, "jnp.sqrt(var + 1e-5)", "(jnp.sqrt(var) + 1e-5)"),
    (normalised, "1e-5", "1e-6"),
    (normalised, "1e-5", "1e-3"),
    (normalised, "h * g + b", "(h + b) * g"),
    (recurrent, "(h, c), h", "(c, h), h", "def step(carry"),
    (recurrent, "(h, c), h", "(h, c), c", "last, hs ="),
    (recurrent, "u @ h", "u.T @ h"),
    (recurrent, "0.9 * c", "0.91 * c"),
    (recurrent, "z * c", "jnp.where(z > 0.6, z, z * c)"),
    (recurrent, "jnp.ones(4)", "jnp.zeros(4)", "start = "),
    (recurrent, "start, xs)", "start, jnp.roll(xs, 1, axis=0))", "def step(carry"),
    (recurrent, "hs, axis=0", "hs[1:], axis=0"),
    (trained, ' + p["b"]', ""),
    (trained, "z - z.mean(0)", "z - jax.lax.stop_gradient(z.mean(0))", "value, g ="),
    (trained, "s - y", "jax.lax.stop_gradient(s) - y", "value, g ="),
    (trained, 'p["o"]', 'jax.lax.stop_gradient(p["o"])', "value, g ="),
    (trained, "z.var(0)", "z.var()"),
    (trained, "gelu(n)", "gelu(n, approximate=False)"),
    (trained, "jnp.mean(error**2)", "jnp.sum(error**2)"),
    (trained, "0.1 * g", "0.1 * -g"),
    (trained, "g**2", "abs(g)"),
    (trained, "jnp.sqrt(v) + 1e-8", "v + 1e-8"),
    (trained, "jnp.sqrt(v) + 1e-8", "jnp.sqrt(v + 1e-5)"),
    (trained, "p - 0.01", "p + 0.01"),
    (sampled, "normal(second", "normal(first"),
    (sampled, "bernoulli(first", "bernoulli(key"),
    (sampled, "x / 0.7", "x"),
    (sampled, "where(keep", "where(~keep"),
    (classified, "logits, axis=1", "logits, axis=0"),
    (classified, "labels[:, None]", "(labels[:, None] + 1) % 3"),
    (classified, "-jnp.mean", "jnp.mean"),
    (returns, "0.95 * later", "0.95 * (later + 0.001)"),
    (returns, "reverse=True", "reverse=False", "def step(later"),
    (returns, "+ 1e-6", "+ 1e-4"),
    (positions, "at[:, None]", "at[:, None].astype(jnp.bfloat16).astype(at.dtype)", "wave = "),
    (positions, "sin(angle)", "sin(angle.astype(jnp.int32).astype(angle.dtype))"),
    (positions, "jnp.arange(300.0)", "(jnp.arange(300.0) + 1)"),
    (searched, "middle**3 > limit", "middle**3 < limit"),
    (searched, "(low + high) / 2", "(low + high) / 2.1"),
    (searched, "fori_loop(0, 8", "fori_loop(1, 8"),
    (searched, "ends[0]", "ends[1]"),
]

SOUND = [
    (attention, " / jnp.sqrt(4.0)", " * 4.0**-0.5"),
    (attention, 'x @ p["q"]', "jnp.einsum('td,de->te', x, p[\"q\"])"),
    (attention, "softmax(masked, axis=-1)", "softmax(masked + 3.7, axis=-1)"),
    (normalised, "mean(x, axis=-1, keepdims=True)", "sum(x, axis=-1, keepdims=True) / 5"),
    (normalised, "jnp.var(x, axis=-1, keepdims=True)", "((x - mean) ** 2).mean(-1, keepdims=True)"),
    (normalised, "(x - mean) / jnp.sqrt(var + 1e-5)", "(x - mean) * jax.lax.rsqrt(var + 1e-5)"),
    (recurrent, "0.9 * c + 0.1 * z", "c + 0.1 * (z - c)"),
    (recurrent, "w @ x + u @ h", "jnp.concatenate([w, u], 1) @ jnp.concatenate([x, h])"),
    (trained, 'x @ p["w"]', '(p["w"].T @ x.T).T'),
    (trained, "z - z.mean(0)", "z - jnp.full(16, 1 / 16) @ z"),
    (trained, "z.var(0)", "(z * z).mean(0) - z.mean(0) ** 2 + 0 * z.var(0)"),
    (
        trained,
        'jax.nn.softmax(a @ p["o"] + p["s"])',
        'jnp.exp(jax.nn.log_softmax(a @ p["o"] + p["s"]))',
    ),
    (trained, "jnp.mean(error**2)", "jnp.sum(error * error) / error.size"),
    (
        classified,
        "jax.nn.log_softmax(logits, axis=1)",
        "logits - jax.nn.logsumexp(logits, 1, keepdims=True)",
    ),
    (returns, "advantages - advantages.mean()", "advantages - advantages.sum() / 9"),
]


def planted(fn, old, new):
    """The function with another piece of text in it, in a file of its own."""
    text = textwrap.dedent(inspect.getsource(fn))
    assert text.count(old) == 1, (fn, old)
    text, file = text.replace(old, new), f"<{fn.__name__}: {new}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names = dict(vars(inspect.getmodule(fn)))
    exec(compile(text, file, "exec"), names)
    return names[fn.__name__]


def line_of(fn, text):
    """The line of a function that has this text."""
    lines, first = inspect.getsourcelines(fn)
    [k] = [k for k, line in enumerate(lines) if text in line]
    return f"planted_faults.py:{first + k}"
