"""`taxpr.cotangent`: the cotangents of variables in programs that differentiate."""

import pathlib
import re
import types

import cotangent_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from cotangent_programs import LOSSES, W, X
from jax import lax

import taxpr
from taxpr import SelectorError, cotangent, var

_ADDED = re.compile(r"^( *)# ∂ (\w+)$", re.MULTILINE)


def by_hand(loss):
    """The cotangents in a loss of the program file: zeros are added in its source."""
    file = pathlib.Path(cotangent_programs.__file__)
    source = file.read_text(encoding="utf-8")
    added = types.ModuleType("by_hand")
    added.plus = lambda name, x: (
        jax.tree.map(jnp.add, x, added.zeros[name]) if (name in added.zeros) else x
    )
    exec(_ADDED.sub(r"\1\2 = plus('\2', \2)", source), vars(added))

    def gradient(zeros):
        def with_zeros(zeros):
            added.zeros = zeros
            return getattr(added, loss.__name__)(W, X)

        return jax.grad(with_zeros)(zeros)

    return gradient


def names_in(loss):
    """The variables of a loss, and of what it calls, whose cotangents are compared."""
    program = taxpr.trace(jax.grad(loss), names=True)(W, X)
    lines = pathlib.Path(cotangent_programs.__file__).read_text(encoding="utf-8").splitlines()
    found = {}
    for one in program.variables():
        name = lines[one.line].strip().removeprefix("# ∂ ")
        if lines[one.line].strip() == f"# ∂ {name}" and name == one.name:
            found.setdefault(one.name, []).append(one)
    return found


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_cotangents_are_derivatives_with_respect_to_zeros_that_are_added_by_hand(loss):
    found = names_in(loss)
    assert found
    # What was bound there is the last of them, as a parameter has the name before it.
    where = [cotangent(var(name, line=held[-1].line)) for name, held in found.items()]
    collected = jax.jit(taxpr.collect(jax.grad(loss), where))
    out, values = collected(W, X)
    assert_close(out, jax.grad(loss)(W, X))
    zeros = {}
    for name, held in found.items():
        held.sort(key=lambda one: one.path)
        of = {one.path: jnp.zeros(one.aval.shape, one.aval.dtype) for one in held}
        tree = {"a": of["['a']"], "b": (of["['b'][0]"], of["['b'][1]"])} if len(of) > 1 else of[""]
        zeros[name] = tree
    expected = by_hand(loss)(zeros)
    for name, held in found.items():
        for one, derivative in zip(held, jax.tree.leaves(expected[name]), strict=True):
            [value] = [x for key, x in values.items() if key.split("#")[0] == f"∂ {one.text}"]
            assert_close(getattr(value, "value", value), derivative)
    rec = taxpr.watch(jax.grad(loss), where)(W, X)
    assert_close(
        [rec[key].value for key in values], [getattr(x, "value", x) for x in values.values()]
    )


def test_those_of_statements_in_one_line_are_those_of_lines_of_their_own():
    def together(w, x):
        h = x @ w; a = jnp.sum(v := jnp.sin(h)) * v + h; b = a + h  # fmt: skip  # noqa: E702
        return jnp.sum(b * v)

    def apart(w, x):
        h = x @ w
        v = jnp.sin(h)
        a = jnp.sum(v) * v + h
        b = a + h
        return jnp.sum(b * v)

    where = [cotangent(var(name)) for name in "hvab"]
    found, expected = (taxpr.collect(jax.grad(loss), where)(W, X) for loss in (together, apart))
    assert len(expected[1]) == 4
    assert_close(found, expected)


def test_in_a_scan_there_is_one_for_each_iteration():
    def loss(w, x):
        def step(carry, k):
            carry = jnp.tanh(carry @ w) * k
            z = jnp.sin(carry)
            return carry + z, z

        last, zs = lax.scan(step, x, jnp.arange(1.0, 5.0))
        return jnp.sum(last * zs[0])

    def by_hand(zeros):
        def step(carry, row):
            k, zero, other = row
            carry = jnp.tanh(carry @ W) * k + zero
            z = jnp.sin(carry) + other
            return carry + z, z

        last, zs = lax.scan(step, X, (jnp.arange(1.0, 5.0), *zeros))
        return jnp.sum(last * zs[0])

    expected = jax.grad(by_hand)((jnp.zeros((4, 3)),) * 2)
    where = [cotangent(var("carry", occurrence=1)), cotangent("z")]
    values = taxpr.collect(jax.grad(loss), where)(W, X)[1]
    assert_close([values["∂ carry"], values["∂ z"]], expected)
    rec = taxpr.watch(jax.value_and_grad(jax.checkpoint(loss)), where)(W, X)
    assert_close([rec["∂ carry"].value, rec["∂ z"].value], expected)
    assert rec["∂ z"].line.endswith(f":{loss.__code__.co_firstlineno + 3}")
    later = taxpr.collect(jax.grad(loss), where)
    assert_close(jax.jit(later)(W, X)[1], values)


