"""Planting what one run collected into another run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import INJECTABLE, runs_plainly
from checks import assert_close, check_types
from loops import OWN, XS, Indexed

import taxpr
from taxpr import plant, tag

pytestmark = pytest.mark.filterwarnings("ignore::taxpr.DroppedRuleWarning")


class Planting(Indexed):
    """The reference, in which ``values[name][index]`` takes the place of a token."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def note(self, ctx, token, params):
        super().note(ctx, token, params)
        return self.values.get(params["name"], {}).get(self.index, token), ctx


def other(args):
    return tuple(a * a.dtype.type(0.6) if np.issubdtype(a.dtype, np.floating) else a for a in args)


def has_loop_or_branch(case):
    sites = taxpr.trace(case.fn)(*case.args).tags()
    return any(step.nested.trips != 1 or step.nested.conditional for s in sites for step in s.steps)


PROGRAMS = [
    *(
        pytest.param(case.fn, case.args, case.tolerance, id=case.name)
        for case in INJECTABLE
        if runs_plainly(case)
        if has_loop_or_branch(case) or case.name in ("flat_pytrees", "flat_key", "remat")
    ),
    *(pytest.param(f, (XS,), 2e-5, id=f.__name__) for f in OWN),
]


@pytest.mark.spread(5)
@pytest.mark.parametrize(("fn", "args", "tolerance"), PROGRAMS)
def test_planting_is_the_reference_with_the_values_of_the_other_run(fn, args, tolerance):
    """Each value stands in the iteration from which it came, whichever branches are taken."""
    p = taxpr.trace(fn)(*args)
    names = [site.name for site in p.tags()]
    clean = Indexed()
    clean(p.jaxpr, *args)
    values = jax.jit(p.collect(max_steps=4, stack=True))(*args)[1]
    for name in names:
        if names.count(name) > 1:
            continue  # the reference tells tags apart by name
        planted = p.plant({name: values[name]})
        check_types(planted.jaxpr)
        out = jax.jit(planted)(*other(args))
        expected = Planting({name: clean.seen[name]})(p.jaxpr, *other(args))
        assert_close(jax.tree.leaves(out), expected, tolerance)


def test_a_loop_that_goes_on_beyond_the_values():
    def f(x):
        return jax.lax.while_loop(lambda c: c < 9, lambda c: tag(c + 1, name="c") * 1.5, x)

    p = taxpr.trace(f)(0.0)
    values = p.collect(max_steps=2)(1.0)[1]  # 2, 4: then 6
    assert values["c"].value.tolist() == [2.0, 4.0]
    assert p.plant(values)(6.0) == (4.0 * 1.5 + 1) * 1.5


# ---- at ----------------------------------------------------------------------


def nested(xs):
    def outer(c, x):
        def inner(c, y):
            c = tag(c * 0.5 + x * y, name="c")
            return c, c

        return jax.lax.scan(inner, c, xs, reverse=True)

    return jax.lax.scan(outer, jnp.float32(0), xs)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("at", "chosen"),
    [
        ((1, 2), lambda i, j: (i, j) == (1, 2)),
        ((None, 0), lambda i, j: j == 0),
        ((jnp.asarray([0, 2]), None), lambda i, j: i in (0, 2)),
        (([0, 1], [1, 2]), lambda i, j: i in (0, 1) and j in (1, 2)),
        (None, lambda i, j: True),
    ],
)
@pytest.mark.parametrize("one_value", [False, True])
def test_at_chooses_iterations_of_nested_loops(at, chosen, one_value):
    values = jnp.arange(9.0).reshape(3, 3)
    p = taxpr.trace(nested)(XS)
    planted = p.plant({"c": plant(jnp.float32(7) if one_value else values, at=at)})
    indices = [(i, j) for i in range(3) for j in range(3) if chosen(i, j)]
    expected = Planting({"c": {i: jnp.float32(7) if one_value else values[i] for i in indices}})
    assert_close(jax.tree.leaves(planted(XS)), expected(p.jaxpr, XS))


def test_at_is_for_all_values_without_one_of_their_own():
    p = taxpr.trace(nested)(XS)
    values = {"c": jnp.arange(9.0).reshape(3, 3)}
    expected = p.plant({"c": plant(values["c"], at=(1, 2))})(XS)
    assert_close(p.plant(values, at=(1, 2))(XS), expected)
    assert_close(p.plant({"c": plant(values["c"], at=(1, 2))}, at=(0, 0))(XS), expected)
    with pytest.raises(taxpr.InjectorError, match="at=3 is no iteration of"):
        p.plant(values, at=(3, 0))


