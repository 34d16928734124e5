"""What ends of nested jaxprs are called, and that the names are true."""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr_jupyter import draw
from taxpr_jupyter._analysis.names import numbered
from taxpr_jupyter._analysis.structural_hash import Keys
from taxpr_jupyter._drawing.build import build_picture
from taxpr_jupyter._text.paths import path_parts, shared_title
from taxpr_jupyter._tree.fold import Fold

X = np.float32(0.7)
V = np.asarray([0.3, -0.8, 1.1], np.float32)
TABLE = jnp.asarray([1.0, 2.0, 3.0])
LAYERS = 6


def labels(picture, cluster, kind):
    found = (n for n in picture.nodes if n.cluster == cluster and n.kind == kind)
    return [n.lines for n in found if "stub" not in n.marks]


def ends(fn, *args):
    picture = draw(fn, *args).picture
    (body,) = (c.id for c in picture.clusters if c.kind == "jaxpr")
    return [[lines[0] for lines in labels(picture, body, kind)] for kind in ("input", "output")]


def ends_of_the_last(fn, *args):
    """The same of the last loop of several."""
    picture = draw(fn, *args, budget=100).picture
    body = [c.id for c in picture.clusters if c.kind == "jaxpr"][-1]
    return [[lines[0] for lines in labels(picture, body, kind)] for kind in ("input", "output")]


def test_what_comes_from_an_argument_is_called_like_it():
    def fn(params, rate, ys):
        def step(p, y):
            return {"b1": p["b1"] * rate, "w1": p["w1"] + y}, p["b1"]

        return lax.scan(step, params, ys)

    ins, outs = ends(fn, {"b1": X, "w1": X}, X, V)
    carried = ["carry params['b1'] f32[]", "carry params['w1'] f32[]"]
    assert ins == ["const rate f32[]", *carried, "xs ys f32[]"]
    assert outs == [*carried, "ys out[1] f32[]"]


def test_a_constant_has_the_name_of_the_variable_that_is_it():
    bias, twice = jnp.arange(3.0), jnp.ones(3)
    again = twice

    def shifted(c):
        return c + bias

    def fn(x):
        def step(c, x):
            made = np.arange(3.0, dtype=np.float32)
            return jax.jit(shifted)(c) * TABLE + made + twice * again, x

        return lax.scan(step, x, V)

    drawing = draw(fn, X * TABLE)
    consts = [node.lines[0] for node in drawing.picture.nodes if node.kind == "const"]
    names = {"const TABLE f32[3]", "const bias f32[3]", "const V f32[3]"}
    assert names < set(consts)
    assert set(consts) - names == {"const f32[3]"}
    assert "const bias" in drawing.text()
    jitted = taxpr.trace(functools.partial(jax.jit(fn)))(X * TABLE)
    assert {node.lines[0] for node in draw(jitted).picture.nodes if node.kind == "const"} >= names
    edited = jitted.tag_at("in0", name="x").inject(taxpr.scale(jnp.full(3, 2.0)))
    assert [edited.const_name(one) for one in (TABLE, bias, twice)] == ["TABLE", "bias", ""]


@pytest.mark.parametrize("names", [True, False])
def test_further_inside_an_iteration_has_the_names_of_the_body(names):
    def fn(x, v):
        def step(c, e):
            return lax.cond(e > 0, lambda: c + e, lambda: c - e), None

        return lax.scan(step, x, v)[0]

    picture = draw(taxpr.trace(fn, names=names)(X, V)).picture
    assert labels(picture, "0:scan/body", "input")[1] == ("xs v f32[]",)
    (cond,) = {n.cluster for n in picture.nodes if "bar" in n.marks}
    assert [n.lines[0] for n in picture.nodes if "bar" in n.marks] == ["c f32[]", "e f32[]"]
    assert labels(picture, f"{cond}/branch0", "input") == [("c",), ("e",)]


def test_what_is_made_before_has_the_name_that_the_body_gives_it():
    def fn(x):
        body = lambda s: {"i": s["i"] + 1, "u": s["u"] * x}
        return lax.while_loop(lambda s: s["i"] < 3, body, {"i": 0, "u": jnp.sin(x)})["u"]

    picture = draw(fn, X).picture
    named = [("carry s['i'] i32[]",), ("carry s['u'] f32[]",)]
    assert not labels(picture, "1:while/cond", "input")  # the state is named once
    assert labels(picture, "1:while/body", "input") == [("const x f32[]",), *named]
    assert labels(picture, "1:while/body", "output") == named


