"""Programs in which a variable is edited, as text, with the place of the edit.

A line ``# EDIT x = f.x`` says that `taxpr.edit` is asked for ``f.x``, and that the source edited by
hand has the line ``x = change(x)`` there. A program that is edited elsewhere, as in a loop on one
line, has its edited text behind ``# BY HAND``.
"""

import importlib.util
import re
import sys
import textwrap
from typing import NamedTuple

HEAD = """\
import asyncio
import contextlib
import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

X = jnp.arange(6.0).reshape(2, 3) / 7 + 0.1
W = jnp.ones((3, 3)) * 0.3 + jnp.eye(3)
WS = jnp.stack([W, W * 0.5, -W])

"""
MARK = re.compile(r"^( *)# EDIT (\S+) = (\S+)$", re.M)


class Program(NamedTuple):
    """A program and its edit.

    Attributes:
        name: Its name.
        text: What is edited.
        source: The source, in which ``f`` is the function and ``args`` are its arguments.
        by_hand: The source with the edit.
    """

    name: str
    text: str
    source: str
    by_hand: str

    def __repr__(self) -> str:
        return self.name


def _programs():
    for one in SOURCES.split("\n#### ")[1:]:
        name, _, source = one.partition("\n")
        source, _, by_hand = source.partition("# BY HAND\n")
        [(_, _, text)] = MARK.findall(source)
        by_hand = by_hand or MARK.sub(r"\1\2 = change(\2)", source)
        assert by_hand != source
        yield Program(name.strip().replace(" ", "_"), text, source, by_hand)


