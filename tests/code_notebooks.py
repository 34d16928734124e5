"""Notebooks, in short, whose sessions hand out code: a table for the tests of that code."""

import dataclasses
import textwrap

START = """
import collections, dataclasses, enum, functools
import jax, jax.numpy as jnp, numpy as np, taxpr

def f(x, y=2.0):
    return taxpr.tag(jnp.sin(x), name="h") * y

x = jnp.arange(4.0)
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """A notebook: the cells before, the cell that makes and edits ``session``, and later ones.

    ``extra`` has Python, in that notebook, for what the code needs and no name says.
    """

    before: str
    session: str
    needs: str
    extra: dict = dataclasses.field(default_factory=dict)
    after: str = ""
    start: str = START
    reads: str = "out"


POINT = """
Point = collections.namedtuple("Point", "a b")
class Mode(enum.Enum):
    UP = 1
def g(p, mode=None):
    return p.a * p.b if mode is Mode.UP else p.a + p.b
"""
INJECTORS = """
def shrink(ctx, token, params, factor=0.5, times=1):
    return token * factor**times, ctx
def running(ctx, token, params):
    return token + ctx["p"].a, {**ctx, "n": ctx["n"] + 1}
def closed(by):
    def add(ctx, token, params):
        return token + by, ctx
    return add
@taxpr.injector(rate=taxpr.Param(0.5))
def fade(token, rate):
    return token * rate
"""
OWN_SCALE = """
@taxpr.injector(factor=taxpr.Param(2.0))
def scale(token, factor):
    return token + factor
"""
STATES = """
total = taxpr.State(jnp.float32(1), name="total")
pair = taxpr.State((jnp.zeros(2), jnp.ones(2)), name="pair")
def step(x, n=1, *more, k=1.0):
    x = taxpr.tag(x * k, name="h")
    for _ in range(n):
        total.value += x.sum()
    pair.value = (pair.value[0] + total.value, pair.value[1])
    return total.value + sum(more) + pair.value[0].sum()
