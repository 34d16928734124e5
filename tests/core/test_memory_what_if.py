"""What a change of the source would save: predicted, and as the source edited by hand has it."""

import functools

import jax
import jax.numpy as jnp
import pytest
from memory_programs import PROGRAMS, WEIGHTS, X, arguments, scanned, with_policy

import taxpr
from taxpr._errors import ArgumentError, RefusedError, SelectorError

WIDE = jnp.ones((8, 32, 32)) / 32, jnp.ones((512, 32))


def total(fun, *args):
    stats = jax.jit(fun).lower(*args).compile().memory_analysis()
    ends = stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    return ends + stats.temp_size_in_bytes


def test_what_is_measured_is_what_the_source_edited_by_hand_needs():
    use = taxpr.memory(PROGRAMS["scanned"])(*arguments("scanned"))
    [row] = use.what_if(checkpoint="layer", measure=True).rows
    assert row.measured
    assert row.total == total(PROGRAMS["remat"], *arguments("remat"))
    assert row.saved == 1 - row.total / use.total
    assert row.code == "layer = jax.checkpoint(layer)"
    policy = jax.checkpoint_policies.dots_saveable
    [row] = use.what_if(checkpoint="layer", policy=policy, measure=True).rows
    assert row.total == total(jax.grad(with_policy), WEIGHTS, X)
    assert "policy=jax.checkpoint_policies.dots_saveable" in row.code


@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.dots_saveable])
def test_a_prediction_is_near_what_is_measured(policy):
    use = taxpr.memory(jax.grad(scanned))(*WIDE)
    rows = [
        use.what_if(checkpoint="layer", policy=policy, measure=measure).rows[0]
        for measure in (False, True)
    ]
    assert not rows[0].measured
    assert abs(rows[0].total - rows[1].total) < 0.2 * rows[1].total


def flops(fun, *args):
    cost = jax.jit(fun).lower(*args).compile().cost_analysis()
    return (cost[0] if isinstance(cost, list) else cost)["flops"]


def perceptron(x, w):
    return x + jnp.tanh(x @ w) @ w.T


def scores(x, w):
    weights = jax.nn.softmax((x @ w) @ x.T)
    return x + weights @ x


def deep_in_scan(block, ws, x):
    return jnp.sum(jax.lax.scan(lambda x, w: (block(x, w), None), x, ws)[0] ** 2)


def deep_in_python(block, ws, x):
    for w in ws:
        x = block(x, w)
    return jnp.sum(x**2)


# The products of a layer that its derivative needs once more, by hand.
PRODUCTS = {perceptron: 2 * 512 * 32 * 32, scores: 2 * 512 * 32 * 32 + 2 * 512 * 512 * 32}


@pytest.mark.parametrize("block", PRODUCTS, ids=lambda block: block.__name__)
def test_the_operations_that_are_computed_again_are_told(block):
    for deep in (deep_in_scan, deep_in_python):
        use = taxpr.memory(jax.grad(functools.partial(deep, block)))(*WIDE)
        [row] = use.what_if(checkpoint=block).rows
        assert abs(row.flops - 8 * PRODUCTS[block]) < 0.1 * row.flops
        assert use.what_if(checkpoint=block, measure=True).rows[0].flops == row.flops


@pytest.mark.parametrize("block", PRODUCTS, ids=lambda block: block.__name__)
def test_they_are_those_that_xla_counts(block):
    """Of the program edited by hand; XLA counts the body of a loop once."""
    now, then = (
        jax.grad(functools.partial(deep_in_scan, f)) for f in (block, jax.checkpoint(block))
    )
    more = 8 * (flops(then, *WIDE) - flops(now, *WIDE))
    [row] = taxpr.memory(now, compile=False)(*WIDE).what_if(checkpoint=block).rows
    assert abs(row.flops - more) < 0.2 * more


def test_what_computes_no_more_has_no_operations_and_a_policy_has_fewer():
    use = taxpr.memory(jax.grad(scanned), compile=False)(*WIDE)
    assert use.what_if(donate="x").rows[0].flops == 0
    policy = jax.checkpoint_policies.dots_saveable
    counts = [use.what_if(checkpoint="layer", policy=one).rows[0].flops for one in (None, policy)]
    assert counts[0] == 2 * 8 * 512 * 32 * 32  # the products of the layers
    assert 0 <= counts[1] < 0.05 * counts[0]
    assert "+8.39 MFLOP" in str(use.what_if(checkpoint="layer"))


