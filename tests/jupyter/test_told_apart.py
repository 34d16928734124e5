"""Lines from a node with several values say which of them they carry."""

import jax
import jax.numpy as jnp
import pytest

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._text.paths import together


def lines_of(fun, *args, budget=40):
    """For each line the first lines of its ends, and its texts at both ends."""
    picture = draw(taxpr.trace(fun, names=True)(*args), budget=budget).picture
    titles = {node.id: node.lines[0] for node in picture.nodes}
    return [(titles[e.source], titles[e.target], e.tail, e.head) for e in picture.edges]


def split(key, x):
    key, sub = jax.random.split(key)
    noise = jax.random.normal(sub, x.shape)
    return x + noise, jax.random.uniform(sub, x.shape), key


def test_a_fork_is_told_from_two_values():
    found = lines_of(split, jax.random.key(0), jnp.ones(3), budget=8)
    tails = [tail for source, _, tail, _ in found if source.startswith("key, sub")]
    assert sorted(tails) == ["key", "sub", "sub"]


def moments(x):
    mean, scale = x.mean(0, keepdims=True), x.std(0, keepdims=True)
    return mean, scale


def whitened(x):
    mean, scale = moments(x)
    centred = jnp.sin(x.sum() - mean * 2)
    return jnp.cos(centred) / scale, jnp.tanh(mean)


def test_the_results_of_one_call_have_their_names_on_its_lines():
    found = lines_of(whitened, jnp.ones((4, 3)), budget=5)
    tails = [tail for source, _, tail, _ in found if source.startswith("mean, scale")]
    assert tails == ["mean", "scale, mean"]


def test_one_value_with_two_ends_has_no_label():
    def once(x):
        y = jnp.sin(x) * 2
        return jnp.cos(y), jnp.tan(y)

    assert {tail for _, _, tail, _ in lines_of(once, jnp.ones(3))} == {""}


def dense(layer, x):
    return layer["w"] @ x + layer["b"]


def layers(params, x):
    one, two, three, four = (params[name] for name in ("one", "two", "three", "four"))
    x = jnp.tanh(dense(one, x))
    x = jnp.tanh(dense(two, x))
    x = jnp.tanh(dense(three, x))
    return dense(four, x)


def test_parts_of_a_bundle_have_names_where_they_end():
    layer = {"w": jnp.ones((3, 3)), "b": jnp.ones(3)}
    params = dict.fromkeys(("one", "two", "three", "four"), layer)
    found = lines_of(layers, params, jnp.ones(3), budget=4)
    heads = [head for source, _, tail, head in found if source == "params" and tail == "×2"]
    assert heads == [f"params['{name}']" for name in ("one", "two", "three", "four")]


def test_an_operand_that_the_title_names_has_its_name():
    def named(x, y):
        one = jnp.sin(x) * 2 + 1
        other = jnp.cos(y) * 2 + 1
        difference = one - other
        return jnp.tan(difference * 2 + 1)

    found = lines_of(named, 1.0, 2.0, budget=4)
    heads = [head for _, target, _, head in found if target == "difference = one - other"]
    assert heads == ["one", "other"]


def test_what_a_choice_makes_has_a_name_on_paper_too():
    def chosen(params, x):
        params = jax.lax.cond(x > 0, lambda p: jax.tree.map(jnp.sin, p), lambda p: p, params)
        return [2 * p for p in params["new"]], params["step"]

    params = {"new": [jnp.ones(3)] * 9, "step": jnp.ones(())}
    svg = draw(taxpr.trace(chosen, names=True)(params, 1.0), budget=60, style="paper").svg()
    assert "params['new']</text>" in svg
    assert "></text>" not in svg


