"""What each function costs: numbers by hand, by the whole of the program, and by XLA."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import taxpr
from taxpr import introspect
from taxpr._costs.costs import Cost, Costs
from taxpr._costs.placed_costs import placed
from taxpr._errors import ArgumentError

B, D, H, L = 4, 8, 16, 3
PARAMS = {
    "layers": [{"up": jnp.ones((D, H)), "down": jnp.ones((H, D))} for _ in range(L)],
    "head": jnp.ones((D, 2)),
}
X = jnp.ones((B, D))
UP = 2 * B * D * H


def layer(p, x):
    h = jnp.tanh(x @ p["up"])
    return h @ p["down"]


def model(params, x):
    for p in params["layers"]:
        x = layer(p, x)
    return x @ params["head"]


def loss(params, x):
    out = model(params, x)
    return jnp.sum(out**2)


def rows_of(found):
    return {(row.depth, row.name): row for row in found.rows}


def test_the_tree_has_functions_and_statements_with_what_they_cost():
    found = taxpr.summary(loss)(PARAMS, X)
    rows = rows_of(found)
    assert [(row.depth, row.name) for row in found.rows] == [
        (0, "loss"),
        (1, "model"),
        (2, "layer"),
        (3, 'h = jnp.tanh(x @ p["up"])'),
        (3, 'return h @ p["down"]'),
        (2, 'return x @ params["head"]'),
        (1, "return jnp.sum(out**2)"),
    ]
    one = rows[2, "layer"]
    assert (one.calls, one.iterations, one.equations) == (L, 1, 3 * L)
    assert one.flops == L * 2 * UP
    assert one.transcendentals == L * B * H
    assert one.parameters == L * 2 * D * H
    assert one.parameter_bytes == 4 * one.parameters
    assert one.shape == "f32[4,8]"
    assert one.code == "x = layer(p, x)"
    first = rows[3, 'h = jnp.tanh(x @ p["up"])']
    assert (first.variable, first.flops, first.parameters) == ("h", L * UP, L * D * H)
    assert first.line.startswith("test_summary.py:")
    whole = found.rows[0]
    assert (whole.parameters, whole.shape, whole.calls) == (L * 2 * D * H + 2 * D, "f32[]", 1)
    assert found.parameters == whole.parameters
    assert whole.share == 1.0
    assert not found.kept


def layer_of(x):
    y = jnp.sin(x)
    return y * 2


def spread(found):
    """Each row with the rows directly below it."""
    for k, row in enumerate(found.rows):
        inside = []
        for other in found.rows[k + 1 :]:
            if other.depth <= row.depth:
                break
            if other.depth == row.depth + 1:
                inside.append(other)
        yield row, inside


def in_scan(weights, x):
    def step(x, w):
        y = jnp.sin(x @ w)
        return y, jnp.sum(y)

    last, sums = lax.scan(step, x, weights)
    return last.sum() + sums.sum()


def in_branch(weights, x):
    def dear(x):
        return x @ weights[0] @ weights[1]

    def cheap(x):
        return x * 2

    return lax.cond(x[0, 0] > 0, dear, cheap, x).sum()


def in_helper(weights, x):
    @jax.jit
    def helper(x):
        return jnp.tanh(x @ weights[0])

    return helper(helper(x)).sum()


@jax.checkpoint
def block(x, w):
    return jnp.sin(jnp.sin(x @ w))


def recomputed(weights, x):
    return lax.scan(lambda x, w: (block(x, w), None), x, weights)[0].sum()


WEIGHTS = jnp.ones((5, D, D))
GRADIENTS = [in_scan, in_branch, in_helper, recomputed]
PROGRAMS = [*GRADIENTS, *map(jax.grad, GRADIENTS), jax.vmap(in_scan, (None, 0))]


@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_the_parts_add_up_to_the_whole(k):
    fun, args = PROGRAMS[k], (WEIGHTS, jnp.ones((3, B, D)) if k == 8 else X)
    program = taxpr.trace(fun, names=True)(*args)
    found, whole = taxpr.summary(fun)(*args), Costs().of_jaxpr(program)
    first = found.rows[0]
    assert (first.flops, first.transcendentals) == (whole.flops, whole.transcendentals)
    parts = list(placed(program.jaxpr))
    each = [(one.cost, part.times, part.counted) for part in parts for one in part.eqns]
    counted = [cost.times(times) for cost, times, counts in each if cost and counts]
    assert Cost.total(counted).flops == whole.flops
    assert first.equations == len(each)  # with those that hold others
    assert first.equations == sum(1 for _ in introspect.iter_eqns(program.jaxpr))
    for row, inside in spread(found):
        if inside and not row.at_most:
            assert sum(one.flops for one in inside) <= row.flops
            assert sum(one.equations for one in inside) <= row.equations
            assert sum(one.kept for one in inside) <= row.kept
    own = [
        address for row, inside in spread(found) if not inside for address in row.equation_addresses
    ]
    assert len(own) == len(set(own))


def test_in_a_scan_the_iterations_are_told():
    found = taxpr.summary(in_scan)(WEIGHTS, X)
    row = rows_of(found)[1, "step"]
    once = 2 * B * D * D + B * D - 1
    assert (row.calls, row.iterations, row.flops) == (1, 5, 5 * once)
    assert row.parameters == WEIGHTS.size
    assert row.shape == "f32[4,8], f32[]"
    assert row.code == "last, sums = lax.scan(step, x, weights)"
    line = next(line for line in str(found).splitlines() if "step" in line)
    assert f"5 × {once} FLOP" in line


def test_a_while_loop_counts_once_and_says_so():
    def grow(x):
        def step(x):
            return x @ x

        return lax.while_loop(lambda x: x[0, 0] < 100, step, x)

    found = taxpr.summary(grow)(jnp.ones((D, D)))
    row = rows_of(found)[1, "step"]
    assert (row.iterations, row.flops, row.endless) == (None, 2 * D**3, True)
    assert "each: of a while loop with an unknown length, one iteration counts." in found.notes
    assert "1.02 kFLOP each" in str(found)


def test_of_a_cond_the_dearest_branch_counts():
    found = taxpr.summary(in_branch)(WEIGHTS, X)
    rows = rows_of(found)
    dear, cheap = rows[1, "dear"], rows[1, "cheap"]
    assert (dear.flops, cheap.flops) == (2 * 2 * B * D * D, B * D)
    assert (dear.at_most, cheap.at_most) == (False, True)
    assert found.rows[0].at_most
    assert "≤: of a cond, the branch with most operations counts." in found.notes


def test_a_branch_that_computes_nothing_is_less():
    def f(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda x: x @ w, lambda x: x, x)

    found = taxpr.summary(f)(jnp.ones((D, D)), jnp.ones((D, D)))
    assert found.rows[0].at_most
    assert "≤" in str(found)


def test_what_is_not_counted_is_named():
    def f(x):
        return jnp.linalg.eigh(x)[0]

    found = taxpr.summary(f)(jnp.ones((D, D)))
    assert found.rows[0].unknown == ("eigh",)
    assert "≥: the operations of eigh are not counted." in found.notes
    assert "≥ " in str(found)


def test_a_jitted_helper_counts_its_calls():
    found = taxpr.summary(in_helper)(WEIGHTS, X)
    row = rows_of(found)[1, "helper"]
    assert (row.calls, row.iterations, row.parameters) == (2, 1, WEIGHTS.size)


def test_calls_are_counted_whatever_loops_are_in_the_function():
    def looping(x):
        for _ in range(7):
            x = jnp.sin(x)
        y = x * 2
        return y + 1

    def f(x):
        for _ in range(3):
            x = looping(x)
        return looping(x)

    rows = taxpr.summary(f)(1.0).rows
    assert [row.calls for row in rows if row.name == "looping"] == [3, 1]

    def only_a_loop(x):
        for _ in range(7):
            x = jnp.sin(x)
        return x

    def calls(fun):
        rows = taxpr.summary(fun)(1.0).rows
        return next(row.calls for row in rows if row.name == "only_a_loop")

    assert calls(lambda x: only_a_loop(x) + 1) == 1
    assert calls(lambda x: only_a_loop(only_a_loop(x)) + 1) == 2
    assert taxpr.summary(lambda x: layer_of(layer_of(x)))(1.0).rows[1].calls == 2

    def in_both_loops(x):
        for _ in range(2):
            x = only_a_loop(x)
        return x

    assert calls(in_both_loops) is None  # 2 calls of 7 turns, or 7 of 2


def test_the_loops_of_a_library_are_no_calls(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "looping_library.py").write_text(
        "import jax.numpy as jnp\n\n"
        "def chained(fun, x, n):\n    for _ in range(n):\n        x = fun(jnp.sin(x))\n"
        "    return x\n\n"
        "def update(x, n):\n    return chained(jnp.cos, x, n) + 1.0\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    import looping_library as library

    def inner(x):
        h = library.chained(jnp.tanh, x, 5)
        return h * 2

    def step(x):
        y = library.update(x, 6)
        z = library.chained(jnp.cos, y, 4)
        return inner(inner(z))

    found = {row.name: row.calls for row in taxpr.summary(step)(1.0).rows}
    assert found["y = library.update(x, 6)"] == 1
    assert found["z = library.chained(jnp.cos, y, 4)"] is None
    assert found["inner"] == found["return h * 2"] == 2


def test_a_gradient_says_its_backward_pass_and_what_it_keeps():
    found = taxpr.summary(jax.grad(loss))(PARAMS, X)
    rows, use = rows_of(found), taxpr.memory(jax.grad(loss), compile=False)(PARAMS, X)
    assert found.kept == use.residuals.total > 0
    one = rows[2, "layer"]
    assert one.shape == "f32[4,8]"
    assert one.backward >= L * 4 * UP - 2 * UP  # nobody wants the gradient by x
    assert one.calls == L
    plain = taxpr.summary(loss)(PARAMS, X).rows[0]
    assert found.rows[0].flops - found.rows[0].backward >= plain.flops - 2 * B * 2


# XLA drops, shares and simplifies what is small beside the products.
@pytest.mark.parametrize("fun", [loss, jax.value_and_grad(loss)], ids=["loss", "gradient"])
def test_xla_counts_as_much(fun):
    params = jax.tree.map(lambda x: jnp.tile(x, (16, 16)), PARAMS)
    x = jnp.tile(X, (16, 16))
    said = jax.jit(fun).lower(params, x).compile().cost_analysis()["flops"]
    assert taxpr.summary(fun)(params, x).flops == pytest.approx(said, rel=0.03)


def test_parameters_are_the_first_argument_or_those_that_are_named():
    def f(x, weights, scale):
        return (x @ weights["a"].astype(jnp.float32)) * scale

    args = X, {"a": jnp.ones((D, 2), jnp.bfloat16), "b": jnp.ones(7)}, jnp.ones(())
    assert taxpr.summary(f)(*args).parameters == B * D
    found = taxpr.summary(f, parameters="weights")(*args)
    assert (found.parameters, found.parameter_bytes) == (2 * D + 7, 4 * D + 28)
    assert found.rows[0].parameters == 2 * D  # which it uses, through a cast
    assert taxpr.summary(f, parameters="weights['a']")(*args).parameters == 2 * D
    assert taxpr.summary(f, parameters=("weights", "scale"))(*args).parameters == 2 * D + 8
    assert taxpr.summary(f, parameters=())(*args).parameters == 0
    with pytest.raises(ArgumentError, match=r"no argument is 'w', but x, weights, scale\."):
        taxpr.summary(f, parameters="w")(*args)
    for wrong in (3, [3], {"x": 1}):
        with pytest.raises(ArgumentError, match="give the name of an argument, or a list of"):
            taxpr.summary(f, parameters=wrong)(*args)


def test_parameters_that_are_closed_over_and_whole_numbers():
    table = jnp.ones((D, 2))
    assert taxpr.summary(lambda x: x @ table)(X).parameters == table.size
    counts = {"n": jnp.arange(3), "w": jnp.ones(2)}
    assert taxpr.summary(lambda p: p["w"].sum() * p["n"][0].astype(float))(counts).parameters == 2


def test_it_is_folded_to_one_screen_and_keeps_what_costs_most():
    def wide(x):
        y = x @ x
        a = jnp.sin(x)
        b = jnp.cos(x)
        c = a * b
        d = c + a
        e = d - b
        f = e * e
        g = f + 1
        return y + g

    def f(x):
        y = wide(x)
        y = wide(y[:4, :4])
        y = wide(y[:3, :3])
        return wide(y[:2, :2]).sum()

    found = taxpr.summary(f)(jnp.ones((8, 8)))
    assert len(found.rows) > 36
    shown = found.texts()[1:]
    assert len(shown) == 20
    assert f"… and {len(found.rows) - 20} more rows in .rows, which take less" in found.notes
    assert str(found).count("… and") == 1
    least = min(row.flops for row in found.listed())
    left = [row for row in found.rows if row not in found.listed()]
    assert max(row.flops for row in left) <= least
    names = [name.rpartition("├ ")[2] for name, *_ in shown]
    assert names[0] == found.rows[0].name


def test_it_plots_and_writes_itself():
    found = taxpr.summary(loss)(PARAMS, X)
    chart = found.chart()
    assert [box.name for box in chart.boxes][:3] == ["loss", "model", "layer"]
    assert all(box.begin >= 0 and box.begin + box.width <= 1 + 1e-9 for box in chart.boxes)
    assert "layer: " in chart.svg()
    assert "layer" in chart.text().splitlines()[2]
    assert "<svg" in found._repr_mimebundle_()["text/html"]
    rows = json.loads(found.to_json())["rows"]
    assert [row["depth"] for row in rows] == [row.depth for row in found.rows]
    assert len(found.to_csv().splitlines()) == len(rows) + 1
    assert not taxpr.summary(lambda x: x)(1.0).chart()


def test_addresses_are_of_the_program():
    program = taxpr.trace(loss, names=True)(PARAMS, X)
    addresses = {address for address, _ in taxpr.introspect.iter_eqns(program)}
    found = taxpr.summary(program)(PARAMS, X)
    assert {address for row in found.rows for address in row.equation_addresses} <= addresses
    assert found.rows[0].address in addresses


def test_measured_time_and_memory_are_those_of_profile_and_memory():
    n = 256
    params = {
        "layers": [{"up": jnp.ones((n, n)), "down": jnp.ones((n, n))}] * 2,
        "head": jnp.ones((n, 2)),
    }
    found = taxpr.summary(jax.grad(loss), measure=True)(params, jnp.ones((n, n)))
    whole = found.rows[0]
    assert 0 < whole.seconds <= found.wall
    assert 0 < found.coverage <= 1
    use = taxpr.memory(jax.grad(loss))(params, jnp.ones((n, n)))
    assert found.memory == use.total
    assert 0 < whole.at_peak <= use.total
    for row, inside in spread(found):
        assert sum(one.seconds for one in inside) <= row.seconds + 1e-12
    assert {"seconds", "at_peak"} <= set(found.texts()[0])
    plain = taxpr.summary(loss)(PARAMS, X)
    assert plain.rows[0].seconds is None
    assert "seconds" not in plain.texts()[0]


def test_types_and_static_arguments_are_taken():
    def power(x, n):
        for _ in range(n):
            x = x @ x
        return x

    jitted = jax.jit(power, static_argnames="n")
    found = taxpr.summary(jitted)(jax.ShapeDtypeStruct((D, D), jnp.float32), n=3)
    assert found.flops == 3 * 2 * D**3


def test_a_tree_of_a_program_without_names_and_of_library_code_alone():
    program = taxpr.trace(loss)(PARAMS, X)
    assert taxpr.summary(program)(PARAMS, X).flops == taxpr.summary(loss)(PARAMS, X).flops
    found = taxpr.summary(jnp.dot)(np.ones((D, D), np.float32), np.ones((D, D), np.float32))
    assert [(row.depth, row.name, row.flops) for row in found.rows] == [(0, "dot", 2 * D**3)]


@pytest.mark.parametrize("given", [list, tuple])
def test_each_element_of_a_tuple_is_a_parameter(given):
    def f(weights, x):
        return weights[0] * x + weights[1] ** weights[2]

    found = taxpr.summary(f)(given([jnp.ones(3), jnp.ones(3), jnp.ones(())]), jnp.ones(3))
    assert (found.parameters, found.rows[0].parameters) == (7, 7)
    assert "7 parameters (weights, 28 bytes)" in str(found)


def test_the_first_of_several_arguments_by_position_is_the_parameters():
    def f(*args):
        return args[0]["w"] * args[1] + args[0]["b"]

    found = taxpr.summary(f)({"w": jnp.ones(3), "b": jnp.ones(2).sum()}, jnp.ones(3))
    assert found.parameters == 4
    assert "(args[0], 16 bytes)" in str(found)


def scanned(params, x):
    def step(x, p):
        return layer(p, x), None

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params["layers"])
    x, _ = lax.scan(jax.checkpoint(step), x, stacked)
    return jnp.sum(jnp.where(x > 0, x, 0.0))


@pytest.mark.parametrize("fun", [loss, scanned, jax.grad(scanned), jax.jit(jax.grad(scanned))])
def test_all_counts_of_equations_are_one(fun):
    """Each counts once, however often it runs; one that holds others counts besides them."""
    program = taxpr.trace(fun)(PARAMS, X)
    number = sum(1 for _ in introspect.iter_eqns(program.jaxpr))
    assert taxpr.summary(program)(PARAMS, X).rows[0].equations == number
    listing = program.listing()
    of_lines = [sum(line.counted) for part in listing.parts for line in part.lines]
    told = {
        found.address
        for part in listing.parts
        for line in part.lines
        for found in (*line.equations, *line.holding)
    }
    # A call of the whole program, as by `jax.jit`, is of no line of the function.
    around = [
        eqn for eqn in program.eqns if introspect.is_hop(eqn) and not introspect.statements_of(eqn)
    ]
    assert len(told) == sum(of_lines) == number - len(around) - len(listing.unknown)