"""
EDITED = """
session.set_state("total", 40.0)
session.set_state("pair", (jnp.ones(2), jnp.zeros(2)))
session.attach("h", "scale", factor=3.0)
"""

CASES = {
    "nothing": Case("", "panel(f)(x)", "f x"),
    "two arguments": Case("", "panel(f)(x, y=3.0)", "f x"),
    # Names that the code makes, too.
    "program": Case(
        "program = ctx = states = report = jnp.ones(4); out = 3.0",
        "panel(f)(program, out); session.attach('h', 'scale')",
        "f program",
    ),
    "all our names": Case(
        "program, out, ctx, injected, report = jnp.ones((5, 4))\n"
        "def g(*xs): return taxpr.tag(sum(xs), name='h')",
        "panel(g)(program, out, ctx, injected, report); session.attach('h', 'scale')",
        "g program out ctx injected report",
    ),
    "read by the function": Case(
        "out = program = 5.0\n@jax.jit\ndef g(x): return helper(x) * out\n"
        "def helper(x): return taxpr.tag(x, name='h') * program",
        "panel(g)(x); session.attach('h', 'scale')",
        "g x",
    ),
    "read by an injector": Case(
        "injected = 5.0\ndef more(ctx, token, params): return token * injected, ctx",
        "panel(f)(x); session.attach('h', 'more')",
        "f x more",
    ),
    "args": Case("args = kwargs = fn = 3.0", "panel(lambda x, y: x * y)(jnp.ones(3), y=fn)", "fn_2",
                 {"fn_2": "lambda x, y: x * y"}),
    "modules": Case(
        "import jax as j, numpy, taxpr as tx\n"
        "np, jax, taxpr, functools = jnp, {'x': jnp.ones(4)}, 1.0, 2.0\n"
        "def g(x, y): return tx.tag(x, name='h') * y",
        "panel(g)(jax['x'], taxpr); session.attach('h', tx.replace(j.random.key_data("
        "j.random.key(1)).astype('float32')[:1].repeat(4)))",
        "g",
    ),
    # Functions that are not those of their name.
    "local": Case(
        "def make():\n    def f(x): return taxpr.tag(x, name='h') * 3.0\n    return f",
        "panel(make())(x); session.attach('h', 'scale')",
        "fn x",
        {"fn": "make()"},
    ),
    "gradient": Case("", "panel(jax.grad(lambda x: f(x).sum()))(x)", "fn x",
                     {"fn": "jax.grad(lambda x: f(x).sum())"}),
    "jitted": Case("", "panel(jax.jit(f))(x)", "fn x", {"fn": "jax.jit(f)"}),
    "lambda": Case("", "panel(lambda x: x + 1.0)(x)", "fn x", {"fn": "lambda x: x + 1.0"}),
    "partial": Case("", "panel(functools.partial(f, y=3.0))(x)", "f x"),
    "method": Case(
        "class Model:\n    w = 3.0\n    def apply(self, x): return x * self.w\nmodel = Model()",
        "panel(model.apply)(x)",
        "model x",
    ),
    "imported": Case("", "panel(jnp.tanh)(x)", "x"),
    "imported by nobody": Case("", "panel(jax.nn.silu)(x)", "x"),
    "an expression": Case(
        "", "Session(lambda v: f(v), (x,), call='(lambda v: f(v))(x)', namespace=globals())", "f x"
    ),
    "changed since": Case(
        "", "panel(f)(x); session.attach('h', 'scale')", "f x",
        after="old = f, x\ndef f(x): return x\nx = jnp.ones(4)",
        extra={"f": "old[0]", "x": "old[1]"},
    ),
    # Arguments without a name.
    "scalars": Case("", "panel(f)(np.float32(2), np.asarray(3.0, 'float32'))", "f"),
    "small arrays": Case(
        "", "panel(lambda *xs: xs)(jnp.bfloat16(1.5), jnp.ones(2, 'bfloat16'), np.int8([1, -2]),"
        "jnp.asarray(0.5), np.float32([np.nan, -0.0, np.inf]), jnp.complex64(1 - 0j), True, 7,"
        "np.bool_(True), jnp.array([True]), jnp.ones(2, 'float8_e4m3fn'), jnp.ones((0, 3)))",
        "fn",
        {"fn": "lambda *xs: xs"},
    ),
    "keys": Case(
        "def g(*keys): return [jax.random.normal(key, (2,)) for key in keys]",
        "panel(g)(jax.random.key(3), jax.random.PRNGKey(4), jax.random.key(5, impl='rbg'),"
        "jax.random.split(jax.random.key(6))[0])",
        "g",
    ),
    "a named tuple": Case(POINT, "panel(g)(Point(jnp.ones(2), 2.0))", "Point g"),
    "an enum": Case(
        POINT, "panel(g, static_argnames='mode')(Point(x, 2.0), mode=Mode.UP)", "Point x Mode g"
    ),
    "other trees": Case(
        "def g(t): return t['b'] - t['a']",
        "panel(g)(collections.OrderedDict(b=jnp.ones(2), a=x[:2]))",
        "g args",
        {"args": "(collections.OrderedDict(b=jnp.ones(2), a=x[:2]),)"},
    ),
    "a dict": Case("", "panel(lambda d: d[1] + d[2][0])({1: jnp.ones(3), 2: [np.float32(2)]})",
                   "fn", {"fn": "lambda d: d[1] + d[2][0]"}),
    "a large one": Case("", "panel(f)(jnp.ones(100) / 3)", "f args",
                        {"args": "(jnp.ones(100) / 3,)"}),
    # Static ones.
    "static": Case(
        "def g(x, n, act, word, *, k): return act(x) * n * k if word == 'a' else x",
        "panel(g, static_argnums=1, static_argnames='k')(x, 3, lambda x: x * 2.0, 'a', k=2)",
        "g x args",
        {"args": "(x, 3, lambda x: x * 2.0)"},
    ),
    # Injectors.
    "a function": Case(
        INJECTORS, "panel(f)(x); session.attach('h', 'shrink', factor=0.25, times=2)",
        "f x shrink",
    ),
    "a closure": Case(INJECTORS, "panel(f)(x); session.attach('h', closed(2.0))", "f x add",
                      {"add": "closed(2.0)"}),
    "a local one": Case(
        INJECTORS + "def add(ctx, token, params): return token * 0.0, ctx",
        "panel(f)(x); session.attach('h', closed(2.0))", "f x add_2", {"add_2": "closed(2.0)"},
    ),
    "a lambda": Case("", "panel(f)(x); session.attach('h', lambda c, t, p: (t * 3.0, c))",
                     "f x injector", {"injector": "lambda c, t, p: (t * 3.0, c)"}),
    "an object": Case(
        "class Halve:\n    def __call__(self, ctx, token, params): return token / 2, ctx",
        "panel(f)(x); session.attach('h', Halve())", "f x injector", {"injector": "Halve()"},
    ),
    "a partial one": Case(
        INJECTORS, "panel(f)(x); session.attach('h', functools.partial(shrink, factor=0.125))",
        "f x shrink",
    ),
    "a ctx": Case(
        POINT + INJECTORS,
        "panel(f)(x); session.attach('h', running, ctx={'p': Point(jnp.float32(2), None), 'n': 0})",
        "f x running Point",
    ),
    "a kind": Case(INJECTORS, "panel(f)(x); session.attach('h', 'fade', rate=0.25)", "f x fade"),
    "made of a kind": Case(INJECTORS, "panel(f)(x); session.attach('h', fade(rate=0.25))",
                           "f x fade"),
    "named, changed": Case(INJECTORS + "mine = fade(rate=0.25)",
                           "panel(f)(x); session.attach('h', 'mine', rate=0.75)", "f x mine"),
    "another scale": Case(OWN_SCALE, "panel(f)(x); session.attach('h', scale(factor=3.0))",
                          "f x scale"),
    "another scale, nameless": Case(
        "def made():" + textwrap.indent(OWN_SCALE, "    ") + "    return scale(factor=3.0)",
        "panel(f)(x); session.attach('h', made())", "f x injector", {"injector": "made()"},
    ),
    "another scale, by its name": Case(OWN_SCALE, "panel(f)(x); session.attach('h', 'scale')",
                                       "f x scale"),
    "from a function": Case(
        INJECTORS, "panel(f)(x); session.attach('h', taxpr.from_function(shrink, factor=0.25))",
        "f x shrink",
    ),
    "replaced": Case(
        INJECTORS,
        "panel(f)(x); session.attach('h', dataclasses.replace(taxpr.scale(2.0), "
        "fire=fade(rate=0.5).fire, values={'rate': 4.0}))",
        "f x injector",
        {"injector": "dataclasses.replace(taxpr.scale(2.0), fire=fade(rate=0.5).fire, "
                     "values={'rate': 4.0})"},
    ),
    "per example": Case("", "panel(jax.vmap(f))(x); session.attach('h', taxpr.per_example("
                        "taxpr.scale(0.25)))", "fn x", {"fn": "jax.vmap(f)"}),
    "per iteration": Case(
        "", "panel(f)(x); session.attach('h', taxpr.stats(per='iteration'))", "f x", reads="report"
    ),
    "a large value": Case("", "panel(f)(jnp.ones(100)); session.attach('h', taxpr.replace("
                          "jnp.arange(100.0)))", "f args value",
                          {"args": "(jnp.ones(100),)", "value": "jnp.arange(100.0)"}),
    "a weak value": Case("x = jnp.ones(2, 'bfloat16')",
                         "panel(lambda x: taxpr.tag(x, name='h'))(x); session.attach('h', "
                         "taxpr.scale(jnp.asarray(0.5)))", "fn x",
                         {"fn": "lambda x: taxpr.tag(x, name='h')"}),
    "noise": Case("key = jax.random.key(1)", "panel(f)(x); session.attach('h', taxpr.noise(key, "
                  "stddev=0.5)); session.tag('in0', 'first', layer=(1, 'a')); "
                  "session.attach('first', 'noise', key=jax.random.PRNGKey(2))", "f x key"),
    # States.
    "states": Case(STATES, "panel(step)(x)" + EDITED, "step x", reads="out, states"),
    "states of a lambda": Case(
        STATES,
        "Session(lambda v: step(v), (x,), call='(lambda v: step(v))(x)', namespace=globals())",
        "step x", reads="out, states",
    ),
    "states under our names": Case(
        STATES + "states, pure, leaves, fn, args, kwargs = jnp.ones(4), 2, 3.0, step, 5.0, 6.0",
        "Session(fn, (states, pure, leaves, args), {'k': kwargs}, static_argnums=(1, 3), "
        "call='fn(states, pure, leaves, args, k=kwargs)', namespace=globals())" + EDITED,
        "fn states pure leaves args kwargs", reads="out",
    ),
    "states and statics": Case(
        STATES, "Session(step, (x, 2, 3.0), {'k': 3.0}, static_argnums=1, "
        "call='step(*[x, 2, 3.0], k=3.0)', namespace=globals())" + EDITED,
        "step x", reads="out, states",
    ),
}  # fmt: skip
