"""Selectors by variables of the source, in all functions that take selectors."""

import concurrent.futures
import dataclasses
import gc
import linecache
import pathlib
import re
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from jax import lax

import taxpr
from taxpr import SelectorError, var

HERE = pathlib.Path(__file__)
X = jnp.asarray([0.3, -0.8, 1.1])


def attention(x):
    q, k = x * 2, x + 1
    scores = q * k
    return jax.nn.softmax(scores)


def model(params, x):
    x = attention(x * params["w"])
    h = jnp.tanh(x)
    h = h * params["b"]
    for _ in range(2):
        h = jnp.sin(h)
    return h.sum()


P = {"w": X * 2, "b": X - 1}


def by_hand(params, x):
    """The values of the model's variables."""
    x = x * params["w"]
    scores = (x * 2) * (x + 1)
    weights = jax.nn.softmax(scores)
    tanh = jnp.tanh(weights)
    b = tanh * params["b"]
    return {"scores": scores, "x": weights, "h": [tanh, b, jnp.sin(b), jnp.sin(jnp.sin(b))]}


@pytest.fixture(scope="module")
def program():
    return taxpr.trace(model, names=True)(P, X)


def test_variables_are_collected_from_a_function_without_tags():
    out, found = taxpr.collect(model, where=[var("scores"), var("model.h")])(P, X)
    expected = by_hand(P, X)
    assert_close(out, model(P, X))
    assert_close(found.pop("scores"), expected["scores"])
    assert list(found) == ["h#0", "h#1", "h#2", "h#3"]
    assert_close(list(found.values()), expected["h"])


@pytest.mark.parametrize(
    ("where", "values"),
    [
        (var("attention.scores"), "scores"),
        (var("scores", line=attention.__code__.co_firstlineno + 2), "scores"),
        (var("model.x", occurrence=1), "x"),
    ],
)
def test_each_way_to_name_a_value(program, where, values):
    [found] = program.collect(where)(P, X)[1].values()
    assert_close(found, by_hand(P, X)[values])


def test_a_path_in_a_parameter(program):
    for text in ("params['w']", 'params["w"]', "model.params['w']"):
        assert_close(program.collect(var(text))(P, X)[1], {"params['w']": P["w"]})
    _, found = program.collect(var("params"))(P, X)
    assert_close(found, {f"params['{name}']": value for name, value in P.items()})


def test_each_assignment_is_an_occurrence_and_each_call_goes_on_counting():
    def double(v):
        v = v * 2
        return v

    def f(x):
        return double(double(x))

    program = taxpr.trace(f, names=True)(X)
    held = [(one.text, one.occurrence) for one in program.variables() if one.name == "v"]
    assert held == [("v", 0), ("v", 1), ("v", 2), ("v", 3)]
    for occurrence, factor in enumerate([1, 2, 2, 4]):
        where = var("double.v", occurrence=occurrence)
        assert_close(program.collect(where)(X)[1], {"v": X * factor})


def test_the_other_functions_take_variables(program):
    last = var("h", occurrence=3)
    doubled = program.inject(taxpr.scale(2.0), where=last)
    assert_close(doubled(doubled.ctx, P, X)[0], 2 * model(P, X))
    mapped = program.inject({last: taxpr.scale(3.0)})
    assert_close(mapped(mapped.ctx, P, X)[0], 3 * model(P, X))
    halved = taxpr.inject(model, {last: taxpr.scale(0.5)})
    assert_close(halved(halved.init(P, X), P, X)[0], 0.5 * model(P, X))
    assert_close(program.plant({last: X})(P, X), X.sum())
    assert_close(program.until(var("scores"))(P, X), {"scores": by_hand(P, X)["scores"]})
    assert_close(taxpr.grad_at(model, last)(P, X), {"h": jnp.ones(3)})
    assert_close(taxpr.grad_at(program, last)(P, X), {"h": jnp.ones(3)})
    assert program.axes(last) == {"h": ("token 0",)}
    tagged = program.tag_at(last, name="last")
    assert [site.name for site in tagged.tags()] == ["last"]
    assert [site.name for site in tagged.tags(last)] == ["last"]
    assert [site.name for site in taxpr.find_tags(tagged, last)] == ["last"]
    assert_close(tagged.collect(last)(P, X)[1], {"h": by_hand(P, X)["h"][3]})
    [value] = taxpr.find_values(program, last)
    assert value.address in {one.address for one in program.variables()}