def iterated(x):
    wave = jnp.sin(x)
    return jax.lax.while_loop(lambda x: x.sum() < 9.0, lambda x: x + 1.0, wave).sum()


def test_operations_that_are_not_known_are_said():
    use = taxpr.memory(iterated, compile=False)(WIDE[1])
    found = use.what_if(bfloat16="wave")
    assert found.rows[0].flops > 0
    assert found.notes[-1] == "Operations with one iteration of each while loop."


def step(w, x):
    return w - 0.1 * x, jnp.sum(x)


def test_an_argument_is_donated():
    args = jnp.ones((50, 50)), jnp.ones((50, 50))
    use = taxpr.memory(step)(*args)
    for row in (use.what_if(donate=x, measure=m).rows[0] for x in ("w", 0) for m in (True, False)):
        assert row.change == "w is donated"
        assert row.total == use.total - 10_000
    donating = functools.partial(jax.jit, donate_argnums=0)(step)
    assert taxpr.memory(donating)(*args).total == use.total - 10_000


def test_a_variable_is_cast():
    def loss(x):
        wave = jnp.sin(x)
        return jnp.sum(wave * wave)

    use = taxpr.memory(jax.grad(loss))(jnp.ones(1000))
    [row] = use.what_if(bfloat16="wave").rows
    assert row.code == "wave = wave.astype(jnp.bfloat16)"


def test_advice_tells_the_function_that_makes_what_is_kept():
    use = taxpr.memory(jax.grad(scanned))(*WIDE)
    found = use.advice()
    assert found.rows[0].code.startswith("layer = jax.checkpoint(layer")
    assert [row.saved for row in found.rows] == sorted((r.saved for r in found.rows), reverse=True)
    assert "Predicted from the program" in str(found)
    for row in use.advice(measure=True).rows:
        assert row.measured


def test_advice_of_one_change_is_told_so():
    def doubled(x):
        return x * 2.0

    found = taxpr.memory(doubled, compile=False)(jnp.ones(1000)).advice()
    assert found.headline == "advice for doubled: 1 change of 1 pays"


def attended(p, x):
    scores = jax.nn.softmax((x @ p["q"]) @ (x @ p["k"]).T)
    return scores @ x


def expanded(p, x):
    wide = jax.nn.gelu(x @ p["up"])
    return wide @ p["up"].T


def block(p, x):
    x = x + attended(p, x)
    return x + expanded(p, x)


def test_advice_tries_the_functions_that_call_those_which_make_what_is_kept():
    shapes = {"q": (32, 32), "k": (32, 32), "up": (32, 128)}
    params = [{name: jnp.ones(shape) / 32 for name, shape in shapes.items()}] * 4

    def loss(params, x):
        for p in params:
            x = block(p, x)
        return jnp.sum(x**2)

    use = taxpr.memory(jax.grad(loss), compile=False)(params, jnp.ones((128, 32)))
    assert [name for name, _ in use.asked.parts[:3]] == ["block", "expanded", "attended"]
    assert use.advice().rows[0].code == "block = jax.checkpoint(block)"


def left(w, x):
    return jnp.sin(jnp.tanh(x @ w))


def right(w, x):
    return jnp.cos(jnp.tanh(x @ w))


def test_advice_tries_each_of_two_functions_that_keep_as_much():
    use = taxpr.memory(jax.grad(lambda w, x: jnp.sum(left(w, x) * right(w * 2, x))), compile=False)
    parts = use(jnp.ones((32, 32)), jnp.ones((64, 32))).asked.parts
    sizes = dict(parts)
    assert sizes.keys() == {"left", "right"}
    assert sizes["left"] == sizes["right"]


def nothing_kept(primitive, *_, **__):
    return False


def test_the_code_names_the_policy_that_was_given():
    use = taxpr.memory(jax.grad(scanned), compile=False)(*WIDE)
    [row] = use.what_if(checkpoint="layer", policy=nothing_kept).rows
    assert row.code == "layer = jax.checkpoint(layer, policy=nothing_kept)"
    policy = jax.checkpoint_policies.save_only_these_names("h")
    [row] = use.what_if(checkpoint="layer", policy=policy).rows
    assert row.code == "layer = jax.checkpoint(layer, policy=policy)"


def flagged(x, w, train, scale=None):
    wave = jnp.sin(x @ w)
    if train and scale == "wide":
        wave = wave * 3
    return jnp.sin(wave)


