"""`trace(..., names=("library",))`: a library's functions count as the user's own."""

import importlib
import linecache
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import var

X = np.float32(0.7)
LIBRARY = {
    "ours/__init__.py": "from ours.layers import Layer, curved, dense, spare\n",
    "ours/layers.py": """
import dataclasses
import jax
import jax.numpy as jnp
import other

SHIFT = jnp.asarray([0.5, 1.5])

@dataclasses.dataclass
class Layer:
    w: jax.Array

    def __call__(self, x):
        hidden = x * self.w
        return jnp.tanh(hidden)

def dense(x, w):
    layer = Layer(w)
    scaled = other.doubled(x)
    out = layer(scaled)
    return out + 1

@jax.jit
def spare(x):
    unused = jnp.cos(x) * 3
    return jnp.sin(x)

def curved(x):
    @jax.jit
    def body(carry, row):
        inside = carry * row
        return inside, jnp.sin(inside)
    total, rows = jax.lax.scan(body, x, SHIFT)
    return total + rows.sum()
""",
    "other.py": """
import jax.numpy as jnp

def doubled(x):
    twice = x * 2
    return twice
""",
}


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The module `ours`, and `other` that it uses, both installed."""
    home = tmp_path / "lib" / "site-packages"
    for name, text in LIBRARY.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("ours")
    for name in [one for one in sys.modules if one.partition(".")[0] in ("ours", "other")]:
        del sys.modules[name]
    linecache.clearcache()


def texts(program):
    return {f"{one.function.rpartition('.')[2]}.{one.text}" for one in program.variables()}


def statements(program):
    return {
        one.text
        for _, eqn in taxpr.iter_eqns(program)
        for one in taxpr.statements_of(eqn)
        if one.text
    }


def test_the_variables_and_statements_of_a_library_are_those_of_the_user(library):
    def f(x):
        y = library.dense(x, x + 1)
        return y * 3

    plain = taxpr.trace(f, names=True)(X)
    assert texts(plain) == {"f.x", "f.y"}
    assert statements(plain) == {"y = library.dense(x, x + 1)", "return y * 3"}
    program = taxpr.trace(f, names="ours")(X)
    own = {"dense.x", "dense.w", "dense.layer.w", "dense.scaled", "dense.out"}
    method = {"__call__.self.w", "__call__.x", "__call__.hidden"}
    assert texts(program) == texts(plain) | own | method
    assert {"out = layer(scaled)", "hidden = x * self.w", "return out + 1"} < statements(program)
    assert not any("twice" in one for one in statements(program))  # it is of another library
    np.testing.assert_array_equal(program(X), f(X))
    assert [str(eqn.primitive) for eqn in program.eqns] == [str(e.primitive) for e in plain.eqns]


def test_several_libraries_and_cotangents_may_be_asked_for(library):
    def loss(x):
        return library.dense(x, x + 1) ** 2

    both = taxpr.trace(jax.grad(loss), names=("ours", "other", "cotangents"))(X)
    assert {"doubled.twice", "dense.out"} < texts(both)
    wanted = taxpr.cotangent(var("doubled.twice"))
    _, found = both.collect(wanted)(X)

    def of_twice(twice):
        return (jnp.tanh(twice * (X + 1)) + 1) ** 2

    [value] = found.values()
    np.testing.assert_allclose(value, jax.grad(of_twice)(2 * X), rtol=1e-5)


def test_variables_in_a_loop_of_a_library_are_collected_and_injected(library):
    def f(x):
        return library.curved(x)

    program = taxpr.trace(f, names=["ours"])(X)
    _, found = program.collect(var("body.inside"))(X)
    expected = [X * np.float32(0.5), X * np.float32(0.75)]
    np.testing.assert_allclose(found["inside"], expected, rtol=1e-6)
    zeroed = program.inject(taxpr.zero(), where=var("inside"))
    np.testing.assert_allclose(zeroed(zeroed.ctx, X)[0], 0.0)
    assert "inside = carry * row" in statements(zeroed)  # also after a rewrite
    watched = taxpr.watch(program, var("inside"))(X)
    assert "inside" in str(watched)


def test_with_none_the_variables_of_a_library_add_nothing_to_the_program(library):
    def loss(x):
        return library.curved(library.spare(x))

    def sizes(names):
        program = taxpr.trace(jax.grad(loss), names=names)(X)
        return len(list(taxpr.iter_eqns(program))), len(program.variables()), statements(program)

    plain, all_, quiet = (sizes(names) for names in (False, "ours", (None, "ours")))
    assert plain[0] == quiet[0] < all_[0]
    assert 0 < quiet[1] < all_[1]
    assert "inside = carry * row" in quiet[2] - plain[2]


def test_two_programs_of_one_function_do_not_get_in_each_other_s_way(library):
    def f(x):
        return library.dense(x, x) + library.curved(x)

    def asked(names):
        return taxpr.trace(f, names=names)(X)

    kinds = [True, "ours", ("ours", "other"), "other", False]
    programs = [asked(names) for names in kinds]
    first = [(texts(one), statements(one)) for one in programs]
    assert [(texts(one), statements(one)) for one in reversed(programs)] == first[::-1]
    again = [asked(names) for names in reversed(kinds)]
    assert [(texts(one), statements(one)) for one in again] == first[::-1]
    assert [("twice = x * 2" in said) for _, said in first] == [False, False, True, True, False]
    assert [("inside = carry * row" in said) for _, said in first] == [
        *(False, True, True, False, False)
    ]
    assert [("doubled.twice" in held) for held, _ in first] == [False, False, True, True, False]


def test_a_library_is_the_user_s_in_the_whole_answer(library):
    def f(x):
        return library.dense(x, jnp.log(x))

    program = taxpr.trace(f, names="ours")(X)
    layers = sys.modules["ours.layers"].__file__
    assert layers in {part.file for part in program.listing().parts}
    assert layers not in {p.file for p in taxpr.trace(f, names=True)(X).listing().parts}
    line = LIBRARY["ours/layers.py"].splitlines().index("        hidden = x * self.w") + 1
    made = taxpr.find_values(program, taxpr.line(f"layers.py:{line}"))
    assert [str(one.address) for one in made] == ["2:mul.0"]
    found = taxpr.find_nan(program)(np.float32(-1.0))
    assert "log" in str(found)
    eqn = program.eqns[2]
    assert taxpr.is_user_file(layers, eqn)
    assert not taxpr.is_library_file(layers, eqn)
    assert not taxpr.is_user_file(layers)
    for generated in ("<attrs generated init ours.layers.Layer>", "<string>", "<ours.layers>"):
        assert not taxpr.is_user_file(generated, eqn)
    assert taxpr.is_library_file(layers)


def test_what_a_dataclass_generates_is_never_the_user_s(library):
    program = taxpr.trace(lambda x: library.dense(x, x), names="ours")(X)
    assert not any("__init__" in one for one in texts(program))
    for _, eqn in taxpr.iter_eqns(program):
        assert "<string>" not in {one.file for one in taxpr.statements_of(eqn, libraries=True)}


def test_a_trace_that_fails_in_a_library_ends_at_its_statement(library):
    def f(x):
        scaled = jnp.ones(3) * x
        return library.dense(scaled, jnp.ones(2))

    def failure(names):
        with pytest.raises(TypeError) as caught:
            taxpr.trace(f, names=names)(X)
        program = taxpr.until_error(caught.value)
        *_, (_, last) = taxpr.iter_eqns(program)
        source = taxpr.introspect.failure_of(last).source
        return source.function.rpartition(".")[2], texts(program)

    assert failure("ours") == (
        "__call__",
        {"f.x", "f.scaled", "dense.x", "dense.w", "dense.layer.w", "dense.scaled"}
        | {"__call__.self.w", "__call__.x"},
    )
    assert failure(True) == ("f", {"f.x", "f.scaled"})


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("ourz", "trace: names='ourz': there is no module ourz"),
        (("ours", "ours.layer"), "trace: names='ours.layer': there is no module ours.layer"),
        ("jax", "the functions of jax itself are never shown as yours"),
        (["jax.numpy"], "the functions of jax itself are never shown as yours"),
        ("taxpr", "the functions of taxpr itself are never shown as yours"),
        ("itertools", "itertools is not written in Python"),
        (3, 'names=3: give True, False, None, "cotangents", or names of modules'),
        (("ours", 3), r"names=\('ours', 3\): give True, False"),
        ("", "names='': give True"),
    ],
)
def test_what_is_no_library_is_refused_by_name(library, names, says):
    with pytest.raises(taxpr.ArgumentError, match=says):
        taxpr.trace(lambda x: x, names=names)


def test_a_module_that_was_never_imported_is_not_imported(library, tmp_path):
    (tmp_path / "lib" / "site-packages" / "ours" / "late.py").write_text("raise ImportError\n")
    importlib.invalidate_caches()
    with pytest.warns(taxpr.UnusedNamesWarning, match="no function of ours.late made an equation"):
        program = taxpr.trace(lambda x: library.dense(x, x), names=("ours.late", "ours"))(X)
    assert "dense.out" in texts(program)
    assert "ours.late" not in sys.modules


def test_only_libraries_of_which_nothing_is_in_the_program_are_warned_of(library):
    def f(x):
        return library.curved(x)

    with pytest.warns(taxpr.UnusedNamesWarning, match="no function of other made an equation of f"):
        taxpr.trace(f, names=("ours", "other"))(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        taxpr.trace(f, names=["ours"])(X)
        taxpr.trace(f, names=["ours"])(X)  # of which JAX kept the inner jaxprs


def test_a_variable_of_a_library_is_edited_where_its_function_is_named(library):
    def f(x):
        return library.dense(x, x)

    changed = taxpr.edit(f, {"ours.layers.dense.scaled": "x * 5"})
    np.testing.assert_allclose(changed(X), np.tanh(5 * X * X) + 1, rtol=1e-6)
    program = taxpr.trace(changed, names="ours")(X)
    assert "dense.scaled" in texts(program)


def test_a_program_of_a_program_keeps_its_libraries(library):
    program = taxpr.trace(lambda x: library.dense(x, x), names="ours")(X)
    again = taxpr.trace(jax.grad(lambda x: program(x) * 2))(X)
    assert "hidden = x * self.w" in statements(again)