def test_in_loops_and_branches_under_transformations():
    def f(x):
        def step(c, v):
            c = c + v
            return c, None

        def up(y):
            z = y * 2
            return z

        c, _ = lax.scan(step, jnp.float32(0), x)
        return lax.cond(c > 0, up, lambda y: y, c)

    _, found = taxpr.collect(f, [var("step.c", occurrence=1), var("z")])(X)
    assert_close(found["c"], jnp.cumsum(X))
    assert_close(found["z"].value, 2 * X.sum())
    _, found = taxpr.collect(jax.vmap(f), var("step.c", occurrence=1))(jnp.stack([X, X * 2]))
    assert_close(found["c"], jnp.stack([jnp.cumsum(X), jnp.cumsum(X * 2)], 1))
    _, found = jax.jit(taxpr.collect(jax.grad(f), var("step.c", occurrence=1)))(X)
    assert_close(found["c"], jnp.cumsum(X))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (var("score"), r"var\('score'\): no variable has that name. Nearest: scores\."),
        (var("scores", occurrence=4), r"it held other values: attention.scores 0 \(test_var.py:"),
        (var("scores", line=1), r"it held other values: attention.scores 0 \(test_var.py:"),
        (
            var("x"),
            r"is a variable of 2 functions: .*model.x \d \(test_var.py:\d+\).* Say which: "
            r"var\('model.x'\)",
        ),
    ],
)
def test_what_does_not_find_one_variable(program, where, message):
    with pytest.raises(SelectorError, match=message):
        program.collect(where)
    with pytest.raises(SelectorError, match=message):
        program.tag_at(where, name="a")


def test_two_functions_of_one_name_are_told_apart_by_their_lines():
    def f(x):
        def g(v):
            return v + 1

        y = g(x)

        def g(v):
            return v * 2

        return g(y)

    program = taxpr.trace(f, names=True)(X)
    lines = sorted(one.line for one in program.variables() if one.name == "v")
    with pytest.raises(
        SelectorError, match=rf"2 functions.*Say which: var\('v', line={lines[0]}\)"
    ):
        program.collect(var("v"))
    assert_close(program.collect(var("v", line=lines[1]))(X)[1], {"v": X + 1})
    _, both = program.collect([var("v", line=line) for line in lines])(X)
    here = re.escape("test_var.py")
    assert all(re.fullmatch(rf"{here}:\d+ g.v", name) for name in both)


def test_a_miss_lists_whole_variables_before_their_parts():
    def f(many, x):
        y = x + many["a0"]
        return y

    program = taxpr.trace(f, names=True)({f"a{k}": X for k in range(20)}, X)
    with pytest.raises(SelectorError, match=r"There are: many, x, y, many\['a0'\], "):
        program.collect(var("zzzzzz"))


def test_maybe_finds_none(program):
    assert program.tags(taxpr.maybe(var("nope"))) == []
    assert program.collect([var("scores"), taxpr.maybe(var("nope"))])(P, X)[1].keys() == {"scores"}


def test_a_program_that_knows_no_variables_says_so():
    for program in (taxpr.trace(model)(P, X), taxpr.trace(jnp.sin, names=True)(1.0)):
        assert program.variables() == []
        with pytest.raises(SelectorError, match=r"knows no variables. .*names=True"):
            program.collect(var("scores"))
    with pytest.raises(SelectorError, match=r"knows no variables. .*names=True"):
        taxpr.find_tags(taxpr.trace(model)(P, X).jaxpr, var("scores"))


@pytest.mark.parametrize(
    ("args", "more", "message"),
    [
        (("",), {}, "'' is no name of a variable"),
        ((3,), {}, "3 is no name of a variable"),
        (("x",), {"line": "3"}, "line='3' is no number"),
        (("x",), {"occurrence": True}, "occurrence=True is no number"),
    ],
)
def test_var_takes_a_name_and_numbers(args, more, message):
    with pytest.raises(SelectorError, match=message):
        var(*args, **more)


def test_the_program_is_the_same_with_names():
    assert str(taxpr.trace(model, names=True)(P, X).jaxpr) == str(taxpr.trace(model)(P, X).jaxpr)
    gradient = jax.jit(jax.grad(model))
    named = taxpr.trace(gradient, names=True)(P, X)
    assert str(named.jaxpr) == str(taxpr.trace(gradient)(P, X).jaxpr)
    assert not any(eqn.primitive.name == "variables" for _, eqn in taxpr.iter_eqns(named.jaxpr))


