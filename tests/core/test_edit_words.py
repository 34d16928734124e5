"""What `edit` takes for a variable, and what it says of what it cannot take."""

import importlib.util
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr

X = jnp.arange(6.0).reshape(2, 3) / 7 + 0.1
HALF = taxpr.scale(0.5)


def net(x):
    hidden = jnp.tanh(x)
    total = hidden.sum()
    return total


def step(x):
    loss, grad = jax.value_and_grad(net)(x)
    return loss, grad


def halves(x):
    total = jnp.tanh(x).sum()
    return 0.5 * total


def two_ways(x):
    total = jnp.sin(x).sum()
    if x.ndim == 2:
        other = jnp.cos(x).sum()
        return other
    return total


def same(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("change", ["0.5 * total", "0.5 * result", "return 0.5 * total"])
def test_what_a_function_returns_has_the_name_that_it_has_in_the_source(change):
    edited = taxpr.edit(net, "net.return", change)
    same(edited(X), halves(X))
    same(jax.grad(edited)(X), jax.grad(halves)(X))


def test_a_return_statement_among_several():
    first = two_ways.__code__.co_firstlineno
    edited = taxpr.edit(two_ways, taxpr.var("two_ways.return", line=first + 4), "return other * 3")
    same(edited(X), jnp.cos(X).sum() * 3)
    with pytest.raises(taxpr.ArgumentError, match=rf"lines {first + 4}, {first + 5} return\. Say"):
        taxpr.edit(two_ways, "two_ways.return", "return other * 3")(X)
    with pytest.raises(taxpr.ArgumentError, match=r"no 'other' where .* is called result there"):
        taxpr.edit(two_ways, "two_ways.return", "other * 3")(X)


def test_the_name_of_one_of_several_values():
    def f(x):
        for _ in range(3):
            x = x * 2.0
        return x

    same(taxpr.edit(f, "x#2", "x * 10")(X), X * 2 * 2 * 10 * 2)


@jax.custom_vjp
def ruled(x):
    inner = jnp.sin(x)
    return inner


def ruled_fwd(x):
    ahead = jnp.sin(x)
    return ahead, x


def ruled_bwd(x, g):
    return (g * jnp.cos(x),)


ruled.defvjp(ruled_fwd, ruled_bwd)


@jax.custom_jvp
def ruled_ahead(x):
    inner = jnp.sin(x)
    return inner


@ruled_ahead.defjvp
def its_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    ahead = jnp.sin(x)
    return ahead, jnp.cos(x) * t


@pytest.mark.parametrize(
    ("where", "change", "message"),
    [
        ("net.*", HALF, r"'net\.\*' is a glob\. Give each variable with its change, in a mapping"),
        ("hid?en", HALF, "is a glob"),
        (taxpr.var("hid*"), HALF, "is a glob"),
        ("0:tanh", HALF, r"'0:tanh' is the address of a value .* inject\(fun"),
        (taxpr.Address("in0"), HALF, "is the address of a value"),
        ("∂ hidden", HALF, "is the gradient of a variable"),
        (taxpr.cotangent("hidden"), HALF, "of the type Cotangent"),
        ({"hidden": {"a": "b"}}, None, "changes nothing"),
        ("hidden", jnp.ones((3, 3)), r"hidden \(test_edit_words\.py:\d+\): .* and hidden \(2, 3\)"),
        ("hidden", {"in": X}, r"value is a dict, where hidden has an array"),
        ("hidden", taxpr.scale(jnp.ones((5, 3))), r"factor has shape \(5, 3\) and hidden \(2, 3\)"),
        ("net.total", "return 0.5 * total", "does not bind total, which the line there binds"),
        ("net", "net", r"it is a function \(.*\) and no variable\. Give what makes another"),
        (net, lambda net: 3, "made 3 of the function net .* of the type int and no function"),
        ("hidden", lambda hidden: None, "None for hidden"),
    ],
)
def test_a_mistake_is_told(where, change, message):
    given = (where,) if isinstance(where, dict) else (where, change)
    with pytest.raises(taxpr.TaxprError, match=message):
        taxpr.edit(step, *given)(X)


def test_arrays_are_told_by_their_types():
    with pytest.raises(taxpr.ArgumentError, match=r"edit\(step, \(\{'in': float32\[2, 3\]\},\), "):
        taxpr.edit(step, ({"in": X},))
    with pytest.raises(taxpr.ArgumentError, match=r"where=\[\{'in': float32\[2, 3\]\}\] is of "):
        taxpr.edit(step, [{"in": X}], HALF)
    with pytest.raises(TypeError, match=r"changed by scale\(factor=float32\[2, 3\]\)"):
        taxpr.edit(lambda x: bad(x), "bad.x", taxpr.scale(X))(X)


def bad(x):
    return x @ x


@pytest.mark.parametrize(
    ("fun", "where", "rule"),
    [(ruled, "ruled.inner", "ruled_fwd"), (ruled_ahead, "ruled_ahead.inner", "its_rule")],
)
def test_a_function_whose_rule_runs_in_its_place_is_named(fun, where, rule):
    def f(x):
        y = fun(x)
        return y.sum()

    same(taxpr.edit(f, where, HALF)(X), (jnp.sin(X) * 0.5).sum())
    with pytest.raises(taxpr.SelectorError, match=rf"in its place: {rule} \(.*'{rule}\."):
        taxpr.edit(jax.grad(f), where, HALF)(X)
    same(taxpr.edit(jax.value_and_grad(f), f"{rule}.ahead", HALF)(X)[0], f(X) * 0.5)


def test_variables_of_a_library_by_their_whole_path():
    def f(x):
        return jax.nn.log_softmax(x)

    same(taxpr.edit(f, "jax.nn.log_softmax.x", "x * 2")(X), f(X * 2))
    same(taxpr.edit(f, "jax.nn.log_softmax.x", lambda x: x * 2)(X), f(X * 2))
    same(taxpr.edit(step, f"{__name__}.net.hidden", HALF)(X), taxpr.edit(step, "hidden", HALF)(X))
    with pytest.raises(taxpr.SelectorError, match=r"Nearest: .*log_softmax\.x"):
        taxpr.edit(f, "jax.nn.log_softmax.xs", HALF)(X)


def calls_net(x):
    return net(x) * 2


def twice_net(x):
    return net(x) * 2


def scaled_net(net):
    def scaled(x):
        return net(x) * 3

    return scaled


@jax.jit
def jitted(x):
    return jnp.sin(x)


def uses_jitted(x):
    return jitted(x) + jitted(x * 2) + jitted(x)


def twice_jitted(x):
    return jitted(x) * 2 + jitted(x * 2)


def sum_to(n, x):
    return x if n == 0 else x + sum_to(n - 1, x)


def test_what_takes_the_place_of_a_function_may_call_it():
    for where, change in ((net, lambda _: calls_net), (f"{__name__}.net", calls_net)):
        by_hand, edited = jax.value_and_grad(lambda x: net(x) * 2), taxpr.edit(step, where, change)
        same(edited(X), by_hand(X))
        same(jax.jit(edited)(X), jax.jit(by_hand)(X))
    inner = taxpr.edit(step, net, lambda _: calls_net)
    both = taxpr.edit(inner, net, lambda _: lambda x: net(x) + 1)
    same(both(X), jax.value_and_grad(lambda x: net(x) * 2 + 1)(X))
    three = taxpr.edit(taxpr.edit(inner, net, scaled_net), net, lambda _: twice_net)
    same(three(X), jax.value_and_grad(lambda x: net(x) * 2 * 3 * 2)(X))


@pytest.mark.parametrize("whole", [lambda f: f, jax.jit], ids=["eager", "jitted"])
def test_a_jitted_function_that_is_called_by_what_takes_its_place(whole):
    """JAX traces it once in its own place, and once within."""
    edited = taxpr.edit(uses_jitted, jitted, lambda _: twice_jitted)
    wanted = sum(jnp.sin(y) * 2 + jnp.sin(y * 2) for y in (X, X * 2, X))
    for _ in range(2):
        np.testing.assert_allclose(whole(edited)(X), wanted, rtol=1e-6)
    np.testing.assert_allclose(whole(uses_jitted)(X), jnp.sin(X) * 2 + jnp.sin(X * 2), rtol=1e-6)


def test_a_function_that_calls_itself_is_changed_in_each_call():
    doubled = taxpr.edit(lambda x: sum_to(2, x), sum_to, lambda f: lambda n, x: f(n, x) * 2)
    same(doubled(1.0), ((1.0 * 2 + 1.0) * 2 + 1.0) * 2)
    by_name = taxpr.edit(lambda x: sum_to(2, x), sum_to, lambda f: lambda n, x: sum_to(n, x) * 2)
    same(by_name(1.0), ((1.0 * 2 + 1.0) * 2 + 1.0) * 2)


def test_an_expression_for_a_function_sees_its_module():
    text = str(jax.make_jaxpr(taxpr.edit(step, net, "jax.checkpoint(net)"))(X))
    assert "remat2" in text or "checkpoint" in text
    same(taxpr.edit(step, net, "lambda x: net(x) * 2")(X), taxpr.edit(step, net, scaled(2))(X))


def scaled(factor):
    return lambda net: lambda x: net(x) * factor


# ---- selectors of other functions ------------------------------------------------


def test_a_name_that_nothing_has():
    for ask in (taxpr.watch, taxpr.collect, lambda f, one: taxpr.inject(f, HALF, where=one).init):
        with pytest.raises(taxpr.SelectorError, match=r"no variable.* has that name.*: hidden\."):
            ask(step, "hiden")(X)
    with pytest.raises(taxpr.SelectorError) as seen:
        taxpr.watch(step, "hiden")(X)
    assert seen.type.__name__ == "SelectorError"
    assert isinstance(seen.value, taxpr.AddressError)


def test_a_line_that_calls_a_library(tmp_path):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "some_library.py").write_text(
        "import jax\nimport jax.numpy as jnp\n\ndef layer(x):\n    return jnp.sin(x) * 2\n"
        "\n@jax.jit\ndef jitted(x):\n    return jnp.cos(x)\n"
    )
    spec = importlib.util.spec_from_file_location("some_library", folder / "some_library.py")
    library = sys.modules["some_library"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)

    def f(x):
        y = library.layer(x)
        z = library.jitted(y)
        return y + z

    first, program = f.__code__.co_firstlineno, taxpr.trace(f)(X)

    def at(where):
        return [one.address for one in taxpr.find_values(program, taxpr.line(where))]

    assert at(first + 1) == at("some_library.py:5") == ["0:sin.0", "1:mul.0"]
    assert at(first + 2) == ["2:jit/call/0:cos.0", "2:jit.0"]