def test_what_a_loop_takes_is_called_like_the_variable_that_holds_it():
    def fn(rate, xs):
        h = jnp.zeros(3)
        lr = taxpr.tag(rate / 2, name="lr")
        last = jnp.cos(rate)

        def step(carry, x):
            h, previous = carry
            return (h - lr * x * previous, x), None

        (h, _), _ = lax.scan(step, (h, last), xs)
        return h

    ins, outs = ends(fn, X, V)
    carried = ["carry h f32[3]", "carry previous f32[]"]
    assert ins == ["const lr f32[]", *carried, "xs f32[]"]
    assert outs == carried


def test_the_condition_of_a_loop_may_know_a_variable_for_the_state():
    def far(state):
        e, change = state
        return (change > 1e-6) & (e < 3)

    def improve(state):
        e, _ = state
        return e + 1.0, -e

    picture = draw(lambda e: lax.while_loop(far, improve, (e, jnp.inf)), X).picture
    named = [("carry e f32[]",), ("carry change f32[]",)]
    assert labels(picture, "0:while/body", "input") == named
    assert labels(picture, "0:while/body", "output") == named


def test_an_argument_that_is_passed_on_is_called_like_the_one_that_takes_it():
    def fn(x, batch):
        scaled = batch["a"] * 2
        return x + scaled

    picture = draw(lambda *args: fn(*args), X, {"a": X}).picture
    names = [node.lines[0] for node in picture.nodes if node.kind == "input"]
    assert names == ["x", "batch['a']"]


def test_no_role_looks_like_a_word_of_the_user():
    """An argument `y` was called `x 1`, and an output `y`."""

    def fn(x, y, ys):
        return lax.scan(lambda c, s: (c + s[0] * s[1], c), ys, (x, y))[1].sum()

    ins, outs = ends(fn, V, V, X)
    assert ins == ["carry c f32[]", "xs x f32[]", "xs y f32[]"]
    assert outs == ["carry c f32[]", "scan ys f32[]"]


def test_what_a_derivative_adds_up_is_called_like_its_sum():
    """Its carry begins with zeros, which have no name."""

    def loss(params, xs):
        def cell(h, x):
            new = jnp.tanh(params["w"] * h + params["b"] * x)
            return new, new * x

        return lax.scan(cell, 0.0, xs)[1].sum()

    def step(params, xs):
        grads = jax.grad(loss)(params, xs)
        return grads["w"] * 2, grads["b"] * 3

    ins, outs = ends_of_the_last(step, {"w": X, "b": X}, V)
    sums = {"carry grads['b'] f32[]", "carry grads['w'] f32[]"}
    assert sums <= {*ins}
    assert sums <= {*outs}
    ins, outs = ends_of_the_last(jax.grad(loss), {"w": X, "b": X}, V)
    sums = {"carry out['b'] f32[]", "carry out['w'] f32[]"}
    assert sums <= {*ins}
    assert sums <= {*outs}


def test_the_rows_of_a_scan_are_called_like_the_variable_of_an_iteration():
    def fn(xs):
        def step(c, x):
            error = x - c
            scaled = error * 2
            return c + scaled, (error, scaled)

        c, (errors, scales) = lax.scan(step, 0.0, xs)
        return c + errors.sum() * scales.sum()

    _, outs = ends(fn, V)
    assert outs == ["carry c f32[]", "ys error f32[]", "ys scaled f32[]"]


def test_one_array_in_two_places_is_told_apart():
    def fn(w):
        return lax.fori_loop(0, 3, lambda i, c: (c[1], c[0] * 2), (w, w))

    ins, outs = ends(fn, X)
    assert ins == outs == ["carry i i32[]", "carry c[0] f32[]", "carry c[1] f32[]"]


