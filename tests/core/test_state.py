"""State and uncurry: what they mean, and what they refuse."""

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import taxpr
from taxpr import RefusedError, State, StateError, make_jaxpr, tag, uncurry

X = jnp.float32(3.0)


def bump(state, by=1):
    state.value += by
    return state.value


def mesh_of(name):
    return jax.sharding.Mesh(np.array(jax.devices()[:1]), (name,))


def final(fn, *args):
    """What the states are after one run, compiled and not."""
    pure, states = uncurry(fn, *args)
    _, eager = pure(states, *args)
    _, compiled = jax.jit(pure)(states, *args)
    jax.tree.map(np.testing.assert_array_equal, eager, compiled)
    return eager


# ---- the object --------------------------------------------------------------


def test_by_itself_it_is_a_plain_object():
    state = State({"w": np.ones(2, np.float32), "n": 0, "none": None}, name="p")
    state.value = {"w": state.value["w"] * 2, "n": 5, "none": None}
    assert state.value["w"].tolist() == [2.0, 2.0]
    assert state.value["n"] == 5
    assert state.name == "p"
    assert State(1).name is None


def test_reprs():
    assert repr(State(0, name="count")) == "State(int32[]=0, name='count')"
    tree = {"w": jnp.ones((2, 3)), "k": jax.random.key(0)}
    assert repr(State(tree)) == "State({'k': key<fry>[], 'w': float32[2,3]})"
    state, other = State(0, name="n"), State(1.5)
    pure, _ = uncurry(jax.jit(lambda x: bump(state).astype(float) + other.value + x), X)
    assert repr(pure) == "<pure <lambda>(states, ...); states: n (written), state0 (read)>"
    uses = pure.uses["n"]
    assert uses.written
    assert "test_state.py" in uses.writes[0]
    assert pure.uses["state0"].writes == ()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_are_other_states(copied):
    state = State({"x": jnp.ones(2)}, name="s")
    new = copied(state)
    new.value = {"x": jnp.zeros(2)}
    assert state.value["x"].tolist() == [1.0, 1.0]
    assert (new.name, new.value["x"].tolist()) == ("s", [0.0, 0.0])
    assert new != state


def test_weak_types_become_strong_and_numbers_take_the_dtype_of_the_state():
    state = State(0.0)
    assert not jax.typeof(state.value).weak_type
    state.value = 3
    assert state.value.dtype == jnp.float32
    state = State(jnp.bfloat16(1))
    state.value = 0.5
    assert state.value.dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("initial", "value", "match"),
    [
        (jnp.zeros(3), jnp.zeros(4), r"is float32\[4\], and the state 's' is float32\[3\]"),
        (jnp.zeros(3), jnp.zeros(3, int), r"is int32\[3\], and the state 's' is float32\[3\]"),
        (0, 0.5, r"is float32\[\], and the state 's' is int32\[\]"),
        ({"a": 0}, {"b": 0}, r"has the structure .*'b'.*, and the state 's' has .*'a'"),
        (0, "text", "holds a str"),
    ],
)
def test_a_state_keeps_its_type(initial, value, match):
    state = State(initial, name="s")

    def fn():
        state.value = value

    match = rf"write of the state 's' \(.*test_state.py:\d+ in .*fn\).*{match}"
    for run in (fn, lambda: uncurry(fn), lambda: jax.jit(fn)()):
        with pytest.raises(StateError, match=match):
            run()


def test_what_is_no_state():
    with pytest.raises(StateError, match="holds a str"):
        State("text", name="s")
    with pytest.raises(StateError, match="a name is a string, not 3"):
        State(0, name=3)
    with pytest.raises(StateError, match="Make states outside of functions"):
        jax.jit(lambda x: State(x).value)(X)
    with pytest.raises(StateError, match="Make states outside of functions"):
        uncurry(lambda x: State(x * 2).value, X)


def test_a_state_that_is_made_while_the_function_is_traced():
    zero, kept = jnp.float32(0), []

    def step(c, x):
        state = State(zero, name="new")  # another one in each iteration
        bump(state, x)
        return c + state.value, None

    def lazy(x):
        if not kept:
            kept.append(State(zero, name="kept"))
        return bump(kept[0], x)

    match = "read of the state '{}'.*made while the function is traced"
    with pytest.raises(StateError, match=match.format("new")):
        uncurry(lambda xs: lax.scan(step, zero, xs), jnp.ones(3))
    with pytest.raises(StateError, match=match.format("kept")):
        uncurry(lazy, X)
    assert kept[0].value == 0
    assert final(lazy, X)["kept"] == 3.0