def test_a_context_that_was_made_without_the_edit_around_its_call():
    injected = taxpr.inject(net, taxpr.record(slots=1), where="total")
    edited = taxpr.edit(injected, "hidden", HALF)
    with pytest.raises(taxpr.ArgumentError) as info:
        edited(injected.init(X), X)
    assert "The edit of var('hidden') goes around this call" in str(info.value)
    assert "taxpr.edit(injected.init, where, change)(*args)" in str(info.value)
    _, ctx = edited(taxpr.edit(injected.init, "hidden", HALF)(X), X)
    with pytest.raises(taxpr.ArgumentError, match=r"put it around report, too: taxpr\.edit\("):
        injected.report(ctx, X)
    [report] = taxpr.edit(injected.report, "hidden", HALF)(ctx, X).values()
    same(report["values"][-1], jnp.sum(jnp.tanh(X) * 0.5))


@pytest.mark.parametrize("whole", [lambda f: f, jax.grad, jax.value_and_grad, jax.jit])
def test_an_injected_function_without_arguments(whole):
    injected = taxpr.inject(whole(net), HALF, where="hidden")
    for call in (injected.init, injected.skipped, lambda: injected.report({})):
        with pytest.raises(taxpr.ArgumentError, match=r"net\(x\) .* missing .* argument: 'x'"):
            call()
    with pytest.raises(taxpr.ArgumentError, match=r"missing .* 'x'.* takes the context first"):
        injected()