def test_a_flag_and_a_text_are_static_where_it_is_computed_again():
    def loss(w, x):
        for _ in range(4):
            x = flagged(x, w, True, scale="wide")
        return x.sum()

    use = taxpr.memory(jax.grad(loss), compile=False)(SQUARE, SQUARE)
    [row] = use.what_if(checkpoint="flagged").rows
    part = "functools.partial(flagged, scale=...)"
    assert row.code == f"flagged = jax.checkpoint({part}, static_argnums=(2,))"
    assert row.saved > 0


def test_a_tree_is_cast():
    def loss(params):
        chosen = {"w": params["w"] * 2.0}
        return jnp.sum(chosen["w"])

    use = taxpr.memory(loss, compile=False)({"w": SQUARE})
    [row] = use.what_if(bfloat16="params").rows
    assert row.code == "params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)"


def test_what_it_refuses():
    use = taxpr.memory(jax.grad(scanned), compile=False)(*WIDE)
    with pytest.raises(ArgumentError, match=r"0 changes are given. Give one: checkpoint=, "):
        use.what_if()
    with pytest.raises(ArgumentError, match="2 changes are given"):
        use.what_if(checkpoint="layer", donate="ws")
    with pytest.raises(ArgumentError, match=r"policy= goes with checkpoint=, a function"):
        use.what_if(donate="ws", policy=jax.checkpoint_policies.dots_saveable)
    with pytest.raises(ArgumentError, match=r"donate='y' is no argument .* There are ws, x\."):
        use.what_if(donate="y")
    with pytest.raises(SelectorError, match=r"^what_if: var\('nowhere'\): no line that ran"):
        use.what_if(checkpoint="nowhere")
    for change in ("checkpoint", "bfloat16"):
        with pytest.raises(ArgumentError, match=r"^what_if: where=3 is of the type int"):
            use.what_if(**{change: 3})
    with pytest.raises(RefusedError, match="pre is kept in bfloat16, the function raises TypeE"):
        use.what_if(bfloat16="pre")
    program = taxpr.trace(scanned, names=True)(*WIDE)
    of_program = taxpr.memory(program, compile=False)(*WIDE)
    for ask in (of_program.advice, lambda: of_program.what_if(checkpoint="layer")):
        with pytest.raises(ArgumentError, match=r"asked of a Program.*Ask it of the function"):
            ask()
    with pytest.raises(ArgumentError, match="this table has no call"):
        taxpr.questions.MemoryUse("memory", []).advice()


def counted(x, labels):
    wave = jnp.sin(x)
    shifted = labels + 1
    return jnp.sum(wave * wave) + shifted.sum().astype(x.dtype)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bfloat16": "shifted"}, "bfloat16='shifted' holds int32 and no floats"),
        ({"checkpoint": "wave"}, "checkpoint='wave' is a variable and no function"),
        ({"checkpoint": "counted", "policy": 3}, "policy=3 is no function"),
    ],
)
def test_what_has_nothing_to_change_is_refused(given, text):
    use = taxpr.memory(jax.grad(counted))(jnp.ones(100), jnp.arange(100))
    with pytest.raises(ArgumentError, match=text):
        use.what_if(**given, measure=True)


def updated(w, x):
    return jax.tree.map(lambda w, g: w - 0.1 * g, w, jax.grad(scanned)(w, x))


def stepped(u):
    return jax.lax.fori_loop(0, 9, lambda k, u: u + 0.01 * jnp.roll(u, 1), u)


SQUARE = jnp.ones((64, 64)) / 64
# XLA takes the place of a donated argument only where nothing may read it later.
DONATED = {
    "read beside": (lambda w, x: (w - 0.1 * x, jnp.sum(w * x)), (SQUARE, SQUARE)),
    "read before": (lambda w, x: w * x - 0.1 * jnp.sum(w), (SQUARE, SQUARE)),
    "two results": (lambda a, b: (a + b, a - b), (SQUARE, SQUARE)),
    "a product": (lambda x: (x @ x) @ x, (SQUARE,)),
    "turned": (lambda x: x[::-1] * 2, (SQUARE,)),
    "one element": (lambda x: x.at[3].set(0.0), (SQUARE,)),
    "a loop": (stepped, (SQUARE,)),
    "an optimizer": (updated, WIDE),
    "handed on": (lambda x, y: (x, y * 2), (SQUARE, SQUARE)),
}


@pytest.mark.parametrize("name", DONATED)
def test_a_donation_is_predicted_within_a_fifth(name):
    fun, args = DONATED[name]
    use = taxpr.memory(fun)(*args)
    for k in range(len(args)):
        guess, true = (use.what_if(donate=k, measure=m).rows[0].total for m in (False, True))
        assert abs(guess - true) < 0.2 * true
