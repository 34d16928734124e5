"""Planting in a shard_map, and gradients with respect to what is tagged in there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close, check_types
from devices.by_hand import mesh, sharded
from jax import lax
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import plant, tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
W = jnp.float32([0.5, -1.5])
checked = pytest.mark.parametrize("check_vma", [True, False])


def inside(x):
    """Each device has loops of its own, one of which ends where its data says."""
    x = lax.cond(jnp.sum(x) > 2, lambda x: tag(x * 2, name="high"), lambda x: x, x)

    def body(carry):
        n, c = carry
        return n + 1, tag(jnp.abs(c) * 1.5 + 0.5, name="loop")

    n, x = lax.while_loop(lambda carry: jnp.sum(carry[1]) < 12, body, (jnp.float32(0), x))
    return lax.scan(lambda c, w: (tag(c * w, name="c"), None), x + n, W, reverse=True)[0]


def around(check_vma):
    """The scan is around the shard_map, and around another scan in there."""

    def body(x, w):
        total = tag(lax.psum(x, "j"), name="of row")
        x = lax.scan(lambda c, v: (tag(c * v + w, name="c"), None), x, W)[0]
        return x + 0.1 * total

    f = jax.shard_map(
        body,
        mesh=mesh("4x2"),
        in_specs=(P("i", "j"), P()),
        out_specs=P("i", "j"),
        check_vma=check_vma,
    )
    return lambda x: lax.scan(lambda c, w: (f(c, w), None), x, W)[0]


@pytest.mark.spread(2)
@checked
def test_each_device_gets_what_it_gave(check_vma):
    f = sharded(inside, mesh("8"), P("i"), check_vma=check_vma)
    p = taxpr.trace(f)(X)
    other = X[::-1].copy() * np.float32(0.7)
    _, values = jax.jit(p.collect(max_steps=9))(X)
    for name in ("high", "loop", "c"):
        planted = p.plant({name: values[name]})
        check_types(planted.jaxpr)
        assert_close(jax.jit(planted)(X), f(X))
    # The last of the values of the last loop is the result.
    assert_close(jax.jit(p.plant({"c": values["c"]}))(other), f(X))
    mixed = p.plant({"c": plant(values["c"], at=[1])})
    assert_close(jax.jit(mixed)(other), values["c"][:, 1, 0] * W[0])


@checked
def test_loops_around_and_in_a_shard_map(check_vma):
    f = around(check_vma)
    p = taxpr.trace(f)(X)
    assert p.axes()["c"][:4] == (
        "0:scan",
        "mesh i",
        "mesh j",
        "0:scan/body/0:shard_map/body/1:scan",
    )
    values = jax.jit(p.collect())(X)[1]
    other = np.cos(X)
    assert_close(jax.jit(p.plant(values))(other), f(X))

    def blocks(k):
        return np.asarray(values["c"])[k, :, :, 1].transpose(0, 2, 1, 3).reshape(8, 4)

    def of_row(x):
        return np.tile(x[:, :2] + x[:, 2:], 2) * np.float32(0.1)

    expected = blocks(1) + of_row(blocks(0) + of_row(other))
    assert_close(jax.jit(p.plant({"c": plant(values["c"], at=(None, 1))}))(other), expected)


@checked
def test_one_value_for_all_devices_and_iterations(check_vma):
    f = sharded(inside, mesh("8"), P("i"), check_vma=check_vma)
    p = taxpr.trace(f)(X)
    one = np.float32([[1, 2, 3, 4]])
    assert_close(p.plant({"c": one})(X), np.tile(one, (8, 1)))
    # The value ends the loop after its first iteration: what is counted then is 1 or 0.
    found = jax.jit(p.plant({"loop": 2 * one, "high": one}))(X)
    start = np.where(X.sum(1, keepdims=True) > 2, one, X)
    begun = np.where(start.sum(1, keepdims=True) < 12, 2 * one + 1, start)
    assert_close(found, begun * np.float32(W[0] * W[1]))


def test_two_tags_and_two_devices_are_told_apart():
    def body(x):
        return tag(tag(x, name="h") * 2, name="h")

    f = sharded(body, mesh("4x2"), P("j"))
    x = X[:2]
    p = taxpr.trace(f)(x)
    values = p.collect(stack=True)(x)[1]["h"]
    assert values.shape == (2, 2, 1, 4)
    assert_close(p.plant({"h": values})(0 * x), 2 * x)
    with pytest.raises(taxpr.InjectorError, match=r"may be mesh axis 'j', or the tags\. Give"):
        p.plant({"h": values[0]})


def test_which_of_two_axes_of_one_size_is_asked():
    over = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    f = sharded(lambda x: tag(lax.psum(x, "a"), name="h"), over, P("a", "b"), P(None, "b"))
    p = taxpr.trace(f)(X)
    value = p.collect()(X)[1]["h"]
    assert value.shape == (2, 4, 2)
    assert p.axes()["h"] == ("mesh b", "token 0", "token 1")
    with pytest.raises(taxpr.InjectorError, match="mesh axis 'a', or mesh axis 'b'"):
        p.plant({"h": value})
    whole = jnp.broadcast_to(value, (2, 2, 4, 2))
    assert_close(p.plant({"h": whole})(0 * X), f(X))


@checked
def test_values_of_injectors_need_no_policy(check_vma):
    """What an injector only reads is the same after a loop that devices leave apart."""
    f = sharded(inside, mesh("8"), P("i"), check_vma=check_vma)
    p = taxpr.trace(f)(X)
    changed = p.inject({"loop": taxpr.scale(1.0)})
    assert_close(jax.jit(changed)(changed.ctx, X)[0], f(X))
    counted = p.plant({"c": jnp.ones((1, 4)), "loop": taxpr.count()}, shards="psum")
    assert_close(counted(X), np.ones((8, 4), np.float32))
    with pytest.raises(taxpr.RefusedError, match="differs between the devices along i"):
        p.plant({"loop": taxpr.count()})


# ---- gradients ---------------------------------------------------------------


def result(x, a, check_vma=True):
    """``a`` is added to the tokens, one for each firing."""

    def body(x, h, c, s):
        h = tag(jnp.sin(x), name="h") + h[0]

        def step(carry, given):
            w, more = given
            return tag(carry * w + 0.1, name="c") + more, None

        y = lax.scan(step, h, (W, c[0]))[0]
        total = tag(lax.psum(jnp.sum(y**2), "i"), name="s") + s
        return y * total * 0.1, total

    f = jax.shard_map(
        body,
        mesh=mesh("8"),
        in_specs=(P("i"), P("i"), P("i"), P()),
        out_specs=(P("i"), P()),
        check_vma=check_vma,
    )
    y, s = f(x, a["h"], a["c"], a["s"])
    return jnp.sum(jnp.cos(y)) + jnp.sin(s)


ZERO = {"h": jnp.zeros((8, 1, 4)), "c": jnp.zeros((8, 2, 1, 4)), "s": jnp.float32(0)}


def test_gradients_are_those_of_what_is_added():
    expected = jax.jit(jax.grad(result, argnums=1))(X, ZERO)
    found = jax.jit(taxpr.grad_at(lambda x: result(x, ZERO)))(X)
    assert_close(found, expected)
    assert_close(taxpr.grad_at(lambda x: result(x, ZERO), "s")(X)["s"], expected["s"])


def test_a_gradient_without_check_vma_is_refused():
    with pytest.raises(
        taxpr.RefusedError, match=r"grad_at: the tag 'h' .* is in shard_map.*, with check_vma=False"
    ):
        taxpr.grad_at(lambda x: result(x, ZERO, check_vma=False))(X)


@pytest.mark.parametrize("spec", [P("i"), P("j"), P(None, "j"), P("j", "i")])
@checked
def test_axes_are_those_along_which_values_differ(spec, check_vma):
    over = jax.sharding.Mesh(np.reshape(jax.devices()[:4], (2, 2)), ("i", "j"))

    def body(x):
        return lax.scan(lambda c, w: (tag(c * w, name="c"), None), x, W)[0]

    f = jax.shard_map(body, mesh=over, in_specs=spec, out_specs=spec, check_vma=check_vma)
    p = taxpr.trace(f)(X)
    named = {name for entry in spec if entry for name in entry}
    leading = [f"mesh {name}" for name in ("i", "j") if name in named]
    address = p.tags()[0].chain[1]
    assert p.axes()["c"] == (*leading, address, "token 0", "token 1")
    assert p.axes(stack=True) == p.axes()
    inside = taxpr.trace(lambda x: lax.map(f, x[None]))(X)
    assert inside.axes()["c"][: 1 + len(leading)] == (inside.tags()[0].chain[0], *leading)


def test_devices_draw_noise_apart():
    def body(x):
        same = tag(lax.psum(x, "i"), name="same")
        return tag(x, name="own"), same

    f = jax.shard_map(body, mesh=mesh("8"), in_specs=P("i"), out_specs=(P("i"), P()))
    p = taxpr.trace(f)(jnp.zeros(8)).inject(taxpr.noise(0))
    (own, same), _ = jax.jit(p)(p.ctx, jnp.zeros(8))
    assert len(set(own.tolist())) == 8
    assert same.shape == (1,)
