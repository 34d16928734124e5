"""Cotangents in a run with injectors: those of the function with the same changes by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr_jupyter import PanelError, Session

W = jax.random.normal(jax.random.key(0), (4, 3))
XS = jax.random.normal(jax.random.key(1), (5, 3))


def loss(w, xs):
    def step(total, x):
        h = jnp.tanh(w @ x)
        total = total + (h**2).sum()
        return total, None

    total, _ = jax.lax.scan(step, 0.0, xs)
    root = jnp.sqrt(total)
    return root * 3


def smoothed(ctx, token, params):
    """A change with a state, which depends on the values before."""
    ctx = 0.5 * ctx + 0.5 * jnp.mean(token)
    return token * ctx, ctx


def by_hand(change, w, xs, added):
    """`loss` with changes of `h` and `root`; ``added`` is for the gradients by `h` and `root`."""

    def step(carry, given):
        (total, ctx), (x, more) = carry, given
        h = jnp.tanh(w @ x)
        h, ctx = change(h, ctx)
        h = h + more
        total = total + (h**2).sum()
        return (total, ctx), None

    (total, _), _ = jax.lax.scan(step, (0.0, 1.0), (xs, added[0]))
    root = jnp.sqrt(total) + 1.0
    root = root + added[1]
    return root * 3


@pytest.mark.parametrize(
    ("injector", "given", "change"),
    [
        ("scale", {"factor": 2.0}, lambda h, ctx: (2 * h, ctx)),
        (smoothed, {"ctx": 1.0}, lambda h, ctx: smoothed(ctx, h, None)),
    ],
)
def test_with_injectors_they_are_those_of_the_changed_source(injector, given, change):
    session = Session(loss, (W, XS), names=True)
    session.attach("h", injector, **given)
    session.attach("root", "add", value=1.0)
    recording = session.watch(grads=True)
    by_w, by_xs, (by_h, by_root) = jax.grad(by_hand, (1, 2, 3))(
        change, W, XS, (jnp.zeros((5, 4)), jnp.zeros(()))
    )
    for name, want in (("w", by_w), ("h", by_h), ("root", by_root)):
        np.testing.assert_allclose(recording[f"∂ {name}"].value, want, rtol=1e-5)
    np.testing.assert_allclose(recording["∂ xs"].value, by_xs, rtol=1e-5)
    plain = session.watch()
    assert np.array_equal(recording["h"].value, plain["h"].value)
    assert session.has_recorded(True, grads=True) is False  # the last one has values alone
    untouched = session.watch(injectors=False, grads=True)
    assert not np.allclose(untouched["∂ w"].value, by_w)


def train(w, x):
    def loss(w):
        h = jnp.sin(w * x)
        return jnp.sum(h * h)

    _, g = jax.value_and_grad(loss)(w)
    u = g * 0.1
    n = taxpr.tag(w - u, name="updated")
    return jax.value_and_grad(loss)(n)


def test_the_own_cotangents_of_a_program_know_the_injectors_before_them():
    w, x = jnp.arange(3.0), jnp.full(3, 2.0)
    session = Session(train, (w, x), names=True)
    session.attach("u", "scale", factor=3.0)
    session.attach("updated", "add", value=1.0)
    assert not any(one.edits for one in session.injectors.values())
    recording = session.watch(grads=True)
    changed = w - 3.0 * 0.1 * (2 * jnp.sin(w * x) * jnp.cos(w * x) * x) + 1.0
    for part in (one for one in recording.parts if one.cotangent):
        at = (w, changed)[part.occurrence]
        by_h = 2 * jnp.sin(at * x)
        want = by_h if part.name == "∂ h" else by_h * jnp.cos(at * x) * x
        np.testing.assert_allclose(part.whole(), want, rtol=1e-5)
    names = sorted(part.name for part in recording.parts if part.cotangent)
    assert names == ["∂ h", "∂ h", "∂ w", "∂ w"]
    chips = session.recorded
    assert chips is not None
    assert chips.with_cotangents


def test_an_edit_and_an_injector_together():
    w, x = jnp.arange(3.0), jnp.full(3, 2.0)
    session = Session(train, (w, x), names=True)
    session.edit("loss.h", "jnp.cos(w * x)")
    session.attach("u", "scale", factor=3.0)
    recording = session.watch(grads=True)

    def loss(w):
        return jnp.sum(jnp.cos(w * x) ** 2)

    changed = w - 3.0 * 0.1 * jax.grad(loss)(w)
    slopes = [p.whole() for p in recording.parts if p.name == "∂ w"]
    np.testing.assert_allclose(slopes, [jax.grad(loss)(w), jax.grad(loss)(changed)], rtol=1e-5)


@jax.custom_jvp
def doubled(x):
    y = x * 2
    return y


@doubled.defjvp
def _(primals, tangents):
    return doubled(*primals), 2 * tangents[0]


def test_where_they_are_not_those_of_a_change_by_hand_they_are_refused():
    session = Session(lambda x: doubled(x).sum(), (jnp.ones(2),), names=True)
    session.attach("doubled.y", "scale", factor=2.0)
    with pytest.raises(PanelError, match="doubled has a derivative rule, which does not cover"):
        session.watch(grads=True)

    def step(w):
        def loss(w):
            return taxpr.tag(jnp.sin(w), name="s").sum()

        return jax.grad(loss)(w)

    session = Session(step, (jnp.ones(2),), names=True)
    with pytest.warns(taxpr.errors.StaleDerivativeWarning):
        session.attach("s", "scale", factor=2.0)
    with pytest.raises(PanelError, match=r"injector scale at 's' .* derivative stays as it was"):
        session.watch(grads=True)
    assert session.watch(injectors=False, grads=True)

    def outside(w):
        g = jax.grad(lambda w: jnp.sin(w).sum())(w)
        return jnp.cos(g) * 2 + w

    session = Session(outside, (jnp.ones(2),), names=True)
    *_, unnamed = taxpr.find_values(session.program, jax.lax.cos_p)
    session.attach(unnamed.address, "scale", factor=2.0)
    with pytest.raises(PanelError, match="no variable tells where this value is in it"):
        session.watch(grads=True)
