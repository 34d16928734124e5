"""What a closed loop, branch or derivative tells of what is in it."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import introspect
from taxpr_jupyter import draw
from taxpr_jupyter._analysis.liveness import pass_of
from taxpr_jupyter._closed import loops
from taxpr_jupyter._closed.branches import branches_in
from taxpr_jupyter._closed.casts import Casts
from taxpr_jupyter._closed.derivatives import gone_back, target_of
from taxpr_jupyter._closed.kept_buffers import kept_in

X = jnp.linspace(0.1, 0.9, 3)


def labels_of(fun, *args, fold):
    picture = draw(fun, *args, fold=fold).picture
    return {node.address: [*node.lines] for node in picture.nodes}


# --- while loops ----------------------------------------------------------------------------------


def counts_up(x):
    return jax.lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1]


def in_steps(x):
    def body(s):
        return s[0] + 3, jnp.sin(s[1])

    return jax.lax.while_loop(lambda s: s[0] <= 10, body, (2, x))[1]


def counts_down(x):
    return jax.lax.while_loop(lambda s: s[0] >= 3, lambda s: (s[0] - 2, s[1] * 2), (9, x))[1]


def and_not_yet(x):
    def go_on(s):
        i, y = s
        return (i < 50) & (jnp.abs(y).max() > 0.2)

    return jax.lax.while_loop(go_on, lambda s: (s[0] + 1, s[1] * 0.7), (0, x))[1]


def limit_in_the_carry(x):
    def body(s):
        i, n, y = s
        return i + 1, n, jnp.sin(y)

    return jax.lax.while_loop(lambda s: s[0] < s[1], body, (0, 6, x))[2]


def inside_of_a_jit(x):
    step = jax.jit(lambda i, y: (i + 2, jnp.sin(y)))
    return jax.lax.while_loop(lambda s: s[0] < 7, lambda s: step(*s), (0, x))[1]


def never(x):
    return jax.lax.while_loop(lambda s: s[0] < 0, lambda s: (s[0] + 1, jnp.sin(s[1])), (3, x))[1]


def or_not_yet(x):
    def go_on(s):
        return (s[0] < 4) | (jnp.abs(s[1]).max() > 0.2)

    return jax.lax.while_loop(go_on, lambda s: (s[0] + 1, s[1] * 0.7), (0, x))[1]


def any_steps(x):
    def body(s):
        return s[0] + jnp.where(s[1][0] > 0.5, 1, 2), s[1] * 0.9

    return jax.lax.while_loop(lambda s: s[0] < 9, body, (0, x))[1]


def moving_limit(x):
    def body(s):
        i, n, y = s
        return i + 1, n - 1, y * 0.9

    return jax.lax.while_loop(lambda s: s[0] < s[1], body, (0, 6, x))[2]


def any_start(x):
    start = (x[0] * 5).astype(jnp.int32)
    return jax.lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] * 2), (start, x))[1]


def swapped(x):
    def body(s):
        i, k, y = s
        return k + 1, i + 1, y * 0.9

    return jax.lax.while_loop(lambda s: s[0] < 6, body, (0, 3, x))[2]


def away(x):
    def body(s):
        return s[0] - 1, s[1] * 0.5

    return jax.lax.while_loop(lambda s: (s[0] < 5) & (s[1][0] > 0.01), body, (0, x))[1]


BOUNDED = [counts_up, in_steps, counts_down, and_not_yet, limit_in_the_carry, inside_of_a_jit]
BOUNDED += [never]
UNKNOWN = [or_not_yet, any_steps, moving_limit, any_start, swapped, away]


def while_of(program):
    (found,) = (eqn for _, eqn in taxpr.iter_eqns(program) if eqn.primitive.name == "while")
    return found


def trips_of(fun, monkeypatch):
    """How often the loop of a function runs, by Python."""
    trips = 0

    def while_loop(cond, body, state):
        nonlocal trips
        while cond(state):
            state, trips = body(state), trips + 1
        return state

    with monkeypatch.context() as patch:
        patch.setattr(jax.lax, "while_loop", while_loop)
        fun(X)
    return trips


@pytest.mark.parametrize("fun", BOUNDED, ids=lambda fun: fun.__name__)
def test_a_bound_is_what_python_counts(fun, monkeypatch):
    bound = loops.bound_of(while_of(taxpr.trace(fun)(X)))
    assert bound is not None
    trips = trips_of(fun, monkeypatch)
    assert bound.exact == (fun is not and_not_yet)
    assert trips == bound.most if bound.exact else trips < bound.most == 50


@pytest.mark.parametrize("fun", UNKNOWN, ids=lambda fun: fun.__name__)
def test_no_bound_where_none_is_certain(fun):
    assert loops.bound_of(while_of(taxpr.trace(fun)(X))) is None


@pytest.mark.parametrize("fun", [counts_up, limit_in_the_carry])
def test_a_bound_of_many_examples_bounds_each(fun):
    batched = taxpr.trace(jax.vmap(fun))(jnp.ones((4, 3)))
    one = taxpr.trace(fun)(X)
    assert loops.bound_of(while_of(batched)) == loops.bound_of(while_of(one))


def test_a_closed_loop_says_its_condition_and_bound():
    found = labels_of(and_not_yet, X, fold=["0:while"])["0:while"]
    assert " ".join(found[1:3]) == "while (i < 50) & (jnp.abs(y).max() > 0.2)"
    assert found[3] == "at most 50 iterations"
    found = labels_of(counts_up, X, fold=["0:while"])["0:while"]
    assert found[1:3] == ["while s[0] < 7", "7 iterations"]


def test_a_group_says_the_bound_of_its_loop():
    def model(x):
        for k in range(30):
            x = jnp.sin(x) + k
        return and_not_yet(x) + 1.0

    texts = [line for node in draw(model, X, budget=4).picture.nodes for line in node.lines]
    assert any("while, at most 50" in text for text in texts)


def test_a_condition_of_several_lines_is_that_of_the_return():
    def go_on(s):
        i, y = s
        small = jnp.abs(y).max() < 0.2
        return ~small & (i < 5)

    def run(x):
        return jax.lax.while_loop(go_on, lambda s: (s[0] + 1, s[1] * 0.7), (0, x))[1]

    assert loops.condition_of(while_of(taxpr.trace(run)(X))) == "~small & (i < 5)"


def test_a_loop_of_jax_has_no_condition_of_the_users():
    def run(x, n):
        return jax.lax.fori_loop(0, n, lambda i, y: jnp.sin(y) * i, x)

    loop = while_of(taxpr.trace(run)(X, 5))
    assert loops.condition_of(loop) == ""
    assert loops.bound_of(loop) is None


def fills(x):
    def body(s):
        i, y, seen, whole = s
        y = jnp.sin(y)
        return i + 1, y, seen.at[i].set(y), whole.at[:, i].set(y)

    state = 0, x, jnp.zeros((8, 3)), jnp.zeros((3, 9))
    return jax.lax.while_loop(lambda s: s[0] < 8, body, state)[2:]


def test_a_loop_says_what_it_fills_row_by_row():
    loop = while_of(taxpr.trace(fills)(X))
    assert kept_in(loop) == ["9 × f32[3]", "8 × f32[3]"]
    batched = while_of(taxpr.trace(jax.vmap(fills))(jnp.ones((5, 3))))
    assert kept_in(batched) == ["9 × f32[5,3]", "8 × f32[5,3]"]
    assert "keeps 9 × f32[3]" in labels_of(fills, X, fold=["2:while"])["2:while"]


def replaces(x):
    def body(s):
        i, y, z = s
        return i + 1, jnp.roll(y, 1) + 1.0, jnp.zeros_like(z).at[i].set(1.0)

    return jax.lax.while_loop(lambda s: s[0] < 8, body, (0, x, jnp.zeros(8)))[1:]


def test_an_array_that_is_made_anew_is_not_kept():
    assert kept_in(while_of(taxpr.trace(replaces)(X))) == []


def test_several_rows_at_once_are_not_one():
    def body(s):
        i, y = s
        return i + 1, y.at[jnp.array([0, 2])].set(i * 1.0)

    def run(x):
        return jax.lax.while_loop(lambda s: s[0] < 8, body, (0, x))[1]

    assert kept_in(while_of(taxpr.trace(run)(X))) == []


def test_words_of_loops():
    words = {fun: loops.words(while_of(taxpr.trace(fun)(X))) for fun in BOUNDED + UNKNOWN}
    assert words[counts_up] == "while ×7"
    assert words[and_not_yet] == "while, at most 50"
    assert words[or_not_yet] == "while"
    scan = taxpr.trace(lambda xs: jax.lax.scan(lambda c, x: (c + x, c), 0.0, xs, reverse=True))(X)
    (loop,) = (eqn for _, eqn in taxpr.iter_eqns(scan) if introspect.nested_jaxprs(eqn))
    assert loops.words(loop) == "scan ×3 reverse"


# --- backward passes ------------------------------------------------------------------------------


@jax.custom_vjp
def force(x):
    return jnp.maximum(-x, 0.0) * 10.0


def force_fwd(x):
    return force(x), x


def force_bwd(x, g):
    soft = jax.nn.sigmoid(-x * 100.0)
    return (jnp.clip(soft * g, -1.0, 1.0),)


force.defvjp(force_fwd, force_bwd)


def td_loss(w, x):
    q = jnp.tanh(w * x).sum()
    target = jax.lax.stop_gradient(jnp.sin(x).sum())
    backup = jnp.cos(w).mean() * 0.9
    td = q - backup - target
    return td**2 * jnp.exp(td)


def simulated(w, xs):
    def step(pos, x):
        push = force(pos * x)
        vel = jnp.sin(push) * w + jnp.cos(pos)
        pos = pos + vel * 0.1
        return pos, None

    return jax.lax.scan(step, w, xs)[0].sum()


def backward_of(program):
    """The equations of the backward pass at the outermost level that has one."""
    return [eqn for eqn in program.eqns if pass_of(eqn) == "backward"]


def test_a_backward_pass_says_the_variables_that_it_goes_back_through():
    program = taxpr.trace(jax.grad(td_loss))(X, X)
    names = gone_back(backward_of(program))
    assert sorted(names) == ["∂ backup", "∂ q", "∂ td"]  # and no target
    picture = draw(jax.grad(td_loss), X, X, budget=4).picture
    (found,) = [node.lines for node in picture.nodes if node.lines[0].startswith("backward pass")]
    assert any("∂ td, ∂ " in line for line in found)


def test_a_backward_loop_says_its_variables_and_rules():
    program = taxpr.trace(jax.grad(simulated))(X, jnp.ones((5, 3)))
    (scan,) = [eqn for eqn in backward_of(program) if eqn.primitive.name == "scan"]
    assert set(gone_back([scan])) == {"∂ pos", "∂ vel", "∂ push", "force_bwd: clip"}
    (at,) = [at for at, eqn in taxpr.iter_eqns(program) if eqn is scan]
    (lines,) = [node.lines for node in draw(program, fold=[at]).picture.nodes if node.address == at]
    assert any("force_bwd: clip" in line for line in lines)
    assert not any(line.startswith("calls") for line in lines)


def inner_update(w, x):
    loss, grads = jax.value_and_grad(td_loss)(w, x)
    w = w - 0.1 * grads
    return w, loss


def meta(w, xs):
    w, _ = jax.lax.scan(inner_update, w, xs)
    return jnp.sum(w**2)


def meta_unrolled(w, xs):
    for x in xs:
        w, _ = inner_update(w, x)
    return jnp.sum(w**2)


def recomputed(w, xs):
    step = jax.checkpoint(lambda w, x: (w * jnp.sin(x) + td_loss(w, x), None))
    return jax.lax.scan(step, w, xs)[0].sum()


def of_a_part_recomputed(w, xs):
    def part(w):
        return jax.lax.scan(lambda w, x: (jax.nn.relu(w * x), None), w, xs)[0]

    return jax.checkpoint(part)(jnp.sin(w)).sum()


SECOND = [meta, meta_unrolled]
FIRST = [simulated, recomputed, of_a_part_recomputed]


@pytest.mark.parametrize("fun", SECOND + FIRST, ids=lambda fun: fun.__name__)
@pytest.mark.parametrize("around", [jax.grad, lambda f: jax.jit(jax.value_and_grad(f))])
def test_only_a_derivative_of_a_derivative_says_so(fun, around):
    drawing = draw(around(fun), X, jnp.ones((2, 3)), budget=12)
    texts = [" ".join(node.lines) for node in drawing.picture.nodes]
    told = [text for text in texts if "∂ of backward pass of td_loss" in text]
    assert bool(told) == (fun in SECOND)
    every = drawing.unfold(*drawing.picture.foldable) if fun in FIRST else drawing
    assert fun in SECOND or not any("∂ of" in " ".join(n.lines) for n in every.picture.nodes)


def test_a_gradient_in_a_forward_loop_is_no_second_derivative():
    picture = draw(jax.lax.scan, inner_update, X, jnp.ones((2, 3)), budget=4, fold=[])
    assert not any("∂ of" in " ".join(node.lines) for node in picture.picture.nodes)


# --- branches -------------------------------------------------------------------------------------


def apply(state):
    return jax.tree.map(jnp.sin, state)


STATE = {"a": jnp.ones(3), "b": jnp.ones(3)}


def branches(fun, *args):
    program = taxpr.trace(fun)(*args)
    (at,) = [at for at, eqn in taxpr.iter_eqns(program) if eqn.primitive.name == "cond"]
    lines = next(node.lines for node in draw(program, fold=[at]).picture.nodes if node.fold == at)
    return next((line for line in lines if re.match(r"(false|0): ", line)), "")


def test_a_closed_cond_says_its_branches():
    def reject(state):
        return state

    assert branches(lambda s, ok: jax.lax.cond(ok, apply, reject, s), STATE, True) == (
        "false: unchanged · true: apply"
    )
    assert branches(lambda s, ok: jax.lax.cond(ok, lambda s: s, apply, s), STATE, True) == (
        "false: apply · true: unchanged"
    )


def test_a_branch_that_mixes_its_operands_is_not_unchanged():
    def swap(state):
        return {"a": state["b"], "b": state["a"]}

    def double(state):
        return {"a": state["a"], "b": state["a"]}

    for branch in (swap, double):
        found = branches(lambda s, ok, f=branch: jax.lax.cond(ok, apply, f, s), STATE, True)
        assert found == "false: hands on operands"  # and the other branch in the next line


def test_branches_of_a_switch_and_lambdas():
    def choose(k, x):
        return jax.lax.switch(k, [lambda x: jnp.sin(x) * 2, jnp.cos, lambda x: x], x)

    assert branches(choose, 0, X) == "0: jnp.sin(x) * 2 · 1: cos"

    def zero(ok, x):
        return jax.lax.cond(ok, lambda: jnp.sum(x), lambda: 0.0)

    assert branches(zero, True, X) == "false: 0.0 · true: jnp.sum(x)"


def chosen(fun, *args):
    """The lines of a closed cond that tell its branches."""
    program = taxpr.trace(fun, names=True)(*args)
    (at,) = [at for at, eqn in taxpr.iter_eqns(program) if eqn.primitive.name == "cond"]
    lines = next(node.lines for node in draw(program, fold=[at]).picture.nodes if node.fold == at)
    begin = next(k for k, line in enumerate(lines) if line.startswith("false: "))
    end = next(k for k, line in enumerate(lines) if "equation" in line)
    return [*lines[begin:end]]


def test_a_branch_says_which_results_are_operands_or_numbers():
    def step(params, score, x, ok):
        def apply(params, score):
            return jax.tree.map(lambda p: p * x, params), score + x, 1

        def skip(params, score):
            return params, score, 0

        params, best, steps = jax.lax.cond(ok, apply, skip, params, score)
        return jax.tree.map(jnp.sin, params), best * 2, steps + 1

    params = {"w": jnp.ones(3), "b": jnp.ones(3)}
    assert chosen(step, params, 1.0, 2.0, True) == [
        "false: best = score, steps = 0,",
        "params unchanged",
        "true: apply (steps = 1)",
    ]

    def mixed(a, b, x, ok):
        trees = {"a": a, "b": b}
        trees, other = jax.lax.cond(
            ok,
            lambda: ({"a": b, "b": a}, x * 2),
            lambda: ({"a": a, "b": jnp.sin(b)}, x + 1),
        )
        return jnp.cos(trees["a"]) * trees["b"], other

    found = " ".join(chosen(mixed, 1.0, 2.0, 3.0, True))
    assert "=" not in found.replace("trees, other = ", "")
    assert "unchanged" not in found


# --- other types of floats ------------------------------------------------------------------------


def mixed(x, w):
    def step(h, _):
        small = h.astype(jnp.bfloat16)
        total = jnp.sin(small) @ small
        h = jnp.tanh(w * h + total.astype(jnp.float32))
        return h, None

    return jax.lax.scan(step, x, None, length=3)[0]


def only_down(x):
    return jax.jit(lambda x: (x * 2.0).astype(jnp.bfloat16) + 1)(x)


def in_one_type(x):
    def step(h, _):
        return jnp.tanh(h) * (h > 0).astype(h.dtype), None

    return jax.lax.scan(step, x.astype(jnp.bfloat16), None, length=3)[0]


@pytest.mark.parametrize(
    ("fun", "words"),
    [(mixed, "f32 ↔ bf16: total"), (only_down, "f32 → bf16"), (in_one_type, "")],
)
def test_a_closed_part_says_its_conversions_of_floats(fun, words):
    args = (X, X) if fun is mixed else (X,)
    program = taxpr.trace(fun)(*args)
    assert Casts().words(program.eqns) == words
    (at,) = [at for at, eqn in taxpr.iter_eqns(program) if eqn.primitive.name in ("scan", "jit")]
    lines = next(node.lines for node in draw(program, fold=[at]).picture.nodes if node.fold == at)
    assert (words in lines) == bool(words)
    assert sum("→" in line or "↔" in line for line in lines) == bool(words)


# ---- nothing is said that is not certain ---------------------------------------------------------


def test_a_loop_that_begins_anew_in_another_one_has_no_bound():
    def outer(x):
        def body(n, _):
            return n - 5, jax.lax.while_loop(
                lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 2.0), (n, x)
            )[1]

        return jax.lax.scan(body, 0, None, length=4)

    program = taxpr.trace(outer)(1.0)
    [(_, loop)] = [
        found for found in taxpr.iter_eqns(program) if found[1].primitive.name == "while"
    ]
    assert loops.bound_of(loop, program.eqns) is None


@pytest.mark.parametrize(("limit", "bound"), [(126, 127), (127, None)])
def test_a_count_that_wraps_around_has_no_bound(limit, bound):
    def count(x):
        return jax.lax.while_loop(
            lambda c: c[0] <= np.int8(limit),
            lambda c: (c[0] + np.int8(1), c[1] * 2),
            (np.int8(0), x),
        )

    [loop] = [eqn for eqn in taxpr.trace(count)(1.0).eqns if eqn.primitive.name == "while"]
    found = loops.bound_of(loop)
    assert (found and found.most) == bound


def test_branches_that_hand_on_different_operands_are_not_unchanged():
    def chosen(p, a, b):
        return jax.lax.cond(p, lambda a, b: a, lambda a, b: b, a, b)

    [cond] = [
        eqn for eqn in taxpr.trace(chosen)(True, 1.0, 2.0).eqns if eqn.primitive.name == "cond"
    ]
    assert branches_in(cond) == ["false: hands on operands", "true: hands on operands"]


def test_two_values_of_one_variable_are_not_told_apart_by_its_name():
    def rolled_back(params, bad):
        old = params
        params = params * 2.0
        params, n = jax.lax.cond(bad, lambda: (old, 0.0), lambda: (params, 1.0))
        return params, n

    picture = draw(rolled_back, jnp.ones(3), True, budget=4).picture
    [cond] = [node for node in picture.nodes if "cond" in node.lines[0]]
    assert "false: n = 1.0 · true: n = 0.0" in cond.lines
    assert "unchanged" not in " ".join(cond.lines)

    def again(x):
        a = jnp.sin(x)
        b = a
        a = jnp.cos(a)
        c = b * 2.0
        return a, b, c

    outs = [node.lines for node in draw(again, 1.0).picture.nodes if node.kind == "output"]
    assert outs == [("out[0]", "f32[]"), ("out[1]", "f32[]"), ("out[2]", "c: f32[]")]


def test_branches_of_a_derivative_have_no_names_of_the_forward_pass():
    def loss(w):
        return (jax.lax.cond(w.sum() > 0, jnp.sin, lambda w: w, w) ** 2).sum()

    program = taxpr.trace(jax.grad(loss))(jnp.ones(3))
    conds = [eqn for eqn in program.eqns if eqn.primitive.name == "cond"]
    assert [bool(branches_in(cond)) for cond in conds] == [True, False]


def test_an_annotation_is_no_part_of_a_name():
    def annotated(x):
        y: jax.Array = jnp.sin(x)
        return y * 2

    eqn = next(eqn for eqn in taxpr.trace(annotated)(1.0).eqns if eqn.primitive.name == "sin")
    assert target_of(eqn) == "y"


def test_a_variable_whose_value_was_replaced_is_not_unused():
    def replaced(drawn, value):  # as numpyro does with a sample that it is given
        return value

    def model(x, given):
        slope = replaced(jnp.tanh(x) * 3.0 + jnp.exp(x), given)
        wasted = jnp.sin(x) * 2.0 + jnp.cos(x)  # noqa: F841
        y = jnp.sin(slope) + jnp.cos(slope) * x + x * 2.0 + x**3
        return jnp.sum(y * y) + jnp.sum(jnp.exp(y) * y)

    def whole(x, given):
        loss = model(x, given) * 2.0
        return loss + 1.0

    [node] = [
        node
        for node in draw(whole, jnp.ones(3), jnp.ones(3), budget=4).picture.nodes
        if any("model" in line for line in node.lines)
    ]
    assert "unused: wasted" in node.lines