def test_an_injected_function_of_no_arguments_takes_its_context_nevertheless():
    def f():
        hidden = jnp.ones(3) * 2
        return hidden

    injected = taxpr.inject(f, HALF, where="hidden")
    with pytest.raises(taxpr.ArgumentError, match="takes its context first"):
        injected()
    same(injected(injected.init())[0], jnp.ones(3))


@pytest.mark.parametrize(
    ("where", "change", "value"),
    [
        ("hidden", "hidden == 1", r"float32\[2, 3\]"),
        ("hidden", lambda hidden: hidden > 0, r"float32\[2, 3\]"),
        ("net.return", "total == 1", r"float32\[\]"),
    ],
)
def test_a_truth_value_in_the_place_of_numbers_is_refused(where, change, value):
    with pytest.raises(taxpr.ArgumentError, match=rf"truth values of .*, which holds {value}"):
        taxpr.edit(step, where, change)(X)
    numbers = taxpr.edit(net, "hidden", "(hidden > 0.5).astype(hidden.dtype)")
    same(numbers(X), (jnp.tanh(X) > 0.5).astype(jnp.float32).sum())


def test_what_takes_the_place_of_a_function_and_makes_another_one_is_told():
    def f(x):
        return jax.nn.silu(x).sum()

    twice = lambda silu: lambda x: silu(x) * 2
    with pytest.raises(TypeError, match=r"takes the place of jax\.nn\.silu .* the function itself"):
        taxpr.edit(f, "jax.nn.silu", twice)(X)
    same(taxpr.edit(f, jax.nn.silu, twice)(X), (jax.nn.silu(X) * 2).sum())