def test_one_array_in_two_roles_is_told_apart_further_inside():
    """What is carried was called like the const that it begins with, which it is only once."""

    def fn(w, xs):
        def body(c, x):
            d = lax.scan(lambda d, y: (d * c + w * y, None), x, xs)[0]
            return lax.scan(lambda e, y: (e * c, None), d, xs)[0], None

        return lax.scan(body, w, xs)[0]

    picture = build_picture(taxpr.trace(fn)(X, V))
    picture = build_picture(taxpr.trace(fn)(X, V), picture.foldable)
    place = "0:scan/body"
    found = [lines[0].split(" f32")[0] for lines in labels(picture, place, "input")]
    assert found == ["const w", "const xs", "carry c", "xs x"]
    first, second = (
        [lines[0].split(" f32")[0] for lines in labels(picture, f"{place}/{k}:scan/body", "input")]
        for k in range(2)
    )
    assert first == ["const c", "const w", "carry x", "xs"]
    assert second == ["const c", "carry e", "xs"]


def test_names_go_through_tags_and_into_what_is_nested_deeper():
    def fn(w, xs):
        w = taxpr.tag(w, name="w")
        inner = lambda c, x: lax.scan(lambda d, y: (d * w + y, None), c, x)
        return lax.scan(inner, X, xs)[0]

    picture = draw(fn, X, jnp.ones((2, 3))).picture
    assert ("const w f32[]",) in labels(picture, "0:scan/body", "input")
    deep = labels(picture, "0:scan/body/0:scan/body", "input")
    assert deep == [("const w f32[]",), ("carry d f32[]",), ("xs x f32[]",)]


def test_results_are_called_as_the_body_returns_them():
    def fn(x, v):
        made = lax.scan(lambda c, y: (c, {"loss": c * y, "n": y + 1}), x, v)[1]
        return made["loss"].sum() + made["n"].sum()

    assert ends(fn, X, V)[1][-2:] == ["ys['loss'] f32[]", "ys['n'] f32[]"]


def test_what_a_library_calls_its_arguments_is_not_shown():
    """But what the user calls them: a library wraps them in a PyTree of its own."""
    picture = draw(lambda probs, scores: jnp.where(probs > 0, scores, 2.0), V, V).picture
    assert labels(picture, "1:jit/call", "input") == [("condition",), ("scores",), ("y",)]
    mine = jax.jit(lambda a, b: a * b)
    picture = draw(lambda x, y: mine(x, y), V, V).picture
    assert labels(picture, "0:jit/call", "input") == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("carry params['w'][0]", ["carry params", "['w']", "[0]"]),
        ("carry 3", ["carry", " 3"]),
        ("scan ys['a b']", ["scan ys", "['a b']"]),
        ("model.layers[0].weight", ["model", ".layers", "[0]", ".weight"]),
        (r"p['x\n]']['w']", ["p", r"['x\n]']", "['w']"]),
        (r"""p["it's ]"][0]""", ["p", """["it's ]"]""", "[0]"]),
        ("p[a'b][0]", ["p", "[a'b]", "[0]"]),
    ],
)
def test_names_in_parts(name, parts):
    assert path_parts(name) == parts
    assert "".join(parts) == name


def test_titles_and_numbers():
    assert shared_title(["carry p['a']", "carry p['b']"]) == "carry p"
    # The first and the last have more in common than all.
    assert shared_title(["p['a']['w']", "p['b']['w']", "p['a']['b']"]) == "p"
    assert shared_title(["p['a']", "q", "p['b']"]) == "p['a'] … p['b']"
    assert numbered(["x", "carry", "x"]) == ["xs 0", "carry", "xs 1"]


# --- truth ----------------------------------------------------------------------------------------

# Every leaf has a length of its own, told by its name in the code.
LENGTHS = {"s['a']": 2, "s['b']": 3, "s['c']": 5, "z['u']": 7, "z['v']": 11, "t[0]": 13, "t[1]": 17}
LENGTHS |= {"t[2]": 19, "w": 23, "p['a']": 2, "p['b']": 3, "p['c']": 5, "xs['u']": 7}
LENGTHS |= {"xs['v']": 11, "['o']": 11, "['q']": 3, "q[0]": 13, "q[1]": 17, "q[2]": 19}
STATE = {"a": jnp.ones(2), "b": jnp.ones(3), "c": jnp.ones(5)}
STEPS = {"u": jnp.ones((4, 7)), "v": jnp.ones((4, 11))}
W = jnp.ones(23)


