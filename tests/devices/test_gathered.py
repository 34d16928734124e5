"""Nothing is gathered to look at it: a question exchanges between devices what its program does.

The model is tensor parallel: its layers are scanned or written out, on automatic and explicit axes
and in a shard_map.
"""

import collections
import contextlib
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import _compat

LAYERS, WIDTH, HIDDEN, BATCH = 3, 16, 32, 8
KINDS = "automatic", "explicit", "manual"
COLLECTIVE = re.compile(
    r"\s(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)


class Model:
    """A function of weights and inputs that lie on eight devices, and the mesh that is set."""

    def __init__(self, kind, scanned, faulty=False):
        types = (AxisType.Explicit if kind == "explicit" else AxisType.Auto,) * 2
        self.kind, self.mesh = kind, jax.make_mesh((2, 4), ("d", "m"), axis_types=types)
        keys = jax.random.split(jax.random.key(0), 3)
        up = jax.random.normal(keys[0], (LAYERS, WIDTH, HIDDEN)) * 0.3
        down = jax.random.normal(keys[1], (LAYERS, HIDDEN, WIDTH)) * 0.3
        x = jax.random.normal(keys[2], (BATCH, WIDTH))
        if faulty:
            up = up.at[1, 0, 21].set(jnp.nan)
        self.specs = {"up": P(None, None, "m"), "down": P(None, "m", None)}, P("d", None)
        self.plain = {"up": up, "down": down}, x
        self.args = jax.tree.map(
            lambda one, spec: jax.device_put(one, NamedSharding(self.mesh, spec)),
            self.plain, self.specs,
        )  # fmt: skip
        layers = self.scanned if scanned else self.written_out
        self.f = layers
        if kind == "manual":
            spread = jax.shard_map(
                layers, mesh=self.mesh, in_specs=self.specs, out_specs=self.specs[1]
            )
            self.f = lambda w, x: spread(w, x)

    def layer(self, x, w):
        h = jnp.tanh(x @ w["up"])
        if self.kind == "explicit":
            y = jnp.einsum("bf,fd->bd", h, w["down"], out_sharding=P("d", None))
        else:
            y = h @ w["down"]
        y = lax.psum(y, "m") if self.kind == "manual" else y
        return x + y, None

    def scanned(self, w, x):
        return lax.scan(self.layer, x, w)[0]

    def written_out(self, w, x):
        for k in range(LAYERS):
            x, _ = self.layer(x, jax.tree.map(lambda one, k=k: one[k], w))
        return x

    def set_mesh(self):
        return jax.set_mesh(self.mesh) if self.kind == "explicit" else contextlib.nullcontext()

    def values(self, **others):
        """What the layers compute, by NumPy in float64."""
        w, x = jax.tree.map(lambda one: np.asarray(one, np.float64), self.plain)
        w |= {name: np.asarray(one, np.float64) for name, one in others.items()}
        found = {"h": [], "y": []}
        for up, down in zip(w["up"], w["down"], strict=True):
            found["h"].append(np.tanh(x @ up))
            found["y"].append(found["h"][-1] @ down)
            x = x + found["y"][-1]
        return {name: np.stack(each) for name, each in found.items()}


def collectives(text):
    return dict(collections.Counter(COLLECTIVE.findall(text)))


def exchanged(ask):
    """What devices exchange in each program that is compiled for a question."""
    client = jax.devices()[0].client
    seen, texts = client.live_executables(), []

    def listen(stage):
        if stage.kind == "compile":
            known = {id(one) for one in seen}
            new = [one for one in client.live_executables() if id(one) not in known]
            texts.extend(module.to_string() for one in new for module in one.hlo_modules())
            seen.extend(new)

    _compat.hear(listen)
    try:
        ask()
    finally:
        _compat.hear_no_more(listen)
    assert texts, "it compiles nothing"
    return [found for found in map(collectives, texts) if found]


def alone(f, *args):
    return collectives(jax.jit(f).lower(*args).compile().as_text())


WATCHING = {
    "all values": lambda f: taxpr.watch(f),
    "one value": lambda f: taxpr.watch(f, "h"),
    "statistics": lambda f: taxpr.watch(f, keep="stats"),
    "statistics with little memory": lambda f: taxpr.watch(f, keep="stats", memory=1),
    "find_nan": taxpr.find_nan,
    "find_nan with little memory": lambda f: taxpr.find_nan(f, memory=1),
}


@pytest.mark.spread(2)
@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "written out"])
@pytest.mark.parametrize("kind", KINDS)
def test_watching_exchanges_nothing(kind, scanned):
    for name, question in WATCHING.items():
        model = Model(kind, scanned)
        with model.set_mesh():
            plain = alone(model.f, *model.args)
            found = exchanged(lambda model=model: question(model.f)(*model.args))  # noqa: B023
        assert found == [plain], name
        assert plain == {"all-reduce": 1 if scanned else LAYERS}


