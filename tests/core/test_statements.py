"""Which statement of the source made an equation: told only where that is sure."""

import ast
import functools
import importlib.util
import linecache
import py_compile
import re
import sys

import jax
import jax.numpy as jnp
import pytest

import taxpr

X = jnp.ones((3, 3))


def told(program):
    """For each equation its primitive, and the innermost statement and expression."""
    rows = []
    for eqn in program.eqns:
        one = taxpr.statements_of(eqn)[0]
        rows.append((eqn.primitive.name, one.text, one.expression))
    return rows


def test_statements_and_expressions_have_the_text_of_the_source():
    def f(x, w):
        a = jnp.sin((x @ w["k"]).T)[:, 0] * 2**-1
        b = jnp.where(a > 0, -a, jnp.exp(a) / (1 + a))  # ünï
        text = "ü"; c = a + b  # fmt: skip  # noqa: E702
        d = jnp.concatenate(
            [  # a comment
                jnp.cos(a),
                b**2,
            ]
        ).max()
        x += c[None]
        return x[0], d, text

    first = 'a = jnp.sin((x @ w["k"]).T)[:, 0] * 2**-1'
    second = "b = jnp.where(a > 0, -a, jnp.exp(a) / (1 + a))"
    third = "d = jnp.concatenate([jnp.cos(a), b ** 2]).max()"
    program = taxpr.trace(lambda x, w: f(x, w)[:2])(X, {"k": X})
    rows = told(program)
    assert rows[:14] == [
        ("dot_general", first, 'x @ w["k"]'),
        ("transpose", first, "•.T"),
        ("sin", first, "jnp.sin(•)"),
        *[(name, first, "•[:, 0]") for name in ("slice", "squeeze")],
        ("mul", first, "• * 2**-1"),
        ("gt", second, "a > 0"),
        ("neg", second, "-a"),
        ("exp", second, "jnp.exp(a)"),
        ("add", second, "1 + a"),
        ("div", second, "• / •"),
        (rows[11][0], second, "jnp.where(•, •, •)"),
        ("add", "c = a + b", "a + b"),
        ("cos", third, "jnp.cos(a)"),
    ]
    assert ("reduce_max", third, "•.max()") in rows
    assert ("add", "x += c[None]", "") in rows
    assert rows[-1][1:] == ("return x[0], d, text", "x[0]")


def test_functions_that_call_each_other_have_a_statement_each():
    def inner(y):
        return jnp.sin(y) + 1

    def step(c, x):
        c = inner(c * x)
        return c, None

    def f(xs):
        return jax.lax.scan(step, 1.0, xs)[0]

    (scan,) = taxpr.trace(f)(jnp.ones(3)).eqns
    (body,) = taxpr.nested_jaxprs(scan)
    sine = next(eqn for eqn in body.jaxpr.eqns if eqn.primitive.name == "sin")
    stack = taxpr.statements_of(sine)[:2]
    assert [(one.function.rpartition(".")[2], one.expression) for one in stack] == [
        ("inner", "jnp.sin(y)"),
        ("step", "inner(•)"),
    ]
    assert [one.line - inner.__code__.co_firstlineno for one in stack] == [1, 4]
    assert taxpr.statements_of(scan)[0].expression == "jax.lax.scan(step, 1.0, xs)"


def test_derivatives_belong_to_the_statement_that_they_differentiate():
    def f(x):
        y = jnp.sin(x)
        return jnp.exp(y)

    rows = told(taxpr.trace(jax.grad(f))(1.0))
    assert {name: text for name, text, _ in rows} == {
        "sin": "y = jnp.sin(x)",
        "cos": "y = jnp.sin(x)",
        "exp": "return jnp.exp(y)",
        "mul": "y = jnp.sin(x)",
    }


def test_loops_around_a_statement_are_told():
    def f(x):
        for k in range(2):
            while k < 2:
                x = x * 2.0
                k += 1
        return x

    one = taxpr.statements_of(taxpr.trace(f)(1.0).eqns[0])[0]
    assert [head for head, _ in one.loops] == ["for k in range(2)", "while k < 2"]


def test_lambdas_comprehensions_and_decorated_functions():
    def decorated(fn):
        @functools.wraps(fn)
        def inner(*args):
            return fn(*args)

        return inner

    @decorated
    def g(x):
        return [jnp.sin(v) for v in (x, x)]

    program = taxpr.trace(lambda x: (sum(g(x)), (lambda t: t * t)(x)))(1.0)
    texts = {(name, text) for name, text, _ in told(program)}
    assert ("sin", "return [jnp.sin(v) for v in (x, x)]") in texts
    assert ("mul", "t * t") in texts