def scanned(p, xs, w):
    def body(s, z):
        a = s["a"] * jnp.sin(s["b"]).sum() * w.sum()
        c = taxpr.tag(s["c"] + z["u"].sum() * a.sum(), name="c")
        return {"a": a, "b": s["b"], "c": c}, {"o": z["v"] * c.sum(), "q": s["b"] * 2}

    return lax.scan(jax.checkpoint(body), p, xs)


def looped(q, w):
    def body(t):
        return t[0] + t[1].sum() * w.sum(), t[1], jnp.cos(t[2]) * t[1].sum()

    return lax.while_loop(lambda t: t[0].sum() + w.sum() < 10, body, q)


def total(out):
    return sum(x.sum() for x in jax.tree.leaves(out))


def stacked(args):
    return jax.tree.map(lambda x: jnp.stack([x] * 29), args)


TRANSFORMED = {
    "plain": lambda f: f,
    "jit": jax.jit,
    "vmap": lambda f: lambda *a: jax.vmap(f)(*stacked(a)),
    "jvp": lambda f: lambda *a: jax.jvp(f, a, a),
    "jvp_of_one": lambda f: lambda *a: jax.jvp(lambda x: f(x, *a[1:]), a[:1], a[:1]),
}
DIFFERENTIATED = {
    "grad": lambda f: jax.grad(lambda *a: total(f(*a))),
    "grad_of_jit": lambda f: jax.grad(lambda *a: total(jax.jit(f)(*a))),
    "vmap_of_grad": lambda f: lambda *a: jax.vmap(jax.grad(lambda *b: total(f(*b))))(*stacked(a)),
    "linearized": lambda f: lambda *a: jax.linearize(f, *a)[1](*a),
    "hessian": lambda f: lambda *a: jax.jvp(jax.grad(lambda *b: total(f(*b))), a, a),
}


@pytest.mark.parametrize(
    ("name", "transformed"),
    [
        *(("scanned", name) for name in (*TRANSFORMED, *DIFFERENTIATED)),
        *(("looped", name) for name in TRANSFORMED),
    ],
)
def test_names_are_true(name, transformed):
    fn, args = {
        "scanned": (scanned, (STATE, STEPS, W)),
        "looped": (looped, (tuple(jnp.ones(n) for n in (13, 17, 19)), W)),
    }[name]
    program = taxpr.trace((TRANSFORMED | DIFFERENTIATED)[transformed](fn))(*args)
    checked = _checked(program)
    assert checked or transformed in DIFFERENTIATED or transformed.startswith("jvp")


def test_names_are_true_of_a_program_with_injectors():
    assert _checked(taxpr.trace(scanned)(STATE, STEPS, W).inject(taxpr.count()))


def _checked(program):
    """Compares the names of all ends with their shapes; returns how many there are."""
    fold = Fold(program, 60, Keys())
    checked = 0
    todo = [fold.root]
    while todo:
        block = todo.pop()
        for item in _eqns(block.items):
            if taxpr.is_hop(item.eqn):
                fold.unfolded_cost(item)
                todo += [inner for inner, _ in item.blocks]
        sides = (block.names.ins, block.jaxpr.invars), (block.names.outs, block.jaxpr.outvars)
        for label, atom in itertools.chain(*(zip(*side, strict=True) for side in sides)):
            known = re.sub(r"^(carry|const|xs|ys|arg) ?", "", label)
            if known in LENGTHS and block.nested is not None:
                assert LENGTHS[known] in atom.aval.shape, (block.address, label, atom.aval)
                checked += 1
    return checked


def _eqns(items):
    for item in items:
        yield from _eqns(item.children) if item.is_group else [item]


# --- a training loop ------------------------------------------------------------------------------


def adam(params, xs, ys):
    """Adam by hand on an MLP, in a scan."""

    def loss(p, x, y):
        for k in range(LAYERS):
            x = x @ p[f"layer_{k}"]["w"] + p[f"layer_{k}"]["b"]
            x = jnp.tanh(x) if k < LAYERS - 1 else x
        return jnp.mean((x - y) ** 2)

    def step(c, b):
        p, m, v, t = c
        value, g = jax.value_and_grad(loss)(p, *b)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, g)
        p = jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-8), p, m, v)
        return (p, m, v, t + 1), value

    zeros = jax.tree.map(jnp.zeros_like, params)
    (params, *_), losses = lax.scan(step, (params, zeros, zeros, 0), (xs, ys))
    return params, losses


