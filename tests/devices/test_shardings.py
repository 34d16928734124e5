"""Arrays spread over devices: shardings and donated buffers are those of the program itself."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from checks import assert_close
from devices.by_hand import changing, mesh, start
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import tag

X = np.linspace(-1.5, 2.5, 32, dtype=np.float32).reshape(8, 4)
W = np.linspace(0.2, 1.2, 16, dtype=np.float32).reshape(4, 4)


def on(spec, kind=AxisType.Auto):
    return NamedSharding(mesh("4x2", kind), spec)


def identity(ctx, token, params):
    return token, ctx


def layer(x, w):
    h = tag(jnp.tanh(x @ w), name="h")
    return h * 2


def given(x, w):
    """What the arguments have decides."""
    return tag(layer(x, w), name="out"), jnp.sum(x)


def inner_jit(x, w):
    specs = on(P("i", "j")), on(P(None, "j"))
    return jax.jit(layer, in_shardings=specs, out_shardings=on(P("j", "i")))(x, w), jnp.sum(w)


def constrained(x, w):
    def step(c, _):
        c = lax.with_sharding_constraint(tag(c @ w, name="c"), on(P("j", "i")))
        return c, tag(c.sum(0), name="s")

    x, s = lax.scan(step, x, None, length=3)
    return lax.with_sharding_constraint(tag(x, name="x"), on(P("j"))), s


def shard_mapped(x, w):
    f = jax.shard_map(
        lambda x, w: tag(x @ w, name="x"),
        mesh=mesh("4x2"),
        in_specs=(P("i"), P(None, "j")),
        out_specs=P("i", "j"),
    )
    return f(x, w), x


def compiled(fn, *args):
    made = jax.jit(fn).lower(*args).compile()
    return made, made.input_shardings[0], made.output_shardings


def same(found, expected, args):
    for a, b, arg in zip(found, expected, args, strict=True):
        assert a.is_equivalent_to(b, arg.ndim)


@pytest.mark.spread(3)
@pytest.mark.parametrize("injector", [identity, changing], ids=lambda f: f.__name__)
@pytest.mark.parametrize("fn", [given, inner_jit, constrained, shard_mapped])
def test_compiled_shardings_stay(fn, injector):
    args = jax.device_put(X, on(P("i", "j"))), jax.device_put(W, on(P(None, "j")))
    _, ins, outs = compiled(fn, *args)
    results = fn(*args)
    program = taxpr.trace(fn)(*args).inject(injector, start(), shards="psum")
    made, new_ins, (new_outs, ctx_outs) = compiled(program, program.ctx, *args)
    same(new_ins[1:], ins, args)
    same(new_outs, outs, results)
    assert all(one.is_fully_replicated for one in jax.tree.leaves(ctx_outs))
    found, _ = made(program.ctx, *args)
    if injector is identity:
        assert_close(found, results)
    collected = taxpr.trace(fn)(*args).collect()
    _, new_ins, (new_outs, _) = compiled(collected, *args)
    same(new_ins, ins, args)
    same(new_outs, outs, results)


def test_shardings_given_to_an_outer_jit():
    specs = on(P("i")), on(P("j"))
    program = taxpr.trace(layer)(X, W)
    plain = jax.jit(program, in_shardings=specs, out_shardings=on(P(None, "j")))
    program = program.inject(changing, start())
    jitted = jax.jit(
        program, in_shardings=(None, *specs), out_shardings=(on(P(None, "j")), on(P()))
    )
    made = jitted.lower(program.ctx, X, W).compile()
    same(made.input_shardings[0][1:], specs, (X, W))
    assert made.output_shardings[0].is_equivalent_to(on(P(None, "j")), 2)
    out, _ = jitted(program.ctx, X, W)
    assert out.sharding == plain(X, W).sharding
    assert_close(out, jax.jit(program)(program.ctx, X, W)[0])


def test_eager_programs_keep_shardings():
    args = jax.device_put(X, on(P("i", "j"))), jax.device_put(W, on(P()))
    out, _ = given(*args)
    program = taxpr.trace(given)(*args).inject(changing, start())
    (found, _), _ = program(program.ctx, *args)
    assert found.sharding.is_equivalent_to(out.sharding, 2)


def test_a_sharded_ctx_stays_sharded():
    ctx = jax.device_put(X, on(P("i")))
    program = taxpr.trace(given)(X, W).inject(lambda c, t, p: (t + c, c * 2), ctx)
    _, new = jax.jit(program)(program.ctx, X, W)
    assert new.sharding.is_equivalent_to(on(P("i")), 2)
    assert_close(new, 4 * X)


# ---- shardings as types --------------------------------------------------------


def explicit_args():
    kind = AxisType.Explicit
    return jax.device_put(X, on(P("i"), kind)), jax.device_put(W, on(P(None, "j"), kind))


def explicit(x, w):
    y = tag(jnp.tanh(x @ w), name="y")
    step = lambda c, _: (tag(jnp.sin(c), name="c"), c.sum())
    return lax.scan(step, y, None, length=2)


@pytest.mark.parametrize("with_set_mesh", [True, False])
def test_explicit_shardings_stay(with_set_mesh):
    args = explicit_args()
    expected = jax.typeof(jax.jit(explicit)(*args)[0])
    if with_set_mesh:
        with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
            program = taxpr.trace(explicit)(*args).inject(changing, start())
            (out, _), ctx = jax.jit(program)(program.ctx, *args)
    else:
        program = taxpr.trace(explicit)(*args).inject(changing, start())
        (out, _), ctx = jax.jit(program)(program.ctx, *args)
    assert jax.typeof(out).sharding.spec == expected.sharding.spec == P("i", "j")
    plain = taxpr.trace(explicit)(X, W).inject(changing, start())
    assert_close((out, ctx), ((plain(plain.ctx, X, W)[0][0]), plain(plain.ctx, X, W)[1]))
    values = jax.jit(taxpr.trace(explicit)(*args).collect())(*args)[1]
    assert jax.typeof(values["c"]).sharding.spec == P(None, "i", "j")


@pytest.mark.parametrize("name", ["y", "c"])
def test_what_an_injector_returns_gets_the_sharding_that_the_program_goes_on_with(name):
    args = explicit_args()

    def injector(ctx, token, params):
        # One is on all devices, one is sharded otherwise.
        other = jnp.ones((8, 4)) if name == "y" else jax.sharding.reshard(token, P("j"))
        return other, ctx + token

    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        program = taxpr.trace(explicit)(*args)
        ctx = jnp.zeros((8, 4))
        program = program.inject(injector, ctx, where=name)
        (out, _), new = jax.jit(program)(program.ctx, *args)
    assert jax.typeof(out).sharding.spec == P("i", "j")
    y = np.tanh(X @ W)
    assert_close(out, np.sin(np.sin(np.ones_like(X) if name == "y" else y)))
    assert_close(new, y if name == "y" else np.sin(y) + np.sin(np.sin(y)))


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "kind",
    [
        taxpr.replace(1.0),
        taxpr.zero(),
        taxpr.scale(2.0),
        taxpr.clip(-0.5, 0.5),
        taxpr.stats(),
        taxpr.record(),
    ],
    ids=lambda kind: kind.name,
)
def test_ready_injectors_with_explicit_shardings(kind):
    args = explicit_args()
    with jax.set_mesh(mesh("4x2", AxisType.Explicit)):
        program = taxpr.trace(explicit)(*args).inject(kind)
        found = jax.jit(program)(program.ctx, *args)
    plain = taxpr.trace(explicit)(X, W).inject(kind)
    assert_close(found, jax.jit(plain)(plain.ctx, X, W))
    assert jax.typeof(found[0][0]).sharding.spec == P("i", "j")


# ---- donation ------------------------------------------------------------------


def aliases(made):
    """Which inputs of a compiled program share a buffer with a result."""
    first = made.as_text().split("\n", 1)[0]
    return first.partition("input_output_alias={")[2].partition("}, entry")[0]


@pytest.mark.parametrize("injector", [identity, changing], ids=lambda f: f.__name__)
def test_an_outer_jit_donates_what_it_is_told_to(injector):
    def f(x, w):
        return tag(x + jnp.sum(w), name="x")

    args = jax.device_put(X, on(P("i"))), jax.device_put(W, on(P()))
    plain = jax.jit(f, donate_argnums=0).lower(*args).compile()
    assert "{}: (0," in aliases(plain)
    program = taxpr.trace(f)(*args).inject(injector, start())
    jitted = jax.jit(program, donate_argnums=1)
    assert "{0}: (2," in aliases(jitted.lower(program.ctx, *args).compile())
    assert aliases(jitted.lower(program.ctx, *args).compile()).count("alias)") == 1
    x = jax.device_put(X, on(P("i")))
    jitted(program.ctx, x, args[1])
    assert x.is_deleted()
    assert not args[1].is_deleted()
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(program.ctx))


@jax.jit
def plain_step(x):
    return tag(x * 2, name="in") + 1


donating_step = jax.jit(plain_step.__wrapped__, donate_argnums=0)


def donates(x):
    return donating_step(tag(x, name="before"))


def donates_between(x):
    x = tag(jnp.sin(x), name="before")
    return tag(donating_step(x), name="after")


def donation_of(jaxpr):
    params = [eqn.params for _, eqn in taxpr.iter_eqns(jaxpr) if eqn.primitive.name == "jit"]
    return [one["donated_invars"] for one in params if any(one["donated_invars"])]


@pytest.mark.parametrize("fn", [donates, donates_between], ids=lambda f: f.__name__)
@pytest.mark.parametrize("injector", [identity, changing], ids=lambda f: f.__name__)
def test_an_inner_jit_donates_as_before_and_never_the_ctx(fn, injector):
    x = jax.device_put(X, on(P("i")))
    program = taxpr.trace(fn)(x)
    assert donation_of(program.jaxpr) == [(True,)]
    program = program.inject(injector, start())
    [donated] = donation_of(program.jaxpr)
    # The context comes first; an injector that does not use it may leave it out.
    assert donated.count(True) == 1
    assert donated[-1]
    for _ in range(2):
        x = jax.device_put(X, on(P("i")))
        program(program.ctx, x)
        given = injector is identity and fn is donates
        assert x.is_deleted() == given
        assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(program.ctx))


@pytest.mark.parametrize("fn", [donates, donates_between], ids=lambda f: f.__name__)
def test_collected_values_outlive_a_jit_that_donates_them(fn):
    for make in (lambda x: x), (lambda x: jax.device_put(x, on(P("i")))):
        x = make(jnp.asarray(X))
        program = taxpr.trace(fn)(x).collect()
        assert donation_of(program.jaxpr) == [(True,)]
        out, values = program(x)
        assert x.is_deleted() == (fn is donates)
        before = X if fn is donates else np.sin(X)
        assert_close((values["before"], values["in"], out), (before, 2 * before, 2 * before + 1))


def test_an_argument_that_is_donated_can_be_collected_inside():
    f = jax.jit(lambda x: tag(x, name="x") * 2, donate_argnums=0)
    x = jnp.asarray(X) + 0
    _, values = taxpr.trace(lambda x: f(x))(x).collect()(x)
    assert x.is_deleted()
    assert_close(values["x"], X)


def test_tokens_contexts_and_closed_over_arrays_have_buffers_of_their_own():
    closed_over = jnp.full((8, 4), 3.0)
    ctx = jnp.full((8, 4), 5.0)
    keeping = lambda c, t, p: (t, t)
    planting = lambda c, t, p: (c, c + 1)
    constant = lambda c, t, p: (closed_over, c)
    for injector, out, new in (
        (keeping, 2 * np.sin(X) + 1, np.sin(X)),
        (planting, np.full_like(X, 11), np.full_like(X, 6)),
        (constant, np.full_like(X, 7), np.full_like(X, 5)),
    ):
        program = taxpr.trace(donates_between)(X).inject(injector, ctx, where="before")
        for _ in range(2):
            found = program(ctx, X)
            assert_close(found, (out, new))
        assert not ctx.is_deleted()
        assert not closed_over.is_deleted()


def test_two_leaves_of_a_token_that_become_one_can_both_be_donated():
    both = jax.jit(lambda x, y: (x + y, x - y), donate_argnums=(0, 1))

    def f(x):
        x, y = tag((jnp.sin(x), jnp.cos(x)), name="both")
        return both(x, y)

    swapped = taxpr.trace(f)(X).inject(lambda c, t, p: (t[::-1], c), ())
    assert_close(swapped((), X)[0], (np.sin(X) + np.cos(X), np.cos(X) - np.sin(X)))
    doubled = taxpr.trace(f)(X).inject(lambda c, t, p: ((t[0] * 2,) * 2, c), ())
    assert_close(doubled((), X)[0], (4 * np.sin(X), 0 * X))


def test_nothing_is_copied_without_donation():
    def f(x):
        return plain_step(tag(jnp.sin(x), name="before"))

    program = taxpr.trace(f)(X)
    for new in program.collect(), program.inject(lambda c, t, p: (c, t), jnp.zeros((8, 4))):
        names = {eqn.primitive.name for _, eqn in taxpr.iter_eqns(new.jaxpr)}
        assert "copy" not in names
    assert isinstance(new.jaxpr, jex.ClosedJaxpr)