def test_values_places_and_masks_change_without_compiling_again():
    p = taxpr.trace(nested)(XS)
    values = jnp.arange(9.0).reshape(3, 3)
    planted = p.inject({"c": plant(values, at=(0, 0), mask=jnp.ones((3, 3), bool))})
    traces = []

    @jax.jit
    def run(ctx):
        traces.append(1)
        return planted(ctx, XS)[0]

    for shift, at, rows in (
        (0.0, (0, 0), [1, 1, 1]),
        (1.0, (2, 1), [1, 1, 1]),
        (0, (2, 1), [1, 1, 0]),
    ):
        mask = jnp.asarray(rows, bool)[:, None] & jnp.ones((3, 3), bool)
        ctx = planted.ctx
        ctx["c"]["values"] = {
            "value": values + shift,
            "at": tuple(map(jnp.int32, at)),
            "mask": (mask,),
        }
        there = {at: values[at] + jnp.float32(shift)} if mask[at] else {}
        assert_close(jax.tree.leaves(run(ctx)), Planting({"c": there})(p.jaxpr, XS))
    assert len(traces) == 1


def test_values_may_be_arguments_of_a_compiled_function():
    p = taxpr.trace(nested)(XS)
    replay = jax.jit(lambda values, xs: p.plant(values)(xs))
    values = p.collect()(XS)[1]
    assert_close(replay(values, XS * 0), nested(XS))
    grad = jax.grad(lambda values: replay(values, XS)[0])(values)["c"]
    assert grad.tolist() == [[0.0] * 3, [0.0] * 3, [1.0, 0.0, 0.0]]
    lanes = jax.vmap(replay, in_axes=(0, None))({"c": jnp.stack([values["c"], -values["c"]])}, XS)
    assert_close(lanes[0], jnp.stack([nested(XS)[0], -nested(XS)[0]]))


# ---- a model -----------------------------------------------------------------


def transformer(weights, x, *, edit=lambda layer, h: h):
    """Layers scanned over stacked weights: attention and a network, with residuals."""

    def layer(carry, w):
        number, h = carry
        scores = jax.nn.softmax((h @ w["q"]) @ (h @ w["k"]).T / 2.0)
        h = h + tag(scores @ h @ w["v"], name="attention")
        h = edit(number, h + jnp.tanh(h @ w["up"]) @ w["down"])
        return (number + 1, tag(h, name="residual")), None

    (_, h), _ = jax.lax.scan(layer, (0, x), weights)
    return jax.nn.log_softmax(h[-1])


def make_weights(n_layers=4, width=4):
    keys = jax.random.split(jax.random.key(0), 5)
    shape = (n_layers, width, width)
    names = ("q", "k", "v", "up", "down")
    return {n: jax.random.normal(k, shape) * 0.5 for n, k in zip(names, keys, strict=True)}


@pytest.mark.slow
def test_patching_one_layer_between_two_prompts_is_the_model_with_the_edit():
    weights = make_weights()
    clean, corrupted = jax.random.normal(jax.random.key(1), (2, 3, 4))
    p = taxpr.trace(transformer)(weights, clean)
    values = p.collect("residual")(weights, clean)[1]
    patched = p.inject({"residual": plant(values["residual"], at=0)})
    run = jax.jit(patched)
    for layer in range(4):
        kept = values["residual"][layer]
        ctx = patched.ctx
        ctx["residual"]["values"]["at"] = (jnp.int32(layer),)
        out, _ = run(ctx, weights, corrupted)
        expected = transformer(
            weights, corrupted, edit=lambda k, h, n=layer, v=kept: jnp.where(k == n, v, h)
        )
        assert_close(out, expected)
    assert_close(out, transformer(weights, clean))  # patching the last layer restores all


def test_one_position_of_one_layer():
    """A part of a token: plant the other run's token with that part changed by hand."""
    weights = make_weights()
    clean, corrupted = jax.random.normal(jax.random.key(1), (2, 3, 4))
    p = taxpr.trace(transformer)(weights, clean)
    value = p.collect("residual")(weights, clean)[1]["residual"]
    own = p.collect("residual")(weights, corrupted)[1]["residual"]
    patched = p.plant({"residual": plant(own.at[:, 1].set(value[:, 1]), at=2)})
    expected = transformer(
        weights,
        corrupted,
        edit=lambda k, h: jnp.where(k == 2, h.at[1].set(value[2, 1]), h),
    )
    assert_close(patched(weights, corrupted), expected)