# ---- order of execution ------------------------------------------------------


def test_custom_rules_primals_and_derivatives():
    state = State(1.0, name="s")

    @jax.custom_jvp
    def square(x):
        return x * x * bump(state)

    square.defjvp(lambda p, t: (square(*p), 2 * p[0] * t[0]))

    @jax.custom_vjp
    def cube(x):
        return x**3 * bump(state)

    cube.defvjp(lambda x: (cube(x), x), lambda x, ct: (3 * x * x * ct,))

    def fn(x):
        return jax.jit(square)(x) + cube(x)

    pure, states = uncurry(fn, X)
    out, new = pure(states, X)
    assert (out, new["s"]) == (9 * 2 + 27 * 3, 3.0)
    for run in (pure, jax.jit(pure)):
        (out, new), grad = jax.value_and_grad(run, argnums=1, has_aux=True)(states, X)
        assert (out, new["s"], grad) == (99.0, 3.0, 6.0 + 27.0)


def test_a_checkpoint_runs_its_accesses_once():
    state = State(0.0, name="s")

    def fn(x):
        def inner(x):
            return jnp.sin(x) * bump(state, 1.0)

        return jax.checkpoint(inner)(x) + jax.checkpoint(jax.jit(inner))(x)

    pure, states = uncurry(fn, X)
    (out, new), grad = jax.jit(jax.value_and_grad(pure, argnums=1, has_aux=True))(states, X)
    assert new["s"] == 2.0
    np.testing.assert_allclose(out, 3 * np.sin(3.0), rtol=1e-5)
    np.testing.assert_allclose(grad, 3 * np.cos(3.0), rtol=1e-5)