def test_each_example_of_a_vmap_has_its_own():
    def loss(w, x):
        h = jnp.sin(x @ w)
        return jnp.sum(h**2) + h[0]

    xs = jnp.stack([X, X * 2])
    per_example = jax.vmap(jax.grad(loss), in_axes=(None, 0))
    [(name, values)] = taxpr.collect(per_example, cotangent(var("h")))(W, xs)[1].items()
    h = jnp.sin(xs @ W)
    assert name == "∂ h"
    assert_close(values, 2 * h + jnp.asarray([[1.0, 0, 0]]))


def test_a_training_step_has_those_of_its_loss():
    def loss(w, x):
        h = jnp.tanh(x @ w)
        return jnp.sum(h * h)

    def step(w, x):
        value, gradient = jax.value_and_grad(loss)(w, x)
        new = w - 0.1 * gradient
        return new, value

    h = jnp.tanh(X @ W)
    for program in (step, jax.jit(step)):
        out, values = taxpr.collect(program, cotangent(var("h")))(W, X)
        assert_close(values, {"∂ h": 2 * h})
        assert_close(out, step(W, X))
        changed = taxpr.inject(program, {cotangent(var("h")): taxpr.zero()})
        assert_close(changed(changed.init(W, X), W, X)[0], (W, jnp.sum(h * h)))


def test_an_injector_changes_the_cotangent_of_that_value_alone():
    def loss(w, x):
        a = x @ w
        b = jnp.sin(x) * w[0]
        y = a + b
        return jnp.sum(y)

    def by_hand(factor):
        return jax.grad(lambda w: jnp.sum(factor * (X @ w) + jnp.sin(X) * w[0]))(W)

    # The cotangents of all three are one value of the program.
    gradient = jax.grad(loss)
    changed = taxpr.inject(gradient, {cotangent(var("a")): taxpr.scale(5.0)})
    assert_close(changed(changed.init(W, X), W, X)[0], by_hand(5.0))
    both = taxpr.inject(gradient, {cotangent("y"): taxpr.scale(2.0), cotangent("a"): taxpr.zero()})
    assert_close(both(both.init(W, X), W, X)[0], 2 * by_hand(0.0))
    assert both(both.init(W, X), W, X)[1].keys() == {"∂ y", "∂ a"}
    program = taxpr.trace(gradient, names="cotangents")(W, X)
    planted = program.plant({cotangent(var("a")): jnp.full(3, 5.0)})
    assert_close(planted(W, X), by_hand(5.0))
    assert_close(program(W, X), gradient(W, X))
    same = program.collect([var("y"), cotangent("y"), cotangent("b"), var("w")])(W, X)[1]
    assert list(same) == ["w", "y", "∂ y", "∂ b"]
    assert_close(same["∂ b"], jnp.ones(3))


def test_tags_have_cotangents_by_their_names():
    def loss(w, x):
        return jnp.sum(taxpr.tag({"h": x @ w, "n": 3}, name="token")["h"] ** 2)

    found = taxpr.collect(jax.grad(loss), cotangent("token"))(W, X)[1]
    assert_close(found, {"∂ token['h']": 2 * (X @ W)})
    marked = taxpr.collect(jax.grad(loss), ["token", cotangent("token")])(W, X)[1]
    assert marked.keys() == {"token", "∂ token['h']"}


def test_one_value_has_one_cotangent_whichever_variable_held_it():
    def part(u):
        return jnp.sum(u * 3)

    def loss(w, x):
        h = x @ w
        return part(h) + jnp.sum(h)

    for where in (cotangent(var("part.u")), cotangent(var("h"))):
        [value] = taxpr.collect(jax.grad(loss), where)(W, X)[1].values()
        assert_close(value, jnp.full(3, 4.0))


def test_the_innermost_derivative_is_meant():
    def loss(w, x):
        h = x @ w
        return jnp.sum(h**3)

    def norm(w, x):
        return jnp.sum(jax.grad(loss)(w, x) ** 2)

    for outer in (jax.grad(norm), lambda w, x: jax.jvp(jax.grad(loss), (w, x), (w, x))):
        found = taxpr.collect(outer, cotangent(var("h")))(W, X)[1]
        assert_close(found, {"∂ h": 3 * (X @ W) ** 2})