def test_a_bundle_of_results_says_which_variables_it_holds():
    def step(params, moments, x):
        moments = jax.tree.map(lambda m, p: 0.9 * m + x * p, moments, params)
        updated = jax.tree.map(lambda p, m: p - m, params, moments)
        norm = sum(jnp.sum(m) for m in moments)
        return (updated, moments), (norm, jnp.tan(norm))

    picture = draw(taxpr.trace(jax.jit(step), names=True)([1.0] * 9, [1.0] * 9, 2.0)).picture
    lines = [node.lines for node in picture.nodes if node.kind == "output"]
    assert lines[0] == ("out[0]", "18 arrays", "updated 9, moments 9")


WEIGHTS = {name: jnp.ones((3, 3)) for name in ("wte", "wq", "wk", "wv", "wo", "up", "down")}


def with_decay(weights, x, kept):
    x = x + sum(jnp.mean(weight) for weight in weights.values())
    for _ in range(8):
        x = jnp.tanh(x @ weights["wq"]) * 2 + 1
    norms = jnp.stack([x.sum() * weights[name].sum() for name in weights if name not in kept])
    return x, norms, jnp.sin(norms)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ((), None),
        (("wte",), "all but wte"),
        (("wte", "up", "down"), "all but down, up, wte"),
        (("wte", "up", "down", "wq"), "wk, wo, wv of 7"),
        (("wte", "wo", "wv", "wq"), "down, up, wk of 7"),
    ],
)
def test_a_part_of_a_bundle_says_which(kept, said):
    program = taxpr.trace(lambda weights, x: with_decay(weights, x, kept), names=True)
    nodes = draw(program(WEIGHTS, jnp.ones((2, 3))), budget=40).picture.nodes
    (whole,) = (node for node in nodes if node.lines[:2] == ("weights", "7 arrays"))
    assert whole.lines[2:] == ("down, up, wk, wo, wq, wte,", "wv")
    (stub,) = (node for node in nodes if "stub" in node.marks and node.lines[0] == "weights")
    assert stub.lines[1:] == ((said,) if said else ())


def test_a_part_of_the_picture_says_the_same():
    """It has only the values that go into the part, and knows the others of a bundle."""
    program = taxpr.trace(lambda weights, x: with_decay(weights, x, ("wte", "up")), names=True)
    drawing = draw(program(WEIGHTS, jnp.ones((2, 3))), budget=8)
    (norms,) = (node for node in drawing.picture.nodes if node.lines[0].startswith("norms = "))
    into = [e for e in drawing.picture.edges if (e.source, e.target) == ("group:in0-6", norms.id)]
    assert [edge.head for edge in into] == ["weights: all but up, wte"]
    (loop,) = (node for node in drawing.picture.nodes if node.lines[0].startswith("x = x + sum"))
    for address, some in ((norms.fold, ("all but up, wte",)), (loop.fold, ())):
        picture = drawing.builder.part(address, [address])
        stubs = [n.lines for n in picture.nodes if "stub" in n.marks and n.lines[0] == "weights"]
        assert {*stubs} <= {("weights", *some)}
        heads = [e.head for e in picture.edges if e.head.startswith("weights: ")]
        assert {*heads} <= {f"weights: {text}" for text in some}


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["p['a']['w']", "p['a']['b']"], ("p['a']", False)),
        (["p['a']", "p['b']"], ("p['a'], ['b']", True)),
        (["p['a']['w']", "p['b']['w']", "p['b']['b']"], ("p['a'], ['b']", False)),
        (["m", "v"], ("m, v", True)),
        (["grads['w']", "grads['b']", "loss"], ("grads, loss", False)),
        ([f"layers[{k}]" for k in range(20)], ("layers", False)),
        ([f"draws['{k}']" for k in ("alpha", "sigma", "tau")], ("draws: alpha, sigma, tau", True)),
        ([f"draws['{k}']" for k in ("alpha", "sigma", "theta")], ("draws", False)),
        (["a_long_name_of_one", "another_name_of_one"], ("a_long_name_of_one, …", False)),
        (["x"], ("x", True)),
    ],
)
def test_what_names_have_in_common(names, text):
    assert together(names, 24) == text