def test_pure_in_shard_map():
    mesh = mesh_of("d")
    state = State(jnp.zeros(2), name="s")
    pure, states = uncurry(lambda x: bump(state, x).sum(), jnp.ones(2))

    def run(states, x):
        out, states = pure(states, x)
        return out[None], states

    mapped = jax.shard_map(run, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d"))
    out, new = jax.jit(mapped)(states, jnp.ones(2))
    assert out.tolist() == [2.0]
    assert new["s"].tolist() == [1.0, 1.0]


def test_shard_map_inside():
    mesh = mesh_of("d")
    state = State(0.0, name="s")
    more = {"mesh": mesh, "in_specs": P("d"), "out_specs": P("d")}

    def total(x):
        bump(state, lax.psum(x.sum(), "d"))
        return x

    assert final(jax.shard_map(total, **more), jnp.ones(4))["s"] == 4.0

    def one_device(x):
        state.value += x.sum()
        return x

    with pytest.raises(
        RefusedError, match=r"write of the state 's'.*call pure inside of the shard_map"
    ):
        uncurry(jax.shard_map(one_device, **more), jnp.ones(4))


def test_other_shapes_are_traced_again():
    state = State(0.0, name="s")
    traces = []

    def fn(x):
        traces.append(x.shape)
        return bump(state, x.sum())

    pure, states = uncurry(fn, jnp.ones(2))
    for n in (2, 3, 2, 3):
        _, states = pure(states, jnp.ones(n))
    assert states["s"] == 10.0
    assert traces == [(2,), (3,)]
    _, states = jax.jit(pure)(states, jnp.ones(4))
    assert states["s"] == 14.0


def test_an_inner_jit_that_was_traced_with_other_types_or_without_uncurry():
    state, shape = None, (2,)

    @jax.jit
    def inner(x):
        return x + bump(state).sum()

    fn = lambda x: inner(x)
    for shape in ((2,), (3,), (2,)):
        state = State(jnp.zeros(shape), name="s")
        with pytest.raises(StateError, match="run or compiled by itself"):
            inner(X)
        pure, states = uncurry(fn, X)
        out, states = pure(states, X)
        assert out == 3.0 + shape[0]
        assert states["s"].shape == shape


def test_a_jit_is_looked_at_anew_in_each_place():
    state = State(0, name="s")
    count = jax.jit(lambda: bump(state))

    def loss(w):
        step = lambda c, _: (c * w + count().astype(float) * 0, None)
        return lax.scan(step, w, None, length=3)[0]

    def fn(w):
        count()
        return jax.grad(loss)(w)

    with pytest.raises(StateError, match=r"write of the state 's'.* of scan"):
        uncurry(fn, X)


def test_a_jit_is_looked_at_anew_after_an_uncurry_inside():
    state = State(0, name="s")
    count = jax.jit(lambda x: (bump(state), x)[1])

    def fn(x):
        uncurry(count, x)
        return jax.vmap(lambda x: lax.cond(x > 0, count, lambda x: x, x))(jnp.ones(2) * x)

    with pytest.raises(StateError, match=r"write of the state 's'.*jax.vmap of cond"):
        uncurry(fn, X)


def test_states_are_told_apart_by_object():
    one, other, third = State(1, name="s"), State(10, name="s"), State(100)

    def fn():
        return bump(third) + bump(other) + bump(one)

    pure, states = uncurry(fn)
    assert states == {"state0": 100, "s": 10, "s_1": 1}
    _, states = pure(states)
    assert states == {"state0": 101, "s": 11, "s_1": 2}
    assert (one.value, other.value) == (1, 10)
    pure.write(states)
    assert (one.value, other.value, third.value) == (2, 11, 101)


def test_tags_stay_and_can_be_injected():
    state = State(0.0, name="s")
    fn = lambda x: tag(bump(state, x), name="y") * 2
    pure, states = uncurry(fn, X)
    (out, new), found = taxpr.collect(pure)(states, X)
    assert (out, new["s"], found["y"]) == (6.0, 3.0, 3.0)
    assert taxpr.find_tags(taxpr.trace(fn)(X))[0].name == "y"


def test_uncurry_inside_of_uncurry():
    count, w = State(0, name="count"), State(2.0, name="w")

    def loss(x):
        def step(c, _):
            bump(count)
            return c * w.value, None

        return lax.scan(step, x, None, length=3)[0]

    def train(x):
        pure, states = uncurry(loss, x)
        grad = jax.grad(lambda w, rest, x: pure({**rest, "w": w}, x), has_aux=True)
        grads, new = grad(states["w"], states, x)
        pure.write(new)
        w.value -= grads
        return grads

    pure, states = uncurry(lambda x: lax.map(train, x), jnp.ones(2))
    grads, new = jax.jit(pure)(states, jnp.ones(2))
    assert grads.tolist() == [12.0, 300.0]
    assert new == {"count": 6, "w": 2.0 - 12.0 - 300.0}


def test_in_threads():
    def work(found, k):
        state = State(0, name="s")
        fn = jax.jit(lambda n: lax.fori_loop(0, n, lambda _, c: c + bump(state), 0))
        for _ in range(3):
            pure, states = uncurry(lambda: fn(k))
            found[k] = pure(states)[1]["s"]

    found = {}
    threads = [threading.Thread(target=work, args=(found, k)) for k in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {k: int(v) for k, v in found.items()} == {k: k for k in range(1, 6)}


# ---- derivatives and vmap inside ---------------------------------------------


def test_grad_and_vmap_inside_of_what_is_uncurried():
    w, count = State(2.0, name="w"), State(0, name="count")

    def fn(x):
        @jax.jit
        def loss(x):
            bump(count)
            y = lax.cond(x > 0, lambda: x * w.value * bump(count).astype(float), lambda: x)
            return lax.scan(lambda c, _: (c * w.value, None), y, None, length=2)[0]

        grad = jax.grad(loss)(x)
        mapped = jax.vmap(lambda x: x * bump(count).astype(float) * w.value)(jnp.ones(3)).sum()
        w.value = grad + mapped
        return grad

    pure, states = uncurry(fn, X)
    out, new = jax.jit(pure)(states, X)
    assert out == 2.0 * 2 * 4
    assert new == {"w": 16.0 + 3 * 3 * 2.0, "count": 3}


def test_gradients_with_respect_to_states():
    w = State({"w": jnp.asarray([1.0, 2.0])}, name="w")

    def loss(x):
        step = lambda h, x: (jnp.tanh(h * w.value["w"] + x), None)
        return lax.scan(step, jnp.ones(2), x)[0].sum()

    def by_hand(w, x):
        return lax.scan(lambda h, x: (jnp.tanh(h * w + x), None), jnp.ones(2), x)[0].sum()

    xs = jnp.linspace(0, 1, 10).reshape(5, 2)
    pure, states = uncurry(loss, xs)
    found = jax.grad(lambda s: pure(s, xs)[0])(states)["w"]["w"]
    np.testing.assert_allclose(found, jax.grad(by_hand)(w.value["w"], xs), rtol=1e-6)


def test_what_is_only_read_is_no_carry_of_a_loop():
    w = State(jnp.ones(3), name="w")
    fn = lambda x: lax.scan(lambda h, _: (h * w.value, None), x, None, length=7)[0].sum()
    pure, states = uncurry(fn, jnp.ones(3))
    [scan] = [e for e in taxpr.trace(pure)(states, jnp.ones(3)).eqns if e.primitive is lax.scan_p]
    assert len(scan.outvars) == 1


WRAP = r"pure, states = taxpr.uncurry\("


@pytest.mark.parametrize("transform", [jax.grad, jax.value_and_grad, jax.jacfwd, jax.hessian])
def test_a_derivative_is_never_lost(transform):
    state = State(1.0, name="s")

    def loss(x):
        state.value = state.value * x
        return state.value

    match = rf"write of the state 's' \(.*test_state.py.*\).*jax.grad.*{WRAP}loss.*argnums=1"
    with pytest.raises(StateError, match=match):
        uncurry(lambda x: transform(loss)(x), X)
    with pytest.raises(StateError, match=match):
        uncurry(transform(jax.jit(loss)), X)
    pure, states = uncurry(loss, X)
    assert jax.grad(lambda x: pure(states, x)[0])(X) == 1.0
    stopped = lambda x: (setattr(state, "value", lax.stop_gradient(x) * 2), x * 3)[1]
    pure, states = uncurry(jax.grad(stopped), X)
    assert pure(states, X) == (3.0, {"s": 6.0})


@pytest.mark.parametrize(
    ("around", "name"),
    [
        (lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0], "scan"),
        (lambda f: lambda x: lax.fori_loop(0, 2, lambda _, c: f(c), x), "fori_loop"),
        (jax.checkpoint, "checkpoint"),
        (lambda f: lambda x: jax.jit(jax.checkpoint(f))(x), "checkpoint"),
        (lambda f: lambda x: lax.while_loop(lambda c: f(c) < 0, lambda c: c, x), "while"),
    ],
)
def test_a_write_that_a_derivative_may_move_is_refused(around, name):
    count = State(0, name="count")

    def counted(x):
        bump(count)
        return x * x

    with pytest.raises(
        StateError, match=rf"write of the state 'count'.*jax.grad.*{name}.*{WRAP}loss"
    ):
        uncurry(jax.grad(around(counted)), X)
    if name != "while":
        pure, states = uncurry(around(counted), X)
        _, new = jax.grad(pure, argnums=1, has_aux=True)(states, X)
        assert new["count"] == (1 if name == "checkpoint" else 2)


def test_a_read_that_a_derivative_may_move_is_refused_where_that_matters():
    state = State(1.0, name="s")

    def loss(x):
        y = lax.scan(lambda c, _: (c * state.value, None), x, None, length=2)[0]
        state.value = 5.0
        return y

    with pytest.raises(
        StateError, match=r"read of the state 's'.*and there is the write of the state 's'"
    ):
        uncurry(jax.grad(loss), X)


def converted(fn, x):
    convert, consts = jax.closure_convert(fn, x)
    return lambda x: convert(x, *consts)


def interpreted(fn, x):
    return taxpr.trace(fn)(x)


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    ("made", "outside"), [(converted, True), (interpreted, True), (interpreted, False)]
)
def test_a_jaxpr_that_was_made_elsewhere(made, outside):
    state = State(1.0, name="s")

    def counted(x):
        return x * bump(state)

    in_scan = lambda fn: lambda x: lax.scan(lambda c, _: (fn(c), None), x, None, length=3)[0]
    in_jit_of_scan = lambda fn: in_scan(jax.jit(fn))
    in_branch = lambda fn: lambda x: lax.cond(x > 0, fn, lambda x: x, x)
    mapped = lambda fn: lambda x: jax.vmap(fn)(jnp.stack([x, -x])).sum()

    def run(transform, within):
        def fn(x):
            if outside:
                elsewhere = made(counted, x)
                elsewhere(x)  # also of JAX's caches
                return transform(within(elsewhere))(x)
            return transform(lambda x: within(made(counted, x))(x))(x)

        return fn

    for transform, within, match in (
        (jax.grad, in_scan, "jax.grad, or the like, of scan"),
        (jax.grad, in_jit_of_scan, "jax.grad, or the like, of scan"),
        (mapped, in_branch, "jax.vmap of cond"),
    ):
        with pytest.raises(StateError, match=rf"write of the state 's'.*{match}"):
            uncurry(run(transform, within), X)
    before = 1 if outside else 0
    assert final(run(jax.grad, jax.jit), X)["s"] == 2 + before
    assert final(run(jax.grad, in_branch), X)["s"] == 2 + before
    assert final(run(mapped, in_scan), X)["s"] == 4 + before
    assert final(run(lambda fn: fn, in_scan), X)["s"] == 4 + before