PARAMS = {
    f"layer_{k}": {"b": np.zeros((1, 4), np.float32), "w": np.ones((4, 4), np.float32)}
    for k in range(LAYERS)
}
BATCHES = np.ones((10, 2, 4), np.float32)


def test_a_training_loop_has_one_node_for_each_tree_that_it_carries():
    drawing = draw(adam, PARAMS, BATCHES, BATCHES)
    picture = drawing.picture
    (body,) = (c.id for c in picture.clusters if c.lines[-1] == "scan body ×10")
    layers = ("layer_0, layer_1, layer_2,", "layer_3, layer_4, layer_5")
    carried = [(f"carry {name}", "12 arrays", *layers) for name in ("params", "m", "v")]
    carried += [("carry t i32[]",)]
    assert labels(picture, body, "input")[:4] == labels(picture, body, "output")[:4] == carried
    assert labels(picture, body, "input")[4:] == [("xs f32[2,4]",), ("xs ys f32[2,4]",)]
    assert labels(picture, body, "output")[4:] == [("ys value f32[]",)]
    assert len([e for e in picture.edges if e.kind == "back"]) == 4
    # What they begin with takes no room either.
    zeros = [n for n in picture.nodes if n.lines[0] == "broadcast_in_dim(0.0)"]
    assert [n.lines[1] for n in zeros] == ["12 equations", "12 equations"][: len(zeros)]
    counts = picture.counts
    assert counts.drawn + sum(counts.folded.values()) == counts.total
    # And they can be unfolded.
    address = next(n.address for n in picture.nodes if n.lines == carried[0])
    shown = labels(drawing.unfold(address).picture, address, "input")
    assert shown[0] == ("carry params['layer_0']['b'] f32[1,4]",)
    assert len(shown) == 12


def test_what_a_part_of_a_bundle_stands_for_is_told_and_no_more():
    def net(p, x):
        for k in range(LAYERS):
            x = x @ p[f"layer_{k}"]["w"] + p[f"layer_{k}"]["b"]
            x = jnp.tanh(x) if k < LAYERS - 1 else x
        return x

    def twice(params, x):
        x = net(params, x)
        return net(params, x)

    picture = draw(twice, PARAMS, BATCHES[0]).picture
    (part,) = (n for n in picture.nodes if {"stub", "many"} <= {*n.marks})
    assert part.lines[0] == "params['layer_5']"
    _, *values = part.tooltip.split("\n")
    assert len(values) == 2
    assert all("['layer_5']" in value for value in values)
    picture = draw(adam, PARAMS, BATCHES, BATCHES).picture
    (edge,) = (e for e in picture.edges if e.source.startswith("group:in") and e.tail == "×12")
    values = edge.tooltip.split("\n")
    assert values[0].startswith("params['layer_0']['b'] = ")
    assert values[-1].startswith("params['layer_5']['w'] = ")


def test_groups_say_what_they_take_by_name():
    def fn(params):
        return jax.jit(lambda p: sum(p.values()))(params)

    params = {f"w{k:02}": V for k in range(30)}
    picture = build_picture(taxpr.trace(fn)(params), ())
    (edge,) = (e for e in picture.edges if e.target == "0:jit")
    assert edge.tooltip.split("\n")[0].startswith("params['w00'] = ")
    assert edge.tooltip.split("\n")[-1] == "and 19 more"


def test_the_moments_of_a_list_of_layers_are_one_node_each():
    layers = [{"b": jnp.ones(3), "w": jnp.ones((3, 3))} for _ in range(2)]

    def fn(params, xs):
        def step(carry, x):
            params, (moments, count) = carry
            moments = jax.tree.map(lambda m, p: m + p * x, moments, params)
            params = jax.tree.map(jnp.subtract, params, moments)
            return (params, (moments, count + 1)), x

        start = jax.tree.map(jnp.zeros_like, params), 0
        return jax.lax.scan(step, (params, start), xs)[0]

    picture = draw(fn, layers, jnp.ones(3), unfold="4:scan").picture
    carries = [n.lines for n in picture.nodes if n.lines[0].startswith("carry")]
    assert carries[:3] == carries[3:]
    assert carries[0] == ("carry params", "4 arrays")
    assert [lines[1:] for lines in carries[1:3]] == [("4 arrays",), ()]