def test_what_was_traced_before_or_with_names_is_not_mixed():
    @jax.jit
    def f(x):
        y = jnp.sin(x)
        return y

    before = str(jax.make_jaxpr(f)(X))
    assert [one.name for one in taxpr.trace(f, names=True)(X).variables()] == ["x", "y"]
    assert str(jax.make_jaxpr(f)(X)) == before
    assert "variables" not in before


def test_nobody_listens_after_tracing_and_nothing_lives_on():
    held = []

    class Box:
        pass

    def f(x):
        box = Box()
        box.inner = x * 2
        held.append(weakref.ref(box.inner))
        box.inner = box.inner + 1
        return box.inner

    before = sys.gettrace()
    with jax.checking_leaks():
        taxpr.trace(f, names=True)(X)
    gc.collect()
    assert held[0]() is None
    assert sys.gettrace() is before
    if sys.version_info >= (3, 12):
        assert "taxpr" not in [sys.monitoring.get_tool(k) for k in range(6)]


def test_a_function_that_raises_leaves_nothing_behind():
    def f(x):
        y = x + 1
        raise ValueError(f"no {y.shape}")

    with pytest.raises(ValueError, match="no"):
        taxpr.trace(f, names=True)(X)
    test_nobody_listens_after_tracing_and_nothing_lives_on()


def test_values_that_are_no_tracers_have_no_names():
    constant = np.arange(3.0, dtype=np.float32)

    def f(x):
        known = constant * 2
        n = 3
        text = "a"
        y = x + known
        return y * n, text[:0] or None

    names = [one.name for one in taxpr.trace(f, names=True)(X).variables()]
    assert names == ["x", "y"]


# ---- what makes names hard ----------------------------------------------------------------------


def names_of(fn, *args):
    return [(one.text, one.occurrence) for one in taxpr.trace(fn, names=True)(*args).variables()]


@pytest.mark.parametrize("folder", [".local/lib/python3.12/site-packages", "python3/dist-packages"])
def test_installed_packages_have_no_names_wherever_they_are(folder):
    from taxpr._source.files import is_user_file

    assert not is_user_file(f"/home/somebody/{folder}/library/model.py")
    assert is_user_file("/home/somebody/project/model.py")


def test_what_a_dataclass_makes_of_itself_is_not_the_code_that_python_c_was_given(monkeypatch):
    given = "import jax\nval = 1\n"  # since Python 3.13 there are such lines, whatever is run
    monkeypatch.setitem(linecache.cache, "<string>", (len(given), None, [given], "<string>"))

    @dataclasses.dataclass
    class Held:
        val: jax.Array

    def f(x):
        return Held(jnp.sin(x)).val

    names = {variable.name for variable in taxpr.trace(f, names=True)(X).variables()}
    assert names == {"x"}


def test_code_without_source_has_no_names():
    space = {"jnp": jnp}
    exec("def f(x):\n    y = jnp.sin(x)\n    return y * 2", space)
    assert names_of(space["f"], X) == []
    own = lambda x: space["f"](x) + 1
    assert names_of(own, X) == [("x", 0)]


def test_a_file_that_was_edited_since_it_was_imported(tmp_path, monkeypatch):
    file = tmp_path / "edited_model.py"
    file.write_text("import jax.numpy as jnp\n\n\ndef f(x):\n    y = jnp.sin(x)\n    return y\n")
    monkeypatch.syspath_prepend(tmp_path)
    import edited_model

    file.write_text("# new\n" * 9)
    program = taxpr.trace(edited_model.f, names=True)(X)
    assert [(one.text, one.line) for one in program.variables()] == [("x", 4), ("y", 5)]
    assert_close(program.collect(var("y"))(X)[1], {"y": jnp.sin(X)})


def test_decorators_that_hide_a_function(tmp_path):
    def hiding(fn):
        return lambda *args: fn(*args) * 2

    @hiding
    @jax.jit
    @hiding
    def f(x):
        y = x + 1
        return y

    program = taxpr.trace(f, names=True)(X)
    [line] = {one.line for one in program.variables() if one.short == "f.x"}
    source = HERE.read_text(encoding="utf-8").splitlines()
    assert source[line - 1].strip() == "def f(x):"
    assert_close(program.collect(var("f.y"))(X)[1], {"y": X + 1})