def test_vmap_of_writes():
    count, total = State(0, name="count"), State(0.0, name="total")
    xs = jnp.ones(3)

    def batched(x):
        bump(total, x)
        return x

    match = rf"write of the state 'total'.*a batch axis of jax.vmap.*{WRAP}fun"
    for fn in (jax.vmap(batched), jax.vmap(jax.jit(batched)), jax.jit(jax.vmap(batched))):
        with pytest.raises(StateError, match=match):
            uncurry(fn, xs)
    pure, states = uncurry(batched, X)
    _, new = jax.vmap(pure, in_axes=(None, 0))(states, xs)
    assert new["total"].tolist() == [1.0, 1.0, 1.0]

    def in_branch(x):
        return lax.cond(x > 1, lambda: (bump(count), x)[1], lambda: x)

    with pytest.raises(
        StateError, match=rf"write of the state 'count'.*jax.vmap of cond.*{WRAP}fun"
    ):
        uncurry(jax.vmap(in_branch), xs)
    in_loop = lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + bump(count), x)
    with pytest.raises(StateError, match=r"jax.vmap of while_body"):
        uncurry(jax.vmap(in_loop), xs)
    assert final(lambda xs: jax.vmap(lambda x: (bump(count), x)[1])(xs), xs)["count"] == 1
    in_scan = lambda x: lax.scan(lambda c, _: ((bump(count), c)[1], None), x, None, length=4)[0]
    assert final(jax.vmap(in_scan), xs)["count"] == 4


