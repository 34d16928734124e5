"""Sound programs, as people write them: `taxpr.check` finds nothing in them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

PROGRAMS = {}
KEY = jax.random.key(0)


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def program(*args):
    def add(fn):
        PROGRAMS[fn.__name__] = fn, args
        return fn

    return add


@program(
    shape(8, 16, 32, dtype=jnp.bfloat16),
    {"q": shape(32, 32), "k": shape(32, 32), "v": shape(32, 32), "s": shape(32)},
)
def attention(x, p):
    p = jax.tree.map(lambda w: w.astype(jnp.bfloat16), p)
    m = jnp.mean(x, -1, keepdims=True)
    v = jnp.var(x, -1, keepdims=True)
    h = (x - m) * jax.lax.rsqrt(v + 1e-5) * p["s"]
    q, kk, v = h @ p["q"], h @ p["k"], h @ p["v"]
    logits = jnp.einsum("bqd,bkd->bqk", q, kk, preferred_element_type=jnp.float32) / np.float32(
        np.sqrt(32)
    )
    mask = jnp.tril(jnp.ones((16, 16), bool))
    logits = jnp.where(mask, logits, -jnp.inf)
    a = jax.nn.softmax(logits, axis=-1).astype(jnp.bfloat16)
    return x + a @ v


@program(shape(32, 8), shape(4, 8), shape(4, dtype=jnp.int32))
def train(w, x, y):
    def loss(w):
        part = jax.nn.log_softmax(x @ w.T)
        return -jnp.mean(jnp.take_along_axis(part, y[:, None], 1))

    val, g = jax.value_and_grad(loss)(w)
    norm = jnp.sqrt(jnp.sum(g**2))
    g = g * jnp.minimum(1.0, 1.0 / (norm + 1e-6))
    return w - 0.1 * g, val


@program(shape(8), shape(8))
def hvp(x, v):
    f = lambda x: jnp.sum(jnp.sin(x) ** 2) + jnp.prod(x)
    return jax.jvp(jax.grad(f), (x,), (v,))[1]


@program(shape(5, 4), shape(4, 16), shape(4, 16), shape(16))
def lstm(xs, w, u, b):
    def step(c, x):
        h, cc = c
        z = x @ w[:, :16] + b
        i, f, o, g = jnp.split(z, 4)
        cc = jax.nn.sigmoid(f) * cc + jax.nn.sigmoid(i) * jnp.tanh(g) + (h @ u)[:4]
        h = jax.nn.sigmoid(o) * jnp.tanh(cc)
        return (h, cc), h

    return jax.lax.scan(step, (jnp.zeros(4), jnp.zeros(4)), xs)


@program(shape(7))
def double_where(x):
    safe = jnp.where(x > 0, x, 1.0)
    y = jnp.where(x > 0, jnp.sqrt(safe), 0.0)
    z = jnp.where(x != 0, 1 / jnp.where(x == 0, 1.0, x), 0)
    n = jnp.sqrt(jnp.maximum(jnp.sum(x**2), 1e-12))
    u = jnp.where(n > 1, x / n, x)
    return y + z, u


@program(shape(3), KEY)
def dropout(x, key):
    key, sub = jax.random.split(key)
    keep = jax.random.bernoulli(sub, 0.5, x.shape)
    key, sub = jax.random.split(key)
    y = jnp.where(keep, x / 0.5, 0)
    return y + jax.random.normal(sub, x.shape)


@program(shape(3), 0.1)
def newton(x, lr):
    def cond(s):
        return jnp.linalg.norm(s[1]) > 1e-3

    def body(s):
        x, _ = s
        g = jax.grad(lambda x: jnp.sum((x - 2) ** 4))(x)
        H = jax.hessian(lambda x: jnp.sum((x - 2) ** 4))(x)
        return x - lr * jnp.linalg.solve(H + 1e-3 * jnp.eye(3), g), g

    return jax.lax.while_loop(cond, body, (x, jnp.ones(3)))


@program([shape(4, 8), shape(8, 8), shape(8, 1)], shape(2, 4))
def mlp(ws, x):
    for w in ws[:-1]:
        x = jax.nn.relu(x @ w)
    return x @ ws[-1]


@program([{"w": shape(8, 8), "b": shape(8)} for _ in range(4)], shape(2, 8))
def resnet(layers, x):
    for part in layers:
        x = x + jax.nn.gelu(x @ part["w"] + part["b"])
    return jnp.mean(x)


@program(
    {"params": {"w": shape(8, 8)}, "opt": {"m": shape(8, 8)}, "step": shape(dtype=jnp.int32)},
    {"image": shape(2, 8), "label": shape(2, dtype=jnp.int32)},
)
def predict(state, batch):
    return batch["image"] @ state["params"]["w"]


@program({"a": shape(3)}, {"a": shape(3)})
@functools.partial(jax.jit, donate_argnums=0)
def donating(state, g):
    return jax.tree.map(lambda a, b: a - 0.1 * b, state, g)


@program(shape(16))
def fft(x):
    X = jnp.fft.rfft(x)
    p = jnp.abs(X) ** 2
    return jnp.fft.irfft(X / (1 + p)), p


@program(shape(4, 4), shape(4))
def gp(K, y):
    L = jnp.linalg.cholesky(K + 1e-4 * jnp.eye(4))
    a = jax.scipy.linalg.cho_solve((L, True), y)
    return -0.5 * y @ a - jnp.sum(jnp.log(jnp.diag(L)))


@program(shape(4))
def debugged(x):
    def step(c, i):
        jax.lax.cond(i % 10 == 0, lambda: jax.debug.print("{}", c.sum()), lambda: None)
        return c * 0.9, None

    return jax.lax.scan(step, x, jnp.arange(20))[0]


@program(shape(4, 4))
def remat(x):
    @jax.checkpoint
    def block(x):
        return jnp.tanh(x @ x) @ x

    return jax.grad(lambda x: block(block(x)).sum())(x)


@program(shape(3, dtype=jnp.bfloat16), shape(3))
def master(x, w):
    y = x.astype(jnp.float32) * w
    z = x * w.astype(jnp.bfloat16)
    part = jnp.sum(z, dtype=jnp.float32)
    return y, z, part, jnp.float32(x).sum() + w


@program(shape(3, dtype=jnp.bfloat16))
def scalars(x):
    return (
        x * 2.0 + 1,
        x / jnp.pi,
        jnp.maximum(x, 0.0),
        x**2,
        jnp.clip(x, -1, 1),
        jnp.linalg.norm(x),
        jnp.where(x > 0, x, 0.0),
        jax.nn.gelu(x),
        jax.nn.softmax(x),
        jnp.std(x),
    )


@program(shape(3), shape(3, dtype=jnp.int32))
def ints(x, n):
    return x * n, x * jnp.arange(3), x[n], jnp.where(n > 0, x, 0.0), n / 3


@program(shape(6, 3), shape(6, 3))
def contrastive(a, b):
    a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
    b = b / jnp.linalg.norm(b, axis=-1, keepdims=True)
    part = a @ b.T
    return jnp.mean(jax.nn.logsumexp(part, 1) - jnp.diag(part)) + jnp.mean(
        jax.nn.logsumexp(part, 0) - jnp.diag(part)
    )


@program(shape(3))
def rk4(y):
    f = lambda y: jnp.sin(y) - y

    def step(y, _):
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        k3 = f(y + 0.05 * k2)
        k4 = f(y + 0.1 * k3)
        return y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

    return jax.lax.scan(step, y, None, length=10)


@program(shape(3), shape(3))
def huber(a, b):
    e = jnp.abs(a - b)
    return jnp.mean(jnp.where(e < 1, 0.5 * e**2, e - 0.5)), jnp.where(
        a > b, jnp.log1p(jnp.exp(b)), 0.0
    )


@program(shape(4, 3), shape(3))
def per_example(x, w):
    loss = lambda w, x: jnp.tanh(x @ w)
    return jax.vmap(jax.grad(loss), (None, 0))(w, x), jax.jacrev(lambda w: jnp.sin(w * x[0]))(w)


@program(shape(5))
def elu(x):
    return jnp.where(x > 0, x, jnp.expm1(x)), jnp.where(x > 1, jnp.sqrt(x + 3), x)


@program(shape(5), 3)
def ema(x, n):
    total = 0.0
    for i in range(3):
        total = total + x[i] * 0.5**i
    return total / n


def _value(aval, number):
    """A value of a type: small positive numbers, and so matrices that are no problem."""
    if jnp.issubdtype(aval.dtype, jnp.integer) or aval.dtype == bool:
        return jnp.ones(aval.shape, aval.dtype)
    if not jnp.issubdtype(aval.dtype, jnp.inexact):
        return jax.random.split(jax.random.key(0), aval.shape) if aval.shape else jax.random.key(0)
    x = np.random.default_rng(number).uniform(0.1, 0.9, aval.shape)
    square = len(aval.shape) == 2 and aval.shape[0] == aval.shape[1]
    return jnp.asarray(x + x.T + 4 * np.eye(len(x)) if square else x, aval.dtype)


def concrete(name):
    """A program with values as its arguments."""
    fn, types = PROGRAMS[name]
    numbers = iter(range(99))

    def given(one):
        return _value(one, next(numbers)) if isinstance(one, jax.ShapeDtypeStruct) else one

    return fn, jax.tree.map(given, types)