@pytest.mark.parametrize("kind", KINDS)
def test_comparing_exchanges_nothing_and_names_the_device(kind):
    model, other = Model(kind, True), Model(kind, True)
    up = np.array(model.plain[0]["up"])
    up[1, 0, 21] = 0.75  # of the devices with m=2
    other.args[0]["up"] = jax.device_put(up, model.args[0]["up"].sharding)
    with model.set_mesh():
        plain = alone(model.f, *model.args)
        answers, ask = [], taxpr.first_difference(model.f)
        found = exchanged(lambda: answers.append(ask(model.args, other.args)))
    assert found == [plain]  # both run the same program
    h = next(row for row in answers[0].rows if row.variable == "h")
    assert (h.iteration, h.index[1], h.process) == ((1,), 21 - 16 * (kind == "manual"), None)
    far = np.abs(model.values(up=up)["h"][1] - model.values()["h"][1])
    row = int(np.argmax(far[:4] if kind == "manual" else far, 0)[21])
    assert h.device == f"d={row // 4}, m=2"  # of a shard_map the first device is told
    assert h.index[0] == row
    assert h.difference == pytest.approx(far[row, 21], rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_derivative_is_compared_where_its_values_are(kind):
    model = Model(kind, True)

    def loss(w, x):
        return model.f(w, x).sum()

    with model.set_mesh():
        plain = alone(loss, *model.args)
        derived = alone(jax.grad(loss, (0, 1)), *model.args)
        answers = []
        found = exchanged(lambda: answers.append(taxpr.check_grad(loss)(*model.args)))
    assert answers[0].agrees
    assert answers[0].notes == ()
    assert plain in found
    assert all(set(one) <= {*plain, *derived} for one in found)


@jax.custom_vjp
def tripled(x):
    return x * 3


tripled.defvjp(lambda x: (x * 3, None), lambda _, g: (g * 2,))  # wrong


def test_a_wrong_rule_names_the_device_of_its_call():
    """Within a shard_map each device has a call of its own; the first one is told."""
    model = Model("manual", True)

    def body(x):
        h = tripled(x)
        return h

    f = jax.shard_map(
        body, mesh=model.mesh, in_specs=P("d", "m"), out_specs=P("d", "m"), check_vma=False
    )
    x = jax.device_put(X, NamedSharding(model.mesh, P("d", "m")))
    [row] = taxpr.check_grad(lambda x: f(x).sum())(x).rows
    assert (row.variable, row.device, row.iteration, row.process) == ("h", "d=0, m=0", (), None)
    assert row.hint == "is 0.667 times what it should be"


def every(model):
    with taxpr.every(1, jax.jit(model.f), lambda told: None, "h", finite=False) as stepping:
        return stepping(*model.args)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_tells_statistics_exchanges_nothing_more(kind):
    model = Model(kind, True)
    with model.set_mesh():
        plain = alone(model.f, *model.args)
        assert exchanged(lambda: every(model)) == [plain]  # the step itself is compiled already


@pytest.mark.spread(2)
@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "written out"])
@pytest.mark.parametrize("kind", KINDS)
def test_injection_and_collection_exchange_nothing(kind, scanned):
    model = Model(kind, scanned)
    with model.set_mesh():
        program = taxpr.trace(model.f, names=True)(*model.args)
        plain = alone(model.f, *model.args)
        injected = program.inject({"h": taxpr.scale(0.5)})
        assert alone(injected, injected.ctx, *model.args) == plain
        assert alone(program.collect("h"), *model.args) == plain


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_exchanges_as_much_as_its_runs(kind):
    model = Model(kind, True)

    def loss(w, x):
        return model.f(w, x).sum()

    with model.set_mesh():
        plain = alone(loss, *model.args)
        found = exchanged(lambda: taxpr.sweep(loss, "h", taxpr.scale, [0.0, 0.5, 1.5])(*model.args))
    assert found == [plain, plain]  # of the program as it is, and of all runs with others


NAMES = "mean", "std", "min", "max", "norm", "zeros", "nan", "posinf", "neginf"


def by_numpy(x):
    kinds = [x == 0, np.isnan(x), x == np.inf, x == -np.inf]
    finite = x[np.isfinite(x)]
    first = finite.mean(), finite.std(), finite.min(), finite.max(), np.linalg.norm(finite)
    return dict(zip(NAMES, [*first, *(one.mean() for one in kinds)], strict=True))