def test_in_custom_rules_under_a_derivative():
    count = State(0, name="count")

    @jax.custom_jvp
    def square(x):
        bump(count)
        return x * x

    square.defjvp(lambda p, t: (square(*p), 2 * p[0] * t[0]))
    loop = lambda x: lax.scan(lambda c, _: (square(c), None), x, None, length=2)[0]
    with pytest.raises(StateError, match=r"write of the state 'count'.*jax.grad.*scan"):
        uncurry(jax.grad(loop), X)


@pytest.mark.parametrize("inner", [lambda f: f, jax.jit, jax.checkpoint])
def test_a_backward_rule_must_not_use_states(inner):
    factor = State(2.0, name="factor")

    @jax.custom_vjp
    def fn(x):
        return x * 3

    fn.defvjp(lambda x: (fn(x), None), lambda _, ct: (ct * factor.value,))
    assert jax.grad(fn)(X) == 2.0
    pure, states = uncurry(lambda x: inner(fn)(x) * factor.value, X)
    match = r"read of the state 'factor'.*the backward rule.*among the residuals"
    for transform in (lambda f: f, jax.jit):
        with pytest.raises(StateError, match=match):
            transform(jax.grad(pure, argnums=1, has_aux=True))(states, X)
    if inner is not jax.checkpoint:
        pure, states = uncurry(jax.grad(inner(fn)), X)
        assert pure({"factor": 7.0}, X) == (7.0, {"factor": 7.0})


def test_a_rule_that_does_not_write_what_its_function_does():
    count = State(0, name="count")

    @jax.custom_jvp
    def square(x):
        bump(count)
        return x * x

    square.defjvp(lambda p, t: (p[0] * p[0], 2 * p[0] * t[0]))
    pure, states = uncurry(square, X)
    assert pure(states, X)[1]["count"] == 1
    match = r"uncurry: the (read|write) of the state 'count'.*jvp rule"
    with pytest.raises(RefusedError, match=match):
        jax.grad(pure, argnums=1, has_aux=True)(states, X)


def test_no_tracer_outlives_its_trace():
    count = State(0.0, name="count")
    body = lambda c, _: (c * bump(count, 1.0), None)
    step = jax.jit(lambda x: lax.scan(body, x, None, length=2)[0])
    with jax.checking_leaks():
        pure, states = uncurry(step, X)
        grad = jax.grad(lambda s, x: pure(s, x)[0])(states, X)
        assert (grad["count"], pure(states, X)[1]["count"]) == (9.0, 2.0)
    both = State({"n": 0.0}, name="both")

    def of_tree(c, _):
        both.value = {"n": both.value["n"] + 1}
        return c, None

    with jax.checking_leaks():
        pure, states = uncurry(lambda x: lax.scan(of_tree, x, None, length=2)[0], X)
        assert pure(states, X)[1]["both"]["n"] == 2.0