def test_a_value_that_a_method_overwrites_within_a_line_has_no_name_and_no_other_one_has_it():
    def f(x):
        y = {"a": x + 1}; y.update(a=x * 2); y.update(a=x * 3); z = y["a"] - x  # fmt: skip  # noqa: E702
        return z

    assert names_of(f, X) == [("x", 0), ("y['a']", 0), ("y['a']", 1), ("z", 0)]
    _, found = taxpr.collect(f, [var("y['a']"), var("z")])(X)
    assert_close(found, {"y['a']#0": X + 1, "y['a']#1": X * 3, "z": X * 3 - X})


class Odd:
    """An object that raises whatever is asked of it."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        raise TypeError("no comparison")

    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")

    __hash__ = None


@jax.tree_util.register_pytree_node_class
class OddTree(Odd):
    def tree_flatten(self):
        return (self.x,), Odd(1)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@jax.tree_util.register_pytree_node_class
class Broken(Odd):
    def tree_flatten(self):
        raise ValueError("cannot be flattened")

    @classmethod
    def tree_unflatten(cls, aux, children):
        raise ValueError("cannot be unflattened")


def test_objects_that_raise_when_they_are_looked_at_do_no_harm():
    def f(x):
        odd, tree, broken = Odd(x + 1), OddTree(x + 2), Broken(x + 3)
        mixed = {1: x, "a": x}  # cannot be sorted
        y = odd.x + tree.x
        y = y + broken.x
        return y + mixed[1]

    names = names_of(f, X)
    assert ("y", 0) in names
    assert ("y", 1) in names
    assert ("odd.x", 0) in names
    assert not any(text.startswith(("broken", "mixed")) for text, _ in names)
    assert_close(taxpr.collect(f, var("y", occurrence=1))(X)[1], {"y": 3 * X + 6})


def test_iterators_are_neither_used_up_nor_warned_of():
    def f(x):
        rows = iter([x, x + 1])
        both = zip([x], [x * 2], strict=True)
        some = (row * 2 for row in [x])
        first = next(rows)
        return first, next(rows), list(both), next(some)

    assert_close(taxpr.trace(f, names=True)(X)(X), f(X))


def test_another_tool_that_traces_is_left_alone():
    def f(x):
        y = x + 1
        return y

    if sys.version_info >= (3, 12):
        tools = [k for k in (3, 4, 5) if sys.monitoring.get_tool(k) is None]
        for tool in tools:
            sys.monitoring.use_tool_id(tool, "other")
        try:
            assert names_of(f, X) == []
            assert all(sys.monitoring.get_tool(tool) == "other" for tool in tools)
        finally:
            for tool in tools:
                sys.monitoring.free_tool_id(tool)
        return

    def other(frame, event, arg):
        return other

    before = sys.gettrace()
    sys.settrace(other)
    try:
        assert names_of(f, X) == []
        assert sys.gettrace() is other
    finally:
        sys.settrace(before)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there is one listener")
def test_names_are_known_in_a_debugger():
    def f(x):
        y = x + 1
        return y

    before = sys.gettrace()
    sys.settrace(lambda *args: None)
    try:
        assert names_of(f, X) == [("x", 0), ("y", 0)]
    finally:
        sys.settrace(before)


def test_threads_do_not_see_each_others_variables():
    def made(k):
        def f(x):
            for _ in range(20):
                x = jnp.sin(x) + k
            return x

        return f

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(lambda k: taxpr.trace(made(k), names=True)(X), range(8)))
    for k, program in enumerate(programs):
        assert [one.occurrence for one in program.variables()] == list(range(21))
        assert_close(program.collect(var("x", occurrence=20))(X)[1]["x"], made(k)(X))


def test_a_program_is_traced_with_names_while_another_one_is():
    def inner(x):
        z = x * 3
        return z

    def f(x):
        y = x + 1
        names = names_of(inner, X)
        assert names == [("x", 0), ("z", 0)]
        return inner(y)

    assert names_of(f, X) == [("x", 0), ("y", 0), ("x", 0), ("z", 0)]


def test_each_value_has_a_selector_that_means_it_alone():
    def step(x, y):
        x = jnp.sin(x) + y
        return x

    def f(x, y):
        for _ in range(3):
            x = step(x, y)
        return step(y, x)

    program = taxpr.trace(f, names=True)(1.0, 2.0)
    addresses = {one.address for one in program.variables()}
    for address in addresses:
        [value] = taxpr.find_values(program, program.var_of(address))
        assert value.address == address
    assert len(addresses) == 6
    assert program.var_of("0:sin.0") is None
    assert str(program.var_of("in1")) == "var('f.y')"


def test_addresses_of_tags_beside_variables_are_those_of_the_program():
    def f(x):
        y = jnp.sin(x)
        first = taxpr.tag(y * 2, name="p")
        return taxpr.tag(first + 1, name="p")

    program = taxpr.trace(f, names=True)(1.0)
    at = {taxpr.var("y"): taxpr.replace(0.0)}
    for more, expected in (({"t0": taxpr.add(10.0)}, 11), ({"t1": taxpr.scale(10.0)}, 10)):
        injected = program.inject({**at, **more})
        assert injected(injected.ctx, 1.0)[0] == expected
    found = program.collect([taxpr.var("y"), "t1"])(0.0)[1]
    assert set(map(float, found.values())) == {0.0, 1.0}


def both(xs):
    y = jnp.sin(xs)
    z = y
    a = taxpr.tag(z * 2, name="a")

    def step(c, x):
        new = taxpr.tag(c + x, name="n")
        return new, None

    return taxpr.tag(lax.scan(step, jnp.float32(0), a)[0], name="o")


def test_reports_and_errors_have_the_addresses_of_the_program():
    program = taxpr.trace(both, names=True)(X)
    injected = program.inject(
        {
            "a": taxpr.count(),
            var("y"): taxpr.count(),
            "2:scan/body/t0": taxpr.count(),
            var("new"): taxpr.count(),
        }
    )
    report = injected.report(injected(injected.ctx, X)[1])
    assert {key: list(found) for key, found in report.items()} == {
        "a": ["t0"],
        "y": ["0:sin.0"],
        "2:scan/body/t0": ["2:scan/body/t0"],
        "new": ["2:scan/body/0:add.0"],
    }
    assert not {"y", "new", "0:sin.0"}.intersection(injected.used)
    assert [site.address for site in injected.tags()] == ["t0"]  # what was t1
    line = both.__code__.co_firstlineno + 1
    for bad in (lambda ctx, token, params: (token[:1], ctx), taxpr.replace(jnp.ones(4))):
        with pytest.raises(
            taxpr.InjectorError, match=rf"at variable y \(test_var.py:{line}, at 0:sin.0\)"
        ):
            program.inject({var("y"): bad, "*": taxpr.count()})
    with pytest.raises(taxpr.InjectorError, match=r"the variable new \(.*, at 2:scan/body/0:add"):
        program.plant({var("new"): jnp.ones(4)})


def test_selectors_of_tags_mean_the_tags_of_the_program_alone():
    program = taxpr.trace(both, names=True)(X)
    own = {site.address for site in program.tags()}
    for every in ("*", "?", None, lambda site: True, [None, "a"], taxpr.line(TAG_LINE)):
        both_ways = {"where": [var("y"), every]}
        injected = program.inject(taxpr.count(), **both_ways)
        report = injected.report(injected(injected.ctx, X)[1])
        found = {"t0"} if isinstance(every, type(taxpr.line(1))) else own
        assert set(report) == {"0:sin.0", *found}
        key = None if isinstance(every, list) or every is None else every
        if key is not None:
            injected = program.inject({var("y"): taxpr.count(), key: taxpr.count()})
            _, of_tags = injected.report(injected(injected.ctx, X)[1]).values()
            assert set(of_tags) == found
    with pytest.raises(SelectorError, match=r"none of the 3 tags"):
        program.inject(taxpr.count(), where=[var("y"), {"name": "y"}])
    injected = program.inject(taxpr.count(), where=[var("y"), "y"])  # the variable, too
    assert set(injected.report(injected(injected.ctx, X)[1])) == {"0:sin.0"}


TAG_LINE = both.__code__.co_firstlineno + 3


def test_one_value_is_injected_once_and_collected_by_each_of_its_names():
    program = taxpr.trace(both, names=True)(X)
    doubled = program.inject(taxpr.scale(2.0), where=[var("y"), var("z")])
    assert_close(doubled(doubled.ctx, X)[0], 2 * both(X))
    with pytest.raises(SelectorError, match=r"'y' and 'z' both select the variable y \(test_var"):
        program.inject({var("y"): taxpr.count(), var("z"): taxpr.count()})
    _, found = program.collect([var("y"), var("z")])(X)
    assert_close(found, {"y": jnp.sin(X), "z": jnp.sin(X)})
    assert_close(taxpr.grad_at(both, [var("y"), var("z")])(X)["z"], 2 * jnp.ones(3))


def test_an_injector_at_a_variable_sees_its_name_alone():
    seen = []
    taxpr.inject(
        both, lambda ctx, token, params: (seen.append(params), (token, ctx))[1], where=var("y")
    ).init(X)
    assert seen == [{"name": "y"}]


def test_contexts_of_selectors_that_read_alike_have_keys_of_their_own():
    def f(x):
        h = x + 1
        h = h * 2
        for _ in range(2):
            h = jnp.sin(h)
        return taxpr.tag(h, name="h")

    program = taxpr.trace(f, names=True)(1.0)
    line = f.__code__.co_firstlineno + 4
    injected = program.inject({"h": taxpr.count(), var("h", line=line): taxpr.count()})
    assert list(injected.ctx) == ["h", f"var('h', line={line})"]


def test_a_change_of_a_variable_after_its_derivative_was_taken_warns():
    def loss(w):
        h = jnp.sin(w)
        after = h * 2
        return after.sum()

    def step(w):
        g = jax.grad(loss)(w)
        return w - g

    for fn in (
        step,
        jax.jit(step),
        lambda w: lax.scan(lambda w, _: (step(w), None), w, None, 2)[0],
    ):
        program = taxpr.trace(fn, names=True)(X)
        held = {one.text for one in program.variables() if one.differentiated}
        assert {"h", "after"} <= held
        assert not {"g"} & held
        address = next(one.address for one in program.variables() if one.name == "h")
        with pytest.warns(taxpr.StaleDerivativeWarning, match=r"variable h \(test_var.py:\d+, at "):
            program.inject(taxpr.scale(2.0), where=var("h"))
        tagged = program.tag_at(address, name="s")
        with pytest.warns(taxpr.StaleDerivativeWarning, match=r"tag 's'"):
            tagged.inject(taxpr.scale(2.0), where="s")
        program.inject(taxpr.scale(2.0), where=var("g"))  # what comes after it is no matter
        program.inject(taxpr.count(), where=var("h"))


def swapping(x):
    b, a = x + 1, x * 2
    h = a
    h = b
    for _ in range(10):
        h = jnp.sin(h)
    z = h.sum()
    early = z * a.sum()
    return early


def test_values_are_collected_in_the_order_of_execution():
    program = taxpr.trace(swapping, names=True)(X)
    where = [var("early"), var("z"), var("a"), var("h")]
    names = ["h#1", "a", "h#0", *(f"h#{k}" for k in range(2, 12)), "z", "early"]
    assert list(program.collect(where)(X)[1]) == names
    assert list(program.until(where)(X)) == names
    assert list(program.axes(where)) == names
    assert list(taxpr.grad_at(program, where)(X)) == names
    assert list(taxpr.collect(swapping, where)(X)[1]) == names
    again = program.tag_at(var("z"), name="b").collect(where).collect("b")
    (_, first), second = again(X)
    assert (list(first), list(second)) == (names, ["b"])
    injected = program.collect(where).tag_at("0:add", name="c").inject(taxpr.count())
    assert list(injected(injected.ctx, X)[0][1]) == names
    jitted = jax.jit(program.collect(where))(X)[1]
    assert list(jitted) == sorted(names)
    assert_close(jitted, program.collect(where)(X)[1])


def test_several_values_of_a_variable_are_stacked_in_the_order_in_which_it_held_them():
    program = taxpr.trace(swapping, names=True)(X)
    expected = [X * 2, X + 1]
    for _ in range(10):
        expected.append(jnp.sin(expected[-1]))
    _, found = program.collect([var("h"), var("z")], stack=True)(X)
    assert list(found) == ["h", "z"]
    assert_close(found, {"h": jnp.stack(expected), "z": expected[-1].sum()})
    assert program.axes(var("h"), stack=True) == {"h": ("stack", "token 0")}
    assert taxpr.grad_at(swapping, var("h"), stack=True)(X)["h"].shape == (12, 3)

    def uneven(x):
        y = x * 2
        y = y.sum()
        return y

    y, total = taxpr.collect(uneven, var("y"), stack=True)(X)[1]["y"]
    assert_close((y, total), (X * 2, 2 * X.sum()))


def test_a_place_without_tags_offers_its_values():
    def f(x):
        with jax.named_scope("inner"):
            y = jnp.sin(x)
            z = y * 2
        return taxpr.tag(z + 1, name="t")

    line = f.__code__.co_firstlineno + 2
    asked = {
        "taxpr.scope('inner')": taxpr.scope("inner"),
        f"taxpr.line({line})": taxpr.line(line),
        "where": lax.sin_p,
    }
    for written, where in asked.items():
        tagged = re.escape(f" tag it first: taxpr.trace(fun)(*args).tag_at({written}).")
        with pytest.raises(taxpr.SelectorError, match=rf"{tagged} Or .*, such as taxpr.var\('y'\)"):
            taxpr.collect(f, where)(X)
        with pytest.raises(taxpr.SelectorError, match=f"{tagged}$"):
            taxpr.trace(f)(X).collect(where)
        assert "s" in taxpr.trace(f)(X).tag_at(where, name="s").collect(stack=True)(X)[1]
    with pytest.raises(taxpr.SelectorError, match=r"None has a named scope\.$"):
        taxpr.collect(f, taxpr.scope("other"))(X)


def test_a_text_that_is_no_tag_is_a_variable_in_all_functions():
    def f(x):
        y = jnp.sin(x)
        return taxpr.tag(y * 2, name="t").sum()

    def g(x):
        return f(x * 1) + f(x)

    program = taxpr.trace(f, names=True)(X)
    twice = taxpr.scale(2.0)

    def run(injected):
        return injected(injected.ctx, X)[0]

    def of_function(injected):
        return injected(injected.init(X), X)[0]

    asked = [
        lambda y: run(program.inject({y: twice})),
        lambda y: run(program.inject(twice, where=y)),
        lambda y: program.collect(y)(X),
        lambda y: program.collect(["t", y])(X),
        lambda y: program.until(y)(X),
        lambda y: program.tag_at(y, name="a").collect("a")(X),
        lambda y: taxpr.grad_at(program, y)(X),
        lambda y: program.plant({y: X})(X),
        lambda y: of_function(taxpr.inject(f, {y: twice})),
        lambda y: of_function(taxpr.inject(f, twice, where=y)),
        lambda y: taxpr.collect(f, y)(X),
        lambda y: taxpr.collect(g, y)(X),
        lambda y: taxpr.collect(g, [y, "t"], stack=True)(X),
        lambda y: taxpr.grad_at(f, y)(X),
        lambda y: taxpr.sweep(f, y, taxpr.scale, [0.0, 2.0])(X).values,
        lambda y: taxpr.patch(f, y)(X, 2 * X).values,
    ]
    for ask in asked:
        assert_close(ask("y"), ask(var("y")))
        assert_close(ask("f.y"), ask(var("f.y")))
    assert [value.address for value in taxpr.find_values(program, "y")] == ["0:sin.0"]
    assert program.axes("y") == {"y": ("token 0",)}
    assert_close(asked[0]("y"), 4 * jnp.sin(X).sum())
    assert_close(asked[2]("y")[1], {"y": jnp.sin(X)})
    with pytest.raises(SelectorError, match=r"'y'\) does not match the only tag.*\.tag_at\("):
        program.tags("y")
    for missing in ("nope", "", "t9"):
        with pytest.raises(LookupError) as caught:
            taxpr.collect(f, missing)(X)
        assert "var(" not in str(caught.value)
    with pytest.raises(SelectorError, match=r"match the only tag.*variables are not known.*names="):
        taxpr.trace(f)(X).collect("y")
    with pytest.raises(SelectorError, match="the mapping has the key 'y' twice"):
        program.inject({var("y"): twice, "y": twice})


def test_a_function_is_traced_once_where_all_is_found():
    traced = []

    def f(x):
        traced.append(x)
        return taxpr.tag(x * 2, name="t").sum()

    taxpr.collect(f, "t")(X)
    assert len(traced) == 1


@jax.tree_util.register_pytree_node_class
class Parts:
    """A PyTree whose class does not say what its parts are called."""

    def __init__(self, *parts):
        self.parts = parts

    def tree_flatten(self):
        return self.parts, None

    @classmethod
    def tree_unflatten(cls, aux, parts):
        return cls(*parts)


def test_parts_without_names_are_written_as_jax_writes_those_of_arguments():
    def f(state):
        new = Parts(*(jnp.sin(one) for one in state.parts))
        return new.parts[0] + new.parts[1].sum()

    program = taxpr.trace(f, names=True)(Parts(X, X * 2))
    texts = [one.text for one in program.variables() if one.name in ("state", "new")]
    assert texts == ["state[0]", "state[1]", "new[0]", "new[1]"]
    assert list(program.in_names) == texts[:2]
    assert_close(program.collect(var("new[1]"))(Parts(X, X * 2))[1], {"new[1]": jnp.sin(X * 2)})


def test_only_a_variable_that_was_differentiated_warns_of_a_stale_derivative(recwarn):
    def loss(w):
        return jnp.sin(w).sum()

    def step(w):
        return w - jax.grad(loss)(w)

    program = taxpr.trace(step, names=True)(X)
    changed = program.inject(taxpr.scale(2.0), where=taxpr.var("step.w"))
    assert not recwarn.list
    assert jnp.allclose(changed(changed.ctx, X)[0], step(2 * X))
    with pytest.warns(taxpr.StaleDerivativeWarning):
        program.inject(taxpr.scale(2.0), where=taxpr.var("loss.w"))


def test_a_variable_that_must_be_there_is_missed_also_beside_one_that_may_be():
    program = taxpr.trace(lambda x: jnp.sin(x), names=True)(X)
    one = taxpr.var("nope")
    with pytest.raises(taxpr.SelectorError, match="no variable has that name"):
        program.inject({one: taxpr.scale(2.0), taxpr.maybe(one): taxpr.record()})


def test_a_variable_and_a_tag_of_one_name_are_collected_apart():
    def f(x):
        h = jnp.sin(x)
        return taxpr.tag(h + 1, name="h")

    program = taxpr.trace(f, names=True)(X)
    for stack in (False, True):
        _, values = program.collect([taxpr.var("h"), {"name": "h"}], stack=stack)(X)
        assert jnp.allclose(values["var('h')"], jnp.sin(X))
        assert jnp.allclose(values["h"], jnp.sin(X) + 1)


def test_what_is_collected_at_variables_is_planted_by_the_names_that_it_has():
    program = taxpr.trace(model, names=True)(P, X)
    collected = program.collect([var("h"), var("attention.x"), var("params['b']")])(P, X * 2)[1]
    assert {"h#0", "x", "params['b']"} < collected.keys()
    # Beside model's, the label of attention's variable is not enough.
    collected["attention.x"] = collected.pop("x")
    last = {"h#2": collected["h#2"]}
    assert_close(program.plant(last)(P, X), jnp.sin(collected["h#2"]).sum())
    assert_close(program.plant(collected)(P, X), model(P, X * 2))
    gradient = taxpr.trace(jax.grad(model), names="cotangents")(P, X)
    back = gradient.collect(taxpr.cotangent(var("h", occurrence=3)))(P, X)[1]
    assert_close(gradient.plant({"∂ h#3": back["∂ h"] * 2})(P, X)["b"], 2 * gradient(P, X)["b"])
    with pytest.raises(SelectorError, match="'hh'"):
        program.plant({"hh": 1.0})


@dataclasses.dataclass(slots=True)
class Slotted:
    w: jax.Array
    rows: list

    def step(self, x):
        h = x * self.w
        self.w = h + 1
        self.rows.append(h)
        return h


class Open(Slotted):  # its objects have attributes of both kinds
    pass


class Private:
    __slots__ = ("__hidden", "never_set")

    def __init__(self, x):
        self.__hidden = x


@pytest.mark.parametrize("many", [0, 80])  # as many are looked at only where they may have changed
@pytest.mark.parametrize("kind", [Slotted, Open])
def test_attributes_in_slots_have_names(kind, many):
    def f(x):
        model = kind(x * 2, [x + k for k in range(many)])
        if kind is Open:
            model.more = x * 3
        model.step(x)
        own = Private(x * 4)
        return model.w + model.rows[-1], own is None

    x = jnp.asarray([1.0, 2.0])
    held = taxpr.watch(f)(x)
    assert_close(list(held["f.model.w"].value), [x * 2, x * 2 * x + 1])
    assert_close(held["step.self.w#1"].value, x * 2 * x + 1)
    assert_close(held[f"f.model.rows[{many}]"].value, x * 2 * x)
    assert_close(held["f.own._Private__hidden"].value, x * 4)
    assert any(row.variable == "model.more" for row in held.table().rows) is (kind is Open)