@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "written out"])
@pytest.mark.parametrize("kind", ["automatic", "explicit"])
def test_statistics_are_those_of_numpy(kind, scanned):
    model = Model(kind, scanned)
    with model.set_mesh():
        rec = taxpr.watch(model.f, keep="stats", memory=1)(*model.args)
        for name, expected in model.values().items():
            each = rec[name].stats(each=True)
            each = [each] if scanned else each
            assert each[0].size == expected[0].size
            for field in NAMES:
                found = np.concatenate([np.ravel(getattr(one, field)) for one in each])
                assert_close(found, np.array([by_numpy(x)[field] for x in expected]), 1e-5)
            assert np.sum([one.histogram for one in each]) == expected.size


X = np.linspace(-3, 5, 128, dtype=np.float32).reshape(8, 16)


def of_many_kinds(x):
    bad = jnp.where(x > 4.9, jnp.inf, jnp.where(x < -2.95, jnp.nan, x))  # each on one device
    number = (x * x).mean()
    whole = jnp.full((3, 5), 2.0) * number
    ints = jnp.round(x * 2).astype(jnp.int32)
    signs = x > 0.3
    pairs = lax.complex(x, jnp.sin(x))
    half = (x * 3).astype(jnp.bfloat16)

    def halve(c):
        smaller = c / 2
        return smaller

    small = lax.while_loop(lambda c: (c > 0.7).any(), halve, x)
    side = lax.cond(number > 0, lambda x: halve(x + 1), lambda x: x, small)
    return bad, whole, ints, signs, pairs, half, small, side


SPREAD = P("d", None, None), P(("m", "d"), None, None), P(None, "m", "d"), P("m", None, "d"), P()


@pytest.mark.spread(2)
@pytest.mark.parametrize("spec", SPREAD, ids=str)
@pytest.mark.parametrize("kind", ["automatic", "explicit"])
def test_batch_elements_of_a_while_loop_have_statistics_of_their_own(kind, spec):
    """A device has parts of some of them, of all, or copies; each loop ends for itself."""
    model = Model(kind, True)
    x = jnp.sin(jnp.arange(8 * 16 * 8.0)).reshape(8, 16, 8) * jnp.arange(1.0, 9)[:, None, None]

    def grown(row):
        def more(c):
            bigger = c * 1.5
            return bigger

        return lax.while_loop(lambda c: jnp.abs(c).max() < 9, more, row)

    def every(x):
        return jax.vmap(grown)(x)

    def question(f):
        return taxpr.watch(f, "more.bigger", keep="stats", memory=1)

    expected = question(every)(x)["more.bigger"]
    with model.set_mesh():
        given = jax.device_put(x, NamedSharding(model.mesh, spec))
        plain, found = alone(every, given), []
        made = exchanged(lambda: found.append(question(every)(given)["more.bigger"]))
    assert made == ([plain] if plain else [])
    for each in (False, True):
        assert_same_statistics(found[0].stats(each=each), expected.stats(each=each))


def of_uneven_parts(x):
    uneven = jnp.concatenate([x, x[:3]]) * 2  # 11 rows of eight devices
    none = x[:0] * 3
    return uneven, none


OF_MANY = "bad", "number", "whole", "ints", "signs", "pairs", "half", "smaller", "small", "side"
SPECS = P("d", "m"), P(("m", "d"), None), P(None, "d"), P(None, None)


def assert_same_statistics(found, expected):
    if isinstance(expected, list):
        for pair in zip(found, expected, strict=True):
            assert_same_statistics(*pair)
        return
    assert found.size == expected.size
    for field in NAMES:
        pair = getattr(found, field), getattr(expected, field)
        np.testing.assert_allclose(*pair, 1e-5, 1e-6, err_msg=field)
    np.testing.assert_array_equal(np.sum(found.histogram, -1), np.sum(expected.histogram, -1))


@functools.cache
def on_one_device(fun):
    return taxpr.watch(fun)(X)