def test_a_while_loop_in_a_checkpoint_in_a_derivative():
    step = State(1.0, name="step")

    def loss(x):
        return jnp.sin(x) * lax.while_loop(lambda k: k < 3, lambda k: k + step.value, 0.0)

    match = r"read of the state 'step'.*while loop in a jax.checkpoint"
    with pytest.raises(StateError, match=match):
        uncurry(jax.grad(jax.checkpoint(loss)), X)
    pure, states = uncurry(jax.checkpoint(loss), X)
    np.testing.assert_allclose(jax.grad(lambda x: pure(states, x)[0])(X), 3 * np.cos(3.0), 1e-6)


# ---- outside of uncurry ------------------------------------------------------


def test_eager_derivatives_and_maps_are_plain_python():
    count, total = State(0, name="count"), State(0.0, name="total")

    def fn(x):
        bump(count)
        return x * count.value.astype(float)

    assert jax.grad(fn)(X) == 1.0
    assert jax.vmap(fn)(jnp.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(StateError, match=rf"write of the state 'total'.*would outlive.*{WRAP}"):
        jax.grad(lambda x: bump(total, x))(X)
    with pytest.raises(StateError, match=r"write of the state 'total'.*would outlive"):
        jax.vmap(lambda x: bump(total, x))(jnp.ones(2))
    assert total.value == 0.0


@pytest.mark.parametrize(
    "transform",
    [
        jax.jit,
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.grad(jax.jit(f)),
        lambda f: lambda x: jax.jit(jax.vmap(f))(jnp.ones(2) * x),
        lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2),
        lambda f: lambda x: jax.core.eval_jaxpr(*open_parts(jax.make_jaxpr(f)(X)), x),
    ],
)
def test_by_itself_an_access_neither_runs_nor_compiles(transform):
    state = State(0.0, name="s")
    fn = lambda x: x * state.value
    match = rf"read of the state 's' \(.*test_state.py:\d+ in .*\).*by itself.*{WRAP}fun"
    with pytest.raises(StateError, match=match):
        transform(fn)(X)
    assert state.value == 0.0


def open_parts(jaxpr):
    return getattr(jaxpr, "jaxpr", jaxpr), jaxpr.consts or ()


def test_at_compile_time_inside_of_uncurry():
    state = State(0.0, name="s")

    def fn(x):
        with jax.ensure_compile_time_eval():
            return x + state.value

    with pytest.raises(
        StateError, match=r"read of the state 's'.*(ensure_compile_time_eval|by itself)"
    ):
        uncurry(fn, X)


def test_host_callbacks_are_not_followed():
    state = State(1.0, name="s")

    def fn():
        bump(state)
        host = lambda value: np.float32([value, state.value])
        pair = jax.ShapeDtypeStruct((2,), jnp.float32)
        return jax.pure_callback(host, pair, state.value)

    pure, states = uncurry(fn)
    out, _ = pure(states)
    assert out.tolist() == [2.0, 1.0]


def test_a_read_in_a_matvec_is_refused():
    a = State(2.0, name="a")
    solve = lambda b: lax.custom_linear_solve(
        lambda x: a.value * x, b, solve=lambda _, b: b / a.value, symmetric=True
    )
    with pytest.raises(RefusedError, match=r"read of the state 'a'.*close over the value"):
        uncurry(solve, X)


def test_a_primitive_that_cannot_be_injected_is_refused_by_name():
    state = State(0.0, name="s")
    fn = lambda x: lax.reduce(x, 0.0, lambda a, b: a + b + state.value, (0,))
    with pytest.raises((RefusedError, StateError), match=r"read of the state 's'.*reduce"):
        uncurry(fn, jnp.ones(3))


# ---- arguments ---------------------------------------------------------------


def test_the_states_given_to_pure_are_checked():
    a, b = State(jnp.zeros(2), name="a"), State(0, name="b")
    pure, states = uncurry(lambda x: bump(a, x) * bump(b).astype(float), X)
    for given, match in (
        ({"a": states["a"]}, "the states lack 'b'. Give .* a value for each of 'a', 'b'"),
        ({**states, "c": 1}, "the states have no use for 'c'"),
        ({**states, "a": jnp.zeros(3)}, r"value given for 'a' is float32\[3\].*float32\[2\]"),
        ({**states, "b": 0.5}, r"value given for 'b' is float32\[\].*int32\[\]"),
        ({**states, "b": (0,)}, "value given for 'b' has the structure"),
        (X, "the first argument is an? .*It is a dict"),
    ):
        with pytest.raises(StateError, match=match):
            pure(given, X)


