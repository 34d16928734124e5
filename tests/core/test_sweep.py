"""`sweep` and `patch` give the numbers of loops over edits that are made by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import each, var
from taxpr._sweep import many_runs

LAYERS, HEADS, WIDTH = 4, 3, 5
WEIGHTS = 0.5 * jax.random.normal(jax.random.key(0), (LAYERS, HEADS, WIDTH, WIDTH))
X = jax.random.normal(jax.random.key(1), (WIDTH,))
Y = jax.random.normal(jax.random.key(2), (WIDTH,))


def model(x):
    def layer(x, weights):
        heads = taxpr.tag(jnp.tanh(weights @ x), name="heads")
        return x + heads.sum(0), None

    return jax.lax.scan(layer, x, WEIGHTS)[0]


def unrolled(x):  # without a tag
    for weights in WEIGHTS:
        heads = jnp.tanh(weights @ x)
        x = x + heads.sum(0)
    return x


def norm(out):
    return jnp.sum(out**2)


def by_hand(change, x=X):
    """The norm of the model, with ``change(layer, heads)`` in each layer."""
    for k, weights in enumerate(WEIGHTS):
        heads = change(k, jnp.tanh(weights @ x))
        x = x + heads.sum(0)
    return float(norm(x))


def same(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@jax.tree_util.register_pytree_node_class
class Scale:
    """A PyTree that takes nothing but arrays, as the loss scales of jmp."""

    def __init__(self, factor, period=2000):
        self.factor, self.period = jnp.asarray(factor, jnp.float32), period

    def tree_flatten(self):
        return (self.factor,), self.period

    @classmethod
    def tree_unflatten(cls, period, leaves):
        return cls(*leaves, period=period)


def scaled(x, scale):
    y = 2 * x
    return scale.factor * y


def test_arguments_of_classes_that_take_arrays_only():
    found = taxpr.sweep(scaled, var("y"), taxpr.scale, [1.0, 3.0])(jnp.float32(1), Scale(8.0))
    same(found.values, [16, 48])
    inputs = (jnp.float32(1), Scale(8.0)), (jnp.float32(3), Scale(8.0))
    same(taxpr.patch(scaled, each(var("y")))(*inputs).values, [[1], [1]])
    with pytest.raises(taxpr.ArgumentError, match="differ in structure"):
        taxpr.patch(scaled, each(var("y")))(inputs[0], (jnp.float32(2), Scale(4.0, period=7)))


# ---- sweep -------------------------------------------------------------------


def test_a_parameter_over_values_is_a_loop_over_edits():
    factors = np.linspace(0.0, 2.0, 5, dtype=np.float32)
    found = taxpr.sweep(model, "heads", taxpr.scale, factors, metric=norm)(X)
    wanted = [by_hand(lambda k, heads, f=f: f * heads) for f in factors]
    same([row["metric"] for row in found.rows], wanted)
    same(found.values, wanted)
    same(found.baseline, by_hand(lambda k, heads: heads))
    same([row["change"] for row in found.rows], np.array(wanted) - wanted[2])
    assert [row["factor"] for row in found.rows] == factors.tolist()
    assert found.axes == {"factor": ["0", "0.5", "1", "1.5", "2"]}
    program = taxpr.trace(model)(X)
    again = taxpr.sweep(program, "heads", taxpr.scale, factors, metric=norm)(X)
    assert again.rows == found.rows
    injected = program.inject(taxpr.scale(0.5), where="heads")
    same(found.rows[1]["metric"], float(norm(injected(injected.ctx, X)[0])))


@pytest.mark.parametrize(("fn", "where"), [(model, "heads"), (unrolled, var("heads"))])
def test_sites_one_by_one_are_a_loop_over_layers_and_heads(fn, where):
    found = taxpr.sweep(fn, each(where, axis=0), taxpr.zero(), metric=norm)(X)
    places = list(itertools.product(range(LAYERS), range(HEADS)))
    wanted = [by_hand(lambda k, h, p=p: h.at[p[1]].set(0.0) if k == p[0] else h) for p in places]
    same([row["metric"] for row in found.rows], wanted)
    same(found.values, np.reshape(wanted, (LAYERS, HEADS)))
    assert [row["index"] for row in found.rows] == [head for _, head in places]
    if fn is model:
        assert [row["iteration"] for row in found.rows] == [layer for layer, _ in places]
        assert found.axes == {"iteration": list("0123"), "index": list("012")}
    else:
        assert found.axes["variable"] == [f"heads#{k}" for k in range(LAYERS)]
        assert {row["line"] for row in found.rows} == {f"test_sweep.py:{unrolled_line()}"}


def unrolled_line():
    return unrolled.__code__.co_firstlineno + 2


def test_places_and_values_make_all_pairs():
    values = {"low": [-0.1, -0.5], "high": [0.2, 0.4, 0.6]}
    found = taxpr.sweep(model, each("heads", iterations=[1, 3]), taxpr.clip, values, metric=norm)(X)
    pairs = list(itertools.product([1, 3], *values.values()))
    wanted = [by_hand(lambda k, h, s=s: jnp.clip(h, s[1], s[2]) if k == s[0] else h) for s in pairs]
    same([row["metric"] for row in found.rows], wanted)
    assert found.values.shape == (2, 2, 3)
    assert found.axes["iteration"] == ["1", "3"]
    negative = taxpr.sweep(model, each("heads", axis=-1), taxpr.scale(0.0), metric=norm)(X)
    same(negative.rows[7]["metric"], by_hand(lambda k, h: h.at[:, 2].set(0.0) if k == 1 else h))
    whole = taxpr.sweep(model, each("heads", axis=0, iterations=False), taxpr.zero(), metric=norm)
    same(whole(X).rows[1]["metric"], by_hand(lambda k, h: h.at[1].set(0.0)))


def test_nested_loops_branches_and_trees():
    def fn(x):
        def inner(c, k):
            c = taxpr.tag(c * 1.5 + 1, name="c")
            return c, None

        def outer(c, k):
            c = jax.lax.scan(inner, c, jnp.arange(2))[0]
            pair = taxpr.tag({"a": c, "b": 2 * c}, name="pair")
            c = jax.lax.cond(k == 1, lambda c: taxpr.tag(c - 1, name="branch"), lambda c: c, c)
            return c + pair["a"] - pair["b"], None

        return jax.lax.scan(outer, x, jnp.arange(3))[0]

    def hand(place, number):
        c = 2.0
        for i in range(3):
            for j in range(2):
                c = c * 1.5 + 1 + (number if place == ("c", (i, j)) else 0)
            a, b = (v + (number if place == ("pair", i) else 0) for v in (c, 2 * c))
            if i == 1:
                c = c - 1 + (number if place == ("branch", i) else 0)
            c = c + a - 2 * a if False else c + a - b
        return c

    where = each(["c", "pair", "branch"])
    found = taxpr.sweep(fn, where, taxpr.add, [0.5, -1.0])(2.0)
    assert len(found.rows) == (6 + 3 + 3) * 2
    for row in found.rows:
        same(row["metric"], hand((row["variable"], row["iteration"]), row["value"]))


def halved(x, n):
    """A while loop in a scan: two times as many iterations as in the turn before, or so."""

    def outer(x, turns):
        def body(state):
            k, y = state
            return k + 1, taxpr.tag(y * 0.5, name="y") + 1

        return jax.lax.while_loop(lambda state: state[0] < turns, body, (0, x))[1], None

    return jax.lax.scan(outer, x, n)[0]


def halved_by_hand(x, n, at=()):
    for i, turns in enumerate(n):
        for k in range(turns):
            x = (0.0 if (i, k) in at else x * 0.5) + 1
    return x


def test_each_iteration_of_a_while_loop_is_a_place_of_its_own():
    def fn(x, n):
        return jax.lax.fori_loop(0, n, lambda k, y: taxpr.tag(y * 0.5, name="y") + 1, x)

    ask = taxpr.sweep(fn, each("y"), taxpr.zero())
    for n in (3, 5, 1):  # one question, with other numbers of iterations
        found = ask(8.0, n)
        wanted = [halved_by_hand(8.0, [n], [(0, k)]) for k in range(n)]
        same([row["metric"] for row in found.rows], wanted)
        assert [row["iteration"] for row in found.rows] == list(range(n))
    with pytest.raises(taxpr.ArgumentError, match="has no place: the loop"):
        ask(8.0, 0)
    at_once = taxpr.sweep(fn, each("y", iterations=False), taxpr.zero())(8.0, 3)
    same([row["metric"] for row in at_once.rows], [1.0])
    turns = jnp.asarray([2, 0, 3])
    found = taxpr.sweep(halved, each("y"), taxpr.zero())(8.0, turns)
    places = [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    assert [row["iteration"] for row in found.rows] == places
    wanted = [halved_by_hand(8.0, [2, 0, 3], [at]) for at in places]
    same([row["metric"] for row in found.rows], wanted)
    patched = taxpr.patch(halved, "y", sources="clean", max_steps=4)((8.0, turns), (2.0, turns))
    assert [row["iteration"] for row in patched.rows] == places


def test_inject_acts_in_the_iterations_that_are_given():
    turns = jnp.asarray([2, 0, 3])
    for iterations in ([0], [1, 2]):
        where = each("y", iterations=iterations)
        at = [(i, k) for i in iterations for k in iterations]
        for given in ({where: taxpr.zero()}, {"y": taxpr.zero()}):
            here = None if where in given else where
            injector = given if here is None else taxpr.zero()
            injected = taxpr.inject(halved, injector, where=here)
            out, ctx = injected(injected.init(8.0, turns), 8.0, turns)
            same(out, halved_by_hand(8.0, [2, 0, 3], at))
    chain = [taxpr.add(1.0), taxpr.count(), lambda ctx, token, params: (token * 3, ctx)]
    injected = taxpr.inject(model, chain, where=each("heads", iterations=[1, 3]))
    out, ctx = injected(injected.init(X), X)
    same(norm(out), by_hand(lambda k, h: (h + 1) * 3 if k in (1, 3) else h))
    [(_, counted)] = injected.report(ctx, X)[1].items()
    assert counted["count"] == 2
    kept = taxpr.inject(model, taxpr.record(slots=8), where=each("heads", iterations=[2]))
    [recorded] = kept.report(kept(kept.init(X), X)[1], X).values()
    same(recorded["values"], streams(X)[2][None])

    def plain(x, n):
        def body(k, y):
            z = y * 0.5
            return z + 1

        return jax.lax.fori_loop(0, n, body, x)

    for at in ([1], [0, 2], [9]):
        by_variable = taxpr.inject(plain, taxpr.zero(), where=each("z", iterations=at))
        out, _ = by_variable(by_variable.init(8.0, 3), 8.0, 3)
        same(out, halved_by_hand(8.0, [3], [(0, k) for k in at]))


@pytest.mark.parametrize(
    ("where", "injector", "error", "words"),
    [
        (each("heads", axis=0), taxpr.zero(), "ArgumentError", "axis=0 is for sweep and patch"),
        (
            each("heads", iterations=[4]),
            taxpr.zero(),
            "ArgumentError",
            "iterations has 4, and the loop scan .* has 4",
        ),
        (each("out", iterations=[0]), taxpr.zero(), "ArgumentError", "out.* is in no loop"),
        (each("heads", iterations=[0]), lambda c, t, p: (t, c), "InjectorError", "from_function"),
        ([each("heads")], taxpr.zero(), "SelectorError", "each.. is for inject, sweep and patch"),
    ],
)
def test_mistakes_with_iterations_are_said_by_name(where, injector, error, words):
    def fn(x):
        return taxpr.tag(model(x), name="out")

    with pytest.raises(getattr(taxpr, error), match=words):
        taxpr.inject(fn, injector, where=where).init(X)
    for ask in (taxpr.collect, taxpr.grad_at, taxpr.watch):
        with pytest.raises(taxpr.SelectorError, match=r"each\(\) is for inject, sweep and patch"):
            ask(lambda x: norm(fn(x)), each("heads"))(X)


def test_iterations_that_a_while_loop_has_not_are_nan():
    def fn(x, n):
        return jax.lax.fori_loop(0, n, lambda k, y: taxpr.tag(y * 0.5, name="y") + 1, x)

    found = taxpr.sweep(fn, each("y", iterations=[0, 2, 7]), taxpr.zero())(8.0, 3)
    assert found.baseline == 2.75
    np.testing.assert_equal([row["metric"] for row in found.rows], [1.75, 1.0, np.nan])
    np.testing.assert_equal(found.values, [1.75, 1.0, np.nan])
    assert "Not computed: 1 place, as" in found.notes[0]


def test_other_injectors():
    noisy = taxpr.sweep(model, "heads", taxpr.noise(key=0), {"stddev": [0.0, 1.0]}, metric=norm)(X)
    assert abs(noisy.rows[0]["change"]) < 1e-4
    assert abs(noisy.rows[1]["change"]) > 0.01

    def shift(ctx, token, params, by, axis):
        return token + by * axis[None], ctx

    ready = taxpr.from_function(shift, by=1.0, axis=jnp.ones(WIDTH))
    found = taxpr.sweep(model, each("heads"), ready, {"by": [2.0]}, metric=norm)(X)
    same(found.rows[2]["metric"], by_hand(lambda k, h: h + 2.0 if k == 2 else h))
    vectors = jnp.eye(WIDTH)[:, None]
    steered = taxpr.sweep(model, each("heads"), taxpr.add, vectors, metric=norm)(X)
    assert steered.values.shape == (LAYERS, WIDTH)
    same(steered.values[1, 3], by_hand(lambda k, h: h + vectors[3] if k == 1 else h))


def test_chunks_and_memory_change_nothing(monkeypatch):
    factors = jnp.linspace(0.0, 1.0, 7)

    def ask(**more):
        return taxpr.sweep(model, "heads", taxpr.scale, factors, metric=norm, **more)(X)

    sizes = []
    compiled = many_runs._compiled

    def spied(*args):
        found = compiled(*args)
        sizes.append(found[0])
        return found

    monkeypatch.setattr(many_runs, "_compiled", spied)
    whole = ask()
    done = []
    same(ask(chunk=3, progress=lambda k, of: done.append((k, of))).values, whole.values)
    assert done == [(3, 7), (6, 7), (7, 7)]
    # The least that one run takes.
    with pytest.raises(taxpr.ArgumentError, match=r"one run takes .* bytes, and the memory.* is 1"):
        ask(memory=1)
    used = lambda program: 100 * program.in_avals[0][0]["factor"].size
    monkeypatch.setattr(many_runs, "_used", used)
    same(ask(memory=450).values, whole.values)
    assert sizes[:2] == [7, 3]
    assert 2 <= sizes[2] <= 4


def test_what_is_stopped_keeps_what_is_done():
    def stop(done, total):
        if done == 4:
            raise KeyboardInterrupt

    values = [0.0, 1.0, 2.0, 3.0, 4.0]
    found = taxpr.sweep(model, "heads", taxpr.scale, values, metric=norm, chunk=2, progress=stop)(X)
    assert not found.complete
    assert len(found.rows) == 4
    assert "Stopped: 4 of 5 steps are done." in str(found)
    assert np.isnan(found.values[4])
    assert found.chart().text()


def test_answers_are_drawn():
    found = taxpr.sweep(model, each("heads", axis=0), taxpr.zero(), metric=norm)(X)
    assert found.chart().svg().count("<rect") == LAYERS * HEADS
    assert "iteration" in str(found).splitlines()[1]
    line = taxpr.sweep(model, "heads", taxpr.scale, [0.0, 1.0], metric=norm)(X)
    assert "polyline" in line.chart().svg()
    both = {"low": [-1.0, 0.0], "high": [1.0, 2.0]}
    assert taxpr.sweep(model, each("heads"), taxpr.clip, both, metric=norm)(X).chart().text()


def test_what_jax_cannot_map_runs_one_by_one():
    def fn(x):
        kept = jax.new_ref(jnp.zeros(()))
        kept[...] = taxpr.tag(x * 2, name="h")
        return kept[...]

    found = taxpr.sweep(fn, "h", taxpr.scale, [1.0, 3.0])(2.0)
    assert [row["metric"] for row in found.rows] == [4.0, 12.0]


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: taxpr.sweep(model, "heads", taxpr.scale, [1.0]), "ArgumentError", "not one real"),
        (
            lambda: taxpr.sweep(model, "heads", taxpr.scale, [1.0], metric=lambda out: {"a": 1.0}),
            "ArgumentError",
            "the metric is dict, not one real number",
        ),
        (lambda: taxpr.sweep(model, "heads", taxpr.zero()), "ArgumentError", "a single run"),
        (lambda: taxpr.sweep(model, "head", taxpr.scale, [1.0]), "SelectorError", "heads"),
        (lambda: taxpr.sweep(model, "heads", taxpr.zero(), [1.0]), "InjectorError", "no parameter"),
        (
            lambda: taxpr.sweep(model, "heads", taxpr.scale, {"factr": [1.0]}),
            "InjectorError",
            "no parameter 'factr'.* It has factor",
        ),
        (
            lambda: taxpr.sweep(model, "heads", taxpr.cast, {"dtype": ["bfloat16"]}),
            "InjectorError",
            "no parameter 'dtype'",
        ),
        (lambda: taxpr.sweep(model, "heads", taxpr.scale, 1.0), "ArgumentError", "no list of val"),
        (lambda: taxpr.sweep(model, "heads", taxpr.scale, []), "ArgumentError", "factor is empty"),
        (lambda: taxpr.sweep(model, each("heads"), taxpr.stats()), "InjectorError", "only looks"),
        (lambda: taxpr.sweep(model, each("heads"), jnp.sin), "ArgumentError", "no injector"),
        (
            lambda: taxpr.sweep(model, each("heads", axis=2), taxpr.zero()),
            "ArgumentError",
            r"axis=2 is no axis of the .*heads.* float32\[3,5\]",
        ),
        (
            lambda: taxpr.sweep(model, each("heads", iterations=[4]), taxpr.zero()),
            "ArgumentError",
            r"iterations has 4, and the loop scan of .* \(.*, at 0:scan\) has 4",
        ),
        (lambda: taxpr.sweep(3, "heads", taxpr.zero()), "ArgumentError", "not a function"),
        (
            lambda: taxpr.sweep(model, "heads", taxpr.scale, [1.0], metric="mean"),
            "ArgumentError",
            "sweep: metric: 'mean' is a str, not a function",
        ),
        (
            lambda: taxpr.sweep(model, "heads", taxpr.scale, [1.0], metric=norm, chunk=0),
            "ArgumentError",
            "chunk=0",
        ),
        (
            lambda: taxpr.sweep(model, "heads", taxpr.scale, [1.0], metric=norm, memory=0.5),
            "ArgumentError",
            "memory=0.5 is no number of bytes",
        ),
        (lambda: each("heads", axis="x"), "ArgumentError", "axis='x'"),
        (lambda: each("heads", iterations=[-1]), "ArgumentError", "iterations"),
    ],
)
def test_mistakes_are_said_by_name(ask, error, words):
    with pytest.raises(getattr(taxpr, error), match=words):
        ask()(X)


# ---- patch -------------------------------------------------------------------


def streams(x):
    """The values of the heads in each layer."""
    found = []
    for weights in WEIGHTS:
        found.append(jnp.tanh(weights @ x))
        x = x + found[-1].sum(0)
    return found


@pytest.mark.parametrize(("fn", "where"), [(model, "heads"), (unrolled, var("heads"))])
def test_patching_is_a_loop_over_layers_and_heads_in_both_directions(fn, where):
    found = taxpr.patch(fn, each(where, axis=0), norm)(X, Y)
    plain = {"clean": by_hand(lambda k, h: h, X), "corrupted": by_hand(lambda k, h: h, Y)}
    same([found.baseline[run] for run in plain], list(plain.values()))
    inputs = {"clean": X, "corrupted": Y}
    k = 0
    for source, into in (("clean", "corrupted"), ("corrupted", "clean")):
        stream = streams(inputs[source])
        for layer, head in itertools.product(range(LAYERS), range(HEADS)):
            wanted = by_hand(
                lambda k, h, p=(layer, head), s=stream: (
                    h.at[p[1]].set(s[k][p[1]]) if k == p[0] else h
                ),
                inputs[into],
            )
            row = found.rows[k]
            assert (row["source"], row["index"]) == (source, head)
            same(row["metric"], wanted)
            effect = (wanted - plain[into]) / (plain[source] - plain[into])
            same(row["effect"], effect)
            same(found.values.ravel()[k], effect)
            k += 1
    assert found.values.shape == (2, LAYERS, HEADS)
    assert len(found.rows) == k


def test_patching_is_collect_and_plant():
    program = taxpr.trace(model)(X)
    values = program.collect("heads")(X)[1]
    found = taxpr.patch(program, "heads", norm, sources="clean")(X, Y)
    for layer in range(LAYERS):
        planted = program.plant(values, at=layer)
        same(found.rows[layer]["metric"], float(norm(planted(Y))))


def test_variables_of_different_shapes_branches_and_while_loops_are_patched():
    def fn(x, n):
        total = jnp.sum(x)
        wide = jnp.outer(x, x)
        y = jax.lax.cond(total > 0, lambda x: taxpr.tag(2 * x, name="up"), lambda x: x, x)
        y = jax.lax.fori_loop(0, n, lambda k, y: taxpr.tag(y * 0.5, name="y"), y)
        return total + jnp.sum(wide) + jnp.sum(y)

    places = [var("total"), "wide", "up", {"name": "y"}]  # y is a variable, too
    one, two = (jnp.ones(3), 3), (2 * jnp.ones(3), 3)
    found = taxpr.patch(fn, places, sources="clean", max_steps=3)(one, two)
    plain = 6 + 36 + 12 / 8, 3 + 9 + 6 / 8
    assert (found.baseline["corrupted"], found.baseline["clean"]) == plain
    wanted = {"total": 3 + 36 + 12 / 8, "wide": 6 + 9 + 12 / 8, "up": 6 + 36 + 6 / 8}
    wanted["y"] = wanted["up"]
    same([row["metric"] for row in found.rows], [wanted[row["variable"]] for row in found.rows])
    with pytest.raises(taxpr.ArgumentError, match=r"patch\(\.\.\., max_steps="):
        taxpr.patch(fn, "y")(one, two)


def test_nothing_is_planted_where_one_of_the_runs_did_not_come():
    def fn(x, n):
        y = jax.lax.cond(x > 0, lambda x: taxpr.tag(2 * x, name="up"), lambda x: x, x)
        return jax.lax.fori_loop(0, n, lambda k, y: taxpr.tag(y * 0.5, name="y"), y)

    places = each(["up", "y"], iterations=[0, 2, 7])
    weak = (-8.0, jnp.int32(2))
    found = taxpr.patch(fn, places, max_steps=5)((jnp.float32(8.0), 3), weak)
    shown = [(row["source"], row["variable"], row.get("iteration")) for row in found.rows]
    effects = dict(zip(shown, [row["effect"] for row in found.rows], strict=True))
    # 16 is halved three times, -8 twice.
    wanted = {("clean", "y", 0): (4.0 - -2) / 4, ("corrupted", "y", 0): (-1.0 - 2) / -4}
    for key, effect in effects.items():
        np.testing.assert_allclose(effect, wanted.get(key, np.nan))
    assert len(effects) == 8
    assert "Not computed: 6 places" in found.notes[0]
    assert np.isnan(found.values).sum() >= 6


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: taxpr.patch(model, "heads", norm)(X, X), "ArgumentError", "in both runs"),
        (lambda: taxpr.patch(model, "heads")(X, Y), "ArgumentError", "not one real number"),
        (
            lambda: taxpr.patch(model, "heads", norm)(X, Y[:3]),
            "ArgumentError",
            r"float32\[.* in the clean",
        ),
        (
            lambda: taxpr.patch(lambda p, x: model(p * x), "heads", norm)(X, Y),
            "ArgumentError",
            "a tuple of all arguments",
        ),
        (
            lambda: taxpr.patch(model, "heads", norm, sources="dirty")(X, Y),
            "ArgumentError",
            "not 'dirty'",
        ),
        (lambda: taxpr.patch(model, "head", norm)(X, Y), "SelectorError", "heads"),
    ],
)
def test_mistakes_in_patching_are_said_by_name(ask, error, words):
    with pytest.raises(getattr(taxpr, error), match=words):
        ask()


def test_iterations_of_a_value_in_no_loop_are_refused():
    def f(x):
        h = jnp.sin(x)
        return h.sum()

    with pytest.raises(taxpr.ArgumentError, match=r"iterations=\[5\], and the .* is in no loop"):
        taxpr.sweep(f, taxpr.each("h", iterations=[5]), taxpr.zero())(jnp.ones(2))