def test_maybe_and_lists():
    program = taxpr.trace(jax.grad(cotangent_programs.plain), names="cotangents")(W, X)
    where = cotangent([var("h"), taxpr.maybe(var("x")), taxpr.maybe("nothing")])
    assert list(program.collect(where)(W, X)[1]) == ["∂ h"]
    assert list(taxpr.watch(program, where)(W, X)) == ["∂ h"]
    assert program.until(cotangent("h"))(W, X).keys() == {"∂ h"}
    assert program.axes(cotangent("h")) == {"∂ h": ("token 0",)}
    [value] = taxpr.find_values(program, cotangent("h"))
    assert value.aval.shape == (3,)


def _called_twice(w, x):
    @jax.jit
    def layer(u):
        h = jnp.sin(u @ w)
        return h

    return jnp.sum(layer(layer(x)))


def _used_before(w, x):
    h = []
    y = h.append(x @ w) or jnp.sum(h[0]) * h[0]
    return jnp.sum(y)


def _stopped(w, x):
    h = lax.stop_gradient(x @ w)
    n = jnp.argmax(h)
    unused = x @ w
    del unused
    return jnp.sum(h * w[n])


def _twice(w, x):
    @jax.jit
    def inner(w):
        h = x @ w
        return jnp.sum(h**3)

    return jnp.sum(jax.grad(inner)(w) ** 2)


@pytest.mark.parametrize(
    ("loss", "where", "message"),
    [
        (_called_twice, cotangent(var("h", occurrence=0)), "traced once and is called 2 times"),
        (_used_before, cotangent("h[0]"), "before the end of the line that binds it"),
        (_stopped, cotangent(var("h")), "h has no cotangent"),
        (_stopped, cotangent(var("n")), "n has no cotangent"),
        (_stopped, cotangent(var("unused")), "unused has no cotangent"),
        (_stopped, cotangent(var("x")), "x has no cotangent"),
        (_stopped, cotangent(var("hh")), "Nearest: h"),
        (_twice, cotangent(var("h")), "h is differentiated 2 times, at "),
    ],
)
def test_what_has_no_cotangent_of_its_own_is_refused(loss, where, message):
    with pytest.raises(SelectorError, match=message):
        taxpr.collect(jax.grad(loss), where)(W, X)


def test_programs_that_know_no_cotangents_say_so():
    gradient = jax.grad(cotangent_programs.plain)
    for names in (False, True):
        program = taxpr.trace(gradient, names=names)(W, X)
        with pytest.raises(SelectorError, match='names="cotangents"'):
            program.collect(cotangent(var("h")))
    program = taxpr.trace(gradient, names="cotangents")(W, X)
    with pytest.raises(SelectorError, match="Select cotangents first"):
        program.tag_at("in0", name="w").collect(cotangent("h"))
    with pytest.raises(SelectorError, match="a tag at it would mean more"):
        program.tag_at(cotangent("h"), name="g")
    with pytest.raises(SelectorError, match="cotangent: 3 is an int"):
        cotangent(3)


def test_what_is_traced_so_is_not_mixed_with_what_is_not():
    inner = jax.jit(lambda u: jnp.sin(u) * u)

    def loss(w, x):
        h = inner(x @ w)
        return jnp.sum(h)

    plain = str(jax.make_jaxpr(jax.grad(loss))(W, X))
    program = taxpr.trace(jax.grad(loss), names="cotangents")(W, X)
    assert str(jax.make_jaxpr(jax.grad(loss))(W, X)) == plain
    assert "tag" not in str(program.jaxpr)
    assert not program.tags()
    assert np.array_equal(program(W, X), jax.grad(loss)(W, X))


def test_what_flows_back_to_a_result_is_one():
    """JAX writes it as a number, which no equation makes."""

    def loss(x):
        y = jnp.sin(x)
        out = y * 3.0
        return out

    back = taxpr.cotangent("out")
    doubled = taxpr.inject(jax.grad(loss), taxpr.scale(2.0), where=back)
    assert doubled(doubled.init(1.0), 1.0)[0] == pytest.approx(6.0 * np.cos(1.0))
    assert taxpr.watch(jax.grad(loss), where=back)(1.0)["∂ out"].value == 1.0
    assert taxpr.watch(loss, grads=True)(1.0)["∂ out"].value == 1.0
    assert taxpr.collect(jax.grad(loss), where=[back, taxpr.cotangent("y")])(1.0)[1] == {
        "∂ out": 1.0,
        "∂ y": 3.0,
    }