def test_a_state_that_is_first_met_in_a_later_call():
    a, b = State(0.0, name="a"), State(0.0, name="b")
    fn = lambda x: bump(a, x.sum()) if x.ndim else bump(b, x)
    pure, states = uncurry(fn, jnp.ones(2))
    with pytest.raises(
        StateError, match=r"write of the state 'b'|read of the state 'b'.*only used a"
    ):
        pure(states, X)


def test_no_function():
    with pytest.raises(taxpr.ArgumentError, match="not a function"):
        uncurry(3)
    with pytest.raises(taxpr.ArgumentError, match="not a function"):
        make_jaxpr(3)


def test_a_function_without_states():
    pure, states = uncurry(jnp.sin, X)
    assert states == {}
    assert pure({}, X) == (jnp.sin(X), {})


def test_make_jaxpr():
    s, r = State(jnp.ones(2), name="s"), State(3.0)

    def f(x, n, *, flip=False):
        s.value = s.value + x * r.value
        return {"y": -s.value if flip else s.value * n}

    made = make_jaxpr(f, static_argnums=1, static_argnames="flip", return_shape=True)
    jaxpr, states, shapes = made(jnp.ones(2), 2, flip=True)
    assert states == (s, r)
    assert shapes == {"y": jax.ShapeDtypeStruct((2,), jnp.float32)}
    out = jax.core.eval_jaxpr(*open_parts(jaxpr), jnp.ones(2), s.value, r.value)
    assert [x.tolist() for x in out] == [[-4.0, -4.0], [4.0, 4.0], 3.0]
    jaxpr, states = make_jaxpr(f, static_argnums=1, return_only_write=True)(jnp.ones(2), 2)
    assert len(jaxpr.out_avals) == 2
    assert len(jaxpr.in_avals) == 3
    jaxpr, _ = make_jaxpr(lambda x: lax.psum(x * r.value, "i"), axis_env=[("i", 3)])(X)
    assert len(jaxpr.out_avals) == 2


# ---- values that are changed in place ----------------------------------------

IN_PLACE = (
    r"the state 's'.*: the dict or list that \.value returned was changed in place, .* Assign"
)


def put(state):
    state.value["n"] += 1


def popped(state):
    state.value.pop("n")


def appended(state):
    state.value["list"].append(1)


@pytest.mark.parametrize("change", [put, popped, appended])
def test_a_change_in_place_is_never_lost(change):
    state = State({"n": 0, "list": [jnp.ones(2)]}, name="s")
    change(state)
    for use in (lambda: state.stored, lambda: uncurry(lambda: state.value), lambda: state.value):
        with pytest.raises(StateError, match=IN_PLACE):
            use()
        change(state)  # after the error the state goes on with the value that it has
    state.value = {"n": 5, "list": [jnp.ones(2)]}
    assert int(state.value["n"]) == 5


@pytest.mark.parametrize("change", [put, popped, appended])
@pytest.mark.parametrize(
    "around",
    [
        lambda fn: fn(1.0),
        lambda fn: jax.jit(fn)(1.0),
        lambda fn: jax.lax.map(fn, jnp.ones(3)),
        lambda fn: jax.lax.cond(True, fn, lambda x: x, 1.0),
        lambda fn: jax.lax.while_loop(lambda x: x < 3, fn, 1.0),
    ],
    ids=["plain", "jit", "map", "cond", "while"],
)
def test_a_change_in_place_while_traced_is_never_lost(change, around):
    state = State({"n": 0, "list": [jnp.ones(2)]}, name="s")

    def step(x):
        change(state)
        return x + 1

    match = rf"read of the state 's' \(test_state\.py:\d+ in {change.__name__}\): the dict or l"
    with pytest.raises(StateError, match=match):
        uncurry(lambda: around(step))
    # The state itself is as before.
    assert int(state.value["n"]) == 0


def test_a_value_that_is_changed_and_then_written_is_right():
    state = State({"n": 0, "list": [jnp.zeros(2)]}, name="s")

    def itself(x):
        value = state.value
        value["n"] += 1
        state.value = value
        return x

    def anew(x):
        value = state.value
        value["list"][0] = value["list"][0] + x
        state.value = {**value, "n": value["n"] + 1}
        return x

    for step in (itself, anew):
        pure, states = uncurry(lambda xs, step=step: jax.lax.map(step, xs), jnp.ones(3))
        _, states = pure(states, jnp.ones(3))
        assert int(states["s"]["n"]) == 3
    assert states["s"]["list"][0].tolist() == [3.0, 3.0]
    itself(1.0)
    anew(1.0)
    assert (int(state.value["n"]), state.value["list"][0].tolist()) == (2, [1.0, 1.0])