@jax.jit
def decorated(
    q,
    scale=2.0,
):
    energy = (
        q * scale
    )  # fmt: skip
    return energy.sum()


@pytest.mark.parametrize(
    ("where", "change", "message"),
    [
        (taxpr.var("decorated.q", line=9999), HALF, r"it is bound in line {0}\."),
        ("decorated.q", "q = 3", r"'q = 3' \(test_edit_words\.py:{0}\): no assignment binds q"),
        ("decorated.q", "q @ q", r"var\('decorated\.q'\) \(test_edit_words\.py:{0}\) to 'q @ q'"),
        ("decorated.energy", "q = 3", r"'q = 3' \(test_edit_words\.py:{1}\) does not bind energy"),
        ("decorated.energy", "energy = 3", r"\(test_edit_words\.py:{1}\) was changed by 'energy"),
        ("decorated.return", "return q @ q @ 3", r"\(test_edit_words\.py:{2}\) was changed"),
        (decorated, lambda decorated: 3, r"of the function decorated \(test_edit_words\.py:{0}\)"),
    ],
)
def test_the_lines_in_errors_are_those_of_the_source(where, change, message):
    first = decorated.__wrapped__.__code__.co_firstlineno
    with pytest.raises(Exception, match=message.format(first + 1, first + 5, first + 8)):
        taxpr.edit(lambda x: decorated(x), where, change)(X)


def test_the_line_of_a_function_in_whose_place_another_one_runs_is_its_own():
    def f(x):
        return net(x)

    inner = taxpr.edit(f, net, lambda net: lambda x: net(x) * 2)
    with pytest.raises(taxpr.ArgumentError, match=r"made 3 of the function net \(test_edit_w"):
        taxpr.edit(inner, net, lambda net: 3)(X)


def test_the_nearest_names_are_apart():
    def f(features, feature_map):
        logits = features * feature_map
        return logits

    wrong = taxpr.edit(f, "logits", "feature * 2")
    with pytest.raises(taxpr.ArgumentError, match=r"Nearest: feature\w+, feature"):
        wrong(jnp.ones(2), jnp.ones(2))
