"""The code of a session: run by itself it gives the same, bit by bit."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jupyter_samples import XS, H, W, nested

import taxpr
from taxpr_jupyter import Session, panel
from taxpr_jupyter._code.code_names import described
from taxpr_jupyter._tracing.call_names import call_text


def double(ctx, token, params):
    return token * 2.0, ctx


def counting(ctx, token, params):
    return token + ctx, ctx + 1.0


@taxpr.injector(rate=taxpr.Param(0.5))
def fade(token, rate):
    return token * rate


def executed(session, namespace):
    """What the code of a session leaves behind."""
    names = dict(namespace)
    exec(compile(session.code(), "<code>", "exec"), names)
    return names


def same(session, namespace):
    run = session.run()
    assert run.ok, run.error
    assert run.code == session.code()
    names = executed(session, namespace)
    expected, found = jax.tree.leaves(run.outputs), jax.tree.leaves(names["out"])
    for one, other in zip(expected, found, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    return names


NAMESPACE = {"f": nested, "w": W, "xs": XS}


def test_nothing_added():
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=NAMESPACE)
    same(session, NAMESPACE)
    assert session.code() == (
        "import jax\n"
        "import taxpr\n"
        "from jupyter_samples import nested as f\n"
        "\n"
        "# Define these names first, as the notebook has them:\n"
        "#   w: f32[2]\n"
        "#   xs: f32[3,2]\n"
        "\n"
        "program = taxpr.trace(f)(w, xs)\n"
        "out = jax.jit(program)(w, xs)\n"
    )


def test_tags_and_values():
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=NAMESPACE)
    session.tag("0:scan/body/0:add", "sum", layer=2)
    session.attach("sum", "clip", low=-0.5)
    session.attach("h", "scale", factor=0.3)
    session.attach("v", "count")
    session.set_value("h", "factor", 0.7)
    names = same(session, NAMESPACE)
    assert session.code() == (
        "import jax\n"
        "import taxpr\n"
        "from jupyter_samples import nested as f\n"
        "\n"
        "# Define these names first, as the notebook has them:\n"
        "#   w: f32[2]\n"
        "#   xs: f32[3,2]\n"
        "\n"
        "program = taxpr.trace(f)(w, xs)\n"
        "program = program.tag_at('0:scan/body/0:add.0', name='sum', layer=2)\n"
        "injected = program.inject({\n"
        "    'sum': taxpr.clip(low=-0.5),\n"
        "    'h': taxpr.scale(factor=0.7),\n"
        "    'v': taxpr.count(),\n"
        "})\n"
        "out, ctx = jax.jit(injected)(injected.ctx, w, xs)\n"
        "report = injected.report(ctx)\n"
    )
    (counted,) = names["report"]["v"].values()
    assert int(counted["count"]) == int(session.last.outputs["i"])


@pytest.mark.spread(8)
@pytest.mark.parametrize(
    ("injector", "values", "names"),
    [
        ("double", {}, {"double": double}),
        (double, {}, {"double": double}),
        (counting, {"ctx": jnp.float32(0.5)}, {"counting": counting}),
        (counting, {"ctx": np.float32(0.25)}, {"counting": counting}),
        ("fade", {"rate": 0.25}, {"fade": fade}),
        (fade, {"rate": 0.25}, {"fade": fade}),
        (taxpr.add(value=2.0), {}, {}),
        (taxpr.replace(jnp.array([1.0, 2.0])), {}, {}),
        (taxpr.replace(jnp.array([1.0, np.inf])), {}, {}),
        ("mine", {}, {"mine": taxpr.scale(0.125)}),
        ("mine", {"factor": 4.0}, {"mine": taxpr.scale(0.125)}),
        ("mine", {"rate": 0.75}, {"mine": fade(rate=0.25)}),
        (taxpr.record(slots=2), {}, {}),
        ("clip", {"low": -np.inf, "high": 0.25}, {}),
    ],
)
def test_every_kind_of_injector(injector, values, names):
    namespace = {**NAMESPACE, **names}
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=namespace)
    attached = session.attach("h", injector, **values)
    assert attached.error is None, attached.error
    same(session, namespace)


KEYS = [
    (jax.random.key(7), "jax.random.key(7)"),
    (jax.random.key(2**32 - 1), "jax.random.key(4294967295)"),
    (jax.random.key(3, impl="rbg"), "jax.random.key(3, impl='rbg')"),
    (
        jax.random.fold_in(jax.random.key(0), 1),
        "jax.random.wrap_key_data(np.array([928981903, 3453687069], dtype='uint32'), "
        "impl='threefry2x32')",
    ),
    (jax.random.PRNGKey(5), "np.array([0, 5], dtype='uint32')"),
]


@pytest.mark.spread(6)
@pytest.mark.parametrize(("key", "text"), KEYS, ids=[text for _, text in KEYS])
def test_keys_are_written(key, text):
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=NAMESPACE)
    session.attach("h", taxpr.noise(key, stddev=0.25))
    assert f"'h': taxpr.noise(key={text}, stddev=0.25)," in session.code()
    same(session, NAMESPACE)


@pytest.mark.spread(6)
@pytest.mark.parametrize("namespace", [{}, {"jnp": jnp}], ids=["none", "jnp"])
@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (jnp.float16, "jnp.float16"),
        (np.float16, "jnp.float16"),
        (np.dtype("float16"), "jnp.float16"),
        (jnp.dtype(jnp.float8_e4m3fn), "jnp.float8_e4m3fn"),
        ("float16", "'float16'"),
        (int, "int"),
    ],
    ids=str,
)
def test_dtypes_are_written(dtype, text, namespace):
    namespace = {**NAMESPACE, **namespace}
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=namespace)
    session.attach("h", taxpr.cast(dtype))
    text = text if "jnp" in namespace else text.replace("jnp.", "jax.numpy.")
    assert f"'h': taxpr.cast(dtype={text})," in session.code()
    same(session, namespace)


def test_a_key_and_a_dtype_in_a_ctx_are_written():
    def draws(ctx, token, params):
        return token + jax.random.normal(ctx["key"], token.shape), ctx

    namespace = {**NAMESPACE, "draws": draws}
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=namespace)
    session.attach("h", draws, ctx={"key": jax.random.key(1), "rest": jax.random.split(KEYS[0][0])})
    assert "'key': jax.random.key(1), 'rest': jax.random.wrap_key_data(" in session.code()
    same(session, namespace)


def notebook():
    """The names of a notebook, with a function defined in it."""
    names = {}
    exec(
        """