# ---- several sites -----------------------------------------------------------


def two_blocks(xs):
    def block(c):
        return jax.lax.scan(lambda c, x: (tag(c * 0.5 + x, name="c"), None), c, xs)[0]

    return tag(block(tag(block(xs[0]), name="b")), name="b")


def test_several_tags_get_their_own_part_or_all_the_same():
    p = taxpr.trace(two_blocks)(XS)
    values = p.collect(stack=True)(XS)[1]
    assert values["c"].shape == (2, 3)
    for name in ("b", "c"):
        assert_close(p.plant({name: values[name]})(XS * 3), two_blocks(XS))
    same = p.plant({"c": values["c"][1]})(XS * 3)
    assert_close(same, two_blocks(XS))
    assert_close(p.plant({"b": 5.0})(XS), jnp.float32(5))


# ---- what does not fit -------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: plant(jnp.ones(4)),
            r"value is float32\[4\] and the token float32\[\]\. Right are float32\[\], one value "
            r"for all, or float32\[3,3\], .* for each of loop scan of outer .*, loop scan of in",
        ),
        (lambda: plant(jnp.ones((1, 3, 3))), r"value is float32\[1,3,3\]"),
        (lambda: plant(jnp.ones((3, 3), jnp.int32)), r"value is int32\[3,3\]"),
        (
            lambda: plant({"c": jnp.ones(3)}),
            r"the values have the structure .* This is for the tag",
        ),
        (lambda: plant(1.0, at=1), r"at= is for 1 loop, and around the tag 'c' .* there are 2"),
        (
            lambda: plant(1.0, at=(3, 0)),
            r"at=3 is no iteration of scan.*at \d:scan\), which has 3 it",
        ),
        (lambda: plant(1.0, at=(0, -1)), r"at=-1 is no iteration of .*inner|at=-1 is no iteration"),
        (lambda: plant(1.0, at=1.5), r"at=1.5 is float32, not a number of an iteration"),
        (lambda: plant(1.0, mask=jnp.ones(2, bool)), r"the mask has shape \(2,\)"),
        (lambda: plant(1.0, mask=jnp.ones(3)), r"the mask is float32, not bool"),
        (lambda: plant(1.0, mask=jnp.ones((3, 3, 1), bool)), r"the first axes of \(3, 3\)"),
        (lambda: plant(taxpr.Last(1.0, 3)), r"Collect with max_steps="),
        (
            lambda: plant(taxpr.Steps(1.0, jnp.ones((3, 3), bool), 9)),
            r"the Steps has a value float32\[\] and a mask of shape \(3, 3\)",
        ),
        (
            lambda: plant(taxpr.Steps(jnp.ones((3, 3)), jnp.ones(3, bool), 9)),
            r"the Steps has a value float32\[3,3\] and a mask of shape \(3,\)",
        ),
        (
            lambda: plant(taxpr.Masked(1.0, jnp.ones(3, bool))),
            r"the Masked has a value float32\[\] and a mask of shape \(3,\)",
        ),
    ],
)
def test_what_does_not_fit(make, message):
    with pytest.raises(taxpr.InjectorError, match=message):
        taxpr.trace(nested)(XS).inject({"c": make()})


def test_lengths_of_one_and_none_and_scalars():
    """The number of axes tells one value from one for each iteration, whatever the lengths."""

    def f(xs):
        return jax.lax.scan(lambda c, x: (tag(c + x, name="c"), c), jnp.float32(0), xs)

    for n in (0, 1, 2):
        p = taxpr.trace(f)(XS[:n])
        each = jnp.arange(5.0, 5 + n)
        assert_close(p.plant({"c": each})(XS[:n])[0], each[-1] if n else jnp.float32(0))
        assert_close(p.plant({"c": 9.0})(XS[:n])[0], jnp.float32(9 if n else 0))
        right = rf"float32\[\], one value for all, or float32\[{n}\], with a leading axis"
        with pytest.raises(taxpr.InjectorError, match=right):
            p.plant({"c": jnp.ones(n + 1)})
        with pytest.raises(taxpr.InjectorError, match=right):
            p.plant({"c": jnp.ones((1, n))})