def test_the_body_of_a_lambda_is_an_expression():
    program = taxpr.trace(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(1.0)
    expressions = {eqn.primitive.name: taxpr.statements_of(eqn)[0] for eqn in program.eqns}
    assert expressions["sqrt"].expression == "jnp.sqrt(x)"
    assert expressions["gt"].expression == "x > 0"
    one = next(one for name, one in expressions.items() if name not in ("sqrt", "gt"))
    assert one.expression.startswith("jnp.where(")
    assert one.part == one.place


# ---- source that is not there, or is another --------------------------------------------------


SOURCE = """import jax.numpy as jnp

def f(x):
    y = jnp.sin(x) * 2
    return jnp.where(y > 0, y, (lambda t: t - 1)(y))
"""


@pytest.fixture
def imported(tmp_path):
    def load(text, name="model.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(f"model_{len(sys.modules)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, path

    return load


def test_a_file_on_disk(imported):
    module, _ = imported(SOURCE)
    assert told(taxpr.trace(module.f)(1.0))[0] == ("sin", "y = jnp.sin(x) * 2", "jnp.sin(x)")


def test_lines_are_counted_as_python_counts_them(imported):
    module, _ = imported("\f\n# \u2028 and \x1c end no line\n" + SOURCE)
    program = taxpr.trace(module.f)(1.0)
    assert told(program)[0] == ("sin", "y = jnp.sin(x) * 2", "jnp.sin(x)")
    assert "    y = jnp.sin(x) * 2" in program.source()


@pytest.mark.parametrize(
    "edit",
    [
        ("jnp.sin", "jnp.cos"),
        ("* 2", "* 3"),
        ("    y = ", "    z = "),
        ("t - 1", "t - 2"),
        ("import jax.numpy as jnp\n", "import jax.numpy as jnp\nimport os\n"),
        ("def f(x):", "def f(x:"),
        (SOURCE, ""),
    ],
)
def test_a_file_edited_since_it_was_imported_is_not_believed(imported, edit):
    module, path = imported(SOURCE)
    path.write_text(SOURCE.replace(*edit) + "#")  # of another size, which linecache looks at
    linecache.checkcache(str(path))
    texts = {text for _, text, _ in told(taxpr.trace(module.f)(1.0))}
    # The lambda is sure where it says the same at the same place.
    assert texts - {"t - 1"} == {""}


def test_a_file_that_is_gone_and_code_without_a_file(imported):
    module, path = imported(SOURCE)
    path.unlink()
    made = {}
    exec(compile(SOURCE, "<made>", "exec"), made)
    for fn in (module.f, made["f"]):
        one = taxpr.statements_of(taxpr.trace(fn)(1.0).eqns[0])[0]
        assert (one.function, one.line, one.text) == ("f", 4, "")


LOOP = """import jax, jax.numpy as jnp

def f(x):
    y = jnp.sin(x) * 2
    def step(c, v):
        new = c + v
        return new, new
    return jax.lax.scan(step, 0.0, y)[1]
"""


def test_a_pyc_alone_has_variables_and_no_text(tmp_path, monkeypatch):
    path = tmp_path / "only_compiled.py"
    path.write_text(LOOP)
    py_compile.compile(str(path), cfile=f"{path}c", doraise=True)
    path.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    f = importlib.import_module("only_compiled").f
    program = taxpr.trace(f, names=True)(X[0])
    assert {text for _, text, _ in told(program)} == {""}
    assert "without a known source: f, f.<locals>.step" in program.source()
    assert [(one.short, one.line) for one in program.variables()] == [
        ("f.x", 3),
        ("f.y", 4),
        ("step.c", 5),
        ("step.v", 5),
        ("step.new", 6),
    ]
    values = program.collect(taxpr.var("new"))(X[0])[1]["new"]
    assert values.tolist() == pytest.approx(jnp.cumsum(jnp.sin(X[0]) * 2).tolist())


def test_frozen_code_has_neither_variables_nor_text():
    made = {}
    exec(compile(LOOP, "<frozen model>", "exec"), made)
    program = taxpr.trace(made["f"], names=True)(X[0])
    assert {text for _, text, _ in told(program)} == {""}
    assert "without a known source: f, f.<locals>.step" in program.source()
    assert program.variables() == []
    with pytest.raises(taxpr.SelectorError, match="Code without a file has none, as exec makes it"):
        program.collect(taxpr.var("new"))


def test_what_an_import_hook_has_rewritten_is_not_believed(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    made = {}
    exec(compile(SOURCE.replace("* 2", "* 5"), str(path), "exec"), made)
    assert {text for _, text, _ in told(taxpr.trace(made["f"])(1.0))} == {"", "t - 1"}


CELLS = """import marimo
app = marimo.App()

@app.cell(hide_code=True)
def _(jnp):
    # A comment.
    def f(x):
        \'\'\'A text

        of lines.\'\'\'
        y = jnp.sin(x) * 2
        text = "of "; z = y + 1
        return jnp.where(
            z > 0, z, (lambda t: t - 1)(z)
        ), text
    return (f,)

@app.function
def g(x):
    w = jnp.cos(x)
    return w

@app.cell
def _(
    jnp,
    scale={"a": (1, 2)}["a"][0],  # Of all: the first.
) -> None:
    # Of the product.

    def h(x):
        return jnp.tan(x) * 2
    return (h,)
"""


def run_by_marimo(path, begins, ends, indent):
    """What a cell binds. Its text is dedented, and its lines are numbered as in the file."""
    lines = path.read_text().split("\n")[begins - 1 : ends]
    tree = ast.parse("\n".join(line[indent:] for line in lines), str(path))
    made = {"jnp": jnp}
    exec(
        compile(ast.increment_lineno(tree, begins - 1), str(path), "exec", dont_inherit=True), made
    )
    return made


@pytest.fixture
def cells(tmp_path):
    path = tmp_path / "cells.py"
    path.write_text(CELLS)
    return path


def test_cells_that_marimo_runs_without_their_indentation(cells):
    f = run_by_marimo(cells, 6, 15, 4)["f"]
    program = taxpr.trace(lambda x: f(x)[0], names=True)(1.0)
    rows = told(program)
    assert rows[:3] == [
        ("sin", "y = jnp.sin(x) * 2", "jnp.sin(x)"),
        ("mul", "y = jnp.sin(x) * 2", "• * 2"),
        ("add", "z = y + 1", "y + 1"),
    ]
    assert rows[4] == ("sub", "t - 1", "t - 1")
    assert [(one.short, one.line) for one in program.variables()][:3] == [
        ("<lambda>.x", program.variables()[0].line),
        ("f.x", 7),
        ("f.y", 11),
    ]
    assert "11  " in program.source()
    g = run_by_marimo(cells, 19, 21, 0)["g"]
    assert told(taxpr.trace(g)(1.0)) == [("cos", "w = jnp.cos(x)", "jnp.cos(x)")]


def test_a_cell_whose_parameters_stand_in_lines_of_their_own(cells):
    h = run_by_marimo(cells, 28, 31, 4)["h"]
    statement = "return jnp.tan(x) * 2"
    assert told(taxpr.trace(h)(1.0)) == [
        ("tan", statement, "jnp.tan(x)"),
        ("mul", statement, "• * 2"),
    ]


def test_a_line_of_such_a_cell_is_edited(cells):
    f = run_by_marimo(cells, 6, 15, 4)["f"]
    changed = taxpr.edit(lambda x: f(x)[0], "y", "jnp.cos(x)")
    assert changed(1.0) == pytest.approx(float(jnp.cos(1.0) + 1))


@pytest.mark.parametrize("edit", [("* 2", "* 3"), ("y = ", "v = "), ("    # A comment.\n", "")])
def test_such_a_cell_that_was_edited_since_is_not_believed(cells, edit):
    f = run_by_marimo(cells, 6, 15, 4)["f"]
    cells.write_text(CELLS.replace(*edit) + "#")
    linecache.checkcache(str(cells))
    assert {text for _, text, _ in told(taxpr.trace(lambda x: f(x)[0])(1.0))} <= {
        "",
        "t - 1",
        "f(x)[0]",
    }


def test_functions_of_libraries_are_left_out(imported):
    library, _ = imported(SOURCE, "site-packages/library/layers.py")

    def f(x):
        return library.f(x) + 1

    sine = taxpr.trace(f)(1.0).eqns[0]
    assert taxpr.statements_of(sine)[0].expression == "library.f(x)"
    inner, own = taxpr.statements_of(sine, libraries=True)[:2]
    assert (inner.function, inner.line, inner.text) == ("f", 4, "")
    assert own.expression == "library.f(x)"


def test_an_input_has_none():
    assert taxpr.statements_of(None) == ()


# ---- the listing --------------------------------------------------------------------------------


def test_a_listing_says_what_became_of_each_line():
    def loss(w, xs):
        def step(c, x):
            h = jnp.tanh(c * w + x)
            return h, None

        last, _ = jax.lax.scan(step, 0.0, xs)
        return last**2

    program = taxpr.trace(jax.grad(loss), names=True)(2.0, jnp.ones(4))
    found = {}
    for line in program.source().splitlines():
        source, _, said = line.partition("  # ")
        found[source.strip().partition("  ")[2].strip()] = said
    said = found["h = jnp.tanh(c * w + x)"]
    assert re.fullmatch(r"h: f32\[\] · \d equations · ∂ \d · ×4", said)
    assert found["def loss(w, xs):"] == "w: f32[] · xs: f32[4]"
    plain = taxpr.trace(loss)(2.0, jnp.ones(4)).source()
    assert "# f32[] · 1 equation" in plain
    assert plain.startswith("# test_statements.py\n")


def test_a_listing_takes_notes_and_counts_what_has_no_source():
    made = {}
    exec(compile(SOURCE, "<made>", "exec"), made)

    def f(x):
        y = jnp.sin(x)
        return made["f"](y)

    text = taxpr.trace(f)(1.0).source(notes=lambda found: f"{len(found)} here")
    assert "# f32[] · 1 equation · 1 here" in text
    assert "without a known source" in text


def test_a_listing_is_data():
    def loss(w, xs):
        def step(c, x):
            h = jnp.tanh(c * w + x)
            return h, None

        last, _ = jax.lax.scan(step, 0.0, xs)
        return last**2

    program = taxpr.trace(jax.grad(loss), names=True)(2.0, jnp.ones(4))
    listing = program.listing()
    lines = {line.text.strip(): line for part in listing.parts for line in part.lines}
    by_address = dict(taxpr.iter_eqns(program))
    found = [one for line in lines.values() for one in (*line.equations, *line.holding)]
    assert all(by_address[one.address] is one.eqn for one in found)
    leaves = [a for a, eqn in by_address.items() if not taxpr.nested_jaxprs(eqn)]
    told = [one.address for line in lines.values() for one in line.equations]
    assert sorted([*told, *(one.address for one in listing.unknown)]) == sorted(leaves)
    tanh = lines["h = jnp.tanh(c * w + x)"]
    assert tanh.runs == 4
    assert {one.derivative for one in tanh.equations} == {True, False}
    assert [str(one) for one in tanh.variables] == ["step.h 0"]
    scans = lines["last, _ = jax.lax.scan(step, 0.0, xs)"].holding
    assert {one.eqn.primitive.name for one in scans} == {"scan"}
    assert program.source() == listing.text()


def test_functions_are_listed_in_the_order_of_calls():
    text = taxpr.trace(_outer)(1.0).source()
    places = [text.index(f"def {name}(") for name in ("_outer", "_second", "_first")]
    assert places == sorted(places)


def _first(x):
    return jnp.sin(x)


def _second(x):
    return jnp.cos(x)


def _outer(x):
    return _first(_second(x))


def said(program):
    """What the listing says of each line, by the line's text."""
    rows = (row.partition("  # ") for row in program.source().splitlines())
    return {row.strip().partition("  ")[2].strip(): note for row, _, note in rows}


def test_calls_of_one_jitted_function_are_told_apart():
    @jax.jit
    def g(x):
        y = jnp.sin(x)
        z = y * 2 + 1
        return z.sum()

    def f(a, b):
        return g(a) + g(b) + g(a * 2)

    args = jnp.ones(3), jnp.ones(5)
    for names, more in ((True, "y: "), (False, "")):
        rows = said(taxpr.trace(f, names=names)(*args))
        assert rows["y = jnp.sin(x)"] == f"{more}f32[3] · f32[5] · 3 equations in 3 calls"
        assert rows["return z.sum()"] == "f32[] · 3 equations in 3 calls"
        assert rows["return g(a) + g(b) + g(a * 2)"] == "f32[] · 6 equations"  # three are calls
    program = taxpr.trace(f)(*args)
    lines = [line for part in program.listing().parts for line in part.lines]
    sines = next(line.equations for line in lines if "jnp.sin" in line.text)
    assert [one.call for one in sines] == ["0:jit/call", "1:jit/call", "4:jit/call"]


def test_what_a_library_jits_counts_for_the_line_that_calls_it():
    def f(m, n):
        first = jnp.tril(m)
        second = jnp.tril(m * 2)
        some = jnp.where(n > 0, n, 0.0)
        more = jnp.where(n > 1, n, 0.0)

        def step(c, x):
            kept = jnp.where(x > 0, c, 0.0)
            return kept, None

        last, _ = jax.lax.scan(step, some + more, n)
        return first + second, last

    def count(row):
        return int(re.search(r"(\d+) equation", row)[1])

    for names in (True, False):
        program = taxpr.trace(f, names=names)(jnp.ones((3, 3)), jnp.ones(5))
        assert not program.listing().unknown
        rows = said(program)
        assert count(rows["second = jnp.tril(m * 2)"]) == count(rows["first = jnp.tril(m)"]) + 1
        some, more = (
            rows["some = jnp.where(n > 0, n, 0.0)"],
            rows["more = jnp.where(n > 1, n, 0.0)"],
        )
        assert some.replace("some", "more") == more
        assert "f32[5]" in some
        assert "bool" not in some
        assert count(rows["kept = jnp.where(x > 0, c, 0.0)"]) == count(some)
        assert rows["kept = jnp.where(x > 0, c, 0.0)"].endswith("×5")


def _twice(v):
    return v * 2


def test_what_a_rule_of_the_users_makes_is_told_by_its_lines():
    """JAX gives to these equations the traceback of the call that has the rule."""

    @jax.custom_vjp
    def scaled(x):
        return x * 3

    def bwd(res, ct):
        ratio = ct / res
        return (_twice(ratio) + jnp.tanh(res),)

    scaled.defvjp(lambda x: (scaled(x), x), bwd)

    def loss(x):
        y = scaled(x)
        return y.sum() * scaled(y).sum()

    def in_a_scan(x):
        def body(c, x):
            return c + scaled(x), None

        total, _ = jax.lax.scan(body, x[0] * 0, x)
        return total

    def rule_in_a_scan(x):
        @jax.custom_jvp
        def double(v):
            return v * 2

        @double.defjvp
        def rule(primals, tangents):
            out = double(*primals)
            slope = jnp.cos(*primals) * tangents[0]
            return out, slope

        return jax.lax.scan(lambda c, v: (c + double(v), None), x[0] * 0, x)[0]

    def texts(fn, primitive, **params):
        program = taxpr.trace(fn, **params)(jnp.ones(3))
        found = [eqn for *_, eqn in taxpr.iter_eqns(program) if eqn.primitive.name == primitive]
        assert found
        return [[one.text for one in taxpr.statements_of(eqn)] for eqn in found]

    call = "return y.sum() * scaled(y).sum()", "y = scaled(x)"
    for names in (False, True):
        for grad in (jax.grad(loss), jax.jit(jax.grad(loss)), jax.vmap(jax.jit(jax.grad(loss)))):
            shapes = jnp.ones((2, 3)) if grad.__doc__.startswith("Vectorized") else jnp.ones(3)
            program = taxpr.trace(grad, names=names)(shapes)
            every = [eqn for *_, eqn in taxpr.iter_eqns(program)]
            ratios = [eqn for eqn in every if eqn.primitive.name == "div"]
            assert len(ratios) == 2
            for eqn, text in zip(ratios, call, strict=True):
                made = [one.text for one in taxpr.statements_of(eqn)]
                assert made[:2] == ["ratio = ct / res", text]
                assert taxpr.statements_of(eqn, rules=False)[0].text == text
                assert taxpr.source_of(eqn).line == taxpr.statements_of(eqn)[0].line
                assert taxpr.scope_of(eqn).count("/") == 0
        assert texts(jax.grad(in_a_scan), "div", names=names)[0][:2] == [
            "ratio = ct / res",
            "return c + scaled(x), None",
        ]
        assert texts(jax.grad(rule_in_a_scan), "cos", names=names)[0][0] == (
            "slope = jnp.cos(*primals) * tangents[0]"
        )
        # What differentiates the rule is a derivative of its statement.
        second = jax.grad(lambda x: jax.grad(loss)(x).sum())
        assert ["ratio = ct / res"] in [one[:1] for one in texts(second, "div", names=names)]
    program = taxpr.trace(jax.grad(loss), names=True)(jnp.ones(3))
    assert "ratio = ct / res  # ratio: f32[3] · 2 equations" in re.sub(
        " +", " ", program.source()
    ).replace(" #", "  #")
    lines = {line.text.strip(): line for part in program.listing().parts for line in part.lines}
    told = ["ratio = ct / res", "return v * 2", "y = scaled(x)"]
    assert [len(lines[text].equations) for text in told] == [2, 2, 0]
    assert not any(found.derivative for found in lines["return v * 2"].equations)