@pytest.mark.spread(4)
@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("kind", ["automatic", "explicit"])
def test_statistics_of_values_of_all_kinds(kind, spec):
    """They are those of the same program on one device; a part that is a copy counts once."""
    model = Model(kind, True)
    for fun, names in (of_many_kinds, OF_MANY), (of_uneven_parts, ("uneven", "none")):
        if fun is of_uneven_parts and kind == "explicit":
            continue  # JAX refuses it
        expected = on_one_device(fun)
        with model.set_mesh():
            x = jax.device_put(X, NamedSharding(model.mesh, spec))
            rec = taxpr.watch(fun, keep="stats", memory=1)(x)
        assert "Statistics only" in rec.notes[0]
        for name in names:
            for each in (False, True):
                assert_same_statistics(rec[name].stats(each=each), expected[name].stats(each=each))


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e30), ("float64", 1e200)])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_very_large_numbers(kind, dtype, scale):
    """Those of parts and iterations are put together without the square of any number."""
    model = Model(kind, True)

    def growing(x):
        def double(c, _):
            h = c * 2
            return h, None

        return lax.scan(double, x, None, length=3)[0]

    f = growing
    if kind == "manual":
        f = jax.shard_map(growing, mesh=model.mesh, in_specs=P("d", "m"), out_specs=P("d", "m"))
    with _compat.enable_x64(), model.set_mesh():
        x = (X.astype("float64") * scale).astype(dtype)
        placed = jax.device_put(x, NamedSharding(model.mesh, P("d", "m")))
        rec = taxpr.watch(lambda x: f(x), keep="stats", memory=1)(placed)
        found = rec["h"].stats()
    whole = np.stack([x.astype(np.longdouble) * 2**k for k in (1, 2, 3)])
    norm = np.sqrt((whole * whole).sum())
    for name, expected in {"mean": whole.mean(), "std": whole.std(), "norm": norm}.items():
        assert getattr(found, name) == pytest.approx(float(expected), rel=1e-5), name
    assert (found.min, found.max) == (whole.min(), whole.max())
    assert found.histogram.sum() == whole.size


@pytest.mark.parametrize("is_set", [True, False], ids=["set", "not set"])
def test_values_of_one_variable_with_several_shardings_are_one_array(is_set):
    model = Model("explicit", True)

    def moving(x):
        h = jnp.sin(x)
        h = jax.sharding.reshard(h * 2, P("m", None))
        h = jax.sharding.reshard(h + 1, P("d", "m"))
        return h.sum()

    with model.set_mesh():
        rec = taxpr.watch(moving)(jax.device_put(X, NamedSharding(model.mesh, P("d", None))))
    specs = P("d", None), P("m", None), P("d", "m")
    with model.set_mesh() if is_set else contextlib.nullcontext():
        for k, spec in enumerate(specs):  # each as it was
            assert rec["h"].at(k).sharding.is_equivalent_to(NamedSharding(model.mesh, spec), 2)
        assert rec["h"].value.sharding.spec[1:2] == ("d",)  # the first one's
        sin = np.sin(X)
        assert_close(rec["h"].value, np.stack([sin, 2 * sin, 2 * sin + 1]))
        assert_close(float(rec["h"].max()), float((2 * sin + 1).max()))


def test_a_shard_map_over_some_axes_leaves_nothing_for_the_next_program():
    mesh = jax.make_mesh((2, 4), ("d", "m"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(X, NamedSharding(mesh, P("d", "m")))

    def body(x):
        inner = jnp.sin(x)
        return inner

    @jax.jit
    def partly(x):
        names = {"axis_names": {"d"}}
        return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"), **names)(x)

    def wholly(x):
        y = jnp.cos(x) * 2
        return y

    rec = taxpr.watch(partly, keep="stats", memory=1)(x)
    assert_close(rec["inner"].stats().mean, np.sin(X).mean())
    assert_close(taxpr.watch(partly)(x)["inner"].stats().mean, np.sin(X).mean())
    assert_close(taxpr.watch(wholly)(x)["y"].stats().mean, (np.cos(X) * 2).mean())


@pytest.mark.parametrize("question", ["stats", "find_nan"])
def test_two_meshes_of_the_same_devices(question):
    """JAX allows them on automatic axes, and statistics are made then as on any."""
    kinds = {"axis_types": (AxisType.Auto,)}
    two = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    one = jax.sharding.Mesh(two.devices.ravel(), ("x",), **kinds)
    x = jnp.arange(64.0).reshape(8, 8) - 9
    on_two, on_one = (
        jax.device_put(x, NamedSharding(mesh, P(mesh.axis_names[0]))) for mesh in (two, one)
    )

    def constrained(x):
        y = lax.with_sharding_constraint(x * 2, NamedSharding(one, P("x")))
        z = jnp.sqrt(y)
        return z

    def plain(x):
        z = jnp.sqrt(x * 2)
        return z

    for fun, given, around in (
        (constrained, on_two, contextlib.nullcontext()),
        (
            plain,
            on_one,
            jax.set_mesh(two) if hasattr(jax, "set_mesh") else contextlib.nullcontext(),
        ),
    ):
        with around:
            if question == "stats":
                mean = taxpr.watch(fun, keep="stats", memory=1)(given)["z"].stats().mean
                assert_close(mean, np.sqrt(2 * np.arange(55.0)).mean())
            else:
                [row] = taxpr.find_nan(fun, memory=1)(given).rows
                assert row.variable == "z"
                assert row.what == "NaN"