def test_a_copy_may_be_changed_in_place():
    state = State({"n": 1}, name="s")

    def fn(x):
        own = dict(state.value)
        own["n"] += 1
        return x + own.pop("n")

    assert fn(1) == 3
    pure, states = uncurry(fn, 1)
    out, states = pure(states, 1)
    assert (int(out), int(states["s"]["n"])) == (3, 1)


@jax.tree_util.register_pytree_node_class
class Anew:
    """A node whose children are new objects each time."""

    def __init__(self, x):
        self.x = x

    def tree_flatten(self):
        return (self.x + 0,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_a_node_that_makes_its_children_anew():
    state = State(Anew(jnp.ones(2)), name="s")

    def fn():
        state.value = Anew(state.value.x + state.value.x)
        return state.value.x

    pure, states = uncurry(fn)
    assert pure(states)[0].tolist() == [2.0, 2.0]
    assert fn().tolist() == [2.0, 2.0]


# ---- what is written ---------------------------------------------------------


def test_a_tagged_value_is_written():
    total = State(0.0, name="total")

    def f(x):
        total.value = taxpr.tag(taxpr.tag(total.value + x, name="a"), name="b")
        return total.value

    pure, states = uncurry(f, 2.0)
    out, states = pure(states, 2.0)
    assert (float(out), float(states["total"])) == (2.0, 2.0)
    assert [site.name for site in taxpr.trace(pure)(states, 2.0).tags()] == ["a", "b"]


def test_states_of_a_program():
    one, two = State(1.0, name="one"), State(2.0)

    def f(x):
        def step(c, x):
            two.value += x * one.value
            return c, None

        return lax.scan(step, x, jnp.ones(3))[0]

    program = taxpr.trace(f)(1.0)
    assert taxpr.states_of(program) == [two, one]
    assert taxpr.states_of(program.jaxpr) == [two, one]
    pure, states = uncurry(f, 1.0)
    assert taxpr.states_of(taxpr.trace(pure)(states, 1.0)) == []
    with pytest.raises(taxpr.ArgumentError, match="states_of"):
        taxpr.states_of(f)


def test_writes_leave_tags_when_asked():
    """In loops, branches, conditions and inner calls; nothing else is different."""
    total = State(0.0, name="total")
    stats = State({"mean": jnp.zeros(2), "key": jax.random.key(0)}, name="stats")
    plain = State(1)

    def f(xs):
        def condition(n):
            plain.value = plain.value + n
            return n < 3

        def step(c, x):
            total.value += jax.jit(bump)(x)
            lax.cond(x > 1, lambda: setattr(total, "value", 0.0), lambda: None)
            return c, total.value

        def bump(x):
            stats.value = {**stats.value, "mean": stats.value["mean"] + x}
            return x

        lax.while_loop(condition, lambda n: n + 1, 0)
        return lax.scan(step, None, xs)[1]

    xs = jnp.asarray([0.5, 2.0, 1.0])
    pure, states = uncurry(f, xs)
    tagged = taxpr.Uncurried(f, (xs,), {}, tag_writes=True)
    assert tagged.uses.keys() == pure.uses.keys()
    program = taxpr.trace(tagged)(states, xs)
    names = {(site.params["state"], site.name, site.params["op"]) for site in program.tags()}
    assert names == {
        ("total", "total", "write"),
        ("stats", "stats['mean']", "write"),
        ("stats", "stats['key']", "write"),
        ("state0", "state0", "write"),
    }
    without = taxpr.dissolve_tags(program.jaxpr)
    assert str(without) == str(taxpr.trace(pure)(states, xs).jaxpr)
    recorded = program.inject(taxpr.record(), where={"state": "total"})
    (out, after), ctx = recorded(recorded.ctx, states, xs)
    plain_out, plain_after = pure(states, xs)
    assert out.tolist() == plain_out.tolist() == [0.5, 0.0, 1.0]
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.all(a == b)), after, plain_after))
    values = [seen["values"].tolist() for seen in recorded.report(ctx).values()]
    assert sorted(values) == [[0.0], [0.5, 2.5, 1.0]]
    # Other arguments are traced with their tags, too.
    assert len(taxpr.trace(tagged)(states, jnp.ones(5)).tags()) == len(program.tags())