import functools
import jax
import jax.numpy as jnp
import numpy as np
import jax.random as jr
import taxpr
from functools import partial
from jax import grad, random
from jax.nn import relu as rectified

def f(x, y, *, act=rectified):
    return (taxpr.tag(act(x), name="h") * y).sum()
""",
        names,
    )
    names["f"].__module__ = "__main__"
    return names


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("f(jnp.ones(3), 2.0)", ["import jax", "import jax.numpy as jnp", "import taxpr"]),
        (
            "grad(f)(jr.normal(random.key(0), (3,)), jnp.float32(2.0))",
            [
                "import jax",
                "import jax.numpy as jnp",
                "import jax.random as jr",
                "import jax.random as random",
                "import taxpr",
                "from jax import grad",
            ],
        ),
        (
            "partial(f, act=rectified)(np.ones(3, 'float32'), 2.0)",
            [
                "import jax",
                "import numpy as np",
                "import taxpr",
                "from functools import partial",
                "from jax.nn import relu as rectified",
            ],
        ),
        ("f(*[jnp.ones(k) for k in (3,)], 2.0)", None),
        ("(lambda jnp: f(jnp, 2.0))(np.ones(3, 'float32'))", None),
    ],
)
@pytest.mark.filterwarnings("ignore::taxpr.StaleDerivativeWarning")
def test_the_code_imports_what_it_names(call, lines):
    """It runs where nothing is but the function that the notebook defines."""
    import ast

    names = notebook()
    node = ast.parse(call, mode="eval").body
    words = ast.unparse(ast.Call(ast.Name("dict"), [], node.keywords))
    args = eval(f"[{', '.join(ast.unparse(arg) for arg in node.args)}]", names)
    fn = eval(ast.unparse(node.func), names)
    session = Session(fn, args, eval(words, names), call=call, namespace=names)
    session.attach("h", taxpr.cast(jnp.float16) if lines is None else "scale")
    if lines is not None:
        assert session.code().partition("\n\n")[0].splitlines() == lines
    same(session, {"f": names["f"]})


def test_dtypes_and_values_of_injectors_are_imported():
    names = notebook()
    session = Session(names["f"], (jnp.ones(3), 2.0), call="f(jnp.ones(3), 2.0)", namespace=names)
    session.attach("h", taxpr.cast(jnp.float16))
    session.attach("in0", taxpr.replace(jnp.array([1.0, 2.0, 3.0])))
    assert "taxpr.cast(dtype=jnp.float16)" in session.code()
    assert "import numpy as np\n" in session.code()
    same(session, {"f": names["f"]})


def test_the_users_np_is_the_users():
    names = {"np": jnp, "f": lambda x: x.at[0].set(2.0)}
    session = Session(names["f"], (jnp.ones(3),), call="f(np.ones(3))", namespace=names)
    session.attach("in0", taxpr.replace(jnp.array([1.0, 2.0, 3.0])))
    assert "import jax.numpy as np\n" in session.code()
    assert "\nimport numpy\n" in session.code()
    assert "numpy.array([1.0, 2.0, 3.0], dtype='float32')" in session.code()
    same(session, {"f": names["f"]})


def test_names_that_are_no_selectors():
    def f(x):
        x = taxpr.tag(x, name="a*")
        x = taxpr.tag(x * 2.0, name="twice")
        x = taxpr.tag(x * 3.0, name="twice")
        x = taxpr.tag(x + 1.0)
        return taxpr.tag(x * 5.0, **{"name": "last", "not an identifier": 1})

    namespace = {"f": f, "x": 1.5}
    session = Session(f, (1.5,), call="f(x)", namespace=namespace)
    for site in session.sites():
        session.attach(site.address, "scale", factor=1.5)
    same(session, namespace)


@pytest.mark.parametrize("name", ["t0", "t1", "t2", "in0", "in1", "a[0]", "*", "None"])
def test_names_that_are_addresses_or_globs(name):
    def f(x):
        y = taxpr.tag(x * 2.0)
        return taxpr.tag(taxpr.tag(y * 3.0, name=name) + 1.0)

    namespace = {"f": f, "x": 1.5}
    session = Session(f, (1.5,), call="f(x)", namespace=namespace)
    for row, factor in zip(session.sites(), (1.5, 2.5, 3.5), strict=True):
        session.attach(row.key, "scale", factor=factor)
    names = same(session, namespace)
    assert float(names["out"]) == ((1.5 * 2 * 1.5) * 3 * 2.5 + 1) * 3.5


def test_params_of_added_tags():
    namespace = {"f": jnp.sin, "x": 1.5}
    session = Session(jnp.sin, (1.5,), call="f(x)", namespace=namespace)
    params = {"not an identifier": (1, "a"), "flag": True, "none": None, "number": float("inf")}
    session.tag("in0", "x", **params)
    names = same(session, namespace)
    assert names["program"].tags()[0].params == {"name": "x", **params}


def g(x, n, *rest, mode="plain", act=None, k=1.0):
    for _ in range(n):
        x = act(x) if mode == "act" else x
    return taxpr.tag(x, name="x") * k + sum(rest)


@pytest.mark.parametrize(
    ("call", "static"),
    [
        ("g(x, 3, mode='act', act=jnp.tanh)", {"static_argnums": 1}),
        ("g(x, n=3, mode='act', act=jnp.tanh, k=2.0)", {"static_argnames": "n"}),
        ("g(x, 2, x, x, k=x)", {"static_argnums": 1}),
        ("g(*[x, 2, x])", {"static_argnums": 1}),
        ("g(*[x, 2], **{'k': 2.0})", {"static_argnames": "n"}),
        ("jax.grad(lambda v: g(v, 2).sum())(x)", {}),
        ("jax.jit(g, static_argnums=1)(x, 2)", {"static_argnums": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore::taxpr.StaleDerivativeWarning")
def test_static_and_starred_arguments(call, static):
    import ast

    namespace = {"g": g, "x": jnp.arange(3.0), "jnp": jnp, "jax": jax}
    node = ast.parse(call, mode="eval").body
    fn = eval(ast.unparse(node.func), namespace)
    inner = ast.unparse(ast.Call(ast.Name("dict_of"), node.args, node.keywords))
    args, kwargs = eval(inner, {**namespace, "dict_of": lambda *args, **kwargs: (args, kwargs)})
    session = Session(fn, args, kwargs, call=call, namespace=namespace, **static)
    session.attach(session.sites()[0].address, "scale", factor=0.5)
    same(session, namespace)


def test_what_has_no_name_is_said():
    session = Session(lambda x, y: x + y["k"], (jnp.ones(65), {"k": jnp.ones(65)}))
    assert re.search(
        "#   fn: function of test_code.py:[0-9]+, given to `panel`\n"
        "#   args: tuple of 2 arrays, given to `panel`\n",
        session.code(),
    )
    assert "taxpr.trace(fn)(args[0], args[1])" in session.code()
    here = {"fn": lambda x, y: x + y["k"], "args": (jnp.ones(65), {"k": jnp.ones(65)})}
    same(session, here)
    assert "given to" not in panel(nested)(W, XS).code()


class Model:
    def apply(self, x):
        return x


def test_the_words_of_a_call():
    model, x = Model(), jnp.ones(2)
    namespace = {"model": model, "x": x, "jnp": jnp, "_x": x, "class": x}
    cases = [
        (call_text(model.apply, (x, 1), {}, namespace), "model.apply(x, 1)"),
        (call_text(jnp.sin, (x,), {}, namespace), "jnp.sin(x)"),
        (
            call_text(jnp.sin, ([x, 1.5], (x,), {"a": x}), {}, namespace),
            "jnp.sin([x, 1.5], (x,), {'a': x})",
        ),
        (
            call_text(jnp.sin, (jnp.ones(2),), {"k": jnp.ones(1), "s": "t"}, namespace),
            "jnp.sin(args[0], k=kwargs['k'], s='t')",
        ),
        (call_text(lambda: 1, (float("nan"),), {}, namespace), "fn(args[0])"),
    ]
    for found, expected in cases:
        assert found == expected


def test_a_value_that_cannot_be_written_is_said():
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=NAMESPACE)
    session.attach("in1", taxpr.add(jnp.zeros((100, 3, 2))[0]))
    same(session, NAMESPACE)
    session.attach("0:scan.1", taxpr.replace(jnp.ones((3, 2))))
    big = jnp.zeros((9, 9))
    other = Session(jnp.sin, (big,), call="jnp.sin(x)", namespace={})
    other.attach("in0", taxpr.replace(big + 1.0))
    assert "taxpr.replace(value=value)" in other.code()
    told = r"#   value: f32\[9,9\], of replace at 'tag1' \(.*at t0\)\n"
    assert re.search(told, other.code())
    other.namespace["big"] = other.injectors["in0"].injector.values["value"]
    assert "taxpr.replace(value=big)" in other.code()


def test_it_uses_public_names_of_taxpr_only():
    session = Session(nested, (W, XS), call="f(w, xs)", namespace=NAMESPACE)
    session.tag("in0")
    session.attach(H, "scale")
    code = session.code()

    for name in re.findall(r"taxpr\.(\w+)", code):
        assert name in taxpr.__all__
    assert "taxpr_jupyter" not in code


class Wrapped:
    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __call__(self, x):
        return self.__wrapped__(x)


def test_a_function_in_an_object_of_a_library_is_told_by_its_own_line():
    line = nested.__code__.co_firstlineno
    assert described(Wrapped(nested)) == f"function of jupyter_samples.py:{line}"


class Net:
    def __call__(self, x):
        return x * 2


def test_an_object_that_can_be_called_is_of_its_class():
    line = Net.__call__.__code__.co_firstlineno
    for net in Net(), jax.jit(Net()):
        assert described(net) == f"Net with the method __call__ of test_code.py:{line}"