def test_all_arrays_of_a_token_are_read_in_one_way():
    def f(xs):
        def step(c, x):
            return tag({"a": c + x, "b": jnp.stack([c, x])}, name="t")["a"], None

        return jax.lax.scan(step, jnp.float32(0), xs)[0]

    p = taxpr.trace(f)(XS)
    p.plant({"t": {"a": jnp.ones(3), "b": jnp.ones((3, 2))}})
    for a, b in (((3,), (2,)), ((), (3, 2))):
        with pytest.raises(taxpr.InjectorError, match=r"Right are float32\[\], float32\[2\], one"):
            p.plant({"t": {"a": jnp.ones(a), "b": jnp.ones(b)}})


def test_all_tags_are_read_in_one_way():
    def f(xs):
        h = tag(xs.sum(), name="h")
        return jax.lax.scan(lambda c, x: (tag(c + x, name="h"), None), h, xs[:2])[0]

    p = taxpr.trace(f)(XS)
    # Two parts for the one in front, two iterations for the one in the loop.
    with pytest.raises(taxpr.InjectorError, match="All 2 tags that are selected read the values"):
        p.plant({"h": jnp.ones(2)})
    assert_close(p.plant({"h": 4.0})(XS), jnp.float32(4))


def test_while_loops_take_any_number_of_values():
    def f(x):
        return jax.lax.while_loop(lambda c: c < 9, lambda c: tag(c + 1, name="c") * 1.5, x)

    p = taxpr.trace(f)(0.0)
    with pytest.raises(
        taxpr.InjectorError, match=r"or float32\[k\], .* loop while .*at 0:while\), k any number"
    ):
        p.plant({"c": jnp.ones((2, 2))})
    assert p.plant({"c": jnp.float32([8.0])})(0.0) == 12.0


# ---- custom rules ------------------------------------------------------------


def in_rules(xs):
    @jax.custom_jvp
    def f(xs):
        flat = tag(xs * 2, name="flat")
        return jax.lax.map(lambda x: tag(jnp.sin(x), name="s"), flat)

    f.defjvp(lambda primals, tangents: (f(*primals), 5 * tangents[0]))
    return f(xs)


def test_a_counter_is_asked_for_only_where_the_iteration_matters():
    p = taxpr.trace(in_rules)(XS)
    assert_close(p.plant({"flat": XS})(XS), jnp.sin(XS))
    one = p.plant({"s": 3.0})
    assert_close(one(XS), jnp.full(3, 3.0))
    assert_close(jax.grad(lambda xs: one(xs).sum())(XS), jnp.full(3, 5.0))
    for value in (XS, plant(3.0, at=1), plant(3.0, mask=jnp.ones(3, bool))):
        with pytest.raises(
            taxpr.RefusedError, match=r'counting iterations: the tag .s. .*Give custom_rules="drop"'
        ):
            p.plant({"s": value})


def test_rules_may_be_dropped():
    p = taxpr.trace(in_rules)(XS)
    planted = p.plant({"s": plant(XS, at=[0, 2])}, custom_rules="drop")
    assert_close(planted(XS), jnp.where(jnp.arange(3) == 1, jnp.sin(2 * XS), XS))
    gradient = jax.grad(lambda xs: planted(xs).sum())(XS)
    assert_close(gradient, jnp.where(jnp.arange(3) == 1, 2 * jnp.cos(2 * XS), 0))


def test_a_plant_is_attached_and_not_called():
    with pytest.raises(taxpr.InjectorError, match="it runs at the tags of a program"):
        taxpr.inject(jax.make_jaxpr(nested)(XS), plant(1.0).__call__, {"values": {}, "state": 0})


def test_a_counter_counts_beside_values_that_are_only_read():
    """What an injector only reads is no carry of a loop; the counter of the loop is one."""

    def f(x):
        def step(c, y):
            c = tag(c + y, name="c")
            return tag(c * 2.0, name="d"), None

        return jax.lax.scan(step, x, jnp.arange(4.0))[0]

    program = taxpr.trace(f)(jnp.float32(1.0))
    changed = program.plant({"c": plant(jnp.float32(10.0), at=[1]), "d": taxpr.scale(0.5)})
    expected = 10.0 + 2.0 + 3.0  # the first two iterations are forgotten
    assert changed(jnp.float32(1.0)) == expected


def test_values_of_a_recording_are_planted():
    def f(x):
        h = jnp.sin(x)
        return h * 2

    rec = taxpr.watch(f)(1.0)
    program = taxpr.trace(f, names=True)(0.0)
    assert float(program.plant({taxpr.var("h"): rec["h"]})(0.0)) == float(f(1.0))