def loaded(source, folder, name, change=None):
    """A module with a source, of a file as the user's are, with its function ``change``."""
    path = folder / f"{name}.py"
    path.write_text(HEAD + textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    module.change = change
    spec.loader.exec_module(module)
    return module


SOURCES = r"""
#### plain
def f(x):
    y = jnp.sin(x)
    # EDIT y = f.y
    z = y * 2
    return (z * y).sum()
args = (X,)

#### alone
def f(x):
    weights = jax.nn.softmax(x)
    # EDIT weights = weights
    return (weights * x).sum()
args = (X,)

#### parameter
def g(x):
    # EDIT x = g.x
    return jnp.tanh(x) * x
def f(x):
    return (g(x) * x).sum()
args = (X,)

#### keyword only parameter
def g(a, *, scale):
    # EDIT scale = g.scale
    return a * scale
def f(x):
    return g(x, scale=x + 1).sum()
args = (X,)

#### default parameter
def g(a, b=jnp.ones((2, 3))):
    # EDIT b = g.b
    return a * b
def f(x):
    return g(jnp.sin(x)).sum()
args = (X,)

#### starred parameters
def g(*xs):
    # EDIT xs = g.xs
    return sum(jnp.sin(x) for x in xs)
def f(x):
    return g(x, x * 2).sum()
args = (X,)

#### keywords
def g(**named):
    # EDIT named = g.named
    return named["a"] * named["b"]
def f(x):
    return g(a=x, b=jnp.cos(x)).sum()
args = (X,)

#### augmented assignment
def f(x):
    y = jnp.sin(x)
    for k in range(3):
        y *= x
        y += k
    y -= 1
    total = y
    # EDIT total = f.total
    total2 = total
    total2 += y
    return total2.sum()
args = (X,)

#### python loop
def f(x):
    for w in WS:
        h = jnp.tanh(x @ w)
        # EDIT h = f.h
        x = x + h
    return x.sum()
args = (X,)

#### loop target
def f(x):
    for w in WS:
        # EDIT w = f.w
        x = jnp.tanh(x @ w)
    return x.sum()
args = (X,)

#### loop targets in a tuple
def f(x):
    for k, (w, b) in enumerate(zip(WS, WS * 2)):
        # EDIT b = f.b
        x = jnp.tanh(x @ w + k) @ b
    return x.sum()
args = (X,)

#### loop on one line
def f(x):
    # EDIT x = f.y
    y = x
    for w in WS: y = jnp.tanh(y @ w)
    return y.sum()
args = (X,)
# BY HAND
def f(x):
    y = x
    y = change(y)
    for w in WS:
        y = jnp.tanh(y @ w)
        y = change(y)
    return y.sum()
args = (X,)

#### two statements on one line
def f(x):
    # EDIT x = f.y
    y = jnp.sin(x); z = jnp.cos(y)
    return (y * z).sum()
args = (X,)
# BY HAND
def f(x):
    y = jnp.sin(x)
    y = change(y)
    z = jnp.cos(y)
    return (y * z).sum()
args = (X,)

#### bound and read on one line
def f(x):
    # EDIT x = f.y
    y = jnp.sin(x); return (y * y).sum()  # with a comment
args = (X,)
# BY HAND
def f(x):
    y = jnp.sin(x)
    y = change(y)
    return (y * y).sum()
args = (X,)

#### bound and read on one line of an inner function
def f(x):
    def body(c, w):
        # EDIT x = body.y
        y = jnp.tanh(c @ w); return (y if y.ndim else c), y
    last, every = lax.scan(body, x, WS)
    for y in (1.0, 2.0): last = last * y
    return last.sum() + every.sum()
args = (X,)
# BY HAND
def f(x):
    def body(c, w):
        y = jnp.tanh(c @ w)
        y = change(y)
        return (y if y.ndim else c), y
    last, every = lax.scan(body, x, WS)
    for y in (1.0, 2.0): last = last * y
    return last.sum() + every.sum()
args = (X,)

#### bound and read on one line at the end of a loop
@jax.jit
def g(x):
    if x.ndim:
        # EDIT x = g.y
        for w in WS: y = jnp.tanh(x @ w); x = y
    else:
        x = (
            x
        )
    return x
def f(x):
    return g(x).sum() + g(x * 2).sum()
args = (X,)
# BY HAND
@jax.jit
def g(x):
    for w in WS:
        y = jnp.tanh(x @ w)
        y = change(y)
        x = y
    return x
def f(x):
    return g(x).sum() + g(x * 2).sum()
args = (X,)

#### while loop of python
def f(x):
    k = 0
    while k < 3:
        h = jnp.sin(x)
        # EDIT h = f.h
        x, k = x + h, k + 1
    return x.sum()
args = (X,)

#### loop with else
def f(x):
    for k in range(2):
        x = x * 2
    else:
        y = jnp.sin(x)
        # EDIT y = f.y
    return (x * y).sum()
args = (X,)

#### tuple targets
def f(x):
    a, b = jnp.sin(x), jnp.cos(x)
    # EDIT a = f.a
    return (a * b + a).sum()
args = (X,)

#### starred target
def f(x):
    first, *rest = jnp.sin(x), jnp.cos(x), x
    # EDIT rest = f.rest
    return (first + rest[0] * rest[1]).sum()
args = (X,)

#### chained assignment
def f(x):
    a = b = jnp.sin(x)
    # EDIT a = f.a
    return (a * 2 + b).sum()
args = (X,)

#### annotated assignment
def f(x):
    y: jax.Array = jnp.sin(x)
    # EDIT y = f.y
    return (y * y).sum()
args = (X,)

#### several lines
def f(x):
    y = jnp.dot(
        jnp.sin(x),
        W,
    )
    # EDIT y = f.y
    return (y * y).sum()
args = (X,)

#### branch of python
def f(x):
    if x.ndim == 2:
        y = jnp.sin(x)
        # EDIT y = f.y
    else:
        y = x
    return (y * 3).sum()
args = (X,)

#### walrus
def f(x):
    if (y := jnp.sin(x)).ndim == 2:
        # EDIT y = f.y
        return (y * 3).sum()
    return y
args = (X,)

#### early return
def g(x, deep):
    y = jnp.sin(x)
    # EDIT y = g.y
    if not deep:
        return y
    y2 = y * 2
    return y2
def f(x):
    return (g(x, False) + g(x, True)).sum()
args = (X,)

#### with block
@contextlib.contextmanager
def scope():
    yield X
def f(x):
    with scope() as s, jax.named_scope("b"):
        y = jnp.sin(x) * s
        # EDIT y = f.y
        z = y + 1
    return (z * y).sum()
args = (X,)

#### target of with
@contextlib.contextmanager
def scope(x):
    yield jnp.sin(x)
def f(x):
    with scope(x) as s:
        # EDIT s = f.s
        z = s + 1
    return (z * s).sum()
args = (X,)

#### try and finally
def f(x):
    try:
        y = jnp.sin(x)
        # EDIT y = f.y
        raise ValueError
    except ValueError:
        z = y * 2
    finally:
        x = x + 1
    return (z * x).sum()
args = (X,)

#### after an error
def f(x):
    try:
        y = jnp.sin(x)
        y = jnp.dot(y, y)
    except TypeError:
        y = jnp.cos(y)
        # EDIT y = f.y
    return y.sum()
args = (X,)
# BY HAND
def f(x):
    try:
        y = jnp.sin(x)
        y = change(y)
        y = jnp.dot(y, y)
    except TypeError:
        y = jnp.cos(y)
        y = change(y)
    return y.sum()
args = (X,)

#### generator
def layers(x):
    for w in WS:
        h = x @ w
        # EDIT h = layers.h
        yield jnp.tanh(h)
def f(x):
    return sum(y.sum() for y in layers(x))
args = (X,)

#### generator parameter
def layers(x):
    # EDIT x = layers.x
    for w in WS:
        x = x @ w
        yield x
def f(x):
    return sum(y.sum() for y in layers(x))
args = (X,)
# BY HAND
def layers(x):
    x = change(x)
    for w in WS:
        x = x @ w
        x = change(x)
        yield x
def f(x):
    return sum(y.sum() for y in layers(x))
args = (X,)

#### cell of a closure
def f(x):
    y = jnp.sin(x)
    # EDIT y = f.y
    def g(z):
        return z * y
    return g(x).sum() + g(y).sum()
args = (X,)

#### closed over parameter
def outer(x):
    # EDIT x = outer.x
    def g(z):
        return z * x
    return g(x)
def f(x):
    return outer(jnp.sin(x)).sum()
args = (X,)

#### nonlocal
def f(x):
    total = jnp.zeros(())
    # EDIT total = f.total
    def add(y):
        nonlocal total
        total = total + y.sum()
    add(x)
    add(x * 2)
    return total
args = (X,)
# BY HAND
def f(x):
    total = jnp.zeros(())
    total = change(total)
    def add(y):
        nonlocal total
        total = total + y.sum()
        total = change(total)
    add(x)
    add(x * 2)
    return total
args = (X,)

#### nested function
def f(x):
    def inner(z):
        h = jnp.sin(z)
        # EDIT h = f.inner.h
        return h * z
    return inner(x).sum() + inner(x * 2).sum()
args = (X,)

#### lambda
def f(x):
    return jax.tree.map(lambda leaf: jnp.sin(leaf) * leaf, {"a": x, "b": x + 1})["a"].sum()
# EDIT x = <lambda>.leaf
args = (X,)
# BY HAND
def f(x):
    def g(leaf):
        leaf = change(leaf)
        return jnp.sin(leaf) * leaf
    return jax.tree.map(g, {"a": x, "b": x + 1})["a"].sum()
args = (X,)

#### recursion
def g(x, n):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y if n == 0 else y + g(y, n - 1)
def f(x):
    return g(x, 3).sum()
args = (X,)

#### method
class Model:
    def __init__(self, w):
        self.w = w
    def __call__(self, x):
        h = x @ self.w
        # EDIT h = Model.__call__.h
        return jnp.tanh(h)
def f(w, x):
    return Model(w)(x).sum()
args = (W, X)

#### class and static method
class Model:
    @classmethod
    def make(cls, x):
        return cls.run(x)
    @staticmethod
    def run(x):
        y = jnp.sin(x)
        # EDIT y = run.y
        return y * y
def f(x):
    return Model.make(x).sum()
args = (X,)

#### property
@dataclasses.dataclass(frozen=True)
class Model:
    w: jax.Array
    @property
    def norm(self):
        n = jnp.sqrt((self.w ** 2).sum())
        # EDIT n = Model.norm.n
        return n
def f(w, x):
    return (x / Model(w).norm).sum()
args = (W, X)

#### decorated
def twice(g):
    @functools.wraps(g)
    def both(*args):
        return g(*args) + g(*args)
    return both
@twice
def g(x):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y * x
def f(x):
    return g(x).sum()
args = (X,)

#### partial
def g(w, x):
    y = jnp.sin(x @ w)
    # EDIT y = g.y
    return y * y
def f(x):
    return functools.partial(g, W)(x).sum()
args = (X,)

#### jitted inner function called before
@jax.jit
def g(x):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y * y
g(X)
def f(x):
    return (g(x) + g(x * 2)).sum()
args = (X,)

#### jitted with static argument
@functools.partial(jax.jit, static_argnames="n")
def g(x, n):
    for _ in range(n):
        x = jnp.sin(x)
        # EDIT x = g.x
    return x
def f(x):
    return g(x, n=2).sum()
args = (X,)
# BY HAND
@functools.partial(jax.jit, static_argnames="n")
def g(x, n):
    x = change(x)
    for _ in range(n):
        x = jnp.sin(x)
        x = change(x)
    return x
def f(x):
    return g(x, n=2).sum()
args = (X,)

#### checkpoint
@jax.checkpoint
def block(w, x):
    h = jnp.tanh(x @ w)
    # EDIT h = block.h
    return x + h
block(W, X)
def f(w, x):
    return block(w, block(w, x)).sum()
args = (W, X)

#### scan body
def body(h, w):
    new = jnp.tanh(h @ w)
    # EDIT new = body.new
    return new, new.sum()
def f(x):
    h, ys = lax.scan(body, x, WS)
    return h.sum() + ys.sum()
args = (X,)

#### scan that finds its types
def f(x):
    def body(c, w):
        c = c + (x @ w).sum()
        # EDIT c = body.c
        return c, c
    c, ys = lax.scan(body, 0, WS)
    return c + ys.sum()
args = (X,)
# BY HAND
def f(x):
    def body(c, w):
        c = change(c)
        c = c + (x @ w).sum()
        c = change(c)
        return c, c
    c, ys = lax.scan(body, 0, WS)
    return c + ys.sum()
args = (X,)

#### while body
def f(x):
    def cond(s):
        return s[0] < 3
    def body(s):
        k, h = s
        new = jnp.tanh(h @ W)
        # EDIT new = body.new
        return k + 1, new
    return lax.while_loop(cond, body, (0, x))[1].sum()
args = (X,)

#### while condition
def f(x):
    def cond(s):
        size = jnp.abs(s).sum()
        # EDIT size = cond.size
        return size > 0.5
    return lax.while_loop(cond, lambda s: s * 0.5, x).sum()
args = (X,)

#### fori loop
def f(x):
    def body(k, h):
        g = jnp.sin(h) * k
        # EDIT g = body.g
        return h + g
    return lax.fori_loop(0, 3, body, x).sum()
args = (X,)

#### cond branch
def f(x):
    def yes(x):
        y = jnp.sin(x)
        # EDIT y = yes.y
        return y * 2
    return lax.cond(x.sum() > 0, yes, lambda x: x, x).sum()
args = (X,)

#### switch branch
def f(x):
    def branch(k):
        def run(x):
            y = jnp.sin(x) * (k + 1)
            # EDIT y = run.y
            return y
        return run
    return lax.switch(1, [branch(0), branch(1), branch(2)], x).sum()
args = (X,)

#### map
def f(x):
    def row(r):
        s = jnp.sin(r)
        # EDIT s = row.s
        return s * r
    return lax.map(row, x).sum()
args = (X,)

#### associative scan
def f(x):
    def combine(a, b):
        c = a * b
        # EDIT c = combine.c
        return c
    return lax.associative_scan(combine, x).sum()
args = (X,)

#### vmap
def f(x):
    def row(r):
        s = jnp.sin(r)
        # EDIT s = row.s
        return (s * r).sum()
    return jax.vmap(row)(x).sum()
args = (X,)

#### vmap in grad in scan
def loss(w, x):
    def one(r):
        h = jnp.tanh(r @ w)
        # EDIT h = one.h
        return (h ** 2).sum()
    return jax.vmap(one)(x).mean()
def f(w, x):
    def step(w, _):
        value, g = jax.value_and_grad(loss)(w, x)
        return w - 0.1 * g, value
    w, values = lax.scan(step, w, None, length=3)
    return (w ** 2).sum() + values.sum()
args = (W, X)

#### train step
def attention(q, k, v):
    scores = q @ k.T
    weights = jax.nn.softmax(scores)
    # EDIT weights = attention.weights
    return weights @ v
def loss(p, x):
    def layer(h, w):
        return h + attention(h @ w, h, h), None
    h, _ = lax.scan(layer, x, p)
    return (h ** 2).mean()
def f(p, m, x):
    value, g = jax.value_and_grad(loss)(p, x)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
    return value + ((p - 0.1 * m) ** 2).sum()
args = (WS, WS * 0, X)

#### gradient in the update
def f(p, x):
    grads = jax.grad(lambda p: jnp.sin(x @ p).sum())(p)
    # EDIT grads = f.grads
    return ((p - 0.1 * grads) ** 2).sum()
args = (W, X)

#### custom jvp
@jax.custom_jvp
def g(x):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y * x
@g.defjvp
def g_jvp(primals, tangents):
    [x], [t] = primals, tangents
    return g(x), jnp.cos(x) * t
def f(x):
    return jax.value_and_grad(lambda x: g(x).sum())(x)[0]
args = (X,)

#### rule of custom jvp
@jax.custom_jvp
def g(x):
    return jnp.sin(x)
@g.defjvp
def g_jvp(primals, tangents):
    [x], [t] = primals, tangents
    slope = jnp.cos(x)
    # EDIT slope = g_jvp.slope
    return g(x), slope * t
def f(x):
    return jax.grad(lambda x: g(x).sum())(x).sum()
args = (X,)

#### fwd of custom vjp
@jax.custom_vjp
def g(x):
    return jnp.sin(x)
def fwd(x):
    y = jnp.sin(x)
    # EDIT y = fwd.y
    return y, x * y
def bwd(kept, ct):
    return (kept * ct,)
g.defvjp(fwd, bwd)
def f(x):
    value, grad = jax.value_and_grad(lambda x: g(x).sum())(x)
    return value + grad.sum()
args = (X,)

#### bwd of custom vjp
@jax.custom_vjp
def g(x):
    return jnp.sin(x)
def fwd(x):
    return jnp.sin(x), x
def bwd(x, ct):
    slope = jnp.cos(x)
    # EDIT slope = bwd.slope
    return (slope * ct,)
g.defvjp(fwd, bwd)
def f(x):
    value, grad = jax.value_and_grad(lambda x: g(x).sum())(x)
    return value + grad.sum()
args = (X,)

#### hessian
def energy(x):
    r = jnp.sqrt((x ** 2).sum())
    # EDIT r = energy.r
    return jnp.sin(r) * r
def f(x):
    return jax.hessian(energy)(x.ravel()).sum()
args = (X,)

#### jvp and jacobian
def g(x):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y * x
def f(x):
    _, t = jax.jvp(g, (x,), (x * 0 + 1,))
    return t.sum() + jax.jacfwd(g)(x).sum()
args = (X,)

#### leapfrog
def energy(q):
    u = (q ** 4).sum()
    # EDIT u = energy.u
    return u
def f(q, p):
    def step(s, _):
        q, p = s
        p = p - 0.05 * jax.grad(energy)(q)
        q = q + 0.1 * p
        return (q, p), energy(q)
    (q, p), us = lax.scan(step, (q, p), None, length=4)
    return q.sum() + p.sum() + us.sum()
args = (X, X * 0)

#### leaf of a dict
def loss(params, x):
    # EDIT x = loss.params['w']
    return (jnp.tanh(x @ params["w"]) + params["b"].sum()).sum()
def f(w, x):
    params = {"w": w, "b": w[0]}
    return loss(params, x) + params["w"].sum()
args = (W, X)
# BY HAND
def loss(params, x):
    params = {**params, "w": change(params["w"])}
    return (jnp.tanh(x @ params["w"]) + params["b"].sum()).sum()
def f(w, x):
    params = {"w": w, "b": w[0]}
    return loss(params, x) + params["w"].sum()
args = (W, X)

#### leaf of nested containers
def loss(params, x):
    # EDIT x = loss.params[1]['w']
    return (jnp.tanh(x @ params[0]["w"]) @ params[1]["w"]).sum()
def f(w, x):
    return loss([{"w": w}, {"w": w * 2}], x)
args = (W, X)
# BY HAND
def loss(params, x):
    params = [params[0], {"w": change(params[1]["w"])}]
    return (jnp.tanh(x @ params[0]["w"]) @ params[1]["w"]).sum()
def f(w, x):
    return loss([{"w": w}, {"w": w * 2}], x)
args = (W, X)

#### attribute of an object
@dataclasses.dataclass
class Model:
    w: jax.Array
    def __call__(self, x):
        # EDIT x = Model.__call__.self.w
        return jnp.tanh(x @ self.w).sum()
def f(w, x):
    model = Model(w)
    return model(x) + model.w.sum()
args = (W, X)
# BY HAND
@dataclasses.dataclass
class Model:
    w: jax.Array
    def __call__(self, x):
        self = Model(change(self.w))
        return jnp.tanh(x @ self.w).sum()
def f(w, x):
    model = Model(w)
    return model(x) + model.w.sum()
args = (W, X)

#### result of a function
def g(x):
    # EDIT x = g.return
    return jnp.sin(x) * x
def f(x):
    return (g(x) + x).sum()
args = (X,)
# BY HAND
def g(x):
    return change(jnp.sin(x) * x)
def f(x):
    return (g(x) + x).sum()
args = (X,)

#### result of a local function
def f(x):
    def g(x):
        # EDIT x = g.return
        return jnp.sin(x) * x
    return jax.grad(lambda x: (g(x) + x).sum())(x).sum()
args = (X,)
# BY HAND
def f(x):
    def g(x):
        return change(jnp.sin(x) * x)
    return jax.grad(lambda x: (g(x) + x).sum())(x).sum()
args = (X,)

#### result of a method
class Model:
    def __init__(self, w):
        self.w = w
    def __call__(self, x):
        # EDIT x = Model.__call__.return
        return jnp.tanh(x @ self.w)
def f(w, x):
    return Model(w)(x).sum()
args = (W, X)
# BY HAND
class Model:
    def __init__(self, w):
        self.w = w
    def __call__(self, x):
        return change(jnp.tanh(x @ self.w))
def f(w, x):
    return Model(w)(x).sum()
args = (W, X)

#### result of a jitted function
@jax.jit
def g(x):
    # EDIT x = g.return
    return jnp.sin(x) * x
g(X)
def f(x):
    return (g(x) + x).sum()
args = (X,)
# BY HAND
@jax.jit
def g(x):
    return change(jnp.sin(x) * x)
def f(x):
    return (g(x) + x).sum()
args = (X,)

#### match statement
def f(x):
    match (x, x + 1):
        case (a, b):
            # EDIT b = f.b
            y = a * b
    return y.sum()
args = (X,)

#### comprehension of the same name
def f(x):
    w = jnp.sin(x)
    # EDIT w = f.w
    ys = [jnp.tanh(w).sum() for w in WS]
    return (w * sum(ys)).sum()
args = (X,)

#### comprehension reads it
def f(x):
    w = jnp.sin(x)
    # EDIT w = f.w
    return sum([(w * k).sum() for k in range(3)])
args = (X,)

#### deleted and bound again
def f(x):
    y = jnp.sin(x)
    del y
    y = jnp.cos(x)
    return (y * x).sum()
# EDIT x = f.y
args = (X,)
# BY HAND
def f(x):
    y = jnp.sin(x)
    y = change(y)
    del y
    y = jnp.cos(x)
    y = change(y)
    return (y * x).sum()
args = (X,)

#### bound to itself
def dropout(x):
    return x
def f(x):
    h = jnp.sin(x)
    h = dropout(h)
    # EDIT x = f.h
    return (h * x).sum()
args = (X,)
# BY HAND
def dropout(x):
    return x
def f(x):
    h = jnp.sin(x)
    h = change(h)
    h = dropout(h)
    h = change(h)
    return (h * x).sum()
args = (X,)

#### element of a list that was put there before
def f(x):
    hs = []
    for w in WS:
        h = jnp.tanh(x @ w)
        hs.append(h)
        h2 = h
        # EDIT h2 = f.h2
        x = x + h2
    return x.sum() + sum(hs).sum()
args = (X,)

#### random key
def f(x):
    key = jax.random.key(0)
    for k in range(2):
        key, sub = jax.random.split(key)
        noise = jax.random.normal(sub, x.shape)
        # EDIT noise = f.noise
        x = x + noise
    return x.sum()
args = (X,)

#### integers and masks
def f(x):
    mask = x > 0.3
    index = jnp.argmax(x, axis=1)
    kept = jnp.where(mask, x, 0.0)
    # EDIT kept = f.kept
    return kept[jnp.arange(2), index].sum()
args = (X,)

#### updates at an index
def f(x):
    for k in range(3):
        x = x.at[:, k].multiply(2.0)
    # EDIT x = f.x
    return (x * x).sum()
args = (X,)
# BY HAND
def f(x):
    x = change(x)
    for k in range(3):
        x = x.at[:, k].multiply(2.0)
        x = change(x)
    return (x * x).sum()
args = (X,)

#### implicit solve
def f(x):
    def residual(z):
        r = z ** 3 - x.sum()
        # EDIT r = residual.r
        return r
    def newton(g, z):
        return lax.fori_loop(0, 5, lambda _, z: z - g(z) / jax.grad(g)(z), z)
    return lax.custom_root(residual, 1.5, newton, lambda g, y: y / g(1.0))
args = (X,)

#### class defined inside
def f(x):
    class Inner:
        def go(self, x):
            y = jnp.sin(x)
            # EDIT y = Inner.go.y
            return y * x
    return Inner().go(x).sum()
args = (X,)

#### stacked vmaps with axes
def f(x):
    def one(a, b):
        p = jnp.sin(a) * b
        # EDIT p = one.p
        return p
    return jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))(x, x.T[0]).sum()
args = (X,)

#### linearize
def g(x):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y * x
def f(x):
    y, lin = jax.linearize(g, x)
    return y.sum() + lin(x).sum()
args = (X,)

#### vjp
def g(x):
    y = jnp.sin(x)
    # EDIT y = g.y
    return y * x
def f(x):
    y, back = jax.vjp(g, x)
    return back(y)[0].sum()
args = (X,)

#### conditional expression
def f(x):
    y = jnp.sin(x) if x.ndim == 2 else x
    # EDIT y = f.y
    return (y if y.ndim else x).sum()
args = (X,)

#### shard map
from jax.sharding import PartitionSpec as P
MESH = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
def shard(x):
    y = jnp.sin(x)
    # EDIT y = shard.y
    return y * lax.psum(y, "i")
def f(x):
    return jax.shard_map(shard, mesh=MESH, in_specs=P("i"), out_specs=P("i"))(x).sum()
jax.jit(f)(X)
args = (X,)

#### coroutine
import asyncio
async def g(x):
    # EDIT x = g.x
    await asyncio.sleep(0)
    y = jnp.sin(x)
    await asyncio.sleep(0)
    return y * x
def f(x):
    return asyncio.run(g(x)).sum()
args = (X,)

#### asynchronous generator
import asyncio
async def g(x):
    for k in range(3):
        await asyncio.sleep(0)
        y = x * jnp.sin(x + k)
        # EDIT y = g.y
        yield y
async def total(x):
    return sum([y async for y in g(x)])
def f(x):
    return asyncio.run(total(x)).sum()
args = (X,)

#### walrus in a comprehension
def f(x):
    y = jnp.cos(x)
    # EDIT y = f.y
    ys = [y * k for k in range(3) if (y := jnp.sin(x) * k) is not None]
    return (sum(ys) * y).sum()
args = (X,)
# BY HAND
def f(x):
    y = jnp.cos(x)
    y = change(y)
    ys = [y * k for k in range(3) if (y := change(jnp.sin(x) * k)) is not None]
    return (sum(ys) * y).sum()
args = (X,)

#### generator that is suspended
def g(x):
    for k in range(4):
        y = x * jnp.sin(x + k)
        # EDIT y = g.y
        yield y
def f(x):
    one, other = g(x), g(x + 1)
    return (next(one) * next(other) + next(one) * next(other)).sum()
args = (X,)

#### switch over functions of one code
def f(x):
    def of(k):
        def branch(p):
            y = jnp.sin(p) * k
            # EDIT y = branch.y
            return y * p
        return branch
    return lax.switch(x.sum().astype(int), [of(k) for k in range(3)], x).sum()
args = (X,)

#### element of a named tuple
import typing
class State(typing.NamedTuple):
    a: object
    b: object
def f(x):
    s = State(jnp.sin(x), x)
    # EDIT s = f.s.a
    return (s.a * s.b).sum()
args = (X,)
# BY HAND
import typing
class State(typing.NamedTuple):
    a: object
    b: object
def f(x):
    s = State(jnp.sin(x), x)
    s = State(change(s.a), s.b)
    return (s.a * s.b).sum()
args = (X,)

#### attribute of a frozen dataclass with slots
@dataclasses.dataclass(slots=True, frozen=True)
class State:
    a: object
def f(x):
    s = State(jnp.sin(x))
    # EDIT s = f.s.a
    return (s.a * x).sum()
args = (X,)
# BY HAND
@dataclasses.dataclass(slots=True, frozen=True)
class State:
    a: object
def f(x):
    s = State(jnp.sin(x))
    s = State(change(s.a))
    return (s.a * x).sum()
args = (X,)

#### match class pattern
@dataclasses.dataclass
class P:
    a: object
    b: object
def f(x):
    p = P(jnp.sin(x), jnp.cos(x))
    match p:
        case P(a=h, b=other):
            # EDIT h = f.h
            return (h * other).sum()
        case _:
            return x.sum()
args = (X,)

#### match star and mapping
def f(x):
    match [x, jnp.sin(x), jnp.cos(x)]:
        case [first, *rest]:
            # EDIT rest = f.rest
            y = first * rest[0] + rest[1]
    match {"k": y, "m": x}:
        case {"k": h, **more}:
            return (h * more["m"]).sum()
args = (X,)

#### with several targets first one
@contextlib.contextmanager
def scope(x):
    yield jnp.sin(x)
def f(x):
    # EDIT a = f.a
    with scope(x) as a, scope(a) as h:
        y = a * h
    return (y * h).sum()
args = (X,)
# BY HAND
@contextlib.contextmanager
def scope(x):
    yield jnp.sin(x)
def f(x):
    with scope(x) as a:
        a = change(a)
        with scope(a) as h:
            y = a * h
    return (y * h).sum()
args = (X,)

#### with tuple target
@contextlib.contextmanager
def scope(x):
    yield jnp.sin(x), jnp.cos(x)
def f(x):
    with (scope(x) as (a, h), scope(x * 2) as [b, *c]):
        # EDIT c = f.c
        y = a * h * b * c[0]
    return (y * h).sum()
args = (X,)

#### cached property
class M:
    def __init__(self, x):
        self.x = x
    @functools.cached_property
    def hidden(self):
        h = jnp.sin(self.x)
        # EDIT h = M.hidden.h
        return h * 2
def f(x):
    m = M(x)
    return (m.hidden * m.hidden).sum()
args = (X,)

#### custom vjp with nondiff args
@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 2))
def g(fun, x, k):
    y = fun(x) * k
    return y
def fwd(fun, x, k):
    y = fun(x) * k
    # EDIT y = fwd.y
    return y, (x, y)
def bwd(fun, k, res, ct):
    x, y = res
    return (ct * y * k,)
g.defvjp(fwd, bwd)
def f(x):
    return jax.grad(lambda x: g(jnp.sin, x, 3).sum())(x).sum()
args = (X,)

#### custom gradient
@jax.custom_gradient
def g(x):
    h = jnp.sin(x)
    # EDIT h = g.h
    def back(ct):
        return ct * h
    return h * 2, back
def f(x):
    return jax.grad(lambda x: g(x).sum())(x).sum()
args = (X,)

#### custom vmap
@jax.custom_batching.custom_vmap
def g(x):
    return jnp.sin(x)
@g.def_vmap
def rule(size, batched, x):
    h = jnp.cos(x)
    # EDIT h = rule.h
    return h * 2, True
def f(x):
    return jax.vmap(g)(x).sum()
args = (X,)

#### vectorize
@functools.partial(jnp.vectorize, signature="(n),(n,m)->(m)")
def g(v, m):
    h = v @ m
    # EDIT h = g.h
    return jnp.tanh(h)
def f(x):
    return g(x, WS[:2]).sum()
args = (X,)

#### singledispatch
@functools.singledispatch
def g(x):
    return x
@g.register
def of_dict(d: dict):
    h = d["x"] * 2
    # EDIT h = of_dict.h
    return h
def f(x):
    return g({"x": x}).sum() + g(x).sum()
args = (X,)

#### property setter
class S:
    @property
    def a(self):
        return self._a
    @a.setter
    def a(self, v):
        w = v * 2
        # EDIT w = S.a.w
        self._a = w
def f(x):
    s = S()
    s.a = jnp.sin(x)
    s.a = s.a + x
    return s.a.sum()
args = (X,)

#### asynchronous functions that run in turns
async def g(x):
    await asyncio.sleep(0)
    h = jnp.sin(x)
    # EDIT h = g.h
    await asyncio.sleep(0)
    return h * 2
async def both(x):
    return await asyncio.gather(g(x), g(x * 2))
def f(x):
    a, b = asyncio.run(both(x))
    return (a * b).sum()
args = (X,)

#### generator with send and yield from
def inner(x):
    while True:
        h = yield x
        # EDIT h = inner.h
        if h is None:
            return x * 3
        x = x * h
def outer(x):
    last = yield from inner(x)
    yield last
def f(x):
    g = outer(x)
    next(g)
    a = g.send(jnp.sin(x))
    b = g.send(jnp.cos(x))
    return (a + b).sum()
args = (X,)

#### walrus in a call
def g(a, b):
    return a * b
def f(x):
    # EDIT h = f.h
    return g(h := jnp.sin(x), h * 2).sum()
args = (X,)
# BY HAND
def g(a, b):
    return a * b
def f(x):
    h = jnp.sin(x)
    old = h
    h = change(h)
    return g(old, h * 2).sum()
args = (X,)

#### scan in vmap in grad with unroll
def f(x):
    def one(row):
        def body(carry, w):
            a, b = carry
            h = jnp.tanh(a * w.sum())
            # EDIT h = f.one.body.h
            return (h, b + h), h
        (a, b), hs = lax.scan(body, (row, jnp.zeros_like(row)), WS, unroll=2, reverse=True)
        return (a * b).sum() + hs.sum()
    return jax.vmap(jax.grad(one))(x).sum()
args = (X,)

#### custom root
def f(x):
    def solve(a):
        def residual(y):
            r = y ** 3 + y - a
            # EDIT r = f.solve.residual.r
            return r
        def newton(fun, y0):
            return lax.fori_loop(0, 20, lambda _, y: y - fun(y) / jax.grad(fun)(y), y0)
        def tangent(g, y):
            return y / g(jnp.ones_like(y))
        return lax.custom_root(residual, a, newton, tangent)
    return jax.vmap(jax.grad(solve))(x.ravel()).sum()
args = (X,)

#### two functions of one name in a loop
def make(k):
    def layer(x):
        h = jnp.sin(x) * k
        # EDIT h = make.layer.h
        return h
    return layer
LAYERS = [jax.jit(make(k)) for k in (1.0, 2.0)]
def f(x):
    for layer in LAYERS:
        x = layer(x)
    return x.sum()
f(X)
args = (X,)

#### late binding closures
def f(x):
    funs = []
    for k in range(3):
        h = x * (k + 1)
        # EDIT h = f.h
        funs.append(lambda: h.sum())
    return sum(one() for one in funs)
args = (X,)

#### parameter of a lambda
def f(x):
    g = lambda y, k=2.0: jnp.sin(y) * k
    # EDIT y = y
    return g(x).sum()
args = (X,)
# BY HAND
def f(x):
    g = lambda y, k=2.0: jnp.sin(change(y)) * k
    return g(x).sum()
args = (X,)

#### result of a recursive function
def g(x, n):
    if n == 0:
        return x
    return jnp.sin(g(x, n - 1))
def f(x):
    # EDIT result = g.return
    return g(x, 3).sum()
args = (X,)
# BY HAND
def g(x, n):
    if n == 0:
        return change(x)
    return change(jnp.sin(g(x, n - 1)))
def f(x):
    return g(x, 3).sum()
args = (X,)
"""

PROGRAMS = list(_programs())
